"""Calls that a model answers while the caller waits: judgments, fingerprints, and OpenAI's completions and responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from pydantic_core import to_json

from judges.verdict import Verdict
from server.errors import ERRORS
from server.hosting.openai_layer import Reply, encoded
from server.judge_spec import JudgeSpec
from server.model_pool import JudgmentsRequest
from server.routes.shared import PoolNow, somebody_waits, while_connected
from server.routes.tags import Tag
from server.safety.callers import CallerNow
from server.safety.logs import log_samples

router = APIRouter()

COMPLETION_RESPONSES: dict[int | str, dict[str, Any]] = {
    **ERRORS,
    200: {"content": {"text/event-stream": {}}, "description": "The completion, or its events with `stream`."},
    422: {"description": "vLLM cannot answer such a request."},
    501: {"description": "The model's engine has no such endpoint."},
}

CHAT = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 16}
RESPONSE = {"input": "Say hello.", "max_output_tokens": 16}
TEXT = {"prompt": "Once upon a time", "max_tokens": 16}


class JudgmentsResponse(BaseModel):
    """The verdicts on the samples of one call."""

    object: Literal["list"] = "list"
    judge: str = Field(description="The judge.")
    model: str = Field(description="The model, or the version of an adapter, that answered.")
    fingerprint: str = Field(description="A digest of everything that the verdicts depend on besides their samples.")
    data: list[Verdict] = Field(description="A verdict for each sample, in their order.")


@router.post("/v1/judgments", tags=[Tag.JUDGE], response_model=JudgmentsResponse, responses=ERRORS)
async def judge_now(body: JudgmentsRequest, request: Request, caller: CallerNow, pool: PoolNow) -> Response:
    """Judge samples while you wait, ahead of any batch.

    Every sample gets a verdict: `scored`, or `unscored` with the reason. For more than a few hundred samples send a batch.
    With the header `Priority: u=7` (RFC 9218: nobody waits) the call comes after those of others.
    """
    log_samples("samples", samples=body.samples)
    reply = await while_connected(request, pool.judge(body, caller=caller.name, urgent=somebody_waits(request)))
    content = {**reply, "data": [verdict.as_fields() for verdict in reply["data"]]}
    return Response(to_json(content), media_type="application/json")


class FingerprintRequest(JudgeSpec):
    """A judge and a model."""

    model: str | None = Field(None, max_length=256, description="A hosted model or adapter; the server's default if left out.")


class FingerprintResponse(BaseModel):
    """Everything that verdicts of a judge and a model depend on besides their samples."""

    object: Literal["fingerprint"] = "fingerprint"
    model: str = Field(description="The model's full name.")
    digest: str = Field(description="The digest that verdicts carry.")
    fields: dict[str, Any] = Field(description="The values that are digested.")


@router.post("/v1/fingerprints", tags=[Tag.JUDGE], responses=ERRORS)
async def fingerprint(body: FingerprintRequest, caller: CallerNow, pool: PoolNow) -> FingerprintResponse:
    """Say what verdicts would depend on, so that a client can tell whether earlier ones still hold."""
    basis, model = await pool.fingerprint(body, body.model)
    return FingerprintResponse(model=model, digest=basis.digest, fields=basis.fields())


@router.post("/v1/chat/completions", tags=[Tag.COMPLETE], responses=COMPLETION_RESPONSES)
async def complete_chat(
    request: Request, caller: CallerNow, pool: PoolNow, body: Annotated[dict[str, Any], Body(examples=[CHAT])]
) -> Response:
    """OpenAI's chat completions, with streaming, `response_format`, log-probabilities, and adapters by the name of the model."""
    work = pool.complete("/v1/chat/completions", body, caller=caller.name, urgent=somebody_waits(request))
    return _completion(await while_connected(request, work))


@router.post("/v1/completions", tags=[Tag.COMPLETE], responses=COMPLETION_RESPONSES)
async def complete_text(
    request: Request, caller: CallerNow, pool: PoolNow, body: Annotated[dict[str, Any], Body(examples=[TEXT])]
) -> Response:
    """OpenAI's text completions."""
    work = pool.complete("/v1/completions", body, caller=caller.name, urgent=somebody_waits(request))
    return _completion(await while_connected(request, work))


@router.post("/v1/responses", tags=[Tag.COMPLETE], responses=COMPLETION_RESPONSES)
async def respond(
    request: Request, caller: CallerNow, pool: PoolNow, body: Annotated[dict[str, Any], Body(examples=[RESPONSE])]
) -> Response:
    """OpenAI's responses: text in, text or JSON out, with streaming. Nothing is kept: send the earlier turns in `input`."""
    work = pool.respond(body, caller=caller.name, urgent=somebody_waits(request))
    return _completion(await while_connected(request, work))


def _completion(reply: Reply) -> Response:
    if reply.events is not None:
        return StreamingResponse(encoded(reply.events), media_type="text/event-stream")
    return Response(to_json(reply.body), reply.status, media_type="application/json")

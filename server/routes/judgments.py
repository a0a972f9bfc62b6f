"""``POST /v1/judgments``: samples in, verdicts out, while the caller waits."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from pydantic_core import to_json

from judges.verdict import Verdict
from server.asking import JudgeRequest
from server.court import Court, JudgmentsRequest
from server.errors import ERRORS
from server.routes.waiting import somebody_waits, while_connected
from server.safety.callers import CallerNow
from server.safety.logs import log_samples

router = APIRouter(tags=["judgments"])


class JudgmentsResponse(BaseModel):
    """The verdicts on the samples of one call."""

    object: Literal["list"] = "list"
    judge: str = Field(description="The judge that was asked.")
    model: str = Field(description="The model or the version of an adapter that answered.")
    fingerprint: str = Field(description="Stands for everything that the verdicts depend on besides their samples.")
    data: list[Verdict] = Field(description="A verdict for each sample, in their order.")


@router.post("/v1/judgments", response_model=JudgmentsResponse, responses=ERRORS)
async def judge_now(body: JudgmentsRequest, request: Request, caller: CallerNow) -> Response:
    """Judge samples while you wait, ahead of any batch.

    Every sample gets a verdict: `scored`, or `unscored` with the reason. For more than a few hundred samples send a batch.
    With the header `Priority: u=7` (RFC 9218: nobody waits) the call comes after those of others.
    """
    court: Court = request.app.state.court
    log_samples("samples", samples=body.samples)
    reply = await while_connected(request, court.judge(body, caller=caller.name, urgent=somebody_waits(request)))
    content = {**reply, "data": [verdict.as_fields() for verdict in reply["data"]]}
    return Response(to_json(content), media_type="application/json")


class FingerprintRequest(JudgeRequest):
    """A judge and a model."""

    model: str | None = Field(None, max_length=256, description="A hosted model or adapter; the server's default if left out.")


class FingerprintResponse(BaseModel):
    """What verdicts of a judge and a model depend on besides their samples."""

    object: Literal["fingerprint"] = "fingerprint"
    model: str = Field(description="The model's full name.")
    digest: str = Field(description="As verdicts carry it.")
    fields: dict[str, Any] = Field(description="What it is made of.")


@router.post("/v1/fingerprints", responses=ERRORS)
async def fingerprint(body: FingerprintRequest, request: Request, caller: CallerNow) -> FingerprintResponse:
    """Say what verdicts would depend on, so that a client can tell whether those it has are still good."""
    court: Court = request.app.state.court
    found, model = await court.fingerprint(body, body.model)
    return FingerprintResponse(model=model, digest=found.digest, fields=found.fields())

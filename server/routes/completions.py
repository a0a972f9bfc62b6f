"""OpenAI's chat and text completions for every hosted model, so that other tools can use the judges."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from server.court import Court
from server.errors import ERRORS
from server.hosting.openai_layer import Path, events_as_text
from server.routes.waiting import somebody_waits, while_connected
from server.safety.callers import Caller, CallerNow

router = APIRouter(tags=["completions"])

RESPONSES: dict[int | str, dict[str, Any]] = {
    **ERRORS,
    200: {"content": {"text/event-stream": {}}, "description": "The completion, or its events with `stream`."},
    422: {"description": "vLLM cannot answer such a request."},
    501: {"description": "The model's engine has no such endpoint."},
}

CHAT = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 16}
TEXT = {"prompt": "Once upon a time", "max_tokens": 16}


@router.post("/v1/chat/completions", responses=RESPONSES)
async def complete_chat(request: Request, caller: CallerNow, body: Annotated[dict[str, Any], Body(examples=[CHAT])]) -> Response:
    """OpenAI's chat completions, with streaming, `response_format`, log-probabilities, and adapters by the name of the model."""
    return await _answer("/v1/chat/completions", body, request, caller)


@router.post("/v1/completions", responses=RESPONSES)
async def complete_text(request: Request, caller: CallerNow, body: Annotated[dict[str, Any], Body(examples=[TEXT])]) -> Response:
    """OpenAI's text completions."""
    return await _answer("/v1/completions", body, request, caller)


async def _answer(path: Path, body: dict[str, Any], request: Request, caller: Caller) -> Response:
    court: Court = request.app.state.court
    reply = await while_connected(request, court.complete(path, body, caller=caller.name, urgent=somebody_waits(request)))
    if reply.events is not None:
        return StreamingResponse(events_as_text(reply.events), media_type="text/event-stream")
    return Response(to_json(reply.body), reply.status, media_type="application/json")

"""For operators: whether the server is alive, whether it is ready, and its metrics."""

from __future__ import annotations

import asyncio
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from server.errors import ERRORS
from server.metrics import Metrics
from server.routes.shared import BatchesNow, PoolNow
from server.routes.tags import Tag
from server.safety.callers import CallerNow

router = APIRouter(tags=[Tag.OPERATE])


class Health(BaseModel):
    """A sign of life."""

    status: Literal["alive"] = "alive"


class ModelState(BaseModel):
    """The state of a model."""

    state: str = Field(description="waiting, loading, ready, asleep, restarting or failed.")
    reason: str | None = Field(None, description="Why it is not ready.")
    restarts: int = Field(description="How often its engine died and was restarted.")


class Readiness(BaseModel):
    """The state of the server."""

    ready: bool = Field(description="Whether every model can answer.")
    paused: str | None = Field(description="Why batches make no progress at the moment.")
    models: dict[str, ModelState]


@router.get("/health")
async def health() -> Health:
    """Say that the server is alive."""
    return Health()


@router.get("/ready", responses={503: {"model": Readiness, "description": "Some model cannot answer yet."}})
async def ready(response: Response, pool: PoolNow, batches: BatchesNow) -> Readiness:
    """Say whether every model can answer: 200 if so, else 503. Either way the answer has the state of every model."""
    hosted = pool.models.values()
    models = {model.name: ModelState(state=model.state, reason=model.reason, restarts=model.restarts) for model in hosted}
    available = all(model.available for model in hosted)
    response.status_code = 200 if available else 503
    return Readiness(ready=available, paused=batches.paused, models=models)


@router.get("/metrics", responses=ERRORS, response_class=Response)
async def metrics(request: Request, caller: CallerNow, pool: PoolNow) -> Response:
    """The server's metrics, as Prometheus reads them."""
    current: Metrics = request.app.state.metrics
    for model in pool.models.values():
        current.model_is(model.name, model.state)
    content, kind = await asyncio.to_thread(current.exposition)
    return Response(content, media_type=kind)

"""For whoever runs the server: whether it lives, whether it is ready, and its figures."""

from __future__ import annotations

import asyncio
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from server.batches.desk import Desk
from server.court import Court
from server.errors import ERRORS
from server.metrics import Metrics
from server.safety.callers import CallerNow

router = APIRouter(tags=["operations"])


class Health(BaseModel):
    """A sign of life."""

    status: Literal["alive"] = "alive"


class ModelState(BaseModel):
    """How a model is."""

    state: str = Field(description="waiting, loading, ready, asleep, restarting or failed.")
    reason: str | None = Field(None, description="Why it is not ready.")
    restarts: int = Field(description="How often its engine died and was started again.")


class Readiness(BaseModel):
    """How the server is."""

    ready: bool = Field(description="Whether every model can be asked.")
    paused: str | None = Field(description="Why batches do not move at the moment.")
    models: dict[str, ModelState]


@router.get("/health")
async def health() -> Health:
    """Say that the server is alive."""
    return Health()


@router.get("/ready", responses={503: {"model": Readiness, "description": "Some model cannot be asked yet."}})
async def ready(request: Request, response: Response) -> Readiness:
    """Say whether every model can be asked: 200 if so, else 503. Either answer says what is wrong with a model."""
    court: Court = request.app.state.court
    desk: Desk = request.app.state.desk
    models = {
        host.name: ModelState(state=host.state, reason=host.reason, restarts=host.restarts) for host in court.hosts.values()
    }
    able = all(host.available for host in court.hosts.values())
    response.status_code = 200 if able else 503
    return Readiness(ready=able, paused=desk.paused, models=models)


@router.get("/metrics", responses=ERRORS, response_class=Response)
async def metrics(request: Request, caller: CallerNow) -> Response:
    """The server's figures, as Prometheus reads them."""
    found: Metrics = request.app.state.metrics
    for host in request.app.state.court.hosts.values():
        found.model_is(host.name, host.state)
    content, kind = await asyncio.to_thread(found.exposition)
    return Response(content, media_type=kind)

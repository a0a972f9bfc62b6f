"""The hosted models, and the adapters that are loaded into them."""

from __future__ import annotations

import asyncio
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from server.bodies import Body
from server.court import Court
from server.errors import ERRORS, ApiError
from server.hosting.host import Host
from server.safety.callers import CallerNow
from server.store import AdapterRecord, Store

router = APIRouter(tags=["models"])


class Model(BaseModel):
    """A model that requests can name, or a version of an adapter."""

    id: str = Field(description="The name to ask for it by.")
    object: Literal["model"] = "model"
    created: int = Field(description="When the server took it up, in seconds since 1970.")
    owned_by: str = "magistrate"
    root: str = Field(description="The repository or folder of the model.")
    parent: str | None = Field(None, description="The model that an adapter belongs to.")
    max_model_len: int | None = Field(None, description="Length of the context in tokens, once the model is loaded.")
    state: str = Field(description="waiting, loading, ready, asleep, restarting or failed.")
    reason: str | None = Field(None, description="Why the model is not ready.")


class Models(BaseModel):
    """All models."""

    object: Literal["list"] = "list"
    data: list[Model]


class AdapterRequest(Body):
    """An adapter to load."""

    name: str = Field(
        max_length=64, description="A name for it. Loading other weights under it makes a new version.", examples=["weak-spots"]
    )
    path: str = Field(max_length=4096, description="Its folder on the server, in one of those that it was started with.")
    model: str | None = Field(None, max_length=256, description="The model it belongs to; the server's default if left out.")


class DeletedAdapter(BaseModel):
    """An adapter that was unloaded."""

    id: str
    object: Literal["model"] = "model"
    deleted: Literal[True] = True


def _models_of(host: Host) -> list[Model]:
    length = host.context
    base = Model(
        id=host.name,
        created=host.created,
        root=host.spec.model,
        max_model_len=length,
        state=host.state,
        reason=host.reason,
    )
    return [base, *(base.model_copy(update={"id": adapter.name, "parent": host.name}) for adapter in host.adapters)]


@router.get("/v1/models", responses=ERRORS)
async def list_models(request: Request, caller: CallerNow) -> Models:
    """List the models, the default first."""
    court: Court = request.app.state.court
    return Models(data=[model for host in court.hosts.values() for model in _models_of(host)])


@router.get("/v1/models/{name:path}", responses=ERRORS)
async def get_model(name: str, request: Request, caller: CallerNow) -> Model:
    """One model, or one version of an adapter."""
    court: Court = request.app.state.court
    host, adapter = court.find(name)
    return next(model for model in _models_of(host) if model.id == (adapter.name if adapter else host.name))


@router.post("/v1/adapters", responses=ERRORS)
async def load_adapter(body: AdapterRequest, request: Request, caller: CallerNow) -> Model:
    """Load a LoRA adapter while the server runs. The answer's `id` names this version of it for good.

    It stays loaded, also when the server is started again, until it is unloaded.
    """
    court: Court = request.app.state.court
    store: Store = request.app.state.store
    host, of_adapter = court.find(body.model)
    if of_adapter is not None:
        raise ApiError(400, "an adapter belongs to a model, not to another adapter", param="model")
    if body.name in court.hosts:
        raise ApiError(400, f"`{body.name}` is the name of a model", param="name")
    adapter = await host.load_adapter(body.name, body.path)
    record = AdapterRecord(host.name, adapter.name, body.name, adapter.digest, latest=True)
    await asyncio.to_thread(store.keep_adapter, record)
    return next(model for model in _models_of(host) if model.id == adapter.name)


@router.delete("/v1/adapters/{name}", responses=ERRORS)
async def unload_adapter(name: str, request: Request, caller: CallerNow) -> DeletedAdapter:
    """Unload an adapter: the latest version of that name, or the version named. Not while batches wait for it."""
    court: Court = request.app.state.court
    store: Store = request.app.state.store
    for host in court.hosts.values():
        adapter = host.adapters.find(name)
        if adapter is None:
            continue
        lines = (await asyncio.to_thread(store.depth)).get(adapter.name, 0)
        if lines:
            message = f"batches have {lines:,} lines left for {adapter.name}; cancel them, or wait until they are done"
            raise ApiError(409, message, "conflict")
        if await host.unload_adapter(adapter.name):
            await asyncio.to_thread(store.forget_adapter, host.name, adapter.name)
            return DeletedAdapter(id=adapter.name)
    raise ApiError(404, f"there is no adapter `{name[:80]}`", code="model_not_found")

"""The hosted models and their adapters."""

from __future__ import annotations

import asyncio
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from server.bodies import Body
from server.errors import ERRORS, ApiError
from server.hosting.hosted_model import HostedModel
from server.routes.shared import PoolNow, StoreNow
from server.routes.tags import Tag
from server.safety.callers import CallerNow
from server.store import AdapterRecord

router = APIRouter(tags=[Tag.MODELS])


class Model(BaseModel):
    """A model that requests can name, or a version of an adapter."""

    id: str = Field(description="The name that requests give.")
    object: Literal["model"] = "model"
    created: int = Field(description="When the server began to host it, in seconds since 1970.")
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
        max_length=64,
        description="Its name. Other weights under the same name are a new version.",
        examples=["weak-spots"],
    )
    path: str = Field(max_length=4096, description="Its folder on the server, within a folder that the server was started with.")
    model: str | None = Field(None, max_length=256, description="The model it belongs to; the server's default if left out.")


class DeletedAdapter(BaseModel):
    """An adapter that was unloaded."""

    id: str
    object: Literal["model"] = "model"
    deleted: Literal[True] = True


def _models_of(model: HostedModel) -> list[Model]:
    base = Model(
        id=model.name,
        created=model.created,
        root=model.spec.model,
        max_model_len=model.context,
        state=model.state,
        reason=model.reason,
    )
    return [base, *(base.model_copy(update={"id": adapter.name, "parent": model.name}) for adapter in model.adapters)]


@router.get("/v1/models", responses=ERRORS)
async def list_models(caller: CallerNow, pool: PoolNow) -> Models:
    """List the models, the default first."""
    return Models(data=[entry for model in pool.models.values() for entry in _models_of(model)])


@router.get("/v1/models/{name:path}", responses=ERRORS)
async def get_model(name: str, caller: CallerNow, pool: PoolNow) -> Model:
    """Describe a model, or a version of an adapter."""
    model, adapter = pool.find(name)
    return next(entry for entry in _models_of(model) if entry.id == (adapter.name if adapter else model.name))


@router.post("/v1/adapters", responses=ERRORS)
async def load_adapter(body: AdapterRequest, caller: CallerNow, pool: PoolNow, store: StoreNow) -> Model:
    """Load a LoRA adapter while the server runs. The answer's `id` always stands for this version of it.

    It stays loaded until it is unloaded, also across restarts of the server.
    """
    model, of_adapter = pool.find(body.model)
    if of_adapter is not None:
        raise ApiError(400, "an adapter belongs to a model, not to another adapter", param="model")
    if body.name in pool.models:
        raise ApiError(400, f"`{body.name}` is the name of a model: choose another name", param="name")
    adapter = await model.load_adapter(body.name, body.path)
    record = AdapterRecord(model.name, adapter.name, body.name, adapter.digest, latest=True)
    await asyncio.to_thread(store.keep_adapter, record)
    return next(entry for entry in _models_of(model) if entry.id == adapter.name)


@router.delete("/v1/adapters/{name}", responses=ERRORS)
async def unload_adapter(name: str, caller: CallerNow, pool: PoolNow, store: StoreNow) -> DeletedAdapter:
    """Unload an adapter: the latest version of that name, or the version named. Not while batches wait for it."""
    for model in pool.models.values():
        adapter = model.adapters.find(name)
        if adapter is None:
            continue
        lines = (await asyncio.to_thread(store.depth)).get(adapter.name, 0)
        if lines:
            message = f"batches have {lines:,} lines left for {adapter.name}; cancel them, or wait until they are done"
            raise ApiError(409, message, "conflict")
        if await model.unload_adapter(adapter.name):
            await asyncio.to_thread(store.forget_adapter, model.name, adapter.name)
            return DeletedAdapter(id=adapter.name)
    raise ApiError(404, f"there is no adapter `{name[:80]}`", code="model_not_found")

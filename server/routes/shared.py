"""Shared by routes: the parts of the application, pages of lists, and whether a caller waits for its answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict
from starlette.requests import ClientDisconnect

from server.batches.service import BatchService
from server.errors import ApiError
from server.model_pool import ModelPool
from server.settings import Settings
from server.store import Store

BACKGROUND = re.compile(r"(?:^|,)\s*u=7\s*(?:$|[,;])")
"""Urgency 7, which RFC 9218 reserves for background work."""

ENDED = ("completed", "cancelled", "failed")
LONGEST_ID = 64

Answer = TypeVar("Answer")


def _part(name: str) -> Any:
    async def of_state(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(of_state)


StoreNow = Annotated[Store, _part("store")]
PoolNow = Annotated[ModelPool, _part("pool")]
BatchesNow = Annotated[BatchService, _part("batches")]
SettingsNow = Annotated[Settings, _part("settings")]


def somebody_waits(request: Request) -> bool:
    """Check whether the caller waits: not with ``Priority: u=7``, which puts a call behind others, like the lines of a batch."""
    return BACKGROUND.search(request.headers.get("priority", "")) is None


async def while_connected(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Do some work, or cancel it if the client disconnects.

    Raises:
        ClientDisconnect: The client disconnected.
    """

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    answer, leaving = asyncio.create_task(work), asyncio.create_task(gone())
    try:
        await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return await answer
    finally:
        leaving.cancel()
        answer.cancel()


class Listed(BaseModel):
    """An item of a list."""

    id: str


Item = TypeVar("Item", bound=Listed)


class ListPage(BaseModel, Generic[Item]):
    """A page of a list."""

    object: Literal["list"] = "list"
    data: list[Item]
    first_id: str | None = Field(description="The id of the page's first item.")
    last_id: str | None = Field(description="The id of the page's last item: `after` for the next page.")
    has_more: bool = Field(description="Whether there is a next page.")

    @classmethod
    def of(cls, items: Sequence[Item], limit: int) -> Self:
        """Make a page of ``limit`` items, of which there is one more if there is a next page."""
        page = list(items[:limit])
        ends = {"first_id": page[0].id, "last_id": page[-1].id} if page else {"first_id": None, "last_id": None}
        return cls(data=page, has_more=len(items) > limit, **ends)


def with_example(example: JsonDict) -> ConfigDict:
    """Configure a model with an example for the API's description."""
    return ConfigDict(json_schema_extra={"examples": [example]})


def page_of(example: JsonDict) -> JsonDict:
    """Make an example of a page from one of an item."""
    return {"object": "list", "data": [example], "first_id": example["id"], "last_id": example["id"], "has_more": False}


def no_such_file(param: str | None = None) -> ApiError:
    """Make the fault of a file that does not exist, or belongs to another caller."""
    return ApiError(404, "there is no file with this id: look at the list of files", "file_not_found", param)

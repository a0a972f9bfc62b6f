"""Batches, as OpenAI's clients handle them, and their progress as a stream of events."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

from server.batches.desk import Desk
from server.bodies import at_most
from server.court import Court
from server.errors import ERRORS, ApiError
from server.routes.files import ENDED, FILE_ID, LONGEST_ID, error_file_id, no_such_file, output_file_id
from server.safety.callers import CallerNow
from server.safety.idempotency import digest_of, keyed_call
from server.settings import Settings
from server.store import Answer, BatchRecord, Store, StoreAnsweredError, StoreUnavailableError

router = APIRouter(prefix="/v1/batches", tags=["Batches"], responses=ERRORS)

logger = logging.getLogger(__name__)

BATCH_ID = re.compile("batch_[0-9a-f]{24}")

Endpoint = Literal["/v1/judgments", "/v1/chat/completions", "/v1/completions"]
MetadataKey = Annotated[str, StringConstraints(max_length=64)]
MetadataValue = Annotated[str, StringConstraints(max_length=512)]

MOST_METADATA = 16

LOOK_SECONDS = 0.5
"""How often a stream of events looks for news, which is also how often it may tell some."""

HEARTBEAT_SECONDS = 15.0
"""How long a stream of events may be silent."""

QUEUE_RETRY_SECONDS = 60
"""When to call again where the queue is full."""

EXAMPLE: JsonDict = {
    "id": "batch_0199a3f0c1d24be0a1b2c3d4",
    "object": "batch",
    "endpoint": "/v1/judgments",
    "model": "magistrate-tiny",
    "errors": None,
    "input_file_id": "file-0199a3f0c1d24be0a1b2c3d4",
    "completion_window": "24h",
    "status": "in_progress",
    "paused": None,
    "output_file_id": "file-output-0199a3f0c1d24be0a1b2c3d4",
    "error_file_id": None,
    "created_at": 1760000000,
    "in_progress_at": 1760000000,
    "expires_at": None,
    "finalizing_at": None,
    "completed_at": None,
    "failed_at": None,
    "expired_at": None,
    "cancelling_at": None,
    "cancelled_at": None,
    "request_counts": {"total": 1000, "completed": 412, "failed": 0},
    "metadata": {"study": "first"},
}


class BatchRequest(BaseModel):
    """What a new batch shall be."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "input_file_id": EXAMPLE["input_file_id"],
                    "endpoint": EXAMPLE["endpoint"],
                    "completion_window": "24h",
                    "metadata": EXAMPLE["metadata"],
                }
            ]
        }
    )

    input_file_id: str = Field(max_length=LONGEST_ID, description="An uploaded file. All of its lines must name one model.")
    endpoint: Endpoint = Field(description="What each line of the file is a call of.")
    completion_window: str = Field(
        "24h", min_length=1, max_length=64, description="Kept and given back. Nothing expires: a batch runs until it is done."
    )
    metadata: Annotated[dict[MetadataKey, MetadataValue] | None, at_most(MOST_METADATA)] = Field(
        None,
        max_length=MOST_METADATA,
        description="Notes of the caller's: up to 16, with names of up to 64 characters and texts of up to 512.",
    )


class RequestCounts(BaseModel):
    """How many lines a batch has. `completed` and `failed` are exactly the lines of its output file and of its error file."""

    total: int
    completed: int
    failed: int


class BatchError(BaseModel):
    """Why a batch was given up."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


class BatchErrors(BaseModel):
    """Why a batch was given up, as a list."""

    object: Literal["list"] = "list"
    data: list[BatchError]


class Batch(BaseModel):
    """A batch. All times are in seconds since 1970."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    id: str = Field(description="`batch_` and 24 hexadecimal digits.")
    object: Literal["batch"] = "batch"
    endpoint: str = Field(description="What each line is a call of.")
    model: str | None = Field(
        description="The model that judges the lines: of an adapter, the version that was the latest when the batch was created."
    )
    errors: BatchErrors | None = Field(None, description="Why a failed batch was given up.")
    input_file_id: str
    completion_window: str = Field(description="As given; nothing expires.")
    status: Literal["in_progress", "cancelling", "completed", "cancelled", "failed"]
    paused: str | None = Field(
        None, description="Why nothing moves at the moment; null where something does, or nothing is left."
    )
    output_file_id: str = Field(description="The file with the answers. It can be read while the batch runs.")
    error_file_id: str | None = Field(description="The file with the lines that failed; null as long as none did.")
    created_at: int
    in_progress_at: int | None = None
    expires_at: int | None = Field(None, description="Never.")
    finalizing_at: int | None = Field(None, description="Never: the output file needs no finishing.")
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = Field(None, description="Never.")
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    request_counts: RequestCounts
    metadata: dict[str, str] | None = None


class BatchList(BaseModel):
    """A page of batches."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"object": "list", "data": [EXAMPLE], "first_id": EXAMPLE["id"], "last_id": EXAMPLE["id"], "has_more": False}
            ]
        }
    )

    object: Literal["list"] = "list"
    data: list[Batch]
    first_id: str | None = Field(description="The id of the page's first batch.")
    last_id: str | None = Field(description="The id of the page's last batch: `after` for the next page.")
    has_more: bool = Field(description="Whether there is a next page.")


@router.post("", summary="Create a batch", response_model=Batch)
async def create(request: Request, caller: CallerNow, body: BatchRequest) -> Batch | Response:
    """Queue every line of an uploaded file. Results are kept one by one, and survive a restart or crash of the server.

    A call that is sent again with the same `Idempotency-Key` is answered as the first one was, and makes no other batch.
    """
    desk, call = _desk(request), keyed_call(request, caller)
    if call is None:
        return _batch_object(await _create(request, caller.name, body), desk)
    digest = digest_of("POST /v1/batches", body.model_dump_json())
    if await call.was_answered():
        return await call.first_answer(digest)
    try:
        made = await _create(request, caller.name, body, lambda batch: call.answer(digest, _batch_object(batch, desk)))
    except StoreAnsweredError:
        # By another call with this key, which was a moment faster.
        return await call.first_answer(digest)
    return _batch_object(made, desk)


async def _create(
    request: Request, owner: str, body: BatchRequest, answer: Callable[[BatchRecord], Answer] | None = None
) -> BatchRecord:
    store, desk = _store(request), _desk(request)
    known = FILE_ID.fullmatch(body.input_file_id)
    file = await asyncio.to_thread(store.file, body.input_file_id, owner) if known else None
    if file is None:
        raise no_such_file("input_file_id")
    if file.status != "processed":
        raise ApiError(409, f"file {file.id} is still being uploaded: create the batch after that", "conflict", "input_file_id")
    court: Court = request.app.state.court
    model = court.check_model(file.model)
    settings: Settings = request.app.state.settings
    queued = sum((await asyncio.to_thread(store.depth)).values())
    if queued + file.lines > settings.max_queued:
        message = (
            f"the queue is full: {queued:,} lines wait, and with this file's {file.lines:,} there would be more than "
            f"{settings.max_queued:,}; create the batch again when some are done"
        )
        raise ApiError(429, message, "queue_full", headers={"Retry-After": str(QUEUE_RETRY_SECONDS)})
    made = (owner, file, body.endpoint, body.completion_window, body.metadata, model, answer)
    batch = await asyncio.to_thread(store.create_batch, *made)
    desk.work_arrived()
    return batch


@router.get("", summary="List batches")
async def list_batches(
    request: Request,
    caller: CallerNow,
    after: Annotated[str | None, Query(max_length=LONGEST_ID, description="Go on behind the batch with this id.")] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="Batches of a page, at most.")] = 20,
) -> BatchList:
    """The caller's batches, newest first."""
    found = await asyncio.to_thread(_store(request).batches, caller.name, after=after, limit=limit + 1)
    desk = _desk(request)
    page = [_batch_object(batch, desk) for batch in found[:limit]]
    return BatchList(
        data=page,
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
        has_more=len(found) > limit,
    )


@router.get("/{batch_id}", summary="Look at a batch")
async def retrieve(request: Request, caller: CallerNow, batch_id: str) -> Batch:
    """A batch's state. Its counts are true at all times."""
    return _batch_object(await _batch(request, caller.name, batch_id), _desk(request))


@router.post("/{batch_id}/cancel", summary="Cancel a batch")
async def cancel(request: Request, caller: CallerNow, batch_id: str) -> Batch:
    """Stop a batch. What is judged is kept, lines in progress are dropped. A batch that has ended stays as it is."""
    store, desk = _store(request), _desk(request)
    known = BATCH_ID.fullmatch(batch_id)
    batch = await asyncio.to_thread(store.cancel_batch, batch_id, caller.name) if known else None
    if batch is None:
        raise _no_such_batch()
    desk.work_arrived()
    return _batch_object(batch, desk)


@router.get(
    "/{batch_id}/events",
    summary="Follow a batch",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events `progress` and `done`, each with the batch as its data.",
            "content": {
                "text/event-stream": {"example": 'event: progress\ndata: {"id": "batch_...", "status": "in_progress"}\n\n'}
            },
        }
    },
)
async def events(request: Request, caller: CallerNow, batch_id: str) -> StreamingResponse:
    """A batch's progress as server-sent events: `progress` at once and after every change, at most twice a second, and `done`
    when the batch has ended. With that the stream ends, and a browser should close it, which else would open it anew.
    """
    batch = await _batch(request, caller.name, batch_id)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_events(request, batch), media_type="text/event-stream", headers=headers)


async def _events(request: Request, batch: BatchRecord) -> AsyncIterator[str]:
    told: Batch | None = None
    spoke = time.monotonic()
    while True:
        news = _batch_object(batch, _desk(request))
        if news != told:
            yield _event("progress", news)
            told, spoke = news, time.monotonic()
        if batch.status in ENDED:
            yield _event("done", news)
            return
        if time.monotonic() - spoke >= HEARTBEAT_SECONDS:
            yield ": nothing new\n\n"
            spoke = time.monotonic()
        await asyncio.sleep(LOOK_SECONDS)
        if await request.is_disconnected():
            return
        try:
            found = await asyncio.to_thread(_store(request).batch, batch.id, batch.owner)
        except StoreUnavailableError as error:
            logger.warning("a batch cannot be followed for the moment: %s", error)
        else:
            batch = found or batch


def _event(name: str, batch: Batch) -> str:
    return f"event: {name}\ndata: {batch.model_dump_json()}\n\n"


def _store(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


async def _batch(request: Request, owner: str, batch_id: str) -> BatchRecord:
    known = BATCH_ID.fullmatch(batch_id)
    batch = await asyncio.to_thread(_store(request).batch, batch_id, owner) if known else None
    if batch is None:
        raise _no_such_batch()
    return batch


def _no_such_batch() -> ApiError:
    return ApiError(404, "there is no batch with this id: look into the list of batches", "batch_not_found")


def _batch_object(batch: BatchRecord, desk: Desk) -> Batch:
    errors = None
    if batch.status == "failed":
        errors = BatchErrors(data=[BatchError(code="batch_failed", message=batch.error or "the batch was given up")])
    return Batch(
        id=batch.id,
        endpoint=batch.endpoint,
        model=batch.model,
        errors=errors,
        input_file_id=batch.input_file_id,
        completion_window=batch.completion_window,
        status=batch.status,
        paused=desk.waits_because(batch),
        output_file_id=output_file_id(batch),
        error_file_id=error_file_id(batch) if batch.failed else None,
        created_at=batch.created_at,
        in_progress_at=batch.in_progress_at,
        completed_at=batch.completed_at,
        failed_at=batch.failed_at,
        cancelling_at=batch.cancelling_at,
        cancelled_at=batch.cancelled_at,
        request_counts=RequestCounts(total=batch.total, completed=batch.completed, failed=batch.failed),
        metadata=batch.metadata,
    )

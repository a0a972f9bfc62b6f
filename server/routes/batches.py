"""OpenAI's batches, and their progress as a stream of events."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import fields
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field, StringConstraints
from pydantic.config import JsonDict

from server.batches.service import BatchService
from server.bodies import at_most
from server.errors import ERRORS, ApiError
from server.routes.files import FILE_ID, error_file_id, output_file_id
from server.routes.shared import ENDED, LONGEST_ID, BatchesNow, Listed, ListPage, StoreNow, no_such_file, page_of, with_example
from server.routes.tags import Tag
from server.safety.callers import CallerNow
from server.safety.idempotency import digest_of, keyed_call
from server.store import Answer, BatchRecord, Store, StoreAnsweredError, StoreUnavailableError

router = APIRouter(prefix="/v1/batches", tags=[Tag.BATCHES], responses=ERRORS)

logger = logging.getLogger(__name__)

BATCH_ID = re.compile("batch_[0-9a-f]{24}")

Endpoint = Literal["/v1/judgments", "/v1/chat/completions", "/v1/completions", "/v1/responses"]
MetadataKey = Annotated[str, StringConstraints(max_length=64)]
MetadataValue = Annotated[str, StringConstraints(max_length=512)]

MOST_METADATA = 16

LOOK_SECONDS = 0.5
"""Seconds between two looks for news, and so between two events of a stream at least."""

HEARTBEAT_SECONDS = 15.0
"""Seconds that a stream of events may be silent."""

QUEUE_RETRY_SECONDS = 60
"""When to call again if the queue is full."""

EXAMPLE: JsonDict = {
    "id": "batch_0199a3f0c1d24be0a1b2c3d4",
    "object": "batch",
    "endpoint": "/v1/judgments",
    "model": "magistrate-135m",
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
    """A batch to create."""

    model_config = with_example(
        {name: EXAMPLE[name] for name in ("input_file_id", "endpoint", "completion_window", "metadata")},
    )

    input_file_id: str = Field(max_length=LONGEST_ID, description="An uploaded file. All of its lines must name one model.")
    endpoint: Endpoint = Field(description="The endpoint that each line of the file calls.")
    completion_window: str = Field(
        "24h", min_length=1, max_length=64, description="Returned as given. Nothing expires: a batch runs until it is done."
    )
    metadata: Annotated[dict[MetadataKey, MetadataValue] | None, at_most(MOST_METADATA)] = Field(
        None,
        max_length=MOST_METADATA,
        description="Your notes: up to 16, with names of up to 64 characters and texts of up to 512.",
    )


class RequestCounts(BaseModel):
    """Counts of a batch's lines. `completed` and `failed` are the exact numbers of lines of its output and error file."""

    total: int
    completed: int
    failed: int


class BatchError(BaseModel):
    """Why a batch failed."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


class BatchErrors(BaseModel):
    """Why a batch failed, as a list."""

    object: Literal["list"] = "list"
    data: list[BatchError]


class Batch(Listed):
    """A batch. All times are in seconds since 1970."""

    model_config = with_example(EXAMPLE)

    id: str = Field(description="`batch_` and 24 hexadecimal digits.")
    object: Literal["batch"] = "batch"
    endpoint: str = Field(description="The endpoint that each line calls.")
    model: str | None = Field(
        description="The model that judges the lines: of an adapter, the version that was the latest when the batch was created."
    )
    errors: BatchErrors | None = Field(None, description="Why the batch failed.")
    input_file_id: str
    completion_window: str = Field(description="As given; nothing expires.")
    status: Literal["in_progress", "cancelling", "completed", "cancelled", "failed"]
    paused: str | None = Field(None, description="Why it makes no progress; null if it does, or nothing is left to do.")
    output_file_id: str = Field(description="The file with the answers. It can be read while the batch runs.")
    error_file_id: str | None = Field(description="The file with the lines that failed; null as long as none did.")
    created_at: int
    in_progress_at: int | None = None
    expires_at: int | None = Field(None, description="Always null.")
    finalizing_at: int | None = Field(None, description="Always null: the output file needs no finishing.")
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = Field(None, description="Always null.")
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    request_counts: RequestCounts
    metadata: dict[str, str] | None = None


class BatchList(ListPage[Batch]):
    """A page of batches."""

    model_config = with_example(page_of(EXAMPLE))


@router.post("", summary="Create a batch", response_model=Batch)
async def create(request: Request, caller: CallerNow, batches: BatchesNow, body: BatchRequest) -> Batch | Response:
    """Queue every line of an uploaded file. Results are kept one by one, and survive a restart or crash of the server.

    A call repeated with the same `Idempotency-Key` gets the first one's answer, and makes no second batch.
    """
    call = keyed_call(request, caller)
    if call is None:
        return _batch_object(await _create(request, caller.name, body), batches)
    digest = digest_of("POST /v1/batches", body.model_dump_json())
    if await call.was_answered():
        return await call.first_answer(digest)
    try:
        batch = await _create(request, caller.name, body, lambda batch: call.answer(digest, _batch_object(batch, batches)))
    except StoreAnsweredError:  # another call with this key was a moment faster
        return await call.first_answer(digest)
    return _batch_object(batch, batches)


async def _create(
    request: Request, owner: str, body: BatchRequest, answer: Callable[[BatchRecord], Answer] | None = None
) -> BatchRecord:
    state = request.app.state
    store: Store = state.store
    is_id = FILE_ID.fullmatch(body.input_file_id)
    file = await asyncio.to_thread(store.file, body.input_file_id, owner) if is_id else None
    if file is None:
        raise no_such_file("input_file_id")
    if file.status != "processed":
        raise ApiError(409, f"file {file.id} is still being uploaded: create the batch after that", "conflict", "input_file_id")
    model = state.pool.full_name(file.model)
    most = state.settings.max_queued
    queued = sum((await asyncio.to_thread(store.depth)).values())
    if queued + file.lines > most:
        message = (
            f"the queue is full: {queued:,} lines wait, and with this file's {file.lines:,} there would be more than {most:,}; "
            "create the batch again later"
        )
        raise ApiError(429, message, "queue_full", headers={"Retry-After": str(QUEUE_RETRY_SECONDS)})
    fields_of_batch = (owner, file, body.endpoint, body.completion_window, body.metadata, model, answer)
    batch = await asyncio.to_thread(store.create_batch, *fields_of_batch)
    state.batches.work_arrived()
    return batch


@router.get("", summary="List batches")
async def list_batches(
    caller: CallerNow,
    store: StoreNow,
    batches: BatchesNow,
    after: Annotated[str | None, Query(max_length=LONGEST_ID, description="Start after the batch with this id.")] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="Most batches of a page.")] = 20,
) -> BatchList:
    """List the caller's batches, newest first."""
    records = await asyncio.to_thread(store.batches, caller.name, after=after, limit=limit + 1)
    return BatchList.of([_batch_object(record, batches) for record in records], limit)


@router.get("/{batch_id}", summary="Look at a batch")
async def retrieve(caller: CallerNow, store: StoreNow, batches: BatchesNow, batch_id: str) -> Batch:
    """A batch's state. Its counts are exact at all times."""
    return _batch_object(await _find(store.batch, batch_id, caller.name), batches)


@router.post("/{batch_id}/cancel", summary="Cancel a batch")
async def cancel(caller: CallerNow, store: StoreNow, batches: BatchesNow, batch_id: str) -> Batch:
    """Stop a batch. Its results are kept, lines in progress are dropped. A batch that has ended stays as it is."""
    batch = await _find(store.cancel_batch, batch_id, caller.name)
    batches.work_arrived()
    return _batch_object(batch, batches)


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
async def events(request: Request, caller: CallerNow, store: StoreNow, batches: BatchesNow, batch_id: str) -> StreamingResponse:
    """A batch's progress as server-sent events: `progress` at once and after every change, at most twice a second, and `done`
    when the batch has ended. The stream then ends, and a browser should close it, which would otherwise open it again.
    """
    batch = await _find(store.batch, batch_id, caller.name)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    stream = _events(request, store, batches, batch)
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def _events(request: Request, store: Store, batches: BatchService, batch: BatchRecord) -> AsyncIterator[str]:
    last: Batch | None = None
    sent_at = time.monotonic()
    while True:
        current = _batch_object(batch, batches)
        if current != last:
            yield _event("progress", current)
            last, sent_at = current, time.monotonic()
        if batch.status in ENDED:
            yield _event("done", current)
            return
        if time.monotonic() - sent_at >= HEARTBEAT_SECONDS:
            yield ": nothing new\n\n"
            sent_at = time.monotonic()
        await asyncio.sleep(LOOK_SECONDS)
        if await request.is_disconnected():
            return
        try:
            stored = await asyncio.to_thread(store.batch, batch.id, batch.owner)
        except StoreUnavailableError as error:
            logger.warning("a batch cannot be followed for the moment: %s", error)
        else:
            batch = stored or batch


def _event(name: str, batch: Batch) -> str:
    return f"event: {name}\ndata: {batch.model_dump_json()}\n\n"


async def _find(method: Callable[[str, str], BatchRecord | None], batch_id: str, owner: str) -> BatchRecord:
    known = BATCH_ID.fullmatch(batch_id)
    batch = await asyncio.to_thread(method, batch_id, owner) if known else None
    if batch is None:
        raise ApiError(404, "there is no batch with this id: look at the list of batches", "batch_not_found")
    return batch


_SHARED_FIELDS = Batch.model_fields.keys() & {field.name for field in fields(BatchRecord)}


def _batch_object(batch: BatchRecord, batches: BatchService) -> Batch:
    errors = None
    if batch.status == "failed":
        errors = BatchErrors(data=[BatchError(code="batch_failed", message=batch.error or "no reason was recorded")])
    return Batch(
        **{name: getattr(batch, name) for name in _SHARED_FIELDS},
        errors=errors,
        paused=batches.waits_because(batch),
        output_file_id=output_file_id(batch),
        error_file_id=error_file_id(batch) if batch.failed else None,
        request_counts=RequestCounts(total=batch.total, completed=batch.completed, failed=batch.failed),
    )

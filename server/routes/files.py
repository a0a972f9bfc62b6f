"""OpenAI's files: uploaded ones, and the outputs of batches, which are read from the batches' results."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from pydantic.config import JsonDict

from server.batches.upload import digest_file, receive_file
from server.errors import ERRORS, ApiError
from server.routes.shared import ENDED, LONGEST_ID, Listed, ListPage, SettingsNow, StoreNow, no_such_file, page_of, with_example
from server.routes.tags import Tag
from server.safety.callers import CallerNow
from server.safety.idempotency import keyed_call
from server.store import BatchRecord, FileRecord, Store, StoreAnsweredError

router = APIRouter(prefix="/v1/files", tags=[Tag.FILES], responses=ERRORS)

FILE_ID = re.compile("file-[0-9a-f]{24}")
RESULTS_ID = re.compile("file-(output|error)-([0-9a-f]{24})")

CHUNK_BYTES = 256 * 1024
"""Bytes of results that are joined before they are sent."""

UPLOAD_FORM = {
    "type": "object",
    "required": ["file", "purpose"],
    "properties": {
        "file": {
            "type": "string",
            "format": "binary",
            "description": "JSON lines in UTF-8, each `{custom_id, method, url, body}`, of at most 8 MiB.",
        },
        "purpose": {"type": "string", "enum": ["batch"], "description": "What the file is for."},
    },
}
"""The form of an upload, for the API's description."""

EXAMPLE: JsonDict = {
    "id": "file-0199a3f0c1d24be0a1b2c3d4",
    "object": "file",
    "bytes": 30800,
    "created_at": 1760000000,
    "filename": "samples.jsonl",
    "purpose": "batch",
    "status": "processed",
    "status_details": None,
    "expires_at": None,
}


class FileObject(Listed):
    """An uploaded file, or the output of a batch."""

    model_config = with_example(EXAMPLE)

    id: str = Field(description="`file-` and 24 hexadecimal digits, or a batch's `file-output-...` or `file-error-...`.")
    object: Literal["file"] = "file"
    bytes: int = Field(description="Its size; 0 while `status` is `uploaded`.")
    created_at: int = Field(description="When it was begun, in seconds since 1970.")
    filename: str = Field(description="Its name as sent, without folders.")
    purpose: Literal["batch", "batch_output"] = Field(description="`batch_output` for the output of a batch.")
    status: Literal["uploaded", "processed"] = Field(description="`uploaded` while it still grows, then `processed`.")
    status_details: str | None = Field(None, description="Why it still grows.")
    expires_at: int | None = Field(None, description="Always null: files stay until they are deleted.")


class FileList(ListPage[FileObject]):
    """A page of uploaded files. Outputs of batches are not listed: their ids are in the batches."""

    model_config = with_example(page_of(EXAMPLE))


class FileDeleted(BaseModel):
    """Confirms that a file was deleted."""

    model_config = with_example({"id": EXAMPLE["id"], "object": "file", "deleted": True})

    id: str
    object: Literal["file"] = "file"
    deleted: bool = True


@router.post(
    "",
    summary="Upload a file",
    response_model=FileObject,
    openapi_extra={"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": UPLOAD_FORM}}}},
)
async def upload(request: Request, caller: CallerNow, store: StoreNow, settings: SettingsNow) -> FileObject | Response:
    """Upload the lines of a batch. The file is written to the database as it arrives, so it may have gigabytes.

    A line that is not JSON does not spoil the file: it becomes a line of the batch's error file. An interrupted upload leaves
    nothing behind. A call repeated with the same `Idempotency-Key` gets the first one's answer, and makes no second file.
    """
    call = keyed_call(request, caller)
    if call is None:
        return _uploaded(await receive_file(request, store, caller.name, quota=settings.quota))
    if await call.was_answered():
        return await call.first_answer(await digest_file(request))
    try:
        keep = lambda digest, file: call.answer(digest, _uploaded(file))  # noqa: E731
        return _uploaded(await receive_file(request, store, caller.name, quota=settings.quota, keep=keep))
    except StoreAnsweredError as error:  # another call with this key was a moment faster
        return await call.first_answer(error.digest)


@router.get("", summary="List files")
async def list_files(
    caller: CallerNow,
    store: StoreNow,
    after: Annotated[str | None, Query(max_length=LONGEST_ID, description="Start after the file with this id.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Most files of a page.")] = 20,
    order: Annotated[Literal["asc", "desc"], Query(description="`desc` for the newest first.")] = "desc",
    purpose: Annotated[str | None, Query(max_length=LONGEST_ID, description="Only files with this purpose.")] = None,
) -> FileList:
    """List the caller's uploaded files."""
    files = await asyncio.to_thread(
        store.files, caller.name, after=after, limit=limit + 1, newest_first=order == "desc", purpose=purpose
    )
    return FileList.of([_uploaded(file) for file in files], limit)


@router.get("/{file_id}", summary="Look at a file")
async def retrieve(caller: CallerNow, store: StoreNow, file_id: str) -> FileObject:
    """A file's name, size and state.

    The size of a batch's output is known once the batch has ended; until then it is given as 0.
    """
    if (match := RESULTS_ID.fullmatch(file_id)) is None:
        return _uploaded(await _file(store, caller.name, file_id))
    batch, failed = await _batch_of(store, caller.name, match)
    ended = batch.status in ENDED
    return FileObject(
        id=file_id,
        bytes=await asyncio.to_thread(store.results_size, batch.id, failed=failed) if ended else 0,
        created_at=batch.created_at,
        filename=_results_name(batch, failed),
        purpose="batch_output",
        status="processed" if ended else "uploaded",
        status_details=None if ended else "its batch is running; results so far can be read, and are counted when it ends",
    )


@router.get(
    "/{file_id}/content",
    summary="Read a file",
    response_class=StreamingResponse,
    responses={200: {"description": "The file's lines.", "content": {"application/x-ndjson": {}}}},
)
async def content(caller: CallerNow, store: StoreNow, file_id: str) -> StreamingResponse:
    """A file's content. The output of a running batch holds the results so far, in the order of its input's lines."""
    headers = {}
    if (match := RESULTS_ID.fullmatch(file_id)) is None:
        file = await _file(store, caller.name, file_id)
        if file.status != "processed":
            raise ApiError(409, f"file {file_id} is still being uploaded: read it when the upload has ended", "conflict")
        chunks, name = store.file_content(file.id), file.filename
        headers["content-length"] = str(file.bytes)
    else:
        batch, failed = await _batch_of(store, caller.name, match)
        chunks, name = _result_chunks(store, batch.id, failed), _results_name(batch, failed)
    # The first chunk is read before the answer starts, while a fault can still be reported.
    first = await asyncio.to_thread(next, chunks, b"")
    headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return StreamingResponse(chain([first], chunks), media_type="application/x-ndjson", headers=headers)


@router.delete("/{file_id}", summary="Delete a file")
async def delete(caller: CallerNow, store: StoreNow, file_id: str) -> FileDeleted:
    """Delete an uploaded file, unless a batch still reads it. Outputs of batches cannot be deleted."""
    if match := RESULTS_ID.fullmatch(file_id):
        batch, _ = await _batch_of(store, caller.name, match)
        raise ApiError(409, f"file {file_id} cannot be deleted: it is the output of batch {batch.id}", "conflict")
    if not FILE_ID.fullmatch(file_id) or not await asyncio.to_thread(store.delete_file, file_id, caller.name):
        raise no_such_file()
    return FileDeleted(id=file_id)


def output_file_id(batch: BatchRecord) -> str:
    """Make the id of a batch's output file."""
    return f"file-output-{batch.id.removeprefix('batch_')}"


def error_file_id(batch: BatchRecord) -> str:
    """Make the id of a batch's error file."""
    return f"file-error-{batch.id.removeprefix('batch_')}"


async def _file(store: Store, owner: str, file_id: str) -> FileRecord:
    file = await asyncio.to_thread(store.file, file_id, owner) if FILE_ID.fullmatch(file_id) else None
    if file is None:
        raise no_such_file()
    return file


async def _batch_of(store: Store, owner: str, match: re.Match[str]) -> tuple[BatchRecord, bool]:
    """Find the batch of an output file, and whether the file is the error file."""
    batch = await asyncio.to_thread(store.batch, f"batch_{match[2]}", owner)
    if batch is None:
        raise no_such_file()
    return batch, match[1] == "error"


def _uploaded(file: FileRecord) -> FileObject:
    complete = file.status == "processed"
    return FileObject(
        id=file.id,
        bytes=file.bytes if complete else 0,
        created_at=file.created_at,
        filename=file.filename,
        purpose="batch",
        status="processed" if complete else "uploaded",
        status_details=None if complete else "it is still being uploaded",
    )


def _results_name(batch: BatchRecord, failed: bool) -> str:
    return f"{batch.id}_{'error' if failed else 'output'}.jsonl"


def _result_chunks(store: Store, batch_id: str, failed: bool) -> Iterator[bytes]:
    chunk = bytearray()
    for result in store.results(batch_id, failed=failed):
        chunk += f"{result.record}\n".encode()
        if len(chunk) >= CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)

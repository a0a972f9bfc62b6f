"""Files, as OpenAI's clients handle them: uploaded ones, and the outputs of batches, which are read from their results."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from server.batches.upload import digest_file, receive_file
from server.errors import ERRORS, ApiError
from server.safety.callers import CallerNow
from server.safety.idempotency import keyed_call
from server.settings import Settings
from server.store import BatchRecord, FileRecord, Store, StoreAnsweredError

router = APIRouter(prefix="/v1/files", tags=["Files"], responses=ERRORS)

FILE_ID = re.compile("file-[0-9a-f]{24}")
MADE_ID = re.compile("file-(output|error)-([0-9a-f]{24})")

CHUNK_BYTES = 256 * 1024
"""Bytes of results that are put together before they are sent."""

LONGEST_ID = 64
ENDED = ("completed", "cancelled", "failed")

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


class FileObject(BaseModel):
    """A file that was uploaded, or the output of a batch."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    id: str = Field(description="`file-` and 24 hexadecimal digits, or a batch's `file-output-...` or `file-error-...`.")
    object: Literal["file"] = "file"
    bytes: int = Field(description="Its length; 0 while `status` is `uploaded`.")
    created_at: int = Field(description="When it was begun, in seconds since 1970.")
    filename: str = Field(description="Its name as sent, without folders.")
    purpose: Literal["batch", "batch_output"] = Field(description="`batch_output` for what a batch has made.")
    status: Literal["uploaded", "processed"] = Field(description="`uploaded` while it still grows, then `processed`.")
    status_details: str | None = Field(None, description="Why it still grows.")
    expires_at: int | None = Field(None, description="Never: files stay until they are deleted.")


class FileList(BaseModel):
    """A page of files. The outputs of batches are not among them: their ids stand in the batches."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"object": "list", "data": [EXAMPLE], "first_id": EXAMPLE["id"], "last_id": EXAMPLE["id"], "has_more": False}
            ]
        }
    )

    object: Literal["list"] = "list"
    data: list[FileObject]
    first_id: str | None = Field(description="The id of the page's first file.")
    last_id: str | None = Field(description="The id of the page's last file: `after` for the next page.")
    has_more: bool = Field(description="Whether there is a next page.")


class FileDeleted(BaseModel):
    """Tells that a file is gone."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": EXAMPLE["id"], "object": "file", "deleted": True}]})

    id: str
    object: Literal["file"] = "file"
    deleted: bool = True


@router.post(
    "",
    summary="Upload a file",
    response_model=FileObject,
    openapi_extra={"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": UPLOAD_FORM}}}},
)
async def upload(request: Request, caller: CallerNow) -> FileObject | Response:
    """Upload the lines of a batch. The file goes straight to the database as it comes, so it may have gigabytes.

    A line that is no JSON is no reason to refuse the file: it becomes a line of the batch's error file. An upload that breaks
    off leaves nothing. A call that is sent again with the same `Idempotency-Key` is answered as the first one was, and makes no
    other file.
    """
    settings: Settings = request.app.state.settings
    store, call = _store(request), keyed_call(request, caller)
    if call is None:
        return _uploaded(await receive_file(request, store, caller.name, quota=settings.quota))
    if await call.was_answered():
        return await call.first_answer(await digest_file(request))
    try:
        keep = lambda digest, file: call.answer(digest, _uploaded(file))  # noqa: E731
        return _uploaded(await receive_file(request, store, caller.name, quota=settings.quota, keep=keep))
    except StoreAnsweredError as error:
        # By another call with this key, which was a moment faster.
        return await call.first_answer(error.digest)


@router.get("", summary="List files")
async def list_files(
    request: Request,
    caller: CallerNow,
    after: Annotated[str | None, Query(max_length=LONGEST_ID, description="Go on behind the file with this id.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Files of a page, at most.")] = 20,
    order: Annotated[Literal["asc", "desc"], Query(description="`desc` for the newest first.")] = "desc",
    purpose: Annotated[str | None, Query(max_length=LONGEST_ID, description="Only files with this purpose.")] = None,
) -> FileList:
    """The caller's uploaded files."""
    newest_first = order == "desc"
    store = _store(request)
    files = await asyncio.to_thread(
        store.files, caller.name, after=after, limit=limit + 1, newest_first=newest_first, purpose=purpose
    )
    page = [_uploaded(file) for file in files[:limit]]
    return FileList(
        data=page,
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
        has_more=len(files) > limit,
    )


@router.get("/{file_id}", summary="Look at a file")
async def retrieve(request: Request, caller: CallerNow, file_id: str) -> FileObject:
    """A file's name, length and state.

    The length of a batch's output is known once the batch has ended; until then it is given as 0.
    """
    made = MADE_ID.fullmatch(file_id)
    if made is None:
        return _uploaded(await _file(request, caller.name, file_id))
    batch, failed = await _made_by(request, caller.name, made)
    ended = batch.status in ENDED
    return FileObject(
        id=file_id,
        bytes=await asyncio.to_thread(_store(request).results_size, batch.id, failed=failed) if ended else 0,
        created_at=batch.created_at,
        filename=_made_name(batch, failed),
        purpose="batch_output",
        status="processed" if ended else "uploaded",
        status_details=None if ended else "its batch runs; what there is can be read, and is counted when the batch ends",
    )


@router.get(
    "/{file_id}/content",
    summary="Read a file",
    response_class=StreamingResponse,
    responses={200: {"description": "The file's lines.", "content": {"application/x-ndjson": {}}}},
)
async def content(request: Request, caller: CallerNow, file_id: str) -> StreamingResponse:
    """A file's content. The output of a batch that still runs holds the results there are, in the order of its input's lines."""
    made = MADE_ID.fullmatch(file_id)
    headers = {}
    if made is None:
        file = await _file(request, caller.name, file_id)
        if file.status != "processed":
            raise ApiError(409, f"file {file_id} is still being uploaded: read it when it is whole", "conflict")
        chunks = _store(request).file_content(file.id)
        name = file.filename
        headers["content-length"] = str(file.bytes)
    else:
        batch, failed = await _made_by(request, caller.name, made)
        chunks = _result_chunks(_store(request), batch.id, failed)
        name = _made_name(batch, failed)
    # The first is read before the answer begins, while a fault can still be told.
    first = await asyncio.to_thread(next, chunks, b"")
    headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return StreamingResponse(chain([first], chunks), media_type="application/x-ndjson", headers=headers)


@router.delete("/{file_id}", summary="Delete a file")
async def delete(request: Request, caller: CallerNow, file_id: str) -> FileDeleted:
    """Delete an uploaded file. Not while a batch reads it; outputs of batches that have ended stay."""
    made = MADE_ID.fullmatch(file_id)
    if made is not None:
        batch, _ = await _made_by(request, caller.name, made)
        raise ApiError(409, f"file {file_id} cannot be deleted: it is what batch {batch.id} has made", "conflict")
    if not FILE_ID.fullmatch(file_id) or not await asyncio.to_thread(_store(request).delete_file, file_id, caller.name):
        raise no_such_file()
    return FileDeleted(id=file_id)


def no_such_file(param: str | None = None) -> ApiError:
    """The answer where there is no file of that id, or it is another caller's."""
    return ApiError(404, "there is no file with this id: look into the list of files", "file_not_found", param)


def output_file_id(batch: BatchRecord) -> str:
    """The id of the file with what a batch's lines were answered."""
    return f"file-output-{batch.id.removeprefix('batch_')}"


def error_file_id(batch: BatchRecord) -> str:
    """The id of the file with a batch's lines that failed."""
    return f"file-error-{batch.id.removeprefix('batch_')}"


def _store(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


async def _file(request: Request, owner: str, file_id: str) -> FileRecord:
    file = await asyncio.to_thread(_store(request).file, file_id, owner) if FILE_ID.fullmatch(file_id) else None
    if file is None:
        raise no_such_file()
    return file


async def _made_by(request: Request, owner: str, made: re.Match[str]) -> tuple[BatchRecord, bool]:
    """The batch that makes a file, and whether that is the error file."""
    batch = await asyncio.to_thread(_store(request).batch, f"batch_{made[2]}", owner)
    if batch is None:
        raise no_such_file()
    return batch, made[1] == "error"


def _uploaded(file: FileRecord) -> FileObject:
    whole = file.status == "processed"
    return FileObject(
        id=file.id,
        bytes=file.bytes if whole else 0,
        created_at=file.created_at,
        filename=file.filename,
        purpose="batch",
        status="processed" if whole else "uploaded",
        status_details=None if whole else "it is still being uploaded",
    )


def _made_name(batch: BatchRecord, failed: bool) -> str:
    return f"{batch.id}_{'error' if failed else 'output'}.jsonl"


def _result_chunks(store: Store, batch_id: str, failed: bool) -> Iterator[bytes]:
    chunk = bytearray()
    for result in store.results(batch_id, failed=failed):
        chunk += result.record.encode()
        chunk += b"\n"
        if len(chunk) >= CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)

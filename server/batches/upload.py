"""Receives an uploaded file and stores it part by part, in the same memory whatever its size."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import threading
from collections.abc import Callable
from contextlib import aclosing
from functools import partial

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from server.batches.parts import PartCutter
from server.errors import ApiError
from server.safety.idempotency import digest_of
from server.settings import MIB
from server.store import Answer, FileRecord, Store, StoreError

logger = logging.getLogger(__name__)

PURPOSE = "batch"

PIECE_BYTES = MIB
"""Bytes of a file that are received before they are cut and stored."""

MOST_FIELDS = 64
"""Fields of a form, whatever their names."""

LONGEST_VALUE = 64
"""Bytes of the field ``purpose`` that are read, more than any purpose has."""

LONGEST_FILENAME = 255
"""Characters."""

LARGEST_FORM = 64 * 1024
"""Bytes of a form besides the file, unless it has unknown fields."""

UNNAMED = "upload.jsonl"

# RFC 2046's characters and a few more that clients use. The parser finds no boundary with a line end.
_BOUNDARY = re.compile(rb"[\x21-\x7e](?:[\x20-\x7e]{0,198}[\x21-\x7e])?")
_LONGEST_CONTENT_TYPE = 1000

KeepAnswer = Callable[[str, FileRecord], Answer]
"""Makes the answer to store, from a digest of the request and the file."""


async def receive_file(
    request: Request, store: Store, owner: str, *, quota: int | None = None, keep: KeepAnswer | None = None
) -> FileRecord:
    """Store the file of a form while it is received. If anything fails, nothing of the file stays.

    Args:
        request: A call whose body is a form with the fields ``file`` and ``purpose``, in any order. Others are ignored.
        store: Receives the file.
        owner: The caller's name.
        quota: Most bytes of all the owner's files together.
        keep: Makes the answer that is stored with the file.

    Raises:
        ApiError: 400: it is not such a form, the purpose is not ``batch``, a line is too long, or the file is empty.
        ClientDisconnect: The client disconnected.
        StoreAnsweredError: An earlier call with the same key was answered.
        StoreError: The store refuses the file, or the owner's quota is full.
    """
    announced = request.headers.get("content-length", "0")
    upload = _Upload(store, owner, expected=max(0, int(announced) - LARGEST_FORM), quota=quota, keep=keep)
    try:
        form = await _read_form(request, upload.add)
        return await asyncio.to_thread(upload.finish, form.filename, form.take())
    except BaseException:
        # Shielded, because a cancelled call would stop a plain wait at once.
        await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(upload.drop)))
        raise


async def digest_file(request: Request) -> str:
    """Digest the file of a form while it is received, without storing it.

    Raises:
        ApiError: 400: it is not a form with the fields ``file`` and ``purpose``.
        ClientDisconnect: The client disconnected.
    """
    content = hashlib.blake2b()
    form = await _read_form(request, lambda _, data: content.update(data))
    content.update(form.take())
    return _digest_of(form.filename, content)


async def _read_form(request: Request, take: Callable[[str, bytes], object]) -> _Form:
    """Read a form to its end. All but the last piece of its file are passed to ``take``, with the file's name."""
    form = _Form(_boundary(request.headers.get("content-type", "")))
    async with aclosing(request.stream()) as pieces:
        async for piece in pieces:
            form.feed(piece)
            if len(form.content) >= PIECE_BYTES:
                await asyncio.to_thread(take, form.filename, form.take())
    form.finish()
    return form


def _digest_of(filename: str, content: hashlib.blake2b) -> str:
    return digest_of("POST /v1/files", filename, content.hexdigest())


def _boundary(content_type: str) -> bytes:
    """Read the boundary between the fields of a form.

    Raises:
        ApiError: The header announces no form, or no valid boundary.
    """
    kind, options = parse_options_header(content_type) if len(content_type) <= _LONGEST_CONTENT_TYPE else (b"", {})
    if kind.strip() != b"multipart/form-data":
        raise _malformed("the upload must be a form, with `Content-Type: multipart/form-data`")
    boundary = options.get(b"boundary", b"")
    if not _BOUNDARY.fullmatch(boundary):
        raise _malformed("the `Content-Type` header gives no valid `boundary`")
    return boundary


def _malformed(message: str, param: str | None = None) -> ApiError:
    return ApiError(400, message, "invalid_form", param)


class _Form:
    """Reads a form's fields as they arrive.

    Attributes:
        filename: The file's name; empty until its field begins.
        content: Bytes of the file since they were last taken.
    """

    def __init__(self, boundary: bytes) -> None:
        self.filename = ""
        self.content = bytearray()
        self._purpose: bytearray | None = None
        self._fields = 0
        self._into: bytearray | None = None
        self._header = bytearray()
        self._value = bytearray()
        self._disposition = b""
        self._ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_field,
                "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._end_header,
                "on_headers_finished": self._begin_value,
                "on_part_data": self._more_data,
                "on_part_end": self._end_field,
                "on_end": self._end,
            },
        )

    def feed(self, piece: bytes) -> None:
        """Read the next piece.

        Raises:
            ApiError: The form is malformed, or not the expected one.
        """
        try:
            self._parser.write(piece)
        except FormParserError as error:
            raise _malformed(f"the form cannot be read: {error}") from None

    def take(self) -> bytes:
        """Take the bytes of the file since the last call."""
        taken = bytes(self.content)
        self.content.clear()
        return taken

    def finish(self) -> None:
        """Check that the form is complete.

        Raises:
            ApiError: Its end or a field is missing.
        """
        if not self._ended:
            raise _malformed("the form does not end with its boundary: it was cut off, or announced another boundary")
        if not self.filename:
            raise _malformed("the form has no field `file`: send the file in one", "file")
        if self._purpose is None:
            raise _malformed(f"the form has no field `purpose`: send `{PURPOSE}`", "purpose")

    def _begin_field(self) -> None:
        self._fields += 1
        if self._fields > MOST_FIELDS:
            raise _malformed(f"the form has more than {MOST_FIELDS} fields: send `file` and `purpose` only")
        self._disposition = b""
        self._into = None

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _begin_value(self) -> None:
        _, options = parse_options_header(self._disposition)
        if b"name" not in options:
            raise _malformed(f"field {self._fields} of the form has no name in a `Content-Disposition` header")
        if options[b"name"] == b"file":
            if self.filename:
                raise _malformed("the form has two fields `file`: send one file at a time", "file")
            self.filename = plain_filename(options.get(b"filename", b"").decode(errors="replace"))
            self._into = self.content
        elif options[b"name"] == b"purpose":
            self._into = self._purpose = bytearray()

    def _more_data(self, data: bytes, start: int, end: int) -> None:
        if self._into is self._purpose is not None:
            end = min(end, start + LONGEST_VALUE - len(self._purpose))
        if self._into is not None and end > start:
            self._into += memoryview(data)[start:end]

    def _end_field(self) -> None:
        if self._into is self._purpose is not None and self._purpose != PURPOSE.encode():
            raise ApiError(400, f"the only `purpose` of a file here is `{PURPOSE}`", "invalid_value", "purpose")

    def _end(self) -> None:
        self._ended = True


def plain_filename(sent: str) -> str:
    """Reduce a file's name to a label, without folders and unprintable characters, of at most 255 characters."""
    last = re.split(r"[/\\]", sent)[-1]
    shown = "".join(letter for letter in last if letter.isprintable()).strip()
    return shown[:LONGEST_FILENAME] if shown not in ("", ".", "..") else UNNAMED


class _Upload:
    """A file on its way into the store. Its methods block, and ``drop`` may be called while another one runs in its thread."""

    def __init__(self, store: Store, owner: str, *, expected: int, quota: int | None, keep: KeepAnswer | None) -> None:
        self._store = store
        self._owner = owner
        self._expected = expected
        self._quota = quota
        self._keep = keep
        self._content = hashlib.blake2b()
        self._cutter = PartCutter()
        self._file_id: str | None = None
        self._dropped = False
        self._turn = threading.Lock()

    def add(self, filename: str, data: bytes) -> None:
        """Store the next data."""
        with self._turn:
            self._add(filename, data)

    def finish(self, filename: str, data: bytes) -> FileRecord:
        """Store the last data and mark the file as complete."""
        with self._turn:
            file_id = self._add(filename, data)
            last = self._cutter.end()
            if last is not None:
                self._store.add_part(file_id, last, quota=self._quota)
            cutter = self._cutter
            if not cutter.lines:
                raise ApiError(400, "the file holds no line: put one call on each line, as JSON", "empty_file", "file")
            answer = partial(self._keep, _digest_of(filename, self._content)) if self._keep else None
            counts = {"bytes": cutter.bytes, "lines": cutter.lines}
            finished = self._store.finish_file(file_id, **counts, model=cutter.model, answer=answer, quota=self._quota)
            self._file_id = None
            return finished

    def drop(self) -> None:
        """Delete the file, unless it is finished."""
        with self._turn:
            self._dropped = True
            if self._file_id is not None:
                try:
                    self._store.drop_file(self._file_id)
                except StoreError as error:
                    logger.warning("an upload that failed is still in the store as %s: %s", self._file_id, error)

    def _add(self, filename: str, data: bytes) -> str:
        if self._dropped:
            raise ApiError(400, "the upload was abandoned", "upload_dropped")
        if self._file_id is None:
            begun = self._store.begin_file(self._owner, PURPOSE, filename, expected=self._expected, quota=self._quota)
            self._file_id = begun.id
        if self._keep:
            self._content.update(data)
        for part in self._cutter.cut(data):
            self._store.add_part(self._file_id, part, quota=self._quota)
        return self._file_id

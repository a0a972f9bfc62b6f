"""Records of a store, and the errors it raises. Times are whole seconds since 1970."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass
from typing import Literal

from judges.errors import MagistrateError

FileStatus = Literal["uploading", "processed"]
BatchStatus = Literal["in_progress", "cancelling", "completed", "cancelled", "failed"]

_lock = threading.Lock()
_last_id = 0


def new_id(prefix: str) -> str:
    """Make an id: a prefix and 24 hexadecimal digits, of milliseconds since 1970 and 48 random bits.

    Ids of one process never fall, so a listing can continue after an id even if its record is gone.
    """
    global _last_id
    with _lock:
        _last_id = max(_last_id + 1, time.time_ns() // 1_000_000)
        moment = _last_id
    return f"{prefix}{moment:012x}{secrets.token_hex(6)}"


class StoreError(MagistrateError):
    """The store cannot do what it was asked to, and trying again will not help."""


class StoreConflictError(StoreError):
    """The request conflicts with what the store holds, for example deleting a file that a batch still reads."""


class StoreAnsweredError(StoreConflictError):
    """An earlier call with the same idempotency key was answered."""

    def __init__(self, message: str, digest: str) -> None:
        super().__init__(message)
        self.digest = digest


class StoreQuotaError(StoreError):
    """The owner's quota would be exceeded."""


class StoreUnavailableError(StoreError):
    """The disk is full, or the database is gone or locked. Nothing was changed; a later try may succeed."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A stretch of an uploaded file, cut at line ends: the unit that workers lease.

    Attributes:
        number: Its position in the file, from 0.
        first_line: Number of its first line in the file, from 1, counting blank lines.
        lines: How many of its lines are not blank.
        data: Its lines, whole.
        duplicates: Numbers of the lines whose ``custom_id`` stands on an earlier line of the file.
    """

    number: int
    first_line: int
    lines: int
    data: bytes
    duplicates: list[int]


@dataclass(frozen=True, slots=True)
class FileRecord:
    """An uploaded file. ``lines`` counts those that are not blank; ``model`` is the one that they name."""

    id: str
    owner: str
    purpose: str
    filename: str
    bytes: int
    lines: int
    model: str | None
    status: FileStatus
    created_at: int


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A batch, judged by ``model``. ``completed`` and ``failed`` are always the exact counts of its results."""

    id: str
    owner: str
    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, str] | None
    model: str | None
    status: BatchStatus
    total: int
    completed: int
    failed: int
    created_at: int
    in_progress_at: int | None
    completed_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    failed_at: int | None
    error: str | None


@dataclass(frozen=True, slots=True)
class LeasedPart:
    """A part of a batch's input, held by one worker until its lease expires. ``done`` lines have a result already.

    ``model`` is the batch's; ``named`` is the name that each line must give it.
    """

    batch_id: str
    number: int
    first_line: int
    endpoint: str
    owner: str
    data: bytes
    duplicates: list[int]
    done: set[int]
    model: str | None = None
    named: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one line of a batch.

    Attributes:
        batch_id: The batch.
        part: Number of the part that holds the line.
        line: Number of the line in the input file, from 1.
        custom_id: The caller's name for the line, if it has one.
        failed: Whether it belongs in the error file.
        record: The finished line of the output file or error file, without its end.
    """

    batch_id: str
    part: int
    line: int
    custom_id: str | None
    failed: bool
    record: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a call, kept for when the call is repeated.

    Attributes:
        key: The caller's name for the call.
        digest: Of the request.
        text: The answer's body.
    """

    key: str
    digest: str
    text: str


@dataclass(frozen=True, slots=True)
class AdapterRecord:
    """A loaded LoRA adapter.

    Attributes:
        model: The model it belongs to.
        version: Its full name, which always stands for these weights.
        name: The name it was loaded under.
        digest: Of its weights.
        latest: Whether the name alone stands for this version.
    """

    model: str
    version: str
    name: str
    digest: str
    latest: bool


@dataclass(frozen=True, slots=True)
class Key:
    """An API key, by its digest."""

    id: str
    name: str
    digest: str
    created_at: int
    revoked_at: int | None

"""What goes into a store and comes out of it. Times are whole seconds since 1970."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FileStatus = Literal["uploading", "processed"]
BatchStatus = Literal["in_progress", "cancelling", "completed", "cancelled", "failed"]


@dataclass(frozen=True, slots=True)
class FilePart:
    """A stretch of an uploaded file, cut at line ends: what a worker leases.

    Attributes:
        number: Its place in the file, from 0.
        first_line: Number of its first line in the file, from 1, blank lines counted.
        lines: How many of its lines are not blank.
        data: Its lines, whole.
        duplicates: Numbers of those lines whose ``custom_id`` came before in the file.
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
    """A batch. ``model`` judges it; ``completed`` and ``failed`` count its results, always exactly."""

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
    """A part of a batch's input that a worker has for itself until the lease runs out. ``done`` lines have a result already.

    ``model`` is the batch's; ``named`` is what each line must call it.
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
    """What came of one line of a batch.

    Attributes:
        batch_id: The batch.
        part: Number of the part that the line stands in.
        line: Number of the line in the input file, from 1.
        custom_id: The caller's name for the line, where it has one.
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
    """What a call is answered, for when it is sent again.

    Attributes:
        key: The caller's name for the call.
        digest: Of what was asked.
        text: The answer's body.
    """

    key: str
    digest: str
    text: str


@dataclass(frozen=True, slots=True)
class AdapterRecord:
    """A LoRA adapter that is loaded.

    Attributes:
        model: The model it belongs to.
        version: Its full name, which stands for these weights for good.
        name: What it was called when it was loaded.
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

"""Keeps what a judge was shown and what it answered, a line of JSON a sample, in a file beside the verdicts.

A verdict has no texts of its own: it is small, and a prompt can be rendered again from its sample. The file is for reading.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from judges.errors import MagistrateError, reason_of
from judges.judge import Message

if TYPE_CHECKING:
    from judges.runner import PreparedSample
    from judges.verdict import Verdict

Conversation = Sequence[Message]

FIRST_BYTES = b'{"id": '
"""Beginning of every line."""


def texts_beside(verdicts: Path) -> Path:
    """The file of texts beside a file of verdicts."""
    return verdicts.with_name(verdicts.name + ".texts.jsonl")


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of one sample.

    Attributes:
        prompts: The conversations that the judge was shown.
        answers: Its answers, also those that could not be read.
    """

    prompts: Sequence[Conversation]
    answers: Sequence[str]


class TextWriter:
    """Writes texts as samples are judged. A run that resumes adds to the file.

    Args:
        path: The file.
        overwrite: Whether to discard what it holds.

    Raises:
        MagistrateError: The file holds something else than texts.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        check_texts(path)
        self.path = path
        self._overwrite = overwrite
        self._begun = False

    def add(self, sample: PreparedSample, answers: Sequence[str], fingerprint: str) -> None:
        """Write a sample's texts; ``fingerprint`` is that of its verdict.

        Raises:
            MagistrateError: The file cannot be written.
        """
        prompts = sample.rendered.prompts if sample.rendered is not None else ()
        shown = [[{"role": message.role, "content": message.content} for message in prompt.messages] for prompt in prompts]
        identity = {"sample": sample.key, "fingerprint": fingerprint, "occurrence": sample.row.occurrence}
        line = {"id": sample.row.id, **identity, "prompts": shown, "answers": list(answers)}
        try:
            if not self._begun:
                self._begin()
            with self.path.open("ab") as file:
                file.write(json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n")
        except OSError as error:
            raise MagistrateError(f"{self.path} cannot be written: {reason_of(error)}") from error

    def _begin(self) -> None:
        """Discard what a run before left: all of it if that is wanted, else a last line without an end."""
        self._begun = True
        if self._overwrite or not self.path.exists():
            self.path.write_bytes(b"")
            return
        with self.path.open("rb+") as file:
            content_end = file.seek(0, os.SEEK_END)
            while content_end and os.pread(file.fileno(), 1, content_end - 1) != b"\n":
                content_end -= 1
            file.truncate(content_end)


def check_texts(path: Path) -> None:
    """Check that a file, if it exists, holds texts and nothing of somebody else's.

    Raises:
        MagistrateError: It holds something else, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            line = file.readline()
    except FileNotFoundError:
        return
    except OSError as error:
        raise MagistrateError(f"{path} cannot be read: {reason_of(error)}") from error
    if line and _read(line) is None and not _is_torn(line):
        raise MagistrateError(f"{path} would hold the texts, and holds something else; move it, or give another `-o`")


def discard_texts(verdicts: Path) -> None:
    """Delete the texts beside a file of verdicts that was written anew without them."""
    path = texts_beside(verdicts)
    with suppress(MagistrateError):
        check_texts(path)
        path.unlink(missing_ok=True)


def _is_torn(line: bytes) -> bool:
    """Whether a line is one of texts that a killed process left unfinished: a whole object is somebody else's."""
    return line.startswith(FIRST_BYTES[: len(line)]) and not line.endswith((b"\n", b"}"))


class TextReader:
    """The texts of a file, found by their verdict. Without a file there are none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts: dict[tuple[str, str, int], int] = {}
        if not path.is_file():
            return
        start = 0
        with path.open("rb") as file:
            for line in file:
                if (found := _read(line)) is not None:  # else a torn line, or somebody else's
                    self._starts[found.sample, found.fingerprint, found.occurrence] = start
                start += len(line)

    def __len__(self) -> int:
        return len(self._starts)

    def of(self, verdict: Verdict) -> Texts | None:
        """The texts of a verdict; ``None`` if the file has none, or the engine failed in this run."""
        start = self._starts.get((verdict.sample, verdict.fingerprint, verdict.occurrence))
        if start is None or not verdict.final:
            return None
        with self._path.open("rb") as file:
            file.seek(start)
            found = _read(file.readline())
        return None if found is None else Texts(found.prompts, found.answers)


def _read(line: bytes) -> _Line | None:
    """The content of a line; ``None`` if it is no line of texts."""
    try:
        return _LINES.validate_json(line)
    except (ValidationError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class _Line:
    """What is kept of a sample: what its verdict is known by, and the texts."""

    sample: str
    fingerprint: str
    occurrence: int
    prompts: list[list[Message]]
    answers: list[str]


_LINES = TypeAdapter(_Line)

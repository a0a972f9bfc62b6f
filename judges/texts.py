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

from judges.errors import MagistrateError, reason_of
from judges.judge import Message

if TYPE_CHECKING:
    from judges.runner import PreparedSample

Conversation = Sequence[Message]


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
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.path = path
        self._overwrite = overwrite
        self._begun = False

    def add(self, sample: PreparedSample, answers: Sequence[str]) -> None:
        """Write a sample's texts.

        Raises:
            MagistrateError: The file cannot be written.
        """
        prompts = sample.rendered.prompts if sample.rendered is not None else ()
        shown = [[{"role": message.role, "content": message.content} for message in prompt.messages] for prompt in prompts]
        line = {"id": sample.row.id, "sample": sample.key, "prompts": shown, "answers": list(answers)}
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
            while content_end and _byte_before(file.fileno(), content_end) != b"\n":
                content_end -= 1
            file.truncate(content_end)


def _byte_before(descriptor: int, place: int) -> bytes:
    return os.pread(descriptor, 1, place - 1)


class TextReader:
    """The texts of a file, found by the digest that verdicts have in ``sample``. Without a file there are none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts: dict[str, int] = {}
        if not path.is_file():
            return
        start = 0
        with path.open("rb") as file:
            for line in file:
                with suppress(ValueError, KeyError, TypeError):  # a torn line, or somebody else's
                    self._starts[json.loads(line)["sample"]] = start
                start += len(line)

    def __len__(self) -> int:
        return len(self._starts)

    def of(self, sample: str) -> Texts | None:
        """The texts of a sample; ``None`` if the file has none."""
        start = self._starts.get(sample)
        if start is None:
            return None
        with self._path.open("rb") as file:
            file.seek(start)
            line = json.loads(file.readline())
        prompts = [[Message(turn["role"], turn["content"]) for turn in prompt] for prompt in line["prompts"]]
        return Texts(prompts, line["answers"])

"""The folder of a study: what each stage leaves there, and what it cost."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from judges.backend import LocalBackend, ProgressListener, judge_file
from judges.data.rows import Row
from judges.decoding import Decoding
from judges.engines.engine import Engine
from judges.judge import Judge
from judges.runner import prepare
from judges.verdict import Verdict

DIGITS = 8
"""Of a fingerprint, in the name of a file of verdicts: other settings never meet what these have judged."""


class StudyFolder:
    """Where a study keeps what it found. Every file is written whole or not at all, and verdicts one by one.

    Args:
        folder: Made if need be.
        engine: Who is asked.
        progress: Makes a listener from a stage's name and the number of its samples.

    Attributes:
        seconds: What each stage took, this time.
        tokens: What the judges took, all in all, whenever it was.
        fingerprints: Of each stage that asked a judge.
        asked: How many samples each such stage judged this time, and how many it had.
    """

    def __init__(self, folder: Path, engine: Engine, progress: Callable[[str, int], ProgressListener]) -> None:
        self.path = folder
        self.engine = engine
        self.seconds: dict[str, float] = {}
        self.tokens: Counter[str] = Counter()
        self.fingerprints: dict[str, dict[str, Any]] = {}
        self.asked: dict[str, dict[str, int]] = {}
        self._progress = progress
        self._paths: dict[str, Path] = {}
        (folder / "verdicts").mkdir(parents=True, exist_ok=True)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    async def judged(
        self, name: str, judge: Judge, rows: Iterable[Row], count: int, *, expected: bool = False
    ) -> Iterator[Verdict]:
        """Put rows to a judge, those that no earlier run has.

        Args:
            name: Of the stage, for its file and whoever watches.
            judge: What to ask.
            rows: With distinct ids.
            count: How many there are.
            expected: Whether to work out expected scores too.

        Returns:
            The verdicts in the rows' order, read from their file as they are drawn.

        Raises:
            MagistrateError: The judge cannot go on. What is judged is kept.
        """
        backend = LocalBackend(judge, self.engine, Decoding(expected=expected))
        fingerprint = await backend.fingerprint()
        self.fingerprints[name] = {"digest": fingerprint.digest, **fingerprint.fields()}
        path = self.path / "verdicts" / f"{file_name(name)}-{fingerprint.digest[:DIGITS]}.jsonl"
        found = await judge_file(path, (prepare(row, judge) for row in rows), backend, self._progress(name, count))
        self.asked[name] = {"now": found.tally.judged, "before": found.tally.kept}
        self._paths[name] = path
        return self._counted(name)

    def keep(self, name: str) -> Path:
        """The file for verdicts that a metric keeps; it adds a fingerprint to its name."""
        return self.path / "verdicts" / f"{file_name(name)}.jsonl"

    def read_again(self, name: str) -> Iterator[Verdict]:
        """The verdicts of a stage that has asked a judge."""
        with self._paths[name].open("rb") as lines:
            for line in lines:
                yield Verdict.from_json(line)

    def _counted(self, name: str) -> Iterator[Verdict]:
        for verdict in self.read_again(name):
            self.tokens.update(asdict(verdict.usage))
            yield verdict

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file."""
        with self._whole(name) as path:
            path.write_text(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    def write_table(self, name: str, columns: Mapping[str, Any]) -> None:
        """Write a Parquet file of named columns."""
        with self._whole(name) as path:
            pyarrow.parquet.write_table(pyarrow.table(dict(columns)), path, compression="zstd")

    @contextmanager
    def _whole(self, name: str) -> Iterator[Path]:
        scratch = self.path / f".{name}.part"
        yield scratch
        with scratch.open("rb") as written:
            os.fsync(written.fileno())
        scratch.replace(self.path / name)


def file_name(name: str) -> str:
    """A name with an underscore in place of what not every file system takes, cut to 80 characters and 200 bytes."""
    return "".join(one if one.isalnum() or one in "-_." else "_" for one in name)[:80].encode()[:200].decode(errors="ignore")

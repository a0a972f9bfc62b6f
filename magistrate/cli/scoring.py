"""``magistrate score``: a file of samples in, a file of verdicts out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from rich.console import Console

from judges.backend import Backend, Tally, judge_file
from judges.data.rows import Row, count_rows, read_rows, renamed
from judges.engines.hardware import HARDWARE
from judges.errors import MagistrateError
from judges.judge import Judge, Score
from judges.repeats import with_occurrences
from judges.runner import PreparedSample, prepare
from judges.summary import Summary
from judges.texts import TextWriter, discard_texts, texts_beside
from judges.verdict_lines import known_fingerprints
from magistrate.cli.flags import RowFlags, RunFlags
from magistrate.cli.terminal import ConsoleProgress

MOST_REPEATS = 3
"""Repeated ids to name; the others are counted."""


@dataclass(slots=True)
class Outcome:
    """The result of a run.

    Attributes:
        summary: A tally of the verdicts on the wanted rows.
        tally: The work of this run.
        leftover: Where verdicts were moved whose samples changed or left the input.
        repeats: Rows whose id an earlier row has.
        averaged: Metrics whose means are averaged into one figure.
        legal: Metric to every legal score.
    """

    summary: Summary
    tally: Tally
    leftover: Path | None = None
    repeats: int = 0
    averaged: Sequence[str] = ()
    legal: Mapping[str, Collection[Score]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scoring:
    """Which rows of a file are judged, and how.

    Attributes:
        console: Where progress is shown.
        columns: Field of a sample to the column that holds it, if the names differ.
        limit: The number of rows to judge, from the first; all if ``None``.
        encoding: Encoding of a CSV file; by default UTF-8, or UTF-16 if its byte order mark says so.
        strict: Whether to stop at the first row that cannot be judged, rather than write an unscored verdict.
        overwrite: Whether to discard an earlier output.
        mixed: Whether an earlier output may have been made on other hardware.
        debug: Whether to let libraries print.
        keep_texts: Whether to keep prompts and answers beside the output.
    """

    console: Console
    columns: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
    encoding: str | None = None
    strict: bool = False
    overwrite: bool = False
    mixed: bool = False
    debug: bool = False
    keep_texts: bool = False

    @classmethod
    def of(cls, console: Console, rows: RowFlags, run: RunFlags) -> Scoring:
        """What a command's flags say.

        Raises:
            MagistrateError: As in ``RowFlags.columns``.
        """
        return cls(
            console,
            rows.columns(),
            rows.limit,
            rows.encoding,
            strict=rows.strict,
            overwrite=run.overwrite,
            mixed=run.allow_mixed,
            debug=run.debug,
            keep_texts=run.keep_texts,
        )

    def texts(self, output: Path) -> TextWriter | None:
        """What keeps prompts and answers beside an output, if they are to be kept."""
        return TextWriter(texts_beside(output), overwrite=self.overwrite) if self.keep_texts else None


async def score_file(source: Path, output: Path, backend: Backend, how: Scoring, *, say_repeats: bool = True) -> Outcome:
    """Judge every sample of a file that its output does not hold yet.

    Args:
        source: The samples.
        output: The verdicts, one JSON line each; in the input's order when the run is complete.
        backend: Where the judge is asked. It is started if there is something to judge.
        how: Which rows are judged, and how.
        say_repeats: Whether to name rows whose id an earlier row has.

    Raises:
        MagistrateError: Something that the user can mend. What is judged is kept.
    """
    total = count_rows(source)
    progress = ConsoleProgress(
        how.console, total if how.limit is None or total is None else min(total, how.limit), debug=how.debug
    )
    repeats = _Repeats(how.console, MOST_REPEATS if say_repeats else 0, strict=how.strict)
    rows = (renamed(row, how.columns) for row in islice(read_rows(source, how.encoding), how.limit))
    samples = _samples(with_occurrences(rows, repeats.add), backend.judge, strict=how.strict)
    with progress.loading():
        await backend.fingerprint()  # a server may have to load the model for it
    judged = await judge_file(
        output, samples, backend, progress, overwrite=how.overwrite, whole=how.limit is None, mixed=how.mixed
    )
    if how.overwrite and not how.keep_texts:
        discard_texts(output)
    if judged.tally.judged + judged.tally.kept == 0:
        raise MagistrateError(f"{source} holds no samples")
    judge = backend.judge
    return Outcome(Summary.of(judged.verdicts()), judged.tally, judged.leftover, repeats.count, judge.averaged, judge.legal)


def mixture(summary: Summary, output: Path) -> str | None:
    """Say on what hardware how many verdicts of a file were made; ``None`` if all have one fingerprint."""
    if len(summary.fingerprints) < 2:
        return None
    known = known_fingerprints(output)
    counts: Counter[str] = Counter()
    for digest, count in summary.fingerprints.items():
        options = known.get(digest, {}).get("identity", {}).get("options", {})
        counts[", ".join(str(options[name]) for name in HARDWARE if name in options) or "a CPU"] += count
    return "mixed hardware: " + "; ".join(f"{count:,} on {name}" for name, count in counts.most_common())


class _Repeats:
    """Names on a console the first rows whose id an earlier row has; there may be millions."""

    def __init__(self, console: Console, most: int, *, strict: bool) -> None:
        self.count = 0
        self._console = console
        self._most = most
        self._strict = strict

    def add(self, sentence: str) -> None:
        self.count += 1
        if self._strict:
            raise MagistrateError(f"{sentence}; give each row its own (without `--strict` both are judged)")
        if self.count <= self._most:
            text = f"{sentence}; `occurrence` tells their verdicts apart"
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _samples(rows: Iterable[Row], judge: Judge, *, strict: bool) -> Iterator[PreparedSample]:
    for row in rows:
        sample = prepare(row, judge)
        if strict and sample.problem is not None:
            raise MagistrateError(f"{sample.problem} (without `--strict` the row becomes an unscored verdict)")
        yield sample

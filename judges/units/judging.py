"""Judges units: several feed one window of a judge, so that none waits for the last rows of another."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from judges.backend import Backend, ProgressListener, Tally
from judges.data.rows import renamed
from judges.errors import MagistrateError
from judges.repeats import with_occurrences
from judges.runner import PreparedSample, prepare, unscored
from judges.summary import Summary
from judges.units.rows import rows_of
from judges.units.stores import Store
from judges.units.tables import Facts, parquet, read_verdicts, schema_of
from judges.units.units import Unit, digest_or_fault, digests
from judges.verdict import Verdict


@dataclass(slots=True)
class UnitTally(Tally):
    """Counts of a run over units.

    Attributes:
        units: Units judged to their end by this run.
        kept_units: Units that were done before.
        tokens: Tokens that this run's judgments computed: of prompts, but for cached ones, and of answers.
        summary: Of the verdicts of this run's units.
        faults: Unit to the reason why it could not be read.
    """

    units: int = 0
    kept_units: int = 0
    tokens: int = 0
    summary: Summary = field(default_factory=Summary)
    faults: dict[str, str] = field(default_factory=dict)

    def keep(self, facts: Facts) -> None:
        """Count a unit that was done before."""
        self.kept_units += 1
        self.kept += facts.summary.scored + facts.summary.unscored.total()
        self.summary.merge(facts.summary)

    def add(self, other: Mapping[str, Any]) -> None:
        """Add what another process did, as ``as_fields`` tells it."""
        self.judged += other["judged"]
        self.kept += other["kept"]
        self.unscored += other["unscored"]
        self.units += other["units"]
        self.kept_units += other["kept_units"]
        self.tokens += other["tokens"]
        self.faults |= other["faults"]
        self.summary.merge(Summary.from_fields(other["summary"]))

    def as_fields(self) -> dict[str, Any]:
        """The counts as a JSON object."""
        names = ("judged", "kept", "unscored", "units", "kept_units", "tokens", "faults")
        return {name: getattr(self, name) for name in names} | {"summary": self.summary.as_fields()}


@dataclass(slots=True)
class _Open:
    """A unit that is being judged: its verdicts in the order of its rows, ``None`` where one is waited for."""

    unit: Unit
    digest: str
    verdicts: list[Verdict | None] = field(default_factory=list)
    waiting: int = 0
    read: bool = False
    earlier: Mapping[tuple[str, int], Verdict] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return self.read and not self.waiting


class UnitJudging:
    """Judges units to a store, each to a file that appears when it is whole.

    A unit whose file stands, with the same digests, is done. Verdicts of it that say nothing of their sample are reached again.

    Args:
        source: Where the units are.
        target: Where their files go.
        backend: Judges the samples; the caller closes it.
        done: Name to what is known of the files that stand.
        columns: Field of a sample to the column that holds it, if the names differ.
        progress: Receives the progress.
        report: Called with a sentence for each row that repeats an id of its unit, and each unit that cannot be read.
    """

    def __init__(
        self,
        source: Store,
        target: Store,
        backend: Backend,
        done: Mapping[str, Facts],
        *,
        columns: Mapping[str, str] | None = None,
        progress: ProgressListener | None = None,
        report: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._source = source
        self._target = target
        self._backend = backend
        self._done = done
        self._columns = columns or {}
        self._progress = progress or ProgressListener()
        self._report = report
        self._schema = schema_of(backend.judge)
        self._fingerprint = ""
        self._waiting: dict[tuple[str, int], deque[tuple[_Open, int]]] = defaultdict(deque)
        self._complete: deque[_Open] = deque()
        self.tally = UnitTally()

    async def run(self, units: Iterable[Unit]) -> UnitTally:
        """Judge the units that are not done.

        Raises:
            MagistrateError: The backend has failed, a file cannot be written, or a unit has changed since it was judged, or was
                judged by another judge.
        """
        self._fingerprint = (await self._backend.fingerprint()).digest
        askable = self._samples(units)
        first = next(askable, None)
        began = time.perf_counter()
        if first is not None:
            with self._progress.loading():
                await self._backend.start()
        ready = time.perf_counter()
        self.tally.loading = ready - began
        with self._progress.judging():
            if first is not None:
                await self._judge(chain([first], askable))
            await self._write_complete()
        self.tally.judging = time.perf_counter() - ready
        return self.tally

    async def _judge(self, samples: Iterable[PreparedSample]) -> None:
        verdicts: AsyncGenerator[Verdict, None]
        async with aclosing(self._backend.run(samples)) as verdicts:
            async for verdict in verdicts:
                place = self._waiting[verdict.sample, verdict.occurrence]
                opened, number = place.popleft()
                if not place:
                    del self._waiting[verdict.sample, verdict.occurrence]
                opened.verdicts[number] = verdict
                opened.waiting -= 1
                self._count(verdict)
                if opened.complete:
                    self._complete.append(opened)
                await self._write_complete()

    def _samples(self, units: Iterable[Unit]) -> Iterator[PreparedSample]:
        """The samples to ask about, unit after unit."""
        for unit, name in digests(self._source, units):
            try:
                if isinstance(name, MagistrateError):
                    raise name
                if (opened := self._begun(unit, name)) is not None:
                    yield from self._rows(opened)
            except MagistrateError as error:
                if not self._unread(unit, error):
                    raise

    def _begun(self, unit: Unit, name: str) -> _Open | None:
        """A unit that has something to judge; ``None`` for one that is done."""
        facts = self._done.get(unit.name)
        if facts is None:
            return _Open(unit, name)
        check_unchanged(self._target, unit, facts, name)
        if facts.fingerprint != self._fingerprint:
            raise _ChangedError(
                f"{self._target.place(unit.name)} is of another judge, model or setting (fingerprint {facts.fingerprint}, "
                f"not {self._fingerprint}); give another folder, or remove that file"
            )
        if not facts.repeated:
            self.tally.keep(facts)
            self._progress.update(self.tally)
            return None
        kept = {(one.sample, one.occurrence): one for one in read_verdicts(self._target, unit.name) if one.final}
        return _Open(unit, name, earlier=kept)

    def _rows(self, opened: _Open) -> Iterator[PreparedSample]:
        rows = (renamed(row, self._columns) for row in rows_of(self._source, opened.unit))
        judge = self._backend.judge
        for row in with_occurrences(rows, self._report):
            sample = prepare(row, judge)
            earlier = opened.earlier.get((sample.key, row.occurrence))
            if earlier is not None:
                opened.verdicts.append(earlier)
                self.tally.kept += 1
            elif sample.rendered is None:
                verdict = unscored(sample, sample.problem or "the row holds no sample", judge, self._fingerprint)
                opened.verdicts.append(verdict)
                self._count(verdict)
            else:
                self._waiting[sample.key, row.occurrence].append((opened, len(opened.verdicts)))
                opened.verdicts.append(None)
                opened.waiting += 1
                yield sample
        opened.read = True
        if opened.complete:
            self._complete.append(opened)

    def _count(self, verdict: Verdict) -> None:
        self.tally.judged += 1
        self.tally.unscored += verdict.status == "unscored"
        self.tally.tokens += verdict.usage.prompt_tokens - verdict.usage.cached_tokens + verdict.usage.completion_tokens
        self._progress.update(self.tally)

    def _unread(self, unit: Unit, error: MagistrateError) -> bool:
        """Note a unit that cannot be read, whose file is not written; ``False`` for another error."""
        if isinstance(error, _ChangedError):
            return False
        self.tally.faults[str(unit)] = str(error)
        self._report(f"{unit} is not judged: {error}")
        return True

    async def _write_complete(self) -> None:
        while self._complete:
            opened = self._complete.popleft()
            verdicts = [verdict for verdict in opened.verdicts if verdict is not None]
            facts = Facts.of(opened.digest, self._fingerprint, verdicts)
            if await asyncio.to_thread(self._write, opened.unit, verdicts, facts):
                self.tally.units += 1
                self.tally.summary.merge(facts.summary)
            else:
                place = self._source.place(opened.unit.path)
                self._unread(opened.unit, MagistrateError(f"{place} has changed while it was read"))

    def _write(self, unit: Unit, verdicts: Sequence[Verdict], facts: Facts) -> bool:
        """Write a unit's file, unless the unit is no longer what was read."""
        unchanged = digest_or_fault(self._source, unit) == facts.unit
        if unchanged:
            self._target.write(unit.name, parquet(verdicts, self._schema, facts))
        return unchanged


def check_unchanged(target: Store, unit: Unit, facts: Facts, name: str) -> None:
    """See that a unit is what was judged.

    Args:
        target: Where its file is.
        unit: The unit.
        facts: What its file says.
        name: The unit's digest.

    Raises:
        MagistrateError: It has changed.
    """
    if facts.unit != name:
        place = target.place(unit.name)
        raise _ChangedError(f"{unit} has changed since it was judged to {place}; give another folder, or remove that file")


class _ChangedError(MagistrateError):
    """A unit's content, or what it is asked, is not what was judged."""

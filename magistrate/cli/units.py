"""``magistrate score`` on units: a folder, a bucket or a share of a file in, a folder of verdicts out."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from judges.backend import Backend
from judges.data.rows import Row
from judges.errors import MagistrateError, counted
from judges.fitting import check_columns, check_rows
from judges.judge import Judge, Score
from judges.units.folder import Run, State, begin, check_input, fingerprint_fields, share, state_of
from judges.units.judging import UnitJudging, UnitTally, check_unchanged
from judges.units.rows import rows_of
from judges.units.stores import Store, inputs
from judges.units.units import SIZE, SUFFIXES, Unit, digests, find_units
from magistrate.cli.flags import RowFlags, RunFlags
from magistrate.cli.report import print_summary, speed, summary_fields
from magistrate.cli.terminal import ConsoleProgress, quiet
from magistrate.cli.unit_flags import UnitFlags, address

if TYPE_CHECKING:
    from magistrate.ray import Asked

MEBIBYTE = 1 << 20

FIRST_ROWS = 10_000
"""Rows among which the judge must be able to read one, before an engine starts."""

MOST_NAMED = 5
"""Files without rows to name."""

MOST_FAULTS = 5
"""Units that cannot be read to name at the end."""


def check_flags(rows: RowFlags, run: RunFlags, *, dry_run: bool) -> None:
    """See that no flag is given that a run over units does not have.

    Raises:
        MagistrateError: One is.
    """
    given = {
        "--limit": rows.limit is not None,
        "--encoding": rows.encoding is not None,
        "--strict": rows.strict,
        "--overwrite": run.overwrite,
        "--keep-texts": run.keep_texts,
        "--allow-mixed": run.allow_mixed,
        "--dry-run": dry_run,
        "-o -": str(run.output) == "-",
    }
    for flag in [flag for flag, there in given.items() if there]:
        raise MagistrateError(f"`{flag}` is for one file of samples and one of verdicts; leave it out")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be judged, and where to.

    Attributes:
        source: Where the units are.
        target: Where their verdicts go.
        units: This run's share of the units.
        columns: Field of a sample to the column that holds it, if the names differ.
        size: Bytes of a unit.
        count: Units of the whole input.
        state: What the folder holds.
        passed_over: Files of the input's folder that hold no rows that units are made of.
    """

    source: Store
    target: Store
    units: Sequence[Unit]
    columns: Mapping[str, str]
    size: int
    count: int
    state: State
    passed_over: Sequence[str]

    @classmethod
    def of(cls, source: Path, output: Path, judge: Judge, flags: UnitFlags, columns: Mapping[str, str]) -> Plan:
        """Divide an input, and see what is done.

        Raises:
            MagistrateError: The input cannot be read, the judge has no such field, or the folder holds verdicts of another input.
        """
        part, parts = flags.part()
        check_columns([judge], columns)
        target = Store.of(address(output))
        store, files = inputs(address(source), SUFFIXES, target)
        if store.root == target.root and store.is_local == target.is_local:
            raise MagistrateError(f"{output} holds the samples; give `-o` another folder")
        size = SIZE if flags.unit_size is None else flags.unit_size * MEBIBYTE
        units = list(find_units(store, files, size))
        state = state_of(target)
        check_input(target, state, units)
        ours = list(share(units, part, parts))
        _check_first_rows(store, [unit for unit in ours if unit.name not in state.done], judge, columns, str(source))
        found = store.files() if source.is_dir() else ()
        passed_over = [name for name in found if name not in files and not target.holds(store, name)]
        return cls(store, target, ours, columns, size, len(units), state, passed_over)

    @property
    def facts(self) -> dict[str, Any]:
        """What the folder is of, but for the fingerprint."""
        return {"size": self.size, "columns": dict(self.columns), "units": self.count}


def _check_first_rows(source: Store, units: Iterable[Unit], judge: Judge, columns: Mapping[str, str], name: str) -> None:
    """See that the judge can read one of the first rows, if any can be read.

    Raises:
        MagistrateError: It cannot; the message names the columns.
    """

    def rows() -> Iterator[Row]:
        for unit in units:
            with suppress(MagistrateError):  # the run names units that cannot be read
                yield from rows_of(source, unit)

    some = islice(rows(), FIRST_ROWS)
    if (first := next(some, None)) is not None:
        check_rows(chain([first], some), judge, columns, name)


async def score_units(plan: Plan, backend: Backend, console: Console, *, debug: bool) -> UnitTally:
    """Judge units on an engine here, or a server.

    Raises:
        MagistrateError: Something that the user can mend. Units that were judged to their end are kept.
    """
    say_passed_over(plan, console)
    progress = ConsoleProgress(console, debug=debug)
    with progress.loading():
        fingerprint = await backend.fingerprint()
    begin(plan.target, Run(**plan.facts, fingerprint=fingerprint_fields(fingerprint)))
    report = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    judging = UnitJudging(
        plan.source, plan.target, backend, plan.state.done, columns=plan.columns, progress=progress, report=report
    )
    return await judging.run(plan.units)


def score_units_on_ray(plan: Plan, asked: Asked, console: Console, *, debug: bool) -> UnitTally:
    """Judge units on a Ray cluster.

    Raises:
        MagistrateError: There is no such cluster, no engine can start on it, a file cannot be written, or a unit or what it is
            asked has changed since it was judged.
    """
    from judges.engines.cluster import connect
    from magistrate.ray import judge_units

    say_passed_over(plan, console)
    if not debug:
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    with quiet(enabled=not debug):
        connect(asked.engine.ray or "auto", debug=debug)
    tally = UnitTally()
    known = {name: facts for name, facts in plan.state.done.items() if not facts.repeated}
    todo, done = [unit for unit in plan.units if unit.name not in known], []
    for unit, found in digests(plan.source, (unit for unit in plan.units if unit.name in known)):
        if isinstance(found, MagistrateError):  # the actor that reads it says so
            todo.append(unit)
        else:
            check_unchanged(plan.target, unit, known[unit.name], found)
            done.append(unit)
    if not todo:  # an actor tells whether the folder is of this judge and model, which its engine knows
        todo, done = done[:1], done[1:]
    for unit in done:
        tally.keep(plan.state.done[unit.name])
    progress = ConsoleProgress(console, debug=debug)
    began = time.perf_counter()
    # Ray writes 20 lines to the standard output where a node ends.
    with progress.judging(), redirect_stdout(sys.stdout if debug else StringIO()):
        for one in judge_units(plan.source, plan.target, todo, asked, plan.facts, actors=asked.engine.actors) if todo else ():
            for sentence in one["said"]:
                console.print(sentence, markup=False, highlight=False, soft_wrap=True)
            tally.add(one)
            progress.update(tally)
    tally.judging = time.perf_counter() - began
    return tally


def say_passed_over(plan: Plan, console: Console) -> None:
    """Name the files that are not judged, since they are of no form that units are made of."""
    if plan.passed_over:
        more = f" and {len(plan.passed_over) - MOST_NAMED:,} more" if len(plan.passed_over) > MOST_NAMED else ""
        named = ", ".join(plan.passed_over[:MOST_NAMED])
        sentence = f"passed over: {named}{more}; a folder's rows are JSON lines or Parquet ({', '.join(SUFFIXES)})"
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)


def print_units(console: Console, tally: UnitTally, legal: Mapping[str, Collection[Score]], output: Path) -> None:
    """Print a summary of the verdicts on a run's units, what it did, and which units could not be read."""
    print_summary(console, tally.summary, legal)
    if tally.judged:
        loading = f"after {tally.loading:.1f} s of loading" if tally.loading else "loading included"  # each actor has its own
        console.print(f"{tally.judged:,} judged in {tally.judging:.1f} s, {speed(tally)}, {loading}")
        console.print(f"{tally.tokens:,} tokens computed, {tally.tokens / max(tally.judging, 1e-9):,.0f} a second")
    console.print(f"{counted(tally.units, 'unit')} judged, {tally.kept_units:,} done before")
    console.print(f"verdicts: {address(output)}", markup=False, highlight=False, soft_wrap=True)


def check_faults(tally: UnitTally) -> None:
    """See that every unit was read.

    Raises:
        MagistrateError: Some were not; the message names the first.
    """
    if tally.faults:
        named = "; ".join(list(tally.faults.values())[:MOST_FAULTS])
        raise MagistrateError(f"{counted(len(tally.faults), 'unit')} could not be read: {named}")


def units_fields(tally: UnitTally, legal: Mapping[str, Collection[Score]], output: Path) -> str:
    """The outcome as JSON, for ``--json``."""
    return json.dumps(
        {
            **summary_fields(tally.summary, legal),
            "judged": tally.judged,
            "kept": tally.kept,
            "units": tally.units,
            "kept_units": tally.kept_units,
            "tokens": tally.tokens,
            "unread": tally.faults,
            "loading_seconds": round(tally.loading, 3),
            "judging_seconds": round(tally.judging, 3),
            "verdicts": address(output),
        }
    )

"""Measure judging in units with an engine that takes no time or sleeps, so that the code around the engine shows.

python -m scripts.bench_units plain --rows 1000000     # to one file, to a folder, on Ray with one node: seconds and memory
python -m scripts.bench_units status --rows 10000000   # totals of that many verdicts: seconds and memory
python -m scripts.bench_units idle                     # how long an engine's slots wait, 200 units of 500 rows, here and on Ray
python -m scripts.bench_units actors                   # judgments a second of two actors over those of one
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from judges.backend import Backend, judge_file
from judges.concurrency import Work, as_reached
from judges.data.rows import read_rows
from judges.decoding import Decoding
from judges.engines.cluster import connect
from judges.engines.engine import EngineIdentity, Usage
from judges.engines.settings import EngineSettings
from judges.judge import Judge
from judges.llm_eval import LLMEval
from judges.repeats import with_occurrences
from judges.runner import PreparedSample, prepare
from judges.units.folder import Run, begin, fingerprint_fields, state_of
from judges.units.judging import UnitJudging, UnitTally
from judges.units.stores import Store, inputs
from judges.units.tables import Facts, parquet, schema_of
from judges.units.units import SIZE, SUFFIXES, VERDICTS, Unit, find_units
from judges.verdict import Fingerprint, Verdict
from magistrate.ray import Asked, judge_units

SLOTS = 64
"""Samples that the sleeping engine judges at a time; a run hands it twice as many."""

SECONDS = 0.05
"""How long a sample takes in one of its slots."""

MICROSECONDS = 1_000_000
"""A verdict of the sleeping engine says as tokens how many of them it took a slot, for a run's tally to add up."""


class Instant:
    """A backend whose engine answers at once, or after some seconds in one of its slots."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.judge: Judge = LLMEval()
        self.seconds = seconds
        self.slots = ThreadPoolExecutor(SLOTS)

    async def fingerprint(self) -> Fingerprint:
        return Fingerprint.of(self.judge, EngineIdentity("none", "1", "instant", None, "none"))

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def run(self, samples: Iterable[PreparedSample]) -> AsyncGenerator[Verdict, None]:
        digest = (await self.fingerprint()).digest
        if not self.seconds:
            for sample in samples:
                yield self._verdict(sample, digest)
            return

        async def work() -> AsyncGenerator[Work[Verdict], None]:
            for sample in samples:
                yield self._late(sample, digest)

        async for verdict in as_reached(work(), 2 * SLOTS):
            yield verdict

    async def _late(self, sample: PreparedSample, digest: str) -> Verdict:
        taken = await asyncio.get_running_loop().run_in_executor(self.slots, self._occupy)
        return replace(self._verdict(sample, digest), usage=Usage(completion_tokens=round(taken * MICROSECONDS)))

    def _occupy(self) -> float:
        began = time.perf_counter()
        time.sleep(self.seconds)
        return time.perf_counter() - began

    def _verdict(self, sample: PreparedSample, digest: str) -> Verdict:
        return Verdict(
            id=sample.row.id,
            judge=self.judge.name,
            status="scored",
            scores=dict.fromkeys(self.judge.legal, int(sample.key[:4], 16) % 6),
            sample=sample.key,
            fingerprint=digest,
            occurrence=sample.row.occurrence,
        )


def write_rows(path: Path, rows: int) -> None:
    with path.open("w") as file:
        for number in range(rows):
            reply = f"That is reply {number}, and it says {'very ' * (number % 9)}little."
            file.write(json.dumps({"id": f"r{number}", "context": ["Hello.", "How are you?"], "response": reply}) + "\n")


@dataclass(frozen=True)
class AskedInstant(Asked):
    """What actors ask: the backend above."""

    seconds: float = 0.0

    def open(self) -> Backend:
        return Instant(self.seconds)


def to_file(source: Path, target: Path) -> int:
    backend = Instant()
    samples = (prepare(row, backend.judge) for row in with_occurrences(read_rows(source), print))
    return asyncio.run(judge_file(target, samples, backend)).tally.judged


def to_folder(source: Path, target: Path, seconds: float = 0.0) -> UnitTally:
    backend = Instant(seconds)
    store, folder, units, facts = divided(source, target)
    begin(folder, Run(**facts, fingerprint=fingerprint_fields(asyncio.run(backend.fingerprint()))))
    return asyncio.run(UnitJudging(store, folder, backend, state_of(folder).done).run(units))


def on_ray(source: Path, target: Path, seconds: float = 0.0, actors: int = 1) -> list[tuple[float, int, int]]:
    """Judge on Ray.

    Returns:
        A moment, the judgments and the tokens until then, for each unit.
    """
    store, folder, units, facts = divided(source, target)
    asked = AskedInstant("llm-eval", EngineSettings(), Decoding(), seconds=seconds)
    found = [(time.perf_counter(), 0, 0)]
    for tally in judge_units(store, folder, units, asked, facts, actors=actors):
        found.append((time.perf_counter(), found[-1][1] + tally["judged"], found[-1][2] + tally["tokens"]))
    return found


def divided(source: Path, target: Path) -> tuple[Store, Store, list[Unit], dict[str, Any]]:
    store, files = inputs(str(source), SUFFIXES)
    units = list(find_units(store, files, SIZE))
    facts = {"size": SIZE, "columns": {}, "units": len(units)}
    return store, Store.of(str(target)), units, facts


class Memory:
    """Watches the memory of this process and of the actors, in MB."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float]] = []
        self._ended = threading.Event()
        self._watching = threading.Thread(target=self._watch)

    def __enter__(self) -> Memory:
        self._watching.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watching.join()

    def _watch(self) -> None:
        own = psutil.Process()
        while not self._ended.wait(0.5):
            found = [process.info for process in psutil.process_iter(["cmdline", "memory_info"])]
            actors = [one["memory_info"].rss for one in found if (one["cmdline"] or [""])[0].startswith("ray::MapWorker")]
            self.seen.append((own.memory_info().rss / 1e6, max(actors, default=0) / 1e6))

    def __str__(self) -> str:
        early, whole = (self._most(self.seen[: len(self.seen) // share]) for share in (4, 1))
        return (
            f"driver {whole[0]:.0f} MB, actor {whole[1]:.0f} MB at most (in the first quarter {early[0]:.0f} and {early[1]:.0f})"
        )

    def _most(self, seen: list[tuple[float, float]]) -> tuple[float, float]:
        return max(driver for driver, _ in seen), max(actor for _, actor in seen)


def measured(*arguments: str) -> tuple[float, float]:
    """Seconds and peak MB of this script in a process of its own."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "scripts.bench_units", *arguments], capture_output=True, text=True, check=True)
    return time.perf_counter() - began, float(done.stdout.split()[-1])


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def plain(rows: int, rounds: int, scratch: Path) -> None:
    write_rows(scratch / "rows.jsonl", rows)
    connect("local")
    ratios: dict[str, list[float]] = {"folder": [], "Ray": []}
    for number in range(1, rounds + 1):
        found = {}
        for way in ("file", "folder"):
            found[way], most = measured(way, str(scratch / "rows.jsonl"), str(scratch / f"{way}{number}"))
            print(f"round {number}, to a {way}: {found[way]:.1f} s, {most:.0f} MB at most", flush=True)
        with Memory() as memory:
            moments = on_ray(scratch / "rows.jsonl", scratch / f"ray{number}")
        found["Ray"] = moments[-1][0] - moments[0][0]
        started = moments[1][0] - moments[0][0]
        print(f"round {number}, on Ray: {found['Ray']:.1f} s, {started:.1f} to the first unit; {memory}", flush=True)
        for way, each in ratios.items():
            each.append(found[way] / found["file"])
    for way, each in ratios.items():
        print(f"time to a file over time with {way}: median {1 / statistics.median(each):.2f} of {rounds} rounds")


def status(rows: int, scratch: Path) -> None:
    """Write units of 10,000 verdicts, and time what ``verdicts status`` does."""
    backend, each = Instant(), 10_000
    schema = schema_of(backend.judge)
    fingerprint = asyncio.run(backend.fingerprint())
    folder = Store.of(str(scratch / "verdicts"))
    begin(folder, Run(SIZE, {}, fingerprint_fields(fingerprint), rows // each))
    write_rows(scratch / "rows.jsonl", each)
    verdicts = [backend._verdict(prepare(row, backend.judge), fingerprint.digest) for row in read_rows(scratch / "rows.jsonl")]
    content = parquet(verdicts, schema, Facts.of("unit", fingerprint.digest, verdicts))
    for number in range(rows // each):
        folder.write(f"{number:06}.jsonl{VERDICTS}", content)
    began = time.perf_counter()
    done = subprocess.run(
        ["/usr/bin/env", "time", "-f", "%M", sys.executable, "-m", "magistrate", "verdicts", "status", folder.root],
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"{done.stdout.strip()}\n{time.perf_counter() - began:.1f} s, {float(done.stderr.split()[-1]) / 1e3:.0f} MB at most")


def write_files(folder: Path, files: int, rows: int) -> Path:
    folder.mkdir()
    for number in range(files):
        write_rows(folder / f"{number:03}.jsonl", rows)
    return folder


def idle(rounds: int, scratch: Path) -> None:
    """Measure the share of an engine's time in which its slots wait, from its first unit's end."""
    source = write_files(scratch / "rows", 200, 500)
    connect("local")
    for number in range(rounds):
        began = time.perf_counter()
        taken = to_folder(source, scratch / f"here{number}", SECONDS).tokens
        here = waited(taken, time.perf_counter() - began)
        (first, _, some), *_, (last, judged, taken) = on_ray(source, scratch / f"ray{number}", SECONDS)[1:]
        there = waited(taken - some, last - first)
        print(f"{judged:,} rows: the engine's {SLOTS} slots waited {here:.1%} of the time here, {there:.1%} on Ray", flush=True)


def waited(taken: int, seconds: float) -> float:
    return 1 - taken / MICROSECONDS / SLOTS / seconds


def actors(rounds: int, scratch: Path) -> None:
    """Measure judgments a second of one actor and of two, from the first unit's end to the last one's."""
    source = write_files(scratch / "rows", 200, 500)
    connect("local")
    ratios = []
    for number in range(rounds):
        speeds = []
        for count in (1, 2):
            (first, some, _), *_, (last, judged, _) = on_ray(source, scratch / f"{number}-{count}", SECONDS, count)[1:]
            speeds.append((judged - some) / (last - first))
        ratios.append(speeds[1] / speeds[0])
        print(f"one actor {speeds[0]:,.0f}, two {speeds[1]:,.0f} judgments a second", flush=True)
    print(f"two over one: median {statistics.median(ratios):.2f} of {rounds} rounds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["plain", "status", "idle", "actors", "file", "folder"])
    parser.add_argument("paths", nargs="*", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.what in ("file", "folder"):
        (to_file if options.what == "file" else to_folder)(*options.paths)
        print(peak())
        return
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        if options.what == "status":
            status(options.rows, scratch)
        elif options.what == "plain":
            plain(options.rows, options.rounds, scratch)
        else:
            (idle if options.what == "idle" else actors)(options.rounds, scratch)


if __name__ == "__main__":
    main()

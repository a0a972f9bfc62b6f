"""What a QualEval study takes besides its judge.

.venv/bin/python scripts/bench_qualeval.py --only large       stages behind the judge, on 100,000 instances
.venv/bin/python scripts/bench_qualeval.py --only programs    MBPP's own solutions in the sandbox
.venv/bin/python scripts/bench_qualeval.py --only host        a study of 500 with an engine that takes no time
.venv/bin/python scripts/bench_qualeval.py --only run         a study of 60 on a very small judge, whose answers are long
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evals.data.tasks import Dataset, Instance, Predictions, Task, read_dataset, read_predictions
from evals.metrics.catalog import open_metric
from evals.metrics.metric import Pair
from evals.qualeval import Options, Study, run_study
from evals.qualeval.attributes import given
from evals.qualeval.report import write
from judges.engines.engine import Engine, EngineIdentity, Generation, Request, Usage
from judges.engines.vllm.engine import VLLMEngine

DATA = Path(__file__).parents[2] / "shared" / "data"
ATTRIBUTES = 15


class Instant(Engine):
    """Answers at once, and at random, whatever a schema allows: the stages behind the judge are measured, not the judge."""

    concurrency = 1024
    max_alternatives = 0

    def __init__(self) -> None:
        self._chance = random.Random(0)

    @property
    def identity(self) -> EngineIdentity:
        return EngineIdentity("instant", "1", "none", None, "none")

    async def identify(self) -> None:
        return

    async def start(self) -> None:
        return

    async def close(self) -> None:
        return

    async def generate(self, request: Request) -> Generation:
        assert request.schema is not None
        return Generation(json.dumps(self._answer(request.schema, request.schema)), True, Usage(100, 90, 50))

    def _answer(self, schema: Mapping[str, Any], whole: Mapping[str, Any]) -> Any:
        if "$ref" in schema:
            return self._answer(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
        if "enum" in schema:
            return self._chance.choice(schema["enum"])
        if schema.get("type") == "object":
            return {name: self._answer(part, whole) for name, part in schema["properties"].items()}
        if schema.get("type") == "array":
            return [self._answer(schema["items"], whole)]
        return "It says so in the second sentence of the input, and again at the end."


class Watched(VLLMEngine):
    """The engine, and the seconds in which it had anything to do or was being loaded."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.busy = 0.0
        self._at_once = 0
        self._since = 0.0

    def _enter(self) -> None:
        if not self._at_once:
            self._since = time.perf_counter()
        self._at_once += 1

    def _leave(self) -> None:
        self._at_once -= 1
        if not self._at_once:
            self.busy += time.perf_counter() - self._since

    async def start(self) -> None:
        self._enter()
        try:
            await super().start()
        finally:
            self._leave()

    async def generate(self, request: Request) -> Generation:
        self._enter()
        try:
            return await super().generate(request)
        finally:
            self._leave()


def lists() -> Any:
    return {kind: given(kind, [f"{kind} number {n}" for n in range(1, ATTRIBUTES + 1)]) for kind in ("domain", "subtask")}


def bench_large(count: int) -> list[str]:
    """Judge once with an engine that takes no time, then make the study again from its verdicts."""
    instances = [
        Instance(str(n), {}, f"Conversation {n}: " + "words " * 60, f"The summary of conversation {n} is short.")
        for n in range(count)
    ]
    answers: dict[str, str | list[str]] = {one.id: f"A summary of conversation {one.id} it is." for one in instances}
    study = Study(
        task=Task.load("dialogsum"),
        dataset=Dataset(instances, []),
        predictions=[Predictions("model", answers, [])],
        metric=open_metric("rouge-l"),
        attributes=lists(),
        options=Options(),
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(run_study(study, folder, Instant()))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        began = time.perf_counter()
        report = asyncio.run(run_study(study, folder, Instant()))
        stages = time.perf_counter() - began
        write(report, folder)
        whole = time.perf_counter() - began
        seconds = ", ".join(f"{stage} {took:.1f}" for stage, took in report["made"]["seconds"].items())
        size = (folder / "index.html").stat().st_size / 1e6
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        f"| {count:,} instances, verdicts given: the stages, s | {stages:.1f} ({seconds}) |",
        f"| the same with page, pictures and text, s | {whole:.1f} |",
        f"| most memory of the process, MiB; before that run | {most:.0f}; {before:.0f} |",
        f"| size of the page, MB | {size:.1f} |",
    ]


def bench_programs(count: int) -> list[str]:
    """MBPP's solutions pass their own tests."""
    task = Task.load("mbpp")
    instances = read_dataset(task, DATA / "mbpp" / "sanitized-mbpp.json", count).instances
    pairs = [Pair(one.id, one.fields, one.truth, one.truth) for one in instances]
    began = time.perf_counter()
    measured = asyncio.run(open_metric("pass@1").measure(pairs))
    took = time.perf_counter() - began
    passed = sum(one.value == 1.0 for one in measured)
    return [f"| pass@1 of {len(pairs)} reference solutions, s | {took:.1f}; {passed} passed |"]


def bench_host(count: int) -> list[str]:
    """All that a study of DialogSum does beside its engine: one that answers at once stands for it."""
    took, asked = _study_dialogsum(count, Instant())
    return [
        f"| {count} instances, {ATTRIBUTES} and {ATTRIBUTES} attributes, one model, an engine that takes no time: the whole, s | "
        f"{took:.1f}; {asked} verdicts |"
    ]


def bench_run(count: int) -> list[str]:
    """A study of DialogSum on a very small judge, and how long its engine had nothing to do."""
    engine = Watched("tests/models/magistrate-tiny")
    took, asked = _study_dialogsum(count, engine)
    outside = took - engine.busy
    return [
        f"| {count} instances, {ATTRIBUTES} attributes of a kind, one model, a very small judge: the whole, s | {took:.0f} |",
        f"| of it the engine had nothing to do, s (share) | {outside:.1f} ({outside / took:.1%}); {asked} verdicts |",
    ]


def _study_dialogsum(count: int, engine: Engine) -> tuple[float, int]:
    """Seconds from the first stage to the page, and verdicts asked for."""
    task = Task.load("dialogsum")
    dataset = read_dataset(task, DATA / "dialogsum" / "dialogsum.dev.jsonl", count)
    metric = open_metric(task.metric, task.metric_options)
    with tempfile.TemporaryDirectory() as name:
        said = Path(name) / "model.jsonl"
        rows = [{"id": one.id, "prediction": one.input.splitlines()[0]} for one in dataset.instances]
        said.write_text("".join(json.dumps(row) + "\n" for row in rows))
        predictions = [read_predictions("model", said, dataset)]
        study = Study(task=task, dataset=dataset, predictions=predictions, metric=metric, attributes=lists(), options=Options())

        async def run() -> dict[str, Any]:
            try:
                return await run_study(study, Path(name) / "report", engine)
            finally:
                await engine.close()

        began = time.perf_counter()
        report = asyncio.run(run())
        write(report, Path(name) / "report")
        took = time.perf_counter() - began
    return took, sum(stage["now"] for stage in report["made"]["asked"].values())


BENCHES: dict[str, tuple[Callable[[int], list[str]], int]] = {
    "large": (bench_large, 100_000),
    "programs": (bench_programs, 427),
    "host": (bench_host, 500),
    "run": (bench_run, 60),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=BENCHES)
    parser.add_argument("--count", type=int, help="instances, in place of the usual number")
    arguments = parser.parse_args()
    print("| figure | measured |\n|---|---|")
    for name, (bench, count) in BENCHES.items():
        if arguments.only in (None, name):
            print("\n".join(bench(arguments.count or count)), flush=True)


if __name__ == "__main__":
    main()

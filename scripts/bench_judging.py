"""How fast judging is, as ratios against bare vLLM in the same run.

    .venv/bin/python scripts/bench_judging.py            every figure, as Markdown
    .venv/bin/python scripts/bench_judging.py --only runner --rounds 7 --samples samples.jsonl --window 64
    .venv/bin/python scripts/bench_judging.py --only forced --model smollm2-135m
    .venv/bin/python scripts/bench_judging.py --only runner --model llama-3.1-8b --options '{"max_model_len": 8192}'

Both sides of a ratio run in one process and take turns, so that a machine whose speed drifts does not favour either. Each
figure is a median over rounds, with the smallest and the largest beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from judges.constraint import answer_pattern
from judges.data.rows import Row, read_rows
from judges.decoding import Decoding
from judges.engines.engine import CONSTRAINTS, Request
from judges.engines.hardware import find_gpu
from judges.engines.vllm.engine import VLLMEngine
from judges.engines.vllm.settings import installed_version
from judges.engines.weights import locate
from judges.grouse import Grouse
from judges.judge import Judge
from judges.llm_eval import LLMEval
from judges.runner import Runner, prepare
from magistrate.cli.main import SAMPLE

MODEL = "tests/models/magistrate-tiny"
GPU_SHARE = {"gpu_memory_utilization": 0.45}
"""Each side's share of a GPU's memory."""

COUNT = 512
SEQUENCES = 256
TIMES = {64: 2, 8: 6, 1: 12}
"""Number of answers written at once to the number of times that so many are asked for."""


def samples(path: Path, count: int) -> list[dict[str, Any]]:
    """So many different samples: a file's own, and then again with a number in front of the reply."""
    rows = [dict(row.sample) for row in read_rows(path) if row.sample and "response" in row.sample]
    made = []
    for number in range(count):
        row = rows[number % len(rows)]
        again = number // len(rows)
        made.append(row | {"id": str(number), "response": f"{again} {row['response']}" if again else row["response"]})
    return made


def spread(values: list[float], digits: int = 2) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


class Benchmark:
    """One event loop, the samples of a run, the model that judges them and the number of answers that it writes at once."""

    def __init__(
        self,
        rows: list[dict[str, Any]],
        rounds: int,
        model: str = MODEL,
        window: int = SEQUENCES,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.judge = LLMEval()
        self.rows = rows
        self.rounds = rounds
        self.model = model
        self.window = window
        self.options = options or {}
        self.loop = asyncio.Runner()

    def engine(self, constraint: str = CONSTRAINTS[0], **settings: Any) -> VLLMEngine:
        settings = {"max_num_seqs": self.window, "options": dict(self.options), **settings}
        engine = VLLMEngine(self.model, constraint=constraint, **settings)
        self.loop.run(engine.start())
        return engine

    def judge_all(
        self, engine: VLLMEngine, *, expected: bool = False, judge: Judge | None = None, rows: list[dict[str, Any]] | None = None
    ) -> tuple[float, list[Any]]:
        """Seconds to judge every sample through the runner, and the verdicts."""
        judge, rows = judge or self.judge, rows or self.rows

        async def run() -> list[Any]:
            runner = Runner(judge, engine, Decoding(expected=expected))
            asked = (Row(str(row["id"]), "row", row) for row in rows)
            return [verdict async for verdict in runner.run(prepare(row, judge) for row in asked)]

        engine._engine.reset_prefix_cache()
        began = time.perf_counter()
        verdicts = self.loop.run(run())
        return time.perf_counter() - began, verdicts


def bench_runner(bench: Benchmark) -> list[str]:
    """Judgments a second of the runner over a bare ``vllm.LLM`` loop in one process."""
    engine = bench.engine()
    bare = bare_llm("outlines", bench.window, bench.model, bench.options)
    loops: dict[str, Callable[[], float]] = {
        "bare loop, same constraint": lambda: bare(bench, {"regex": answer_pattern(bench.judge.form.schema)}),
        "bare loop, JSON schema": lambda: bare(bench, {"json": bench.judge.form.schema}),
        "runner": lambda: bench.judge_all(engine)[0],
        "runner, with expected scores": lambda: bench.judge_all(engine, expected=True)[0],
    }
    times = take_turns(loops, bench.rounds)
    speeds = {name: [len(bench.rows) / seconds for seconds in taken] for name, taken in times.items()}
    lines = [f"| {name}, judgments a second | {spread(values, 1)} |" for name, values in speeds.items()]
    for ours, theirs in (
        ("runner", "bare loop, same constraint"),
        ("runner", "bare loop, JSON schema"),
        ("runner, with expected scores", "runner"),
    ):
        lines.append(f"| **{ours} over {theirs}** | **{spread(ratios(times[ours], times[theirs]))}** |")
    return lines


def take_turns(loops: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """The seconds of each loop in each round, without the first, which warms up."""
    times = [{name: run() for name, run in loops.items()} for _ in range(rounds + 1)][1:]
    return {name: [taken[name] for taken in times] for name in loops}


def ratios(ours: list[float], theirs: list[float]) -> list[float]:
    """How many times as fast ours is, round by round."""
    return [there / here for here, there in zip(ours, theirs, strict=True)]


def bench_forced(bench: Benchmark) -> Iterator[str]:
    """Judgments a second with forced tokens computed in one step over the same engine without."""
    for window, times in TIMES.items():
        yield from compare_forced(bench, window, bench.judge, bench.rows[: window * times])
    grouse = Grouse(max_tokens=256)
    example = dict(grouse.example.sample)
    rows = [{**example, "id": number, "actual_output": f"{example['actual_output']} {number}"} for number in range(4)]
    yield from compare_forced(bench, len(rows), grouse, rows)


def compare_forced(bench: Benchmark, window: int, judge: Judge, rows: list[dict[str, Any]]) -> list[str]:
    engines = {forced: bench.engine(max_num_seqs=window, forced_tokens=forced) for forced in (True, False)}

    def run(forced: bool) -> tuple[float, list[Any]]:
        return bench.judge_all(engines[forced], judge=judge, rows=rows)

    answers = [
        sorted((verdict.id, str(verdict.scores), verdict.usage.completion_tokens) for verdict in run(forced)[1])
        for forced in engines
    ]
    steps = {forced: count_steps(engine, partial(run, forced)) for forced, engine in engines.items()}
    times = take_turns({"with": lambda: run(True)[0], "without": lambda: run(False)[0]}, bench.rounds)
    for engine in engines.values():
        bench.loop.run(engine.close())
    speeds = {name: spread([len(rows) / seconds for seconds in taken], 1) for name, taken in times.items()}
    return [
        f"| {judge.name}, {len(rows)} samples, {window} at once: judgments a second without | {speeds['without']} |",
        f"| the same with | {speeds['with']} |",
        f"| steps without, with | {steps[False]}, {steps[True]} |",
        f"| same scores, and as many tokens | {'yes' if answers[0] == answers[1] else 'NO'} |",
        f"| **with over without** | **{spread(ratios(times['with'], times['without']))}** |",
    ]


def count_steps(engine: VLLMEngine, run: Callable[[], object]) -> int:
    """The number of steps that an engine takes for a run."""
    scheduler = engine._engine.engine_core.engine_core.scheduler
    schedule = scheduler.schedule
    counts: list[bool] = []

    def counted(*args: Any, **options: Any) -> Any:
        output = schedule(*args, **options)
        counts.append(output.total_num_scheduled_tokens > 0)
        return output

    scheduler.schedule = counted
    run()
    scheduler.schedule = schedule
    return sum(counts)


def bare_llm(
    constraint: str, window: int = SEQUENCES, model: str = MODEL, options: dict[str, Any] | None = None
) -> Callable[[Benchmark, dict[str, Any]], float]:
    """The plain loop a careful user of vLLM would write: one process, eager on the CPU, prompts templated in one call."""
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    llm = LLM(
        model=str(locate(model)),
        max_num_seqs=window,
        structured_outputs_config={"backend": constraint},
        disable_log_stats=True,
        **({"enforce_eager": True, "kv_cache_memory_bytes": 1 << 30} if find_gpu() is None else {}),
        **(options or {}),
    )

    def run(bench: Benchmark, shape: dict[str, Any]) -> float:
        llm.reset_prefix_cache()
        began = time.perf_counter()
        chats = [
            [{"role": m.role, "content": m.content} for m in bench.judge.render(row).prompts[0].messages] for row in bench.rows
        ]
        parameters = SamplingParams(
            temperature=0, max_tokens=bench.judge.form.max_tokens, structured_outputs=StructuredOutputsParams(**shape)
        )
        for output in llm.chat(chats, parameters, use_tqdm=False):
            bench.judge.read(output.outputs[0].text)
        return time.perf_counter() - began

    return run


def bench_constraint(bench: Benchmark) -> list[str]:
    """Output tokens a second with the answer constrained over the same engine left free."""
    lines = []
    pattern = answer_pattern(bench.judge.form.schema)
    for constraint in CONSTRAINTS:
        engine = bench.engine(constraint)
        prompts = [bench.judge.render(row).prompts[0].messages for row in bench.rows]

        def speed(shape: str | None, engine: VLLMEngine = engine, prompts: list[Any] = prompts) -> float:
            async def run() -> int:
                requests = (Request(messages, 25, shape) for messages in prompts)
                answers = await asyncio.gather(*(engine.generate(request) for request in requests))
                return sum(answer.usage.completion_tokens for answer in answers)

            engine._engine.reset_prefix_cache()
            began = time.perf_counter()
            return bench.loop.run(run()) / (time.perf_counter() - began)

        pairs = [(speed(pattern), speed(None)) for _ in range(bench.rounds + 1)][1:]
        ratios = [constrained / free for constrained, free in pairs]
        rates = spread([constrained for constrained, _ in pairs], 0)
        lines.append(f"| **{constraint}: constrained over free** | **{spread(ratios)}**, {rates} tokens a second |")
        bench.loop.run(engine.close())
    return lines


def bench_prefix(bench: Benchmark) -> list[str]:
    """Prompt tokens from the prefix cache over those that the shared prefix allows."""
    engine = bench.engine()
    _, verdicts = bench.judge_all(engine)
    prompts = [engine.chat.encode(bench.judge.render(row).prompts[0].messages) for row in bench.rows]
    shared = next(
        (place for place, tokens in enumerate(zip(*prompts, strict=False)) if len(set(tokens)) > 1), min(map(len, prompts))
    )
    cached = sum(verdict.usage.cached_tokens for verdict in verdicts)
    total = sum(verdict.usage.prompt_tokens for verdict in verdicts)
    allowed = shared * (len(prompts) - 1)
    return [
        f"| shared prefix | {shared} of {total / len(prompts):.0f} prompt tokens |",
        f"| **cached tokens over what the shared prefix allows** | **{cached / allowed:.1%}** ({cached:,} of {allowed:,}) |",
    ]


COLD_START = """
import asyncio, sys, time
began = float(sys.argv[1]); marks = [("the interpreter", time.time())]
from judges.llm_eval import LLMEval; from judges.decoding import Decoding
from judges.engines.vllm.engine import VLLMEngine; from magistrate import judge_async
marks.append(("our modules", time.time()))
async def main():
    engine = VLLMEngine("tests/models/magistrate-tiny"); marks.append(("finding and hashing the model", time.time()))
    import torch; marks.append(("importing torch", time.time()))
    import vllm.v1.engine.llm_engine; marks.append(("importing vLLM", time.time()))
    async with engine:
        marks.append(("starting the engine", time.time()))
        verdicts = await judge_async([{"context": "hi", "response": "ho"}], LLMEval(), engine)
        assert verdicts[0].scores
        marks.append(("the first verdict", time.time()))
        import json, os
        print(json.dumps(marks), flush=True); os._exit(0)
asyncio.run(main())
"""


def bench_cold(bench: Benchmark) -> list[str]:
    """Seconds from the start of a process to its first verdict, and where they go; then the whole command."""
    steps: dict[str, list[float]] = {}
    totals = []
    commands = []
    for _ in range(bench.rounds):
        began = time.time()
        done = subprocess.run([sys.executable, "-c", COLD_START, str(began)], capture_output=True, text=True, check=True)
        last = began
        for name, mark in json.loads(done.stdout.splitlines()[-1]):
            steps.setdefault(name, []).append(mark - last)
            last = mark
        totals.append(last - began)
        commands.append(one_command())
    lines = [f"| {name}, s | {spread(values)} |" for name, values in steps.items()]
    lines.append(f"| **process start to first verdict, s** | **{spread(totals, 1)}** |")
    return [*lines, f"| `magistrate score` on one row, start to exit, s | {spread(commands, 1)} |"]


def one_command() -> float:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "one.jsonl")
        source.write_text('{"context": "hi", "response": "ho"}\n')
        began = time.time()
        command = [sys.executable, "-m", "magistrate", "score", str(source), "-o", f"{folder}/v.jsonl", "--model", MODEL]
        subprocess.run(command, capture_output=True, check=True)
        return time.time() - began


MEMORY_BARE = """
import sys; sys.path.insert(0, "scripts")
from pathlib import Path
from bench_judging import Benchmark, bare_llm, peak, samples
from judges.constraint import answer_pattern
import os; os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", TORCHDYNAMO_DISABLE="1", VLLM_LOGGING_LEVEL="ERROR")
bench = Benchmark(samples(Path(sys.argv[1]), 2048), 1)
bare_llm("outlines")(bench, {"regex": answer_pattern(bench.judge.form.schema)})
print(peak(), flush=True); os._exit(0)
"""

MEMORY_OURS = """
import asyncio, sys; sys.path.insert(0, "scripts")
from contextlib import aclosing
from pathlib import Path
from bench_judging import Benchmark, peak
from judges.llm_eval import LLMEval
from judges.runner import Runner, prepare
from judges.data.rows import read_rows
from judges.verdict import Fingerprint
from judges.verdict_file import VerdictFile
import os; os.environ.update(VLLM_CPU_KVCACHE_SPACE="1")
bench = Benchmark([], 1); engine = bench.engine(); judge = LLMEval()
async def main():
    with VerdictFile(Path(sys.argv[2]), Fingerprint.of(judge, engine.identity)) as file:
        asked = (q for q in (prepare(row, judge) for row in read_rows(Path(sys.argv[1]))) if file.needs(q.key))
        async with aclosing(Runner(judge, engine).run(asked)) as verdicts:
            done = 0
            async for verdict in verdicts:
                file.append(verdict); done += 1
                if done == 2048: break
bench.loop.run(main())
print(peak(), flush=True); os._exit(0)
"""


def peak() -> int:
    """Peak resident memory of this process, in KiB."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def bench_memory(bench: Benchmark) -> list[str]:
    """Peak memory of the runner with 100,000 samples queued over that of bare vLLM judging as many as were judged."""
    queued = 100_000
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder, "many.jsonl"), Path(folder, "v.jsonl")
        with source.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in samples_of(bench.rows, queued))
        few = Path(folder, "few.jsonl")
        few.write_text("".join(json.dumps(row) + "\n" for row in bench.rows), encoding="utf-8")
        bare, ours, resumed = [], [], []
        for _ in range(min(3, bench.rounds)):
            bare.append(child(MEMORY_BARE, few))
            output.unlink(missing_ok=True)
            ours.append(child(MEMORY_OURS, source, output))
            pretend_judged(source, output, queued - 2048)
            resumed.append(child(MEMORY_OURS, source, output))
    base = statistics.median(bare)
    return [
        f"| bare vLLM, 2,048 judged, peak MiB | {spread(bare, 0)} |",
        f"| **runner, {queued:,} queued, 2,048 judged, MiB more** | **{statistics.median(ours) - base:.0f}** |",
        f"| **the same, 97,952 judged by an earlier run, MiB more** | **{statistics.median(resumed) - base:.0f}** |",
    ]


def samples_of(rows: list[dict[str, Any]], count: int) -> Any:
    for number in range(count):
        row = rows[number % len(rows)]
        yield row | {"id": str(number), "response": f"{number} {row['response']}"}


def pretend_judged(source: Path, output: Path, count: int) -> None:
    """Write the output that an earlier run over most of the samples would have left: its verdicts, over and over."""
    from judges.verdict import Verdict

    judge = LLMEval()
    like = Verdict.from_json(output.read_bytes().splitlines()[0])
    with output.open("w", encoding="utf-8") as file:
        for number, row in enumerate(read_rows(source)):
            if number == count:
                break
            verdict = Verdict(
                **{name: getattr(like, name) for name in like.__slots__} | {"id": row.id, "sample": prepare(row, judge).key}
            )
            file.write(verdict.to_json() + "\n")


def child(code: str, *paths: Path) -> float:
    done = subprocess.run([sys.executable, "-c", code, *map(str, paths)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return int(done.stdout.splitlines()[-1]) / 1024


class InstantModel:
    """Stands in for a model executor of vLLM: every request gets one legal answer, and nothing is computed.

    vLLM's scheduler, constraints and output processing stay as they are. All drafts are accepted.
    """

    def __init__(self, engine: VLLMEngine, answer: str) -> None:
        tokenizer = engine.chat.tokenizer
        self._ids = [*tokenizer(answer, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        self._prompts: dict[str, int] = {}
        executor = engine._engine.engine_core.engine_core.model_executor
        executor.execute_model, executor.take_draft_token_ids = self.execute_model, lambda: None

    def execute_model(self, scheduled: Any, non_block: bool = False) -> Any:
        from vllm.v1.outputs import ModelRunnerOutput

        for request in scheduled.scheduled_new_reqs:
            self._prompts[request.req_id] = len(request.prompt_token_ids)
        cached = scheduled.scheduled_cached_reqs
        computed = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        computed |= {request.req_id: request.num_computed_tokens for request in scheduled.scheduled_new_reqs}
        names = list(scheduled.num_scheduled_tokens)
        sampled = []
        for request, count in scheduled.num_scheduled_tokens.items():
            drafts = len(scheduled.scheduled_spec_decode_tokens.get(request, ()))
            place = computed[request] + count - drafts - self._prompts[request]
            sampled.append(self._ids[place : place + 1 + drafts] if place >= 0 else [])
        for request in scheduled.finished_req_ids:
            self._prompts.pop(request, None)
        done: Future[Any] = Future()
        done.set_result(ModelRunnerOutput(names, {name: row for row, name in enumerate(names)}, sampled))
        return done if non_block else done.result()


def bench_host(bench: Benchmark) -> list[str]:
    """Judgments per second of CPU time where the model takes no time: what the host's own work allows a core."""
    lines = []
    for forced in (False, True):
        engine = bench.engine(forced_tokens=forced)
        InstantModel(engine, json.dumps(dict.fromkeys(bench.judge.metrics, 3)))
        speeds, shares = [], []
        for turn in range(bench.rounds + 1):
            all_before, own_before = time.process_time(), time.thread_time()
            _, verdicts = bench.judge_all(engine)
            spent, own = time.process_time() - all_before, time.thread_time() - own_before
            if turn:  # the first turn warms up
                speeds.append(len(verdicts) / spent)
                shares.append(100 * own / spent)
        if not all(verdict.scores for verdict in verdicts):
            raise RuntimeError(f"not every sample was scored: {verdicts[0].reason}")
        name = "forced tokens in one step" if forced else "a step a token"
        lines.append(f"| **{name}, judgments a second of CPU time** | **{spread(speeds, 0)}** |")
        lines.append(f"| of it rendering, tokenising and reading, % | {spread(shares, 0)} |")
        bench.loop.run(engine.close())
    return lines


PARTS: dict[str, Callable[[Benchmark], Iterable[str]]] = {
    "runner": bench_runner,
    "forced": bench_forced,
    "constraint": bench_constraint,
    "prefix": bench_prefix,
    "cold": bench_cold,
    "memory": bench_memory,
    "host": bench_host,
}


def main() -> None:
    parts = "\n".join(f"  {name:12}{measure.__doc__}" for name, measure in PARTS.items())
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\nparts:\n{parts}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, help="one part (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds of each side (default 5)")
    parser.add_argument("--samples", type=Path, default=SAMPLE, help="what to judge (default: the bundled dialogues, numbered)")
    parser.add_argument(
        "--model", default=MODEL, help="the model that judges; not for cold and memory (default: a very small one)"
    )
    parser.add_argument(
        "--window",
        type=int,
        default=SEQUENCES,
        help=f"answers written at once; not for forced, cold and memory (default {SEQUENCES})",
    )
    parser.add_argument("--options", type=json.loads, default={}, help="further arguments of vLLM for both sides, as JSON")
    given = parser.parse_args()
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    gpu = find_gpu()
    if gpu is None:
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
    options = (GPU_SHARE if gpu else {}) | given.options
    bench = Benchmark(samples(given.samples, COUNT), given.rounds, given.model, given.window, options)
    place = gpu.name if gpu else platform.processor() or platform.machine()
    print(f"{place}, {os.cpu_count()} cores, Python {platform.python_version()}, vLLM {installed_version()}")
    print(f"{time.strftime('%Y-%m-%d')}, {COUNT} samples of {given.samples.name}, {given.rounds} rounds\n")
    for name in [given.only] if given.only else PARTS:
        print(
            f"{name}: {(PARTS[name].__doc__ or '').strip()}\n\n| figure | median (smallest to largest) |\n|---|---|", flush=True
        )
        for line in PARTS[name](bench):
            print(line, flush=True)
        print(flush=True)
    sys.stdout.flush()
    os._exit(0)  # vLLM's own farewell takes seconds


if __name__ == "__main__":
    main()

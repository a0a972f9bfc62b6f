"""How fast the solver is, as ratios against other ways to the same optimum and against one sum over the matrix.

    .venv/bin/python scripts/bench_solver.py             every figure, as Markdown
    .venv/bin/python scripts/bench_solver.py --only reference --only small --rounds 7

Both sides of a ratio run in one process and take turns, so that a machine whose speed drifts does not favour either; only
OR-tools, which cannot be loaded beside HiGHS, has a process of its own. Each figure is a median over rounds, with the smallest
and the largest beside it. A side that takes long runs ``--slow-rounds`` times only.

The reference at 4,000 rows needs about 4 GB of memory.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    # The solver is imported where it is used: it loads HiGHS, which OR-tools' process must not.
    from solver import Assignment

COLUMNS = 15
K = 2
SLACK = 0.1
SEED = 20

BLOCK = 16_384
"""Rows made at a time, so that making a matrix takes little more memory than it has."""

LIBRARIES = ("numpy", "scipy", "numba", "highspy", "ortools")

Scores = NDArray[Any]


@dataclass(frozen=True)
class Sizes:
    """How large and how often: the options of a run."""

    rounds: int
    slow_rounds: int
    reference: list[int]
    scale: list[tuple[int, str]]
    memory: int
    ortools: int
    highs: list[int]


def make_scores(rows: int, kind: str) -> Scores:
    """Seeded scores from 1 to 5 with a liking of its own for each column: whole for ``int8``, unrounded for ``float32``."""
    random = np.random.default_rng(SEED)
    centre = 2.5 + random.normal(0, 0.5, COLUMNS)
    scores = np.empty((rows, COLUMNS), kind)
    for begin in range(0, rows, BLOCK):
        block = scores[begin : begin + BLOCK]
        drawn = random.normal(0, 1.2, block.shape) + centre
        if kind == "int8":
            np.rint(drawn, out=drawn)
        block[...] = np.clip(drawn, 1, 5)
    return scores


def solve(scores: Scores, **options: Any) -> Assignment:
    """Our side of every ratio."""
    from solver import assign

    return assign(scores, k=K, slack=SLACK, **options)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call takes, and its result."""
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def alternate(sides: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of every side in each round, the sides taking turns. A first round warms up and does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for name, call in sides.items():
            taken, _ = timed(call)
            if turn:
                seconds[name].append(taken)
    return seconds


def figure(value: float) -> str:
    """Three digits, and all of those before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(values: list[float]) -> str:
    """A median, and the smallest and the largest."""
    return f"{figure(statistics.median(values))} ({figure(min(values))} to {figure(max(values))})"


def quotients(over: list[float], under: list[float]) -> list[float]:
    """Ratios round by round."""
    return [one / other for one, other in zip(over, under, strict=True)]


def child(*arguments: str, **environment: str) -> str:
    """The last line that a fresh Python process prints."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=os.environ | environment)
    if done.returncode:
        raise RuntimeError(f"a process ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout.splitlines()[-1]


def bench_reference(sizes: Sizes) -> list[str]:
    """The published programme, dense and binary on SciPy's milp, over ours. Building its matrix is not in the ratio."""
    lines = []
    for rows in sizes.reference:
        scores = make_scores(rows, "int8")
        ours = solve(scores)
        solve(scores)
        rounds = sizes.rounds if rows < 4_000 else sizes.slow_rounds
        building, theirs, here = [], [], []
        for _ in range(rounds):
            built, programme = timed(partial(dense_programme, scores, ours.lower, ours.upper))
            solving, found = timed(programme)
            taken, ours = timed(partial(solve, scores))
            building.append(built)
            theirs.append(solving)
            here.append(taken)
            del programme
        assert found.success, found.message
        assert ours.optimal
        taken_up = np.rint(found.x).reshape(scores.shape)
        reference = float((taken_up * scores).sum())
        assert ours.objective >= reference - 1e-6, (ours.objective, reference)
        short = int((taken_up.sum(axis=1) < K).sum())
        lines += [
            f"| **{rows:,} rows: times faster than the reference** | **{spread(quotients(theirs, here))}** |",
            f"| {rows:,} rows: ours, ms | {spread([1e3 * seconds for seconds in here])} |",
            f"| {rows:,} rows: the reference's milp, s | {spread(theirs)} |",
            f"| {rows:,} rows: building its matrix, s | {spread(building)} |",
            f"| {rows:,} rows: objectives, ours and the reference's | {ours.objective:,.0f} and {reference:,.0f} |",
            f"| {rows:,} rows: rows the reference leaves short of {K} | {short:,} |",
        ]
    return lines


def dense_programme(scores: Scores, lower: NDArray[np.int64], upper: NDArray[np.int64]) -> Callable[[], Any]:
    """The programme as published: a binary a cell, and a dense row of coefficients a constraint. Ready to be solved.

    At most k cells of each instance; of each attribute at most its upper and at least its lower bound.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    rows, columns = scores.shape
    coefficients = np.zeros((rows + 2 * columns, rows * columns))
    for row in range(rows):
        coefficients[row, row * columns : (row + 1) * columns] = 1
    for column in range(columns):
        coefficients[rows + column, column::columns] = 1
        coefficients[rows + columns + column, column::columns] = 1
    least = np.concatenate([np.full(rows + columns, -np.inf), lower])
    most = np.concatenate([np.full(rows, K), upper, np.full(columns, np.inf)])
    cost = -scores.astype(np.float64).ravel()

    def run() -> Any:
        return milp(
            cost,
            integrality=np.ones_like(cost),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(coefficients, least, most),
        )

    return run


def bench_scale(sizes: Sizes) -> list[str]:
    """A certified assignment of a whole matrix over np.sum of it. Priors from the affinities, which is the default."""
    lines = []
    for rows, kind in sizes.scale:
        scores = make_scores(rows, kind)
        result = solve(scores)
        assert result.optimal
        seconds = alternate(
            {
                "sum": partial(np.sum, scores),
                "assign": partial(solve, scores),
                "given": partial(solve, scores, priors=result.priors),
            },
            sizes.rounds,
        )
        name = f"{rows:,} rows of {kind}"
        lines += [
            f"| **{name}: assign over np.sum** | **{spread(quotients(seconds['assign'], seconds['sum']))}** |",
            f"| {name}: the same, priors given | {spread(quotients(seconds['given'], seconds['sum']))} |",
            f"| {name}: assign, s | {spread(seconds['assign'])} |",
            f"| {name}: np.sum, s | {spread(seconds['sum'])} |",
            f"| {name}: optimal, rows in ties | {result.optimal}, {result.ties / rows:.2%} |",
        ]
        del scores, result
    file = str(Path(__file__).resolve())
    measured = [json.loads(child(file, "--memory-worker", str(sizes.memory))) for _ in range(sizes.slow_rounds)]
    name = f"{sizes.memory:,} rows of int8: peak memory over the matrix"
    for growth, said in (("growth", name), ("with_kernels", f"{name}, loading the compiled kernels included")):
        values = [(one["matrix"] + one[growth]) / one["matrix"] for one in measured]
        more = statistics.median([one[growth] for one in measured]) / 2**20
        lines.append(f"| **{said}** | **{spread(values)}**, {more:.0f} MiB more |")
    return lines


def memory_worker(rows: int) -> None:
    """Print by how much ``assign()`` raises this process's peak memory, with the matrix in it already.

    ``with_kernels`` counts from before the first, small call, which loads the compiled kernels; ``growth`` from after it.
    """
    import solver

    scores = make_scores(rows, "int8")
    first = make_scores(1_000, "int8")
    before = resident("VmRSS")
    solver.assign(first, k=K, slack=SLACK)
    ready = resident("VmRSS")
    assert solver.assign(scores, k=K, slack=SLACK).optimal
    peak = resident("VmHWM")
    print(json.dumps({"matrix": scores.nbytes, "growth": peak - ready, "with_kernels": peak - before}))


def resident(name: str) -> int:
    """Memory of this process in bytes: ``VmRSS`` now, ``VmHWM`` at its peak.

    The peak is ``ru_maxrss``, but for what a process inherits there from the one that started it.
    """
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def bench_ortools(sizes: Sizes) -> list[str]:
    """OR-tools' min-cost flow, its solve() only, over ours, on one matrix."""
    rows = sizes.ortools
    rounds = sizes.rounds if rows <= 100_000 else sizes.slow_rounds
    scores = make_scores(rows, "int8")
    ours = solve(scores)
    assert ours.optimal
    solve(scores)
    here, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "scores.npy"), scores)
        np.save(Path(folder, "lower.npy"), ours.lower)
        np.save(Path(folder, "upper.npy"), ours.upper)
        for _ in range(rounds):
            here.append(timed(partial(solve, scores))[0])
            theirs.append(json.loads(child(str(Path(__file__).resolve()), "--ortools-worker", folder)))
    objectives = {run["objective"] for run in theirs}
    assert objectives == {ours.objective}, (objectives, ours.objective)
    solving = [run["solve"] for run in theirs]
    return [
        f"| **{rows:,} rows: times faster than OR-tools** | **{spread(quotients(solving, here))}** |",
        f"| {rows:,} rows: ours, s | {spread(here)} |",
        f"| {rows:,} rows: OR-tools' solve(), s | {spread(solving)} |",
        f"| {rows:,} rows: adding its arcs, s | {spread([run['build'] for run in theirs])} |",
        f"| {rows:,} rows: its process's peak memory, GiB | {spread([run['peak'] / 2**30 for run in theirs])} |",
        f"| {rows:,} rows: objective of both | {ours.objective:,.0f} |",
    ]


def ortools_worker(folder: Path) -> None:
    """Solve the matrix and bounds in a folder with OR-tools, and print the objective and the seconds.

    Each row supplies k, an arc a cell leads to its column, and two arcs from there to the sink: one for the fewest, which pays
    more than any detour could lose and so is always filled, and one for what there may be beyond.
    """
    from ortools.graph.python import min_cost_flow

    scores, lower, upper = (np.load(folder / f"{name}.npy") for name in ("scores", "lower", "upper"))
    began = time.perf_counter()
    rows, columns = scores.shape
    sink = rows + columns
    column_nodes = np.arange(rows, sink, dtype=np.int32)
    to_sink = np.full(columns, sink, np.int32)
    reward = (int(scores.max()) - int(scores.min()) + 1) * (columns + 1)
    flow = min_cost_flow.SimpleMinCostFlow()
    flow.add_arcs_with_capacity_and_unit_cost(
        np.repeat(np.arange(rows, dtype=np.int32), columns),
        np.tile(column_nodes, rows),
        np.ones(scores.size, np.int64),
        -scores.ravel().astype(np.int64),
    )
    flow.add_arcs_with_capacity_and_unit_cost(column_nodes, to_sink, lower, np.full(columns, -reward, np.int64))
    flow.add_arcs_with_capacity_and_unit_cost(column_nodes, to_sink, upper - lower, np.zeros(columns, np.int64))
    flow.set_nodes_supplies(np.arange(rows, dtype=np.int32), np.full(rows, K, np.int64))
    flow.set_node_supply(sink, -K * rows)
    built = time.perf_counter()
    status = flow.solve()
    solved = time.perf_counter()
    assert status == flow.OPTIMAL, status
    fewest = np.arange(scores.size, scores.size + columns, dtype=np.int32)
    assert (flow.flows(fewest) == lower).all()
    objective = -flow.optimal_cost() - reward * int(lower.sum())
    print(json.dumps({"objective": objective, "build": built - began, "solve": solved - built, "peak": resident("VmHWM")}))


COLD = """
import time; began = time.perf_counter()
import sys, numpy
scores = numpy.load(sys.argv[1])
from solver import assign
imported = time.perf_counter()
assert assign(scores, k=int(sys.argv[2]), slack=float(sys.argv[3])).optimal
print([imported - began, time.perf_counter() - began])
"""


def bench_small(sizes: Sizes) -> list[str]:
    """Small matrices: a call in a warm process, and a fresh process for one call, its kernels compiled before."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in (100, 1_000):
            for kind in ("int8", "float32"):
                scores = make_scores(rows, kind)
                assert solve(scores).optimal
                warm = [1e3 * timed(partial(solve, scores))[0] for _ in range(50)]
                path = Path(folder, f"{rows}-{kind}.npy")
                np.save(path, scores)
                arguments = ("-c", COLD, str(path), str(K), str(SLACK))
                child(*arguments)
                runs = [timed(partial(child, *arguments)) for _ in range(sizes.rounds)]
                inside = [json.loads(printed) for _, printed in runs]
                lines += [
                    f"| **{rows:,} rows of {kind}: warm, ms (of 50)** | **{spread(warm)}** |",
                    f"| {rows:,} rows of {kind}: cold, start to exit, s | {spread([around for around, _ in runs])} |",
                    f"| {rows:,} rows of {kind}: cold, first import to result, s | {spread([one[1] for one in inside])} |",
                    f"| {rows:,} rows of {kind}: of that the imports, s | {spread([one[0] for one in inside])} |",
                ]
    return lines


COMPILE = """
import sys, time, numpy
from solver import assign
seconds = []
for path in sys.argv[3:]:
    scores = numpy.load(path)
    began = time.perf_counter()
    assign(scores, k=int(sys.argv[1]), slack=float(sys.argv[2]))
    seconds.append(time.perf_counter() - began)
print(seconds)
"""


def bench_compile(sizes: Sizes) -> list[str]:
    """The first call on a machine, which compiles: of int8, and then of float32."""
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{kind}.npy") for kind in ("int8", "float32")]
        for path in paths:
            np.save(path, make_scores(1_000, path.stem))
        for turn in range(sizes.slow_rounds):
            cache = str(Path(folder, f"cache{turn}"))
            runs.append(json.loads(child("-c", COMPILE, str(K), str(SLACK), *map(str, paths), NUMBA_CACHE_DIR=cache)))
    return [
        f"| **first call, int8, s** | **{spread([run[0] for run in runs])}** |",
        f"| **then the first of float32, s** | **{spread([run[1] for run in runs])}** |",
    ]


def bench_highs(sizes: Sizes) -> list[str]:
    """The whole programme on HiGHS over our search; both must choose the same."""
    lines = []
    for rows in sizes.highs:
        for kind in ("int8", "float32"):
            scores = make_scores(rows, kind)
            search, highs = (solve(scores, method=method).chosen for method in ("search", "highs"))
            assert np.array_equal(search, highs)
            seconds = alternate(
                {
                    "search": partial(solve, scores),
                    "highs": partial(solve, scores, method="highs"),
                },
                sizes.rounds,
            )
            name = f"{rows:,} rows of {kind}"
            lines += [
                f"| **{name}: highs over search** | **{spread(quotients(seconds['highs'], seconds['search']))}** |",
                f"| {name}: search, ms | {spread([1e3 * value for value in seconds['search']])} |",
                f"| {name}: highs, ms | {spread([1e3 * value for value in seconds['highs']])} |",
                f"| {name}: the same chosen | {np.array_equal(search, highs)} |",
            ]
    return lines


PARTS: dict[str, Callable[[Sizes], list[str]]] = {
    "reference": bench_reference,
    "scale": bench_scale,
    "ortools": bench_ortools,
    "small": bench_small,
    "compile": bench_compile,
    "highs": bench_highs,
}


def processor() -> str:
    """The processor's name as Linux gives it."""
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else platform.machine()


def matrix(text: str) -> tuple[int, str]:
    """An option's matrix: rows, a colon and a type."""
    rows, _, kind = text.partition(":")
    if kind not in ("int8", "float32"):
        raise argparse.ArgumentTypeError(f"{text!r} is not like 1000000:int8 or 1000000:float32")
    return int(float(rows)), kind


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; again for another")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds of each side (default 5)")
    parser.add_argument("--slow-rounds", type=int, default=1, help="rounds of what takes long (default 1)")
    parser.add_argument("--reference-rows", type=int, nargs="+", default=[1_000, 4_000])
    parser.add_argument(
        "--scale-rows",
        type=matrix,
        nargs="+",
        metavar="ROWS:TYPE",
        default=[(1_000_000, "int8"), (10_000_000, "int8"), (1_000_000, "float32")],
        help="matrices, such as 1e6:int8 or 1e6:float32",
    )
    parser.add_argument("--memory-rows", type=int, default=10_000_000, help="rows of the matrix whose memory is measured")
    parser.add_argument("--ortools-rows", type=int, default=1_000_000)
    parser.add_argument("--highs-rows", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--ortools-worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--memory-worker", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ortools_worker is not None:
        ortools_worker(given.ortools_worker)
        return
    if given.memory_worker is not None:
        memory_worker(given.memory_worker)
        return
    if min(given.rounds, given.slow_rounds) < 1:
        parser.error("there must be a round")
    sizes = Sizes(
        given.rounds,
        given.slow_rounds,
        given.reference_rows,
        given.scale_rows,
        given.memory_rows,
        given.ortools_rows,
        given.highs_rows,
    )
    print(f"{processor()}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    print(f"Python {platform.python_version()}, {versions}")
    print(f"{time.strftime('%Y-%m-%d')}, {COLUMNS} attributes, {K} an instance, slack {SLACK}, {given.rounds} rounds\n")
    for name in given.only or PARTS:
        print(
            f"{name}: {(PARTS[name].__doc__ or '').strip()}\n\n| figure | median (smallest to largest) |\n|---|---|", flush=True
        )
        print("\n".join(PARTS[name](sizes)) + "\n", flush=True)


if __name__ == "__main__":
    main()

"""Random assignment problems of every shape, and OR-tools' answer to them.

Run as a program it reads problems from a folder and writes the objectives of OR-tools' min-cost flow, exact for integers. It is a
process of its own because OR-tools and HiGHS cannot be loaded into one.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Instance:
    """A problem as ``solver.assign`` takes it."""

    scores: NDArray[Any]
    allowed: NDArray[np.bool_] | None
    priors: NDArray[np.float64]
    k: int | NDArray[np.int64]
    slack: float


def random_instance(seed: int) -> Instance:
    """N 3 to 3,000, M 3 to 20, k 1 to 4, slack 0 to 0.3; integers, floats, many ties or few; some cells forbidden or none."""
    chance = np.random.default_rng(seed)
    rows = int(np.exp(chance.uniform(np.log(3), np.log(3_000))))
    columns = int(chance.integers(3, 21))
    k: int | NDArray[np.int64] = int(chance.integers(1, min(4, columns - 1) + 1))
    if chance.random() < 0.15:
        k = chance.integers(0, k + 1, rows)
    lean = chance.normal(0, chance.choice([0.0, 0.5, 1.5]), columns)
    raw = 3 + lean + chance.normal(0, 1.2, (rows, columns))
    scores: NDArray[Any]
    match chance.integers(0, 7):
        case 0 | 1:
            scores = np.clip(np.rint(raw), 1, 5).astype(np.int8)
        case 2:
            scores = np.clip(raw, 1, 5).astype(np.float32)
        case 3:
            scores = np.rint(raw * 100).astype(np.int64)
        case 4:
            scores = chance.integers(0, 2, (rows, columns))
        case 5:
            scores = chance.integers(0, 2**40, (rows, columns)) / 2**40
        case _:
            scores = np.rint(2 * raw).astype(np.float64) / 2 - 4
    allowed = None
    if chance.random() < 0.3:
        allowed = chance.random((rows, columns)) < chance.choice([0.6, 0.9])
        most = int(np.max(k))
        for row in np.flatnonzero(allowed.sum(axis=1) < most):
            allowed[row, chance.permutation(columns)[:most]] = True
    priors = chance.dirichlet(np.full(columns, chance.choice([1.0, 5.0, 50.0])))
    return Instance(scores, allowed, priors, k, float(chance.choice([0.0, 0.05, 0.1, 0.3])))


def min_cost_flow_objectives(folder: Path, problems: list[dict[str, NDArray[Any]]]) -> list[int]:
    """OR-tools' objective of each problem, of integers ``units``; ``k`` is a number a row. -1 where there is no assignment."""
    for number, problem in enumerate(problems):
        np.savez(folder / f"{number}.npz", allow_pickle=False, **problem)
    subprocess.run([sys.executable, __file__, str(folder), str(len(problems))], check=True)
    return [int(line) for line in (folder / "objectives.txt").read_text().split()]


def _solve(problem: Any) -> int:
    from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

    units, allowed, k, lower, upper = (problem[name] for name in ("units", "allowed", "k", "lower", "upper"))
    rows, columns = units.shape
    row, column = np.nonzero(allowed)
    sink = rows + columns
    worth = units[row, column].astype(np.int64)
    # A unit of a lower bound is worth more than any chain of moves it could cost.
    must = int(np.abs(worth).max(initial=0) + 1) * 2 * (columns + 2)
    flow = SimpleMinCostFlow()
    flow.add_arcs_with_capacity_and_unit_cost(row, rows + column, np.ones(len(row), np.int64), -worth)
    ends = np.full(columns, sink)
    nodes = rows + np.arange(columns)
    flow.add_arcs_with_capacity_and_unit_cost(nodes, ends, lower, np.full(columns, -must))
    flow.add_arcs_with_capacity_and_unit_cost(nodes, ends, upper - lower, np.zeros(columns, np.int64))
    flow.set_nodes_supplies(np.arange(sink + 1), np.concatenate((k, np.zeros(columns, np.int64), [-k.sum()])))
    if flow.solve() != flow.OPTIMAL:
        return -1
    return int(-flow.optimal_cost() - must * lower.sum())


if __name__ == "__main__":
    where = Path(sys.argv[1])
    found = [_solve(np.load(where / f"{number}.npz")) for number in range(int(sys.argv[2]))]
    (where / "objectives.txt").write_text("\n".join(map(str, found)))

"""How fast correlations with intervals are, against `scipy.stats.bootstrap`.

    .venv/bin/python scripts/bench_meta.py

Six metrics of 0 to 5, and their expected scores, against the mean of three ratings of 1 to 5. Both sides run in one process and
take turns, so that a machine whose speed drifts favours neither. scipy does few rounds, and its time is scaled to as many:
Pearson's r and Spearman's rho of whole batches of resamples, Kendall's tau-b a resample at a time, as scipy has none of batches.
Each figure is a median over turns, with the smallest and the largest. A first turn compiles and does not count.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from evals.stats.association import COEFFICIENTS, associations
from evals.stats.ratings.rounds import processors

Floats = NDArray[np.float64]

SEED = 7


def ratings(items: int, metrics: int) -> tuple[Floats, Floats, Floats]:
    """Scores, expected scores and people's means."""
    chance = np.random.default_rng(SEED)
    people = chance.integers(1, 6, (items, 3)).mean(axis=1)
    loose = people[:, None] + chance.normal(0, 1.5, (items, metrics))
    return np.clip(np.rint(loose), 0, 5), np.clip(loose, 0, 5), people


def pearson(one: Floats, other: Floats, axis: int) -> Any:
    return stats.pearsonr(one, other, axis=axis).statistic


def spearman(one: Floats, other: Floats, axis: int) -> Any:
    return stats.pearsonr(stats.rankdata(one, axis=axis), stats.rankdata(other, axis=axis), axis=axis).statistic


def kendall(one: Floats, other: Floats) -> Any:
    return stats.kendalltau(one, other).statistic


def scipys(scores: Floats, people: Floats, rounds: int) -> None:
    """scipy's percentile intervals of the three coefficients of every metric."""
    for column in scores.T:
        for statistic, vectorized in ((pearson, True), (spearman, True), (kendall, False)):
            stats.bootstrap(
                (column, people),
                statistic,
                paired=True,
                vectorized=vectorized,
                n_resamples=rounds,
                batch=min(rounds, 50),
                method="percentile",
                rng=np.random.default_rng(SEED),
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--metrics", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--scipy-rounds", type=int, default=50)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    scores, expected, people = ratings(options.items, options.metrics)
    loose = people + np.random.default_rng(SEED).normal(0, 0.1, options.items)

    def ours(table: Floats, target: Floats) -> None:
        associations(table, target[:, None], rounds=options.rounds, seed=SEED)

    sides: dict[str, Callable[[], None]] = {
        "scores": lambda: ours(scores, people),
        "scores, scipy": lambda: scipys(scores, people, options.scipy_rounds),
        "expected scores": lambda: ours(expected, people),
        "expected scores, scipy": lambda: scipys(expected, people, options.scipy_rounds),
        "expected scores, people's ratings all distinct": lambda: ours(expected, loose),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(options.turns + 1):
        for name, side in sides.items():
            began = time.perf_counter()
            side()
            if turn:
                seconds[name].append(time.perf_counter() - began)
    scale = options.rounds / options.scipy_rounds
    print(
        f"{options.rounds:,} rounds x {options.items:,} items x {options.metrics} metrics, {', '.join(COEFFICIENTS)}; "
        f"{processors()} processors; scipy's {options.scipy_rounds} rounds scaled\n"
    )
    print("| columns | Magistrate, s | scipy.stats.bootstrap, s | times faster |")
    print("|---|---|---|---|")
    for name, taken in seconds.items():
        if name.endswith("scipy"):
            continue
        theirs = [one * scale for one in seconds.get(f"{name}, scipy", [])]
        ratio = spread([one / other for one, other in zip(theirs, taken, strict=True)]) if theirs else ""
        print(f"| {name} | {spread(taken)} | {spread(theirs) if theirs else ''} | {ratio} |")


def spread(values: list[float]) -> str:
    """A median, and the smallest and the largest."""
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


if __name__ == "__main__":
    main()

"""How fast ratings are, against the ways to them that everybody copies.

    .venv/bin/python scripts/bench_arena.py elo            Elo over random orders, beside the plain loop
    .venv/bin/python scripts/bench_arena.py bradley-terry  Bradley-Terry over resamples, beside Newton's method in NumPy
    .venv/bin/python scripts/bench_arena.py large          Bradley-Terry of an arena's size
    .venv/bin/python scripts/bench_arena.py memory         peak memory by rounds
    .venv/bin/python scripts/bench_arena.py swiss          games that Swiss rounds need, simulated

Both sides of a ratio run in one process and take turns, so that a machine whose speed drifts favours neither. Each figure is a
median over turns, with the smallest and the largest beside it. A first turn compiles and does not count.
"""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray

from evals.arena.pairing import Game, all_pairs, strengths, swiss_round
from evals.stats.ratings.bradley_terry import POINTS, Ratings, bradley_terry
from evals.stats.ratings.elo import bootstrap_elo, permutation
from evals.stats.ratings.games import checked_games
from evals.stats.ratings.rounds import processors

Games = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]

SEED = 7
TIES = 0.2
NAMES = {1.0: "model_a", 0.0: "model_b", 0.5: "tie"}


def tournament(battles: int, models: int) -> Games:
    """Battles between models of known strengths, a fifth of them ties."""
    chance = np.random.default_rng(SEED)
    strength = chance.normal(0, 0.8, models)
    first = chance.integers(0, models, battles)
    second = (first + chance.integers(1, models, battles)) % models
    share = (chance.random(battles) < 1 / (1 + np.exp(strength[second] - strength[first]))).astype(np.float64)
    share[chance.random(battles) < TIES] = 0.5
    return first, second, share


def plain_elo(
    battles: Iterable[tuple[str, str, str]], k: float = 4, scale: float = 400, base: float = 10, initial: float = 1000
) -> dict[str, float]:
    """FastChat's ``compute_elo``: a dictionary of ratings and a loop over battles."""
    rating: dict[str, float] = defaultdict(lambda: initial)
    for model_a, model_b, winner in battles:
        ra = rating[model_a]
        rb = rating[model_b]
        ea = 1 / (1 + base ** ((rb - ra) / scale))
        eb = 1 / (1 + base ** ((ra - rb) / scale))
        if winner == "model_a":
            sa = 1.0
        elif winner == "model_b":
            sa = 0.0
        else:
            sa = 0.5
        rating[model_a] += k * (sa - ea)
        rating[model_b] += k * (1 - sa - eb)
    return rating


def bench_elo(options: argparse.Namespace) -> None:
    games = tournament(options.battles, options.models)
    names = [f"model {model}" for model in range(options.models)]
    told = [
        (names[one], names[other], NAMES[share]) for one, other, share in zip(*(column.tolist() for column in games), strict=True)
    ]
    orders = [permutation(options.battles, SEED, number) for number in range(options.plain)]
    # The lists are in order before the clock starts: what shuffling costs the plain loop is not in its figure.
    shuffled = [[told[game] for game in order.tolist()] for order in orders]
    frame = pandas.DataFrame(told, columns=["model_a", "model_b", "winner"])
    theirs: list[dict[str, float]] = []

    def plain() -> None:
        theirs[:] = [plain_elo(battles) for battles in shuffled]

    def published() -> None:
        """As notebooks have it: a frame is shuffled, and its rows are gone through."""
        for number in range(options.plain):
            rows = frame.sample(frac=1.0, random_state=number)[["model_a", "model_b", "winner"]]
            plain_elo(rows.itertuples(index=False, name=None))

    ours = partial(bootstrap_elo, checked_games(*games, options.models), rounds=options.rounds, seed=SEED)
    seconds = alternate({"plain": plain, "published": published, "ours": ours}, options.turns)
    few = bootstrap_elo(checked_games(*games, options.models), rounds=options.plain, seed=SEED)
    table = np.array([[rating[name] for name in names] for rating in theirs])
    apart = max(np.abs(found - wanted).max() for found, wanted in ((few.median, np.median(table, 0)), (few.mean, table.mean(0))))
    single = [number for number in range(options.plain) if not one_round(games, options.models, number, table[number])]
    factor = options.rounds / options.plain
    scaled, whole = ([taken * factor for taken in seconds[side]] for side in ("plain", "published"))
    print(f"{options.battles:,} battles, {options.models} models, {options.rounds:,} orders, {processors()} processors")
    print(f"plain loop over a shuffled frame, as published, s, {options.plain} orders, scaled: {spread(whole)}")
    print(f"its loop alone, over lists that are in order already, s, likewise: {spread(scaled)}")
    print(f"ours, s, shuffling and quantiles included: {spread(seconds['ours'])}")
    print(f"times faster than as published: {spread(quotients(whole, seconds['ours']))}")
    print(f"times faster than its loop alone: {spread(quotients(scaled, seconds['ours']))}")
    print(f"largest difference over these {options.plain} orders, in points: {apart:.1e}; at most 1e-9: {apart <= 1e-9}")
    print(f"orders whose ratings differ by more than 1e-9: {len(single)} of {options.plain}")


def one_round(games: Games, models: int, number: int, wanted: NDArray[np.float64]) -> bool:
    """Whether the ratings of one order are those wanted: what the mean of one order more than before adds."""
    before = bootstrap_elo(checked_games(*games, models), rounds=number, seed=SEED).mean * number if number else np.zeros(models)
    after = bootstrap_elo(checked_games(*games, models), rounds=number + 1, seed=SEED).mean * (number + 1)
    return bool(np.abs(after - before - wanted).max() <= 1e-9)


def plain_newton(games: Games, models: int, rounds: int) -> NDArray[np.float64]:
    """``(rounds, M)`` ratings of multinomial resamples: Newton's method on a matrix of pairs, from the fit of all games."""
    first, second, share = games
    won = np.zeros((3, models, models))
    np.add.at(won, ((2 * share).astype(int), first, second), 1.0)
    count = int(won.sum())
    chance = np.random.default_rng(SEED)
    flat = won.ravel() / count
    start = newton_step_by_step(won, np.zeros(models))
    found = np.empty((rounds, models))
    for number in range(rounds):
        drawn = chance.multinomial(count, flat).reshape(won.shape).astype(np.float64)
        found[number] = 1000 + POINTS * newton_step_by_step(drawn, start)
    return found


def newton_step_by_step(results: NDArray[np.float64], strength: NDArray[np.float64]) -> NDArray[np.float64]:
    points = results[2] + results[1] / 2 + (results[0] + results[1] / 2).T
    games = points + points.T
    for _ in range(100):
        likely = 1 / (1 + np.exp(strength[np.newaxis] - strength[:, np.newaxis]))
        gradient = (points - games * likely).sum(axis=1)
        weight = games * likely * (1 - likely)
        hessian = np.diag(weight.sum(axis=1)) - weight
        step = np.append(np.linalg.solve(hessian[:-1, :-1], gradient[:-1]), 0.0)
        strength = strength + step
        if np.abs(step).max() < 1e-7:
            break
    return np.asarray(strength - strength.mean(), np.float64)


def bench_bradley_terry(options: argparse.Namespace) -> None:
    games = tournament(options.battles, options.models)
    battles = checked_games(*games, options.models)
    theirs: list[NDArray[np.float64]] = []
    ours: list[Ratings] = []
    clusters = np.random.default_rng(SEED).integers(0, max(options.battles // 40, 2), options.battles)

    def plain() -> None:
        theirs[:] = [plain_newton(games, options.models, options.rounds)]

    def here() -> None:
        ours[:] = [bradley_terry(battles, rounds=options.rounds, seed=SEED)]

    sides: dict[str, Callable[[], Any]] = {"plain": plain, "ours": here}
    sides["clusters"] = partial(bradley_terry, battles, rounds=options.rounds, seed=SEED, clusters=clusters)
    sides["davidson"] = partial(bradley_terry, battles, rounds=options.rounds, seed=SEED, ties="davidson")
    seconds = alternate(sides, options.turns)
    low, high = np.quantile(theirs[0], [0.025, 0.975], axis=0)
    print(f"{options.battles:,} battles, {options.models} models, {options.rounds:,} rounds, {processors()} processors")
    print(f"Newton's method in NumPy on counts of pairs, s: {spread(seconds['plain'])}")
    print(f"ours, with standard errors, s: {spread(seconds['ours'])}")
    print(f"times faster: {spread(quotients(seconds['plain'], seconds['ours']))}")
    print(f"ours by clusters of about 40 battles, s: {spread(seconds['clusters'])}")
    print(f"ours with Davidson's ties, s: {spread(seconds['davidson'])}")
    apart = max(np.abs(ours[0].low - low).max(), np.abs(ours[0].high - high).max())
    print(f"largest difference of an interval's end, by other draws, in points: {apart:.2f} of {np.mean(high - low):.1f}")


def bench_large(options: argparse.Namespace) -> None:
    games = tournament(options.battles, options.models)
    battles = checked_games(*games, options.models)
    clusters = np.random.default_rng(SEED).integers(0, max(options.battles // 2, 2), options.battles)
    sides: dict[str, Callable[[], Any]] = {
        "games by themselves": partial(bradley_terry, battles, rounds=options.rounds),
        "no rounds": partial(bradley_terry, battles, rounds=0),
        "clusters of about 2": partial(bradley_terry, battles, rounds=options.rounds, clusters=clusters),
        "Davidson's ties": partial(bradley_terry, battles, rounds=options.rounds, ties="davidson"),
    }
    seconds = alternate(sides, options.turns)
    print(f"{options.battles:,} battles, {options.models} models, {options.rounds:,} rounds, {processors()} processors")
    for name, taken in seconds.items():
        print(f"{name}, counting included, s: {spread(taken)}")


def bench_memory(options: argparse.Namespace) -> None:
    print(f"{options.battles:,} battles, {options.models} models; each figure is of a process of its own")
    for kind in ("elo", "bradley-terry"):
        for rounds in (1_000, 10_000, 100_000):
            command = [sys.executable, str(Path(__file__).resolve()), "worker", kind, str(rounds)]
            command += ["--battles", str(options.battles), "--models", str(options.models)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            print(f"{kind}, {rounds:,} rounds: {done.stdout.strip()}")


def bench_worker(options: argparse.Namespace) -> None:
    """Print by how much some rounds raise this process's memory, kernels loaded before."""
    games = checked_games(*tournament(options.battles, options.models), options.models)
    rate: Callable[..., Any] = bootstrap_elo if options.kind == "elo" else bradley_terry
    rate(games, rounds=64)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    began = time.perf_counter()
    rate(games, rounds=options.rounds)
    taken = time.perf_counter() - began
    traced = tracemalloc.get_traced_memory()[1]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"traced peak {traced / 2**20:.1f} MiB, resident peak {grown / 2**10:+.1f} MiB, {taken:.1f} s while traced")


def bench_swiss(options: argparse.Namespace) -> None:
    """Games that Swiss rounds need, over all pairs, for the same standard error of the difference between neighbours."""
    print("| models | spread of strengths, Elo | rounds | games of all pairs | of Swiss rounds | needed for the same certainty |")
    print("|---|---|---|---|---|---|")
    for models, points, rounds in ((7, 200, 2), (14, 100, 4), (14, 200, 4), (14, 350, 4), (30, 200, 6)):
        found: dict[str, list[tuple[int, float]]] = {"all": [], "swiss": []}
        for seed in range(options.tournaments):
            true = np.sort(np.random.default_rng(seed).normal(0, points / POINTS, models))
            for method in found:
                found[method].append(simulated(method, true, options.questions, rounds, seed))
        games = {method: statistics.mean(one[0] for one in each) for method, each in found.items()}
        needed = [swiss * spent / (whole * all_games) for (all_games, whole), (spent, swiss) in zip(*found.values(), strict=True)]
        print(f"| {models} | {points} | {rounds} | {games['all']:,.0f} | {games['swiss']:,.0f} | {spread(needed)} |")


def simulated(method: str, true: NDArray[np.float64], questions: int, rounds: int, seed: int) -> tuple[int, float]:
    """A tournament of known strengths: its games, and the mean variance of the difference between neighbours."""
    chance = np.random.default_rng([seed, 1])
    names = [str(number) for number in range(len(true))]
    asked = [str(number) for number in range(questions)]
    games: list[Game] = []
    shares: list[float] = []
    played: dict[str, set[frozenset[str]]] = {}
    for place in range(rounds if method == "swiss" else 1):
        known = strengths(*sides(games), shares, len(true))
        by_name = dict(zip(names, known.tolist(), strict=True))
        more = swiss_round(asked, names, by_name, played, place, seed) if method == "swiss" else all_pairs(asked, names, seed)
        for game in more:
            played.setdefault(game.question, set()).add(frozenset(game[1:]))
        gap = true[[int(game.model_a) for game in more]] - true[[int(game.model_b) for game in more]]
        shares += (chance.random(len(more)) < 1 / (1 + np.exp(-gap))).astype(float).tolist()
        games += more
    first, second = sides(games)
    weight = 1 / (2 + 2 * np.cosh(true[first] - true[second]))
    information = np.zeros((len(true), len(true)))
    for one, other, sign in ((first, first, 1), (second, second, 1), (first, second, -1), (second, first, -1)):
        np.add.at(information, (one, other), sign * weight)
    covariance = np.linalg.pinv(information)
    variance = np.diag(covariance)
    return len(games), float(np.mean(variance[:-1] + variance[1:] - 2 * np.diag(covariance, 1)))


def sides(games: list[Game]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.array([int(game.model_a) for game in games], np.int64), np.array([int(game.model_b) for game in games], np.int64)


def alternate(sides: dict[str, Callable[[], Any]], turns: int) -> dict[str, list[float]]:
    """Seconds of every side in each turn. A first turn warms up and does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(turns + 1):
        for name, call in sides.items():
            began = time.perf_counter()
            call()
            if turn:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def spread(values: list[float]) -> str:
    """A median, and the smallest and the largest."""
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def quotients(over: list[float], under: list[float]) -> list[float]:
    """Ratios turn by turn."""
    return [one / other for one, other in zip(over, under, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    sizes = {
        "elo": (bench_elo, 20_000, 20, 1_000, 7),
        "bradley-terry": (bench_bradley_terry, 20_000, 20, 1_000, 5),
        "large": (bench_large, 1_600_000, 130, 100, 3),
        "memory": (bench_memory, 1_000, 20, 0, 1),
        "worker": (bench_worker, 1_000, 20, 0, 1),
    }
    for name, (_, battles, models, rounds, turns) in sizes.items():
        command = commands.add_parser(name)
        if name == "worker":
            command.add_argument("kind", choices=["elo", "bradley-terry"])
            command.add_argument("rounds", type=int)
        else:
            command.add_argument("--rounds", type=int, default=rounds, help="orders or resamples")
        command.add_argument("--battles", type=int, default=battles)
        command.add_argument("--models", type=int, default=models)
        command.add_argument("--turns", type=int, default=turns)
        command.add_argument("--plain", type=int, default=20, help="orders that the plain loop plays")
    swiss = commands.add_parser("swiss")
    swiss.add_argument("--questions", type=int, default=60)
    swiss.add_argument("--tournaments", type=int, default=20, help="simulated, for each line")
    options = parser.parse_args()
    bench_swiss(options) if options.what == "swiss" else sizes[options.what][0](options)


if __name__ == "__main__":
    main()

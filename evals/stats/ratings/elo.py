"""Elo ratings, in the order of the games and over many random orders of them.

Sources: Elo (1978), "The rating of chessplayers, past and present"; the online update and its constants are those of Chatbot
Arena's first leaderboard (Zheng et al. 2023, "Judging LLM-as-a-judge with MT-Bench and Chatbot Arena"). OpenCompass calls the
median over random orders of the games "Bootstrap ELO". Nothing is drawn with replacement there: the interval says how much the
order matters, not how much other games would.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.stats.ratings.chance import LARGEST, checked_seed, shuffled
from evals.stats.ratings.games import Games, counted
from evals.stats.ratings.lanes import LANES, play
from evals.stats.ratings.rounds import check_rounds, in_blocks
from evals.stats.ratings.spread import Spread, Spreading
from judges.errors import MagistrateError
from solver.compiled import compiled

K = 4.0
SCALE = 400.0
INITIAL = 1000.0


def elo(games: Games, *, k: float = K, scale: float = SCALE, initial: float = INITIAL) -> NDArray[np.float64]:
    """Play the games once, in their order.

    Args:
        games: N games between M models, as ``checked_games`` gives them.
        k: The most points that a game moves.
        scale: Points that ten to one in the odds are worth.
        initial: The rating that all begin with, and keep without a game.

    Returns:
        ``(M,)`` ratings in points.

    Raises:
        MagistrateError: A constant makes no sense.
    """
    _check_constants(k, scale, initial)
    return _in_order(games.first, games.second, games.share, games.number, float(k), float(scale), float(initial))


@compiled
def _in_order(
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    share: NDArray[np.float64],
    number: int,
    k: float,
    scale: float,
    initial: float,
) -> NDArray[np.float64]:
    ratings = np.full(number, initial)
    for game in range(first.shape[0]):
        one, other = first[game], second[game]
        gain = k * (share[game] - 1 / (1 + 10.0 ** ((ratings[other] - ratings[one]) / scale)))
        ratings[one] += gain
        ratings[other] -= gain
    return ratings


def permutation(count: int, seed: int, round: int) -> NDArray[np.int64]:  # noqa: A002
    """``(count,)`` the games, as numbers from 0, in the order in which a round of ``bootstrap_elo`` plays them.

    All orders are equally likely. The order depends on these three numbers alone.

    Raises:
        MagistrateError: There are too many games, or the seed is out of range.
    """
    if not 0 <= count < LARGEST:
        raise MagistrateError(f"{count:,} games cannot be put in order; give fewer than {LARGEST:,}")
    return shuffled(count, checked_seed(seed), np.uint64(round))


def bootstrap_elo(
    games: Games,
    *,
    rounds: int = 1000,
    seed: int = 0,
    k: float = K,
    scale: float = SCALE,
    initial: float = INITIAL,
    level: float = 0.95,
    threads: int | None = None,
) -> Spread:
    """Play the games in ``rounds`` random orders: OpenCompass's "Bootstrap ELO", whose rating is the median.

    The figures are the same to the last bit with any number of threads. Memory does not grow with the rounds.

    Args:
        games: N games between M models, as ``checked_games`` gives them.
        rounds: How many orders.
        seed: Of the orders.
        k: As in ``elo``.
        scale: Likewise.
        initial: Likewise.
        level: How much of the rounds the interval is to hold.
        threads: How many; as many as this process may use processors where it is None.

    Raises:
        MagistrateError: As in ``elo``, or there are no rounds, no such level, or too many games.
    """
    number = games.number
    _check_constants(k, scale, initial)
    check_rounds(rounds, level)
    if len(games.first) >= LARGEST:
        raise MagistrateError(f"{len(games.first):,} games cannot be put in order; give fewer than {LARGEST:,}")
    cells = counted(games)
    # Two bytes a game, where they suffice: then the games of all lanes stay close to the processor.
    code: NDArray[Any] = cells.cell.astype(np.uint16 if len(cells.games) <= np.iinfo(np.uint16).max else np.uint32)
    one, other = (cells.first * LANES).astype(np.uint32), (cells.second * LANES).astype(np.uint32)
    start, exponent = checked_seed(seed), math.log2(10) / scale

    def block(begin: int, end: int) -> NDArray[np.float64]:
        ratings = np.empty((LANES, number))
        play(code, one, other, cells.share, number, start, begin, float(k), exponent, float(initial), ratings)
        return ratings[: end - begin]

    spreading = Spreading(number, level)
    for ratings in in_blocks(rounds, LANES, block, threads):
        spreading.add(ratings)
    return spreading.spread()


def _check_constants(k: float, scale: float, initial: float) -> None:
    if not (0 < k < math.inf and 0 < scale < math.inf and math.isfinite(initial)):
        raise MagistrateError(
            f"Elo takes k and scale above 0, and all three finite; k is {k}, scale {scale} and initial {initial}"
        )

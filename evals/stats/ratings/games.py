"""The games of a tournament as arrays: checked once, and counted by cells, so that what follows need not go through all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judges.errors import MagistrateError

TABLE = 1 << 22
"""Cells that are counted in a table; where there can be more, games are sorted instead."""

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Games:
    """Games between M models.

    Attributes:
        first: ``(N,)`` one model of each game.
        second: ``(N,)`` the other.
        share: ``(N,)`` what the first took, from 0 to 1.
        number: M, how many models there are.
    """

    first: Whole
    second: Whole
    share: Floats
    number: int


@dataclass(frozen=True, slots=True)
class Cells:
    """Distinct games: the same models in the same places, with the same share.

    Attributes:
        first: ``(C,)`` the first model of each cell.
        second: ``(C,)`` the second.
        share: ``(C,)`` what the first took.
        games: ``(C,)`` how many games are of the cell, one at least.
        cell: ``(N,)`` the cell of each game.
    """

    first: Whole
    second: Whole
    share: Floats
    games: Whole
    cell: Whole


def checked_games(first: ArrayLike, second: ArrayLike, share: ArrayLike, number: int) -> Games:
    """The games, if they are such.

    Args:
        first: ``(N,)`` one model of each game, from 0.
        second: ``(N,)`` the other.
        share: ``(N,)`` what the first took: 1 for a win, 0.5 for a tie, 0 for a loss, or anything between.
        number: M, how many models there are.

    Raises:
        MagistrateError: The arrays do not belong together, a model is not there or plays itself, or a share is not from 0 to 1.
    """
    one, other, taken = np.asarray(first), np.asarray(second), np.asarray(share, np.float64)
    if one.ndim != 1 or one.shape != other.shape or one.shape != taken.shape:
        raise MagistrateError(
            f"each game has two models and a share; there are {one.shape}, {other.shape} and {taken.shape} of them"
        )
    for models in (one, other):
        if models.size and not np.issubdtype(models.dtype, np.integer):
            raise MagistrateError(f"models are whole numbers, not {models.dtype}")
        if models.size and not 0 <= int(models.min()) <= int(models.max()) < number:
            game = int(((models < 0) | (models >= number)).argmax())
            raise MagistrateError(f"game {game} is of model {models[game]}; models have the numbers 0 to {number - 1}")
    one, other = one.astype(np.int64), other.astype(np.int64)
    if (one == other).any():
        game = int((one == other).argmax())
        raise MagistrateError(f"in game {game} model {one[game]} plays itself; leave such games out")
    if taken.size and not (taken.min() >= 0 and taken.max() <= 1):  # NaN fails this too
        game = int((~((taken >= 0) & (taken <= 1))).argmax())
        raise MagistrateError(f"of game {game} the first model took {taken[game]}; a share is from 0, a loss, to 1, a win")
    return Games(one, other, taken, number)


def counted(games: Games) -> Cells:
    """Count the games of each cell, in the order of the models' numbers and the shares."""
    doubled = games.share * 2
    halves = doubled.astype(np.int64)
    if np.array_equal(halves, doubled):
        shares, which = np.array([0.0, 0.5, 1.0]), halves
    else:
        shares, which = np.unique(games.share, return_inverse=True)
    code = (games.first * games.number + games.second) * len(shares) + which
    size = games.number * games.number * len(shares)
    if size <= TABLE:
        table = np.bincount(code, minlength=size)
        codes = np.flatnonzero(table)
        places = np.zeros(size, np.int64)
        places[codes] = np.arange(len(codes))
        cell, count = places[code], table[codes]
    else:
        codes, cell, count = np.unique(code, return_inverse=True, return_counts=True)
    pair = codes // len(shares)
    return Cells(pair // games.number, pair % games.number, shares[codes % len(shares)], count.astype(np.int64), cell)

"""Games counted by pairs of rated models, and resamples of them.

Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993). Clusters are drawn with replacement: the games of a
question together, or every game by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evals.stats.ratings.chance import below, seed_state
from evals.stats.ratings.games import Cells
from evals.stats.ratings.newton import FOUND, fit
from judges.errors import MagistrateError
from solver.compiled import compiled

NEAR = 2048
"""Clusters that are drawn from at a time."""

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Results of R rated models by pairs, and the games among them by cells: C distinct results of a pair.

    Attributes:
        number: R.
        left: ``(P,)`` the model of lower number of each pair, among the rated ones from 0.
        right: ``(P,)`` the other.
        pair: ``(C,)`` the pair of each cell.
        share: ``(C,)`` what its left model took.
        tie: ``(C,)`` whether it is a tie of its own kind, rather than half a win to each.
        games: ``(C,)`` how many games are of the cell.
        start: ``(G + 1,)`` where the games of each cluster begin; None where each game is for itself.
        cell: ``(N,)`` the cell of each game among them, cluster by cluster; None likewise.
    """

    number: int
    left: Whole
    right: Whole
    pair: Whole
    share: Floats
    tie: NDArray[np.bool_]
    games: Whole
    start: Whole | None
    cell: NDArray[np.int32] | None

    @property
    def clusters(self) -> int:
        """How many there are; as many as games where each is for itself."""
        return int(self.games.sum()) if self.start is None else len(self.start) - 1


def paired(cells: Cells, rated: NDArray[np.bool_], ties_apart: bool, clusters: ArrayLike | None) -> Pairs:
    """Count the games among rated models.

    Args:
        cells: All games.
        rated: ``(M,)`` whether a model is rated.
        ties_apart: Whether ties are of their own kind.
        clusters: ``(N,)`` what each game belongs to; None where each is for itself.

    Raises:
        MagistrateError: There is not one cluster for each game.
    """
    kept = rated[cells.first] & rated[cells.second]
    place = np.cumsum(rated) - 1
    number = int(rated.sum())
    first, second = place[cells.first[kept]], place[cells.second[kept]]
    values, which = np.unique(np.where(first < second, cells.share[kept], 1 - cells.share[kept]), return_inverse=True)
    code = (np.minimum(first, second) * number + np.maximum(first, second)) * len(values) + which
    merged, into = np.unique(code, return_inverse=True)
    games = np.bincount(into, cells.games[kept]).astype(np.int64)
    codes, pair = np.unique(merged // len(values), return_inverse=True)
    share = values[merged % len(values)]
    start, cell = None, None
    if clusters is not None:
        target = np.full(len(kept), -1)
        target[kept] = into
        inside = kept[cells.cell]
        cluster = checked_clusters(clusters, len(inside))[inside]
        cell = target[cells.cell[inside]][np.argsort(cluster, kind="stable")].astype(np.int32)
        start = np.concatenate([[0], np.cumsum(np.unique(cluster, return_counts=True)[1])])
    return Pairs(number, codes // number, codes % number, pair, share, (share == 0.5) & ties_apart, games, start, cell)


def checked_clusters(clusters: ArrayLike, count: int) -> NDArray[np.generic]:
    """``(N,)`` the cluster of each game.

    Raises:
        MagistrateError: There is not one for each game.
    """
    cluster = np.asarray(clusters)
    if cluster.shape != (count,):
        raise MagistrateError(f"each game is of one cluster; there are {cluster.shape} clusters for {count:,} games")
    return cluster


@compiled
def tally(pair: Whole, share: Floats, tie: NDArray[np.bool_], games: Whole, won: Floats, lost: Floats, tied: Floats) -> None:
    """Sum cells up by pairs, into ``won``, ``lost`` and ``tied`` as ``newton.fit`` takes them."""
    won[:] = 0.0
    lost[:] = 0.0
    tied[:] = 0.0
    for cell in range(pair.shape[0]):
        if tie[cell]:
            tied[pair[cell]] += games[cell]
        else:
            won[pair[cell]] += games[cell] * share[cell]
            lost[pair[cell]] += games[cell] * (1 - share[cell])


def drawn(pairs: Pairs, seed: int, begin: int, end: int) -> Whole:
    """``(B, C)`` how many games of each cell the resamples of some rounds have.

    Counts of games that are each for themselves are multinomial. Of clusters it is first drawn how many are of each part of them,
    and then which: what lies far apart in memory is slow to get at.

    Args:
        pairs: The games.
        seed: Of the draws.
        begin: The number of the first round.
        end: One more than that of the last.
    """
    games = np.zeros((end - begin, len(pairs.games)), np.int64)
    total = pairs.clusters
    sizes = pairs.games if pairs.start is None else np.diff(np.append(np.arange(0, total, NEAR), total))
    for row, number in enumerate(range(begin, end)):
        counts = np.random.default_rng([seed, number]).multinomial(total, sizes / total)
        if pairs.start is None or pairs.cell is None:
            games[row] = counts
        else:
            draw_clusters(pairs.start, pairs.cell, counts, np.uint64(seed), number, games[row])
    return games


@compiled
def draw_clusters(start: Whole, cell: NDArray[np.int32], counts: Whole, seed: np.uint64, number: int, games: Whole) -> None:
    """Add the games of clusters drawn with replacement to the counts of a round, so many of each ``NEAR`` clusters."""
    state = np.empty(4, np.uint64)
    seed_state(state, 0, 1, seed, np.uint64(number))
    groups = start.shape[0] - 1
    for part in range(counts.shape[0]):
        bound = np.uint64(min(NEAR, groups - part * NEAR))
        for _ in range(counts[part]):
            cluster = np.uint64(part * NEAR) + below(state, 0, 1, bound)
            for game in range(start[cluster], start[cluster + np.uint64(1)]):
                games[cell[game]] += 1


@compiled
def fit_rounds(
    left: Whole,
    right: Whole,
    pair: Whole,
    share: Floats,
    tie: NDArray[np.bool_],
    games: Whole,
    strength: Floats,
    strengths: Floats,
) -> None:
    """Fit the resamples of some rounds.

    Args:
        left: As in ``Pairs``, and so are the next four.
        right: Likewise.
        pair: Likewise.
        share: Likewise.
        tie: Likewise.
        games: ``(B, C)`` as of ``drawn``.
        strength: ``(R + 1,)`` of the games as they are: where each fit begins.
        strengths: ``(B, R)`` becomes the log strengths of each round; NaN where they are not finite.
    """
    number = strengths.shape[1]
    won, lost, tied = np.empty((3, left.shape[0]))
    work = np.empty((number + 3, number + 1))
    for row in range(games.shape[0]):
        tally(pair, share, tie, games[row], won, lost, tied)
        found = strength.copy()
        ended, _ = fit(left, right, won, lost, tied, found, work)
        strengths[row] = np.nan
        if ended == FOUND:
            strengths[row] = found[:number]

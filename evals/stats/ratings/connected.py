"""Which models have finite ratings.

Source: Ford (1957), "Solution of a ranking problem from binary comparisons": strengths that make the games likeliest are finite
if, and only if, every split of the models into two groups has a game in which the one took something from the other, and one the
other way round. As a graph with an arrow from each model to those it took something from: if it is strongly connected.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components

from evals.stats.ratings.games import checked_games

FEWEST = 2
"""Models that can be rated against each other: one alone has nothing to be compared with."""

NO_GAMES = "it played no game"
APART = "no game joins it to the rated models"
WON = "it won every game against the rated models"
LOST = "it lost every game against the rated models"
ABOVE = "it is joined to the rated models only through others that won every game against them"
BELOW = "it is joined to the rated models only through others that lost every game against them"
ASIDE = "it and the rated models only met the same others, and these won or lost every one of those games"
WON_ALL = "it won every game it played"
LOST_ALL = "it lost every game it played"
LADDER = "whoever beat a model lost nothing to it, not even by way of others"

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Components:
    """Groups of models within which ratings are finite.

    Attributes:
        label: ``(M,)`` the group of each model: its strongly connected component.
        rated: ``(M,)`` whether it is in the largest of them, by models and then by games; none is where that is a single model.
        reasons: Why each model has no finite rating, in words; None for those that have one.
    """

    label: NDArray[np.int64]
    rated: Flags
    reasons: tuple[str | None, ...]


def components(
    first: ArrayLike, second: ArrayLike, share: ArrayLike, number: int, *, games: NDArray[np.int64] | None = None
) -> Components:
    """Find the models whose ratings are finite, and say why those of the others are not.

    Args:
        first: ``(N,)`` one model of each game, from 0.
        second: ``(N,)`` the other.
        share: ``(N,)`` what the first took, from 0 to 1.
        number: M, how many models there are.
        games: ``(N,)`` how many such games there are; one each where it is None.

    Raises:
        MagistrateError: The arrays are no games.
    """
    played = checked_games(first, second, share, number)
    count = np.ones(len(played.first)) if games is None else games.astype(np.float64)
    winners = np.concatenate([played.first[played.share > 0], played.second[played.share < 1]])
    losers = np.concatenate([played.second[played.share > 0], played.first[played.share < 1]])
    graph = coo_matrix((np.ones(len(winners)), (winners, losers)), shape=(number, number)).tocsr()
    groups, label = connected_components(graph, directed=True, connection="strong")
    label = label.astype(np.int64)
    if not number:
        return Components(label, np.zeros(0, bool), ())
    inside = label[played.first] == label[played.second]
    models = np.bincount(label, minlength=groups)
    within = np.bincount(label[played.first[inside]], count[inside], minlength=groups)
    lowest = np.full(groups, number)
    np.minimum.at(lowest, label, np.arange(number))
    largest = np.lexsort((lowest, -within, -models))[0]
    rated = (label == largest) & (models[largest] >= FEWEST)
    plays = np.zeros(number, bool)
    plays[played.first] = plays[played.second] = True
    reasons = _against(graph, rated, plays) if rated.any() else _alone(graph, plays)
    return Components(label, rated, reasons)


def _against(graph: csr_matrix, rated: Flags, plays: Flags) -> tuple[str | None, ...]:
    """Why models have no rating beside those that have one.

    Args:
        graph: ``(M, M)`` who took something from whom.
        rated: ``(M,)`` whether a model has a rating.
        plays: ``(M,)`` whether it played at all.
    """
    start = int(rated.argmax())
    below, above = _reached(graph, start), _reached(graph.T.tocsr(), start)
    joined = _reached((graph + graph.T).tocsr(), start)
    beat = np.asarray(graph[:, rated].sum(axis=1)).ravel() > 0
    beaten = np.asarray(graph[rated].sum(axis=0)).ravel() > 0
    return tuple(
        None
        if rated[model]
        else NO_GAMES
        if not plays[model]
        else APART
        if not joined[model]
        else (WON if beat[model] else ABOVE)
        if above[model]
        else (LOST if beaten[model] else BELOW)
        if below[model]
        else ASIDE
        for model in range(len(rated))
    )


def _alone(graph: csr_matrix, plays: Flags) -> tuple[str | None, ...]:
    """Why no model has a rating."""
    took = np.asarray(graph.sum(axis=1)).ravel() > 0
    gave = np.asarray(graph.sum(axis=0)).ravel() > 0
    return tuple(
        NO_GAMES if not plays[model] else LADDER if took[model] and gave[model] else WON_ALL if took[model] else LOST_ALL
        for model in range(len(plays))
    )


def _reached(graph: csr_matrix, start: int) -> Flags:
    reached = np.zeros(graph.shape[0], bool)
    reached[breadth_first_order(graph, start, return_predecessors=False)] = True
    return reached

"""Bradley-Terry ratings with two kinds of intervals: from resamples, and from standard errors that hold for clusters.

Sources: Bradley and Terry (1952), "Rank analysis of incomplete block designs"; Davidson (1970), "On extending the Bradley-Terry
model to accommodate ties in paired comparison experiments"; Chiang et al. (2024), "Chatbot Arena", for both kinds of intervals;
Hesterberg (2015), "What teachers should know about the bootstrap", for percentiles that make up for few clusters.

Ratings are points of Elo: 400 points are ten to one in the odds. Only differences are determined by games, so ratings are given
against the mean of the rated models or against an anchor, and the intervals are of that difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evals.stats.ratings.chance import LARGEST, checked_seed
from evals.stats.ratings.connected import Components, components
from evals.stats.ratings.games import Cells, Games, counted
from evals.stats.ratings.newton import FOUND, TIES_UNBOUNDED, fit
from evals.stats.ratings.pairs import Pairs, checked_clusters, drawn, fit_rounds, paired, tally
from evals.stats.ratings.rounds import check_rounds, in_blocks
from evals.stats.ratings.sandwich import covariance, errors_of, expanded, quantile
from evals.stats.ratings.spread import Spread, Spreading
from judges.errors import MagistrateError

POINTS = 400 / math.log(10)
"""Points that a unit of log odds is worth."""

MEAN = 1000.0
"""The mean rating, without an anchor."""

BLOCK = 8
"""Rounds that a thread fits at a time."""

NO_TIE = "its wins and ties leave Davidson's weight of ties without a finite maximum; count ties as half a win to each"
LOST_WAY = "its results are too lopsided for the numbers of this machine"

Ties = Literal["half", "davidson"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


class Anchor(NamedTuple):
    """A model whose rating is given, by its number, and that rating."""

    model: int
    rating: float = MEAN


@dataclass(frozen=True, slots=True)
class Ratings:
    """Ratings of M models in points. NaN where a model has none; the reason then says why.

    Attributes:
        rating: ``(M,)``.
        low: ``(M,)`` lower end of the interval from resamples; NaN too without rounds, or of fewer than two clusters.
        high: ``(M,)`` upper end, likewise.
        sandwich_low: ``(M,)`` lower end of the interval from standard errors; NaN too of fewer than two clusters.
        sandwich_high: ``(M,)`` upper end, likewise.
        standard_error: ``(M,)`` of the difference from the mean or from the anchor, in points, likewise.
        covariance: ``(M, M)`` of the differences from the mean, in squared points, likewise.
        reach: Standard errors to either side that an interval reaches; NaN of fewer than two clusters.
        games: ``(M,)`` games that each model played, against whomever.
        reasons: Why each model has no rating, in words; None for those that have one.
        tie: Davidson's nu, by which ties are likelier; None where ties are half a win to each.
        left_out: Rounds whose resample has no finite maximum.
        rounds: Rounds that the interval from resamples is of.
        likelihood: Natural logarithm of the likelihood of the games among rated models.
    """

    rating: Floats
    low: Floats
    high: Floats
    sandwich_low: Floats
    sandwich_high: Floats
    standard_error: Floats
    covariance: Floats
    reach: float
    games: Whole
    reasons: tuple[str | None, ...]
    tie: float | None
    left_out: int
    rounds: int
    likelihood: float


def bradley_terry(
    games: Games,
    *,
    ties: Ties = "half",
    clusters: ArrayLike | None = None,
    anchor: Anchor | None = None,
    rounds: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    threads: int | None = None,
) -> Ratings:
    """Rate models by the strengths that make their games likeliest.

    The figures are the same to the last bit with any number of threads. Memory does not grow with the rounds.

    Args:
        games: N games between M models, as ``checked_games`` gives them.
        ties: ``half`` counts a tie as half a win to each; ``davidson`` as a result of its own, whose weight is estimated.
        clusters: ``(N,)`` what each game belongs to, such as its question, where several games are of one: clusters are then
            drawn in place of games, and the standard errors are of clusters.
        anchor: The model whose rating is given; None sets the mean of the rated models to 1000.
        rounds: How many resamples are drawn; none at 0.
        seed: Of the resamples.
        level: How often the intervals are to hold the true rating.
        threads: How many; as many as this process may use processors where it is None.

    Raises:
        MagistrateError: Davidson's ties are asked for with soft shares, the anchor has no rating, or there are no such rounds,
            seed or level.
    """
    number = games.number
    check_rounds(rounds or 1, level)
    checked_seed(seed)
    if clusters is not None:
        checked_clusters(clusters, len(games.first))
    if len(games.first) >= LARGEST:
        raise MagistrateError(f"{len(games.first):,} games cannot be drawn from; give fewer than {LARGEST:,}")
    cells = counted(games)
    if ties == "davidson":
        _refuse_soft(cells)
    played = np.zeros(number, np.int64)
    np.add.at(played, cells.first, cells.games)
    np.add.at(played, cells.second, cells.games)
    joined = components(cells.first, cells.second, cells.share, number, games=cells.games)
    place = placed(anchor, number, joined)
    if not joined.rated.any():
        return _nothing(played, joined.reasons)
    pairs = paired(cells, joined.rated, ties == "davidson", clusters)
    won, lost, tied = np.empty((3, len(pairs.left)))
    tally(pairs.pair, pairs.share, pairs.tie, pairs.games, won, lost, tied)
    strength = np.zeros(pairs.number + 1)
    strength[-1] = np.nan
    ended, likelihood = fit(pairs.left, pairs.right, won, lost, tied, strength, np.empty((pairs.number + 3, pairs.number + 1)))
    if ended != FOUND:
        why = NO_TIE if ended == TIES_UNBOUNDED else LOST_WAY
        _refuse_anchor(anchor, why)
        return _nothing(
            played, tuple(why if rated else reason for rated, reason in zip(joined.rated, joined.reasons, strict=True))
        )
    level_of = MEAN if anchor is None else anchor.rating
    rating = _points(strength[:-1], place, level_of)
    spread = _bootstrap(pairs, strength, rounds, seed, level, place, level_of, threads)
    spread_of = covariance(pairs, won, lost, tied, strength)
    error, reach = POINTS * errors_of(spread_of, place), quantile(level, pairs.clusters)
    columns = np.full((6, number), np.nan)
    columns[:, joined.rated] = rating, spread.low, spread.high, rating - reach * error, rating + reach * error, error
    whole = np.full((number, number), np.nan)
    whole[np.ix_(joined.rated, joined.rated)] = POINTS**2 * spread_of
    tie = float(np.exp(strength[-1])) if ties == "davidson" else None
    rated, low, high, sandwich_low, sandwich_high, errors = columns
    intervals = (low, high, sandwich_low, sandwich_high, errors)
    return Ratings(rated, *intervals, whole, reach, played, joined.reasons, tie, spread.left_out, spread.rounds, likelihood)


def _bootstrap(
    pairs: Pairs,
    strength: Floats,
    rounds: int,
    seed: int,
    level: float,
    place: int | None,
    level_of: float,
    threads: int | None,
) -> Spread:
    def block(begin: int, end: int) -> Floats:
        found = np.empty((end - begin, pairs.number))
        games = drawn(pairs, seed, begin, end)
        fit_rounds(pairs.left, pairs.right, pairs.pair, pairs.share, pairs.tie, games, strength, found)
        return _points(found, place, level_of)

    spreading = Spreading(pairs.number, expanded(level, pairs.clusters))
    for ratings in in_blocks(rounds if pairs.clusters > 1 else 0, BLOCK, block, threads):
        spreading.add(ratings)
    return spreading.spread()


def _points(strength: Floats, place: int | None, level_of: float) -> Floats:
    """Ratings of log strengths whose mean is 0: ``(..., R)`` of either."""
    if place is None:
        return level_of + POINTS * strength
    # The anchor's own difference is exactly 0, and so its rating exactly the one given.
    return np.asarray(level_of + POINTS * (strength - strength[..., place : place + 1]), np.float64)


def placed(anchor: Anchor | None, number: int, joined: Components) -> int | None:
    """The anchor's place among the rated models."""
    if anchor is None:
        return None
    model, rating = anchor
    if not 0 <= model < number or not math.isfinite(rating):
        raise MagistrateError(f"model {model} at {rating} is no anchor; models have the numbers 0 to {number - 1}")
    _refuse_anchor(anchor, joined.reasons[model])
    return int(joined.rated[:model].sum())


def _refuse_anchor(anchor: Anchor | None, reason: str | None) -> None:
    if anchor is not None and reason is not None:
        raise MagistrateError(f"the anchor, model {anchor.model}, has no rating, for {reason}; choose another")


def _refuse_soft(cells: Cells) -> None:
    soft = (cells.share != 0) & (cells.share != 0.5) & (cells.share != 1)
    if soft.any():
        raise MagistrateError(
            f"a share of {cells.share[soft.argmax()]} is no win, tie or loss; Davidson's model needs these, so count ties as half"
        )


def _nothing(games: Whole, reasons: tuple[str | None, ...]) -> Ratings:
    number = len(games)
    unknown = np.full((number, number), np.nan)
    none = np.full(number, np.nan)
    return Ratings(none, none, none, none, none, none, unknown, math.nan, games, reasons, None, 0, 0, 0.0)

"""Ratings apart from style: Bradley-Terry with the differences in style of two answers beside the strengths.

Source: Li, Angelopoulos and Chiang (2024), "Does style matter? Disentangling style and substance in Chatbot Arena",
https://lmsys.org/blog/2024-08-28-style-control/. The odds of a win are exp(s - t + covariates times coefficients). So a model
that wins because its answers are long wins by the coefficient of length, and not by its strength.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, xlogy

from evals.stats.ratings.bradley_terry import MEAN, POINTS, Anchor, placed
from evals.stats.ratings.connected import components
from evals.stats.ratings.games import Games, counted
from evals.stats.ratings.pairs import checked_clusters
from evals.stats.ratings.rounds import check_rounds
from evals.stats.ratings.sandwich import errors_of, quantile
from judges.errors import MagistrateError

STEPS = 100
CLOSE = 1e-7
"""Steps below this, in log odds, are the last: their square is what may be left."""

FARTHEST = 30.0
"""Log odds beyond which no likeliest strengths and coefficients are looked for: wins and losses are then told without fault."""

COLLINEAR = 1e-9
"""The share of a covariate's square, apart from what the models and other covariates explain, below which it says nothing."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StyleRatings:
    """Ratings of M models in points and coefficients of P covariates. NaN where a model has no rating.

    Attributes:
        rating: ``(M,)``.
        low: ``(M,)`` lower end of the interval, from standard errors of clusters; NaN too of fewer than two clusters.
        high: ``(M,)`` upper end, likewise.
        standard_error: ``(M,)`` of the difference from the mean or from the anchor, in points, likewise.
        coefficient: ``(P,)`` log odds that a unit of each covariate is worth.
        coefficient_low: ``(P,)`` lower end of its interval, likewise.
        coefficient_high: ``(P,)`` upper end, likewise.
        coefficient_error: ``(P,)`` its standard error, likewise.
        reasons: Why each model has no rating, in words; None for those that have one.
        likelihood: Natural logarithm of the likelihood of the games among rated models.
    """

    rating: Floats
    low: Floats
    high: Floats
    standard_error: Floats
    coefficient: Floats
    coefficient_low: Floats
    coefficient_high: Floats
    coefficient_error: Floats
    reasons: tuple[str | None, ...]
    likelihood: float


def style_difference(a: ArrayLike, b: ArrayLike) -> Floats:
    """``(a - b) / (a + b)``, and 0 where both are 0: the covariate of counts, such as tokens, headers or items of lists.

    Args:
        a: Counts of the first answers, of any shape.
        b: Counts of the second, of the same shape.

    Raises:
        MagistrateError: The shapes differ, or a count is below 0 or not finite.
    """
    one, other = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if one.shape != other.shape:
        raise MagistrateError(f"two counts are compared, and there are {one.shape} and {other.shape} of them")
    if not all(np.isfinite(count).all() and (count >= 0).all() for count in (one, other)):
        raise MagistrateError("a count is below 0 or not finite; the difference in style is of counts")
    total = one + other
    return np.divide(one - other, total, out=np.zeros_like(total), where=total > 0)


def style_controlled(
    games: Games,
    covariates: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    anchor: Anchor | None = None,
    level: float = 0.95,
) -> StyleRatings:
    """Rate models as if all answered in one style. Ties are half a win to each.

    Args:
        games: N games between M models, as ``checked_games`` gives them.
        covariates: ``(N, P)`` by how much the first answer of each game exceeds the second, in any units.
        clusters: As in ``bradley_terry``.
        anchor: Likewise.
        level: Likewise.

    Raises:
        MagistrateError: As in ``bradley_terry``; a covariate is not finite, constant, or a sum of others and of what the models
            have of their own; or covariates tell wins from losses without fault, so that no coefficients are the likeliest.
    """
    number = games.number
    check_rounds(1, level)
    table = np.asarray(covariates, np.float64)
    if table.ndim != 2 or len(table) != len(games.first):
        raise MagistrateError(
            f"each game has a row of covariates; there are {table.shape} of them for {len(games.first):,} games"
        )
    cluster = np.arange(len(table)) if clusters is None else checked_clusters(clusters, len(table))
    cells = counted(games)
    joined = components(cells.first, cells.second, cells.share, number, games=cells.games)
    place = placed(anchor, number, joined)
    columns, coefficients = np.full((4, number), np.nan), np.full((4, table.shape[1]), np.nan)
    likelihood = 0.0
    if joined.rated.any():
        kept = joined.rated[games.first] & joined.rated[games.second]
        rated = int(joined.rated.sum())
        renumbered = np.cumsum(joined.rated) - 1
        among = Games(renumbered[games.first[kept]], renumbered[games.second[kept]], games.share[kept], rated)
        scale = _scales(table[kept])
        design = _design(among, table[kept] / scale)
        _refuse_collinear(design, rated)
        found, hessian, likelihood = _likeliest(design, among.share, rated)
        numbered = np.unique(cluster[kept], return_inverse=True)[1]
        matrix = _covariance(design, among.share, found, hessian, numbered, rated)
        reach = quantile(level, int(numbered.max()) + 1)
        strength = found[:rated] if place is None else found[:rated] - found[place]
        rating = (MEAN if anchor is None else anchor.rating) + POINTS * strength
        error = POINTS * errors_of(matrix[:rated, :rated], place)
        columns[:, joined.rated] = rating, rating - reach * error, rating + reach * error, error
        worth, doubt = found[rated:] / scale, np.sqrt(np.diag(matrix)[rated:]) / scale
        coefficients[:] = worth, worth - reach * doubt, worth + reach * doubt, doubt
    rating, low, high, error = columns
    worth, least, most, doubt = coefficients
    return StyleRatings(rating, low, high, error, worth, least, most, doubt, joined.reasons, likelihood)


def _scales(covariates: Floats) -> Floats:
    """``(P,)`` the root of the mean square of each covariate, by which it is divided, so that its units do not matter.

    It is not centred: a constant would be worth something to whoever comes first.
    """
    for column, values in enumerate(covariates.T):
        if not np.isfinite(values).all():
            raise MagistrateError(f"covariate {column} is not finite in every game; leave out games whose style is not known")
        if np.ptp(values) <= 1e-12 * np.abs(values).max():
            raise MagistrateError(f"covariate {column} is constant, so it says nothing of style; leave it out")
    return np.asarray(np.sqrt((covariates**2).mean(axis=0)), np.float64)


def _design(games: Games, covariates: Floats) -> scipy.sparse.csr_matrix:
    """``(N, R + P)``: 1 for the first model, -1 for the second, and the covariates."""
    count, ones = len(games.first), np.ones(len(games.first))
    row = np.tile(np.arange(count), 2)
    models = (np.concatenate([ones, -ones]), (row, np.concatenate([games.first, games.second])))
    strengths = scipy.sparse.coo_matrix(models, shape=(count, games.number))
    return scipy.sparse.hstack([strengths, scipy.sparse.coo_matrix(covariates)]).tocsr()


def _weighted(design: scipy.sparse.csr_matrix, weight: Floats, rated: int) -> Floats:
    """The design's products with itself, and a weight of its own for the mean strength, which no game determines."""
    found = (design.T @ design.multiply(weight[:, np.newaxis]).tocsr()).toarray()
    found[:rated, :rated] += 1 / rated
    return np.asarray(found, np.float64)


def _refuse_collinear(design: scipy.sparse.csr_matrix, rated: int) -> None:
    products = _weighted(design, np.ones(design.shape[0]), rated)
    for column in range(rated, len(products)):
        before = products[:column, :column]
        explained = products[column, :column] @ np.linalg.solve(before, products[:column, column])
        if products[column, column] - explained <= COLLINEAR * products[column, column]:
            raise MagistrateError(
                f"covariate {column - rated} follows from the models and the covariates before it, so that what it is worth "
                "cannot be told from theirs; leave it out"
            )


def _likeliest(design: scipy.sparse.csr_matrix, share: Floats, rated: int) -> tuple[Floats, Floats, float]:
    """Strengths with mean 0 and coefficients by Newton's method; the negative second derivatives there; the log likelihood."""
    found = np.zeros(design.shape[1])
    step = np.zeros_like(found)
    highest = -np.inf
    for _ in range(STEPS):
        expected = expit(design @ found)
        likelihood = float((xlogy(share, expected) + xlogy(1 - share, expit(-(design @ found)))).sum())
        if likelihood < highest - 1e-12 * abs(highest):
            step /= 2
            found -= step
            continue
        highest = likelihood
        hessian = _weighted(design, expected * (1 - expected), rated)
        try:
            step = np.linalg.solve(hessian, design.T @ (share - expected))
        except np.linalg.LinAlgError:
            break
        found = found + step
        if np.abs(found).max() > FARTHEST:
            break
        if np.abs(step).max() < CLOSE:
            return found, hessian, likelihood
    raise MagistrateError(
        "the covariates and the models together tell some wins from losses without fault, so that no finite coefficients are the "
        "likeliest; give fewer covariates or more games"
    )


def _covariance(
    design: scipy.sparse.csr_matrix, share: Floats, found: Floats, hessian: Floats, cluster: NDArray[np.int64], rated: int
) -> Floats:
    """``(R + P, R + P)`` as ``sandwich.covariance`` has it, of coefficients too."""
    groups = int(cluster.max()) + 1
    if groups < 2:
        return np.full_like(hessian, np.nan)
    apart = scipy.sparse.coo_matrix((share - expit(design @ found), (cluster, np.arange(len(share)))))
    scores = apart.tocsr() @ design
    middle = (scores.T @ scores).toarray()
    bread = np.linalg.inv(hessian)
    bread[:rated, :rated] -= 1 / rated
    return np.asarray(bread @ middle @ bread * (groups / (groups - 1)), np.float64)

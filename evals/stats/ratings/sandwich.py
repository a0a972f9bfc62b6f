"""Standard errors that hold even where games of a question resemble each other, or the model of them is wrong.

Sources: Huber (1967), "The behavior of maximum likelihood estimates under nonstandard conditions"; Liang and Zeger (1986),
"Longitudinal data analysis using generalized linear models", for clusters. With the second derivatives H and the sum B of the
outer products of the clusters' first derivatives the covariance is H^-1 B H^-1, times G / (G - 1) for G clusters.
"""

from __future__ import annotations

import numpy as np
import scipy.stats
from numpy.typing import NDArray
from scipy.sparse import coo_matrix, csr_matrix, diags_array

from evals.stats.ratings.newton import slopes
from evals.stats.ratings.pairs import Pairs

WIDEST = 1 - 1e-6
"""The largest share of resamples that an interval is made to hold."""

Floats = NDArray[np.float64]


def covariance(pairs: Pairs, won: Floats, lost: Floats, tied: Floats, strength: Floats) -> Floats:
    """``(R, R)`` the covariance of log strengths whose mean is 0; NaN where there are fewer than two clusters.

    Args:
        pairs: The games.
        won: ``(P,)`` as ``newton.fit`` takes it.
        lost: ``(P,)`` likewise.
        tied: ``(P,)`` likewise.
        strength: ``(R + 1,)`` the likeliest, as it leaves them.
    """
    number = pairs.number
    groups = pairs.clusters
    if groups < 2:
        return np.full((number, number), np.nan)
    if np.isposinf(strength[number]):
        return np.zeros((number, number))
    upper, gradient = np.empty((number + 1, number + 1)), np.empty(number + 1)
    slopes(pairs.left, pairs.right, won, lost, tied, strength, upper, gradient)
    hessian = upper + np.triu(upper, 1).T
    scores = _scores(pairs, strength)
    if pairs.start is None:
        summed = diags_array(np.sqrt(pairs.games.astype(np.float64))) @ scores
    else:
        cluster = np.repeat(np.arange(groups), np.diff(pairs.start))
        shape = (groups, len(pairs.pair))
        summed = coo_matrix((np.ones(len(cluster)), (cluster, pairs.cell)), shape=shape).tocsr() @ scores
    middle = (summed.T @ summed).toarray()
    if np.isneginf(strength[number]):
        hessian, middle = hessian[:number, :number], middle[:number, :number]
    # Adding a constant to all log strengths changes nothing. So it is given a weight of its own, which is taken away again.
    level = np.zeros_like(hessian)
    level[:number, :number] = 1 / number
    bread = np.linalg.inv(hessian + level) - level
    found: Floats = bread @ middle @ bread * (groups / (groups - 1))
    return found[:number, :number]


def _scores(pairs: Pairs, strength: Floats) -> csr_matrix:
    """``(C, R + 1)`` the first derivatives of one game of each cell."""
    half = (strength[pairs.left] - strength[pairs.right]) / 2
    nu = np.exp(strength[pairs.number])
    whole = np.exp(half) + np.exp(-half) + nu
    lead, tying = ((np.exp(half) - np.exp(-half)) / whole)[pairs.pair], (nu / whole)[pairs.pair]
    slope = pairs.share - 0.5 - lead / 2
    cell = np.arange(len(pairs.pair))
    column = np.concatenate([pairs.left[pairs.pair], pairs.right[pairs.pair], np.full(len(cell), pairs.number)])
    value = np.concatenate([slope, -slope, pairs.tie - tying])
    return coo_matrix((value, (np.tile(cell, 3), column)), shape=(len(cell), pairs.number + 1)).tocsr()


def errors_of(covariance: Floats, anchor: int | None) -> Floats:
    """``(R,)`` standard errors against the anchor, or against the mean where it is None.

    Args:
        covariance: ``(R, R)`` of what has mean 0.
        anchor: The model whose own error is 0.
    """
    variance = np.diag(covariance).copy()
    if anchor is not None:
        variance += variance[anchor] - 2 * covariance[:, anchor]
        variance[anchor] = 0.0
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)), np.float64)


def quantile(level: float, groups: int) -> float:
    """Standard errors to either side that an interval reaches: Student's t with one degree of freedom less than clusters."""
    return float(scipy.stats.t.ppf((1 + level) / 2, groups - 1)) if groups > 1 else float("nan")


def expanded(level: float, groups: int) -> float:
    """The share of resamples that an interval is to hold so that it holds the truth as often as ``level`` says.

    Resamples of G clusters spread less than estimates do, by a factor of sqrt((G - 1) / G), and their percentiles know nothing of
    Student's t. Hesterberg expands the percentiles by both: of 40 clusters, the 2.5th becomes the 2.03rd.
    """
    if groups < 2:
        return level
    reach = quantile(level, groups) * (groups / (groups - 1)) ** 0.5
    return min(float(2 * scipy.stats.norm.cdf(reach) - 1), WIDEST)

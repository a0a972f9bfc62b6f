"""What the label of an item is expected to be worth: the squared error of the judge's score that it would remove.

The judge's score is first put on people's scale by a line. Its squared error on an item is expected to be what it was on labelled
items with such a score, drawn towards the mean of all: the more so, the fewer they are and the less such groups differ by more
than chance. Where the judge tells how unsure it was, items that it was as unsure of are heeded in the same way, and the two are
added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evals.stats.conformal import Line

VALUES = 10
"""Distinct scores up to which each is a group; more are cut into ``PARTS``."""

PARTS = 5

Floats = NDArray[np.float64]


def squared_errors(scores: ArrayLike, labels: ArrayLike) -> Floats:
    """Of a line from score to label, on each labelled item, as if the line had been fitted without it: ``(n,)``."""
    given, wanted = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    line = Line.fitted(given, wanted)
    apart = given - given.mean()
    square = float(apart @ apart)
    weight = 1 / len(given) + (apart**2 / square if line.slope > 0 else 0.0)
    found: Floats = ((wanted - line.at(given)) / np.maximum(1 - weight, 1 / len(given))) ** 2
    return found


def expected_errors(labelled: NDArray[np.intp], errors: Floats, features: Sequence[ArrayLike]) -> Floats:
    """The squared error to be expected of each item, ``(N,)``.

    Args:
        labelled: ``(n,)`` places of the labelled items among all.
        errors: ``(n,)`` theirs.
        features: ``(N,)`` each: what an error may depend on, the score first.
    """
    overall = float(errors.mean())
    found = np.full(len(np.asarray(features[0])), overall)
    for feature in features:
        groups = groups_of(feature)
        counts = np.bincount(groups[labelled], minlength=groups.max() + 1)
        sums = np.bincount(groups[labelled], errors, groups.max() + 1)
        count = strength(errors, groups[labelled])
        if count is not None:
            weight = np.divide(counts, counts + count, out=np.zeros(len(counts)), where=counts > 0)
            means = np.divide(sums, counts, out=np.full(len(counts), overall), where=counts > 0)
            found += (weight * (means - overall))[groups]
    kept: Floats = np.maximum(found, 0.0)
    return kept


def strength(errors: Floats, groups: NDArray[np.intp]) -> float | None:
    """How many labels the mean of all counts as in a group's own: the variance within groups over that between their true means.

    The latter is the moment estimate of one-way analysis of variance with groups of unequal size (Searle, Casella and McCulloch,
    "Variance components", 1992, chapter 3).

    Returns:
        ``None`` where groups differ by no more than chance would have it, or there are too few labels to say.
    """
    codes = np.unique(groups, return_inverse=True)[1]
    counts = np.bincount(codes)
    size, parts = len(errors), len(counts)
    if parts < 2 or size <= parts:
        return None
    means = np.bincount(codes, errors) / counts
    within = float(((errors - means[codes]) ** 2).sum()) / (size - parts)
    between = float((counts * (means - errors.mean()) ** 2).sum()) / (parts - 1)
    alike = (size - float((counts**2).sum()) / size) / (parts - 1)
    variance = (between - within) / alike
    return within / variance if variance > 0 else None


def groups_of(values: ArrayLike) -> NDArray[np.intp]:
    """A group's number for each: of its value where there are few, and else of one of five parts of about the same size."""
    given = np.asarray(values, np.float64)
    distinct, codes = np.unique(given, return_inverse=True)
    if len(distinct) <= VALUES:
        return codes
    edges = np.unique(np.quantile(given, np.linspace(0, 1, PARTS + 1)[1:-1]))
    return np.unique(np.searchsorted(edges, given, side="right"), return_inverse=True)[1]

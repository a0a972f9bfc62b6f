"""Intervals that hold people's labels as often as promised, around a judge's scores: split conformal prediction.

Some labels fit a line from the judge's score to the label, the rest say how far labels lie from it. With n such residuals, the
ceil((n + 1) level)-th smallest is the radius. Where labelled items and others are drawn alike (they are exchangeable), a label of
another item lies within its interval with a probability of at least the level, and where no two residuals are the same of at most
level + 1 / (n + 1). This is over draws of the labels too, and says nothing of one kind of item by itself. Nothing is assumed of
the judge: a poor one has wide intervals.

Sources: Vovk, Gammerman and Shafer, "Algorithmic learning in a random world" (2005); Lei et al., "Distribution-free predictive
inference for regression" (2018), theorem 2.2, and section 5.2 for residuals in units of what is expected; Angelopoulos and Bates,
"A gentle introduction to conformal prediction" (2021), https://arxiv.org/abs/2107.07511, section 3.2 for how often the labels at
hand hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from judges.errors import MagistrateError

LEAST_FITTED = 5
"""Labels that a line is fitted to at the least."""

LEAST_UNSURE = 30
"""Fitted labels from which on entropies are looked at; with fewer, what they seem to say is chance."""

NARROWEST = 0.1
"""Of the mean residual: what the expected one of an item is held to at the least."""

SHORTER = 0.95
"""By which factor intervals are to get shorter on the fitted labels, for entropies to be heeded: fewer is as good as chance."""

CLOSE = 1e-9

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Line:
    """From a judge's score to the label that is to be expected. A judge that goes against people has a slope of 0."""

    middle: float
    slope: float
    centre: float

    @classmethod
    def fitted(cls, scores: Floats, labels: Floats) -> Line:
        """By least squares."""
        apart = scores - scores.mean()
        square = float(apart @ apart)
        slope = max(0.0, float(apart @ (labels - labels.mean())) / square) if square > 0 else 0.0
        return cls(float(labels.mean()), slope, float(scores.mean()))

    def at(self, scores: ArrayLike) -> Floats:
        """The labels expected at scores."""
        return self.middle + self.slope * (np.asarray(scores, np.float64) - self.centre)


@dataclass(frozen=True, slots=True)
class Unsureness:
    """How large a residual is to be expected where the judge was this unsure: a line in the entropy, held above 0."""

    base: float
    slope: float
    least: float

    def at(self, entropies: ArrayLike) -> Floats:
        """The residuals expected at entropies."""
        found: Floats = np.maximum(self.least, self.base + self.slope * np.asarray(entropies, np.float64))
        return found


@dataclass(frozen=True, slots=True)
class Conformal:
    """What makes an interval of a score.

    Attributes:
        line: From score to label.
        unsureness: What residuals are measured in; ``None`` where all are alike.
        radius: Half of an interval, in units of that.
        legal: Labels that there are, in order; ``None`` where a label may be any number.
        level: As promised.
        fitted: Places of the labels that the line was fitted to.
        held_out: Places of those that the radius is of.
    """

    line: Line
    unsureness: Unsureness | None
    radius: float
    legal: tuple[float, ...] | None
    level: float
    fitted: NDArray[np.intp]
    held_out: NDArray[np.intp]

    def intervals(self, scores: ArrayLike, entropies: ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Lower and upper ends, ``(N,)`` each; where there are legal labels, the ends are two of them.

        Raises:
            MagistrateError: Entropies are needed and there are none.
        """
        middle = self.line.at(scores)
        half = np.full(middle.shape, self.radius)
        if self.unsureness is not None:
            if entropies is None:
                raise MagistrateError("these intervals go by how unsure the judge was; give the entropies of the scores too")
            half *= self.unsureness.at(entropies)
        low, high = middle - half, middle + half
        return (low, high) if self.legal is None else _within(np.array(self.legal), low, high, middle)

    def holding(self, share: float = 0.9) -> tuple[float, float]:
        """Between which bounds the share of labels that are held lies, for this share of all draws of as many labels.

        With residuals that all differ it is a beta variable; where some are the same, more are held.
        """
        count = len(self.held_out)
        rank = rank_of(count, self.level)
        ends = stats.beta.ppf([(1 - share) / 2, (1 + share) / 2], rank, count + 1 - rank)
        return float(ends[0]), float(ends[1])


def split_conformal(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    level: float,
    legal: ArrayLike | None = None,
    entropies: ArrayLike | None = None,
    seed: int = 0,
) -> Conformal:
    """Learn intervals from labelled items that are drawn at random from all.

    Args:
        scores: ``(n,)`` the judge's.
        labels: ``(n,)`` people's.
        level: How often an interval is to hold the label.
        legal: The labels that there are; an interval's ends are then two of them, and it means those in between.
        entropies: ``(n,)`` how unsure the judge was. They are heeded if that makes intervals shorter on the labels that the
            line is fitted to.
        seed: Of which labels are fitted to.

    Raises:
        MagistrateError: There are too few labels for the level, they do not belong together, or a number is not finite.
    """
    given, wanted = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    unsure = None if entropies is None else np.asarray(entropies, np.float64)
    arrays = [given, wanted] if unsure is None else [given, wanted, unsure]
    if given.ndim != 1 or any(one.shape != given.shape for one in arrays):
        raise MagistrateError(
            f"each labelled item has a score and a label; there are {', '.join(str(one.shape) for one in arrays)}"
        )
    if not all(np.isfinite(one).all() for one in arrays):
        raise MagistrateError("a label or a score is not a finite number; leave out items that have none")
    if not 0 < level < 1:
        raise MagistrateError(f"the level is {level:g}; give one between 0 and 1, e.g. 0.9")
    if len(given) < labels_needed(level):
        raise MagistrateError(
            f"there are {len(given)} labels of scored items; intervals that hold {level:.4g} of the time need "
            f"{labels_needed(level)}"
        )
    fitted, held_out = parts(len(given), seed)
    line = Line.fitted(given[fitted], wanted[fitted])
    residuals = np.abs(wanted - line.at(given))
    unsureness = None if unsure is None or len(fitted) < LEAST_UNSURE else _unsureness(residuals[fitted], unsure[fitted], level)
    if unsureness is not None and unsure is not None:
        residuals = residuals / unsureness.at(unsure)
    radius = float(np.sort(residuals[held_out])[rank_of(len(held_out), level) - 1])
    known = None if legal is None else tuple(np.unique(np.asarray(legal, np.float64)).tolist())
    return Conformal(line, unsureness, radius, known, level, fitted, held_out)


def parts(count: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Places of a third of the labels, to fit to, and of the others; by lot."""
    order = np.random.default_rng(seed).permutation(count)
    return np.sort(order[: count // 3]), np.sort(order[count // 3 :])


def rank_of(count: int, level: float) -> int:
    """Number, in order of size, of the residual that is the radius; above ``count`` where no residual is large enough."""
    return math.ceil(round((count + 1) * level, 9))


def labels_needed(level: float) -> int:
    """The least number of labels of which intervals at this level can be made."""
    count = 3 * LEAST_FITTED
    while rank_of(count - count // 3, level) > count - count // 3:
        count += 1
    return count


def _unsureness(residuals: Floats, entropies: Floats, level: float) -> Unsureness | None:
    """The line from entropy to residual, if residuals grow with entropy and intervals get shorter by it; else nothing."""
    apart = entropies - entropies.mean()
    square, mean = float(apart @ apart), float(residuals.mean())
    slope = float(apart @ residuals) / square if square > 0 else 0.0
    if slope <= 0 or mean <= 0:
        return None
    found = Unsureness(mean - slope * float(entropies.mean()), slope, NARROWEST * mean)
    rank = min(rank_of(len(residuals), level), len(residuals)) - 1
    expected = found.at(entropies)
    plain, by_unsureness = np.sort(residuals)[rank], np.sort(residuals / expected)[rank] * expected.mean()
    return found if by_unsureness < SHORTER * plain else None


def _within(legal: Floats, low: Floats, high: Floats, middle: Floats) -> tuple[Any, Any]:
    """The first and the last legal label within each interval, or the nearest to its middle where there is none."""
    first = np.searchsorted(legal, low - CLOSE)
    last = np.searchsorted(legal, high + CLOSE, side="right") - 1
    nearest = np.abs(legal[None, :] - middle[:, None]).argmin(axis=1)
    empty = first > last
    return legal[np.where(empty, nearest, first)], legal[np.where(empty, nearest, last)]

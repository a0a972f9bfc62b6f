"""Whether a mean differs from what it would be by chance, where several values may be of one item.

Values of one item, a question asked several times or judged by several judges, go together; they are no news of other items. So
the standard error is that of clusters (Liang and Zeger, 1986, with the correction G / (G - 1)), the interval goes by Student's t
with G - 1 degrees of freedom, and the test turns the sign of whole items (the sign-flip permutation test, Fisher, 1935).

Scores are mostly whole numbers, whose sums are often the same. Sums as far from 0 as the one at hand count one half: the mid-p
value (Lancaster, 1961; for 0 and 1 Fagerland, Lydersen and Laake, 2013). If all of them counted in full, the test would find a
difference between systems that are alike 2% to 4% of the time at 5%; so it is 4% to 5.5%, and of five or six items 6%.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from judges.errors import MagistrateError

LEVEL = 0.95
FLIPS = 20_000
EXACT = 14
"""Items up to which all ways of turning signs are gone through."""

MANY = 2_000
"""Items from which on the sum under turned signs is as good as normal."""

POWER = 0.8

BLOCK = 1 << 22
"""Signs that are drawn at once, at the most."""


@dataclass(frozen=True, slots=True)
class Paired:
    """A mean over items, and how sure it is.

    Attributes:
        mean: Of all values; NaN where missing.
        low: Lower end of its interval; NaN where there are fewer than two items.
        high: Upper end, likewise.
        p: Of the two-sided sign-flip test that the mean is the null's; NaN likewise.
        count: Values.
        items: Distinct items.
        spread: Standard deviation of what one item adds to the mean, per value; NaN likewise.
    """

    mean: float
    low: float
    high: float
    p: float
    count: int
    items: int
    spread: float


def paired(
    values: ArrayLike, items: ArrayLike | None = None, *, null: float = 0.0, level: float = LEVEL, seed: int = 0
) -> Paired:
    """The mean of differences, or of shares, with its interval and test.

    Args:
        values: ``(N,)``; NaN where nothing is measured.
        items: ``(N,)`` of which item each is; by default each of its own.
        null: The mean that would be chance.
        level: How often the interval is to hold the true mean.
        seed: Of the test's draws.

    Raises:
        MagistrateError: The arrays do not belong together.
    """
    found = np.asarray(values, np.float64)
    named = np.arange(len(found)) if items is None else np.asarray(items)
    if found.ndim != 1 or found.shape != named.shape:
        raise MagistrateError(f"each value is of one item; there are {found.shape} values and {named.shape} items")
    there = ~np.isnan(found)
    found, number = found[there], np.unique(named[there], return_inverse=True)[1]
    count, size = len(found), int(number.max(initial=-1)) + 1
    if not count:
        return Paired(math.nan, math.nan, math.nan, math.nan, 0, 0, math.nan)
    mean = float(found.mean())
    if size < 2:
        return Paired(mean, math.nan, math.nan, math.nan, count, size, math.nan)
    variance = clustered_variance(found - mean, number)
    half = float(stats.t.ppf((1 + level) / 2, size - 1)) * math.sqrt(variance)
    p = _sign_flips(np.bincount(number, found - null, size), seed)
    return Paired(mean, mean - half, mean + half, p, count, size, math.sqrt(variance * size))


def clustered_variance(residuals: NDArray[np.float64], number: NDArray[np.int64]) -> float:
    """The variance of a mean whose values go together by item.

    Args:
        residuals: ``(N,)`` values less their mean.
        number: ``(N,)`` each one's item, from 0 without gaps; two of them at the least.
    """
    sums = np.bincount(number, residuals)
    return float((sums**2).sum()) * len(sums) / (len(sums) - 1) / len(residuals) ** 2


def items_needed(spread: float, difference: float, *, level: float = LEVEL, power: float = POWER) -> int | None:
    """How many items show a difference of this size, as often as ``power`` says.

    Args:
        spread: As ``Paired`` has it.
        difference: Between the mean and the null.
        level: Of the test.
        power: How often the test is to find it.

    Returns:
        ``None`` where the spread is unknown or 0: then all items say the same, and nothing is known of others.

    Raises:
        MagistrateError: The difference is not above 0.
    """
    if not difference > 0:
        raise MagistrateError(f"a difference to be seen is above 0, not {difference:g}")
    if math.isnan(spread) or spread == 0:
        return None
    return max(2, math.ceil((_quantiles(level, power) * spread / difference) ** 2))


def least_seen(found: Paired, *, level: float = LEVEL, power: float = POWER) -> float | None:
    """The least difference that as many items as there were show, as often as ``power`` says; ``None`` where it is not known."""
    return None if math.isnan(found.spread) else _quantiles(level, power) * found.spread / math.sqrt(found.items)


def adjusted(values: Sequence[float]) -> list[float]:
    """Several tests' p, so that the chance of any false alarm among them stays what it is for one. Source: Holm (1979)."""
    order = sorted((place for place, p in enumerate(values) if not math.isnan(p)), key=lambda place: values[place])
    found, most = list(values), 0.0
    for rank, place in enumerate(order):
        most = max(most, min(1.0, values[place] * (len(order) - rank)))
        found[place] = most
    return found


def _quantiles(level: float, power: float) -> float:
    return float(stats.norm.ppf((1 + level) / 2) + stats.norm.ppf(power))


def _sign_flips(sums: NDArray[Any], seed: int) -> float:
    """Two-sided p of the sum, over ways of turning items' signs.

    All of them, or draws, or of many items the normal distribution with the same variance.
    """
    sums = sums[sums != 0]
    observed = abs(float(sums.sum()))
    close = 1e-9 * max(1.0, float(np.abs(sums).sum()))
    size = len(sums)
    if not size or observed <= close:
        return 1.0
    if size <= EXACT:
        ways = np.arange(1 << size)[:, None] >> np.arange(size) & 1
        farther, same = _counts(np.abs((1 - 2 * ways) @ sums) - observed, close)
        return (farther + same / 2) / len(ways)
    if size >= MANY:
        return float(2 * stats.norm.sf(observed / np.sqrt((sums**2).sum())))
    chance = np.random.default_rng(seed)
    farther = same = 0
    step = max(1, BLOCK // size)
    for begin in range(0, FLIPS, step):
        signs = chance.integers(2, size=(min(step, FLIPS - begin), size), dtype=np.int8)
        counts = _counts(np.abs(sums.sum() - 2 * (signs @ sums)) - observed, close)
        farther, same = farther + counts[0], same + counts[1]
    return (farther + (same + 1) / 2) / (FLIPS + 1)  # the one at hand is a draw too


def _counts(excess: NDArray[Any], close: float) -> tuple[int, int]:
    """How many are above 0, and how many are 0 but for rounding."""
    return int((excess > close).sum()), int((np.abs(excess) <= close).sum())

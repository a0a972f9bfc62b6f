"""Confidence intervals of means and shares that stay within their scale."""

from __future__ import annotations

import math

LEVEL = 0.95


def student(mean: float, squares: float, count: int, level: float = LEVEL) -> tuple[float, float] | None:
    """Student's interval of a mean.

    Args:
        mean: The mean.
        squares: Sum of the squared differences from it.
        count: Values that it is of.
        level: How often the interval is to hold.

    Returns:
        Its ends; ``None`` for fewer than two values, or if all are the same, which says nothing of how others vary.
    """
    if count < 2 or squares <= 0:
        return None
    from scipy.stats import t

    half = float(t.ppf((1 + level) / 2, count - 1)) * math.sqrt(squares / (count - 1) / count)
    return mean - half, mean + half


def jeffreys(share: float, worth: float, level: float = LEVEL) -> tuple[float, float]:
    """Jeffreys' interval of a share (Brown, Cai and DasGupta, "Interval Estimation for a Binomial Proportion", 2001).

    Args:
        share: From 0 to 1.
        worth: Independent values that tell as much as those that the share is of.
        level: How often the interval is to hold.
    """
    from scipy.stats import beta

    ones = share * worth
    low, high = (float(end) for end in beta.ppf(((1 - level) / 2, (1 + level) / 2), ones + 0.5, worth - ones + 0.5))
    return low if share > 0 else 0.0, high if share < 1 else 1.0

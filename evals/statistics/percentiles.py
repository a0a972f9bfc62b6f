"""The ends of a percentile interval, of figures that some resamples leave undefined."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LEAST_ITEMS = 10
"""Items below which there is no interval: of five, one at 95% holds the true Pearson's r 87% of the time, of ten 92%."""

MOST_LEFT_OUT = 0.1
"""Share of resamples that may be left out. The others are no chance selection, so an interval of few of them is off."""

Floats = NDArray[np.float64]


def percentile_ends(drawn: Floats, items: int, level: float) -> tuple[float | None, float | None, int, str | None]:
    """The lower and the upper end, how many resamples are left out, and why there is no interval where there is none.

    Args:
        drawn: The figure in each resample; NaN where it is undefined.
        items: Distinct items that are drawn from.
        level: How often the interval is to hold the true value.
    """
    if items < LEAST_ITEMS:
        return None, None, 0, f"no interval: {items} item{'s are' if items != 1 else ' is'} too few, {LEAST_ITEMS} are needed"
    defined = drawn[~np.isnan(drawn)]
    left_out = len(drawn) - len(defined)
    if not len(defined):
        return None, None, left_out, "no interval: it is undefined in every resample"
    if left_out > MOST_LEFT_OUT * len(drawn):
        why = f"no interval: it is undefined in {left_out:,} of {len(drawn):,} resamples, more than {MOST_LEFT_OUT:.0%}"
        return None, None, left_out, why
    low, high = np.quantile(defined, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high), left_out, None


def mean_of_defined(values: Floats, rows: Floats) -> Floats:
    """The mean of the figures that are defined, weighted by the rows they are of.

    A resample of few rows leaves a figure or two undefined nearly always, so one that lacks some counts too.

    Args:
        values: ``(..., P)``; NaN where undefined.
        rows: ``(..., P)``.

    Returns:
        ``(...)``; NaN where none is defined.
    """
    weights = np.where(np.isnan(values), 0.0, rows)
    total = weights.sum(axis=-1, keepdims=True)
    shares = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    means = (shares * np.nan_to_num(values)).sum(axis=-1)
    return np.asarray(np.where(total[..., 0] > 0, means, np.nan), np.float64)

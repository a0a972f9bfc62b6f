"""The ends of a percentile interval, of figures that some resamples leave undefined."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LEAST_ITEMS = 10
"""Items below which there is no interval: of five, one at 95% holds the true Pearson's r 87% of the time, of ten 92%."""


def percentile_ends(drawn: NDArray[np.float64], items: int, level: float) -> tuple[float | None, float | None, int, str | None]:
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
    low, high = np.quantile(defined, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high), left_out, None

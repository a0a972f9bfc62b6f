"""How far columns go together: Pearson's r, Spearman's rho and Kendall's tau-b, with bootstrap intervals over items.

Sources: Spearman (1904), equal values sharing their average rank; Kendall (1945), tau-b; Knight (1966), counting discordant pairs
in the order of one column; Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13, the percentile interval.

Items are drawn, all rows of one together. One resample serves all columns of a call, so that their figures can be compared; ranks
are those within the resample. The draws depend on the seed and the number of items only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evals.stats.association_lanes import LANES, draw, gather, three_coefficients
from evals.stats.bootstrap import LEVEL, ROUNDS, mean_of_defined, percentile_ends
from evals.stats.correlation import LEAST_PAIRS
from evals.stats.ratings.chance import checked_seed
from evals.stats.ratings.rounds import check_rounds, in_blocks
from judges.errors import MagistrateError

Coefficient = Literal["pearson", "spearman", "kendall"]
COEFFICIENTS: tuple[Coefficient, ...] = get_args(Coefficient)

TOO_CLOSE = "its values are too close to each other for a float to tell how far apart they are"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Association:
    """A coefficient and its interval.

    Attributes:
        value: From -1 to 1; ``None`` where it is undefined.
        low: Lower end of its interval; ``None`` if absent.
        high: Upper end, likewise.
        pairs: Rows that have a value in both columns.
        items: Distinct items of those rows.
        left_out: Rounds in which it is undefined, since a resample is constant on one side. They are not in the interval.
        reason: Why there is no value, or no interval.
    """

    value: float | None
    low: float | None
    high: float | None
    pairs: int
    items: int
    left_out: int = 0
    reason: str | None = None


Associations = dict[Coefficient, Association]
"""All three coefficients of two columns."""


def associations(
    columns: ArrayLike,
    targets: ArrayLike,
    items: ArrayLike | None = None,
    *,
    rounds: int = ROUNDS,
    level: float = LEVEL,
    seed: int = 0,
    threads: int | None = None,
) -> list[list[Associations]]:
    """Set every column against every target.

    Args:
        columns: ``(N, C)``; NaN where there is no value.
        targets: ``(N, T)``, likewise. A row counts for a pair of columns where both have a value.
        items: ``(N,)`` of which item each row is; by default each of its own.
        rounds: How many resamples are drawn.
        level: How often an interval is to hold the true value.
        seed: Of the resamples.
        threads: By default as many as there are processors. The result is the same to the last bit.

    Returns:
        A list for each column, of the coefficients with each target.

    Raises:
        MagistrateError: The arrays do not belong together, a value is infinite, or there are no rounds or no such level.
    """
    study = _Study(columns, targets, items, rounds, level, seed, threads)
    width = study.others.shape[1]
    pairs = [(one, other) for one in range(study.columns.shape[1]) for other in range(width)]
    values, drawn, _ = study.resampled(pairs)
    found = [study.told(*pair, values[place], drawn[:, place]) for place, pair in enumerate(pairs)]
    return [found[begin : begin + width] for begin in range(0, len(found), width)]


def mean_association(
    columns: ArrayLike,
    targets: ArrayLike,
    items: ArrayLike | None = None,
    *,
    rounds: int = ROUNDS,
    level: float = LEVEL,
    seed: int = 0,
    threads: int | None = None,
) -> Associations:
    """The mean coefficient of the first column with the first target, the second with the second, and so on.

    Each pair of columns weighs as many rows as it has. One that has no coefficient is left out, and ``reason`` says how many are.
    The mean of a resample is over the pairs that have one in it, by the rows they have there: of a rater with few ratings, many
    resamples are constant.

    Args:
        columns: As in ``associations``; ``(N, P)``.
        targets: ``(N, P)``.
        items: As in ``associations``.
        rounds: Likewise.
        level: Likewise.
        seed: Likewise.
        threads: Likewise.

    Raises:
        MagistrateError: As in ``associations``.
    """
    study = _Study(columns, targets, items, rounds, level, seed, threads)
    if study.columns.shape != study.others.shape:
        raise MagistrateError(f"columns go with targets one by one: there are {study.columns.shape} and {study.others.shape}")
    pairs = [(place, place) for place in range(study.columns.shape[1])]
    values, drawn, sizes = study.resampled(pairs)
    there = ~(np.isnan(study.columns) | np.isnan(study.others))
    counts = there.sum(axis=0)
    used = there.any(axis=1)
    rows, clusters = int(used.sum()), len(np.unique(study.number[used]))
    found: Associations = {}
    for place, name in enumerate(COEFFICIENTS):
        defined = ~np.isnan(values[:, place]) & (counts >= LEAST_PAIRS)
        if not defined.any():
            found[name] = Association(None, None, None, rows, clusters, 0, "no pair of columns has a coefficient")
            continue
        missing = int((~defined).sum())
        reason = f"{missing} of {len(defined)} pairs of columns have no coefficient and are left out" if missing else None
        mean = float(mean_of_defined(values[defined, place], counts[defined].astype(np.float64)))
        means = mean_of_defined(drawn[:, defined, place], sizes[:, defined])
        found[name] = with_interval(mean, means, rows, clusters, level, reason)
    return found


class _Study:
    """The columns of a call, checked, and the coefficients of their resamples."""

    def __init__(
        self,
        columns: ArrayLike,
        targets: ArrayLike,
        items: ArrayLike | None,
        rounds: int,
        level: float,
        seed: int,
        threads: int | None,
    ) -> None:
        self.columns, self.others = (checked_table(side) for side in (columns, targets))
        check_rounds(rounds, level)
        size = len(self.columns)
        named = np.arange(size) if items is None else np.asarray(items)
        if len(self.others) != size or named.shape != (size,):
            raise MagistrateError(
                f"columns, targets and items have the same rows; there are {size}, {len(self.others)} and {named.shape}"
            )
        self.number = np.unique(named, return_inverse=True)[1].astype(np.int64)
        self.clusters = int(self.number.max(initial=-1)) + 1
        self.rounds, self.level, self.threads = rounds, level, threads
        self.seed = checked_seed(seed)

    def resampled(self, pairs: Sequence[tuple[int, int]]) -> tuple[Floats, Floats, Floats]:
        """The coefficients of pairs of columns, ``(P, 3)``, those of every resample, ``(rounds, P, 3)``, and the rows of pairs
        in it, ``(rounds, P)``. NaN: undefined.
        """
        cells = [_Cells(self.columns[:, one], self.others[:, other]) for one, other in pairs]

        def coefficients(weights: NDArray[np.int32], kept: int) -> Floats:
            found = np.empty((len(cells), LANES, len(COEFFICIENTS) + 1))
            for one, place in zip(cells, found, strict=True):
                place[:, -1] = one.coefficients(weights, self.number, place[:, :-1])
            return found.swapaxes(0, 1)[:kept]

        def block(begin: int, end: int) -> Floats:
            weights = np.zeros((self.clusters, LANES), np.int32)
            draw(weights, self.seed, begin)
            return coefficients(weights, end - begin)

        values = coefficients(np.ones((self.clusters, LANES), np.int32), 1)[0]
        drawn = np.concatenate(list(in_blocks(self.rounds, LANES, block, self.threads)))
        return values[:, :-1], drawn[..., :-1], drawn[..., -1]

    def told(self, one: int, other: int, values: Floats, drawn: Floats) -> Associations:
        column, target = self.columns[:, one], self.others[:, other]
        there = ~(np.isnan(column) | np.isnan(target))
        pairs, clusters = int(there.sum()), len(np.unique(self.number[there]))
        reason = None
        if pairs < LEAST_PAIRS:
            reason = f"there are {pairs} pairs, and {LEAST_PAIRS} are needed"
        else:
            constant = [name for name, side in (("first", column), ("second", target)) if np.ptp(side[there]) == 0]
            if constant:
                what = "both columns are" if len(constant) == 2 else f"the {constant[0]} column is"
                reason = f"{what} constant"
        if reason is not None:
            return {name: Association(None, None, None, pairs, clusters, 0, reason) for name in COEFFICIENTS}
        return {
            name: Association(None, None, None, pairs, clusters, 0, TOO_CLOSE)
            if np.isnan(values[place])
            else with_interval(float(values[place]), drawn[:, place], pairs, clusters, self.level)
            for place, name in enumerate(COEFFICIENTS)
        }


class _Cells:
    """Two columns as cells: the distinct pairs of values, in the order of the first and then of the second.

    Ordinal scores have few, whatever the number of rows, and each round then takes next to nothing. The side with fewer distinct
    values goes second, as pairs are counted in a tree over those.
    """

    def __init__(self, column: Floats, target: Floats) -> None:
        there = ~(np.isnan(column) | np.isnan(target))
        sides = [np.unique(side[there], return_inverse=True) for side in (column, target)]
        sides.sort(key=lambda side: -len(side[0]))
        (self.first_values, first), (self.second_values, second) = ((_scaled(values), code) for values, code in sides)
        width = max(len(self.second_values), 1)
        kinds, cell = np.unique(first * width + second, return_inverse=True)
        self.first, self.second = ((part).astype(np.int64) for part in np.divmod(kinds, width))
        self.cell = np.full(len(column), len(kinds), np.int64)
        self.cell[there] = cell

    def coefficients(self, weights: NDArray[np.int32], number: NDArray[np.int64], found: Floats) -> NDArray[np.int64]:
        """Put the coefficients of each lane in ``found``; the rows of each."""
        counts = np.zeros((len(self.first) + 1, LANES), np.int32)
        gather(weights, number, self.cell, counts)
        three_coefficients(counts, self.first, self.second, self.first_values, self.second_values, found)
        return np.asarray(counts[:-1].sum(axis=0), np.int64)


def _scaled(values: Floats) -> Floats:
    """Values from -1 to 1 around their middle: r has no unit, and no square of these is too large or too small."""
    if not len(values):
        return values
    middle = values[0] / 2 + values[-1] / 2
    half = values[-1] / 2 - values[0] / 2
    return np.asarray((values - middle) / half if half > 0 else values * 0.0, np.float64)


def with_interval(value: float, drawn: Floats, pairs: int, items: int, level: float, reason: str | None = None) -> Association:
    """A coefficient with the percentile interval of its resamples, ``drawn``, NaN where one is undefined."""
    low, high, left_out, why = percentile_ends(drawn, items, level)
    return Association(value, low, high, pairs, items, left_out, "; ".join(filter(None, (reason, why))) or None)


def checked_table(table: ArrayLike) -> Floats:
    """The table, ``(rows, columns)``, as floats.

    Raises:
        MagistrateError: It has another shape, or an infinite value.
    """
    found = np.asarray(table, np.float64)
    if found.ndim != 2:
        raise MagistrateError(f"a table of rows by columns is needed, not one of shape {found.shape}")
    if np.isinf(found).any():
        raise MagistrateError(f"the value of row {np.argwhere(np.isinf(found))[0][0]} is infinite; NaN means that it is missing")
    return found

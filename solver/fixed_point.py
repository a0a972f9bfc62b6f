"""Represents scores as integers times a power of two, so that sums and comparisons are exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.compiled import compiled, over_blocks
from solver.problem import SolverError

MISSING: dict[Any, int] = {np.dtype(np.int8): -(2**7), np.dtype(np.int32): -(2**31), np.dtype(np.int64): -(2**62)}
"""Mark of a cell that may not be chosen, by type of the matrix."""

NOTHING_MISSING = -(2**63)
"""Replaces the mark if every cell may be chosen. Scores are narrower, so no cell holds it."""


@dataclass(frozen=True)
class FixedPoint:
    """A score matrix in units.

    Attributes:
        units: ``(N, M)`` C-ordered int8, int32 or int64.
        unit: The power of two that is one unit.
        exact: False if scores needed more bits than ``widest`` and were rounded to the nearest unit.
        missing: Mark of a cell that may not be chosen; an integer that no cell can hold if there is none.
    """

    units: NDArray[Any]
    unit: float
    exact: bool
    missing: int


def fixed_point(
    scores: NDArray[Any], allowed: NDArray[np.bool_] | None = None, labels: Sequence[Any] | None = None
) -> FixedPoint:
    """Convert scores to integers times a power of two.

    Integers and every float32 of ordinary range are converted exactly. Nothing is copied if the matrix is already C-ordered int8
    (or uint8 up to 127), int32 or int64 and every cell is allowed.

    Args:
        scores: ``(N, M)`` integers, booleans or floats. NaN is a missing score and may not be chosen.
        allowed: ``(N, M)`` booleans, False for a cell that may not be chosen, or None.
        labels: The attributes' names for error messages.

    Raises:
        SolverError: A score is infinite, an integer is too large, or the values are not numbers.
    """
    if scores.dtype.kind in "iub":
        return _whole(scores, allowed)
    if scores.dtype.kind != "f":
        raise SolverError(f"scores must be numbers, and these are {scores.dtype}")
    real = np.ascontiguousarray(scores, np.float32 if scores.dtype.itemsize <= 4 else np.float64)
    if allowed is not None and not allowed.all():
        real = np.where(allowed, real, np.asarray(np.nan, real.dtype))
    return _real(real, labels)


def widest(columns: int) -> int:
    """Maximum number of bits of a score: 54 for 15 columns. A path through all columns then costs less than 2**60."""
    return 59 - (columns + 1).bit_length()


def _whole(scores: NDArray[Any], allowed: NDArray[np.bool_] | None) -> FixedPoint:
    some_missing = allowed is not None and not bool(allowed.all())
    low, high = (int(scores.min()), int(scores.max())) if scores.size else (0, 0)
    bits = widest(scores.shape[1])
    if max(high, -low) >= 2**bits:
        raise SolverError(f"whole scores from {low} to {high} are too large; they may take {bits} bits")
    for kind, mark in MISSING.items():
        if (low > mark and high <= np.iinfo(kind).max) or (low == mark and not some_missing):
            break
    if scores.dtype == np.uint8 and kind == np.int8:
        scores = scores.view(np.int8)
    units = np.ascontiguousarray(scores, kind)
    if allowed is not None and some_missing:
        units = np.where(allowed, units, np.array(mark, units.dtype))
    return FixedPoint(units, 1.0, True, mark if some_missing else NOTHING_MISSING)


def _real(scores: NDArray[Any], labels: Sequence[Any] | None) -> FixedPoint:
    mantissa_bits, exponent_bits, kind = (23, 8, np.uint32) if scores.dtype == np.float32 else (52, 11, np.uint64)
    words = scores.view(kind)
    used = np.bitwise_or.reduce(
        over_blocks(len(scores), lambda begin, end: _bits_used(words[begin:end], mantissa_bits, exponent_bits))
    )
    special = used[-1]
    some_missing = bool(special & 1)
    if special & 2:
        row, column = np.argwhere(np.isinf(scores))[0]
        name = f"attribute {column + 1}" if labels is None else repr(str(labels[column]))
        raise SolverError(f"the score of row {row + 1}, {name} is infinite")
    lowest, highest = _exponents(used[:-1], mantissa_bits, exponent_bits)
    width = highest - lowest
    bits = widest(scores.shape[1])
    exact = width <= bits
    exponent = lowest if exact else highest - bits
    target = np.int32 if width < 31 else np.int64
    mark = MISSING[np.dtype(target)]
    units = np.empty(scores.shape, target)
    # Two factors, as one alone would overflow for the smallest floats.
    half = -exponent // 2
    factors = math.ldexp(1.0, half), math.ldexp(1.0, -exponent - half)
    over_blocks(len(scores), lambda begin, end: _scale(scores[begin:end], *factors, mark, units[begin:end]))
    return FixedPoint(units, math.ldexp(1.0, exponent), exact, mark if some_missing else NOTHING_MISSING)


@compiled
def _bits_used(words: NDArray[Any], mantissa_bits: int, exponent_bits: int) -> NDArray[np.uint64]:
    """For each exponent, the mantissa bits set by any score; at the end, 1 for a NaN and 2 for an infinity."""
    special = (1 << exponent_bits) - 1
    used = np.zeros(special + 1, np.uint64)
    mantissa_mask = np.uint64((1 << mantissa_bits) - 1)
    implied = np.uint64(1 << mantissa_bits)
    shift = np.uint64(mantissa_bits)
    exponent_mask = np.uint64(special)
    for row in range(words.shape[0]):
        for column in range(words.shape[1]):
            word = np.uint64(words[row, column])
            exponent = (word >> shift) & exponent_mask
            mantissa = word & mantissa_mask
            if exponent == exponent_mask:
                used[special] |= np.uint64(2) if mantissa == 0 else np.uint64(1)
            elif exponent == 0:
                used[0] |= mantissa
            else:
                used[exponent] |= mantissa | implied
    return used


def _exponents(used: NDArray[np.uint64], mantissa_bits: int, exponent_bits: int) -> tuple[int, int]:
    """The exponent of the finest bit set by any score, and one more than that of the coarsest."""
    bias = (1 << (exponent_bits - 1)) - 1 + mantissa_bits
    lowest, highest = [], []
    for exponent, bits in enumerate(used.tolist()):
        if bits:
            place = max(exponent, 1) - bias
            lowest.append(place + (bits & -bits).bit_length() - 1)
            highest.append(place + bits.bit_length())
    return (min(lowest), max(highest)) if lowest else (0, 1)


@compiled
def _scale(scores: NDArray[Any], first: float, second: float, missing: int, units: NDArray[Any]) -> None:
    for row in range(scores.shape[0]):
        for column in range(scores.shape[1]):
            score = np.float64(scores[row, column])
            units[row, column] = missing if np.isnan(score) else np.rint(score * first * second)

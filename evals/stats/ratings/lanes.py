"""Elo over several random orders of the games at once, one a lane, so that a vector of the processor holds one number of each.

In every step each lane draws its next game (Fisher and Yates, from the front), looks its two ratings up, and moves them. Drawing
and the expected scores are loops over lanes that the compiler turns into vectors; what goes through indices has loops of its own.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from evals.stats.ratings.chance import LOW, U17, U19, U23, U32, U41, U45, following, seed_state
from solver.compiled import compiled, inlined

LANES = 16

ROUNDING = 6755399441055744.0
"""1.5 * 2^52: adding it to a float and taking it away rounds to a whole number, which the lowest bits of the sum then hold."""

FURTHEST = 1000.0
"""Powers of two beyond this are taken for this one: to a float, the score expected is then 0 or 1."""

TERMS = tuple(math.log(2.0) ** power / math.factorial(power) for power in range(13))
"""Of 2^x by powers of x: for x up to 1/2 either way, what is left out is below 2e-16 of it."""
(T0, T1, T2, T3, T4, T5, T6, T7, T8, T9, T10, T11, T12) = TERMS

BIAS = np.int64(1023)
MANTISSA = np.int64(52)


@inlined
def power_of_two(exponent: float) -> float:
    """2 to any power from -1000 to 1000, to about 1e-15 of it, without a call or a branch."""
    shifted = exponent + ROUNDING
    x = exponent - (shifted - ROUNDING)
    square = x * x
    fourth = square * square
    low = (T0 + T1 * x) + (T2 + T3 * x) * square
    middle = (T4 + T5 * x) + (T6 + T7 * x) * square
    high = (T8 + T9 * x) + (T10 + T11 * x) * square
    fraction = low + (middle + (high + T12 * fourth) * fourth) * fourth
    bits = np.float64(shifted).view(np.int64)
    return fraction * np.int64((bits + BIAS) << MANTISSA).view(np.float64)


@compiled
def play(
    cells: NDArray[np.uint16] | NDArray[np.uint32],
    first: NDArray[np.uint32],
    second: NDArray[np.uint32],
    share: NDArray[np.float64],
    number: int,
    seed: np.uint64,
    begin: int,
    k: float,
    exponent: float,
    initial: float,
    ratings: NDArray[np.float64],
) -> None:
    """Play all games in the orders of ``LANES`` rounds.

    Args:
        cells: ``(N,)`` the cell of each game: games of the same two models and the same share are one cell.
        first: ``(C,)`` the first model of each cell, times ``LANES``: where its ratings lie.
        second: ``(C,)`` the second, likewise.
        share: ``(C,)`` what the first took.
        number: M, how many models there are.
        seed: Of the orders.
        begin: The number of the first round.
        k: The most points that a game moves.
        exponent: Powers of two that a point is worth in the odds.
        initial: The rating that all begin with.
        ratings: ``(LANES, M)`` becomes the ratings of each round.
    """
    count = cells.shape[0]
    # Lane by lane in each place: the next game of all lanes is then in one or two cache lines.
    order = np.empty(count * LANES, cells.dtype)
    for game in range(count):
        for lane in range(LANES):
            order[game * LANES + lane] = cells[game]
    state = np.empty(5 * LANES, np.uint64)
    for lane in range(LANES):
        seed_state(state, lane, LANES, seed, np.uint64(begin + lane))
    table = np.full(number * LANES, initial)
    work = np.empty(2 * LANES, np.float64)
    places = np.empty(2 * LANES, np.uint32)
    for game in range(count):
        draw(state, np.uint64(count - game))
        for lane in range(LANES):
            here = np.uint64(game * LANES + lane)
            there = here + state[4 * LANES + lane] * np.uint64(LANES)
            cell = order[there]
            order[there] = order[here]
            one = first[cell] + np.uint32(lane)
            other = second[cell] + np.uint32(lane)
            places[lane] = one
            places[LANES + lane] = other
            work[lane] = table[other] - table[one]
            work[LANES + lane] = share[cell]
        expect(work, k, exponent)
        for lane in range(LANES):
            table[places[lane]] += work[lane]
            table[places[LANES + lane]] -= work[lane]
    for lane in range(LANES):
        for model in range(number):
            ratings[lane, model] = table[model * LANES + lane]


@inlined
def draw(state: NDArray[np.uint64], bound: np.uint64) -> None:
    """Draw a number from 0 to ``bound - 1`` in each lane, as ``chance.below`` does. They follow the state's four words."""
    doubtful = np.uint64(0)
    for lane in range(LANES):
        one, two, three, four = state[lane], state[LANES + lane], state[2 * LANES + lane], state[3 * LANES + lane]
        total = one + four
        product = ((((total << U23) | (total >> U41)) + one) >> U32) * bound
        three ^= one
        four ^= two
        state[LANES + lane] = two ^ three
        state[lane] = one ^ four
        state[2 * LANES + lane] = three ^ (two << U17)
        state[3 * LANES + lane] = (four << U45) | (four >> U19)
        state[4 * LANES + lane] = product
        # The difference is below zero, and its highest bit set, where the product's lower half is below the bound.
        doubtful |= (product & LOW) - bound
    if doubtful >> np.uint64(63):
        for lane in range(LANES):
            draw_again(state, lane, bound)
    for lane in range(LANES):
        state[4 * LANES + lane] >>= U32


@compiled
def draw_again(state: NDArray[np.uint64], lane: int, bound: np.uint64) -> None:
    """Draw anew in a lane for as long as what it drew would favour some numbers."""
    threshold = (LOW + np.uint64(1) - bound) % bound
    while state[4 * LANES + lane] & LOW < threshold:
        state[4 * LANES + lane] = following(state, lane, LANES) * bound


@inlined
def expect(work: NDArray[np.float64], k: float, exponent: float) -> None:
    """Turn the second's lead over the first and what the first took, lane by lane, into the points the first gains."""
    for lane in range(LANES):
        lead = min(max(work[lane] * exponent, -FURTHEST), FURTHEST)
        work[lane] = k * (work[LANES + lane] - np.reciprocal(1.0 + power_of_two(lead)))

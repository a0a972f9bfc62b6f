"""The random numbers of a round: they depend on the seed and the round's number, on no other round and on no thread.

Sources: Blackman and Vigna (2021), "Scrambled linear pseudorandom number generators": xoshiro256++, seeded by splitmix64 as they
advise. Lemire (2019), "Fast random integer generation in an interval": bounded draws without bias.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from judges.errors import MagistrateError
from solver.compiled import compiled, inlined

LARGEST = 1 << 32
"""What is drawn from is below this: draws use 32 bits."""

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST_MIX = np.uint64(0xBF58476D1CE4E5B9)
SECOND_MIX = np.uint64(0x94D049BB133111EB)
LOW = np.uint64(0xFFFFFFFF)
U17, U19, U23, U27, U30, U31, U32, U41, U45 = (np.uint64(bits) for bits in (17, 19, 23, 27, 30, 31, 32, 41, 45))


def checked_seed(seed: int) -> np.uint64:
    """The seed as the kernels take it.

    Raises:
        MagistrateError: It is not a whole number from 0 to 2^64 - 1.
    """
    if not 0 <= seed < 1 << 64:
        raise MagistrateError(f"the seed {seed} is out of range; give a whole number from 0 to 2^64 - 1")
    return np.uint64(seed)


@inlined
def mixed(value: np.uint64) -> np.uint64:
    """What splitmix64 makes of a state."""
    value = (value ^ (value >> U30)) * FIRST_MIX
    value = (value ^ (value >> U27)) * SECOND_MIX
    return value ^ (value >> U31)


@compiled
def seed_state(state: NDArray[np.uint64], at: int, step: int, seed: np.uint64, number: np.uint64) -> None:
    """Seed the generator of a round, whose four words lie at ``at``, ``at + step`` and so on."""
    value = mixed(seed + GOLDEN) ^ mixed(number * GOLDEN + FIRST_MIX)
    for word in range(4):
        value += GOLDEN
        state[at + word * step] = mixed(value)


@inlined
def following(state: NDArray[np.uint64], at: int, step: int) -> np.uint64:
    """The next 32 random bits of a generator."""
    one, two, three, four = state[at], state[at + step], state[at + 2 * step], state[at + 3 * step]
    total = one + four
    result: np.uint64 = ((total << U23) | (total >> U41)) + one
    three ^= one
    four ^= two
    state[at + step] = two ^ three
    state[at] = one ^ four
    state[at + 2 * step] = three ^ (two << U17)
    state[at + 3 * step] = (four << U45) | (four >> U19)
    return result >> U32


@inlined
def below(state: NDArray[np.uint64], at: int, step: int, bound: np.uint64) -> np.uint64:
    """A number from 0 to ``bound - 1``, all equally likely."""
    product: np.uint64 = following(state, at, step) * bound
    if product & LOW < bound:
        threshold = (LOW + np.uint64(1) - bound) % bound
        while product & LOW < threshold:
            product = following(state, at, step) * bound
    return np.uint64(product >> U32)


@compiled
def shuffled(count: int, seed: np.uint64, number: np.uint64) -> NDArray[np.int64]:
    """``(count,)`` the numbers from 0 in the random order of a round: Fisher and Yates, from the front."""
    state = np.empty(4, np.uint64)
    seed_state(state, 0, 1, seed, number)
    order = np.arange(count)
    for place in range(count - 1):
        other = place + np.int64(below(state, 0, 1, np.uint64(count - place)))
        order[place], order[other] = order[other], order[place]
    return order

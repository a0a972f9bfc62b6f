"""Which rows are trained on: the paper's counts, no overlap, and a clear word where there are too few."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from finetune.data.selection import select, shares, weakest
from judges.errors import MagistrateError

NAMES = ["Food", "Leisure", "Work", "Health", "Travel", "Sport"]


def rows(count: int = 2000, seed: int = 0) -> np.ndarray:
    """Two different domains of six for each row."""
    return np.argsort(np.random.default_rng(seed).random((count, 6)), axis=1)[:, :2].astype(np.int16)


@pytest.mark.parametrize("domains", [[0], [3, 1], [5, 0, 2]])
def test_250_and_250_without_overlap(domains: list[int]) -> None:
    chosen = rows()
    found = select(chosen, domains, names=NAMES, seed=4)
    assert (len(found.base), len(found.targeted), len(found.control)) == (250, 250, 250)
    assert len(set(found.base) | set(found.targeted)) == 500
    assert len(set(found.base) | set(found.control)) == 500
    starts = np.concatenate([[0], np.cumsum(shares(250, len(domains)))])
    for domain, start, end in zip(domains, starts, starts[1:], strict=False):
        assert (chosen[found.targeted[start:end]] == domain).any(axis=1).all()


def test_what_is_left_of_a_division_goes_to_the_first() -> None:
    assert [shares(250, n) for n in (1, 2, 3)] == [[250], [125, 125], [84, 83, 83]]


@given(st.integers(0, 2**31), st.permutations(range(6)))
def test_base_and_control_are_the_same_for_all_domains_of_a_seed(seed: int, domains: list[int]) -> None:
    one, other = (select(rows(), domains[:n], names=NAMES, seed=seed) for n in (1, 3))
    assert (one.base == other.base).all()
    assert (one.control == other.control).all()


def test_another_seed_draws_others_and_the_same_one_the_same() -> None:
    first, again, other = (select(rows(), [0, 1], names=NAMES, seed=seed) for seed in (1, 1, 2))
    assert (first.targeted == again.targeted).all()
    assert set(first.targeted) != set(other.targeted)
    assert set(first.base) != set(other.base)


def test_every_row_of_a_domain_is_as_likely() -> None:
    chosen = rows(700)
    drawn = np.zeros(700)
    for seed in range(400):
        drawn[select(chosen, [0, 1], names=NAMES, base=100, added=100, seed=seed).targeted] += 1
    only = (chosen == 0).any(axis=1) & ~(chosen == 1).any(axis=1)
    expected = drawn[only].mean()
    spread = drawn[only].std()
    # Binomial, so the spread is that of chance alone.
    assert abs(spread / math.sqrt(expected * (1 - expected / 400)) - 1) < 0.15


def test_rows_of_several_domains_go_where_they_are_needed() -> None:
    # 50 rows have Food alone, 50 have Food and Leisure: 50 each can be had only if Leisure gets all that are shared.
    chosen = np.array([[0, 2]] * 50 + [[0, 1]] * 50, np.int16)
    found = select(chosen, [0, 1], names=NAMES, base=0, added=100)
    assert set(found.targeted[:50]) == set(range(50))
    assert set(found.targeted[50:]) == set(range(50, 100))


def test_too_few_rows_say_how_many_there_are() -> None:
    chosen = np.array([[0, 1]] * 30 + [[2, 3]] * 970, np.int16)
    with pytest.raises(MagistrateError, match=r"`Food` has \d+, needs 250"):
        select(chosen, [0], names=NAMES)
    with pytest.raises(MagistrateError, match=r"`Food` has 30, needs 20, `Leisure` has 30, needs 20"):
        select(chosen, [0, 1], names=NAMES, base=0, added=40)
    with pytest.raises(MagistrateError, match="250 rows and 250 more cannot be drawn from 400"):
        select(rows(400), [0], names=NAMES)
    for wrong in ([], [0, 0], [0, 1, 2, 3]):
        with pytest.raises(MagistrateError, match="from 1 to 3 domains, each once"):
            select(rows(), wrong, names=NAMES)


def test_the_weakest_domains_with_rows_enough_are_chosen() -> None:
    proficiency, counts = [0.3, 0.1, float("nan"), 0.2, 0.5, 0.15], [900, 20, 900, 900, 900, 300]
    assert weakest(proficiency, counts, 2, names=NAMES, enough=250) == [5, 3]
    assert weakest(proficiency, counts, 2, names=NAMES, enough=10) == [1, 5]
    with pytest.raises(MagistrateError, match=r"4 domains with 800 rows or more are needed, but 3 have them .*`Leisure` 20"):
        weakest(proficiency, counts, 4, names=NAMES, enough=800)

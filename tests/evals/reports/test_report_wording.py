"""How reports word figures that do not exist, and texts that go on and on."""

from __future__ import annotations

import pytest

from evals.reports.wording import OPENING, interval, opening, percents, repeats_itself, with_interval

PROSE = (
    "The customer was charged twice for the same order, and asks for one of the two payments back. The first charge is from "
    "Monday morning, the second one from Tuesday; both carry the number of the order, so that nothing needs to be looked up. "
)


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((0.1, 0.25), "0.100 to 0.250"),
        ((0.5, 0.5), "– (all are the same)"),
        ((0.5001, 0.5002), "– (less than 0.001 wide)"),
        ((None, None), "– (too few games)"),
    ],
)
def test_an_interval_that_is_none_says_why(ends: tuple[float | None, float | None], said: str) -> None:
    assert interval(*ends, why="too few games") == said


def test_a_share_has_none_either_and_a_figure_stands_without_one() -> None:
    assert percents(1.0, 1.0) == "– (all are the same)"
    assert percents(None, None) == "–"
    assert with_interval(0.5, 0.5, 0.5) == "0.500"


def test_a_text_that_repeats_itself_is_told_from_prose() -> None:
    assert repeats_itself("I 's a lot of the company . " * 40)
    assert repeats_itself("公司的" * 100)
    assert not repeats_itself(PROSE)
    assert not repeats_itself("no " * 9), "a short text may say the same twice"


def test_the_opening_of_a_long_text_ends_between_words() -> None:
    assert opening(PROSE) == PROSE, "a text hardly longer than its opening is shown whole"
    long = " ".join(f"word{number}" for number in range(400))
    assert long.startswith(opening(long).removesuffix(" …") + " ")
    assert len(opening(long)) <= OPENING + 2
    assert len(opening("of the company " * 99)) < 110, "the same again and again needs less room"

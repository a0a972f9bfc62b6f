import random
from collections.abc import Callable, Iterable, Sequence
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.agreement import Agreement, MetricAgreement, MetricTally, weakest_levels
from judges.errors import MagistrateError
from judges.judge import MeasurementLevel, Score

LEVELS: tuple[MeasurementLevel, ...] = ("nominal", "ordinal", "interval")

PAPER = """
    1 2 3 3 2 1 4 1 2 . . .
    1 2 3 3 2 2 4 1 2 5 . 3
    . 3 3 3 2 3 4 2 2 5 1 .
    1 2 3 3 2 4 4 1 2 5 1 .
"""

Units = list[list[int | None]]

units_of_scores = st.lists(st.lists(st.none() | st.integers(1, 5), min_size=1, max_size=5), min_size=1, max_size=12)


def agreement(units: Iterable[Iterable[Score]], level: MeasurementLevel, order: Sequence[str] | None = None) -> Agreement:
    counted = Agreement(level, order)
    for unit in units:
        counted.add(unit)
    return counted


def alpha(units: Iterable[Iterable[Score]], level: MeasurementLevel, order: Sequence[str] | None = None) -> float | None:
    return agreement(units, level, order).alpha


def paper_units() -> Units:
    rows = [[None if value == "." else int(value) for value in line.split()] for line in PAPER.strip().splitlines()]
    return [list(unit) for unit in zip(*rows, strict=True)]


def alpha_by_definition(units: Units, level: MeasurementLevel) -> float | None:
    """Every ordered pair within a unit against every ordered pair of all values, one by one."""
    paired = [present for unit in units if len(present := [value for value in unit if value is not None]) > 1]
    values = [value for unit in paired for value in unit]

    def difference(one: int, other: int) -> float:
        low, high = min(one, other), max(one, other)
        if level == "nominal":
            return float(low != high)
        if level == "interval":
            return float(high - low) ** 2
        between = sum(values.count(rank) for rank in range(low, high + 1))
        return (between - (values.count(low) + values.count(high)) / 2) ** 2

    expected = sum(difference(*pair) for pair in permutations(values, 2))
    if not expected:
        return None
    observed = sum(difference(*pair) / (len(unit) - 1) for unit in paired for pair in permutations(unit, 2))
    return 1 - (observed / len(values)) / (expected / len(values) / (len(values) - 1))


@pytest.mark.parametrize(("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_the_papers_example(level: MeasurementLevel, published: float) -> None:
    """Krippendorff (2011): four observers, twelve units, missing values; the last unit has one value and counts nothing."""
    counted = agreement(paper_units(), level)
    assert counted.alpha == pytest.approx(published, abs=0.0005)
    assert (counted.units, counted.values) == (11, 40)


@pytest.mark.parametrize("level", LEVELS)
@settings(deadline=None)
@given(units=units_of_scores)
def test_the_coincidences_give_what_the_definition_gives(units: Units, level: MeasurementLevel) -> None:
    by_definition = alpha_by_definition(units, level)
    assert alpha(units, level) == (None if by_definition is None else pytest.approx(by_definition, abs=1e-9))


@pytest.mark.parametrize("level", LEVELS)
@settings(deadline=None)
@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, unique=True), judges=st.integers(2, 5))
def test_perfect_agreement_is_one(values: list[float], judges: int, level: MeasurementLevel) -> None:
    assert alpha([[value] * judges for value in values], level) == 1.0


def test_two_judges_who_always_differ_agree_less_than_by_chance() -> None:
    assert alpha([["a", "b"], ["b", "a"]], "nominal") == pytest.approx(1 - 3 * 2 / 4)


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_to_compare_has_no_alpha(level: MeasurementLevel) -> None:
    assert alpha([], level) is None
    assert alpha([[1], [None, 2, None], []], level) is None
    counted = agreement([[3, 3], [3, 3, 3], [4]], level)
    assert counted.alpha is None
    assert (counted.units, counted.values) == (2, 5)


@pytest.mark.parametrize("level", LEVELS)
@settings(deadline=None)
@given(units=units_of_scores, seed=st.integers(0, 99))
def test_neither_the_order_of_members_nor_of_samples_nor_missing_values_matter(
    units: Units, seed: int, level: MeasurementLevel
) -> None:
    shuffled = [random.Random(seed).sample([*unit, None], len(unit) + 1) for unit in units]
    random.Random(seed).shuffle(shuffled)
    assert alpha(shuffled, level) == alpha(units, level)


@settings(deadline=None)
@given(units=units_of_scores, names=st.permutations(["bad", "5", "good", "", "ok"]))
def test_nominal_agreement_does_not_go_by_the_labels_names(units: Units, names: list[str]) -> None:
    renamed = [[None if value is None else names[value - 1] for value in unit] for unit in units]
    assert alpha(renamed, "nominal") == alpha(units, "nominal")


@settings(deadline=None)
@given(units=units_of_scores, steps=st.lists(st.integers(1, 1000), min_size=5, max_size=5))
def test_ordinal_agreement_goes_by_order_alone(units: Units, steps: list[int]) -> None:
    stretched = [[None if value is None else sum(steps[:value]) for value in unit] for unit in units]
    assert alpha(stretched, "ordinal") == alpha(units, "ordinal")


@settings(deadline=None)
@given(units=units_of_scores, slope=st.integers(-9, 9).filter(bool), shift=st.integers(-1000, 1000))
def test_interval_agreement_has_no_unit_and_no_zero(units: Units, slope: int, shift: int) -> None:
    moved = [[None if value is None else slope * value + shift for value in unit] for unit in units]
    plain = alpha(units, "interval")
    assert alpha(moved, "interval") == (None if plain is None else pytest.approx(plain, abs=1e-11))


@pytest.mark.parametrize("map_value", [lambda value: value * 1e300, lambda value: value * 1e-300, lambda value: value * 10**400])
def test_no_number_is_too_large_or_too_small(map_value: Callable[[int], int | float]) -> None:
    units = [[1, 2], [2, 2], [4, 3], [1, 1]]
    mapped = [[map_value(value) for value in unit] for unit in units]
    assert alpha(mapped, "interval") == pytest.approx(alpha(units, "interval"))
    assert alpha(mapped, "ordinal") == alpha(units, "ordinal")


def test_an_integer_and_a_float_of_the_same_value_are_the_same() -> None:
    assert alpha([[1, 1.0], [2.0, 2]], "nominal") == 1.0


def test_numbers_are_ordered_as_numbers() -> None:
    assert alpha([[9, 10], [2, 2], [10, 10]], "ordinal") == alpha([[2, 3], [1, 1], [3, 3]], "ordinal")


def test_labels_are_ordered_as_the_caller_says() -> None:
    labels = [["poor", "fair"], ["good", "good"], ["poor", "poor"], ["fair", "good"]]
    ranks = [[1, 2], [3, 3], [1, 1], [2, 3]]
    assert alpha(labels, "ordinal", ["poor", "fair", "good"]) == alpha(ranks, "ordinal")
    assert alpha(labels, "ordinal", ["fair", "poor", "good"]) != alpha(ranks, "ordinal")


@pytest.mark.parametrize(
    ("level", "order", "value", "words"),
    [
        ("ordinal", None, "good", "label 'good', and agreement at the ordinal level needs an order"),
        ("interval", ["good"], "good", "at the interval level needs numbers"),
        ("ordinal", ["bad", "good"], "fine", "'fine', which is not in the order of labels: bad, good"),
        ("ordinal", ["bad", "good"], 3, "is 3, which is not in the order"),
        ("nominal", None, float("nan"), "nan, and agreement needs finite"),
        ("interval", None, float("inf"), "inf, and agreement needs finite"),
    ],
)
def test_a_value_that_cannot_be_compared_is_refused_and_not_counted(
    level: MeasurementLevel, order: list[str] | None, value: Score, words: str
) -> None:
    counted = Agreement(level, order)
    with pytest.raises(MagistrateError, match=words):
        counted.add(["good" if order and level == "ordinal" else 1, value])
    assert (counted.units, counted.values) == (0, 0)


def test_an_order_names_each_label_once() -> None:
    with pytest.raises(MagistrateError, match="names one twice: a, b, a"):
        Agreement("ordinal", ["a", "b", "a"])


def test_memory_goes_with_the_distinct_values_and_not_with_the_samples() -> None:
    counted, draw = Agreement("interval"), random.Random(0)
    for _ in range(3000):
        counted.add([draw.randint(1, 5) for _ in range(5)])
    assert counted.units == 3000
    assert len(counted._disagreements) == 10
    assert counted.alpha == pytest.approx(0, abs=0.03)


def test_whether_a_metric_applies_is_an_agreement_of_its_own() -> None:
    tally = MetricTally("interval")
    units: list[list[int | None]] = [[1, 1, None], [None, None, None], [5, 5, 5], [2, None, None]]
    for unit in units:
        tally.add(unit)
    applies = [["no" if value is None else "yes" for value in unit] for unit in units]
    assert tally.agreement() == MetricAgreement("interval", 1.0, 2, alpha(applies, "nominal"))
    assert tally.agreement().applicability_alpha == pytest.approx(1 - 11 * 2 / 36)


def test_a_metric_that_always_applies_has_no_agreement_on_it() -> None:
    tally = MetricTally("nominal")
    tally.add(["a", "b"])
    tally.add(["b", "b"])
    assert tally.agreement() == MetricAgreement("nominal", 0.0, 2, None)


def test_the_weakest_level_is_the_common_one() -> None:
    members: list[dict[str, MeasurementLevel]] = [
        {"a": "interval", "b": "interval"},
        {"a": "ordinal", "c": "nominal"},
        {"c": "interval"},
    ]
    assert weakest_levels(members) == {"a": "ordinal", "b": "interval", "c": "nominal"}

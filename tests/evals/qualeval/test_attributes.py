"""Attributes: how names are merged, and what a user may give."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from evals.qualeval.affinities import Affinities, best
from evals.qualeval.attributes import Attribute, AttributeList, given, merged, read_given, words_of
from evals.qualeval.options import Options
from judges.errors import MagistrateError


def test_names_that_differ_by_spelling_alone_are_one() -> None:
    found = merged(["Food and Drink", "drink & food", "Foods, drinks", "Work", "food and drink", "Food and Drink"])
    assert [(one.name, one.mentions) for one in found] == [("Food and Drink", 5), ("Work", 1)]
    assert found[0].spellings == {"Food and Drink": 2, "drink & food": 1, "Foods, drinks": 1, "food and drink": 1}


@pytest.mark.parametrize(
    ("one", "other"),
    [("Sorting", "Searching"), ("Class", "Clas"), ("Analysis", "Analyst"), ("C", "C++ programs"), ("数学", "文学")],
)
def test_names_that_mean_something_else_stay_apart(one: str, other: str) -> None:
    assert len(merged([one, other])) == 2


def test_the_most_named_come_first_and_equals_in_their_order() -> None:
    assert [one.name for one in merged(["b", "a", "c", "c"])] == ["c", "b", "a"]


@examples(st.lists(st.text()))
def test_no_mention_is_lost_but_of_names_that_say_nothing(names: list[str]) -> None:
    found = merged(names)
    assert sum(one.mentions for one in found) == sum(bool(words_of(" ".join(name.split()))) for name in names)
    assert len({words_of(one.name) for one in found}) == len(found)
    assert all(sum(one.spellings.values()) == one.mentions for one in found)


@pytest.mark.parametrize("kept", ["of the", "!!!", "a"])
def test_a_name_of_little_words_alone_is_still_one(kept: str) -> None:
    assert len(merged([kept])) == 1


def test_a_list_of_ones_own_is_taken_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(
        json.dumps(
            {
                "domain": ['Say "hi" 👋', "x" * 500],
                "subtask": {"attributes": [{"name": "One", "mentions": 3, "explanation": "The first."}, {"name": "Two"}]},
            }
        )
    )
    found = read_given(path)
    assert found["domain"].names == ['Say "hi" 👋', "x" * 500]
    assert found["domain"].explanations == []
    assert (found["subtask"].names, found["subtask"].frozen) == (["One", "Two"], True)
    assert found["subtask"].explanations == ["The first.", ""]
    path.write_text(r'{"domain": ["half \ud800 a pair"]}')
    assert read_given(path)["domain"].names == ["half \ufffd a pair"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], "is empty"),
        (["a", "a"], "given twice"),
        (["Work", "work "], "`work ` is given twice, first as `Work`"),
        ([str(number) for number in range(121)], "there are 121 domains, and there may be 120"),
        ([" "], "domain 1 must be"),
        (["a", "b\nc"], "domain 2 must be"),
        (["x" * 501], "1 to 500"),
    ],
)
def test_a_list_that_will_not_do_is_refused(names: list[str], told: str) -> None:
    with pytest.raises(MagistrateError, match=told):
        given("domain", names)


NOT_A_TEXT = '{"domain": {"attributes": [{"name": "a", "explanation": 1}]}}'
TWO_LINES = '{"domain": {"attributes": [{"name": "a", "explanation": "one\\ntwo"}]}}'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [(NOT_A_TEXT, "each `explanation` of a domain must be a text"), (TWO_LINES, "explanation of domain 1 must be one line")],
)
def test_an_explanation_that_will_not_do_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(MagistrateError, match=complaint):
        read_given(path)


@pytest.mark.parametrize(("frozen", "kept"), [(False, 10), (True, 15)])
def test_the_ten_of_highest_mean_affinity_are_kept_of_those_that_were_found(frozen: bool, kept: int) -> None:
    """The authors' dashboard keeps the first ten of the means over the ground truth, highest first."""
    chance = np.random.default_rng(0)
    names = [f"a{number}" for number in range(15)]
    scores = chance.integers(1, 6, (40, 15)).astype(np.float32)
    scores[3] = np.nan
    truth, answers = (Affinities(of, scores + shift, scores, {}, lambda wanted: {}) for of, shift in (("truth", 0), ("m", 1)))
    found = AttributeList("subtask", [Attribute(name) for name in names], frozen=frozen)
    means = np.nanmean(scores, axis=0)
    highest = sorted(sorted(range(15), key=lambda number: -means[number])[:kept])
    left, rated = best(found, [truth, answers], Options())
    assert left.names == [names[number] for number in highest]
    for affinities, shift in zip(rated, (0, 1), strict=True):
        np.testing.assert_array_equal(affinities.scores, scores[:, highest] + shift)
    assert {name for name, _ in left.cut} == set(names) - set(left.names)
    assert [mean for _, mean in left.cut] == sorted((mean for _, mean in left.cut), reverse=True)


@pytest.mark.parametrize("text", ["[]", "{", '{"topics": []}', '{"domain": [1]}', '{"domain": {"attributes": [{"nam": 1}]}}'])
def test_a_file_that_is_no_list_of_attributes_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(MagistrateError, match=r"mine\.json"):
        read_given(path)

"""Attributes: how names are merged, and what a user may give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from evals.qualeval.attributes import given, merged, read_given, words_of
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
        json.dumps({"domain": ['Say "hi" 👋', "x" * 500], "subtask": {"attributes": [{"name": "One", "mentions": 3}]}})
    )
    found = read_given(path)
    assert found["domain"].names == ['Say "hi" 👋', "x" * 500]
    assert (found["subtask"].names, found["subtask"].frozen) == (["One"], True)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], "is empty"),
        (["a", "a"], "given twice"),
        ([" "], "domain 1 must be"),
        (["a", "b\nc"], "domain 2 must be"),
        (["x" * 501], "1 to 500"),
    ],
)
def test_a_list_that_will_not_do_is_refused(names: list[str], told: str) -> None:
    with pytest.raises(MagistrateError, match=told):
        given("domain", names)


@pytest.mark.parametrize("text", ["[]", "{", '{"topics": []}', '{"domain": [1]}', '{"domain": {"attributes": [{"nam": 1}]}}'])
def test_a_file_that_is_no_list_of_attributes_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(MagistrateError, match=r"mine\.json"):
        read_given(path)

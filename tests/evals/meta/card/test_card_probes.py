"""What is done to answers: that edits keep the words, padding adds none that is new, and citations follow their references."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.meta.card.probes import AGAIN, EDITS, NOTHING, from_elsewhere, padded
from judges.grouse import renumbered

WORDS = re.compile(r"\w+")


@given(st.text(max_size=200))
def test_edits_leave_every_word_as_it_is(text: str) -> None:
    for edit in EDITS.values():
        assert WORDS.findall(edit(text)) == WORDS.findall(text)


@pytest.mark.parametrize(
    ("title", "text", "edited"),
    [
        ("spaces doubled, a line's end behind", "a b.", "a  b.\n"),
        ("the other kind of quotes", 'It\'s "so".', "It’s “so”."),
        ("the other kind of quotes", "It’s “so”.", 'It\'s "so".'),
        ("in bold", "Yes. ", "**Yes.**"),
        ("as an item of a list", "Yes.", "- Yes."),
    ],
)
def test_an_edit_by_example(title: str, text: str, edited: str) -> None:
    assert EDITS[title](text) == edited


def test_padding_is_the_last_sentence_once_more() -> None:
    assert padded("It is far. Take the bus!") == f"It is far. Take the bus! {AGAIN} Take the bus!"
    assert padded("Ok") == f"Ok {AGAIN} Ok"
    assert padded("很远。坐公交车。") == f"很远。坐公交车。 {AGAIN} 坐公交车。"
    assert padded("...") == f"... {AGAIN} ..."


@given(st.text(max_size=200).filter(str.strip))
def test_padding_adds_no_word_that_is_not_there(text: str) -> None:
    longer = padded(text)
    assert longer.startswith(text.rstrip())
    assert set(WORDS.findall(longer)) <= set(WORDS.findall(text)) | set(WORDS.findall(AGAIN))


def test_citations_follow_their_references_and_others_stay() -> None:
    assert renumbered("So [1], and so [2][3]; see [4], [0] and [x].", 3) == "So [3], and so [2][1]; see [4], [0] and [x]."
    assert renumbered("See [1, 2], [2;3 , 1] and [1, 9].", 3) == "See [3, 2], [2;1 , 3] and [3, 9]."
    huge = f"[{'9' * 5_000}] [1, {'9' * 5_000}]"
    assert renumbered(huge, 3) == huge, "a number of thousands of digits is no reference"


@given(st.lists(st.integers(0, 12)), st.integers(1, 10))
def test_turning_references_twice_changes_nothing(numbers: list[int], count: int) -> None:
    text = " ".join(f"[{number}]" for number in numbers) + f" {numbers}"
    assert renumbered(renumbered(text, count), count) == text


def test_an_answer_from_elsewhere_is_of_another_question() -> None:
    found = from_elsewhere(["p", "p", "q", None, "r"], ["a", "b", "a", "c", None])
    assert found == [None, "a", "b", None, "a"], "a sample takes the next answer that is not its own to another question"
    assert from_elsewhere(["p", "p"], ["a", "b"]) == [None, None]
    assert from_elsewhere([], []) == []


TEXTS = st.one_of(st.none(), st.sampled_from("pqr"))


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=12))
def test_an_answer_from_elsewhere_is_the_next_one_that_is_apart(pairs: list[tuple[str | None, str | None]]) -> None:
    questions, answers = [one for one, _ in pairs], [other for _, other in pairs]
    for place, (found, (question, answer)) in enumerate(zip(from_elsewhere(questions, answers), pairs, strict=True)):
        following = [pairs[(place + step) % len(pairs)] for step in range(1, len(pairs))]
        apart = [there for asked, there in following if there not in (None, answer) and asked not in (None, question)]
        assert found == (apart[0] if apart and question is not None and alike_in_neither(pairs) else None)


def alike_in_neither(pairs: list[tuple[str | None, str | None]]) -> bool:
    usable = [pair for pair in pairs if None not in pair]
    return all(len({pair[side] for pair in usable}) > 1 for side in (0, 1))


def test_two_questions_in_blocks_are_gone_through_once() -> None:
    questions = [Compared("p" if place < 500 else "q") for place in range(1_000)]
    answers = [Compared(f"a {place}") for place in range(1_000)]
    Compared.times = 0
    assert from_elsewhere(questions, answers) == [answers[500]] * 500 + [answers[0]] * 500
    assert Compared.times < 20 * 1_000


class Compared(str):
    """A text that counts how often it is compared."""

    times = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return super().__eq__(other)


@pytest.mark.parametrize(("question", "answer"), [("p", "a {}"), ("p {}", "a")])
def test_where_all_ask_or_answer_the_same_not_all_are_compared_with_all(question: str, answer: str) -> None:
    questions = [Compared(question.format(place)) for place in range(500)]
    answers = [Compared(answer.format(place)) for place in range(500)]
    Compared.times = 0
    assert from_elsewhere(questions, answers) == [None] * 500
    assert Compared.times < 5_000


def test_answers_that_say_nothing_are_none_of_a_sample() -> None:
    assert not WORDS.search(NOTHING["punctuation"])
    assert len(set(WORDS.findall(NOTHING["one word"]))) == 1

import random
from difflib import SequenceMatcher
from statistics import mean

import pytest

from scripts.judge_data.damage import apply, break_grammar, exchange, fact_edits, sentences

TEXT = "Amanda baked 12 cookies on Friday and will bring some to Jerry. Jerry likes them because they are good."


def test_grammar_is_the_more_broken_the_lower_the_level() -> None:
    rng = random.Random(0)
    words = TEXT.split()

    def likeness(level: int) -> float:
        return mean(SequenceMatcher(None, words, break_grammar(TEXT, level, rng).split()).ratio() for _ in range(200))

    by_level = [likeness(level) for level in range(5)]
    assert by_level == sorted(by_level)
    assert by_level[0] < 0.5 < 0.9 < by_level[4]


@pytest.mark.parametrize("level", range(5))
@pytest.mark.parametrize("text", ["Ok.", "Yes, sure.", TEXT])
def test_grammar_is_never_left_whole(text: str, level: int) -> None:
    assert all(break_grammar(text, level, random.Random(seed)) != text for seed in range(50))


def test_a_changed_fact_is_another_of_its_kind() -> None:
    changed = {apply(TEXT, [edit]) for seed in range(60) for edit in fact_edits(TEXT, (), random.Random(seed))}
    assert TEXT not in changed
    assert any("Sunday" in text for text in changed)
    assert any("won't bring" in text for text in changed)
    assert any("dislikes them" in text for text in changed)


def test_a_tag_holds_no_number_to_change() -> None:
    assert fact_edits("#Person1# met #Person2#.", (), random.Random(0)) == []


def test_a_sentence_says_the_contrary_once() -> None:
    for seed in range(30):
        edits = fact_edits("It is always cheap.", (), random.Random(seed))
        assert len(edits) == 1, edits


def test_who_does_what_is_turned_round_unless_both_do() -> None:
    names = ("Ann", "Ben")
    assert [edit.text for edit in fact_edits("Ann visits Ben.", names, random.Random(0))] == ["Ben visits Ann."]
    assert fact_edits("Ann and Ben met.", names, random.Random(0)) == []
    assert exchange("Ann's boss met Anna and Ben.", "Ann", "Ben") == "Ben's boss met Anna and Ann."


def test_sentences_do_not_end_at_a_title() -> None:
    assert sentences("Mr. Smith left. Dr. Jones stayed!") == ["Mr. Smith left.", "Dr. Jones stayed!"]

import math
import re

import pytest
from pydantic import BaseModel

from judges.engines.engine import Token, alternatives_of
from judges.expected import AnswerTokens, Expectation, Spread, alternatives_wanted
from judges.form import AnswerSchema
from judges.judge import Label, NumericScore

ANSWER = '{"a": 3}'
JSON = AnswerSchema(BaseModel, 8)
FIVE = NumericScore("a", ("a",), (0, 1, 2, 3, 4, 5))
TEN = NumericScore("a", ("a",), tuple(range(11)))


def expected_scores(
    answer: str, spelt: list[Token] | None, scores: list[NumericScore]
) -> tuple[dict[str, Expectation | None], list[str]]:
    """What the first digits alone tell."""
    found = {score.metric: AnswerTokens(answer, spelt, JSON).spread(score) for score in scores}
    outcomes = {metric: spread if isinstance(spread, str) else spread.expectation() for metric, spread in found.items()}
    expected = {metric: None if isinstance(outcome, str) else outcome for metric, outcome in outcomes.items()}
    return expected, [outcome for outcome in outcomes.values() if isinstance(outcome, str)]


def spread_of(answer: str, spelt: list[Token] | None, part: NumericScore | Label) -> Spread:
    spread = AnswerTokens(answer, spelt, JSON).spread(part)
    assert isinstance(spread, Spread)
    return spread


def label_probabilities(answer: str, spelt: list[Token] | None, label: Label) -> dict[str, float] | str:
    spread = AnswerTokens(answer, spelt, JSON).spread(label)
    return spread if isinstance(spread, str) else spread.probabilities()


def logs(**masses: float) -> dict[str, float]:
    return {text.replace("_", " "): math.log(mass) for text, mass in masses.items()}


def tokens(at_score: dict[str, float], score: str = "3", lead: str = "") -> list[Token]:
    before = '{"a": ' if not lead else '{"a":'
    return [Token(before, {before: 0.0}), Token(lead + score, at_score), Token("}", {"}": 0.0}), Token("<|eot_id|>", {})]


def test_the_expectation_is_renormalised_over_the_legal_scores() -> None:
    found, notes = expected_scores(ANSWER, tokens({"3": math.log(0.3), "5": math.log(0.1), "x": math.log(0.6)}), [FIVE])
    assert found["a"]
    assert found["a"].expectation == pytest.approx(0.75 * 3 + 0.25 * 5)
    assert found["a"].entropy == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)), abs=1e-6)
    assert notes == []


def test_a_space_or_a_comma_in_the_token_does_not_matter() -> None:
    at_score = {" 3": math.log(0.5), " 4": math.log(0.25), " 4,": math.log(0.25)}
    found, _ = expected_scores(ANSWER, tokens(at_score, lead=" "), [FIVE])
    assert found["a"]
    assert found["a"].expectation == pytest.approx(3.5)


def test_a_certain_score_has_no_entropy() -> None:
    found, _ = expected_scores(ANSWER, tokens({"3": 0.0}), [FIVE])
    assert found["a"]
    assert (found["a"].expectation, found["a"].entropy) == (3.0, 0.0)


def test_probability_on_half_a_score_is_not_guessed_away() -> None:
    """Where 10 is legal the token 1 may become it, so what it weighs is not known."""
    found, notes = expected_scores(ANSWER, tokens({"3": math.log(0.6), "1": math.log(0.4)}), [TEN])
    assert found == {"a": None}
    assert "40%" in notes[0]
    found, notes = expected_scores(ANSWER, tokens({"3": math.log(0.995), "1": math.log(0.005)}), [TEN])
    assert found["a"]
    assert found["a"].expectation == pytest.approx(3.0)


def test_a_pattern_of_digits_escapes_no_space() -> None:
    """xgrammar warns of an escaped space on the terminal, once a follow-up."""
    spelt = [Token('{"a": ', {}), Token("1", logs(**{"1": 1.0})), Token(', "b": 2}', {})]
    spread = spread_of('{"a": 1, "b": 2}', spelt, NumericScore("a", ("a",), tuple(range(101))))
    pattern = spread.pattern("1")
    assert " " in spread.after
    assert re.fullmatch(pattern, f"00{spread.after}")
    assert r"\ " not in pattern


def test_the_digits_of_a_score_are_told_one_by_one() -> None:
    """Of 0 to 100: 1 (0.1), 10 (0.2), 12 (0.1), 100 (0.2), 57 (0.4), in a vocabulary that splits some numbers into digits."""
    spelt = [Token('{"a": ', {}), Token("5", logs(**{"1": 0.5, "12": 0.1, "5": 0.4})), Token("7", {"7": 0.0}), Token("}", {})]
    spread = spread_of('{"a": 57}', spelt, NumericScore("a", ("a",), tuple(range(101))))
    assert "90% of the probability is on beginnings of several scores" in str(spread.expectation())
    assert spread.unfinished == ["1", "5"]
    assert re.fullmatch(spread.pattern("1"), "00}")
    assert not re.fullmatch(spread.pattern("5"), "00}")
    spread.add(logs(**{"0": 4 / 5, "}": 1 / 5}), "1")
    spread.add(logs(**{"7": 1.0}), "5")
    assert spread.unfinished == ["10"]
    spread.add(logs(**{"0": 0.5, "}": 0.5}), "10")
    outcome = spread.expectation()
    assert isinstance(outcome, Expectation)
    assert outcome.expectation == pytest.approx(0.1 * 1 + 0.2 * 10 + 0.1 * 12 + 0.2 * 100 + 0.4 * 57)
    assert outcome.entropy == pytest.approx(-sum(p * math.log(p) for p in (0.1, 0.2, 0.1, 0.2, 0.4)), abs=1e-6)


def test_a_token_without_text_is_no_digit() -> None:
    """A server may report a special token, or a part of a character, as an empty text: it says nothing of the score."""
    spelt = [Token('{"a": ', {}), Token("3", logs(**{"3": 0.9, "1": 0.08, "": 0.02})), Token("}", {})]
    spread = spread_of(ANSWER, spelt, TEN)
    spread.add(logs(**{"": 0.5, "0": 0.25, "00": 0.125, "}": 0.125}), "1")
    assert spread.unfinished == []
    assert spread.masses == pytest.approx({"3": 0.9, "10": 0.02, "1": 0.01})
    assert spread.lost == pytest.approx(0.06)


def test_a_token_may_hold_what_follows_a_score() -> None:
    spelt = [Token('{"a": ', {}), Token("3", logs(**{"3": 0.5, '4, "': 0.5})), Token(', "', {}), Token('b": "x"}', {})]
    (found,) = expected_scores('{"a": 3, "b": "x"}', spelt, [FIVE])[0].values()
    assert found
    assert found.expectation == 3.5
    assert spread_of('{"a": 3, "b": "x"}', spelt, FIVE).after == ', "b": "'


def test_unseen_probability_is_not_guessed_away() -> None:
    found, notes = expected_scores(ANSWER, tokens({"3": math.log(0.5), "4": math.log(0.3)}), [FIVE])
    assert found == {"a": None}
    assert "20%" in notes[0]


def test_unlisted_probability_is_not_guessed_away() -> None:
    at_score = {str(score): math.log(0.1) for score in range(6)}
    found, notes = expected_scores(ANSWER, tokens(at_score), [FIVE])
    assert found == {"a": None}
    assert "40%" in notes[0]


@pytest.mark.parametrize(
    ("given", "why"),
    [(None, "gives no log-probabilities"), ([Token("x", {})], "do not spell the answer"), (tokens({}), "no legal score")],
)
def test_what_is_missing_is_said(given: list[Token] | None, why: str) -> None:
    found, notes = expected_scores(ANSWER, given, [FIVE])
    assert found == {"a": None}
    assert why in notes[0]


def test_every_legal_score_can_be_seen() -> None:
    assert alternatives_wanted([FIVE]) == 14, "each score with a space and without, and the space itself"
    assert 101 < alternatives_wanted([NumericScore("a", ("a",), tuple(range(101)))]) <= 128
    assert alternatives_wanted([]) == 0


LABEL = Label(("choice",), ("A", "both", "B", "neither"))
CHOSEN = '{"choice": "A"}'


def choice_tokens(at_label: dict[str, float], lead: str = ' "') -> list[Token]:
    return [Token('{"choice":', {}), Token(lead, {}), Token("A", at_label), Token('"}', {}), Token("<end>", {})]


def test_a_labels_probabilities_are_those_of_how_its_words_begin() -> None:
    at_label = {"A": math.log(0.5), "both": math.log(0.2), "ne": math.log(0.2), "B": math.log(0.1)}
    assert label_probabilities(CHOSEN, choice_tokens(at_label), LABEL) == {"A": 0.5, "both": 0.2, "B": 0.1, "neither": 0.2}


def test_a_token_may_hold_the_quotes_too() -> None:
    tokens = [Token('{"choice":', {}), Token(' "A', {' "A': math.log(0.75), ' "b': math.log(0.25)}), Token('"}', {})]
    assert label_probabilities(CHOSEN, tokens, LABEL) == {"A": 0.75, "both": 0.25, "B": 0.0, "neither": 0.0}
    closed = {'A"': math.log(0.5), 'B"}': math.log(0.25), "A": math.log(0.25)}
    tokens = [Token('{"choice": "', {}), Token('A"', closed), Token("}", {})]
    assert label_probabilities(CHOSEN, tokens, LABEL) == {"A": 0.75, "both": 0.0, "B": 0.25, "neither": 0.0}


def test_words_that_are_no_label_count_for_nothing() -> None:
    at_label = {"A": math.log(0.3), "x": math.log(0.6), "Both": math.log(0.1)}
    assert label_probabilities(CHOSEN, choice_tokens(at_label), LABEL) == {"A": 1.0, "both": 0.0, "B": 0.0, "neither": 0.0}


def test_a_value_at_the_end_of_an_answer_may_be_followed_by_a_token_without_text() -> None:
    spread = Spread(tuple(range(1, 11)), "[SCORE] ", "")
    spread.add(logs(**{"1": 0.5, "7": 0.5}))
    spread.add(logs(**{"": 0.6, "0": 0.4}), "1")
    assert spread.masses == pytest.approx({"7": 0.5, "1": 0.3, "10": 0.2})
    assert spread.lost == pytest.approx(0.0)


def test_without_certainty_there_are_no_probabilities_and_a_reason() -> None:
    unseen = label_probabilities(CHOSEN, choice_tokens({"A": math.log(0.6)}), LABEL)
    assert unseen == "40% of the probability is on beginnings of several labels, or unseen"
    alike = Label(("choice",), ("A", "Also"))
    shared = label_probabilities(CHOSEN, choice_tokens({"A": math.log(0.9), "Al": math.log(0.1)}), alike)
    assert shared == "90% of the probability is on beginnings of several labels, and this engine cannot say what follows"
    empty = label_probabilities(CHOSEN, choice_tokens({"": 0.0}), LABEL)
    assert empty == "no legal label is among the likeliest tokens"
    assert label_probabilities(CHOSEN, None, LABEL) == "the engine gives no log-probabilities"
    assert label_probabilities("{}", choice_tokens({"A": 0.0}), LABEL) == "the answer has no label"
    assert label_probabilities(CHOSEN, [Token("{", {})], LABEL) == "the tokens do not spell the answer"


def test_probabilities_of_tokens_with_one_text_are_added() -> None:
    """Gemma 3 spells 5 by a token of its own and by its byte."""
    added = alternatives_of([("5", math.log(0.25)), ("4", math.log(0.5)), ("5", math.log(0.125)), ("6", float("-inf"))])
    assert {text: math.exp(logprob) for text, logprob in added.items()} == pytest.approx({"5": 0.375, "4": 0.5})

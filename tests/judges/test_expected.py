import math

import pytest

from judges.engines.engine import Token
from judges.expected import alternatives_wanted, expected_scores
from judges.judge import NumericScore

ANSWER = '{"a": 3}'
FIVE = NumericScore("a", ("a",), (0, 1, 2, 3, 4, 5))
TEN = NumericScore("a", ("a",), tuple(range(11)))


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


def test_a_score_of_two_tokens_has_no_expectation() -> None:
    spelt = [Token('{"a": ', {}), Token("1", {"1": 0.0}), Token("0", {"0": 0.0}), Token("}", {})]
    found, notes = expected_scores('{"a": 10}', spelt, [TEN])
    assert found == {"a": None}
    assert notes == ["no expected a: the score is spelt with more than one token"]


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

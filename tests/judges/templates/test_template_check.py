"""Faults of template files have their lines."""

from pathlib import Path

import pytest

from judges.templates.shipped import check_template, is_template
from tests.judges.templates.own import LABELS, RATING, SCORES


def problems(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "own.toml"
    file.write_text(text)
    assert is_template(file)
    return [f"{problem.line}: {problem.message}" for problem in check_template(file)]


@pytest.mark.parametrize("text", [RATING, LABELS, SCORES])
def test_the_tests_own_templates_are_valid(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "old", "new", "found"),
    [
        (RATING, 'score = "score"', 'score = "points"', ["6: score: `points` is not a part of the answer"]),
        (RATING, 'score = "1-3"', 'score = "text"', ["6: score: `score` is text; a score has a range or a list of labels"]),
        (RATING, 'score = "1-3"', 'score = "3-1"', ["28: answer.parts.score: the range `3-1` must go from a lower number to"]),
        (
            RATING,
            "{feedback} [RESULT] {score}",
            "{feedback}{score}",
            ["27: answer.pattern: needs words between"],
        ),
        (
            RATING,
            "[RESULT] {score}",
            "[RESULT] {points}",
            ["27: answer.pattern: has the part `points`, which `parts` does not", "28: answer.parts.score: does not occur"],
        ),
        (
            RATING,
            "[[prompt]]\nsystem",
            '[[prompt]]\nwhen = ["x"]\nsystem',
            ["23: prompt.2.when: leaves samples without a prompt"],
        ),
        (RATING, "[texts]", '[texts]\nx = { python = "X" }', ["10: texts.x: needs a `[[source]]`"]),
        (RATING, "user = ", "users = ", ["20: prompt.1.users: is not a key of a template file; did you mean `user`?"]),
        (LABELS, 'tie = "Tie"', "", ["15: compare: does not say what `Tie` of `choice` means"]),
        (
            LABELS,
            'first = "Response 1"',
            'first = "A"',
            ["15: compare: `A` is not a label of `choice`", "15: compare: does not say what `Response 1` of `choice` means"],
        ),
        (RATING, "It says: {said}", "It says: {ask}", ["17: prompt.1: fills text `ask` with itself: ask → ask"]),
        (RATING, "{feedback} [RESULT]", "{feedback}" + "x" * 65, ["27: answer.pattern: has 66 characters behind `feedback`"]),
        (RATING, "{said}", "{said", ["10: texts.ask: has a brace that is part of no `{name}`"]),
        (RATING, 'when = ["reference_answer"]', 'when = ["foo"]', ["18: prompt.1.when: names `foo`, which no prompt shows"]),
        (
            RATING,
            'user = "{ask}"',
            'user = "{ask} {reference_answer}"',
            ["22: prompt.2: shows `reference_answer` in its words"],
        ),
        (
            RATING,
            'justification = "feedback"',
            'justification = "score"',
            ["7: justification: `score` is a score; reasons"],
        ),
        (RATING, "{criterion.3}", "{criterion.9}", ["values: `criterion.9` is no level of `score`, which has 1, 2, 3"]),
        (
            RATING,
            '{ text = "[{criterion}]',
            '{ each_level = "[{criterion}]',
            ["11: texts.rubric: has the place `criterion`; a"],
        ),
        (RATING, " [RESULT] {score}", " {score}", ["27: answer.pattern: has white space alone behind `feedback`"]),
        (LABELS, "2: {answer_b}", "2: none", ["prompt: must show `{answer_a}` and `{answer_b}`"]),
        (
            LABELS,
            '"Response 1", "Response 2", "Tie"]',
            f'"Response 1", "Response 2", "Tie", "{"x" * 201}"]',
            ["has a label of more"],
        ),
        (SCORES, 'second = "second"', 'second = "first"', ["16: compare: names one thing twice"]),
        (SCORES, "why = ", "score_a = ", ["answer.parts.score_a: has the name of a metric of a judge of pairs"]),
        (SCORES, 'second = "second"', 'second = "why"', ["18: compare.second: `why` is not a part with a range"]),
        (SCORES, "plain = ", 'user = "x"\nplain = ', ["10: prompt.1.plain: is the whole prompt"]),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, text: str, old: str, new: str, found: list[str]) -> None:
    assert old in text
    told = problems(tmp_path, text.replace(old, new))
    for sentence in found:
        assert any(sentence in line for line in told), told


def doubling(texts: int) -> str:
    """A template each of whose texts shows the next one twice: 2 to the power of their number of places."""
    rows = "".join(f't{number} = {{ text = "{{t{number + 1}}}{{t{number + 1}}}" }}\n' for number in range(texts))
    last = f't{texts} = {{ text = "{{question}}" }}'
    return RATING.replace("[texts]", f"[texts]\n{rows}{last}").replace('"{ask}"', '"{t0}"')


@pytest.mark.parametrize(("texts", "found"), [(12, "places of values; it may have 200"), (40, "nests texts more than 16 deep")])
def test_texts_that_multiply_are_refused_at_once(tmp_path: Path, texts: int, found: str) -> None:
    told = problems(tmp_path, doubling(texts))
    assert any(found in line for line in told), told

import re
from pathlib import Path
from typing import Any

import pytest

from judges.errors import AnswerError, MagistrateError, SampleError
from judges.pairwise import Pairwise
from judges.prompt_files import prompt_file

GUIDE = ("A is better than B.", "A and B are equally good.", "A is worse than B.", "Neither A nor B is good.")
"""The four choices of OpenCompass' guide, in its order."""

PAIR = {"question": "Why is the sky blue?", "answer_a": "Rayleigh.", "answer_b": "It is not."}


def prompts(judge: Pairwise, sample: dict[str, Any]) -> list[str]:
    return [prompt.messages[0].content for prompt in judge.render(sample).prompts]


def test_the_four_choices_are_the_guides() -> None:
    choices = re.findall(r'^"(A|both|B|neither)" - (.*)$', prompt_file("pairwise")["instructions_en"], re.MULTILINE)
    assert tuple(words for _, words in choices) == GUIDE
    assert [name for name, _ in choices] == ["A", "both", "B", "neither"]


def test_the_two_orders_differ_in_the_answers_only() -> None:
    first, second = prompts(Pairwise(), PAIR)
    assert first.endswith("[Question]\nWhy is the sky blue?\n\n[Answer of A]\nRayleigh.\n\n[Answer of B]\nIt is not.")
    assert second.endswith("[Question]\nWhy is the sky blue?\n\n[Answer of A]\nIt is not.\n\n[Answer of B]\nRayleigh.")
    assert first.split("[Answer of A]")[0] == second.split("[Answer of A]")[0]
    assert prompts(Pairwise(orders="given"), PAIR) == [first]


def test_a_reference_and_guidance_stand_before_the_answers_where_there_are_any() -> None:
    with_both = prompts(Pairwise(), PAIR | {"reference_answer": "Scattering.", "evaluating_guidance": "Be strict."})[0]
    assert "\n\n[Reference answer]\nScattering.\n\n[Evaluating guidance]\nBe strict.\n\n[Answer of A]" in with_both
    assert prompts(Pairwise(), PAIR | {"reference_answer": "", "evaluating_guidance": None}) == prompts(Pairwise(), PAIR)


def test_questions_of_several_turns() -> None:
    sample = {"question": ["One?", "Two?"], "answer_a": ["a1", "a2"], "answer_b": "only the last"}
    (text, _) = prompts(Pairwise(), sample)
    assert "[Question]\nTurn 1: One?\nTurn 2: Two?\n" in text
    assert "[Answer of A]\nTurn 1: a1\nTurn 2: a2\n\n[Answer of B]\nonly the last" in text
    with pytest.raises(SampleError, match="field `answer_a` has 3 turns, and the question has 2"):
        Pairwise().render(sample | {"answer_a": ["1", "2", "3"]})
    with pytest.raises(SampleError, match="field `answer_b` has 1 turn, and the question has 2"):
        Pairwise().render(sample | {"answer_b": ["the first alone"]})


def test_the_prompt_is_english_or_chinese() -> None:
    chinese = PAIR | {"question": "谁是蝙蝠侠 (Batman)？他住在哪个城市里面"}
    assert "【问题】\n谁是蝙蝠侠" in prompts(Pairwise(language="zh"), chinese)[0]
    assert prompts(Pairwise(language="auto"), chinese) == prompts(Pairwise(language="zh"), chinese)
    assert prompts(Pairwise(language="auto"), PAIR) == prompts(Pairwise(language="en"), PAIR)
    assert "第1轮：" in prompts(Pairwise(language="zh"), {"question": ["一", "二"], "answer_a": "x", "answer_b": "y"})[0]
    english = prompt_file("pairwise")
    assert {key.removesuffix("_en") for key in english if key.endswith("_en")} == {
        key.removesuffix("_zh") for key in english if key.endswith("_zh")
    }


def answer(choice: str) -> str:
    return f'{{"reasoning": "because {choice}", "choice": "{choice}"}}'


@pytest.mark.parametrize(
    ("first", "second", "preference", "agree"),
    [
        ("A", "B", "A", 1),
        ("B", "A", "B", 1),
        ("both", "both", "both", 1),
        ("neither", "neither", "neither", 1),
        ("A", "A", "tie", 0),
        ("B", "B", "tie", 0),
        ("A", "both", "tie", 0),
        ("both", "neither", "tie", 0),
    ],
)
def test_a_choice_counts_where_both_orders_make_it(first: str, second: str, preference: str, agree: int) -> None:
    reading = Pairwise().read(answer(first), answer(second))
    assert reading.scores == {"preference": preference, "orders_agree": agree}
    told = {"A": "B", "B": "A"}.get(second, second)
    assert reading.detail == {"choices": [first, told]}
    assert reading.justification == f"A first: because {first}\nB first: because {second}"
    assert reading.notes == ([] if agree else [f"the orders disagree: {first} with A first, {told} with B first; counted as tie"])


def test_what_a_disagreement_counts_as_is_a_stated_rule() -> None:
    assert Pairwise(disagreement="given").read(answer("A"), answer("A")).scores == {"preference": "A", "orders_agree": 0}
    with pytest.raises(AnswerError, match="the orders disagree: A with A first, B with B first"):
        Pairwise(disagreement="unscored").read(answer("A"), answer("A"))


def test_one_order_has_nothing_to_agree_with() -> None:
    judge = Pairwise(orders="given", reasoning=False)
    assert judge.read('{"choice": "neither"}').scores == {"preference": "neither"}
    assert judge.read('{"choice": "neither"}').justification is None
    assert list(judge.levels) == ["preference"]
    assert '{"reasoning"' not in prompts(judge, PAIR)[0]


def test_tags_of_the_prompt_in_an_answer_are_noted() -> None:
    notes = Pairwise().render(PAIR | {"answer_b": "x\n[Answer of A]\nbad"}).notes
    assert notes == ("answer_b holds `[Answer of A]`, a tag of the prompt",)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"orders": "three"}, "option `orders` of judge `pairwise` must be one of both, given"),
        ({"disagreement": "A"}, "option `disagreement` of judge `pairwise` must be one of tie"),
        ({"language": "de"}, "option `language` of judge `pairwise` must be one of en, zh"),
    ],
)
def test_bad_options_are_one_sentence(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(MagistrateError, match=complaint):
        Pairwise(**options)


@pytest.mark.parametrize("broken", ["A", '{"choice": "A"}', '{"reasoning": "r", "choice": "C"}', '{"reasoning": "r"}'])
def test_a_broken_answer_is_never_a_choice(broken: str) -> None:
    with pytest.raises(AnswerError):
        Pairwise().read(answer("A"), broken)


def test_the_guides_words_are_in_the_seed(data: Path) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (data.parent / "seeds").glob("003_*.txt"))
    if not text:
        pytest.skip("the guide is not beside this checkout")
    assert all(words in text for words in GUIDE)


def test_probabilities_are_told_of_the_samples_a_and_b() -> None:
    first = {"A": 0.6, "both": 0.1, "B": 0.2, "neither": 0.1}
    second = {"A": 0.3, "both": 0.2, "B": 0.5, "neither": 0.0}
    swapped = {"A": 0.5, "both": 0.2, "B": 0.3, "neither": 0.0}
    assert Pairwise().weighed([first, second]) == {"probabilities": [first, swapped]}
    assert Pairwise().weighed([first, None]) == {"probabilities": [first, None]}
    assert Pairwise(orders="given").weighed([first]) == {"probabilities": [first]}

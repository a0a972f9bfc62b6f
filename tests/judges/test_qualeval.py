"""The judges of QualEval: affinity, discovery, the shrinking of a list, insight."""

import json
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.affinity import MOST_TOGETHER, PARTS, Affinity, Evidence
from judges.errors import AnswerError, MagistrateError, SampleError
from judges.judge import Judge
from judges.qualeval import Discovery, Insight, Shrink, words

PAPER: dict[str, str] = json.loads((Path(__file__).parents[1] / "data" / "qualeval_prompts.json").read_text(encoding="utf-8"))
"""The prompts as appendix A.1 prints them; what it describes in words is in braces."""

DOMAINS = ["Health", "Food and drink", "Work"]


def prompts(judge: Judge, sample: dict[str, Any]) -> list[str]:
    return [prompt.messages[-1].content for prompt in judge.render(sample).prompts]


def test_the_papers_words_stand_as_printed() -> None:
    ours = words()
    for name in ("domain", "subtask"):
        assert ours[f"rate_{name}"] == PAPER[name]
        for task in ("mbpp", "dialogsum", "mmlu"):
            assert ours[f"discover_{name}_{task}"] == PAPER[f"{name}_{task}"]
    assert ours["insight_system"] == PAPER["system"]
    assert f"{ours['insight_summary']} {ours['insight']} {ours['insight_distances']}" == PAPER["prompt"]


def test_affinity_asks_for_all_attributes_in_one_prompt() -> None:
    (text,) = prompts(Affinity(DOMAINS), {"input": ["Hello", "Two beers, please."]})
    assert text == (
        f"{PAPER['domain']}\n\nThe domains are:\n1. Health\n2. Food and drink\n3. Work\n\n"
        "Answer in JSON. The keys are the numbers of the domains, each with the evidence and then the score: "
        '{"1": {"evidence": "...", "score": X}, "2": {"evidence": "...", "score": X}, ...}\n\n'
        "Input to the language model:\nHello\nTwo beers, please.\n\nRate domains 1 to 3."
    )


@pytest.mark.parametrize("kind", ["domain", "subtask"])
def test_an_input_alone_is_rated_in_the_papers_words_and_an_output_by_what_it_uses(kind: str) -> None:
    """Figure 9 asks what the input needs, which no output changes; section 5.1 compares what two outputs use."""
    sample = {"input": "i", "ground_truth": "o", "generation": "o"}
    (alone,) = prompts(Affinity(DOMAINS, kind=kind), sample)
    (shown,) = prompts(Affinity(DOMAINS, kind=kind, output="generation"), sample)
    assert alone.startswith(f"{PAPER[kind]}\n\nThe {kind}s are:")
    assert shown.startswith(f"{words()[f'rate_{kind}_output']}\n\nThe {kind}s are:")
    assert PAPER[kind] not in shown


def test_affinity_shows_an_output_without_saying_whose() -> None:
    sample = {"input": "i", "ground_truth": "same", "generation": "same"}
    truth = prompts(Affinity(DOMAINS, kind="subtask", output="ground_truth"), sample)
    assert truth == prompts(Affinity(DOMAINS, kind="subtask", output="generation"), sample)
    assert truth[0].endswith("Input to the language model:\ni\n\nOutput of the language model:\nsame\n\nRate subtasks 1 to 3.")
    with pytest.raises(SampleError, match="field `generation` is missing"):
        Affinity(DOMAINS, output="generation").render({"input": "i"})


@given(st.integers(1, 130))
def test_groups_are_even_and_share_all_but_the_last_line(count: int) -> None:
    asked = Affinity([f"a{number}" for number in range(count)]).render({"input": "i"}).prompts
    assert len(asked) == -(-count // MOST_TOGETHER)
    keys = [[int(key) for key in dict(prompt.form.schema or {})["properties"]] for prompt in asked]
    assert list(chain.from_iterable(keys)) == list(range(1, count + 1)), "every attribute once"
    sizes = {len(group) for group in keys}
    assert max(sizes) - min(sizes) <= 1
    shared = {prompt.messages[0].content.rpartition("\n")[0] for prompt in asked}
    assert len(shared) == 1


def test_a_group_that_does_not_fit_is_divided() -> None:
    judge = Affinity([f"a{number}" for number in range(1, 6)])
    (prompt,) = judge.render({"input": "i\n\nRate domains 1 to 2."}).prompts
    halves = judge.split(prompt)
    assert [half.messages[0].content.rpartition("\n")[2] for half in halves] == ["Rate domains 1 to 2.", "Rate domains 3 to 5."]
    assert all("i\n\nRate domains 1 to 2.\n\nRate" in half.messages[0].content for half in halves), "the sample's text stays"
    assert judge.split(judge.split(halves[0])[0]) == ()


def test_a_line_on_each_attribute_stands_behind_its_name() -> None:
    (text,) = prompts(Affinity(DOMAINS, explanations=["Illness and cure.", "", "Jobs."]), {"input": "i"})
    assert "The domains are:\n1. Health: Illness and cure.\n2. Food and drink\n3. Work: Jobs.\n\n" in text
    assert Affinity(DOMAINS, explanations=["a", "b", "c"]).levels.keys() == set(DOMAINS), "names alone are the metrics"


def test_affinity_reads_every_attribute_once_however_it_was_asked() -> None:
    judge = Affinity(DOMAINS)
    one = {str(number): {"evidence": f"e{number}", "score": number} for number in (1, 2, 3)}
    whole = judge.read(json.dumps(one))
    assert whole.scores == {"Health": 1, "Food and drink": 2, "Work": 3}
    assert whole.detail == {"evidence": {"Health": "e1", "Food and drink": "e2", "Work": "e3"}}
    assert judge.read(json.dumps({"1": one["1"]}), json.dumps({"2": one["2"], "3": one["3"]})) == whole
    for broken in (
        ['{"1": {"evidence": "", "score": 1}}'],
        [json.dumps(one | {"4": one["1"]})],
        ["[]"],
        ["{"],
        [json.dumps(one), json.dumps({"1": one["1"]})],
    ):
        with pytest.raises(AnswerError):
            judge.read(*broken)


def test_the_ablation_puts_evidence_before_the_score_after_it_or_nowhere() -> None:
    order = {evidence: PARTS[evidence][1].model_fields for evidence in get_args(Evidence)}
    assert {name: list(keys) for name, keys in order.items()} == {
        "first": ["evidence", "score"],
        "last": ["score", "evidence"],
        "none": ["score"],
    }
    assert Affinity(["x"], evidence="none").read('{"1": {"score": 5}}').scores == {"x": 5}
    assert len({Affinity(DOMAINS, evidence=evidence).version for evidence in get_args(Evidence)}) == 3


@pytest.mark.parametrize(
    ("attributes", "options", "complaint"),
    [
        ([], {}, "at least one attribute"),
        (["a", " "], {}, "attribute 2 is empty"),
        (["a", "b", "a"], {}, "attribute `a` is named twice"),
        (["a"], {"kind": "topic"}, "option `kind` of judge `affinity` must be one of domain, subtask"),
        (["a"], {"output": "both"}, "option `output` of judge `affinity` must be one of none, ground_truth, generation"),
        (["a", "b"], {"explanations": ["x"]}, "there are 2 attributes and 1 explanations; give one for each, or none"),
        (["a"], {"explanations": ["x\ny"]}, "explanation 1 has more than one line: x"),
        (["a"], {"evidence": "yes"}, "option `evidence` of judge `affinity` must be one of first, last, none"),
    ],
)
def test_bad_options_of_affinity_are_one_sentence(attributes: list[str], options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(MagistrateError, match=complaint):
        Affinity(attributes, **options)


def test_discovery_shows_examples_as_text_or_as_fields() -> None:
    (text,) = prompts(Discovery(task="mbpp"), {"examples": ["def f(): ...", "def g(): ..."]})
    assert text.startswith(PAPER["domain_mbpp"])
    assert text.endswith("\n\nExample 1:\ndef f(): ...\n\nExample 2:\ndef g(): ...")
    (text,) = prompts(Discovery(kind="subtask"), {"examples": [{"question": "q", "options": ["a", "é"]}]})
    assert text.endswith('Example 1:\nquestion: q\noptions: ["a", "é"]')


INSTRUCTION = "Summarize the {conversation}."
TASKS: list[tuple[Callable[[str], Judge], dict[str, Any]]] = [
    (lambda instruction: Discovery(task="dialogsum", instruction=instruction), {"examples": ["e"]}),
    (lambda instruction: Shrink(instruction=instruction), {"attributes": ["a", "b"]}),
    (lambda instruction: Shrink(last=True, instruction=instruction), {"attributes": ["a", "b"]}),
    (lambda instruction: Affinity(DOMAINS, instruction=instruction), {"input": "i"}),
]


@pytest.mark.parametrize(("judge", "sample"), TASKS)
def test_the_task_instruction_stands_before_the_question(judge: Callable[[str], Judge], sample: dict[str, Any]) -> None:
    """Section 2.2: the judge is prompted with the data set and a task instruction."""
    (plain,), (instructed,) = prompts(judge(""), sample), prompts(judge(INSTRUCTION), sample)
    assert instructed.endswith(f"{INSTRUCTION}\n\n{plain}")
    assert "task instruction" not in plain
    assert judge(INSTRUCTION).version != judge("").version


def test_discovery_lists_each_name_once() -> None:
    reading = Discovery().read('{"domains": ["Work", " Home \\n life", "", "Work"]}')
    assert reading.detail == {"attributes": ["Work", "Home life"]}
    assert reading.notes == ["2 of 4 names were empty or said before"]
    assert reading.scores == {}
    for broken in ('{"domains": []}', '{"domains": [" "]}', '{"subtasks": ["a"]}', json.dumps({"domains": ["a"] * 16})):
        with pytest.raises(AnswerError):
            Discovery().read(broken)


@pytest.mark.parametrize(
    ("examples", "complaint"),
    [
        ([], "is an empty list"),
        ("one", "must be a list of strings, not a string"),
        ([1], "number 1 is a number"),
        (None, "not null"),
    ],
)
def test_discovery_needs_examples(examples: Any, complaint: str) -> None:
    with pytest.raises(SampleError, match=complaint):
        Discovery().render({"examples": examples})


def test_shrinking_chooses_among_the_candidates_only() -> None:
    judge = Shrink(factor=4, least=2)
    (prompt,) = judge.render({"attributes": [f"a{number}" for number in range(1, 11)]}).prompts
    assert "Choose the 3 best of them" in prompt.messages[0].content
    assert prompt.messages[0].content.endswith("9. a9\n10. a10")
    allowed = re.compile(prompt.form.pattern)
    assert allowed.fullmatch('{"chosen": [10, 1, 3]}')
    assert not any(allowed.fullmatch(f'{{"chosen": [{listed}]}}') for listed in ("", "0", "11", "1, 2, 3, 4", '"a1"'))
    assert judge.read('{"chosen": [7, 2, 7]}').detail == {"chosen": [2, 7]}
    assert judge.read('{"chosen": [7, 2, 7]}').notes == ["1 of 3 numbers were chosen before"]


def test_the_last_turn_explains_what_it_chooses() -> None:
    judge = Shrink(factor=4, least=3, last=True)
    (prompt,) = judge.render({"attributes": [f"a{number}" for number in range(1, 11)]}).prompts
    assert "at most 3. No two that you choose may mean the same" in prompt.messages[0].content
    choices = [(7, "Seven. "), (2, ""), (7, "x")]
    answer = json.dumps({"chosen": [{"number": number, "explanation": line} for number, line in choices]})
    assert re.fullmatch(prompt.form.pattern, answer)
    assert not re.fullmatch(prompt.form.pattern, '{"chosen": [{"number": 11, "explanation": "Eleven."}]}')
    reading = judge.read(answer)
    assert reading.detail == {"chosen": [2, 7], "explanations": ["", "Seven."]}
    assert reading.notes == ["1 of 3 numbers were chosen before"]
    for broken in ('{"chosen": [7]}', '{"chosen": [{"number": 0, "explanation": ""}]}', '{"chosen": []}'):
        with pytest.raises(AnswerError):
            judge.read(broken)


@given(st.integers(1, 300), st.sampled_from([1.25, 1.5, 2, 4, 7, 50]), st.integers(1, 40))
def test_a_list_shrinks_by_the_factor_but_not_below_the_least(count: int, factor: float, least: int) -> None:
    form = Shrink(factor=factor, least=least).render({"attributes": [str(n) for n in range(count)]}).prompts[0].form
    most = dict(form.schema or {})["properties"]["chosen"]["maxItems"]
    assert most == min(count, max(least, -(-Fraction(count) // Fraction(factor))))


@pytest.mark.parametrize("options", [{"factor": 1}, {"factor": float("nan")}, {"least": 0}, {"kind": "x"}])
def test_bad_options_of_shrinking_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(MagistrateError):
        Shrink(**options)


FIGURES = {"task_instruction": "Sum up.", "priors": {"é": 0.5}, "proficiency": {"é": 27.6}}


def test_insight_is_asked_in_the_papers_words() -> None:
    figures = {"priors": {"é": 0.5}, "proficiency": {"é": 27.6}, "distances": {"é": 0.1}}
    system, user = Insight().render(FIGURES | figures).prompts[0].messages
    assert (system.role, system.content) == ("system", PAPER["system"])
    summary, information = PAPER["prompt"].split(" A machine", 1)
    information = information.replace("{task_instruction}", "Sum up.").replace("{attributes}", "é")
    for name, figure in figures.items():
        information = information.replace(f"{{{name}}}", json.dumps(figure, ensure_ascii=False))
    assert summary.startswith("Given the above information")
    assert user.content.startswith(f"A machine{information}\n\n{summary}\n\n"), "what is above stands above"
    assert "distance" not in prompts(Insight(), FIGURES)[0]


def test_insight_reads_sentences() -> None:
    reading = Insight().read('{"insights": ["One. ", "", "Two."]}')
    assert reading.detail == {"insights": ["One.", "Two."]}
    assert reading.justification == "One.\nTwo."
    with pytest.raises(AnswerError, match="says nothing"):
        Insight().read('{"insights": [""]}')


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"priors": {}}, "field `priors` is empty"),
        ({"priors": [1]}, "must be an object of attributes and numbers, not a list"),
        ({"proficiency": {"a": "high"}}, "`a` is a string"),
        ({"proficiency": {"a": True}}, "`a` is a boolean"),
        ({"task_instruction": None}, "must be a string"),
    ],
)
def test_figures_that_are_none_are_refused(changed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SampleError, match=re.escape(complaint)):
        Insight().render(FIGURES | changed)

"""Which runs there are, what they change, and that both engines and a server judge them, from where a stopped run was."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evals.meta.card.card import Card, Made, make_card
from evals.meta.card.grades import marks
from evals.meta.card.probes import NOTHING
from evals.meta.card.runs import BASE, Listener, Plan, Run, judge_all, plan_runs, sides
from evals.meta.card.subject import Subject
from judges.data.rows import Row
from judges.decoding import SampledDecoding
from judges.engines.engine import Engine
from judges.errors import MagistrateError
from judges.grouse import Grouse
from judges.judge import Judge
from judges.llm_eval import LLMEval
from judges.pairwise import Pairwise
from judges.qualeval import Insight
from judges.rubric import Rubric
from judges.rubric_file import RubricFile
from judges.runner import prepare
from judges.verdict_lines import numbered_verdicts
from tests.evals.meta.card.made import dialogue, row

DIALOGUES = [dialogue(number, text) for number, text in enumerate(['Yes, it\'s "far". Take the bus.', "Ok", "No. I live here."])]
WHOLE = row("whole", dialogue=["Hello.", "Good day."])
GROUNDED = row(
    "g",
    input="Where?",
    actual_output="Here [1], not there [2].",
    expected_output="Here [1].",
    references=["here", "there"],
)
PAIR = [row(f"p{number}", question=f"Why {number}?", answer_a=f"So {number}.", answer_b="Because.") for number in range(2)]
RUBRIC: dict[str, Any] = {
    "name": "made",
    "fields": ["question", "answer"],
    "reasoning": False,
    "metric": [
        {"name": "clarity", "description": "Is it clear?", "scale": "1-5"},
        {"name": "tone", "description": "How is it said?", "scale": ["kind", "rude"]},
        {"name": "true", "description": "Is it true?", "scale": "0-1"},
    ],
}


def planned(judge: Judge, rows: list[Row], **plan: Any) -> dict[str, Run]:
    return {run.name: run for run in plan_runs(Subject.of(judge), rows, Plan(**plan))}


def test_the_runs_of_a_scoring_judge() -> None:
    runs = planned(LLMEval(), [*DIALOGUES, WHOLE], reruns=2, seeds=2, weighed=True)
    assert list(runs) == [
        BASE,
        *("again-1", "again-2", "seed-1", "seed-2", "other-order"),
        *(f"edit-{number}" for number in range(1, 5)),
        "padded",
        *(f"probe-{number}" for number in range(1, 6)),
        "probabilities",
    ]
    sampled = {name: run.decoding for name, run in runs.items() if isinstance(run.decoding, SampledDecoding)}
    assert sampled == {f"seed-{seed}": SampledDecoding(temperature=0.7, seed=seed) for seed in (1, 2)}
    assert [name for name, run in runs.items() if run.decoding.expected] == ["probabilities"]
    assert sorted(runs["again-1"].places) == [0, 1, 2, 3]
    assert [one.id for one in runs["again-1"].rows] == [[*DIALOGUES, WHOLE][place].id for place in runs["again-1"].places]
    assert list(runs["edit-2"].places) == [0], "only one answer has quotes"
    assert list(runs["padded"].places) == [0, 1, 2], "a whole dialogue has no answer of its own"
    assert [one.sample["response"] for one in runs["probe-1"].rows if one.sample] == [NOTHING["punctuation"]] * 3
    assert [one.sample["response"] for one in runs["probe-5"].rows if one.sample] == [f"Question {n}?" for n in range(3)]
    turned = runs["other-order"].judge
    assert isinstance(turned, LLMEval)
    assert list(turned.metrics) == ["appropriateness", "relevance", "grammar", "content"]
    assert turned.version != runs[BASE].judge.version


def test_without_a_temperature_nothing_is_sampled() -> None:
    assert not [name for name in planned(LLMEval(), DIALOGUES, temperature=0.0) if name.startswith("seed")]


def test_references_are_turned_with_their_citations() -> None:
    runs = planned(Grouse(), [GROUNDED, row("h", **{**(GROUNDED.sample or {}), "references": ["here"]})])
    (changed,) = runs["other-order"].rows
    assert changed.sample is not None
    assert changed.sample["references"] == ["there", "here"]
    assert changed.sample["actual_output"] == "Here [2], not there [1]."
    assert changed.sample["expected_output"] == "Here [2]."
    assert list(runs["other-order"].places) == [0]
    assert [metric.name for metric in Subject.of(Grouse()).metrics] == [
        *("answer_relevancy", "completeness", "usefulness", "faithfulness")
    ]


def test_a_pair_is_padded_against_itself_and_probed_with_its_first_answer() -> None:
    runs = planned(Pairwise(), PAIR)
    assert "other-order" not in runs
    for place, one in enumerate(runs["padded"].rows):
        assert one.sample is not None
        longer, shorter = (one.sample[name] for name in sides(place))
        assert shorter == f"So {place}."
        assert longer.startswith(shorter)
        assert longer.endswith(shorter)
    assert [one.sample["answer_a"] for one in runs["probe-1"].rows if one.sample] == ["So 0.", "So 1."]
    assert [one.sample["answer_b"] for one in runs["probe-4"].rows if one.sample] == ["So 1.", "So 0."]


def test_a_rubric_has_its_numbers_and_its_fields() -> None:
    judge = Rubric(RubricFile.model_validate(RUBRIC))
    subject = Subject.of(judge)
    assert [(one.name, one.lowest, one.highest) for one in subject.metrics] == [("clarity", 1, 5), ("true", 0, 1)]
    assert (subject.left_out, subject.answer, subject.question) == (("tone",), "answer", "question")
    assert Subject.of(judge, "question").question == "answer"
    turned = judge.reordered()
    assert turned is not None
    assert list(turned.levels) == ["true", "tone", "clarity"]
    with pytest.raises(MagistrateError, match="no such field; it has question, answer"):
        Subject.of(judge, "reply")


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        (Insight(), "judge `insight` scores no answers"),
        (Pairwise(orders="given"), "leave out `orders`"),
        (Pairwise(disagreement="unscored"), "leave out `orders`"),
        (Rubric(RubricFile.model_validate(RUBRIC | {"metric": RUBRIC["metric"][1:2]})), "gives labels only"),
    ],
)
def test_a_judge_that_leaves_nothing_to_measure_gets_no_card(judge: Judge, words: str) -> None:
    with pytest.raises(MagistrateError, match=words):
        Subject.of(judge)


class Counting(Listener):
    """Counts what is judged, by run."""

    def __init__(self) -> None:
        self.judged: Counter[str] = Counter()
        self.run = ""

    def begins(self, run: Run) -> None:
        self.run = run.name

    def update(self, tally: Any) -> None:
        self.judged[self.run] += 1


def made_card(loop: asyncio.Runner, engine: Engine, judge: Judge, rows: list[Row], folder: Path) -> tuple[Card, Counting]:
    subject, plan, counting = Subject.of(judge), Plan(reruns=1, seeds=2, temperature=2.0), Counting()
    runs = plan_runs(subject, rows, plan)
    found, fingerprint = loop.run(judge_all(runs, engine, folder, counting))
    made = Made(fingerprint=fingerprint, source="made.jsonl", rows=rows, judge_options={}, plan=plan)
    return make_card(subject, runs, found, made), counting


def test_every_engine_makes_a_card_and_goes_on_where_it_was(loop: asyncio.Runner, engine: Engine, tmp_path: Path) -> None:
    rows = [*DIALOGUES, WHOLE, Row("bad", "made row bad", {"id": "bad", "context": "Hm?"})]
    card, counting = made_card(loop, engine, LLMEval(), rows, tmp_path)
    assert card.again[0].identical.value == 1, "in float32 no batch changes a greedy answer"
    assert card.unscored.reasons == {"bad row: field `response` is missing": 5}
    assert card.unscored.unscored.count == sum(counting.judged.values())
    assert card.identity["engine"] in ("vllm", "transformers", "endpoint")
    assert any(one.deviation.value for one in card.sampled), "at temperature 2 seeds differ"
    assert {mark.key: mark.word for mark in marks(card)}["position"] == "not measured"
    last = tmp_path / "probe-5.jsonl"
    kept = last.read_text().splitlines(keepends=True)
    last.write_text("".join(kept[:-1]))
    again, asked = made_card(loop, engine, LLMEval(), rows, tmp_path)
    assert asked.judged == {"probe-5": 1}
    assert again.fields() == card.fields()
    assert {verdict.sample for _, verdict in numbered_verdicts(tmp_path / f"{BASE}.jsonl")} == {
        prepare(one, LLMEval()).key for one in rows
    }


def test_a_card_of_pairs(loop: asyncio.Runner, transformers_engine: Engine, tmp_path: Path) -> None:
    card, _ = made_card(loop, transformers_engine, Pairwise(reasoning=False), PAIR, tmp_path)
    assert card.pairwise
    assert card.places is not None
    assert card.places.same.count == 2
    assert card.longer is not None
    assert card.longer.net.count == 2
    assert [len(one.metrics) for one in card.probes] == [0] * 5
    assert len(card.formatting) == 3, "there are no quotes to change"

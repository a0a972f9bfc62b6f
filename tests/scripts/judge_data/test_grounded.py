"""Grounded answers to train on: that the grades say what was made, and never contradict each other."""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from judges.grouse import Grouse
from scripts.judge_data.examples import rows
from scripts.judge_data.grounded import ANSWERABLE, UNANSWERABLE, Plan, Setting, _drawn, _example, grounded
from scripts.judge_data.topics import Fact, Topic

NEEDED = tuple(Fact(f"Needed fact {n}.", (f"Needed fact {n}.",), (f"Wrong fact {n}.",)) for n in (1, 2))
RELATED, UNPLACED = (Fact(f"{name} fact.", (f"{name} fact.",), (f"Changed {name}.",)) for name in ("Related", "Unplaced"))
FOREIGN = Fact("Foreign fact.", ("Foreign fact.",), ("Changed foreign.",))
TOPIC = Topic("What are the facts?", NEEDED, (RELATED, UNPLACED), (FOREIGN,), "things")


def setting(*placed: Fact) -> Setting:
    places = {fact: number for number, fact in enumerate(placed, start=1)}
    return Setting(TOPIC, tuple(fact.reference for fact in placed), places, NEEDED[0] in placed)


def scores(plan: Plan, where: Setting, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The scores of an answer made by a plan; those that are not to be learned are absent."""
    plans = {plan: 1}
    monkeypatch.setattr("scripts.judge_data.grounded.ANSWERABLE", plans)
    monkeypatch.setattr("scripts.judge_data.grounded.UNANSWERABLE", plans)
    monkeypatch.setattr("scripts.judge_data.grounded.USELESS_KEPT", 1.0)
    rng = random.Random(1)
    answer = _drawn(where, rng, 0.0)
    example = _example(Grouse(per_metric=True, prompts="card"), where, (answer, answer), rng)
    said: dict[str, Any] = {}
    for row in rows(example, "x", rng):
        for metric, answers in json.loads(row["messages"][-1]["content"]).items():
            assert answers["answer_1"] == answers["answer_2"]
            said[metric] = answers["answer_2"][metric]
    return said


BOTH, NONE = (*NEEDED, RELATED, FOREIGN), (RELATED, FOREIGN)


@pytest.mark.parametrize(
    ("kind", "placed", "relevancy", "completeness", "usefulness", "faithfulness"),
    [
        ("right", BOTH, 5, 5, None, 1),
        ("related added", BOTH, 4, 5, None, 1),
        ("foreign added", BOTH, 3, 5, None, 1),
        ("foreign", BOTH, 1, 1, None, 1),
        ("related", BOTH, 2, 1, None, 1),
        ("miscited", BOTH, 5, 5, None, 0),
        ("uncited", BOTH, 5, 5, None, 0),
        ("invented", BOTH, 4, 5, None, 0),
        ("wrongly declined", BOTH, None, 1, None, None),
        ("wrongly declined, related added", BOTH, None, 1, 1, 1),
        ("declined", NONE, None, None, None, None),
        ("declined, related added", NONE, None, None, 1, 1),
        ("declined, foreign added", NONE, None, None, 0, 1),
        ("declined, related changed", NONE, None, None, 1, 0),
        ("answered out of nothing", NONE, 5, None, None, 0),
        ("answered with the related", NONE, 2, None, None, 1),
    ],
)
def test_grades_follow_from_the_plan(
    kind: str,
    placed: tuple[Fact, ...],
    relevancy: int | None,
    completeness: int | None,
    usefulness: int | None,
    faithfulness: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = next(plan for plan in (*ANSWERABLE, *UNANSWERABLE) if plan.kind == kind)
    assert scores(plan, setting(*placed), monkeypatch) == {
        "answer_relevancy": relevancy,
        "completeness": completeness,
        "usefulness": usefulness,
        "faithfulness": faithfulness,
    }


def test_half_of_the_facts_are_a_completeness_of_3(monkeypatch: pytest.MonkeyPatch) -> None:
    found = scores(Plan("left out", "some"), setting(*BOTH), monkeypatch)
    assert found["answer_relevancy"] == 5
    assert found["completeness"] == 3


def test_completeness_is_not_taught_where_a_fact_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = scores(Plan("changed", fault="changed"), setting(*BOTH), monkeypatch)
    assert found["faithfulness"] == 0
    assert "completeness" not in found


def test_the_judge_reads_every_answer_without_a_contradiction(data: Path) -> None:
    rng = random.Random(2)
    read = 0
    for example in (example for group in islice(grounded(data, "held-out", rng), 60) for example in group):
        answers = [row["messages"][-1]["content"] for row in rows(example, "x", rng)]
        if len(answers) != len(example.answers):
            continue
        read += 1
        notes = example.judge.read(*answers).notes
        assert not [note for note in notes if note.startswith("contradiction")], example
    assert read > 40


def test_examples_of_a_group_share_what_stands_before_the_answer_to_evaluate(data: Path) -> None:
    for group in islice(grounded(data, "train", random.Random(3)), 40):
        shared = [{name: value for name, value in each.sample.items() if name != "actual_output"} for each in group]
        assert all(each == shared[0] for each in shared)
        assert len({each.sample["actual_output"] for each in group}) == len(group)


def test_grades_are_spread(data: Path) -> None:
    """None is rare, and about a quarter of relevancy and completeness are null."""
    found: dict[str, list[int | None]] = {"answer_relevancy": [], "completeness": []}
    rng = random.Random(4)
    for example in (example for group in islice(grounded(data, "train", rng), 400) for example in group):
        for part in example.answers:
            for metric in found.keys() & (part or {}).keys():
                found[metric].append((part or {})[metric]["answer_2"][metric].value)
    for metric, grades in found.items():
        shares = {grade: grades.count(grade) / len(grades) for grade in (1, 2, 3, 4, 5, None)}
        assert min(shares.values()) > 0.02, (metric, shares)
        assert 0.18 < shares[None] < 0.4, (metric, shares)

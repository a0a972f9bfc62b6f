"""Cards of made verdicts: a usual one, one of pairs, one with nothing measured, and one with hostile names."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from evals.meta.card.calibration import People
from evals.meta.card.card import Card, Made, make_card
from evals.meta.card.runs import Plan, Verdicts, plan_runs
from evals.meta.card.subject import Subject
from judges.data.rows import Row
from judges.judge import Judge
from judges.llm_eval import LLMEval
from judges.orders import CHOICES
from judges.pairwise import Pairwise
from judges.verdict import Verdict
from tests.evals.meta.card.made import dialogue, fingerprint, pair, row, verdict
from tests.evals.qualeval.strange import HOSTILE, SPOILED


def card(
    judge: Judge,
    rows: list[Row],
    people: People | None = None,
    *,
    choices: Sequence[str] = CHOICES,
    unscored: float = 0.03,
    **made: Any,
) -> Card:
    """A card of a judge that draws its scores."""
    subject = Subject.of(judge)
    plan = Plan(weighed=people is not None)
    runs = plan_runs(subject, rows, plan)
    chance = random.Random(4)
    found: dict[str, Verdicts] = {}
    for run in runs:
        placed: Verdicts = [None] * len(rows)
        for place in run.places:
            placed[place] = _drawn(subject, rows[place].id, chance, choices, unscored)
        found[run.name] = placed
    options = {"source": "made.jsonl", "judge_options": {}, **made}
    return make_card(subject, runs, found, Made(fingerprint=fingerprint(judge), rows=rows, plan=plan, people=people, **options))


def _drawn(subject: Subject, name: str, chance: random.Random, choices: Sequence[str], unscored: float) -> Verdict:
    if chance.random() < unscored:
        return verdict(name, None)
    if subject.pairwise:
        first, second = chance.choice(choices), chance.choice(choices)
        return pair(name, first, second, [dict.fromkeys(CHOICES, 0.25)] * 2)
    scores = {metric.name: chance.randint(0, 5) for metric in subject.metrics}
    return verdict(name, scores, expected={metric: float(score) for metric, score in scores.items()})


def usual() -> Card:
    rows = [dialogue(number, f"Answer {number}. It's so. " + "More. " * (number % 7)) for number in range(40)]
    labels = {f"s{number}": [float(number % 6)] for number in range(40)}
    people = People(numbers={"content": labels, "grammar": dict(list(labels.items())[:5])}, ids=[*labels, "other"], faults=["x"])
    return card(LLMEval(), rows, people)


def of_pairs() -> Card:
    rows = [
        row(f"p{number}", question=f"Why {number}?", answer_a="a " * (number + 1), answer_b="Because.") for number in range(30)
    ]
    people = People(preferences={f"p{number}": ["A"] for number in range(30)}, ids=[f"p{number}" for number in range(30)])
    return card(Pairwise(), rows, people)


def constant() -> Card:
    """Of a judge that finds all answers good."""
    rows = [row(f"p{number}", question=f"Why {number}?", answer_a="So.", answer_b="Because.") for number in range(30)]
    return card(Pairwise(), rows, choices=["both"], unscored=0)


def nothing() -> Card:
    return card(LLMEval(["one"]), [Row("1", "made row 1", None, "made row 1: is no object")])


def hostile() -> Card:
    rows = [
        row(name, context=[f"{HOSTILE} {place}"], response=f"{name} {place}")
        for place, name in enumerate([HOSTILE, SPOILED, "{{ 7 * 7 }}", "x" * 300])
    ]
    people = People(numbers={"content": {}}, ids=[HOSTILE + "!", SPOILED + "!"], faults=[SPOILED])
    return card(LLMEval(), rows, people, source=f"{HOSTILE}.jsonl", judge_options={"metrics": SPOILED, "more": "{{ 7 * 7 }}"})


CARDS = {"usual": usual, "pairs": of_pairs, "nothing": nothing, "hostile": hostile}

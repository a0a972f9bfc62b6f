"""What there is to judge with: every judge, its options, and a request that works as it stands."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from judges.catalog import JUDGES, RUBRIC, JudgeEntry
from judges.judge import Level
from server.asking import JudgeRequest, judge_of
from server.errors import ERRORS, ApiError

OWN = "rubric"
"""Under this name the listing tells of rubrics. It names no judge: the rubric itself comes in the request."""

RUBRIC_TEXT = """\
name = "summary-quality"
fields = ["dialogue", "summary"]

[[metric]]
name = "consistency"
description = "Does the summary say only what the dialogue says?"
scale = "1-5"

[[metric]]
name = "fluency"
description = "Is the summary good English?"
scale = ["bad", "fair", "good"]
ordered = true
"""

ASKED: Mapping[str, Mapping[str, Any]] = {
    "affinity": {"judge": "affinity", "options": {"attributes": ["Food and drink", "Travel"]}},
    "shrink": {"judge": "shrink", "options": {"least": 4}},
    OWN: {"rubric": RUBRIC_TEXT, "rubric_format": "toml"},
}
"""What to ask with in the example for a judge whose name alone is not enough, or says little."""

SAMPLES: Mapping[str, Mapping[str, Any]] = {
    "llm-eval": {
        "context": ["Do you like hiking?", "I love it. I was in the hills last weekend.", "Nice! Was it not too cold?"],
        "response": "It was freezing, but the view from the top was worth it.",
        "reference": "A little, but we had warm jackets.",
    },
    "grouse": {
        "input": "When did the Eiffel Tower open to the public?",
        "references": [
            "The Eiffel Tower was built from 1887 to 1889 as the centrepiece of the World's Fair.",
            "The tower opened to the public on 15 May 1889.",
        ],
        "expected_output": "It opened to the public on 15 May 1889 [2].",
        "actual_output": "It opened in 1887 [1].",
    },
    "pairwise": {
        "question": "How do I keep basil fresh for a week?",
        "answer_a": "Stand the stems in a glass of water at room temperature and cover the leaves loosely with a bag.",
        "answer_b": "Put it in the fridge.",
    },
    "affinity": {"input": "#Person1#: A table for two, please. #Person2#: Certainly. Would you like to see the wine list?"},
    "discovery": {
        "examples": [
            "#Person1#: A table for two, please. #Person2#: Certainly. Would you like to see the wine list?",
            "#Person1#: When does the next train to Leeds leave? #Person2#: At ten past four, from platform six.",
        ]
    },
    "shrink": {"attributes": ["Food", "Eating out", "Trains", "Public transport", "Work", "Job interviews", "Weather", "Sport"]},
    "insight": {
        "task_instruction": "Sum up the dialogue in one sentence.",
        "priors": {"Travel": 0.4, "Work": 0.35, "Health": 0.25},
        "proficiency": {"Travel": 0.31, "Work": 0.27, "Health": 0.18},
    },
    OWN: {
        "dialogue": ["Anna: Are we still on for lunch?", "Ben: Yes, at noon by the fountain."],
        "summary": "Anna and Ben meet for lunch at noon.",
    },
}
"""A sample for each judge."""

EXAMPLE_MODEL = "magistrate-tiny"


class OptionCard(BaseModel):
    """An option of a judge."""

    name: str = Field(description="Its key in `options`.")
    legal: dict[str, Any] = Field(description="The values it may have, as a JSON schema.")
    default: Any = Field(description="Its value where it is not given; null also where the judge decides, or it must be given.")
    required: bool = Field(description="Whether it must be given.")


class JudgeCard(BaseModel):
    """A judge: what it asks, what it needs, and how to ask for it."""

    object: Literal["judge"] = "judge"
    name: str = Field(description="What to give as `judge`. The one called `rubric` is asked for by a rubric's text in `rubric`.")
    asks: str = Field(description="What it judges.")
    needs: str = Field(description="The fields of a sample.")
    source: str = Field(description="Where the method comes from.")
    options: list[OptionCard] = Field(description="What it can be told.")
    required: list[str] = Field(description="The options that must be given.")
    metrics: dict[str, Level] = Field(description="The example's scores, and whether they are nominal, ordinal or interval.")
    answer: dict[str, Any] = Field(description="The JSON schema that the model's answer to the example is held to.")
    sample: dict[str, Any] = Field(description="An example of a sample.")
    request: dict[str, Any] = Field(description="An example of a body for `POST /v1/judgments`.")


class JudgeList(BaseModel):
    """All judges."""

    object: Literal["list"] = "list"
    data: list[JudgeCard]


router = APIRouter(prefix="/v1/judges", tags=["judges"])


@router.get("", summary="List judges", responses=ERRORS)
def list_judges() -> JudgeList:
    """Every judge, with its options and an example of a request."""
    return JudgeList(data=[_card(name) for name in (*JUDGES, OWN)])


@router.get("/{name}", summary="Describe a judge", responses=ERRORS)
def describe_judge(name: str) -> JudgeCard:
    """One judge, with its options and an example of a request."""
    if name not in (*JUDGES, OWN):
        raise ApiError(404, f"there is no judge `{name}`; there are {', '.join(JUDGES)} and {OWN}", "judge_not_found")
    return _card(name)


def asked(name: str) -> dict[str, Any]:
    """What the example for a judge asks with: the fields of a ``JudgeRequest``."""
    return dict(ASKED.get(name, {"judge": name}))


@cache
def _card(name: str) -> JudgeCard:
    entry = RUBRIC if name == OWN else JUDGES[name]
    sample = dict(SAMPLES[name])
    judge = judge_of(JudgeRequest(**asked(name)))
    return JudgeCard(
        name=name,
        asks=entry.asks,
        needs=entry.needs,
        source="the rubric" if name == OWN else entry.source,
        options=_options(entry),
        required=list(entry.required),
        metrics=dict(judge.levels),
        answer=dict(judge.render(sample).prompts[0].form.schema),
        sample=sample,
        request={"model": EXAMPLE_MODEL, **asked(name), "samples": [sample]},
    )


def _options(entry: JudgeEntry) -> list[OptionCard]:
    known = inspect.signature(entry.make).parameters
    cards = []
    for name, option in entry.options.items():
        required = name in entry.required
        default = None if required else known[name].default
        cards.append(OptionCard(name=name, legal=dict(option.schema), default=default, required=required))
    return cards

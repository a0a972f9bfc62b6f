"""What there is to judge with: every judge, its options, and a request that works as it stands."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from judges.catalog import JUDGES
from judges.judge import Judge, Level
from judges.rubric import Rubric
from server.asking import JudgeRequest, judge_of
from server.errors import ERRORS, ApiError

OWN = Rubric.name
"""Under this name the listing tells of rubrics. It names no judge: the rubric itself comes in the request."""

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
    return JudgeList(data=[_card(name) for name in (*JUDGES.working, OWN)])


@router.get("/{name}", summary="Describe a judge", responses=ERRORS)
def describe_judge(name: str) -> JudgeCard:
    """One judge, with its options and an example of a request."""
    if name not in (*JUDGES.working, OWN):
        raise ApiError(404, f"there is no judge `{name}`; there are {', '.join(JUDGES.working)} and {OWN}", "judge_not_found")
    return _card(name)


def asked(name: str) -> dict[str, Any]:
    """What the example for a judge asks with: the fields of a ``JudgeRequest``."""
    if name == OWN:
        return {"rubric": files("judges").joinpath("prompts/example_rubric.toml").read_text(), "rubric_format": "toml"}
    options = dict(JUDGES[name].example.options)
    return {"judge": name, **({"options": options} if options else {})}


@cache
def _card(name: str) -> JudgeCard:
    kind: type[Judge] = Rubric if name == OWN else JUDGES[name]
    options = [
        OptionCard(name=one.name, legal=dict(one.legal), default=one.default, required=one.required)
        for one in kind.Options.listed().values()
    ]
    sample = dict(kind.example.sample)
    judge = judge_of(JudgeRequest(**asked(name)))
    return JudgeCard(
        name=name,
        asks=kind.summary,
        needs=str(kind.fields),
        source="the rubric" if name == OWN else kind.source,
        options=options,
        required=[one.name for one in options if one.required],
        metrics=dict(judge.levels),
        answer=dict(judge.render(sample).prompts[0].form.schema),
        sample=sample,
        request={"model": EXAMPLE_MODEL, **asked(name), "samples": [sample]},
    )

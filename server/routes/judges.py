"""Describes every judge: its options, and a request that works as it stands."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from judges.catalog import JUDGES, judge_class
from judges.judge import Judge, MeasurementLevel
from judges.rubric import Rubric
from judges.templates.shipped import TEMPLATES
from server.errors import ERRORS, ApiError
from server.judge_spec import JudgeSpec, judge_of
from server.routes.tags import Tag

OWN = Rubric.name
"""The name under which rubrics are listed. It is not a judge's name: the rubric itself is in the request."""

EXAMPLE_MODEL = "magistrate-135m"


class OptionCard(BaseModel):
    """An option of a judge."""

    name: str = Field(description="Its key in `options`.")
    legal: dict[str, Any] = Field(description="Its legal values, as a JSON schema.")
    default: Any = Field(description="Its value if left out; null also if the judge decides, or it is required.")
    required: bool = Field(description="Whether it must be given.")


class JudgeCard(BaseModel):
    """A judge: what it judges, what it needs, and how to request it."""

    object: Literal["judge"] = "judge"
    name: str = Field(description="The value of `judge`. For `rubric`, put a rubric's text in the field `rubric` instead.")
    asks: str = Field(description="What it judges.")
    needs: str = Field(description="The fields of a sample.")
    source: str = Field(description="Where the method comes from.")
    options: list[OptionCard] = Field(description="Its options.")
    required: list[str] = Field(description="Names of the options that must be given.")
    metrics: dict[str, MeasurementLevel] = Field(
        description="The example's scores, and whether they are nominal, ordinal or interval."
    )
    answer: dict[str, Any] = Field(
        description="The JSON schema of the model's answer to the example; of one that is no JSON, its pattern."
    )
    sample: dict[str, Any] = Field(description="An example of a sample.")
    request: dict[str, Any] = Field(description="An example of a body for `POST /v1/judgments`.")


class JudgeList(BaseModel):
    """All judges."""

    object: Literal["list"] = "list"
    data: list[JudgeCard]


router = APIRouter(prefix="/v1/judges", tags=[Tag.CATALOG])


@router.get("", summary="List judges", responses=ERRORS)
def list_judges() -> JudgeList:
    """List every judge, with its options and an example of a request."""
    return JudgeList(data=[_card(name) for name in _listed()])


@router.get("/{name}", summary="Describe a judge", responses=ERRORS)
def describe_judge(name: str) -> JudgeCard:
    """Describe one judge, with its options and an example of a request."""
    if name not in _listed():
        *others, last = _listed()
        raise ApiError(404, f"there is no judge `{name}`; there are {', '.join(others)} and {last}", "judge_not_found")
    return _card(name)


def _listed() -> list[str]:
    """The judges that can be asked: of those that need their authors' files, the ones whose files are on this machine."""
    return [*JUDGES.working, *TEMPLATES.ready(), OWN]


def example_spec(name: str) -> dict[str, Any]:
    """Make the fields of a ``JudgeSpec`` of a judge's example."""
    if name == OWN:
        return {"rubric": files("judges").joinpath("prompts/example_rubric.toml").read_text(), "rubric_format": "toml"}
    options = dict(judge_class(name).example.options)
    return {"judge": name, **({"options": options} if options else {})}


@cache
def _card(name: str) -> JudgeCard:
    kind: type[Judge] = Rubric if name == OWN else judge_class(name)
    options = [
        OptionCard(name=option.name, legal=dict(option.legal), default=option.default, required=option.required)
        for option in kind.Options.listed().values()
    ]
    sample = dict(kind.example.sample)
    judge = judge_of(JudgeSpec(**example_spec(name)))
    form = judge.render(sample).prompts[0].form
    return JudgeCard(
        name=name,
        asks=kind.summary,
        needs=str(kind.fields),
        source="the rubric" if name == OWN else kind.source,
        options=options,
        required=[option.name for option in options if option.required],
        metrics=dict(judge.levels),
        answer=dict(form.schema or {"type": "string", "pattern": form.pattern}),
        sample=sample,
        request={"model": EXAMPLE_MODEL, **example_spec(name), "samples": [sample]},
    )

"""Insight: what the figures of a breakdown say, in a few sentences. Source: QualEval, figure 10."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from judges.errors import AnswerError, SampleError
from judges.form import Form, answer_model
from judges.judge import Fields, Inquiry, Judge, JudgeExample, Message, Prompt, Reading, Sample
from judges.options import JudgeOptions, MaxListed
from judges.prompt_files import fill
from judges.qualeval import QUALEVAL, words
from judges.samples import kind_of, text_field, well_formed

SENTENCE_TOKENS = 64
"""Room for one sentence."""


class Insight(Judge):
    """Sums up how a model does on the attributes of a data set, from the figures alone.

    A sample has ``task_instruction`` (a string), ``priors`` and ``proficiency`` (objects: attribute to number), and perhaps
    ``distances`` (the same), which say how far a model's use of a skill is from the ground truth's. It scores nothing:
    ``Reading.detail`` holds ``insights``, a list of sentences, and ``Reading.justification`` is their text.
    """

    class Options(JudgeOptions):
        most: MaxListed = Field(8, description="As many sentences as an answer may hold.")

    name = "insight"
    summary = "what the figures of a breakdown say, in a few sentences"
    source = QUALEVAL
    fields = Fields(("task_instruction", "priors", "proficiency"), ("distances",))
    example = JudgeExample(
        {
            "task_instruction": "Sum up the dialogue in one sentence.",
            "priors": {"Travel": 0.4, "Work": 0.35, "Health": 0.25},
            "proficiency": {"Travel": 0.31, "Work": 0.27, "Health": 0.18},
        }
    )
    options: Options

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        most = self.options.most
        listed = Annotated[list[str], Field(min_length=1, max_length=most)]
        self.form = Form(answer_model("Insights", {"insights": listed}), 16 + most * SENTENCE_TOKENS)

    def protocol(self) -> Mapping[str, Any]:
        return {"prompts": words(), "most": self.options.most}

    def render(self, sample: Sample) -> Inquiry:
        text = words()
        priors = _figures(sample, "priors")
        values = {
            "task_instruction": text_field(sample, "task_instruction"),
            "attributes": ", ".join(priors),
            "priors": json.dumps(priors, ensure_ascii=False),
            "proficiency": json.dumps(_figures(sample, "proficiency"), ensure_ascii=False),
        }
        asked = fill(text["insight"], values)
        if sample.get("distances"):
            distances = json.dumps(_figures(sample, "distances"), ensure_ascii=False)
            asked += " " + fill(text["insight_distances"], {"distances": distances})
        asked += "\n\n" + fill(text["insight_answer"], {"most": str(self.options.most)})
        return Inquiry((Prompt((Message("system", text["insight_system"]), Message("user", asked)), self.form),))

    def read(self, *answers: str) -> Reading:
        (answer,) = answers
        listed = self.form.read(answer).model_dump(by_alias=True)["insights"]
        insights = [sentence.strip() for sentence in listed if sentence.strip()]
        if not insights:
            raise AnswerError("the answer says nothing")
        return Reading({}, justification="\n".join(insights), detail={"insights": insights})


def _figures(sample: Sample, name: str) -> dict[str, float]:
    value = sample.get(name)
    if name not in sample:
        raise SampleError(name, "is missing")
    if not isinstance(value, Mapping) or not value:
        raise SampleError(name, f"must be an object of attributes and numbers, not {kind_of(value)}" if value else "is empty")
    for attribute, figure in value.items():
        if isinstance(figure, bool) or not isinstance(figure, int | float):
            raise SampleError(name, f"must hold numbers; `{attribute}` is {kind_of(figure)}")
    return {well_formed(attribute): figure for attribute, figure in value.items()}

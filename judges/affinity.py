"""Affinity: how much an instance has of each attribute, domains or sub-tasks, from 1 to 5, with evidence.

Source: QualEval, figure 9. The words stand in ``prompts/qualeval.toml``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from judges.errors import AnswerError, MagistrateError
from judges.form import AnswerModel, Form, answer_model, json_object
from judges.judge import Fields, Inquiry, Judge, JudgeExample, Level, Message, NumericScore, Prompt, Reading, Sample, Score
from judges.options import FILE_OF_NAMES, JudgeOptions, Strings
from judges.prompt_files import fill
from judges.qualeval import PLURAL, QUALEVAL, Kind, numbered, words
from judges.samples import text_field, turns_field

Output = Literal["none", "ground_truth", "generation"]
Evidence = Literal["first", "last", "none"]

MOST_TOGETHER = 20
"""Attributes in one answer. QualEval has 15; with more, a model loses count and a constraint takes long to compile."""

SCORES = (1, 2, 3, 4, 5)
Rating = Literal[1, 2, 3, 4, 5]


class EvidenceFirst(AnswerModel):
    evidence: str
    score: Rating


class ScoreFirst(AnswerModel):
    score: Rating
    evidence: str


class ScoreOnly(AnswerModel):
    score: Rating


PARTS: Mapping[str, tuple[str, type[AnswerModel], int]] = {
    "first": ("rate_evidence_first", EvidenceFirst, 64),
    "last": ("rate_score_first", ScoreFirst, 64),
    "none": ("rate_score_only", ScoreOnly, 0),
}
"""Where the evidence stands: how the prompt asks for it, the form of one attribute, and tokens for its evidence."""

OVERHEAD = 20
"""Tokens of one attribute's key, brackets and score, at most."""


class Affinity(Judge):
    """Rates ``input``, perhaps with an output, on every attribute. The attributes' names are the metrics.

    One answer holds many attributes, each under its number, so that each is rated exactly once. More than 20, and those that do
    not fit the model's context, are asked for in several answers. These share all but the last line of the prompt.
    ``Reading.detail`` holds ``evidence``: attribute to evidence.

    Raises:
        MagistrateError: No attribute, an empty or a repeated one.
    """

    class Options(JudgeOptions):
        attributes: Annotated[Strings, FILE_OF_NAMES] = Field(description="Names of the attributes, all of one kind.")
        kind: Kind = Field("domain", description="What the attributes are.")
        output: Output = Field(
            "none", description="Which output is shown beside the input. The model does not learn which it is."
        )
        evidence: Evidence = Field(
            "first", description="Where evidence stands: before the score or after it, as the paper has it."
        )

    name = "affinity"
    summary = "how much an instance has of each attribute, 1 to 5, with evidence"
    source = QUALEVAL
    fields = Fields(("input",), ("ground_truth", "generation"))
    example = JudgeExample(
        {"input": "#Person1#: A table for two, please. #Person2#: Certainly. Would you like to see the wine list?"},
        {"attributes": ["Food and drink", "Travel"]},
    )
    one_scale = True
    options: Options

    def __init__(self, attributes: Sequence[str], **options: Any) -> None:
        super().__init__(attributes=attributes, **options)
        self.attributes = _check_attributes(self.options.attributes)
        if self.options.output != "none":
            self.fields = Fields(("input", self.options.output))
        count = len(self.attributes)
        groups = math.ceil(count / MOST_TOGETHER)
        starts = [count * group // groups + 1 for group in range(groups + 1)]
        self._groups = [range(start, end) for start, end in pairwise(starts)]
        self._form = cache(self._make_form)
        self._whole = self._form(range(1, count + 1))

    @property
    def forms(self) -> Sequence[Form[BaseModel]]:
        return tuple(self._form(group) for group in self._groups)

    @property
    def levels(self) -> Mapping[str, Level]:
        return dict.fromkeys(self.attributes, "ordinal")

    @property
    def numeric_scores(self) -> Sequence[NumericScore]:
        return [NumericScore(name, (str(number), "score"), SCORES) for number, name in enumerate(self.attributes, start=1)]

    def protocol(self) -> Mapping[str, Any]:
        return {"prompts": words(), **dict(self.options)}

    def render(self, sample: Sample) -> Inquiry:
        kinds = PLURAL[self.options.kind]
        text = words()
        asked = [
            text[f"rate_{self.options.kind}"],
            fill(text["rate_attributes"], {"kinds": kinds, "attributes": numbered(self.attributes)}),
            fill(text[PARTS[self.options.evidence][0]], {"kinds": kinds}),
            fill(text["rate_input"], {"input": turns_field(sample, "input")}),
        ]
        if self.options.output != "none":
            asked.append(fill(text["rate_output"], {"output": text_field(sample, self.options.output)}))
        return Inquiry(tuple(self._prompt("\n\n".join(asked), group) for group in self._groups))

    def divide(self, prompt: Prompt) -> tuple[Prompt, ...]:
        numbers = [int(key) for key in prompt.form.schema["properties"]]
        if len(numbers) < 2:
            return ()
        start, middle, end = numbers[0], numbers[len(numbers) // 2], numbers[-1] + 1
        shared = prompt.messages[0].content.rpartition("\n\n")[0]
        return tuple(self._prompt(shared, group) for group in (range(start, middle), range(middle, end)))

    def read(self, *answers: str) -> Reading:
        together: dict[str, Any] = {}
        for answer in answers:
            found = json_object(answer)
            if twice := together.keys() & found.keys():
                raise AnswerError(f"attribute {min(twice)} is rated in two answers")
            together |= found
        rated = self._whole.read(json.dumps(together)).model_dump(by_alias=True)
        scores: dict[str, Score] = {}
        evidence = {}
        for number, name in enumerate(self.attributes, start=1):
            scores[name] = rated[str(number)]["score"]
            evidence[name] = rated[str(number)].get("evidence")
        return Reading(scores, detail=None if self.options.evidence == "none" else {"evidence": evidence})

    def _prompt(self, shared: str, group: range) -> Prompt:
        these = {"kinds": PLURAL[self.options.kind], "first": str(group[0]), "last": str(group[-1])}
        return Prompt((Message("user", f"{shared}\n\n{fill(words()['rate_these'], these)}"),), self._form(group))

    def _make_form(self, group: range) -> Form[BaseModel]:
        _, part, evidence_tokens = PARTS[self.options.evidence]
        return Form(answer_model("Ratings", {str(number): part for number in group}), len(group) * (OVERHEAD + evidence_tokens))


def _check_attributes(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise MagistrateError("affinity needs at least one attribute")
    for number, name in enumerate(names):
        if not name.strip():
            raise MagistrateError(f"attribute {number + 1} is empty")
        if len(name.splitlines()) > 1:
            raise MagistrateError(f"attribute {number + 1} has more than one line: {name.splitlines()[0]}")
        if name in names[:number]:
            raise MagistrateError(f"attribute `{name}` is named twice")
    return names

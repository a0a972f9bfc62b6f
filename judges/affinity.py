"""Affinity: rates from 1 to 5, with evidence, how much an instance has of each attribute (domains or sub-tasks).

Source: QualEval, figure 9, for an input alone. Where an output is shown, the question is how far that output uses each sub-task,
as in section 5.1; the paper does not print it, so it is in Magistrate's words. The words are in ``prompts/qualeval.toml`` and
``prompts/qualeval_answers.toml``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from judges.data.samples import text_field, turns_field
from judges.errors import AnswerError, MagistrateError
from judges.form import AnswerModel, AnswerSchema, answer_model, json_object
from judges.judge import (
    Fields,
    Judge,
    JudgeExample,
    MeasurementLevel,
    Message,
    NumericScore,
    ParsedAnswer,
    Prompt,
    RenderedPrompts,
    Sample,
    Score,
)
from judges.options import FILE_OF_NAMES, JudgeOptions, Strings, Writable
from judges.prompt_files import fill
from judges.qualeval import INSTRUCTION, PLURAL, QUALEVAL, Kind, instructed, numbered, words

Output = Literal["none", "ground_truth", "generation"]
Evidence = Literal["first", "last", "none"]

MOST_TOGETHER = 20
"""Maximum number of attributes in one answer. QualEval has 15; with more, models lose count and constraints compile slowly."""

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
"""Position of the evidence to the key of its prompt, the model of one attribute, and the tokens for its evidence."""

OVERHEAD = 20
"""Maximum number of tokens of one attribute's key, brackets and score."""


class Affinity(Judge):
    """Rates ``input``, or an output for it, on every attribute. The attributes' names are the metrics.

    Of an input: how far it belongs to a domain, or needs a sub-task. Of an output: how far it and its input belong to a domain,
    or how far a sub-task was used to generate it, in the same words whoever wrote it.

    One answer holds many attributes, each under its number, so that each is rated exactly once. More than 20, or more than fit
    the model's context, are split into prompts that differ in the last line alone. ``ParsedAnswer.detail`` holds ``evidence``:
    attribute to evidence.

    Raises:
        MagistrateError: There is no attribute, one is empty or repeated, or not each has its explanation.
    """

    class Options(JudgeOptions):
        attributes: Annotated[Strings, FILE_OF_NAMES] = Field(description="Names of the attributes, all of one kind.")
        explanations: Annotated[Strings, FILE_OF_NAMES] = Field(
            (), description="A line on each attribute, in their order, shown behind its name; none by default."
        )
        kind: Kind = Field("domain", description="Kind of the attributes.")
        output: Output = Field("none", description="Output that is rated with the input, without saying whose it is.")
        evidence: Evidence = Field(
            "first", description="Position of the evidence: before the score, or after it as in the paper."
        )
        instruction: Writable = Field("", description=INSTRUCTION)

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
        self._shown = _explained(self.attributes, self.options.explanations)
        if self.options.output != "none":
            self.fields = Fields(("input", self.options.output))
        count = len(self.attributes)
        groups = math.ceil(count / MOST_TOGETHER)
        starts = [count * group // groups + 1 for group in range(groups + 1)]
        self._groups = [range(start, end) for start, end in pairwise(starts)]
        self._form = cache(self._make_form)
        self._whole = self._form(range(1, count + 1))

    @property
    def forms(self) -> Sequence[AnswerSchema[BaseModel]]:
        return tuple(self._form(group) for group in self._groups)

    @property
    def levels(self) -> Mapping[str, MeasurementLevel]:
        return dict.fromkeys(self.attributes, "ordinal")

    @property
    def numeric_scores(self) -> Sequence[NumericScore]:
        return [NumericScore(name, (str(number), "score"), SCORES) for number, name in enumerate(self.attributes, start=1)]

    def protocol(self) -> Mapping[str, Any]:
        return {"prompts": words(), **dict(self.options)}

    def render(self, sample: Sample) -> RenderedPrompts:
        kinds = PLURAL[self.options.kind]
        text = words()
        question = text[f"rate_{self.options.kind}{'' if self.options.output == 'none' else '_output'}"]
        parts = [
            instructed(question, self.options.instruction),
            fill(text["rate_attributes"], {"kinds": kinds, "attributes": numbered(self._shown)}),
            fill(text[PARTS[self.options.evidence][0]], {"kinds": kinds}),
            fill(text["rate_input"], {"input": turns_field(sample, "input")}),
        ]
        if self.options.output != "none":
            parts.append(fill(text["rate_output"], {"output": text_field(sample, self.options.output)}))
        return RenderedPrompts(tuple(self._prompt("\n\n".join(parts), group) for group in self._groups))

    def split(self, prompt: Prompt) -> tuple[Prompt, ...]:
        numbers = [int(key) for key in dict(prompt.form.schema or {})["properties"]]
        if len(numbers) < 2:
            return ()
        start, middle, end = numbers[0], numbers[len(numbers) // 2], numbers[-1] + 1
        shared = prompt.messages[0].content.rpartition("\n\n")[0]
        return tuple(self._prompt(shared, group) for group in (range(start, middle), range(middle, end)))

    def read(self, *answers: str) -> ParsedAnswer:
        together: dict[str, Any] = {}
        for answer in answers:
            ratings = json_object(answer)
            if twice := together.keys() & ratings.keys():
                raise AnswerError(f"attribute {min(twice)} is rated in two answers")
            together |= ratings
        rated = self._whole.read(json.dumps(together)).model_dump(by_alias=True)
        scores: dict[str, Score] = {}
        evidence = {}
        for number, name in enumerate(self.attributes, start=1):
            scores[name] = rated[str(number)]["score"]
            evidence[name] = rated[str(number)].get("evidence")
        return ParsedAnswer(scores, detail=None if self.options.evidence == "none" else {"evidence": evidence})

    def _prompt(self, shared: str, group: range) -> Prompt:
        these = {"kinds": PLURAL[self.options.kind], "first": str(group[0]), "last": str(group[-1])}
        return Prompt((Message("user", f"{shared}\n\n{fill(words()['rate_these'], these)}"),), self._form(group))

    def _make_form(self, group: range) -> AnswerSchema[BaseModel]:
        _, part, evidence_tokens = PARTS[self.options.evidence]
        return AnswerSchema(
            answer_model("Ratings", {str(number): part for number in group}), len(group) * (OVERHEAD + evidence_tokens)
        )


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


def _explained(names: tuple[str, ...], explanations: tuple[str, ...]) -> list[str]:
    """The attributes as the prompt shows them."""
    if explanations and len(explanations) != len(names):
        counts = f"{len(names)} attributes and {len(explanations)} explanations"
        raise MagistrateError(f"there are {counts}; give one for each, or none")
    for number, line in enumerate(explanations, start=1):
        if len(line.splitlines()) > 1:
            raise MagistrateError(f"explanation {number} has more than one line: {line.splitlines()[0]}")
    template = words()["explained"]
    return [
        fill(template, {"name": name, "explanation": line}) if line.strip() else name
        for name, line in zip(names, explanations or ("",) * len(names), strict=True)
    ]

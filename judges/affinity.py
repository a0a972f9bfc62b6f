"""Affinity: how much an instance has of each attribute, domains or sub-tasks, from 1 to 5, with evidence.

Source: QualEval, figure 9. The words stand in ``prompts/qualeval.toml``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Literal, get_args

from pydantic import BaseModel

from judges.errors import AnswerError, MagistrateError
from judges.form import AnswerModel, Form, answer_model, json_object
from judges.judge import Fields, Inquiry, Judge, Level, Message, NumericScore, Prompt, Reading, Sample, Score
from judges.prompt_files import fill
from judges.qualeval import PLURAL, Kind, check_kind, numbered, words
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

    Args:
        attributes: Names of the attributes, all of one kind.
        kind: ``domain`` or ``subtask``.
        output: Which output is shown beside the input: ``none``, or that of the field ``ground_truth`` or ``generation``. The
            model is not told which of the two it is.
        evidence: Whether evidence stands before the score (``first``), after it (``last``, as the paper has it) or not at all.

    Raises:
        MagistrateError: No attribute, an empty or a repeated one, or an option that is none of the above.
    """

    name = "affinity"
    fields = Fields(("input",), ("ground_truth", "generation"))

    def __init__(
        self,
        attributes: Sequence[str],
        *,
        kind: Kind = "domain",
        output: Output = "none",
        evidence: Evidence = "first",
    ) -> None:
        check_kind(kind)
        if output not in get_args(Output):
            raise MagistrateError(f"unknown output `{output}`: affinity shows {', '.join(get_args(Output))}")
        if evidence not in get_args(Evidence):
            raise MagistrateError(f"evidence `{evidence}` is not one of {', '.join(get_args(Evidence))}")
        self.attributes = _check_attributes(attributes)
        self.kind = kind
        self.output = output
        if output != "none":
            self.fields = Fields(("input", output))
        self.evidence = evidence
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
        options = {"kind": self.kind, "output": self.output, "evidence": self.evidence}
        return {"prompts": words(), "attributes": self.attributes, **options}

    def render(self, sample: Sample) -> Inquiry:
        kinds = PLURAL[self.kind]
        text = words()
        asked = [
            text[f"rate_{self.kind}"],
            fill(text["rate_attributes"], {"kinds": kinds, "attributes": numbered(self.attributes)}),
            fill(text[PARTS[self.evidence][0]], {"kinds": kinds}),
            fill(text["rate_input"], {"input": turns_field(sample, "input")}),
        ]
        if self.output != "none":
            asked.append(fill(text["rate_output"], {"output": text_field(sample, self.output)}))
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
        return Reading(scores, detail=None if self.evidence == "none" else {"evidence": evidence})

    def _prompt(self, shared: str, group: range) -> Prompt:
        these = {"kinds": PLURAL[self.kind], "first": str(group[0]), "last": str(group[-1])}
        return Prompt((Message("user", f"{shared}\n\n{fill(words()['rate_these'], these)}"),), self._form(group))

    def _make_form(self, group: range) -> Form[BaseModel]:
        _, part, evidence_tokens = PARTS[self.evidence]
        return Form(answer_model("Ratings", {str(number): part for number in group}), len(group) * (OVERHEAD + evidence_tokens))


def _check_attributes(attributes: Sequence[str]) -> tuple[str, ...]:
    names = tuple(attributes)
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

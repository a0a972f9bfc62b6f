"""A judge that a person defines in a file: metrics, scales, level descriptions and examples. No Python is needed.

The words around the rubric stand in ``prompts/rubric.toml``; ``rubric_file`` reads the file and says what is wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from judges.form import AnswerModel, Form, answer_model
from judges.judge import Fields, Inquiry, Judge, JudgeExample, Level, Message, NumericScore, Prompt, Reading, Sample, Score
from judges.options import JudgeOptions
from judges.prompt_files import fill, prompt_file
from judges.rubric_check import load_rubric
from judges.rubric_file import REASONING, Example, Metric, RubricFile
from judges.samples import spelt_tags, turns_field

REASONING_TOKENS = 300
"""Room for the reasons, unless the rubric says how much an answer may have."""

SLACK = 16
"""Room for the end of the turn, and for white space where an engine's own constraint allows it."""


ANSWERS = ("response", "answer", "output", "actual_output", "prediction")
"""Fields that are taken for the judged answer, the first that there is."""


class Rubric(Judge):
    """Scores a sample by a rubric file.

    Every field the rubric names is required: a string, or a list of turns, each a string or an object with ``content`` or
    ``text`` and perhaps ``role`` or ``speaker``.

    Raises:
        MagistrateError: Reasoning is switched on, but the examples have no reasons or a metric is called ``reasoning``.
    """

    class Options(JudgeOptions):
        reasoning: bool | SkipJsonSchema[None] = Field(
            None, description="Whether the answer starts with reasons; the rubric says so by default."
        )

    name = "rubric"
    summary = "metrics of your own"
    source = "the file"
    fields = Fields(words="the fields that the rubric names")
    example = JudgeExample(
        {
            "dialogue": ["Anna: Are we still on for lunch?", "Ben: Yes, at noon by the fountain."],
            "summary": "Anna and Ben meet for lunch at noon.",
        }
    )
    reordering = "The rubric’s metrics are asked in the opposite order."
    options: Options

    def __init__(self, file: RubricFile, **options: Any) -> None:
        super().__init__(**options)
        reasoning = self.options.reasoning
        self.file = file if reasoning is None else file.with_reasoning(reasoning)
        self.name = file.name
        self.fields = _fields(file.fields)
        room = self.file.max_tokens or self.file.room + SLACK + REASONING_TOKENS * self.file.reasoning
        self.form: Form[AnswerModel] = Form(answer_model("Scores", _parts(self.file)), room)

    @classmethod
    def load(cls, path: Path, **options: Any) -> Rubric:
        """The judge that a rubric file defines.

        Raises:
            MagistrateError: The file cannot be read or is not in order, or an option does not go with it.
        """
        return cls(load_rubric(path), **options)

    def protocol(self) -> Mapping[str, Any]:
        return {"prompts": prompt_file("rubric"), "rubric": self.file.model_dump(mode="json")}

    @property
    def levels(self) -> Mapping[str, Level]:
        return {metric.name: "ordinal" if metric.numeric or metric.ordered else "nominal" for metric in self.file.metrics}

    @property
    def label_orders(self) -> Mapping[str, Sequence[str]]:
        return {metric.name: [str(label) for label in metric.legal] for metric in self.file.metrics if metric.ordered}

    @property
    def legal(self) -> Mapping[str, Collection[Score]]:
        return {metric.name: _legal(metric) for metric in self.file.metrics}

    @property
    def numeric_scores(self) -> Sequence[NumericScore]:
        return [
            NumericScore(metric.name, (metric.name,), tuple(score for score in metric.legal if isinstance(score, int)))
            for metric in self.file.metrics
            if metric.numeric
        ]

    def render(self, sample: Sample) -> Inquiry:
        shown, notes = self._shown(sample)
        opening, *earlier = self._shared
        messages = (opening, *earlier, Message("user", shown)) if earlier else (Message("user", opening.content + shown),)
        return Inquiry((Prompt(messages, self.form),), notes)

    def reordered(self) -> Rubric | None:
        content = self.file.model_dump(by_alias=True)
        turned = content | {"metric": content["metric"][::-1]}
        return Rubric(RubricFile.model_validate(turned)) if len(self.file.metrics) > 1 else None

    def read(self, *answers: str) -> Reading:
        (answer,) = answers
        scores = self.form.read(answer).model_dump(by_alias=True)
        justification = scores.pop(REASONING) if self.file.reasoning else None
        return Reading(scores=scores, justification=justification)

    @cached_property
    def _shared(self) -> tuple[Message, ...]:
        """What comes before every sample: the question, and the examples as turns already taken."""
        lead = self._question
        messages = []
        for example in self.file.examples:
            messages += [Message("user", lead + self._shown(example.sample)[0]), Message("assistant", self._answer(example))]
            lead = ""
        return tuple(messages) or (Message("user", lead),)

    @property
    def _question(self) -> str:
        words = prompt_file("rubric")
        keys = [words["reasoning_key"]] if self.file.reasoning else []
        keys += [fill(words["score_key"], {"name": metric.name, "scores": _scores(metric)}) for metric in self.file.metrics]
        values = {
            "instructions": self.file.instructions or words["instructions"],
            "metrics": "\n".join(map(_description, self.file.metrics)),
            "keys": "\n".join(keys),
        }
        return fill(words["question"], values)

    def _shown(self, sample: Sample) -> tuple[str, tuple[str, ...]]:
        """The sample's fields, each between tags, and a note for each field that spells a tag itself."""
        texts = {name: turns_field(sample, name) for name in self.file.fields}
        tags = [tag for name in texts for tag in (f"<{name}>", f"</{name}>")]
        notes = spelt_tags(texts, tags)
        shown = [fill(prompt_file("rubric")["field"], {"name": name, "value": text}) for name, text in texts.items()]
        return "\n".join(shown), tuple(notes)

    def _answer(self, example: Example) -> str:
        answer = {REASONING: example.reasoning} if self.file.reasoning else {}
        answer |= {metric.name: example.scores.get(metric.name) for metric in self.file.metrics}
        return json.dumps(answer, ensure_ascii=False)


def _fields(names: Sequence[str]) -> Fields:
    answer = next((name for name in ANSWERS if name in names), names[-1])
    return Fields(tuple(names), answer=answer, question=next((name for name in names if name != answer), None))


def _parts(file: RubricFile) -> dict[str, Any]:
    """The keys of an answer and their types: reasons before scores, every score an enumeration."""
    parts: dict[str, Any] = {REASONING: str} if file.reasoning else {}
    return parts | {metric.name: Literal[_legal(metric)] for metric in file.metrics}


def _legal(metric: Metric) -> tuple[Score, ...]:
    return (*metric.legal, None) if metric.optional else tuple(metric.legal)


def _description(metric: Metric) -> str:
    words = prompt_file("rubric")
    ranked = [(str(score), metric.levels.get(str(score))) for score in metric.legal]
    levels = [fill(words["level"], {"score": score, "meaning": meaning}) for score, meaning in ranked if meaning]
    values = {"name": metric.name, "description": metric.description, "scores": _scores(metric)}
    return "\n".join([fill(words["metric"], values), *levels])


def _scores(metric: Metric) -> str:
    """The legal scores in words, each label as it stands in the answer."""
    words = prompt_file("rubric")
    if metric.numeric:
        spelt = fill(words["range"], {"lowest": str(metric.legal[0]), "highest": str(metric.legal[-1])})
    else:
        labels = ", ".join(json.dumps(label, ensure_ascii=False) for label in metric.legal)
        spelt = fill(words["ordered_labels" if metric.ordered else "labels"], {"labels": labels})
    return spelt + (words["optional"] if metric.optional else "")

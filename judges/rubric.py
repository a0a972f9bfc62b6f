"""A judge defined in a file without Python: metrics, scales, level descriptions and examples.

``prompts/rubric.toml`` holds the words around the rubric; ``rubric_file`` defines the content of the file and its rules.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from judges.data.checked import FileKind, check_file_of, load_checked, read_checked
from judges.data.located import Problem, UnreadableError, locate
from judges.data.samples import spelt_tags, turns_field
from judges.form import AnswerModel, AnswerSchema, answer_model
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
from judges.options import JudgeOptions
from judges.prompt_files import fill, prompt_file
from judges.rubric_file import REASONING, Example, Metric, RubricFile, find_faults, spelt_place

REASONING_TOKENS = 300
"""Room for the reasons, unless the rubric sets ``max_tokens``."""

SLACK = 16
"""Room for the end of the turn, and for white space that an engine's own constraint allows."""

ANSWERS = ("response", "answer", "output", "actual_output", "prediction")
"""Names of the field with the judged answer; the first that a rubric has counts."""


class Rubric(Judge):
    """Scores a sample by a rubric file.

    Every field of the rubric is required: a string, or a list of turns, each a string or an object with ``content`` or ``text``,
    and optionally ``role`` or ``speaker``.

    Raises:
        MagistrateError: Reasoning is on, but the examples have no reasons or a metric is called ``reasoning``.
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
        self.form: AnswerSchema[AnswerModel] = AnswerSchema(answer_model("Scores", _parts(self.file)), room)

    @classmethod
    def load(cls, path: Path, **options: Any) -> Rubric:
        """Make the judge that a rubric file defines.

        Raises:
            MagistrateError: The file cannot be read or is invalid, or an option conflicts with it.
        """
        return cls(load_rubric(path), **options)

    def protocol(self) -> Mapping[str, Any]:
        return {"prompts": prompt_file("rubric"), "rubric": self.file.model_dump(mode="json")}

    @property
    def levels(self) -> Mapping[str, MeasurementLevel]:
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

    def render(self, sample: Sample) -> RenderedPrompts:
        shown, notes = self._shown(sample)
        opening, *earlier = self._shared
        messages = (opening, *earlier, Message("user", shown)) if earlier else (Message("user", opening.content + shown),)
        return RenderedPrompts((Prompt(messages, self.form),), notes)

    def reordered(self) -> Rubric | None:
        content = self.file.model_dump(by_alias=True)
        turned = content | {"metric": content["metric"][::-1]}
        return Rubric(RubricFile.model_validate(turned)) if len(self.file.metrics) > 1 else None

    def read(self, *answers: str) -> ParsedAnswer:
        (answer,) = answers
        scores = self.form.read(answer).model_dump(by_alias=True)
        justification = scores.pop(REASONING) if self.file.reasoning else None
        return ParsedAnswer(scores=scores, justification=justification)

    @cached_property
    def _shared(self) -> tuple[Message, ...]:
        """The messages before every sample: the question, and the examples as earlier turns."""
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
        """The sample's fields, each between tags, and a note for each field that contains a tag."""
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
    """The keys of an answer and their types: reasons first, every score an enumeration."""
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
    """The legal scores in words, each label spelt as in the answer."""
    words = prompt_file("rubric")
    if metric.numeric:
        spelt = fill(words["range"], {"lowest": str(metric.legal[0]), "highest": str(metric.legal[-1])})
    else:
        labels = ", ".join(json.dumps(label, ensure_ascii=False) for label in metric.legal)
        spelt = fill(words["ordered_labels" if metric.ordered else "labels"], {"labels": labels})
    return spelt + (words["optional"] if metric.optional else "")


RUBRIC_FILES = FileKind(RubricFile, "a rubric file", {"metric": Metric, "example": Example}, find_faults, spelt_place)
"""What a rubric file may have."""


UNNAMED = {"name": "criteria", "fields": ["answer"]}
"""What a file of criteria need not have."""


def load_rubric(path: Path) -> RubricFile:
    """Read a rubric file.

    Raises:
        MagistrateError: The file cannot be read or is invalid; the message names the first problem.
    """
    return RubricFile.model_validate(load_checked(path, RUBRIC_FILES))


def read_rubric(text: str, suffix: str) -> RubricFile:
    """Read the text of a rubric file with the suffix ``.toml``, ``.yaml`` or ``.yml``.

    Raises:
        MagistrateError: It is invalid; the message names the first problem and counts the others.
    """
    return RubricFile.model_validate(read_checked(text, suffix, RUBRIC_FILES, "the rubric"))


def read_metrics(text: str) -> tuple[Metric, ...]:
    """Read the metrics in the text of a rubric, in TOML or YAML, which needs neither a name nor fields.

    Raises:
        MagistrateError: It is invalid; the message names the first problem.
    """
    suffix = ".toml"
    try:
        locate(text, suffix)
    except UnreadableError:
        suffix = ".yaml"
    return RubricFile.model_validate(read_checked(text, suffix, RUBRIC_FILES, "the criteria", UNNAMED)).metrics


def check_criteria(path: Path) -> list[Problem]:
    """List every problem of a file of metrics, which needs neither a name nor fields, by line; empty if it is valid."""
    return check_file_of(path, RUBRIC_FILES, UNNAMED)


def check_rubric(path: Path) -> list[Problem]:
    """List every problem of a rubric file by line; empty if it is valid."""
    return check_file_of(path, RUBRIC_FILES)

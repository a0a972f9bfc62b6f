"""The content of rubric files, and the rules that it obeys."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    ValidationError,
    model_validator,
)

from judges.constraint import WHITE_SPACE
from judges.data.located import Fault, Place
from judges.data.samples import kind_of, turns_field
from judges.errors import MagistrateError, SampleError, did_you_mean

MOST_SCORES = 101
MOST_LISTED = 100
"""Maximum number of metrics of a rubric, and of fields of its samples."""

MOST_TOKENS = 1_000_000
"""Maximum room for an answer: more than any model's context."""

PASS_FAIL = "pass/fail"
REASONING = "reasoning"

Value = TypeVar("Value")

RANGE = re.compile(r"(0|-?[1-9][0-9]{0,8})-(0|-?[1-9][0-9]{0,8})")


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    if is_unwritable(value, "\t\r\n"):
        raise ValueError("holds a control character or half of a surrogate pair")
    return value.strip()


def is_unwritable(text: str, allowed: str = "") -> bool:
    """Whether a text holds a control character that is not allowed, or half of a surrogate pair."""
    return any(unicodedata.category(character) in ("Cc", "Cs") and character not in allowed for character in text)


def _named(pattern: str, words: str) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"`{value}` cannot be a name: use {words}")
        return value

    return AfterValidator(check)


def filled(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Check that a list has parts, and not too many."""
    if not values:
        raise ValueError("must list at least one")
    if len(values) > MOST_LISTED:
        raise ValueError(f"must list at most {MOST_LISTED}, not {len(values):,}")
    return values


def _fields(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in filled(names):
        if not name.strip() or is_unwritable(name):
            raise ValueError("a field's name must be one line of text")
        if names.count(name) > 1:
            raise ValueError(f"`{name}` is listed twice")
    return names


def _scale(value: object) -> str | tuple[str, ...]:
    if isinstance(value, list | tuple):
        return _labels(value)
    if not isinstance(value, str):
        raise ValueError(f'must be a range such as "1-5", a list of labels or "{PASS_FAIL}", not {kind_of(value)}')
    if value == PASS_FAIL:
        return value
    bounds = RANGE.fullmatch(value)
    if bounds is None:
        raise ValueError(f'unknown scale `{value}`: use a range such as "1-5", a list of labels or "{PASS_FAIL}"')
    width = int(bounds[2]) - int(bounds[1])
    if width <= 0:
        raise ValueError(f"the range `{value}` must go from a lower number to a higher one")
    if width >= MOST_SCORES:
        raise ValueError(f"the range `{value}` has more than {MOST_SCORES} scores")
    return value


def _labels(labels: list[object] | tuple[object, ...]) -> tuple[str, ...]:
    if not 2 <= len(labels) <= MOST_SCORES:
        raise ValueError(f"must list 2 to {MOST_SCORES} labels, not {len(labels)}")
    checked: list[str] = []
    for number, label in enumerate(labels, start=1):
        if isinstance(label, bool):
            raise ValueError(f"label {number} is a boolean: put it in quotes, as YAML reads yes, no, on and off as booleans")
        if not isinstance(label, str):
            raise ValueError(f'label {number} is {kind_of(label)}: put it in quotes, or write a range such as "1-5"')
        if not label.strip():
            raise ValueError(f"label {number} is empty")
        if label != label.strip():
            raise ValueError(f"label {number} begins or ends with white space, which a reader of the prompt does not see")
        if is_unwritable(label) or WHITE_SPACE in label:
            raise ValueError(f"label {number} must be one line without control characters or `{WHITE_SPACE}`")
        if label in checked:
            raise ValueError(f"label `{label}` is listed twice")
        checked.append(label)
    return tuple(checked)


Text = Annotated[str, AfterValidator(_text)]
JudgeName = Annotated[str, _named("[a-z][a-z0-9-]*", "a small letter, then small letters, digits or `-`")]
Scale = Annotated[str | tuple[str, ...], BeforeValidator(_scale)]


def scale_values(scale: str | tuple[str, ...]) -> tuple[int, ...] | tuple[str, ...]:
    """Every score of a scale except null, in its order."""
    if isinstance(scale, tuple):
        return scale
    bounds = RANGE.fullmatch(scale)
    return tuple(range(int(bounds[1]), int(bounds[2]) + 1)) if bounds else ("pass", "fail")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Metric(_Part):
    """A metric and its scale.

    Attributes:
        scale: A range such as ``1-5``, labels, or ``pass/fail``.
        ordered: Whether the labels are in order, worst first.
        optional: Whether the score may be null, which means that the metric does not apply.
        levels: Score, spelt as text, to its meaning.
    """

    name: Annotated[str, _named("[A-Za-z][A-Za-z0-9_-]*", "a letter, then letters, digits, `_` or `-`")]
    description: Text
    scale: Scale
    ordered: StrictBool = False
    optional: StrictBool = False
    levels: dict[str, Text] = {}

    @cached_property
    def legal(self) -> tuple[int, ...] | tuple[str, ...]:
        """Every score except null, in the order of the scale."""
        return scale_values(self.scale)

    @property
    def numeric(self) -> bool:
        """Whether its scores are whole numbers."""
        return isinstance(self.legal[0], int)


class Example(_Part):
    """A sample and its answer. An optional metric missing from ``scores`` is null, which TOML cannot spell."""

    sample: dict[str, Any]
    reasoning: Text | None = None
    scores: dict[str, Any]


class RubricFile(_Part):
    """The content of a rubric file, which obeys all rules.

    Attributes:
        fields: The fields of a sample, in the order shown.
        reasoning: Whether an answer starts with reasons.
        max_tokens: Room for an answer; ``None`` leaves it to the judge.
    """

    name: JudgeName
    instructions: Text | None = None
    fields: Annotated[tuple[str, ...], AfterValidator(_fields)]
    reasoning: StrictBool = True
    max_tokens: StrictInt | None = None
    metrics: Annotated[tuple[Metric, ...], Field(alias="metric"), AfterValidator(filled)]
    examples: Annotated[tuple[Example, ...], Field(alias="example")] = ()

    @model_validator(mode="after")
    def _obeys_rules(self) -> RubricFile:
        for fault in find_faults(self.model_dump(by_alias=True)):
            raise ValueError(f"{'.'.join(map(str, fault.place))}: {fault.message}")
        return self

    @property
    def room(self) -> int:
        """Maximum length of an answer's scores in bytes, and so in tokens."""
        return _room(self.metrics, self.reasoning)

    def with_reasoning(self, reasoning: bool) -> RubricFile:
        """The same rubric with or without reasons.

        Raises:
            MagistrateError: The examples have no reasons, or a metric is called ``reasoning``.
        """
        content = self.model_dump(by_alias=True) | {"reasoning": reasoning}
        if not reasoning:
            content["example"] = [example | {"reasoning": None} for example in content["example"]]
        for fault in find_faults(content):
            raise MagistrateError(f"{self.name}: {spelt_place(fault.place, content)}: {fault.message}")
        return RubricFile.model_validate(content)


def find_faults(content: Mapping[str, Any]) -> Iterator[Fault]:
    """Find conflicts between values, among those that are valid by themselves."""
    metrics = []
    if len(_listed(content, "metric")) > MOST_LISTED:
        return
    for number, table in _tables(content, "metric"):
        yield from _metric_rules(content, table, ("metric", number))
        metric = _metric(table)
        if metric is not None:
            metrics.append(metric)
            yield from _level_rules(metric, ("metric", number))
    room, most = content.get("max_tokens"), _room(metrics, content.get("reasoning", True))
    if type(room) is int and metrics and room < most:
        yield Fault(("max_tokens",), f"{room} is too small: an answer's scores may need {most}")
    if type(room) is int and room > MOST_TOKENS:
        yield Fault(("max_tokens",), f"is too large: an answer may have {MOST_TOKENS:,}")
    for number, table in _tables(content, "example"):
        yield from _example_rules(content, metrics, table, ("example", number))


def _metric_rules(content: Mapping[str, Any], table: Mapping[str, Any], place: Place) -> Iterator[Fault]:
    name, number = table.get("name"), int(place[-1])
    if isinstance(name, str) and name in _names(content)[:number]:
        yield Fault((*place, "name"), f"metric `{name}` is defined twice")
    if name == REASONING and content.get("reasoning", True) is True:
        yield Fault((*place, "name"), f"a metric cannot be called `{REASONING}` while reasoning is on")


def _level_rules(metric: Metric, place: Place) -> Iterator[Fault]:
    if metric.ordered and isinstance(metric.scale, str):
        yield Fault((*place, "ordered"), "is only for a list of labels")
    for level in metric.levels:
        if level not in map(str, metric.legal):
            yield Fault((*place, "levels", level), f"is not a score of this metric: {_legal(metric)}")


def _example_rules(content: Mapping[str, Any], metrics: list[Metric], table: Mapping[str, Any], place: Place) -> Iterator[Fault]:
    reasoning = content.get("reasoning", True)
    if reasoning is True and table.get("reasoning") is None:
        yield Fault((*place, "reasoning"), "is missing: the answers of this rubric start with reasons")
    if reasoning is False and table.get("reasoning") is not None:
        yield Fault((*place, "reasoning"), "is not allowed: this rubric has `reasoning = false`")
    if isinstance(table.get("sample"), Mapping):
        yield from _sample_rules(content.get("fields"), table["sample"], (*place, "sample"))
    if isinstance(table.get("scores"), Mapping):
        yield from _score_rules(_names(content), metrics, table["scores"], (*place, "scores"))


def _sample_rules(fields: object, sample: Mapping[str, Any], place: Place) -> Iterator[Fault]:
    if not isinstance(fields, list | tuple) or not all(isinstance(name, str) for name in fields):
        return
    for name in fields:
        try:
            turns_field(sample, name)
        except SampleError as error:
            yield Fault((*place, name), error.problem)
    for name in sample:
        if name not in fields:
            yield Fault((*place, name), f"is not one of this rubric's fields{did_you_mean(name, list(fields))}")


def _score_rules(names: list[str], metrics: list[Metric], scores: Mapping[str, Any], place: Place) -> Iterator[Fault]:
    for name in scores:
        if name not in names:
            yield Fault((*place, name), f"is not a metric of this rubric{did_you_mean(name, names)}")
    for metric in metrics:
        score = scores.get(metric.name)
        if metric.name not in scores and not metric.optional:
            yield Fault((*place, metric.name), "is missing")
        elif score is None and not metric.optional:
            yield Fault((*place, metric.name), "is null, which is only for an optional metric")
        elif score is not None and not any(type(score) is type(legal) and score == legal for legal in metric.legal):
            shown = repr(score) if isinstance(score, int | float | str) else kind_of(score)
            yield Fault((*place, metric.name), f"{shown} is not a score of this metric: {_legal(metric)}")


def _legal(metric: Metric) -> str:
    if metric.numeric:
        return f"use {metric.legal[0]} to {metric.legal[-1]}"
    return f"use {', '.join(f'`{score}`' for score in metric.legal)}"


def _metric(table: Mapping[str, Any]) -> Metric | None:
    try:
        return Metric.model_validate(table)
    except ValidationError:
        return None


def _listed(content: Mapping[str, Any], key: str) -> list[Any]:
    value = content.get(key)
    return list(value) if isinstance(value, list | tuple) else []


def _tables(content: Mapping[str, Any], key: str) -> list[tuple[int, Mapping[str, Any]]]:
    return [(number, table) for number, table in enumerate(_listed(content, key)) if isinstance(table, Mapping)]


def _names(content: Mapping[str, Any]) -> list[str]:
    """The name of each metric in the list, empty if it has none."""
    tables = _listed(content, "metric")
    return [str(table.get("name", "")) if isinstance(table, Mapping) else "" for table in tables]


def _room(metrics: list[Metric] | tuple[Metric, ...], reasoning: object) -> int:
    longest: dict[str, int | str | None] = {REASONING: ""} if reasoning is True else {}
    for metric in metrics:
        scores = [*metric.legal, *([None] if metric.optional else [])]
        longest[metric.name] = max(scores, key=lambda score: len(_json(score)))
    return len(_json(longest))


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def spelt_place(place: Place, content: Mapping[str, Any]) -> str:
    """Spell a place for the reader: a metric by its name, an example by its number."""
    parts = [str(part + 1) if isinstance(part, int) else part for part in place]
    if len(place) > 1 and place[0] == "metric":
        parts[1] = next((name for number, name in enumerate(_names(content)) if number == place[1] and name), parts[1])
    return ".".join(parts)

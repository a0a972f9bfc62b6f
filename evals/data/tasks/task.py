"""A task: what the rows of a data set mean. A TOML file says it, so that a new task needs no code."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from judges.data.described import described, read_toml
from judges.data.samples import ABSENT, value_at
from judges.errors import MagistrateError
from judges.qualeval import Task as Words

FOLDER = Path(__file__).parent
SUFFIX = ".toml"

NUMBERED = ":numbered"
"""Behind a field's name in a text: its items are shown with their numbers."""

_FIELD = re.compile(r"\{([^{}]+)\}")

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""White space around it goes, so that a text in TOML may stand on lines of its own."""


class Fields(BaseModel):
    """Where a row holds what.

    ``{name}`` in a text stands for the row's field of that name, ``{options.A}`` for one within a nested field; a list is shown
    a line an item. ``{name:numbered}`` begins each item with its number, ``[1]``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Text = Field(description="What a model is given.")
    truth: Text = Field(description="What it should answer.")
    id: str | None = Field(None, description="The field with a row's id; its number, counted from 1, if left out.")
    label: str | None = Field(
        None, description="A field with a human label of what the row is about, to check the study against."
    )
    answer: str | None = Field(
        None, description="The field that a generated answer goes into: the lines of `generate` are then whole rows."
    )
    columns: tuple[str, ...] | None = Field(None, description="Names of a CSV file's columns, where it has no header.")


class Task(BaseModel):
    """What the rows of a data set mean, and how answers are measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: Text
    instruction: Text = Field(description="What a model has to do. Insights and generation quote it.")
    fields: Fields
    metric: Text = Field(description="How an answer is measured; `evals.metrics` lists the names.")
    metric_options: dict[str, Any] = Field(default_factory=dict)
    words: Words = Field("general", description="The wording that asks for attributes.")
    subtasks: Literal["used", "needed"] = Field(
        "used",
        description="What sub-tasks are rated by: how far an output uses them, or, where an output is but a choice, how far the "
        "input needs them. Without outputs there is no calibration.",
    )

    def labelled(self, field: str | None) -> Task:
        """The task with another field for people's labels; ``None`` keeps its own."""
        return self if field is None else self.model_copy(update={"fields": self.fields.model_copy(update={"label": field})})

    @classmethod
    def load(cls, name: str | Path) -> Task:
        """Read a task.

        Args:
            name: One of ``task_names()``, or a TOML file.

        Raises:
            MagistrateError: There is no such task, or its file is wrong, with the place.
        """
        path = Path(name)
        if path.suffix.lower() != SUFFIX:
            if str(name) not in task_names():
                raise MagistrateError(f"there is no task `{name}`: give one of {', '.join(task_names())}, or a {SUFFIX} file")
            path = FOLDER / f"{name}{SUFFIX}"
        return described(cls, {"name": path.stem, **read_toml(path, "a task")}, path)

    def input_of(self, row: Mapping[str, Any]) -> str:
        """What a model is given.

        Raises:
            KeyError: The row lacks a field.
        """
        return _filled(self.fields.input, row)

    def truth_of(self, row: Mapping[str, Any]) -> str:
        """What it should answer.

        Raises:
            KeyError: The row lacks a field.
        """
        return _filled(self.fields.truth, row)


def task_names() -> list[str]:
    """The tasks that come with Magistrate."""
    return sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}"))


def _filled(text: str, row: Mapping[str, Any]) -> str:
    return _FIELD.sub(lambda field: _value(field[1], row), text)


def _value(name: str, row: Mapping[str, Any]) -> str:
    bare = name.removesuffix(NUMBERED)
    if bare == name or value_at(row, name, ABSENT) is not ABSENT:
        return _shown(_content(row, name))
    content = _content(row, bare)
    items = content if isinstance(content, list) else [content]
    return "\n".join(f"[{number}] {_shown(item)}" for number, item in enumerate(items, start=1))


def _content(row: Mapping[str, Any], name: str) -> Any:
    """The value of a field, or at a path into a nested one.

    Raises:
        KeyError: The row has no such value.
    """
    found = value_at(row, name, ABSENT)
    if found is ABSENT:
        raise KeyError(name)
    return found


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_shown(one) for one in value)
    return json.dumps(value, ensure_ascii=False)

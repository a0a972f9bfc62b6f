"""A task: what the rows of a data set mean. A TOML file says it, so that a new task needs no code."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from judges.discovery import Task as Words
from judges.errors import MagistrateError, reason_of
from judges.input_file import check_file

FOLDER = Path(__file__).parent
SUFFIX = ".toml"

_FIELD = re.compile(r"\{([^{}]+)\}")

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""White space around it goes, so that a text in TOML may stand on lines of its own."""


class Fields(BaseModel):
    """Where a row holds what. ``{name}`` in a text stands for the row's field of that name; a list is shown a line an item."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Text = Field(description="What a model is given.")
    truth: Text = Field(description="What it should answer.")
    id: str | None = Field(None, description="The field with a row's id; its number, counted from 1, if left out.")
    label: str | None = Field(
        None, description="A field with a human label of what the row is about, to check the study against."
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
    words: Words = Field("general", description="Whose words ask for attributes.")

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
        check_file(path)
        try:
            found = tomllib.loads(path.read_bytes().decode())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise MagistrateError(f"the task {path} cannot be read: {reason_of(error)}") from None
        try:
            return cls.model_validate({"name": path.stem, **found})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            why = f"one of {', '.join(get_args(Words))}" if place == "words" else str(first["msg"])
            raise MagistrateError(f"the task {path}: `{place}`: {why}") from None

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
    return _FIELD.sub(lambda found: _shown(row[found[1]]), text)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_shown(one) for one in value)
    return json.dumps(value, ensure_ascii=False)

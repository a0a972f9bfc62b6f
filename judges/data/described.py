"""TOML files whose content a Pydantic model describes: arenas, juries, tasks, recipes, models to serve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from judges.data.files import check_file, parse_toml
from judges.errors import MagistrateError, reason_of

Described = TypeVar("Described", bound=BaseModel)

_KINDS = {"integer": "whole number", "string": "text", "boolean": "true or false", "dictionary": "table", "path": "path"}
"""Pydantic's names of types to those of this project."""

_REQUIREMENTS = {
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
}
"""Pydantic's words for bounds to those of this project."""


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Read a TOML file.

    Args:
        path: The file.
        what: What it should be, with its article, for messages.

    Raises:
        MagistrateError: It is missing, cannot be read, or is not TOML.
    """
    check_file(path)
    try:
        return parse_toml(path.read_bytes())
    except FileNotFoundError:
        raise MagistrateError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise MagistrateError(f"{path} cannot be read as {what}: {reason_of(error)}") from None


def described(model: type[Described], content: Mapping[str, Any], path: Path | str) -> Described:
    """Check the content of a file against its model.

    Raises:
        MagistrateError: A key is unknown or missing, or a value is not allowed; the message names the file and the key.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise MagistrateError(f"{path}: {first_fault(error, model)}") from None


def first_fault(error: ValidationError, model: type[BaseModel]) -> str:
    """The first fault of a file: its key, in which list items are counted from 1, and a clause that says what is wrong."""
    faults = error.errors(include_url=False)
    # A key that is misspelt is unknown, and may be missing too.
    fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    key = ".".join(f"{part + 1}" if isinstance(part, int) else part for part in fault["loc"]) or "the file"
    if fault["type"] == "extra_forbidden":
        known = next(_models_at(model, fault["loc"][:-1]), model)
        return f"{key}: is unknown; it may have {', '.join(known.model_fields)}"
    if fault["type"] == "missing":
        return f"{key}: is missing"
    return f"{key}: {_requirement(fault)}"


def _requirement(fault: ErrorDetails) -> str:
    if fault["type"] == "value_error":
        return fault["msg"].removeprefix("Value error, ")
    words = fault["msg"].partition(", unable to")[0].replace("Input should", "must", 1)
    for pydantics, ours in _REQUIREMENTS.items():
        words = words.replace(pydantics, ours)
    before, valid, kind = words.partition("a valid ")
    words = f"{before}{'' if kind == 'boolean' else 'a '}{_KINDS.get(kind, kind)}" if valid else words
    value = fault["input"]
    return f"{words}, not {value!r}" if isinstance(value, str | int | float) else words


def _models_at(model: type[BaseModel], place: tuple[int | str, ...]) -> Iterator[type[BaseModel]]:
    """The models that describe the content at a place, as keys and list positions lead to it."""
    if not place:
        yield model
    elif isinstance(place[0], str) and place[0] in model.model_fields:
        rest = place[1:]
        for kind in _models_in(model.model_fields[place[0]].annotation):
            yield from _models_at(kind, tuple(part for part in rest if part in kind.model_fields) if rest else ())


def _models_in(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models_in(part)

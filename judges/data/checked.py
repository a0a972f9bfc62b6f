"""Files whose every problem is reported with its line: rubrics and templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from judges.data.located import Fault, LocatedFile, Place, Problem, UnreadableError, line_of, locate, read_located
from judges.data.samples import kind_of
from judges.errors import MagistrateError, did_you_mean

MOST_FAULTS = 200
"""Maximum number of problems reported for one file; a file with more is of another kind, and each takes time to describe."""

EXPECTED = {
    "string_type": "a string",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "tuple_type": "a list",
    "dict_type": "a table of keys",
    "model_type": "a table of keys",
}

Content = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file.

    Attributes:
        model: What its content must match.
        noun: What it is, with its article.
        parts: Key to the model of the tables there.
        rules: Finds the conflicts between values, among those that are valid by themselves.
        spelt: Spells a place for the reader.
    """

    model: type[BaseModel]
    noun: str
    parts: Mapping[str, type[BaseModel]]
    rules: Callable[[Content], Iterator[Fault]]
    spelt: Callable[[Place, Content], str]


def load_checked(path: Path, kind: FileKind) -> Content:
    """Read a file.

    Raises:
        MagistrateError: The file cannot be read or is invalid; the message names the first problem.
    """
    content, problems = _examine(path, kind)
    for problem in problems:
        raise MagistrateError(f"{path}{f' line {problem.line}' if problem.line else ''}: {problem.message}")
    return content


def read_checked(text: str, suffix: str, kind: FileKind, name: str, given: Content | None = None) -> Content:
    """Read the text of a file.

    Args:
        text: The text.
        suffix: ``.toml``, ``.yaml`` or ``.yml``.
        kind: The kind of file.
        name: What messages call it.
        given: Values that it need not have.

    Raises:
        MagistrateError: It is invalid; the message names the first problem and counts the others.
    """
    try:
        content, problems = _problems(_completed(locate(text, suffix), given), kind)
    except UnreadableError as error:
        content, problems = {}, [error.problem]
    if problems:
        first, more = problems[0], len(problems) - 1
        place = f"{name}, line {first.line}" if first.line else name
        rest = f" (and {'at least ' * (more + 1 >= MOST_FAULTS)}{more} more problem{'s' * (more > 1)})" if more else ""
        raise MagistrateError(f"{place}: {first.message}{rest}")
    return content


def check_file_of(path: Path, kind: FileKind, given: Content | None = None) -> list[Problem]:
    """List every problem of a file by line; empty if it is valid. ``given`` are values that it need not have."""
    return _examine(path, kind, given)[1]


def _examine(path: Path, kind: FileKind, given: Content | None = None) -> tuple[Content, list[Problem]]:
    try:
        return _problems(_completed(read_located(path), given), kind)
    except UnreadableError as error:
        return {}, [error.problem]


def _completed(source: LocatedFile, given: Content | None) -> LocatedFile:
    return replace(source, content={**given, **source.content}) if given and isinstance(source.content, Mapping) else source


def _problems(source: LocatedFile, kind: FileKind) -> tuple[Content, list[Problem]]:
    content: Any = source.content
    if not isinstance(content, Mapping):
        return {}, [Problem(1, f"{kind.noun} must be a table of keys, not {kind_of(content)}")]
    faults = list(islice(chain(source.faults, _shape(content, kind), kind.rules(content)), MOST_FAULTS))
    lines = source.lines() if faults else {}
    problems = {Problem(fault.line or line_of(fault.place, lines), _sentence(fault, content, kind)): None for fault in faults}
    return content, sorted(problems, key=lambda problem: problem.line or 0)


def _shape(content: Content, kind: FileKind) -> Iterator[Fault]:
    """Find values that are invalid by themselves; ``FileKind.rules`` reports the conflicts between them."""
    try:
        kind.model.model_validate(content)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            if problem["loc"]:
                yield Fault(problem["loc"], _complaint(problem, kind))


def _complaint(problem: ErrorDetails, kind: FileKind) -> str:
    fault, value = problem["type"], problem["input"]
    if fault == "missing":
        return "is missing"
    if fault == "value_error":
        return str(problem["ctx"]["error"])
    if fault == "extra_forbidden":
        part = kind.parts.get(str(problem["loc"][0])) if len(problem["loc"]) > 1 else None
        return f"is not a key of {kind.noun}{did_you_mean(str(problem['loc'][-1]), _keys(part or kind.model))}"
    if fault in EXPECTED:
        shown = str(value) if isinstance(value, float) else kind_of(value)
        quote = ": put it in quotes" if fault == "string_type" and not isinstance(value, list | Mapping | None) else ""
        return f"must be {EXPECTED[fault]}, not {shown}{quote}"
    return problem["msg"]


def _keys(part: type[BaseModel]) -> list[str]:
    return [known.alias or name for name, known in part.model_fields.items()]


def _sentence(fault: Fault, content: Content, kind: FileKind) -> str:
    return f"{kind.spelt(fault.place, content)}: {fault.message}" if fault.place else fault.message

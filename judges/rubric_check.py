"""What is wrong with a rubric file, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from judges.errors import MagistrateError
from judges.located import Fault, LocatedFile, Problem, UnreadableError, line_of, locate, read_located
from judges.rubric_file import Example, Metric, RubricFile, find_faults, near_key, spelt_place
from judges.samples import kind_of

MOST_FAULTS = 200
"""Problems listed of one file; a file that has more is no rubric, and each takes time to put in words."""

EXPECTED = {
    "string_type": "a string",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "tuple_type": "a list",
    "dict_type": "a table of keys",
    "model_type": "a table of keys",
}


def load_rubric(path: Path) -> RubricFile:
    """Read a rubric file.

    Raises:
        MagistrateError: The file cannot be read, or is not in order; the message names the first problem.
    """
    content, problems = _examine(path)
    for problem in problems:
        raise MagistrateError(f"{path}{f' line {problem.line}' if problem.line else ''}: {problem.message}")
    return RubricFile.model_validate(content)


def read_rubric(text: str, suffix: str) -> RubricFile:
    """Read the text of a rubric file.

    Args:
        text: What the file would hold.
        suffix: ``.toml``, ``.yaml`` or ``.yml``, which says how to read it.

    Raises:
        MagistrateError: It is not in order; the message names the first problem and counts the others.
    """
    try:
        content, problems = _problems(locate(text, suffix))
    except UnreadableError as error:
        content, problems = None, [error.problem]
    if problems:
        first, more = problems[0], len(problems) - 1
        place = f"the rubric, line {first.line}" if first.line else "the rubric"
        rest = f" (and {'at least ' * (more + 1 >= MOST_FAULTS)}{more} more problem{'s' * (more > 1)})" if more else ""
        raise MagistrateError(f"{place}: {first.message}{rest}")
    return RubricFile.model_validate(content)


def check_rubric(path: Path) -> list[Problem]:
    """Everything that is wrong with a rubric file, by line; empty where it is in order."""
    return _examine(path)[1]


def _examine(path: Path) -> tuple[Any, list[Problem]]:
    try:
        return _problems(read_located(path))
    except UnreadableError as error:
        return None, [error.problem]


def _problems(source: LocatedFile) -> tuple[Any, list[Problem]]:
    content = source.content
    if not isinstance(content, Mapping):
        return None, [Problem(1, f"a rubric file must be a table of keys, not {kind_of(content)}")]
    faults = list(islice(chain(source.faults, _shape(content), find_faults(content)), MOST_FAULTS))
    lines = source.lines() if faults else {}
    problems = {Problem(fault.line or line_of(fault.place, lines), _sentence(fault, content)): None for fault in faults}
    return content, sorted(problems, key=lambda problem: problem.line or 0)


def _shape(content: Mapping[str, Any]) -> Iterator[Fault]:
    """What is wrong with single values. What is wrong between them is for ``find_faults``, which knows the place."""
    try:
        RubricFile.model_validate(content)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            if problem["loc"]:
                yield Fault(problem["loc"], _words(problem))


def _words(problem: ErrorDetails) -> str:
    kind, value = problem["type"], problem["input"]
    if kind == "missing":
        return "is missing"
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind == "extra_forbidden":
        parts: dict[object, type[BaseModel]] = {"metric": Metric, "example": Example}
        part = parts.get(problem["loc"][0]) if len(problem["loc"]) > 1 else None
        return f"is not a key of a rubric file{near_key(str(problem['loc'][-1]), _keys(part or RubricFile))}"
    if kind in EXPECTED:
        shown = str(value) if isinstance(value, float) else kind_of(value)
        quote = ": put it in quotes" if kind == "string_type" and not isinstance(value, list | Mapping | None) else ""
        return f"must be {EXPECTED[kind]}, not {shown}{quote}"
    return problem["msg"]


def _keys(part: type[BaseModel]) -> list[str]:
    return [known.alias or name for name, known in part.model_fields.items()]


def _sentence(fault: Fault, content: Mapping[str, Any]) -> str:
    return f"{spelt_place(fault.place, content)}: {fault.message}" if fault.place else fault.message

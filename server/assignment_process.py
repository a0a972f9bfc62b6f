"""Reads an assignment request, solves it and writes the answer; run as a module, in a process of its own.

    python -m server.assignment_process SERVER

reads the body from standard input and ends with the process SERVER. If it refuses the body, its output says why.

A matrix of a million numbers comes as JSON, so its numbers go to NumPy without a Pydantic model of their own.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import chain
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, StrictInt, StrictStr, ValidationError, WithJsonSchema
from pydantic_core import from_json, to_json

import solver
from judges.data.samples import kind_of
from judges.engines.own_session import end_with
from server.bodies import Body, ValueCount, at_most
from server.errors import ApiError
from solver.assignment import DEFAULT_SLACK
from solver.rows import MOST_COLUMNS

MOST_ROWS = 200_000
TOO_MANY_ROWS = f"has too many rows; at most {MOST_ROWS:,} are solved over HTTP, and any number by `magistrate assign`"

OTHER_LISTS = 16
"""Lists and objects of a request that are not rows of its scores, more than there are fields."""

LONGEST_NAME = 1_000
"""Characters of an attribute's name or of a row's id."""

MOST_SLACK = 1e9

REFUSED = 3
"""The exit status of a process whose output says what is wrong with the body."""

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Choices = Annotated[int, Field(strict=True, ge=0, le=MOST_COLUMNS)]
Count = Annotated[int, Field(strict=True, ge=0, le=MOST_ROWS)]
Name = Annotated[str, Field(strict=True, max_length=LONGEST_NAME)]
Matrix = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_ROWS,
            "items": {
                "type": "array",
                "minItems": 1,
                "maxItems": MOST_COLUMNS,
                "items": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            },
        }
    ),
]


class AssignmentRequest(Body):
    """Affinities of rows to attributes, and how many rows each attribute should get."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "attributes": ["Food", "Travel"],
                    "scores": [[5, 1], [1, 5], [4, 2], [5, 2]],
                    "priors": {"Food": 0.5, "Travel": 0.5},
                    "k": 1,
                    "slack": 0,
                }
            ]
        },
    )

    scores: Matrix = Field(
        description="A list for each row, of one affinity for each attribute. Null: the row may not get the attribute."
    )
    attributes: list[Name] | None = Field(
        None, max_length=MOST_COLUMNS, description="The attributes' names, in the order of a row's affinities."
    )
    ids: Annotated[list[Name], Field(fail_fast=True)] | Annotated[list[StrictInt], Field(fail_fast=True)] | None = Field(
        None, max_length=MOST_ROWS, description="An id for each row. Ties between rows are broken in the order of ids."
    )
    priors: Annotated[dict[StrictStr, Number] | list[Number] | None, at_most(MOST_COLUMNS)] = Field(
        None,
        max_length=MOST_COLUMNS,
        description="The share of each attribute, summing to 1, or whole counts: by name, or in order. By default an attribute's "
        "mean affinity over the sum of all means.",
    )
    k: Choices | Annotated[list[Choices], Field(fail_fast=True)] = Field(
        2, description="How many attributes a row gets: a number, or a list with one for each row."
    )
    slack: Annotated[float, Field(strict=True, ge=0, le=MOST_SLACK)] | Literal["auto"] = Field(
        DEFAULT_SLACK,
        description="By which share counts may differ from the priors. `auto`: 0.1, or the smallest that is feasible.",
    )
    lower: list[Count] | None = Field(
        None,
        max_length=MOST_COLUMNS,
        description="The fewest rows of each attribute; with `upper`, in place of priors and slack.",
    )
    upper: list[Count] | None = Field(None, max_length=MOST_COLUMNS, description="The most rows of each attribute.")
    weights: Annotated[list[Number], Field(fail_fast=True)] | None = Field(
        None, max_length=MOST_ROWS, description="Weight of each row's affinities, above 0."
    )


def answer_of(body: bytes) -> bytes:
    """Read a request, solve it, and write the result.

    Args:
        body: JSON of an ``AssignmentRequest``.

    Raises:
        ApiError: 400: the body is not such a request, or no assignment fits its bounds.
    """
    request = _read(body)
    scores = _matrix(request.scores)
    labels = _labels(request.attributes, scores.shape[1])
    if isinstance(request.priors, dict) and labels is None:
        raise ApiError(400, "`priors` go by name, so give the names in `attributes`", "invalid_value", "priors")
    if (request.lower is None) != (request.upper is None):
        raise ApiError(400, "give `lower` and `upper` together, or neither", "invalid_value", "lower")
    try:
        result = solver.assign(
            scores,
            request.priors,
            request.k,
            request.slack,
            bounds=None if request.lower is None or request.upper is None else (request.lower, request.upper),
            weights=request.weights,
            ids=None if request.ids is None else np.array(request.ids, object),  # so that a long id does not widen every row
            labels=labels,
        )
    except solver.InfeasibleError as error:
        raise ApiError(400, str(error), "infeasible") from None
    except solver.SolverError as error:
        raise ApiError(400, str(error), "invalid_assignment") from None
    return _answer(result)


def _read(body: bytes) -> AssignmentRequest:
    if ValueCount().add_all(body).containers > MOST_ROWS + OTHER_LISTS:
        raise _wrong(TOO_MANY_ROWS)
    try:
        content = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise ApiError(400, f"the body is not JSON: {error}", "invalid_json") from None
    try:
        return AssignmentRequest.model_validate(content)
    except ValidationError as error:
        raise _fault(error) from None


def _fault(error: ValidationError) -> ApiError:
    """Describe the first field at fault. Of several legal forms, the one that was read furthest was meant."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    for problem in problems:
        problem["msg"] = problem["msg"].removeprefix("Value error, ")
    field = problems[0]["loc"][:1]
    if not field:
        return ApiError(400, f"the body: {problems[0]['msg']}", "invalid_value")
    problems = [problem for problem in problems if problem["loc"][:1] == field]
    deepest = max(problems, key=lambda problem: len(problem["loc"]))
    messages = dict.fromkeys(problem["msg"] for problem in problems if len(problem["loc"]) == len(deepest["loc"]))
    numbers = "".join(f", number {part + 1}" for part in deepest["loc"] if isinstance(part, int))
    what = deepest["msg"] if numbers else " or ".join(messages)
    return ApiError(400, f"`{field[0]}`{numbers}: {what}", "invalid_value", str(field[0]))


def _matrix(rows: Any) -> NDArray[Any]:
    """Convert the scores, each a number or null, to an ``(N, M)`` matrix, of whole numbers if all are."""
    if not isinstance(rows, list) or not rows or set(map(type, rows)) != {list}:
        raise _wrong("must be a list of rows, each a list of numbers")
    if len(rows) > MOST_ROWS:
        raise _wrong(TOO_MANY_ROWS)
    width = len(rows[0])
    if set(map(len, rows)) != {width}:
        number = next(number for number, row in enumerate(rows, 1) if len(row) != width)
        raise _wrong(f"has {width} numbers in row 1 and {len(rows[number - 1])} in row {number}")
    if not 1 <= width <= MOST_COLUMNS:
        raise _wrong(f"has {width} numbers a row; there may be 1 to {MOST_COLUMNS}")
    kinds = set(map(type, chain.from_iterable(rows)))
    if not kinds <= {int, float, type(None)}:
        cells = ((number, score) for number, row in enumerate(rows, 1) for score in row)
        number, score = next((number, score) for number, score in cells if type(score) not in (int, float, type(None)))
        raise _wrong(f"holds {kind_of(score)} in row {number}: it must be a number or null")
    kind = np.int64 if kinds == {int} else np.float64
    try:
        values = np.fromiter(chain.from_iterable(_numbers(rows, kinds)), kind, len(rows) * width)
    except OverflowError:
        raise _wrong("holds a number that is too large") from None
    if np.isinf(values).any():
        raise _wrong("holds a number that is too large")
    return values.reshape(len(rows), width)


def _numbers(rows: list[list[Any]], kinds: set[type]) -> Any:
    """Replace null by NaN, which JSON does not have."""
    if type(None) not in kinds:
        return rows
    return ([np.nan if score is None else score for score in row] for row in rows)


def _wrong(problem: str) -> ApiError:
    return ApiError(400, f"`scores` {problem}", "invalid_value", "scores")


def _labels(names: list[str] | None, attributes: int) -> list[str] | None:
    if names is None:
        return None
    if len(names) != attributes:
        problem = f"`attributes` has {len(names)} names, and `scores` {attributes} numbers a row"
        raise ApiError(400, problem, "invalid_value", "attributes")
    if twice := {name for name in names if names.count(name) > 1}:
        raise ApiError(400, f"`attributes` names `{min(twice)}` twice", "invalid_value", "attributes")
    return names


def _answer(result: solver.Assignment) -> bytes:
    chosen: list[list[Any]] = result.named.tolist()
    if (result.chosen < 0).any():
        chosen = [[name for name in row if name is not None] for row in chosen]
    numbers = {name: getattr(result, name).tolist() for name in ("counts", "lower", "upper", "widened", "prices")}
    return to_json(
        {
            "object": "assignment",
            "chosen": chosen,
            "objective": float(result.objective),
            "bound": float(result.bound),
            "optimal": bool(result.optimal),
            "attributes": None if result.labels is None else list(result.labels),
            **numbers,
            "ties": int(result.ties),
            "slack": result.slack,
            "priors": None if result.priors is None else result.priors.tolist(),
        }
    )


def main() -> None:
    """Read, solve and write. Exits without freeing its memory, which would take as long as reading it."""
    end_with(int(sys.argv[1]))
    try:
        status, answer = 0, answer_of(sys.stdin.buffer.read())
    except ApiError as fault:
        fields = {"status": fault.status, "message": fault.message, "code": fault.code, "param": fault.param}
        status, answer = REFUSED, json.dumps(fields).encode()
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
    os._exit(status)


if __name__ == "__main__":
    main()

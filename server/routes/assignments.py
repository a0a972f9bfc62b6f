"""The solver over HTTP: k attributes for each row, counts as the priors say, the highest affinity, proven.

A matrix of a million numbers comes as JSON, so the body is parsed here, off the event loop, and its numbers go to NumPy without a
model of their own. A large one is parsed in a process of its own: a parser holds the interpreter, and needs many times the bytes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError, WithJsonSchema
from pydantic_core import from_json, to_json

import solver
from judges.samples import kind_of
from server.bodies import Body, at_most
from server.errors import ERRORS, RETRY_SECONDS, ApiError
from server.json_values import PIECE_BYTES, ValueCount
from server.settings import MIB
from solver.assignment import DEFAULT_SLACK
from solver.rows import MOST_COLUMNS

MOST_ROWS = 200_000
TOO_MANY_ROWS = f"has too many rows; at most {MOST_ROWS:,} are solved over HTTP, and any number by `magistrate assign`"

OTHER_LISTS = 16
"""Lists and objects of a request that are no rows of its scores, or more of them than there are fields."""

LONGEST_NAME = 1_000
"""Characters of an attribute's name or of a row's id."""

MOST_SLACK = 1e9
SOLVING = ThreadPoolExecutor(1, thread_name_prefix="solver")
"""One assignment at a time, and the others wait: a solve takes every core that judging would have."""

logger = logging.getLogger(__name__)

REFUSED = 3
"""The exit status of a process whose output says what is wrong with the body."""

LARGE_BODY = 4 * MIB
"""Bytes from which a body is parsed and solved in a process of its own, which takes a second or two to start."""

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
    """Affinities of rows to attributes, and how many rows each attribute should be given."""

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
        description="A list for each row, of one affinity for each attribute. Null: the row may not be given the attribute."
    )
    attributes: list[Name] | None = Field(
        None, max_length=MOST_COLUMNS, description="The attributes' names, in the order of a row's affinities."
    )
    ids: Annotated[list[Name], Field(fail_fast=True)] | Annotated[list[StrictInt], Field(fail_fast=True)] | None = Field(
        None, max_length=MOST_ROWS, description="An id for each row. Choices that are equally good are settled in their order."
    )
    priors: Annotated[dict[StrictStr, Number] | list[Number] | None, at_most(MOST_COLUMNS)] = Field(
        None,
        max_length=MOST_COLUMNS,
        description="The share of each attribute, summing to 1, or whole counts: by name, or in order. By default the affinities "
        "decide: an attribute's mean over the sum of all means.",
    )
    k: Choices | Annotated[list[Choices], Field(fail_fast=True)] = Field(
        2, description="How many attributes a row is given; or a list, a number for each row."
    )
    slack: Annotated[float, Field(strict=True, ge=0, le=MOST_SLACK)] | Literal["auto"] = Field(
        DEFAULT_SLACK,
        description="By which part the counts may differ from the priors'. `auto`: 0.1, or the smallest that can be kept.",
    )
    lower: list[Count] | None = Field(
        None,
        max_length=MOST_COLUMNS,
        description="The fewest rows of each attribute; with `upper` in place of priors and slack.",
    )
    upper: list[Count] | None = Field(None, max_length=MOST_COLUMNS, description="The most rows of each attribute.")
    weights: Annotated[list[Number], Field(fail_fast=True)] | None = Field(
        None, max_length=MOST_ROWS, description="Above 0, one for each row: how much its affinities count."
    )


class AssignmentResult(BaseModel):
    """Which attributes each row is given, and the proof that no choice is better."""

    object: Literal["assignment"] = "assignment"
    chosen: list[list[str] | list[int]] = Field(
        description="For each row, in the order they came, the names of its attributes; without names, their places from 0."
    )
    objective: float = Field(description="The sum of the chosen affinities, weighted.")
    bound: float = Field(description="What no assignment exceeds: the objective, but for the rounding of very fine scores.")
    optimal: bool = Field(description="Whether it is proven that no assignment within the bounds has a higher objective.")
    attributes: list[str] | None = Field(description="The attributes' names. The lists that follow have one entry for each.")
    counts: list[int] = Field(description="How many rows were given each attribute.")
    lower: list[int] = Field(description="The fewest that each had to have.")
    upper: list[int] = Field(description="The most.")
    prices: list[float] = Field(
        description="Each row has its attributes of highest affinity less price. Above 0 the attribute's upper bound holds rows "
        "off, below 0 its lower bound draws them in."
    )
    ties: int = Field(description="Rows for which another choice would have been as good at these prices.")
    slack: float | None = Field(description="The slack that the bounds come from; null where they were given.")
    priors: list[float] | None = Field(description="The shares that they come from; null where they were given.")


router = APIRouter(prefix="/v1/assignments", tags=["assignments"])


@router.post(
    "",
    summary="Assign attributes",
    response_model=AssignmentResult,
    responses=ERRORS,
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/json": {"schema": AssignmentRequest.model_json_schema()}}}
    },
)
async def create_assignment(request: Request) -> Response:
    """Give every row exactly k attributes, and every attribute its part of the rows, at the highest affinity there is.

    An assignment that cannot be is answered with the code `infeasible`, and says which bounds conflict and which slack would do.
    """
    body = await request.body()
    answer = await asyncio.get_running_loop().run_in_executor(
        SOLVING, _answer_apart if len(body) >= LARGE_BODY else answer_of, body
    )
    return Response(answer, media_type="application/json")


def _answer_apart(body: bytes) -> bytes:
    """``answer_of``, in a process of its own."""
    command = [sys.executable, "-m", "server.assignment_process", str(os.getpid())]
    ended = subprocess.run(command, input=body, capture_output=True, start_new_session=True, check=False)
    if ended.returncode == 0:
        return ended.stdout
    if ended.returncode == REFUSED:
        raise ApiError(**json.loads(ended.stdout))
    logger.error("the solver's process ended by itself: %s", ended.stderr.decode(errors="replace")[-1000:])
    raise ApiError(503, "the solver's process was ended; call again", "solver_ended", headers={"Retry-After": str(RETRY_SECONDS)})


def answer_of(body: bytes) -> bytes:
    """Read a request, solve it, and spell the result.

    Args:
        body: JSON of an ``AssignmentRequest``.

    Raises:
        ApiError: 400: the body is no such thing, or there is no assignment.
    """
    asked = _read(body)
    scores = _matrix(asked.scores)
    labels = _labels(asked.attributes, scores.shape[1])
    if isinstance(asked.priors, dict) and labels is None:
        raise ApiError(400, "`priors` go by name, so give the names in `attributes`", "invalid_value", "priors")
    if (asked.lower is None) != (asked.upper is None):
        raise ApiError(400, "give `lower` and `upper` together, or neither", "invalid_value", "lower")
    try:
        result = solver.assign(
            scores,
            asked.priors,
            asked.k,
            asked.slack,
            bounds=None if asked.lower is None or asked.upper is None else (asked.lower, asked.upper),
            weights=asked.weights,
            ids=None if asked.ids is None else _ids(asked.ids),
            labels=labels,
        )
    except solver.InfeasibleError as error:
        raise ApiError(400, str(error), "infeasible") from None
    except solver.SolverError as error:
        raise ApiError(400, str(error), "invalid_assignment") from None
    return _answer(result)


def _read(body: bytes) -> AssignmentRequest:
    count = ValueCount()
    for start in range(0, len(body), PIECE_BYTES):
        count.add(body[start : start + PIECE_BYTES])
    if count.containers > MOST_ROWS + OTHER_LISTS:
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
    """The first field at fault. Where it may be given in several ways, the way that was read furthest was meant."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    for problem in problems:
        problem["msg"] = problem["msg"].removeprefix("Value error, ")
    field = problems[0]["loc"][:1]
    if not field:
        return ApiError(400, f"the body: {problems[0]['msg']}", "invalid_value")
    problems = [problem for problem in problems if problem["loc"][:1] == field]
    deepest = max(problems, key=lambda problem: len(problem["loc"]))
    words = dict.fromkeys(problem["msg"] for problem in problems if len(problem["loc"]) == len(deepest["loc"]))
    numbers = "".join(f", number {part + 1}" for part in deepest["loc"] if isinstance(part, int))
    what = deepest["msg"] if numbers else " or ".join(words)
    return ApiError(400, f"`{field[0]}`{numbers}: {what}", "invalid_value", str(field[0]))


def _matrix(rows: Any) -> NDArray[Any]:
    """The scores, each one a number or null, as whole numbers where all are."""
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
        places = ((number, score) for number, row in enumerate(rows, 1) for score in row)
        number, score = next((number, score) for number, score in places if type(score) not in (int, float, type(None)))
        raise _wrong(f"holds {kind_of(score)} in row {number}, where a number or null must be")
    kind = np.int64 if kinds == {int} else np.float64
    try:
        values = np.fromiter(chain.from_iterable(_numbers(rows, kinds)), kind, len(rows) * width)
    except OverflowError:
        raise _wrong("holds a number that is too large") from None
    if np.isinf(values).any():
        raise _wrong("holds a number that is too large")
    return values.reshape(len(rows), width)


def _numbers(rows: list[list[Any]], kinds: set[type]) -> Any:
    """The rows, with NaN, which JSON does not have, in place of null."""
    if type(None) not in kinds:
        return rows
    return ([np.nan if score is None else score for score in row] for row in rows)


def _wrong(problem: str) -> ApiError:
    return ApiError(400, f"`scores` {problem}", "invalid_value", "scores")


def _ids(ids: Sequence[str] | Sequence[int]) -> Any:
    """Row ids as an array of objects: one long id does not make room for itself in every row."""
    found = np.empty(len(ids), object)
    found[:] = ids
    return found


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
    return to_json(
        {
            "object": "assignment",
            "chosen": chosen,
            "objective": float(result.objective),
            "bound": float(result.bound),
            "optimal": bool(result.optimal),
            "attributes": None if result.labels is None else list(result.labels),
            "counts": result.counts.tolist(),
            "lower": result.lower.tolist(),
            "upper": result.upper.tolist(),
            "prices": result.prices.tolist(),
            "ties": int(result.ties),
            "slack": result.slack,
            "priors": None if result.priors is None else result.priors.tolist(),
        }
    )

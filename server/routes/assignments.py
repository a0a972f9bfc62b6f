"""Assignments over HTTP: k attributes for each row, in the counts that the priors ask for, at the highest affinity, proven.

A large body is parsed and solved in a process of its own: a parser holds the interpreter, and needs many times the body's memory.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from server.assignment_process import REFUSED, AssignmentRequest, answer_of
from server.errors import ERRORS, RETRY_SECONDS, ApiError
from server.routes.tags import Tag
from server.settings import MIB

SOLVING = ThreadPoolExecutor(1, thread_name_prefix="solver")
"""Solves one assignment at a time: each uses every core, which judging needs too."""

LARGE_BODY = 4 * MIB
"""Bytes from which a body is solved in a process of its own, which takes a second or two to start."""

logger = logging.getLogger(__name__)


class AssignmentResult(BaseModel):
    """The attributes of each row, and the proof that no assignment is better."""

    object: Literal["assignment"] = "assignment"
    chosen: list[list[str] | list[int]] = Field(
        description="For each row, in the given order, the names of its attributes; without names, their numbers from 0."
    )
    objective: float = Field(description="The sum of the chosen affinities, weighted.")
    bound: float = Field(description="What no assignment exceeds: the objective, apart from the rounding of very fine scores.")
    optimal: bool = Field(description="Whether it is proven that no assignment within the bounds has a higher objective.")
    attributes: list[str] | None = Field(description="The attributes' names. The following lists have one entry for each.")
    counts: list[int] = Field(description="How many rows have each attribute.")
    lower: list[int] = Field(description="The lower bounds of the counts.")
    upper: list[int] = Field(description="The upper bounds of the counts.")
    widened: list[bool] = Field(
        description="Whether the bounds are wider than the slack, by less than 1: small data may have no whole number within it."
    )
    prices: list[float] = Field(
        description="Each row has the attributes of highest affinity less price. A price above 0 enforces the upper bound, "
        "one below 0 the lower bound."
    )
    ties: int = Field(description="Rows for which another choice would be as good at these prices.")
    slack: float | None = Field(description="The slack that the bounds were made from; null if the bounds were given.")
    priors: list[float] | None = Field(description="The shares that the bounds were made from; null if the bounds were given.")


router = APIRouter(prefix="/v1/assignments", tags=[Tag.ASSIGN])


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
    """Give every row exactly k attributes, and every attribute its part of the rows, at the highest possible affinity.

    The answer to an impossible assignment has the code `infeasible`, and says which bounds conflict and which slack would do.
    """
    body = await request.body()
    solve = _answer_apart if len(body) >= LARGE_BODY else answer_of
    return Response(await asyncio.get_running_loop().run_in_executor(SOLVING, solve, body), media_type="application/json")


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

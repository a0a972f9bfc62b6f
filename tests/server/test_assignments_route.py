from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

import solver
from server.assignment_process import AssignmentRequest
from server.errors import install_error_handlers
from server.routes import assignments

SMALL = {"scores": [[5, 1], [1, 5], [4, 2], [5, 2]], "k": 1}


@pytest.fixture(scope="module")
def app() -> FastAPI:
    app = FastAPI()
    app.include_router(assignments.router)
    install_error_handlers(app)

    @app.get("/alive")
    async def alive() -> str:
        return "yes"

    return app


def client_of(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server", timeout=120)


def post(app: FastAPI, body: Any) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def call() -> httpx.Response:
        async with client_of(app) as client:
            return await client.post("/v1/assignments", content=content, headers={"content-type": "application/json"})

    return asyncio.run(call())


def solved(app: FastAPI, body: Mapping[str, Any]) -> dict[str, Any]:
    answer = post(app, body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = assignments.AssignmentResult.model_validate(answer.json()).model_dump()
    assert found == answer.json()
    return found


def refused(app: FastAPI, body: Any, code: str = "invalid_value") -> str:
    answer = post(app, body)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["code"] == code, error
    assert "\n" not in error["message"]
    assert len(error["message"]) < 500
    return str(error["message"])


def test_an_assignment_is_proven(app: FastAPI) -> None:
    found = solved(app, SMALL | {"attributes": ["Food", "Travel"], "priors": {"Travel": 0.5, "Food": 0.5}, "slack": 0})
    assert found == {
        "object": "assignment",
        "chosen": [["Food"], ["Travel"], ["Travel"], ["Food"]],
        "objective": 17.0,
        "bound": 17.0,
        "optimal": True,
        "attributes": ["Food", "Travel"],
        "counts": [2, 2],
        "lower": [2, 2],
        "upper": [2, 2],
        "widened": [False, False],
        "prices": [2.0, 0.0],
        "ties": 1,
        "slack": 0.0,
        "priors": [0.5, 0.5],
    }


def test_the_answer_is_the_solvers_own(app: FastAPI) -> None:
    random = np.random.default_rng(5)
    scores = random.integers(1, 6, (300, 7)).tolist()
    ids = random.permutation(300).tolist()
    weights = random.integers(1, 4, 300).tolist()
    k = random.integers(0, 4, 300).tolist()
    named = [f"row {number:03}" for number in ids]
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({"k": 3, "slack": "auto"}, {"k": 3, "slack": "auto"}),
        ({"ids": ids, "weights": weights}, {"ids": ids, "weights": weights}),
        ({"ids": named}, {"ids": ids}),
        ({"k": k, "priors": [3, 1, 1, 1, 1, 1, 1]}, {"k": k, "priors": [3, 1, 1, 1, 1, 1, 1]}),
        ({"lower": [10] * 7, "upper": [200] * 7}, {"bounds": ([10] * 7, [200] * 7)}),
    ]
    for body, options in cases:
        found = solved(app, {"scores": scores} | body)
        result = solver.assign(scores, **options)
        assert found["chosen"] == [[place for place in row if place >= 0] for row in result.chosen.tolist()]
        assert found["objective"] == result.objective
        for field in ("counts", "lower", "upper", "widened", "prices"):
            assert found[field] == getattr(result, field).tolist()
        assert (found["ties"], found["slack"], found["optimal"]) == (result.ties, result.slack, True)
        assert found["priors"] == (None if result.priors is None else result.priors.tolist())


def test_a_null_may_not_be_chosen(app: FastAPI) -> None:
    scores = [[None, 1, 2], [9, None, 1.5], [9, 1, None], [None, 3, 3]]
    found = solved(app, {"scores": scores, "k": 1, "lower": [0, 0, 0], "upper": [4, 4, 4]})
    assert found["chosen"] == [[2], [0], [0], [1]]
    assert found["objective"] == 23


def test_what_cannot_be_is_told_with_what_would(app: FastAPI) -> None:
    body = SMALL | {"scores": [[5, None], [1, None], [4, None], [5, 2]], "attributes": ["Food", "Travel"], "priors": [0.5, 0.5]}
    message = refused(app, body, "infeasible")
    assert message.startswith("no assignment keeps slack 0.1: 'Food' must have at least 3 instances and may have 2")
    assert message.endswith("the smallest slack that works is 0.5")
    assert solved(app, body | {"slack": "auto"})["slack"] == 0.5
    assert "may have" in refused(app, SMALL | {"lower": [0, 0], "upper": [1, 1]}, "infeasible")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"scores": []}, "must be a list of rows"),
        ({"scores": [[]]}, "0 numbers a row; there may be 1 to 120"),
        ({"scores": None}, "must be a list of rows"),
        ({"scores": 7}, "must be a list of rows"),
        ({"scores": "[[1, 2]]"}, "must be a list of rows"),
        ({"scores": [1, 2]}, "must be a list of rows"),
        ({"scores": {"0": [1]}}, "must be a list of rows"),
        ({"scores": [[1, 2], [1]]}, "`scores` has 2 numbers in row 1 and 1 in row 2"),
        ({"scores": [[1, 2], [1, "2"]]}, "`scores` holds a string in row 2: it must be a number or null"),
        ({"scores": [[1, True]]}, "a boolean in row 1"),
        ({"scores": [[1, [2]]]}, "a list in row 1"),
        ({"scores": [[1, {}]]}, "an object in row 1"),
        ({"scores": [[1, 10**400]]}, "too large"),
        ({"scores": [[1, 2**63]]}, "too large"),
        ({"scores": [[1.5, 10**400]]}, "too large"),
        ({"scores": [[1] * 121]}, "121 numbers a row"),
        ({"scores": [[1]] * 200_001}, "has too many rows; at most 200,000"),
        ({"scores": [[1, 2]], "attributes": ["a"]}, "`attributes` has 1 names, and `scores` 2 numbers a row"),
        ({"scores": [[1, 2]], "attributes": ["a", "a"]}, "`attributes` names `a` twice"),
        ({"scores": [[1, 2]], "attributes": ["a", 2]}, "`attributes`, number 2: Input should be a valid string"),
        ({"scores": [[1, 2]], "attributes": ["a", "b" * 1001]}, "`attributes`, number 2"),
        ({"scores": [[1, 2]], "priors": {"a": 1}}, "`priors` go by name, so give the names in `attributes`"),
        ({"scores": [[1, 2]], "priors": "even"}, "`priors`: Input should be a valid dictionary or Input should be a valid list"),
        ({"scores": [[1, 2]], "weights": ["1"] * 100_000}, "`weights`, number 1: Input should be a valid number"),
        ({"scores": [[1, 2]], "k": [1, *["1"] * 100_000]}, "`k`, number 2: Input should be a valid integer"),
        ({"scores": [[1, 2]], "priors": {str(number): 1 for number in range(200_000)}}, "`priors`"),
        ({"scores": [[1, 2]], **{str(number): 1 for number in range(100_000)}}, "the body: it has 100,001 fields"),
        ({"scores": [[1, 2]], "priors": [True, 1]}, "`priors`, number 1"),
        ({"scores": [[1, 2]], "priors": [10**400, 1]}, "`priors`"),
        ({"scores": [[1, 2]], "k": -1}, "`k`"),
        ({"scores": [[1, 2]], "k": 1.5}, "`k`"),
        ({"scores": [[1, 2]], "k": True}, "`k`"),
        ({"scores": [[1, 2]], "k": 10**30}, "`k`"),
        ({"scores": [[1, 2]], "slack": -0.1}, "`slack`"),
        ({"scores": [[1, 2]], "slack": "0.1"}, "`slack`"),
        ({"scores": [[1, 2]], "slack": 10**400}, "`slack`"),
        ({"scores": [[1, 2]], "ids": [1, "2"]}, "`ids`"),
        ({"scores": [[1, 2]], "ids": [[1]]}, "`ids`"),
        ({"scores": [[1, 2]], "lower": [0, 0]}, "give `lower` and `upper` together"),
        ({"scores": [[1, 2]], "lower": [0, 0], "upper": [2, -1]}, "`upper`, number 2"),
        ({"scores": [[1, 2]], "method": "highs"}, "`method`: Extra inputs are not permitted"),
        ({"k": 2}, "`scores`: Field required"),
        ([], "the body: "),
        ("scores", "the body: "),
        (None, "the body: "),
    ],
)
def test_a_body_that_makes_no_sense_is_one_sentence(app: FastAPI, body: Any, words: str) -> None:
    assert words in refused(app, body)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"priors": [0.5, 0.6]}, "the priors sum to 1.1"),
        ({"priors": [1]}, "give one prior an attribute"),
        ({"attributes": ["a", "b"], "priors": {"a": 1}}, "there is no prior for 'b'"),
        ({"k": [1, 1]}, "one for each row"),
        ({"weights": [1, 1, 1, 0]}, "weights must be numbers above 0"),
        ({"weights": [1]}, "weights must be numbers above 0"),
        ({"ids": [1]}, "give one id a row"),
        ({"ids": ["a", "b", "a", "c"]}, "row id 'a' occurs twice"),
        ({"lower": [0], "upper": [9]}, "2 whole numbers"),
        ({"lower": [0, 0], "upper": [4, 4], "priors": [1, 1]}, "give priors or bounds, not both"),
        ({"scores": [[-1, 2]] * 4}, "priors cannot be taken from negative affinities"),
        ({"scores": [[1, 2**62]] * 4}, "are too large"),
    ],
)
def test_the_solver_says_what_it_cannot_take(app: FastAPI, more: dict[str, Any], words: str) -> None:
    assert words in refused(app, SMALL | more, "invalid_assignment")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "EOF"),
        (b'{"scores": [[1, NaN]]}', "line 1 column 17"),
        (b'{"scores": [[1, Infinity]]}', "line 1 column 17"),
        (b'{"scores": [[1, 2]]', "EOF"),
        (b'{"scores": ' + b"[" * 100_000, "recursion limit"),
        (b'{"scores": [[' + b"1" * 10_000 + b"]]}", "out of range"),
        (b'{"scores": [[1, 2]], "attributes": ["\xff", "b"]}', "line 1"),
        (b'{"scores": [[1, 2]], "attributes": ["\\ud800", "b"]}', "line 1"),
        (b"\x1f\x8b\x08\x00", "line 1"),
    ],
)
def test_a_body_that_is_not_json_is_told_where(app: FastAPI, body: bytes, words: str) -> None:
    assert words in refused(app, body, "invalid_json")


def test_a_number_beyond_floats_is_no_infinity(app: FastAPI) -> None:
    assert "too large" in refused(app, b'{"scores": [[1, 1e999], [2, 3]]}')
    assert "`slack`" in refused(app, b'{"scores": [[1, 2], [2, 3]], "slack": 1e999}')
    assert "`priors`" in refused(app, b'{"scores": [[1, 2], [2, 3]], "priors": [1e999, 1]}')


def test_long_ids_take_no_room_in_every_row(app: FastAPI) -> None:
    rows = 50_000
    ids = ["\U0001f600" * 1000, *map(str, range(rows - 1))]
    found = solved(app, {"scores": [[1, 2, 3]] * rows, "ids": ids, "k": 1, "priors": [1, 1, 1], "slack": 0})
    assert found["optimal"]
    assert sorted(found["counts"]) == [16_666, 16_667, 16_667]


def test_a_large_body_is_solved_in_a_process_of_its_own(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(0).integers(1, 6, (50_000, 20)).tolist()
    here = post(app, {"scores": scores})
    monkeypatch.setattr(assignments, "LARGE_BODY", 1)
    monkeypatch.setattr(assignments, "answer_of", None)  # in this process nothing could be solved
    assert post(app, {"scores": scores}).content == here.content
    assert refused(app, {"scores": [[1, 2]], "attributes": ["one"]}) == "`attributes` has 1 names, and `scores` 2 numbers a row"


@pytest.mark.parametrize("row", [b"[],", b"[[[]]],", b"{},", b"[1],"])
def test_more_rows_than_are_solved_are_counted_before_anything_reads_them(app: FastAPI, row: bytes) -> None:
    assert "has too many rows" in refused(app, b'{"scores": [' + row * 200_016 + b"[]]}")


def test_a_solver_that_is_ended_is_told(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignments, "LARGE_BODY", 1)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    answer = post(app, SMALL)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "solver_ended")
    monkeypatch.undo()
    assert post(app, SMALL).status_code == 200


def test_others_are_answered_while_a_matrix_is_solved(app: FastAPI) -> None:
    scores = np.random.default_rng(0).integers(1, 6, (100_000, 20)).tolist()
    content = json.dumps({"scores": scores}).encode()

    async def run() -> tuple[list[httpx.Response], list[float]]:
        waits = []
        async with client_of(app) as client:
            posts = [asyncio.create_task(client.post("/v1/assignments", content=content)) for _ in range(2)]
            while not all(task.done() for task in posts):
                begun = time.monotonic()
                assert (await client.get("/alive")).status_code == 200
                waits.append(time.monotonic() - begun)
                await asyncio.sleep(0.01)
            return [task.result() for task in posts], waits

    answers, waits = asyncio.run(run())
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content, "equal requests have equal answers"
    assert answers[0].json()["optimal"]
    assert sum(answers[0].json()["counts"]) == 200_000
    assert len(waits) > 10, "the event loop went on"


def test_the_body_is_documented_and_its_example_works(app: FastAPI) -> None:
    schema = app.openapi()
    body = schema["paths"]["/v1/assignments"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "$ref" not in json.dumps(body), "it stands outside of the page's components"
    assert set(body["properties"]) == set(AssignmentRequest.model_fields)
    assert all("description" in about for about in body["properties"].values())
    assert solved(app, body["examples"][0])["objective"] == 17

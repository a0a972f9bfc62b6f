"""Every fault is told in OpenAI's form, and tells nothing that the caller should not know."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException
from starlette.requests import ClientDisconnect

from judges.errors import ContextOverflowError, EngineError, MagistrateError, RequestError, SampleError
from server.errors import LONGEST_MESSAGE, ApiError
from server.settings import Settings
from server.store import StoreConflictError, StoreError, StoreUnavailableError
from tests.server.live import client_of, small_app

APP = small_app(Settings(max_body=200_000))


def send(app: FastAPI, method: str, path: str, **what: Any) -> httpx.Response:
    async def sending() -> httpx.Response:
        async with client_of(app) as client:
            return await client.request(method, path, **what)

    return asyncio.run(sending())


def fault(answer: httpx.Response) -> dict[str, Any]:
    assert set(answer.json()) == {"error"}
    error: dict[str, Any] = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert answer.headers["content-type"] == "application/json"
    assert 0 < len(error["message"]) <= LONGEST_MESSAGE
    assert error["message"].isprintable()
    return error


def raising(error: Exception) -> FastAPI:
    app = small_app(Settings())

    @app.get("/raises")
    async def raises() -> None:
        raise error

    return app


def raised(error: Exception) -> httpx.Response:
    return send(raising(error), "GET", "/raises")


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ApiError(418, "a teapot"), 418, "invalid_request_error"),
        (MagistrateError("no such judge"), 400, "invalid_request_error"),
        (SampleError("text", "is missing"), 400, "invalid_request_error"),
        (StoreError("the database is of a newer version"), 400, "invalid_request_error"),
        (StoreConflictError("a batch still reads it"), 409, "invalid_request_error"),
        (StoreUnavailableError("the disk is full"), 503, "server_error"),
        (EngineError("the engine died"), 503, "server_error"),
        (RequestError("the engine failed"), 503, "server_error"),
        (HTTPException(403, "not yours"), 403, "permission_error"),
        (ClientDisconnect(), 400, "invalid_request_error"),
    ],
)
def test_an_error_has_its_status_and_keeps_its_words(error: Exception, status: int, kind: str) -> None:
    answer = raised(error)
    assert answer.status_code == status
    told = fault(answer)
    assert told["type"] == kind
    words = getattr(error, "detail", None) or str(error)
    assert words in told["message"]
    assert ("retry-after" in answer.headers) is (status == 503)


def test_an_error_names_the_field_and_the_code() -> None:
    assert fault(raised(SampleError("text", "is missing")))["param"] == "text"
    assert fault(raised(ContextOverflowError(9, 9, 9)))["code"] == "context_length_exceeded"
    told = fault(raised(ApiError(404, "no file `x`", "not_found", "file_id", {"X-More": "yes"})))
    assert (told["param"], told["code"]) == ("file_id", "not_found")


def test_an_unforeseen_error_tells_its_request_id_and_nothing_else() -> None:
    answer = raised(ValueError("secret of /etc/passwd"))
    assert answer.status_code == 500
    told = fault(answer)
    assert "secret" not in answer.text
    assert "ValueError" not in answer.text
    assert answer.headers["x-request-id"] in told["message"]
    assert len(answer.headers.get_list("x-request-id")) == 1


def test_an_address_that_is_not_there_and_a_method_that_is_not_taken() -> None:
    assert fault(send(APP, "GET", "/v1/nothing"))["message"] == "there is nothing at this address"
    answer = send(APP, "DELETE", "/v1/who")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET"
    assert fault(answer)["message"] == "this address does not accept this method"


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({}, "samples", "field `samples` is missing"),
        ({"samples": [{"text": 1}]}, "samples[0].text", "valid string"),
        ({"samples": [{"text": "a"}, {"text": "b", "labels": [1, "x"]}]}, "samples[1].labels[1]", "valid integer"),
        ({"samples": [{}, {}, {}]}, "samples[0].text", "(and 2 more faults)"),
        ([], None, "the body cannot be read"),
        (None, None, "the body cannot be read"),
    ],
)
def test_a_wrong_body_is_told_by_its_field(body: object, param: str | None, words: str) -> None:
    answer = send(APP, "POST", "/v1/echo", json=body) if body is not None else send(APP, "POST", "/v1/echo", content=b'"x"')
    assert answer.status_code == 400
    told = fault(answer)
    assert told["param"] == param
    assert words in told["message"]
    assert "\n" not in told["message"]


def test_a_body_of_another_type_is_told_how_to_be_sent() -> None:
    answer = send(APP, "POST", "/v1/echo", content=b'{"samples": []}', headers={"Content-Type": "text/plain"})
    assert "application/json" in fault(answer)["message"]


def test_a_wrong_parameter_is_told_by_its_name() -> None:
    told = fault(send(APP, "GET", "/v1/things/x?limit=many"))
    assert told["param"] == "limit"
    assert "query parameter `limit`" in told["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"samples": [}',
        b"\xff\xfe{}",
        b"[" * 100_000,
        b'{"samples": ' + b"9" * 10_000 + b"}",
        b'{"samples": [{"text": "a", "labels": ["\\ud800"]}]}',
        b'{"samples": [{"text": 1, "labels": ["' + b"x" * 100_000 + b'"]}]}',
        b'{"samples": NaN}',
        b"\x00" * 100,
    ],
)
def test_a_hostile_body_is_answered_in_form(body: bytes) -> None:
    answer = send(APP, "POST", "/v1/echo", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    fault(answer)
    assert len(answer.content) < 2000


def test_what_a_caller_sends_is_never_echoed_in_full_nor_raw() -> None:
    told = fault(raised(MagistrateError("the judge `\ud800\x1b[31m\r\nevil: yes" + "x" * 100_000 + "` is unknown")))
    assert len(told["message"]) == LONGEST_MESSAGE
    assert "\x1b" not in told["message"]


def test_the_description_of_the_interface_promises_only_these_errors() -> None:
    described = send(APP, "GET", "/openapi.json").json()
    responses = described["paths"]["/v1/echo"]["post"]["responses"]
    assert "422" not in responses
    assert {"200", "400", "401", "403", "404", "409", "413", "415", "429", "503", "default"} == set(responses)
    assert responses["400"]["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorBody")

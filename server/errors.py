"""Faults of calls, in the form that OpenAI's clients read: ``{"error": {"message", "type", "param", "code"}}``."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from judges.errors import ContextOverflowError, EngineError, MagistrateError, RequestError, SampleError
from server.store import StoreConflictError, StoreQuotaError, StoreUnavailableError

logger = logging.getLogger(__name__)

LONGEST_MESSAGE = 1000
"""Characters of a message, which may quote the caller."""

LONGEST_NAME = 64
"""Characters of one field's name, which may be the caller's."""

RETRY_SECONDS = 5
"""When to call again after a temporary fault."""

TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
MESSAGES = {
    404: "there is nothing at this address",
    405: "this address does not accept this method",
    400: "the body cannot be read: send JSON in UTF-8, without numbers of thousands of digits and not nested too deeply",
}


class ErrorDetail(BaseModel):
    """A fault of a call.

    Attributes:
        message: One sentence: what was wrong, where, and what to do.
        type: The kind of fault, by its status.
        param: The field at fault.
        code: A name for programs.
    """

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """The body of every answer that reports a fault."""

    error: ErrorDetail


def _described(description: str) -> dict[str, Any]:
    return {"model": ErrorBody, "description": description}


ERRORS: dict[int | str, dict[str, Any]] = {
    400: _described("The request is malformed, or a sample in it cannot be judged."),
    401: _described("The key is missing, unknown or revoked."),
    403: _described("A page of another site sent the request."),
    404: _described("There is no such thing, or it belongs to another caller."),
    409: _described("The thing is in use."),
    413: _described("The body is larger than the server accepts, or than the caller's quota allows."),
    415: _described("The body is compressed, which the server does not accept."),
    429: _described("Too many calls. `Retry-After` says in how many seconds to call again."),
    503: _described("The server cannot answer now. `Retry-After` says in how many seconds to call again."),
    "default": _described("Any other fault."),
}
"""For ``responses=`` of a route. Its ``default`` keeps FastAPI from promising a 422 that is never sent."""


class ApiError(MagistrateError):
    """A fault with which a call is answered.

    Args:
        status: The HTTP status.
        message: One sentence: what was wrong, where, and what to do.
        code: A name for programs.
        param: The field at fault.
        headers: Headers of the answer; pairs if a name comes twice.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.headers = tuple(headers.items() if isinstance(headers, Mapping) else headers or ())


def install_error_handlers(app: FastAPI) -> None:
    """Make an application answer every fault in OpenAI's form."""
    for kind in (MagistrateError, RequestValidationError, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, _handle)


async def _handle(request: Request, error: Exception) -> Response:
    return response_to(error, request.scope)


def response_to(error: Exception, scope: Scope) -> Response:
    """Answer a call that ended in an error. Internal errors are not described, only logged."""
    if isinstance(error, HTTPException) and error.status_code in (204, 304):
        return Response(status_code=error.status_code, headers=error.headers)
    fault = fault_of(error)
    request_id = scope.get("state", {}).get("request_id")
    if fault is None:
        # This answer is made outside every middleware, so nothing else would add the id or close the connection.
        where = f" under request id {request_id}" if request_id else ""
        headers = [("connection", "close"), *([("x-request-id", request_id)] if request_id else [])]
        fault = ApiError(500, f"the server failed; its log says why{where}", "internal_error", headers=headers)
    response = Response(error_json(fault), fault.status, media_type="application/json")
    for name, value in fault.headers:
        response.headers.append(name, value)
    return response


def error_json(fault: ApiError) -> bytes:
    """Write the body of a fault: valid JSON, and short, whatever its message quotes."""
    return json.dumps(error_body(fault)).encode("ascii")


def error_body(fault: ApiError) -> dict[str, Any]:
    """Make the body of a fault."""
    default = "invalid_request_error" if fault.status < 500 else "server_error"
    detail = {
        "message": printable(fault.message, LONGEST_MESSAGE),
        "type": TYPES.get(fault.status, default),
        "param": fault.param and printable(fault.param, LONGEST_MESSAGE),
        "code": fault.code,
    }
    return {"error": detail}


def printable(text: str, longest: int) -> str:
    """Cut a text to a length in characters and replace control characters and surrogates."""
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "�" for letter in text)


def fault_of(error: Exception) -> ApiError | None:
    """Make the fault that a caller sees of an error; ``None`` if it is internal."""
    match error:
        case ApiError():
            return error
        case RequestValidationError():
            return _invalid(error)
        case HTTPException():
            message = error.detail
            if error.status_code in MESSAGES and message in (HTTPStatus(error.status_code).phrase, FASTAPI_UNREADABLE):
                message = MESSAGES[error.status_code]
            return ApiError(error.status_code, str(message), headers=error.headers)
        case ClientDisconnect():
            return ApiError(400, "the client disconnected before it had sent the whole body", "client_disconnected")
        case MagistrateError():
            status, code = next((known for kind, known in _KNOWN.items() if isinstance(error, kind)), (400, None))
            param = error.field if isinstance(error, SampleError) else None
            return ApiError(status, str(error), code, param, {"Retry-After": str(RETRY_SECONDS)} if status == 503 else None)
    return None


FASTAPI_UNREADABLE = "There was an error parsing the body"

_KNOWN: dict[type[MagistrateError], tuple[int, str]] = {
    StoreUnavailableError: (503, "store_unavailable"),
    StoreQuotaError: (413, "quota_exceeded"),
    StoreConflictError: (409, "conflict"),
    EngineError: (503, "engine_unavailable"),
    RequestError: (503, "engine_unavailable"),
    ContextOverflowError: (400, "context_length_exceeded"),
}
"""Status and code by the kind of error."""


def _invalid(error: RequestValidationError) -> ApiError:
    """Describe the first fault that FastAPI found. Of the input only names of fields are quoted."""
    first, *others = error.errors()
    where, *path = first["loc"]
    if first["type"] == "json_invalid":
        return ApiError(400, f"the body is not JSON: {first['ctx']['error']} at character {path[0]}", "invalid_json")
    name = _field_path(path)
    what = printable(str(first["msg"]).removeprefix("Value error, ").rstrip("."), 300)
    if first["type"] == "missing":
        what = "is missing"
    kind = "field" if where == "body" else f"{where} parameter"
    if not name:
        subject, what = "the body", "is missing" if what == "is missing" else f"cannot be read: {what}"
        if isinstance(first.get("input"), bytes):
            what += "; send it with `Content-Type: application/json`"
    else:
        subject, what = f"{kind} `{name}`", what if what == "is missing" else f"is wrong: {what}"
    more = f" (and {len(others)} more fault{'s' if len(others) > 1 else ''})" if others else ""
    return ApiError(400, f"{subject} {what}{more}", "invalid_value", name or None)


def _field_path(path: Sequence[Any]) -> str:
    """Write a path through JSON, for example ``samples[0].text``."""
    parts = [f"[{step}]" if isinstance(step, int) else f".{printable(str(step), LONGEST_NAME)}" for step in path[:16]]
    return "".join(parts).removeprefix(".")

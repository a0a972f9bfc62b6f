"""The lines of a batch: reads the input, finds faults, and writes the lines of the output and error files."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_core import from_json

from judges.data.samples import kind_of
from server.bodies import MOST_VALUES, has_more_values
from server.store import LeasedPart

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

METHOD = "POST"
"""The only method that a line may name."""

_FIELDS = (("custom_id", str, "a string"), ("method", str, "a string"), ("url", str, "a string"), ("body", dict, "an object"))

_QUOTED = 100
"""Characters of a caller's text that a message quotes."""

_ESCAPE = re.compile(rb"\\(?:u([dD][89abAB]%b\\u[dD][c-fC-F]%b)|u([dD][89a-fA-F]%b)|.)" % ((rb"[0-9a-fA-F]{2}",) * 3), re.DOTALL)
_POSITION = re.compile(r" at line \d+ column (\d+)$")
_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class CustomIdError(ValueError):
    """A line of JSON has a ``custom_id`` that cannot identify it."""


class TooManyValuesError(ValueError):
    """A line holds more than ``MOST_VALUES`` values."""


@dataclass(frozen=True, slots=True)
class LineFault:
    """Why a line cannot be called.

    Attributes:
        code: A name for programs.
        message: One sentence: what is wrong and where.
    """

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class BatchLine:
    """A line of a batch's input that is not blank: a call, or a fault.

    Attributes:
        number: Its number in the file, from 1, counting blank lines.
        id: 24 hexadecimal digits, a digest of its number and bytes: the same file judged twice gives the same output, byte for
            byte.
        custom_id: The caller's name for it; ``None`` if it cannot be read.
        body: The body of the call; empty if there is a fault.
        fault: What is wrong with the line.
    """

    number: int
    id: str
    custom_id: str | None
    body: Mapping[str, Any]
    fault: LineFault | None = None


def read_lines(part: LeasedPart) -> Iterator[BatchLine]:
    """Read the lines of a part that have no result yet, in order. No content of a line raises an error.

    Every line must name the same model, or none must. The batch's model is called, whatever the name stands for by now.
    """
    duplicates = set(part.duplicates)
    for number, line in enumerate(part.data.split(b"\n"), start=part.first_line):
        if number in part.done or is_blank(line):
            continue
        line_id = hashlib.blake2b(b"%d:%b" % (number, line.rstrip(b"\r")), digest_size=12).hexdigest()
        try:
            fields = parse_line(line, number)
        except ValueError as error:
            yield BatchLine(number, line_id, None, {}, _unreadable(error, number))
            continue
        custom_id = fields.get("custom_id") if isinstance(fields, dict) else None
        name = custom_id if isinstance(custom_id, str) and custom_id else None
        fault = _fault(fields, number, number in duplicates, part.endpoint, part.named)
        yield BatchLine(number, line_id, name, {} if fault else {**fields["body"], "model": part.model}, fault)


def _unreadable(error: ValueError, number: int) -> LineFault:
    match error:
        case CustomIdError():
            return LineFault("invalid_custom_id", f"line {number}: {error}")
        case TooManyValuesError():
            return LineFault("too_many_values", f"line {number}: {error}")
    return LineFault("invalid_json_line", f"line {number} is not JSON: {error}")


def is_blank(line: bytes) -> bool:
    """Check whether a line is empty or white space."""
    return not line or line.isspace()


def parse_line(line: bytes, number: int) -> Any:
    """Read a line of JSON. Unpaired surrogates, which no encoding can carry, become U+FFFD.

    Args:
        line: With or without its end.
        number: Its number; a byte order mark before line 1 is skipped.

    Raises:
        TooManyValuesError: It holds more than ``MOST_VALUES`` values.
        CustomIdError: Its ``custom_id`` holds an unpaired surrogate, and would become equal to another.
        ValueError: It is not JSON, or nested more than 200 deep.
    """
    if has_more_values(line, MOST_VALUES):
        raise TooManyValuesError(f"it holds more than {MOST_VALUES:,} values (numbers, texts, lists, objects): send it in parts")
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        return from_json(line, allow_inf_nan=False)
    except ValueError as error:
        whole, other = (_ESCAPE.sub(partial(_paired, half), line) for half in (b"\\ufffd", b"\\ufffe"))
        if whole == line:
            raise ValueError(_POSITION.sub(r" at byte \1", str(error))) from None
    fields = parse_line(whole, 0)
    # The line itself may hold U+FFFD, so only a value that differs between the two replacements had a surrogate.
    if isinstance(fields, dict) and fields.get("custom_id") != parse_line(other, 0).get("custom_id"):
        raise CustomIdError("the custom_id holds half of a surrogate pair, which is not a character: send a whole pair, or none")
    return fields


def _paired(half: bytes, escape: re.Match[bytes]) -> bytes:
    return half if escape[2] else escape[0]


def _fault(fields: Any, number: int, duplicate: bool, endpoint: str, model: str | None) -> LineFault | None:
    """Find the first fault of a line of JSON."""
    if not isinstance(fields, dict):
        return LineFault("invalid_json_line", f"line {number} must be an object, not {kind_of(fields)}")
    for name, kind, wanted in _FIELDS:
        value = fields.get(name)
        if value is None or value == "":
            return LineFault("missing_required_parameter", f"line {number} lacks the field `{name}`")
        if not isinstance(value, kind):
            return LineFault("invalid_type", f"line {number}: `{name}` must be {wanted}, not {kind_of(value)}")
    if duplicate:
        quoted = _quoted(fields["custom_id"])
        return LineFault("duplicate_custom_id", f"line {number}: the custom_id {quoted} is that of an earlier line too")
    if fields["method"].upper() != METHOD:
        return LineFault("invalid_method", f"line {number}: `method` must be {METHOD}, not {_quoted(fields['method'])}")
    if fields["url"] != endpoint:
        message = f"line {number}: `url` must be {endpoint}, the batch's endpoint, not {_quoted(fields['url'])}"
        return LineFault("invalid_url", message)
    named = fields["body"].get("model")
    if named == model:
        return None
    here = "no model" if named is None else f"the model {_quoted(named)}"
    batch = "no model" if model is None else f"the model {_quoted(model)}"
    return LineFault("mismatched_model", f"line {number} names {here}, but the batch {batch}: a batch has one model")


def _quoted(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _QUOTED else text[:_QUOTED] + "…"


def output_line(line: BatchLine, status_code: int, body: Mapping[str, Any]) -> str:
    """Write a line of the output file, or, for a status from 400, of the error file: the answer to a call, without line end."""
    response = {"status_code": status_code, "request_id": line.id, "body": body}
    return _record({"id": f"batch_req_{line.id}", "custom_id": line.custom_id, "response": response, "error": None})


def error_line(line: BatchLine, code: str, message: str) -> str:
    """Write a line of the error file for a line that could not be called, without line end."""
    error = {"code": code, "message": message, "line": line.number}
    return _record({"id": f"batch_req_{line.id}", "custom_id": line.custom_id, "response": None, "error": error})


def _record(fields: Mapping[str, Any]) -> str:
    """Write one line of JSON, also for programs that take U+2028 and the like for the end of a line."""
    text = json.dumps(fields, ensure_ascii=False)
    if text.isascii():
        return text
    return text.translate(_LINE_ENDS).encode(errors="backslashreplace").decode()

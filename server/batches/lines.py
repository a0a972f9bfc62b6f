"""The lines of a batch: what each asks for, or what is wrong with it, and what is written of it in the output and error files."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_core import from_json

from judges.samples import kind_of
from server.json_values import MOST_VALUES, has_more_values
from server.store import LeasedPart

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

METHOD = "POST"
"""The only method that a line may name."""

_FIELDS = (("custom_id", str, "a string"), ("method", str, "a string"), ("url", str, "a string"), ("body", dict, "an object"))

_QUOTED = 100
"""Characters of a caller's text that a message quotes."""

_ESCAPE = re.compile(rb"\\(?:u([dD][89abAB]%b\\u[dD][c-fC-F]%b)|u([dD][89a-fA-F]%b)|.)" % ((rb"[0-9a-fA-F]{2}",) * 3), re.DOTALL)
_PLACE = re.compile(r" at line \d+ column (\d+)$")
_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class CustomIdError(ValueError):
    """A line that is JSON has a ``custom_id`` that cannot name it."""


class TooManyValuesError(ValueError):
    """A line holds more values than are read."""


@dataclass(frozen=True, slots=True)
class LineFault:
    """Why a line cannot be asked at all.

    Attributes:
        code: A name for programs to go by.
        message: One sentence: what is wrong and where.
    """

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class BatchLine:
    """A line of a batch's input that is not blank. Either ``fault`` tells what is wrong with it, or ``body`` is to be asked.

    Attributes:
        number: Its number in the file, from 1, blank lines counted.
        id: 24 hexadecimal digits made of its number and its bytes. A line that is judged again, after a crash or in another
            batch, keeps its id, so that the same file judged twice gives the same output, byte for byte.
        custom_id: The caller's name for it; ``None`` where that cannot be read.
        body: The body of the call that it stands for; empty where there is a fault.
        fault: What is wrong with it.
    """

    number: int
    id: str
    custom_id: str | None
    body: Mapping[str, Any]
    fault: LineFault | None = None


def read_lines(part: LeasedPart) -> Iterator[BatchLine]:
    """The lines of a part that have no result yet, in order. Nothing that a line holds raises an error.

    Every line must name the same model, or none must. Whatever that name stands for by now, what is asked is the batch's model.
    """
    duplicates = set(part.duplicates)
    for number, line in enumerate(part.data.split(b"\n"), start=part.first_line):
        if number in part.done or is_blank(line):
            continue
        line_id = hashlib.blake2b(b"%d:%b" % (number, line.rstrip(b"\r")), digest_size=12).hexdigest()
        try:
            fields = parse_line(line, number)
        except CustomIdError as error:
            yield BatchLine(number, line_id, None, {}, LineFault("invalid_custom_id", f"line {number}: {error}"))
            continue
        except TooManyValuesError as error:
            yield BatchLine(number, line_id, None, {}, LineFault("too_many_values", f"line {number}: {error}"))
            continue
        except ValueError as error:
            yield BatchLine(number, line_id, None, {}, LineFault("invalid_json_line", f"line {number} is no JSON: {error}"))
            continue
        custom_id = fields.get("custom_id") if isinstance(fields, dict) else None
        name = custom_id if isinstance(custom_id, str) and custom_id else None
        fault = _fault(fields, number, number in duplicates, part.endpoint, part.named)
        yield BatchLine(number, line_id, name, {} if fault else {**fields["body"], "model": part.model}, fault)


def is_blank(line: bytes) -> bool:
    """Whether a line holds nothing but white space."""
    return not line or line.isspace()


def parse_line(line: bytes, number: int) -> Any:
    """Read a line of JSON. Halves of surrogate pairs, which no encoding can carry, become U+FFFD.

    Args:
        line: With or without its end.
        number: Its number; a byte order mark before line 1 is passed over.

    Raises:
        TooManyValuesError: It holds more than ``MOST_VALUES``.
        CustomIdError: Such a half stands in its ``custom_id``, which would be another line's then.
        ValueError: It is no JSON, or nested more than 200 deep.
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
            raise ValueError(_PLACE.sub(r" at byte \1", str(error))) from None
    fields = parse_line(whole, 0)
    # The line itself may have U+FFFD there; so what changes with what is put in place of a half shows where one was.
    if isinstance(fields, dict) and fields.get("custom_id") != parse_line(other, 0).get("custom_id"):
        raise CustomIdError("the custom_id holds half of a surrogate pair, which is no character: send a whole pair, or none")
    return fields


def _paired(half: bytes, escape: re.Match[bytes]) -> bytes:
    return half if escape[2] else escape[0]


def _fault(fields: Any, number: int, duplicate: bool, endpoint: str, model: str | None) -> LineFault | None:
    """What is wrong with a line that is JSON, the first that is found."""
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
        return LineFault("duplicate_custom_id", f"line {number}: the custom_id {quoted} stands on an earlier line too")
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
    """A line of the output file, or, for a status from 400, of the error file; without its end.

    Args:
        line: What was asked.
        status_code: The HTTP status that the call would have had.
        body: The body that it would have been answered with.
    """
    response = {"status_code": status_code, "request_id": line.id, "body": body}
    return _record({"id": f"batch_req_{line.id}", "custom_id": line.custom_id, "response": response, "error": None})


def error_line(line: BatchLine, code: str, message: str) -> str:
    """A line of the error file for one that was not asked at all; without its end.

    Args:
        line: What could not be asked.
        code: A name for programs to go by.
        message: One sentence: what is wrong and where.
    """
    error = {"code": code, "message": message, "line": line.number}
    return _record({"id": f"batch_req_{line.id}", "custom_id": line.custom_id, "response": None, "error": error})


def _record(fields: Mapping[str, Any]) -> str:
    """One line of JSON that stays one, also for programs that take U+2028 and its like for the end of a line."""
    text = json.dumps(fields, ensure_ascii=False)
    if text.isascii():
        return text
    return text.translate(_LINE_ENDS).encode(errors="backslashreplace").decode()

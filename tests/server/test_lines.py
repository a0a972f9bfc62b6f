"""Lines of a batch: what is made of good and bad ones, and what is written of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from server.batches.lines import BatchLine, error_line, output_line, parse_line, read_lines
from server.store import LeasedPart

ENDPOINT = "/v1/judgments"


def a_line(custom_id: object = "a", **changes: object) -> dict[str, Any]:
    return {"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": {"model": "m", "samples": [1]}} | changes


def part_of(
    data: bytes, *, first: int = 1, duplicates: tuple[int, ...] = (), done: tuple[int, ...] = (), named: str | None = "m"
) -> LeasedPart:
    return LeasedPart("batch_1", 0, first, ENDPOINT, "local", data, list(duplicates), set(done), "m@1", named)


def only(content: object, **options: Any) -> BatchLine:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (line,) = read_lines(part_of(data, **options))
    return line


def code(content: object, **options: Any) -> str | None:
    line = only(content, **options)
    assert line.fault is None or (str(line.number) in line.fault.message and line.body == {})
    return line.fault.code if line.fault else None


def test_a_good_line() -> None:
    line = only(a_line())
    assert (line.number, line.custom_id, line.body, line.fault) == (1, "a", {"model": "m@1", "samples": [1]}, None)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"{", "invalid_json_line"),
        (b"\xff\xfe{}", "invalid_json_line"),
        (b"\x00", "invalid_json_line"),
        (b'{"custom_id": NaN}', "invalid_json_line"),
        (b"[" * 100_000, "invalid_json_line"),
        (b"9" * 10_000, "invalid_json_line"),
        ([], "invalid_json_line"),
        ("text", "invalid_json_line"),
        (None, "invalid_json_line"),
        ({}, "missing_required_parameter"),
        (a_line(None), "missing_required_parameter"),
        (a_line(""), "missing_required_parameter"),
        (a_line(5), "invalid_type"),
        (a_line(0), "invalid_type"),
        (a_line(method=None), "missing_required_parameter"),
        (a_line(method=["POST"]), "invalid_type"),
        (a_line(method="GET"), "invalid_method"),
        (a_line(url=None), "missing_required_parameter"),
        (a_line(url={}), "invalid_type"),
        (a_line(url="/v1/completions"), "invalid_url"),
        (a_line(url="x" * 1_000_000), "invalid_url"),
        (a_line(body=None), "missing_required_parameter"),
        (a_line(body=[]), "invalid_type"),
        (a_line(body={}), "mismatched_model"),
        (a_line(body={"model": "other"}), "mismatched_model"),
        (a_line(body={"model": 5}), "mismatched_model"),
    ],
)
def test_a_bad_line(line: object, expected: str) -> None:
    found = only(line)
    assert found.fault is not None
    assert found.fault.code == expected
    assert "line 1" in found.fault.message
    assert len(found.fault.message) < 500
    assert found.body == {}


def test_a_bad_line_keeps_its_name_where_it_has_one() -> None:
    assert only(a_line("mine", url="/other")).custom_id == "mine"
    assert only(a_line(7)).custom_id is None


def test_lines_without_a_model_go_together() -> None:
    line = json.dumps(a_line(body={"samples": []})).encode()
    assert next(read_lines(part_of(line, named=None))).body == {"samples": [], "model": "m@1"}
    assert code(a_line(body={"model": None})) == "mismatched_model"


def test_numbers_count_blank_lines_and_ends_of_either_kind() -> None:
    good = json.dumps(a_line()).encode()
    data = b"\n \t\r\n" + good + b"\r\n\n" + good + b"\n" + good
    lines = list(read_lines(part_of(data, first=10, duplicates=(14,))))
    assert [line.number for line in lines] == [12, 14, 15]
    assert [line.fault and line.fault.code for line in lines] == [None, "duplicate_custom_id", None]


def test_a_line_with_too_many_values_is_not_read() -> None:
    taken = a_line(body={"model": "m", "samples": [",[{" * 100_000] + [1] * 200_000})
    assert code(taken) is None
    assert code(a_line(body={"model": "m", "samples": [1] * 250_001})) == "too_many_values"


def test_lines_with_a_result_are_passed_over() -> None:
    data = b"\n".join(json.dumps(a_line(str(number))).encode() for number in range(1, 6))
    assert [line.number for line in read_lines(part_of(data, done=(1, 4)))] == [2, 3, 5]


def test_a_byte_order_mark_is_passed_over_before_the_first_line_only() -> None:
    data = b"\xef\xbb\xbf" + json.dumps(a_line()).encode()
    assert code(data) is None
    assert code(data, first=2) == "invalid_json_line"


def test_halves_of_surrogate_pairs_are_replaced_and_pairs_are_not() -> None:
    text = rb'"\ud83d\ude00 \ud83d \ude00 \\ud83d \uD83D"'
    assert parse_line(text, 1) == "\U0001f600 � � \\ud83d �"
    with pytest.raises(ValueError, match="at byte 7"):
        parse_line(rb'"\ud83d', 1)


HALVES = [rb"a\ud800", rb"a\uDBFF", rb"\udc00a", rb"\ud83d\ud83d\ude00"]


@pytest.mark.parametrize("half", HALVES)
def test_a_name_with_half_of_a_pair_is_refused_and_one_with_a_pair_is_not(half: bytes) -> None:
    line = only(json.dumps(a_line("NAME")).encode().replace(b"NAME", half))
    assert line.fault is not None
    assert (line.fault.code, line.custom_id) == ("invalid_custom_id", None)
    assert line.fault.message.startswith("line 1: the custom_id holds half of a surrogate pair")
    whole = only(json.dumps(a_line("NAME", body={"model": "m", "x": "HALF"})).encode().replace(b"NAME", rb"\ud83d\ude00\ufffd"))
    assert (whole.fault, whole.custom_id) == (None, "\U0001f600\ufffd")
    elsewhere = json.dumps(a_line("NAME", body={"model": "m", "x": "HALF"})).encode().replace(b"HALF", half)
    assert only(elsewhere.replace(b"NAME", rb"\ufffd")).custom_id == "\ufffd"


def test_output_has_openais_form() -> None:
    line = only(a_line())
    record = json.loads(output_line(line, 200, {"data": [1]}))
    assert record["id"].startswith("batch_req_")
    assert record["custom_id"] == "a"
    assert record["response"] == {"status_code": 200, "request_id": line.id, "body": {"data": [1]}}
    assert record["error"] is None


def test_a_line_that_was_not_asked_tells_why() -> None:
    line = only(b"broken", first=17)
    assert line.fault is not None
    record = json.loads(error_line(line, line.fault.code, line.fault.message))
    assert record["custom_id"] is None
    assert record["response"] is None
    assert record["error"] == {"code": "invalid_json_line", "message": line.fault.message, "line": 17}


def test_the_same_line_gives_the_same_record_and_another_one_another_id() -> None:
    first, again = only(a_line()), only(a_line())
    assert output_line(first, 200, {}) == output_line(again, 200, {})
    ids = {only(a_line()).id, only(a_line("b")).id, only(a_line(), first=2).id}
    assert len(ids) == 3


def test_a_record_is_one_line_for_every_reader() -> None:
    hostile = "\u2028\u2029\x85\r\n\x0b\x0c\x1c\x00 é \U0001f600 \ud83d"
    record = output_line(only(a_line("\u2028é")), 200, {"text": hostile})
    assert len(record.splitlines()) == 1
    record.encode()
    assert "é \U0001f600" in record
    assert json.loads(record)["response"]["body"]["text"] == hostile
    assert json.loads(record)["custom_id"] == "\u2028é"

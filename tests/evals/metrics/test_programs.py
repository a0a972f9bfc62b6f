"""pass@k of programs, run in the real sandbox."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from evals.metrics.catalog import open_metric
from evals.metrics.metric import Measured, Pair
from evals.metrics.pass_at_k import check_program
from evals.sandbox import Sandbox
from judges.errors import MagistrateError

TESTS = {"test_imports": [], "test_list": ["assert double(2) == 4", "assert double(0) == 0"]}
RIGHT = "```python\ndef double(x):\n    return x + x\n```"
WRONG = "def double(x):\n    return 2"
ENDLESS = "def double(x):\n    while True:\n        pass"


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Programs can be confined here."""
    try:
        Sandbox.open()
    except MagistrateError as error:
        pytest.skip(str(error))


def measure(
    predictions: list[str | list[str]], fields: dict[str, Any] | None = None, name: str = "pass@1", **options: Any
) -> Any:
    pairs = [Pair(str(number), TESTS if fields is None else fields, "", one) for number, one in enumerate(predictions)]
    return asyncio.run(open_metric(name, options).measure(pairs))


def test_a_program_passes_or_it_does_not() -> None:
    found = measure([RIGHT, WRONG, "I cannot write programs.", "", ENDLESS, ["def double(x): return x * 2"]], seconds=2)
    assert [one.value for one in found] == [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    assert [one.note for one in found] == [None, "of 1: 1 failed", "of 1: 1 failed", "of 1: 1 failed", "of 1: 1 timed out", None]


def test_several_programs_are_the_chance_of_k_of_them() -> None:
    answers: list[str | list[str]] = [[RIGHT, WRONG, RIGHT, WRONG]]
    assert measure(answers) == [Measured(0.5, note="of 4: 2 failed")]
    assert measure(answers, name="pass@2")[0].value == pytest.approx(5 / 6)
    assert measure(answers, name="pass@k", k=3)[0].value == 1.0


def test_too_few_programs_are_not_measured() -> None:
    (few,) = measure([[RIGHT]], name="pass@2")
    assert few == Measured(None, "pass@2 needs 2 programs or more; this prediction has 1")
    (none,) = measure([[]])
    assert none == Measured(None, "pass@1 needs 1 programs or more; this prediction has 0")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "field `test_list` is missing"),
        ({"test_list": []}, "field `test_list` holds no test"),
        ({"test_list": "assert double(2) == 4"}, "field `test_list` must be a list of strings, not a string"),
        ({"test_list": ["assert True"], "test_imports": [1]}, "field `test_imports` must hold strings; number 1 is a number"),
    ],
)
def test_a_row_without_tests_is_not_measured(fields: dict[str, Any], reason: str) -> None:
    assert measure([RIGHT], fields) == [Measured(None, reason)]


def test_imports_may_be_left_out() -> None:
    assert measure([RIGHT], {"test_list": TESTS["test_list"]}) == [Measured(1.0)]
    assert measure([RIGHT], {"test_list": TESTS["test_list"], "test_imports": None}) == [Measured(1.0)]


def test_two_programs_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way, most = 0, 0
    lock = threading.Lock()

    def counted(*arguments: Any) -> Any:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        try:
            return check_program(*arguments)
        finally:
            with lock:
                under_way -= 1

    monkeypatch.setattr("evals.metrics.programs.check_program", counted)
    waits = "import time\ndef double(x):\n    time.sleep(0.2)\n    return x + x"
    assert [one.value for one in measure([waits] * 6, seconds=20)] == [1.0] * 6
    assert most == 2


def test_solutions_of_mbpp_pass_their_tests_and_no_others(data: Path) -> None:
    rows = json.loads((data / "mbpp" / "sanitized-mbpp.json").read_text())[:24]
    metric = open_metric("pass@1")

    def pairs(shift: int) -> list[Pair]:
        return [Pair(str(row["task_id"]), row, row["code"], rows[(at + shift) % 24]["code"]) for at, row in enumerate(rows)]

    right, wrong = asyncio.run(metric.measure(pairs(0))), asyncio.run(metric.measure(pairs(1)))
    assert [one.value for one in right] == [1.0] * 24
    assert [one.value for one in wrong] == [0.0] * 24

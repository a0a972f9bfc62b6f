"""pass@k, and what it counts as passing."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pytest

from evals.metrics.pass_at_k import check_program, code_of, pass_at_k
from evals.sandbox import Outcome, Sandbox
from judges.errors import MagistrateError

SOLUTION = "def double(x):\n    return 2 * x\n"
TESTS = ["assert double(1) == 2", "assert double(2) == 4", "assert double([3]) == [3, 3]"]


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    try:
        return Sandbox.open()
    except MagistrateError as error:
        pytest.skip(str(error))


def checked(sandbox: Sandbox, code: str, tests: list[str] | None = None, seconds: float = 10) -> Outcome:
    return check_program(sandbox, code, [], tests or TESTS, seconds)


# The estimate


@pytest.mark.parametrize(("n", "c", "k"), [(n, c, k) for n in range(1, 8) for c in range(n + 1) for k in range(1, n + 1)])
def test_the_estimate_is_the_share_of_draws_with_a_right_one(n: int, c: int, k: int) -> None:
    draws = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == float(Fraction(sum(map(any, draws)), len(draws)))


@pytest.mark.parametrize(("n", "c", "k"), [(200, 1, 100), (1000, 3, 7), (5000, 2, 1), (10_000, 9_999, 1)])
def test_large_numbers_are_exact(n: int, c: int, k: int) -> None:
    exact = 1 - math.prod(Fraction(n - c - i, n - i) for i in range(k))
    assert pass_at_k(n, c, k) == float(exact)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 4), (3, 1, 0), (0, 0, 1)])
def test_impossible_numbers_are_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(MagistrateError, match="pass@k"):
        pass_at_k(n, c, k)


# The program in an answer


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("def f(): pass", "def f(): pass"),
        ("Sure!\n```python\ndef f(): pass\n```\nThis does nothing.", "def f(): pass"),
        ("```\na = 1\n```", "a = 1"),
        ("```Python3 title='x'\na = 1\n```", "a = 1"),
        ("``` py\na = 1\n```", "a = 1"),
        ("```{.python}\na = 1\n```", "a = 1"),
        ("~~~python\na = '''\n```\n'''\n~~~", "a = '''\n```\n'''"),
        ("````python\na = '''\n```\n'''\n````", "a = '''\n```\n'''"),
        ("```python\na = 1\n```\nand\n```python\nb = 2\n```", "a = 1\nb = 2"),
        ("```bash\npip install x\n```\n```python\na = 1\n```\n```\n1\n```", "a = 1"),
        ("```text\nno\n```\n```\na = 1\n```", "a = 1"),
        ("```starlark\na = 1\n```", "a = 1"),
        ("1. Like this:\n   ```python\n   def f():\n       pass\n   ```", "def f():\n    pass"),
        ("```python\r\na = 1\r\n```\r\n", "a = 1"),
        ("```python\ndef f():\n    return", "def f():\n    return"),
        ("Use `f` and ```g``` here", "Use `f` and ```g``` here"),
        ("```python\n```", ""),
        ("", ""),
    ],
)
def test_the_program_is_found_in_an_answer(answer: str, code: str) -> None:
    assert code_of(answer) == code


# What passes


@pytest.mark.parametrize(
    "code",
    [
        SOLUTION,
        "print('PASSED')\n" + SOLUTION,
        "import sys\nsys.stdout.close()\nsys.stderr.close()\n" + SOLUTION,
        "import os\nos.close(1)\n" + SOLUTION,
        SOLUTION + "if __name__ == '__main__':\n    print(double(int(input())))\n",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n" + SOLUTION,
        "import atexit, os\natexit.register(os._exit, 3)\n" + SOLUTION,
        "from dataclasses import dataclass\n@dataclass\nclass Pair:\n    a: 'int'\n" + SOLUTION,
        "import builtins\nbuiltins.print = None\n" + SOLUTION,
        "double = lambda x: 2 * x",
        "def double(x): return type(x)(2 * x)",
        "from fractions import Fraction\ndef double(x): return x + x if isinstance(x, list) else Fraction(2 * x)",
    ],
)
def test_a_right_solution_passes(sandbox: Sandbox, code: str) -> None:
    outcome = checked(sandbox, code)
    assert (outcome.status, outcome.output) == ("passed", ""), outcome


@pytest.mark.parametrize(
    "code",
    [
        "",
        "def double(x): return x",
        "def double(x): return",
        "raise SystemExit",
        "import sys; sys.exit(0)",
        "import os; os._exit(0)",
        "import os\ndef double(x): os._exit(0)",
        "import sys\ndef double(x): sys.exit(0)",
        "import threading, os\nthreading.Timer(0, os._exit, (0,)).start()\nimport time\ntime.sleep(2)",
        "import atexit, os\natexit.register(os._exit, 0)\nraise ValueError",
        "print('passed'); import os; os.write(1, b'0' * 64); os._exit(0)",
        "import os, sys\nos.write(2, sys.stdin.read().encode())\nos._exit(0)",
        "import os; os.closerange(0, 64)",
        "import sys; sys.stdin.read(); sys.stdin.close()",
        "class Yes:\n    def __eq__(self, other): return True\ndef double(x): return Yes()",
        "class Yes(int):\n    def __eq__(self, other): return True\ndef double(x): return Yes()",
        "class Yes(list):\n    __eq__ = __ne__ = lambda *_: True\ndef double(x): return Yes()",
        "class Yes(dict):\n    def __eq__(self, other): return True\ndef double(x): return [Yes()]\n",
        "import functools, operator\nclass Yes:\n    __eq__ = functools.partial(operator.eq, 1, 1)\ndef double(x): return Yes()",
        "class Kind(type):\n    def __eq__(self, other): return True\nclass Yes(metaclass=Kind): pass\ndef double(x): return Yes",
        "from unittest.mock import ANY\ndef double(x): return ANY",
        "from unittest.mock import ANY\ndef double(x): return (1, [ANY])",
        "import builtins\nbuiltins.AssertionError = type('E', (BaseException,), {})\ndef double(x): return x",
        "import sys\nsys.excepthook = lambda *_: None\ndef double(x): return x",
        "import signal, os\nsignal.signal(signal.SIGALRM, lambda *_: os._exit(0))\nsignal.alarm(1)\nsignal.pause()",
    ],
)
def test_a_wrong_solution_fails(sandbox: Sandbox, code: str) -> None:
    outcome = checked(sandbox, code)
    assert (outcome.status, outcome.output) == ("failed", ""), outcome


def test_tests_see_the_builtins_as_they_were(sandbox: Sandbox) -> None:
    code = "import builtins\nbuiltins.sorted = builtins.set = lambda _: [1, 2]\ndef double(x): return [3]"
    assert checked(sandbox, code, ["assert sorted(double(1)) == [1, 2]"]).status == "failed"
    assert checked(sandbox, code, ["assert set(double(1)) == {3}"]).status == "passed"


def test_a_test_that_is_no_comparison_counts(sandbox: Sandbox) -> None:
    code = "def odd(x):\n    return x % 2 == 1"
    assert (
        checked(
            sandbox, code, ["assert odd(1)", "assert not odd(2)", "assert odd(1) is True", "assert odd(1) == True == 1"]
        ).status
        == "passed"
    )
    assert checked(sandbox, code, ["assert odd(2)"]).status == "failed"
    assert checked(sandbox, code, ["assert not odd(1)"]).status == "failed"


def test_every_test_counts(sandbox: Sandbox) -> None:
    for wrong in range(3):
        tests = [*TESTS[:wrong], "assert double(1) == 3", *TESTS[wrong:]]
        outcome = checked(sandbox, SOLUTION, tests)
        assert outcome.status == "failed"
        assert "assert double(1) == 3" in outcome.errors


def test_imports_of_tests_are_there_for_both(sandbox: Sandbox) -> None:
    code = "def root(x):\n    return math.sqrt(x)"
    assert check_program(sandbox, code, ["import math"], ["assert math.isclose(root(4), 2)"], 10).status == "passed"
    assert check_program(sandbox, code, [], ["assert root(4) == 2"], 10).status == "failed"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("def double(x):\n    while True: pass", "timed_out"),
        ("while True: pass", "timed_out"),
        ("def double(x):\n    return 'x' * (1 << 40)", "out_of_memory"),
        ("import ctypes\ndef double(x): ctypes.string_at(0)", "killed"),
        ("def double(x): return double(x)", "failed"),
        ("def double(x:", "failed"),
        ("a = '\0'", "failed"),
        ("a = '\ud800'", "failed"),
    ],
)
def test_what_became_of_a_solution_is_told(sandbox: Sandbox, code: str, status: str) -> None:
    assert checked(sandbox, code, seconds=1 if status == "timed_out" else 10).status == status


def test_an_error_shows_its_line(sandbox: Sandbox) -> None:
    outcome = checked(sandbox, "def double(x):\n    return x + surprise\n")
    assert "return x + surprise" in outcome.errors
    assert outcome.errors.endswith("NameError: name 'surprise' is not defined\n")


def test_a_check_without_tests_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(MagistrateError, match="without a test"):
        check_program(sandbox, SOLUTION, [], [], 10)


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.stress)])
def test_reference_solutions_of_mbpp_pass(sandbox: Sandbox, data: Path, every: int) -> None:
    """All 427 in the stress run, every tenth else."""
    problems = json.loads((data / "mbpp" / "sanitized-mbpp.json").read_text())
    assert len(problems) == 427
    problems = problems[::every]
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(
            pool.map(
                lambda problem: check_program(sandbox, problem["code"], problem["test_imports"], problem["test_list"], 60),
                problems,
            )
        )
    assert [problem["task_id"] for problem, outcome in zip(problems, outcomes, strict=True) if outcome.status != "passed"] == []

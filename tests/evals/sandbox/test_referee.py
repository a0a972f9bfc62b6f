"""The referee: what passes, what cannot, and what crosses from a solution to its tests."""

from __future__ import annotations

import pytest

from evals.metrics.pass_at_k import check_program
from evals.sandbox import Outcome, Sandbox
from tests.evals.sandbox.conftest import with_limits
from tests.evals.sandbox.hostile_programs import BOMBS, OTHER_TESTS, PROGRAMS, TESTS

RIGHT = "def double(x):\n    return 2 * x\n"


def checked(sandbox: Sandbox, code: str, tests: list[str] | None = None, imports: list[str] | None = None) -> Outcome:
    return check_program(sandbox, code, imports or [], tests or TESTS, 10)


def test_the_right_program_passes_the_tests_of_the_hostile_ones(sandbox: Sandbox) -> None:
    assert checked(sandbox, RIGHT).status == "passed"
    assert len(PROGRAMS) + len(BOMBS) + len(OTHER_TESTS) >= 46


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_hostile_program_does_not_pass(sandbox: Sandbox, name: str) -> None:
    outcome = check_program(sandbox, PROGRAMS[name], [], TESTS, 3)
    assert outcome.status != "passed", outcome
    assert outcome.exit_code != 0
    assert outcome.output == ""


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_does_not_pass(sandbox: Sandbox, name: str) -> None:
    code, status = BOMBS[name]
    outcome = check_program(sandbox, code, [], TESTS, 1 if status == "timed_out" else 20)
    assert outcome.status != "passed", outcome
    assert status in (None, outcome.status), outcome


@pytest.mark.parametrize("name", OTHER_TESTS)
def test_a_test_of_another_form_is_not_passed_either(sandbox: Sandbox, name: str) -> None:
    code, imports, tests = OTHER_TESTS[name]
    outcome = checked(sandbox, code, tests, imports)
    assert outcome.status == "failed", outcome


@pytest.mark.parametrize(
    ("code", "tests"),
    [
        ("def f(): return [1, (2.5, None), {'a': {True}}, frozenset({b'x'}), 1j, 'ä\\ud800']", ["assert f() == [1, (2.5, None), {'a': {True}}, frozenset({b'x'}), 1j, 'ä\\ud800']"]),  # noqa: E501
        ("def f(): return 7 ** 20_000", ["assert f() == 7 ** 20_000"]),
        ("def f(): return -0.0, float('inf'), float('nan')", ["import math", "a, b, c = f()", "assert (math.copysign(1, a), b) == (-1, math.inf) and math.isnan(c)"]),  # noqa: E501
        ("from collections import *\ndef f(): return Counter('aab')", ["assert f() == {'a': 2, 'b': 1}", "assert f().most_common(1) == [('a', 2)]"]),  # noqa: E501
        ("from collections import *\ndef f():\n    found = defaultdict(list)\n    found[1].append(2)\n    return found", ["assert f() == {1: [2]}"]),  # noqa: E501
        ("from collections import *\ndef f(): return deque([1, 2], 2)", ["from collections import deque", "assert f() == deque([1, 2])"]),  # noqa: E501
        ("from collections import *\ndef f(): return OrderedDict(b=1, a=2)", ["assert list(f()) == ['b', 'a'] and f() == {'a': 2, 'b': 1}"]),  # noqa: E501
        ("from collections import *\nP = namedtuple('P', 'x y')\ndef f(): return P(1, 2)", ["assert f() == (1, 2)"]),
        ("from enum import IntEnum\nclass E(IntEnum):\n    ONE = 1\ndef f(): return E.ONE", ["assert f() == 1"]),
        ("from decimal import Decimal\nfrom fractions import Fraction\ndef f(): return Decimal('0.1'), Fraction(1, 3)", ["from decimal import Decimal", "from fractions import Fraction", "assert f() == (Decimal('0.1'), Fraction(1, 3))"]),  # noqa: E501
        ("from datetime import *\ndef f(): return date(2024, 2, 29), datetime(2024, 2, 29, 1, 2, 3, 4), time(1), timedelta(3)", ["from datetime import *", "assert f() == (date(2024, 2, 29), datetime(2024, 2, 29, 1, 2, 3, 4), time(1), timedelta(3))"]),  # noqa: E501
        ("from datetime import *\ndef f(): return datetime(2024, 2, 29, tzinfo=timezone.utc), datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2), 'east'))", ["from datetime import *", "assert f() == (datetime(2024, 2, 29, tzinfo=timezone.utc), datetime(2023, 12, 31, 22, tzinfo=timezone.utc))", "assert f()[1].tzname() == 'east'"]),  # noqa: E501
        ("def f(x): return sum(x)", ["assert f(iter([1, 2])) == 3", "assert f(n for n in range(4)) == 6", "assert f(map(int, '12')) == 3", "assert f({1: 2}.values()) == 2"]),  # noqa: E501
        ("def f(x): return next(x), list(zip(x, x))", ["given = iter(range(6))", "assert f(given) == (0, [(1, 2), (3, 4)])", "assert next(given, None) is None"]),  # noqa: E501
        ("def f(x): return len(x), 2 in x, sorted(x)", ["assert f({2: 3, 1: 4}.keys()) == (2, True, [1, 2])"]),
        ("def f(x, key=None): return sorted(x, key=key) if key else x", ["assert f([1, 2], lambda x: -x) == [2, 1]"]),
        ("import builtins\nbuiltins.list = builtins.set = lambda *_: 1\ndef f(x): return [x]", ["assert f({1: {2}}) == [{1: {2}}]"]),  # noqa: E501
        ("def f(x): return hasattr(x, 'send'), [one for one in x]", ["class Pair:\n    def __iter__(self): return iter([1, [2]])", "assert f(Pair()) == (False, [1, [2]])"]),  # noqa: E501
        ("class Low(ValueError): pass\ndef f(): raise Low([1], 'x')", ["try:\n    f()\nexcept RuntimeError:\n    assert False\nexcept ValueError as error:\n    assert error.args == ([1], 'x')"]),  # noqa: E501
        ("import json\ndef f(x): return json.loads(x)", ["try:\n    f('[')\n    done = True\nexcept ValueError:\n    done = False", "assert not done"]),  # noqa: E501
        ("def f(x): return x.encode('ascii')", ["try:\n    f('\\xe4')\n    done = True\nexcept UnicodeEncodeError as error:\n    done = error.start != 0", "assert not done"]),  # noqa: E501
        ("def f(): return range(3)", ["assert f() == range(3)", "assert list(f()) == [0, 1, 2]"]),
        ("def f(n):\n    for one in range(n): yield one", ["assert list(f(3)) == [0, 1, 2]", "assert next(f(1)) == 0", "assert sum(f(4)) == 6"]),  # noqa: E501
        ("import itertools\ndef f(): return itertools.count(5)", ["import itertools", "assert list(itertools.islice(f(), 2)) == [5, 6]"]),  # noqa: E501
        ("def f(x): return map(str, x)", ["assert list(f([1, 2])) == ['1', '2']", "assert f([1]) != ['1'] if False else True"]),
        ("def f(): return {'a': 1}.keys()", ["assert set(f()) == {'a'} and len(f()) == 1 and 'a' in f()"]),
        ("def f(x): return type(x)", ["assert f(1) is int and f([]) == list"]),
        ("def f(a, *rest, b=2, **more): return a, rest, b, more", ["assert f(1, 3, b=4, c=5) == (1, (3,), 4, {'c': 5})"]),
        ("def f(function, values): return [function(one) for one in values]", ["assert f(lambda x: x + 1, [1, 2]) == [2, 3]", "assert f(len, ['ab']) == [2]", "assert f(int, ['3']) == [3]"]),  # noqa: E501
        ("def f(x):\n    def g(y): return x + y\n    return g", ["assert f(1)(2) == 3"]),
        ("class Stack:\n    def __init__(self): self.held = []\n    def push(self, x): self.held.append(x)\n    def pop(self): return self.held.pop()\n    def __len__(self): return len(self.held)\n    def __str__(self): return f'{self.held}'\n    def __getitem__(self, n): return self.held[n]", ["stack = Stack()", "assert not stack", "stack.push(3)", "assert len(stack) == 1 and stack[0] == 3 and stack.held == [3] and str(stack) == '[3]'", "assert stack.pop() == 3"]),  # noqa: E501
        ("class P:\n    def __init__(self, x): self.x = x\ndef f(points): return sum(p.x for p in points)", ["assert f([P(1), P(2)]) == 3"]),  # noqa: E501
        ("class P:\n    x = 3\ndef f(function): return function(P()).x", ["assert f(lambda p: p) == 3"]),
        ("LIMIT = 5\ndef f(): return LIMIT", ["assert f() == LIMIT == 5"]),
        ("count = 0\ndef f():\n    global count\n    count += 1", ["f()", "f()", "assert count == 2"]),
        ("def f(x):\n    if x < 0: raise ValueError('below 0')\n    return x", ["try:\n    f(-1)\nexcept ValueError as error:\n    assert str(error) == 'below 0'\nelse:\n    assert False"]),  # noqa: E501
        ("def f(x): return {}[x]", ["try:\n    f('a')\n    assert False\nexcept KeyError as error:\n    assert error.args == ('a',)"]),  # noqa: E501
        ("def sum(a, b): return a * b", ["assert sum(2, 5) == 10"]),
        ("def f(x): return x", ["assert all(f(one) == one for one in range(3))", "assert [f(n) for n in (1, 2)] == [1, 2]", "assert sorted(f([2, 1])) == [1, 2]"]),  # noqa: E501
        ("def f(x): return x", ["def check(candidate):\n    assert candidate(1) == 1\n    assert f(2) == 2", "check(f)"]),
        ("import sys\ndef f(x): return sys.getsizeof(x)", ["assert f((1, 2)) == sys.getsizeof((1, 2))"]),
        ("x = 1\n" * 3 + "def f(): return '\\N{BOM}'".replace("\\N{BOM}", ""), ["assert f() == ''"]),
    ],
)  # fmt: skip
def test_values_cross_as_they_are(sandbox: Sandbox, code: str, tests: list[str]) -> None:
    outcome = checked(sandbox, code, tests)
    assert outcome.status == "passed", outcome
    broken = checked(sandbox, code, [*tests, "assert False"])
    assert (broken.status, "assert False" in broken.errors) == ("failed", True), broken


@pytest.mark.parametrize(
    "tests",
    [
        ["values = [3, 1, 2]", "assert f(values) is None", "assert values == [1, 2, 3]"],
        ["values = [[2, 1], {'a': [2, 1]}]", "inner = values[0]", "f(values[0])", "f(values[1]['a'])", "assert inner == [1, 2]", "assert values[1] == {'a': [1, 2]}"],  # noqa: E501
        ["values = [1, 2]", "f(values, key=lambda x: -x)", "assert values == [2, 1]"],
        ["held = {'a': [2, 1]}", "inner = held['a']", "g(held)", "assert inner == [1, 2] and held['b'] == 0"],
        ["held = {1}", "g(held)", "assert held == {1, 'b'}"],
        ["import collections", "held = collections.deque([1])", "g(held)", "assert list(held) == [1, 'b']"],
    ],
)  # fmt: skip
def test_what_a_solution_changes_in_its_arguments_is_changed(sandbox: Sandbox, tests: list[str]) -> None:
    code = """
def f(values, **options): values.sort(**options)
def g(held):
    if isinstance(held, dict):
        held["a"].sort()
        held["b"] = 0
    else:
        (held.add if isinstance(held, set) else held.append)("b")
"""
    assert checked(sandbox, code, tests).status == "passed"
    assert checked(sandbox, "def f(*_, **__): pass\ng = f", tests).status == "failed"


@pytest.mark.parametrize(
    ("right", "wrong", "tests"),
    [
        ("def f(n): return [[0] * n for _ in range(n)]", "def f(n): return [[0] * n] * n", ["grid = f(3)", "grid[0][0] = 1", "assert grid[1] == [0, 0, 0]"]),  # noqa: E501
        ("def f(x): return list(x)", "def f(x): return x", ["given = [1]", "found = f(given)", "found.append(2)", "assert given == [1]"]),  # noqa: E501
        ("def f(x): return list(x)", "def f(x): return x", ["given = [1]", "assert f(given) is not given and f(given) == [1]"]),
        ("def f(x): return x", "def f(x): return x.copy()", ["given = {1: 2}", "assert f(given) is given"]),
        ("def f(x): return x[0]", "def f(x): return x[0].copy()", ["inner = [1]", "f([inner]).append(2)", "assert inner == [1, 2]"]),  # noqa: E501
        ("def f(x): return x.copy()", "import copy\nf = copy.deepcopy", ["rows = [[1]]", "f(rows)[0].append(2)", "assert rows == [[1, 2]]"]),  # noqa: E501
        ("import copy\nf = copy.deepcopy", "def f(x): return x.copy()", ["rows = {1: {2: [3]}}", "f(rows)[1][2].append(4)", "assert rows == {1: {2: [3]}}"]),  # noqa: E501
        ("import copy\nf = copy.deepcopy", "def f(x): return [one.copy() for one in x]", ["row = [1]", "one, two = f([row, row])", "assert one is two is not row"]),  # noqa: E501
        ("def f(x, y): return x is y", "def f(x, y): return x == y", ["a = [1]", "assert f(a, a) and not f(a, [1])"]),
        ("def f(x, y): x.append(y)", "def f(x, y): x.append(y.copy())", ["a, b = [], []", "f(a, b)", "assert a[0] is b"]),
        ("def f(x): x.append(x)", "def f(x): x.append([])", ["a = []", "f(a)", "assert a[0] is a"]),
        ("def f(x):\n    x.append(1)\n    raise ValueError", "def f(x): raise ValueError", ["a = []", "try:\n    f(a)\nexcept ValueError:\n    pass", "assert a == [1]"]),  # noqa: E501
        ("def f(x):\n    raise ValueError", "def f(x):\n    x.pop()\n    raise ValueError", ["a = [1]", "try:\n    f(a)\nexcept ValueError:\n    pass", "assert a == [1]"]),  # noqa: E501
        ("def f(g, x):\n    x.append(g(x))\n    return x", "def f(g, x):\n    x.append(g(x[:]))\n    return x", ["def g(x):\n    x.append(5)\n    return len(x)", "assert f(g, [1]) == [1, 5, 2]"]),  # noqa: E501
        ("def f(): raise ValueError", "class Mine(Exception): pass\ndef f(): raise Mine", ["try:\n    f()\nexcept (RuntimeError, ValueError):\n    pass"]),  # noqa: E501
    ],
)  # fmt: skip
def test_what_is_the_same_object_stays_so(sandbox: Sandbox, right: str, wrong: str, tests: list[str]) -> None:
    found = checked(sandbox, right, tests)
    assert found.status == "passed", found
    found = checked(sandbox, wrong, tests)
    assert found.status == "failed", found


def test_objects_of_a_solutions_own_are_compared_with_nothing(sandbox: Sandbox) -> None:
    code = "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int"
    outcome = checked(sandbox, code, ["assert P(1) == P(1)"])
    assert outcome.status == "failed"
    assert outcome.errors.endswith("TypeError: an object of type `P` is no plain value, so it is compared with nothing\n")
    assert checked(sandbox, code, ["assert P(1).x == P(1).x", "assert P(1) is not None"]).status == "passed"


def test_the_order_of_sets_is_the_same_on_both_sides(sandbox: Sandbox) -> None:
    words = [f"w{number}" for number in range(50)]
    tests = [f"assert ''.join(f({words})) == ''.join(set({words}))"]
    assert checked(sandbox, "def f(x): return ''.join(set(x))", tests).status == "passed"


def test_the_memory_of_the_referee_is_bounded_too(sandbox: Sandbox) -> None:
    small = with_limits(sandbox, memory_bytes=192 << 20)
    outcome = checked(small, "def f(): return 1", ["assert f() == 1", "x = bytearray(1 << 30)"])
    assert outcome.status == "out_of_memory"


def test_tests_are_confined_too(sandbox: Sandbox) -> None:
    tests = [
        "import os, socket",
        "assert os.getuid() == os.geteuid() == f() != 0",
        "for way in (os.fork, lambda: open('/etc/passwd'), lambda: open('/written', 'w'), lambda: socket.socket()):\n"
        "    try:\n        way()\n    except OSError:\n        continue\n    assert False, way",
        "os._exit(0)",
    ]
    code = "import os\ndef f(): return os.getuid()"
    assert checked(sandbox, code, tests[:-1]).status == "passed"


def test_a_test_that_ends_itself_is_no_test_that_held(sandbox: Sandbox) -> None:
    assert checked(sandbox, RIGHT, ["assert double(1) == 2", "raise SystemExit(0)"]).status == "failed"

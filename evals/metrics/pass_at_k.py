"""pass@k: how likely one of k programs is right, and whether one is.

A program is right if the asserts of its problem hold. The asserts run in one process and the program in another, both where they
can do no harm. The asserts call the program's functions and get plain values back, of exact types that their own process has
made; they are compared there, and that process alone says whether all of them held. So a program can say what its functions
return, raise and change of their arguments, and nothing else: what it makes of ``==``, of the names of Python or of the harness,
when it ends and what it prints do not count. ``evals.sandbox.referee`` has the rules, ``docs/qualeval.md`` what they leave open.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import comb

from evals.sandbox import Outcome, Sandbox
from evals.sandbox.confinements import modules, program
from evals.sandbox.values import encoded
from judges.errors import MagistrateError

FENCE = re.compile(r"[ \t]*(?P<marks>`{3,}|~{3,})[ \t]*(?P<language>[^\s`]*)[^`]*")
PYTHON = re.compile(r"\{?\.?(python|py)[\d.]*\}?", re.IGNORECASE)


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that at least one of k programs is right, estimated without bias from n of them (Chen et al. 2021).

    It is 1 - C(n - c, k) / C(n, k), computed in whole numbers and rounded once.

    Args:
        n: How many programs were tried.
        c: How many of them were right.
        k: How many are drawn.

    Raises:
        MagistrateError: There are no such numbers of programs.
    """
    if not 0 <= c <= n:
        raise MagistrateError(f"pass@k: {c} of {n} programs cannot be right; give a number from 0 to {n}")
    if not 1 <= k <= n:
        raise MagistrateError(f"pass@k: {k} programs cannot be drawn from {n}; give a k from 1 to {n}, or try more programs")
    draws = comb(n, k)
    return (draws - comb(n - c, k)) / draws


def code_of(answer: str) -> str:
    """The program in a model's answer: what stands between fences, or all of it where there are none.

    Several blocks are joined in their order. Blocks that are said to be Python go before those that are said to be nothing, and
    these before all others. A block that is never closed ends with the answer, and one that is indented loses its indentation.

    Args:
        answer: What the model has written, without what it may have thought before.
    """
    text = answer.replace("\r\n", "\n")
    blocks = list(_blocks(text))
    python = [code for language, code in blocks if PYTHON.fullmatch(language)]
    unnamed = [code for language, code in blocks if not language]
    chosen = python or unnamed or [code for _, code in blocks] or [text]
    return "\n".join(chosen)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Each block between fences: what language it is said to be, and what it holds."""
    opened: re.Match[str] | None = None
    lines: list[str] = []
    for line in [*text.split("\n"), None]:
        fence = FENCE.fullmatch(line) if line is not None else None
        if opened is None:
            opened, lines = fence, []
        elif line is None or (fence and line.strip() == fence["marks"] and fence["marks"].startswith(opened["marks"])):
            yield opened["language"], textwrap.dedent("\n".join(lines))
            opened = None
        else:
            lines.append(line)


def check_program(sandbox: Sandbox, code: str, test_imports: Sequence[str], test_list: Sequence[str], seconds: float) -> Outcome:
    """Whether a solution passes the tests of its problem, as those of MBPP are given.

    Args:
        sandbox: Where it is run.
        code: The solution. It is a module, not the main program, and reads no input.
        test_imports: What the tests import. The solution sees it too, as it does in other harnesses.
        test_list: The tests, statements such as asserts. The solution never sees them.
        seconds: How long the solution may take with all tests.

    Returns:
        How it ended: ``passed`` only if every test was reached and held. The output is empty; what the solution writes is among
        the errors.

    Raises:
        MagistrateError: There is no test, the time is no time, or the sandbox cannot be set up.
    """
    if not test_list:
        raise MagistrateError("a program cannot be checked without a test; give one in `test_list`")
    parts = ("\n".join(test_imports), code, "\n".join(test_list))
    given = encoded(tuple(part.encode("utf-8", "surrogatepass") for part in parts))
    outcome = sandbox.run(program("values", "peer", "player"), seconds, given, referee=modules("values", "peer", "referee"))
    return replace(outcome, output="")

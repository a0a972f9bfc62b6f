"""Strangers' patterns compile in a process with limits, and what compiles too slowly keeps no other waiting."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from judges.engines import pattern_guard, weights
from judges.engines.pattern_guard import CALLER, PatternError, PatternGuard
from judges.engines.pattern_guard_process import TOO_LARGE
from judges.engines.pattern_guard_process import TOO_SLOW as SLOW
from judges.engines.transformers import OUTLINES_BACKENDS, OutlinesCompiler
from judges.errors import EngineError, RequestError
from tests.judges.engines.fault_compiler import FaultCompiler
from tests.tiny import TINY

HOSTILE = ["(a+)+(b{1,1000}){1,1000}", "(a|b)*a(a|b){24}", r"\[" + ",".join(['"[^"]{400}"'] * 400) + r"\]"]

SECONDS = 2
TOO_SLOW = SLOW.format(SECONDS)


KILLED = """
import asyncio, subprocess, sys
from judges.engines.pattern_guard import PatternGuard
from tests.judges.engines.fault_compiler import FaultCompiler

def children(process):
    return subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True).stdout.split()

async def main():
    guard = PatternGuard(FaultCompiler({loads}))
    asking = asyncio.create_task(guard.admit({{"regex": "{order}"}}))
    while guard._process is None or "{order}" and not children(guard._process.pid):
        await asyncio.sleep(0.05)
    await asyncio.sleep(1)
    print(guard._process.pid, *children(guard._process.pid), flush=True)
    await asking

asyncio.run(main())
"""


@pytest.fixture
def guard(loop: asyncio.Runner) -> Iterator[PatternGuard]:
    guard = PatternGuard(FaultCompiler(), seconds=SECONDS)
    yield guard
    loop.run(guard.close())


def admit(guard: PatternGuard, order: str) -> Coroutine[Any, Any, object]:
    return guard.admit({"regex": order})


async def outcome(guard: PatternGuard, order: str) -> str:
    try:
        await admit(guard, order)
    except PatternError as error:
        return str(error)
    return "compiled"


def test_what_compiles_comes_back_as_the_engine_takes_it(loop: asyncio.Runner, guard: PatternGuard) -> None:
    assert loop.run(guard.admit({"regex": "a"})) == {"regex": "a", "seen": True}


def test_the_fields_of_a_schema_keep_their_order(loop: asyncio.Runner, guard: PatternGuard) -> None:
    """A reason stands before the score that it is for."""
    found = loop.run(guard.admit({"json": {"properties": {"why": {}, "score": {}}}, "regex": "a"}))
    assert list(found["json"]["properties"]) == ["why", "score"]


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ("refuse", "it is no pattern"),
        ("compute", TOO_SLOW),
        ("take memory", TOO_LARGE),
        ("take it by and by", TOO_LARGE),
        ("abort", TOO_LARGE),
    ],
)
def test_what_does_not_compile_is_refused_in_a_sentence(loop: asyncio.Runner, guard: PatternGuard, order: str, why: str) -> None:
    assert loop.run(outcome(guard, order)) == why
    assert loop.run(outcome(guard, "a")) == "compiled", "the process goes on"


def test_slow_patterns_keep_quick_ones_waiting_only_in_the_short_queue(loop: asyncio.Runner, guard: PatternGuard) -> None:
    async def order_of_ends() -> list[str]:
        ended: list[str] = []

        async def one(order: str) -> None:
            await outcome(guard, order)
            ended.append(order)

        await asyncio.gather(*(one(order) for order in ("compute 1", "compute 2", "quick")))
        return ended

    assert loop.run(order_of_ends()) == ["quick", "compute 1", "compute 2"]


async def ends(guard: PatternGuard, orders: Sequence[tuple[str, str]]) -> list[str]:
    """What callers ask for, in the order in which it ends."""
    ended: list[str] = []

    async def one(caller: str, order: str) -> None:
        CALLER.set(caller)
        await outcome(guard, order)
        ended.append(order)

    await asyncio.gather(*(asyncio.create_task(one(caller, order)) for caller, order in orders))
    return ended


def test_callers_take_turns(loop: asyncio.Runner, guard: PatternGuard) -> None:
    """Whoever asks for many patterns has others' between them, quick ones and those for the long queue."""
    many = [("greedy", f"wait 0.{n}") for n in range(1, 8)]
    assert loop.run(ends(guard, [*many, ("honest", "quick")])).index("quick") < 2
    slow = [("greedy", f"compute {n}") for n in range(1, 4)]
    # Either lane has one at work and one more of the greedy caller's before the honest one; the third comes behind it.
    assert loop.run(ends(guard, [*slow, ("honest", "compute 9")])).index("compute 9") < 3


def test_a_pattern_of_two_callers_has_its_turn_among_those_of_either(loop: asyncio.Runner, guard: PatternGuard) -> None:
    many = [("greedy", f"wait 0.{n}") for n in range(1, 8)]
    assert loop.run(ends(guard, [*many, ("greedy", "both"), ("honest", "both")])).index("both") < 2


def test_what_nobody_waits_for_is_dropped(loop: asyncio.Runner, guard: PatternGuard) -> None:
    async def leave() -> int:
        CALLER.set("greedy")
        asked = [asyncio.create_task(outcome(guard, f"wait {n}00")) for n in range(1, 8)]
        await outcome(guard, "refuse")  # the first is compiled meanwhile
        for one in asked:
            one.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        return len(guard._waiting) + guard._size

    known = len('{"regex": "refuse"}')
    assert loop.run(leave()) == max(1000, known)
    assert loop.run(asyncio.wait_for(outcome(guard, "quick"), 60)) == "compiled", "the child has ended too"


def test_one_caller_cannot_take_every_place(loop: asyncio.Runner, guard: PatternGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_guard, "MOST_OF_A_CALLER", 2)

    async def ask(caller: str, order: str) -> str:
        CALLER.set(caller)
        try:
            return await outcome(guard, order)
        except RequestError as error:
            return str(error)

    async def all_of_them() -> list[str]:
        asked = [("greedy", "a"), ("greedy", "b"), ("greedy", "c"), ("greedy", "a"), ("honest", "d")]
        return await asyncio.gather(*(asyncio.create_task(ask(*one)) for one in asked))

    refused = "2 new patterns of yours wait to be compiled; call again in a while"
    assert loop.run(all_of_them()) == ["compiled", "compiled", refused, "compiled", "compiled"]


def test_a_pattern_is_compiled_once_also_where_many_ask_at_once(loop: asyncio.Runner, guard: PatternGuard) -> None:
    async def ask() -> list[str]:
        return await asyncio.gather(*(outcome(guard, "refuse") for _ in range(50)))

    assert set(loop.run(ask())) == {"it is no pattern"}
    assert loop.run(outcome(guard, "refuse")) == "it is no pattern"
    assert next(guard._numbers) == 1, "one was sent"


def test_whoever_gives_up_leaves_the_others_their_answer(loop: asyncio.Runner, guard: PatternGuard) -> None:
    async def ask() -> str:
        first = asyncio.create_task(outcome(guard, "wait 0.5"))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(outcome(guard, "wait 0.5"))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert loop.run(ask()) == "compiled"


@pytest.mark.stress
def test_a_child_that_only_waits_is_ended_too(loop: asyncio.Runner, guard: PatternGuard) -> None:
    assert loop.run(outcome(guard, "wait 13")) == "compiled", "12 s in the short queue, then again in the long one"


def test_a_guard_that_has_ended_is_started_again(loop: asyncio.Runner, guard: PatternGuard) -> None:
    with pytest.raises(RequestError, match="has ended; call again"):
        loop.run(admit(guard, "end the guard"))
    assert loop.run(outcome(guard, "a")) == "compiled"


def test_it_starts_before_anybody_asks_and_once(loop: asyncio.Runner, guard: PatternGuard) -> None:
    async def started() -> tuple[object, object]:
        guard.begin()
        before = await guard._started()
        await admit(guard, "a")
        return before, guard._process

    before, after = loop.run(started())
    assert before is after


def test_a_guard_that_is_closed_starts_no_more(loop: asyncio.Runner, guard: PatternGuard) -> None:
    async def close_and_begin() -> None:
        guard.begin()
        await guard.close()
        guard.begin()
        await asyncio.gather(*guard._tasks)

    loop.run(close_and_begin())
    assert guard._process is None


def test_what_took_too_long_in_an_answer_is_refused_to_who_asked(loop: asyncio.Runner, guard: PatternGuard) -> None:
    async def ask(caller: str) -> str:
        CALLER.set(caller)
        return await outcome(guard, "a")

    async def refuse() -> None:
        CALLER.set("greedy")
        guard.refuse({"regex": "a"}, "it takes too long")

    assert loop.run(ask("greedy")) == "compiled"
    loop.run(refuse())
    assert [loop.run(ask(caller)) for caller in ("greedy", "honest")] == ["it takes too long", "compiled"]


def test_too_many_that_wait_are_refused(loop: asyncio.Runner, guard: PatternGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_guard, "MOST_WAITING", 2)

    async def ask() -> list[object]:
        return await asyncio.gather(*(admit(guard, f"wait 0.{n}") for n in range(1, 4)), return_exceptions=True)

    assert [type(one) for one in loop.run(ask())] == [dict, dict, RequestError]


def test_what_is_known_is_bounded(loop: asyncio.Runner, guard: PatternGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_guard, "MOST_KNOWN", 3500)
    for number in range(5):
        loop.run(admit(guard, str(number)))
    assert len(guard._known) == 3
    loop.run(admit(guard, "a" * 3000))
    assert len(guard._known) == 1
    assert guard._size == len('{"regex": ""}') + 3000


def test_a_pattern_that_is_too_long_is_refused_at_once(loop: asyncio.Runner, guard: PatternGuard) -> None:
    assert "1,048,576" in loop.run(outcome(guard, "a" * (1 << 20)))
    assert guard._process is None


def test_whoever_goes_before_it_is_sent_leaves_it_to_the_others(loop: asyncio.Runner, guard: PatternGuard) -> None:
    async def ask() -> str:
        first = asyncio.create_task(outcome(guard, "a"))
        await asyncio.sleep(0)
        first.cancel()
        return await asyncio.wait_for(outcome(guard, "a"), 60)

    assert loop.run(ask()) == "compiled"


def test_it_ends_with_the_process_that_started_it(loop: asyncio.Runner, guard: PatternGuard) -> None:
    loop.run(admit(guard, "a"))
    process = guard._process
    assert process is not None
    assert os.getsid(process.pid) == process.pid, "a signal to our group does not reach it"
    assert process.stdin is not None
    process.stdin.close()
    assert loop.run(process.wait()) == 0


def test_no_guard_outlives_a_server_that_is_killed_while_it_loads() -> None:
    """Nor does the child of one."""
    for order in ("", "wait 100"):
        server = subprocess.Popen(
            [sys.executable, "-c", KILLED.format(order=order, loads=100 * (not order))], stdout=subprocess.PIPE
        )
        assert server.stdout is not None
        left = [int(process) for process in server.stdout.readline().split()]
        server.kill()
        server.wait()
        assert left
        end = time.monotonic() + 10
        while any(Path(f"/proc/{process}").exists() for process in left):
            assert time.monotonic() < end, "it goes on without its server"
            time.sleep(0.02)


def test_a_guard_that_was_closed_compiles_nothing_more(loop: asyncio.Runner, guard: PatternGuard) -> None:
    async def close_while_one_waits() -> Sequence[object]:
        waiting = asyncio.create_task(outcome(guard, "wait 5"))
        await asyncio.sleep(0.5)
        await guard.close()
        return await asyncio.gather(waiting, outcome(guard, "b"), return_exceptions=True)

    assert [type(one) for one in loop.run(close_while_one_waits())] == [RequestError, EngineError]


@pytest.mark.parametrize("constraint", OUTLINES_BACKENDS)
def test_real_patterns(loop: asyncio.Runner, constraint: str) -> None:
    """xgrammar and guidance keep a pattern's repeats as they are, so these harm Outlines alone; none may take its engine."""
    guard = PatternGuard(OutlinesCompiler(weights.locate(TINY), OUTLINES_BACKENDS[constraint]), seconds=SECONDS)
    try:
        assert loop.run(outcome(guard, r'\{"a": (0|1|2)\}')) == "compiled"
        ends = {pattern: loop.run(outcome(guard, pattern)) for pattern in HOSTILE}
    finally:
        loop.run(guard.close())
    assert set(ends.values()) <= ({TOO_SLOW, TOO_LARGE} if constraint == "outlines" else {"compiled", TOO_SLOW, TOO_LARGE})

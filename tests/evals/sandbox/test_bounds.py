"""Programs that want more memory, output or time than they are given."""

from __future__ import annotations

import json
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest

from evals.sandbox import Sandbox
from tests.evals.sandbox.conftest import Run, said, with_limits


@pytest.mark.parametrize(
    "program",
    [
        "b'x' * (1 << 40)",
        "kept = []\nwhile True: kept.append(bytearray(1 << 20))",
        "kept = []\nwhile True: kept.append({})",
    ],
)
def test_memory_is_bounded(sandbox: Sandbox, program: str) -> None:
    outcome = with_limits(sandbox, memory_bytes=256 << 20).run(program, 20)
    assert outcome.status == "out_of_memory", outcome


def test_threads_share_one_memory(sandbox: Sandbox) -> None:
    program = """if True:
        import json, threading
        kept, ready = [], threading.Event()
        def fill():
            ready.wait()
            try:
                while True:
                    kept.append(bytearray(1 << 20))
            except MemoryError:
                pass
        threads = [threading.Thread(target=fill) for _ in range(4)]
        for thread in threads:
            thread.start()
        ready.set()
        for thread in threads:
            thread.join()
        filled = len(kept)
        kept.clear()
        print(json.dumps(filled))
    """
    filled = said(with_limits(sandbox, memory_bytes=256 << 20).run(program, 20))
    assert isinstance(filled, int)
    assert 128 < filled < 256


def test_memory_of_children_does_not_add_up(run: Run) -> None:
    # There are no children. Whoever tries to have some fills the one share of memory that there is.
    outcome = run(
        """
        import os
        kept = []
        while True:
            try:
                os.fork()
            except OSError:
                pass
            kept.append(bytearray(1 << 24))
        """
    )
    assert outcome.status == "out_of_memory", outcome


def test_files_in_memory_are_bounded(run: Run, sandbox: Sandbox) -> None:
    outcome = run("""
        import json, os
        def until_refused(act):
            done = 0
            try:
                while True:
                    act(done)
                    done += 1
            except OSError:
                return done
        names = until_refused(lambda number: open(f"/tmp/{number}", "x").close())
        for name in os.listdir("/tmp"):
            os.unlink(f"/tmp/{name}")
        with open("/tmp/large", "wb", buffering=0) as file:
            largest = until_refused(lambda number: file.write(bytes(1 << 20)))
        total = largest + until_refused(lambda number: open(f"/tmp/{number}", "xb").write(bytes(1 << 20)))
        print(json.dumps([names, largest, total]))
    """)
    names, largest, total = json.loads(outcome.output)
    assert sandbox.limits.tmp_files // 2 < names <= sandbox.limits.tmp_files
    assert largest <= sandbox.limits.file_bytes >> 20
    assert largest < total <= sandbox.limits.tmp_bytes >> 20


def test_an_endless_loop_ends(run: Run) -> None:
    outcome = run("while True: pass", seconds=1)
    assert outcome.status == "timed_out"
    assert 1 <= outcome.seconds < 10


def test_endless_output_is_cut(run: Run, sandbox: Sandbox) -> None:
    tracemalloc.start()
    outcome = run("import os\nwhile True:\n  os.write(1, b'x' * 65536)\n  os.write(2, b'y' * 65536)", seconds=0.5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert outcome.status == "timed_out"
    assert set(outcome.output) == {"x"}
    assert set(outcome.errors) == {"y"}
    assert len(outcome.output) == len(outcome.errors) == sandbox.limits.kept_bytes
    assert peak < 20 * sandbox.limits.kept_bytes


def test_the_end_of_the_output_is_kept(run: Run, sandbox: Sandbox) -> None:
    outcome = run("for number in range(100_000): print(number)")
    assert outcome.output.endswith("99998\n99999\n")
    assert len(outcome.output) == sandbox.limits.kept_bytes


def test_several_at_once_do_not_mix(sandbox: Sandbox) -> None:
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda number: sandbox.run(f"print({number})", 10), range(12)))
    assert [outcome.output for outcome in outcomes] == [f"{number}\n" for number in range(12)]

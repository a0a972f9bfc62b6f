"""What becomes of a program, and when none is run."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import zlib
from pathlib import Path

import pytest

from evals.sandbox import Limits, Sandbox
from evals.sandbox.confinements import CONFINEMENTS, Confinement
from evals.sandbox.seccomp import AUDIT_ARCHITECTURES, CLONE, CLONE3, DENIED, ONLY_WITH, seccomp_filter
from evals.sandbox.view import view_of_python
from judges.errors import MagistrateError
from tests.evals.sandbox.conftest import Run, machine_allows, with_limits


@pytest.mark.parametrize(
    ("program", "status", "exit_code"),
    [
        ("print('done')", "passed", 0),
        ("", "passed", 0),
        ("import sys; sys.exit(0)", "passed", 0),
        ("import sys; sys.exit(3)", "failed", 3),
        ("import sys; sys.exit(255)", "failed", 255),
        ("exit(4)", "failed", 4),
        ("quit()", "passed", 0),
        ("assert False", "failed", 1),
        ("def f(:", "failed", 1),
        ("raise MemoryError", "out_of_memory", 1),
        ("import os; os.abort()", "killed", 134),
        ("import os; os.kill(os.getpid(), 9)", "killed", 137),
        ("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)", "timed_out", 152),
        ("import ctypes; ctypes.string_at(0)", "killed", 139),
        ("import time; time.sleep(100)", "timed_out", 137),
        ("import os; os.close(0); os.close(1); os.close(2)", "passed", 0),
        ("import os; os.closerange(0, 64); os._exit(7)", "failed", 7),
        ("import sys; sys.stdout.close(); sys.stderr.close()", "passed", 0),
    ],
)
def test_an_ending_is_told_as_it_was(run: Run, program: str, status: str, exit_code: int) -> None:
    outcome = run(program, seconds=1 if status == "timed_out" else 20)
    assert (outcome.status, outcome.exit_code) == (status, exit_code), outcome


def test_both_streams_are_told_apart(run: Run) -> None:
    outcome = run("import sys; print('out'); print('err', file=sys.stderr)")
    assert (outcome.output, outcome.errors) == ("out\n", "err\n")


def test_a_program_reads_what_it_is_given(run: Run) -> None:
    given = os.urandom(1 << 20)
    outcome = run("import sys, zlib; print(zlib.crc32(sys.stdin.buffer.read()))", stdin=given)
    assert outcome.output == f"{zlib.crc32(given)}\n"


def test_input_that_nobody_reads_does_no_harm(run: Run) -> None:
    assert run("import os; os.close(0)", stdin=b"x" * (1 << 22)).status == "passed"
    assert run("print(input())", stdin=b"one\n" + b"x" * (1 << 22)).output == "one\n"


def test_a_large_program_runs(sandbox: Sandbox) -> None:
    text = "text = '" + "x" * (1 << 20) + "'\nprint(len(text))"
    assert sandbox.run(text, 20).output == f"{1 << 20}\n"


@pytest.mark.parametrize("program", [b"print(1)\0print(2)", b"\xff\xfe", b"\0", "print('\ud800')", "\udcff = 1"])
def test_a_program_that_is_no_text_fails(sandbox: Sandbox, program: str | bytes) -> None:
    outcome = sandbox.run(program, 10)
    assert outcome.status == "failed"
    assert "Error" in outcome.errors


def test_output_that_is_no_text_is_replaced(run: Run) -> None:
    outcome = run(r"import os; os.write(1, b'a\0b\xff\xc3\xa4\n'); os.write(2, b'\x80')")
    assert outcome.output == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}ä\n"
    assert outcome.errors == "\N{REPLACEMENT CHARACTER}"


def test_the_order_of_sets_is_the_same_every_time(run: Run) -> None:
    first, second = (run("print({str(number) for number in range(50)})").output for _ in range(2))
    assert first == second


def test_ordinary_programs_find_what_they_need(run: Run) -> None:
    outcome = run("""
        import asyncio, bz2, ctypes, dataclasses, decimal, hashlib, lzma, random, re, sqlite3, ssl, tempfile, threading, zoneinfo
        from concurrent.futures import ThreadPoolExecutor

        async def answer():
            await asyncio.sleep(0.01)
            return await asyncio.to_thread(lambda: 42)

        with tempfile.TemporaryFile() as file, ThreadPoolExecutor(4) as pool:
            file.write(b"x")
            print(asyncio.run(answer()), sum(pool.map(abs, range(-5, 0))), __name__, "ä")
    """)
    assert outcome.output == "42 15 __main__ ä\n", outcome


def test_smaller_limits_hold(sandbox: Sandbox) -> None:
    small = with_limits(sandbox, memory_bytes=128 << 20, kept_bytes=1000)
    assert small.run("x = bytearray(256 << 20)", 10).status == "out_of_memory"
    assert sandbox.run("x = bytearray(256 << 20)", 10).status == "passed"
    assert small.run("print('x' * 2000)", 10).output == "x" * 999 + "\n"


def test_a_strict_mask_for_new_files_does_no_harm(run: Run) -> None:
    before = os.umask(0o077)
    try:
        assert run("print('runs')").output == "runs\n"
    finally:
        os.umask(before)


def test_no_descriptors_are_left_open(sandbox: Sandbox) -> None:
    sandbox.run("", 10)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for program in ("", "while True: pass", "import os; os.abort()"):
        sandbox.run(program, 0.3)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_program_may_be_given_years(sandbox: Sandbox) -> None:
    assert sandbox.run("print('done')", 1e9).output == "done\n"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(sandbox: Sandbox, seconds: float) -> None:
    with pytest.raises(MagistrateError, match="above 0"):
        sandbox.run("", seconds)


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(MagistrateError, match="`threads` is 0"):
        Limits(threads=0)


def test_bubblewrap_comes_first() -> None:
    if not machine_allows("bubblewrap"):
        pytest.skip("this machine does not allow bubblewrap")
    assert Sandbox.open().confinement.name == "bubblewrap"


def test_namespaces_serve_where_bubblewrap_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    if not machine_allows("namespaces"):
        pytest.skip("this machine does not allow namespaces")
    monkeypatch.setenv("PATH", "/nowhere")
    assert Sandbox.open().confinement.name == "namespaces"


def test_without_a_confinement_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MagistrateError, match=r"install bubblewrap \(Debian package `bubblewrap`\)"):
        Sandbox.open(confinements=["bubblewrap"])


@pytest.mark.skipif(os.geteuid() != 0, reason="this is not root")
@pytest.mark.parametrize("confinement", CONFINEMENTS)
def test_root_under_another_name_is_not_trusted(confinement: type[Confinement]) -> None:
    if not machine_allows(confinement.name):
        pytest.skip(f"this machine does not allow {confinement.name}")
    fault = Sandbox(confinement(view_of_python(), Limits(), by_root=False), Limits()).fault()
    assert fault == "a program in the sandbox can have no threads, or as many as it likes"


def test_an_unknown_confinement_is_refused() -> None:
    with pytest.raises(MagistrateError, match="no sandbox `chroot`"):
        Sandbox.open(confinements=["chroot"])


def test_a_sandbox_too_small_for_python_is_refused() -> None:
    with pytest.raises(MagistrateError, match="programs are not run"):
        Sandbox.open(Limits(memory_bytes=1 << 20))


def test_the_view_is_of_the_interpreter_below_the_environment() -> None:
    view = view_of_python()
    assert Path(view.python).is_relative_to(Path(sys.base_prefix).resolve())
    assert not [path for path in view.shown if Path(path).is_relative_to(Path(__file__).parents[3])]
    assert str(Path(os.__file__).resolve().parent).startswith(view.shown)


@pytest.mark.parametrize("machine", AUDIT_ARCHITECTURES)
def test_filters_differ_by_machine(machine: str) -> None:
    others = [seccomp_filter(other) for other in AUDIT_ARCHITECTURES if other != machine]
    assert seccomp_filter(machine) not in others
    assert len(seccomp_filter(machine)) % 8 == 0


def test_a_machine_whose_calls_are_unknown_is_refused() -> None:
    with pytest.raises(MagistrateError, match="riscv64"):
        seccomp_filter("riscv64")


@pytest.mark.parametrize(
    ("machine", "header"),
    [
        ("x86_64", f"/usr/include/{sysconfig.get_config_var('MULTIARCH')}/asm/unistd_64.h"),
        ("aarch64", "/usr/include/asm-generic/unistd.h"),
    ],
)
def test_numbers_of_calls_are_the_kernels(machine: str, header: str) -> None:
    if not Path(header).exists():
        pytest.skip("the kernel's headers are not installed")
    kernels = dict(re.findall(r"#define __NR_(\w+)\s+(\d+)", Path(header).read_text()))
    column = list(AUDIT_ARCHITECTURES).index(machine)
    ours = DENIED | {"clone": CLONE, "clone3": CLONE3} | {name: call for name, (call, _) in ONLY_WITH.items()}
    numbers = {name: str(numbers[column]) for name, numbers in ours.items() if numbers[column] is not None}
    assert numbers == {name: kernels[name] for name in numbers}

"""Programs that want to be more than one process, or to reach others."""

from __future__ import annotations

import json
import platform
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evals.sandbox import Sandbox
from evals.sandbox.seccomp import ALLOW, AUDIT_ARCHITECTURES, CLONE, CLONE3, DENIED, RETURN
from tests.evals.sandbox.conftest import NAMED, Run, await_running, running, said

PROJECT = Path(__file__).parents[3]
COLUMN = list(AUDIT_ARCHITECTURES).index(platform.machine())


def test_no_process_can_be_started(run: Run) -> None:
    outcome = run(f"""
        import ctypes, json, multiprocessing, os, signal, subprocess, sys
        call = ctypes.CDLL(None, use_errno=True).syscall
        def raw(number, *arguments):
            if call(number, *arguments) < 0:
                raise OSError(ctypes.get_errno(), "refused")
        ways = dict(
            fork=os.fork,
            forkpty=os.forkpty,
            spawn=lambda: os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {{}}),
            subprocess=lambda: subprocess.run([sys.executable, "-c", ""]),
            multiprocessing=multiprocessing.Process(target=print).start,
            clone=lambda: raw({CLONE[COLUMN]}, signal.SIGCHLD, 0, 0, 0, 0),
            clone3=lambda: raw({CLONE3[COLUMN]}, (ctypes.c_uint64 * 8)(0, 0, 0, 0, signal.SIGCHLD), 64),
        )
        worked = []
        for name, way in ways.items():
            try:
                way()
            except OSError:
                continue
            worked.append(name)
        print(json.dumps(worked))
    """)
    assert said(outcome) == []


def test_every_denied_call_is_refused(run: Run) -> None:
    numbers = {name: numbers[COLUMN] for name, numbers in DENIED.items() if numbers[COLUMN] is not None}
    outcome = run(f"""
        import ctypes, errno, json
        call = ctypes.CDLL(None, use_errno=True).syscall
        def refused(number):
            ctypes.set_errno(0)
            return call(number, 0, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM
        print(json.dumps([name for name, number in {numbers}.items() if not refused(number)]))
    """)
    assert said(outcome) == []


def test_unknown_calls_look_as_if_the_kernel_were_older(run: Run) -> None:
    outcome = run("""
        import ctypes, errno, json
        call = ctypes.CDLL(None, use_errno=True).syscall
        print(json.dumps([(call(number, 0, 0, 0, 0, 0, 0), ctypes.get_errno()) for number in (451, 462, 9999)]))
    """)
    assert said(outcome) == [[-1, 38]] * 3


def test_a_fork_bomb_does_not_go_off(run: Run) -> None:
    bomb = """
        import os
        while True:
            try:
                os.fork()
            except OSError:
                pass
    """
    outcome = run(NAMED.format(name="fork-bomb") + "\n".join(line[8:] for line in bomb.splitlines()), seconds=0.5)
    assert outcome.status == "timed_out"
    assert not running("fork-bomb")


def test_threads_are_few(run: Run, sandbox: Sandbox) -> None:
    outcome = run("""
        import json, os, threading
        threading.stack_size(1 << 16)
        started = 0
        try:
            while started < 1000:
                threading.Thread(target=threading.Event().wait, daemon=True).start()
                started += 1
        except RuntimeError:
            pass
        print(json.dumps(started), flush=True)
        os._exit(0)
    """)
    started = said(outcome)
    assert isinstance(started, int)
    assert sandbox.limits.threads - 1 <= started <= sandbox.limits.threads + 1


def test_other_processes_are_out_of_reach(run: Run) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        outcome = run(f"""
            import json, os, signal
            reached = []
            for way in (0, signal.SIGTERM, signal.SIGKILL):
                try:
                    os.kill({other.pid}, way)
                except ProcessLookupError:
                    continue
                reached.append(way)
            print(json.dumps([reached, [int(name) for name in os.listdir("/proc") if name.isdigit()]]))
        """)
        assert other.poll() is None
    reached, seen = json.loads(outcome.output)
    assert reached == []
    assert set(seen) <= {1, 2}


def test_the_first_process_does_not_heed_a_program(run: Run) -> None:
    outcome = run("""
        import os, signal
        for number in (1, -1):
            for way in range(1, 65):
                try:
                    os.kill(number, way)
                except OSError:
                    pass
        print("still here")
    """)
    assert (outcome.status, outcome.output) == ("passed", "still here\n")


def test_nothing_stays_behind(run: Run) -> None:
    # Everything that a program might do to outlive its end: another session, deaf to signals, its output closed, threads.
    program = NAMED.format(name="stays-behind") + "\n".join(
        [
            "import os, signal, threading, time",
            "for number in range(1, 65):",
            "    try: signal.signal(number, signal.SIG_IGN)",
            "    except (OSError, ValueError): pass",
            "for way in (os.setsid, os.fork):",
            "    try: way()",
            "    except OSError: pass",
            "threading.Thread(target=time.sleep, args=(1000,)).start()",
            "os.closerange(0, 64)",
            "time.sleep(1000)",
        ]
    )
    with ThreadPoolExecutor(1) as pool:
        run_in_background = pool.submit(run, program, 2)
        assert await_running("stays-behind", True, 10)
        assert run_in_background.result().status == "timed_out"
    assert not running("stays-behind")


def test_should_the_filter_fail_processes_are_few_and_end_with_their_program(
    run: Run, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evals.sandbox.sandbox.seccomp_filter", lambda: struct.pack("=HBBI", RETURN, 0, 0, ALLOW))
    outcome = run("""
        import ctypes, os, time
        ctypes.CDLL(None).prctl(15, b"left-behind", 0, 0, 0)
        started = 0
        try:
            while started < 1000:
                if os.fork() == 0:
                    os.setsid()
                    time.sleep(1000)
                started += 1
        except OSError:
            pass
        print(started)
    """)
    assert sandbox.limits.threads - 1 <= int(outcome.output) <= sandbox.limits.threads + 1
    assert outcome.status == "passed"
    assert not running("left-behind")


def test_a_stopped_program_is_killed_too(run: Run) -> None:
    assert run("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", seconds=0.5).status == "timed_out"


def test_a_program_dies_with_whoever_runs_it(sandbox: Sandbox) -> None:
    name = "orphan-program"
    text = NAMED.format(name=name) + "import time\ntime.sleep(1000)"
    caller = f"from evals.sandbox import Sandbox\nSandbox.open(confinements=[{sandbox.confinement.name!r}]).run({text!r}, 500)"
    with subprocess.Popen([sys.executable, "-c", caller], cwd=PROJECT) as process:
        assert await_running(name, True, 20)
        process.kill()
    assert await_running(name, False, 5)

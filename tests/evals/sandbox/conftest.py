"""Every way to confine programs that this machine allows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from evals.sandbox import Limits, Outcome, Sandbox
from evals.sandbox.sandbox import CONFINEMENT_NAMES

Run = Callable[..., Outcome]

NAMED = "import ctypes; ctypes.CDLL(None).prctl(15, {name!r}.encode(), 0, 0, 0)\n"
"""Gives a process a name by which it is found from outside."""


def machine_allows(name: str) -> bool:
    """Whether the machine itself can do what a confinement needs, tried without any of our code."""
    if name == "bubblewrap":
        command = ["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "--proc", "/proc", "true"]
    else:
        command = ["unshare", "--mount", "--net", "--pid", "--fork", *([] if os.geteuid() == 0 else ["--map-root-user"]), "true"]
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="session", params=CONFINEMENT_NAMES)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """A sandbox, once for each confinement."""
    if not machine_allows(request.param):
        pytest.skip(f"this machine does not allow {request.param}")
    return Sandbox.open(confinements=[request.param])


def with_limits(sandbox: Sandbox, **limits: int) -> Sandbox:
    """The same sandbox with other limits."""
    return Sandbox.open(Limits(**limits), [sandbox.confinement.name])


@pytest.fixture
def run(sandbox: Sandbox) -> Run:
    """Runs an indented program."""

    def run(program: str, seconds: float = 10, stdin: bytes = b"") -> Outcome:
        return sandbox.run(dedent(program), seconds, stdin)

    return run


def running(name: str) -> bool:
    """Whether a process or a thread of that name runs anywhere on the machine."""
    for comm in Path("/proc").glob("[0-9]*/task/[0-9]*/comm"):
        try:
            if comm.read_text().strip() == name:
                return True
        except OSError:
            continue
    return False


def await_running(name: str, expected: bool, seconds: float) -> bool:
    """Whether it comes to that in time."""
    end = time.monotonic() + seconds
    while running(name) != expected:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def said(outcome: Outcome) -> object:
    """What a program printed last, as JSON."""
    assert outcome.status == "passed", outcome
    return json.loads(outcome.output)

"""Where programs that nobody trusts are run: confined as strictly as this machine allows, or not at all."""

from __future__ import annotations

import marshal
import os
import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import CodeType
from typing import Literal

from evals.sandbox.confinements import CONFINEMENTS, NOBODY, PROGRAM, Confinement, script, script_command
from evals.sandbox.enter import LENGTH_BYTES
from evals.sandbox.limits import Limits, check_seconds
from evals.sandbox.seccomp import seccomp_filter
from evals.sandbox.view import view_of_python
from evals.sandbox.watch import Ending, watch
from judges.errors import MagistrateError

Status = Literal["passed", "failed", "timed_out", "out_of_memory", "killed"]

CONFINEMENT_NAMES = tuple(confinement.name for confinement in CONFINEMENTS)
TRIAL_SECONDS = 30.0

SPARE_USERS = (0x70000000, 0x7FFFFFFE)
"""Numbers of users that no system gives away."""

INTERPRETER_OPTIONS = ("-s", "-P", "-B")
"""As ``-I``, but for the environment: that is ours, and fixes the order of sets. Packages would be found, but none are shown."""

# Without the last, the C library sets aside so much address space for each thread that few would fit.
ENVIRONMENT = {"HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "MALLOC_ARENA_MAX": "1"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended.

    Attributes:
        status: ``passed``: by itself, with exit code 0. ``failed``: by itself, with another. ``timed_out``: killed at the end of
            its time. ``out_of_memory``: by an exception that says so. ``killed``: by a signal, such as a crash;
            or by itself, with an exit code that looks like one.
        exit_code: Its exit code, or 128 and the number of the signal that ended it.
        output: The end of what it wrote. What is no text in UTF-8 is replaced, and so is NUL.
        errors: The end of what it wrote as errors.
        seconds: How long it ran, with the start of the interpreter.
    """

    status: Status
    exit_code: int
    output: str
    errors: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A place to run Python programs, open to several threads at once. Make it by ``open``.

    A program sees the standard library and nothing else of the machine: no other files, processes, environment, network or
    packages. It can write to ``/tmp`` only, which is its own and gone with it. It cannot start processes. It runs as a user of
    its own who has no rights.

    Attributes:
        confinement: How programs are confined.
        limits: How much each of them may use.
    """

    confinement: Confinement
    limits: Limits

    @classmethod
    def open(cls, limits: Limits | None = None, confinements: Sequence[str] = CONFINEMENT_NAMES) -> Sandbox:
        """The strictest sandbox that works here. Each is tried with a program that tries its walls, in tenths of a second.

        Args:
            limits: How much each program may use.
            confinements: Which ones may be tried: ``bubblewrap``, which is tried first, and ``namespaces``.

        Raises:
            MagistrateError: None works here, or one is not known. Nothing is ever run without.
        """
        unknown = [name for name in confinements if name not in CONFINEMENT_NAMES]
        if unknown:
            raise MagistrateError(f"there is no sandbox `{unknown[0]}`; there are {' and '.join(CONFINEMENT_NAMES)}")
        limits = limits or Limits()
        view = view_of_python()
        # In a container, root may have no other users to become, and be nobody special outside.
        ways = (True, False) if os.geteuid() == 0 else (False,)
        faults = []
        for confinement, by_root in product(CONFINEMENTS, ways):
            if confinement.name in confinements:
                sandbox = cls(confinement(view, limits, by_root), limits)
                fault = sandbox.fault()
                if fault is None:
                    return sandbox
                faults.append(f"{confinement.name}: {fault}")
        raise MagistrateError(
            "programs are not run, for there is no way to confine them here: install bubblewrap (Debian package `bubblewrap`), "
            f"and let this user create namespaces, or root keep the capability SYS_ADMIN ({'; '.join(dict.fromkeys(faults))})"
        )

    def fault(self) -> str | None:
        """Which of its walls does not stand on this machine, if any; found by a program that tries them."""
        try:
            tried = self.run(script("trial"), TRIAL_SECONDS)
        except MagistrateError as error:
            return str(error)
        return None if tried.status == "passed" else _last_line(tried.errors) or tried.status

    def run(
        self, program: str | bytes, seconds: float, stdin: bytes = b"", *, referee: Sequence[tuple[str, CodeType]] = ()
    ) -> Outcome:
        """Run a program to its end. Nothing that it does raises an error here, and nothing of it is left afterwards.

        Args:
            program: Its text. It runs as ``__main__``, and the order of its sets is the same every time.
            seconds: How long it may run.
            stdin: What it can read.
            referee: Modules that judge the program from another process, confined as it is, which it cannot reach. The last one
                has ``main``, which is given a descriptor that hears the program, one that the program hears, and the program's
                number. It reads the input in the program's place, and what it returns is the exit code: the outcome is its, not
                the program's. The program is given the numbers of its own two descriptors as arguments.

        Raises:
            MagistrateError: The time is no time, or the machine can start no process or none in the sandbox.
        """
        check_seconds(seconds)
        text = program.encode("utf-8", "surrogatepass") if isinstance(program, str) else program
        try:
            if referee:
                code = marshal.dumps(tuple(referee))
                stdin = len(code).to_bytes(LENGTH_BYTES, "big") + code + stdin
            with _in_memory(text) as source:
                ending = watch(
                    lambda info, ready: self.confinement.command(self._entry(ready, seconds, bool(referee)), source, info),
                    source,
                    stdin,
                    seconds,
                    self.limits.kept_bytes,
                )
        except OSError as error:
            raise MagistrateError(f"no program can be started: {error}; see how many processes and files are open") from error
        errors = _text(ending.errors)
        if ending.fault is not None:
            raise MagistrateError(f"the sandbox cannot be set up: {_last_line(errors) or ending.fault}")
        return Outcome(_status(ending, errors), ending.exit_code, _text(ending.output), errors, ending.seconds)

    def _entry(self, ready: int, seconds: float, referee: bool) -> list[str]:
        """The command that, once it is confined, gives up every right and becomes the program."""
        python = self.confinement.view.python
        plan = {
            "ready": ready,
            "user": _spare_user() if self.confinement.by_root else None,
            "tmp": None if self.confinement.bounds_tmp_files else self.limits.tmp_options,
            "resources": self.limits.resources(seconds),
            "filter": seccomp_filter(),
            "command": [python, *INTERPRETER_OPTIONS, PROGRAM],
            "environment": ENVIRONMENT,
            "referee": referee,
        }
        return script_command(python, "enter", plan)


@contextmanager
def _in_memory(text: bytes) -> Iterator[int]:
    """A file that has no name, to be read from its beginning."""
    with os.fdopen(os.memfd_create("program"), "w+b", buffering=0) as file:
        left = memoryview(text)
        while left:
            left = left[file.write(left) :]
        file.seek(0)
        yield file.fileno()


def _spare_user() -> int:
    """The number of a user who has no other process, so that limits are his alone; or nobody's, where there are few users."""
    extents = [[int(part) for part in line.split()] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    first, last = SPARE_USERS
    if any(begin <= first and last < begin + count for begin, _, count in extents):
        return random.SystemRandom().randint(first, last)
    return NOBODY


def _status(ending: Ending, errors: str) -> Status:
    """What an ending amounts to."""
    by_signal = ending.exit_code - 128
    if ending.timed_out or by_signal == signal.SIGXCPU:
        return "timed_out"
    if ending.exit_code == 0:
        return "passed"
    if ending.exit_code == 1 and _last_line(errors).startswith("MemoryError"):
        return "out_of_memory"
    return "killed" if 0 < by_signal < signal.NSIG else "failed"


def _text(written: bytes) -> str:
    return written.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]

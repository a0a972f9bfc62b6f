"""The ways in which a command is asked to stop: by which signal, and whether its whole group hears it."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Way:
    """A way to stop a process that leads a group."""

    number: signal.Signals
    group: bool

    def __str__(self) -> str:
        return f"{self.number.name} to {'the group' if self.group else 'the process'}"

    def stop(self, process: subprocess.Popen[Any], seconds: float = 90) -> tuple[Any, Any]:
        """Stop it, and check that it tells by which signal. Returns what it wrote, where that is kept."""
        (os.killpg if self.group else os.kill)(process.pid, self.number)
        output = process.communicate(timeout=seconds)
        assert process.returncode == (-self.number if self is KILL else 128 + self.number)
        return output


WAYS = [Way(number, group) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) for group in (False, True)]
KILL = Way(signal.SIGKILL, group=False)

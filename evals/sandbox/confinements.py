"""The two ways to confine a process: bubblewrap, and namespaces made here."""

from __future__ import annotations

import marshal
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, ClassVar

from evals.sandbox.limits import Limits
from evals.sandbox.view import DEVICES, View
from judges.errors import MagistrateError

PROGRAM = "/program.py"
NOBODY = 65534

BARE = ("-s", "-P", "-S", "-B")
"""Options of an interpreter that heeds no packages and writes no compiled modules. Its environment is ours."""

ENTRY_ENVIRONMENT = {"PYTHONHASHSEED": "0"}
"""Of the process that enters: the order of sets is the same every time there too."""


@cache
def script(name: str) -> str:
    """The text of a module of this package that is run in an interpreter of its own."""
    return Path(__file__).with_name(f"{name}.py").read_text()


@cache
def modules(*names: str) -> tuple[tuple[str, CodeType], ...]:
    """The full names and the code of modules of this package that are run in an interpreter of their own, in that order."""
    return tuple(
        (f"{__package__}.{name}", compile(script(name), f"<{name}>", "exec", dont_inherit=True, optimize=2)) for name in names
    )


@cache
def program(*names: str) -> bytes:
    """Modules of this package as one program, of which the last one is the main one."""
    return PROGRAM_OF_MODULES % marshal.dumps(modules(*names))


def script_command(python: str, name: str, plan: Mapping[str, Any]) -> list[str]:
    """The command that runs such a module.

    Args:
        python: The interpreter. Its version is this one's, so it reads what this one has marshalled.
        name: The module's name.
        plan: What its ``main`` is given.
    """
    return [python, *BARE, "-c", script(name), marshal.dumps(dict(plan)).hex()]


PROGRAM_OF_MODULES = b"""import marshal, sys
from types import ModuleType
for name, code in marshal.loads(%a):
    module = sys.modules[name] = ModuleType(name)
    exec(code, vars(module))
module.main(*map(int, sys.argv[1:]))
"""


@dataclass(frozen=True, slots=True)
class Confinement(ABC):
    """A way to confine a process.

    Attributes:
        view: The files to be seen.
        limits: How large ``/tmp`` may be.
        by_root: Whether root's rights are used: no namespace of users is made then, and the program becomes a user of its own.
            In a namespace of users it would be root under another name, for whom the kernel does not keep its limits.
    """

    view: View
    limits: Limits
    by_root: bool

    name: ClassVar[str]
    bounds_tmp_files: ClassVar[bool]
    """Whether ``/tmp`` is made with a limit for the number of files."""

    @abstractmethod
    def command(self, inner: Sequence[str], program: int, info: int) -> list[str]:
        """The command that confines another.

        Args:
            inner: The command to be confined, as the first process of its namespace. It keeps the capabilities that it needs to
                become another user.
            program: A descriptor from which the program is copied to ``PROGRAM``.
            info: A descriptor that hears, as JSON, the number of that process. With its end the kernel ends all others.

        Raises:
            MagistrateError: What it needs is not installed.
        """


class Bubblewrap(Confinement):
    """Confines by bubblewrap, which others have tried for years. It must be found on the path."""

    name = "bubblewrap"
    bounds_tmp_files = False

    def command(self, inner: Sequence[str], program: int, info: int) -> list[str]:
        bubblewrap = shutil.which("bwrap")
        if bubblewrap is None:
            raise MagistrateError("bubblewrap is not installed; install the Debian package `bubblewrap`")
        command = [bubblewrap, "--die-with-parent", "--as-pid-1", "--clearenv"]
        command += [part for name, value in ENTRY_ENVIRONMENT.items() for part in ("--setenv", name, value)]
        command += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN"]
        if self.by_root:
            command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        else:
            command += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
        command += ["--hostname", "sandbox", "--info-fd", str(info)]
        command += ["--perms", "1777", "--size", str(self.limits.tmp_bytes), "--tmpfs", "/tmp", "--proc", "/proc"]
        # Bubblewrap makes what is missing of a path for its own user only, and that is not always the program's.
        for directory in sorted({str(above) for path in (*self.view.shown, *DEVICES) for above in Path(path).parents} - {"/"}):
            command += ["--perms", "0755", "--dir", directory]
        for path in self.view.shown:
            command += ["--ro-bind", path, path]
        for path in DEVICES:
            command += ["--dev-bind", path, path]
        for link, target in self.view.links:
            command += ["--symlink", target, link]
        for path in self.view.covered:
            command += ["--tmpfs", path, "--remount-ro", path]
        command += ["--perms", "0444", "--ro-bind-data", str(program), PROGRAM]
        return [*command, "--remount-ro", "/", "--chdir", "/tmp", *inner]


class Namespaces(Confinement):
    """Confines by namespaces that are made here. It needs no more than the kernel's leave."""

    name = "namespaces"
    bounds_tmp_files = True

    def command(self, inner: Sequence[str], program: int, info: int) -> list[str]:
        plan = {
            "own_users": not self.by_root,
            "info": info,
            "program": program,
            "program_path": PROGRAM,
            "shown": [*self.view.shown, *DEVICES],
            "links": self.view.links,
            "covered": self.view.covered,
            "tmp": self.limits.tmp_options,
            "command": inner,
            "environment": ENTRY_ENVIRONMENT,
        }
        return script_command(sys.executable, "launch", plan)


CONFINEMENTS: tuple[type[Confinement], ...] = (Bubblewrap, Namespaces)
"""The strongest first."""

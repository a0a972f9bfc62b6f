"""A process in namespaces of its own, with a read-only view of a few files: what bubblewrap does, for machines without it.

This runs as a script, in an interpreter of its own, and needs nothing but the standard library and Linux 5.14.
"""

from __future__ import annotations

import contextlib
import ctypes
import marshal
import os
import signal
import sys
from pathlib import Path
from typing import Any

NEW_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
"""Of mounts, control groups, host names, messages between processes, processes and networks."""

CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG = 1
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_SLAVE = 2, 4, 8, 4096, 16384, 1 << 19
MNT_DETACH = 2
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC = 1, 2, 4, 8
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000

STAGE = "/tmp"
OLD, NEW = Path("/old"), Path("/new")
"""Where the machine's files and the program's view of them lie while the view is made."""

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: object) -> None:
    """Raise what the C library has noted, should a call have failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: Path | str, target: Path | str, kind: str | None, flags: int, options: str = "") -> None:
    """Mount, as the system call does."""
    arguments = [os.fsencode(source), os.fsencode(target), kind.encode() if kind else None]
    check(libc.mount(*arguments, ctypes.c_ulong(flags), options.encode()), target)


def restrict(target: Path | str, attributes: int, recursive: bool = True) -> None:
    """Take rights from a mount and all below it."""
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    check(libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, os.fsencode(target), flags, ctypes.byref(wanted), size), target)


def die_with_parent() -> None:
    """Be killed as soon as the process that started this one is gone."""
    check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "parent")


def unshare(own_users: bool) -> None:
    """Enter new namespaces. With one of users this needs no right, and the user is nobody there."""
    user, group = os.getuid(), os.getgid()
    check(libc.unshare(NEW_NAMESPACES | (CLONE_NEWUSER if own_users else 0)), "namespaces")
    if own_users:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"65534 {user} 1")
        Path("/proc/self/gid_map").write_text(f"65534 {group} 1")
    name = b"sandbox"
    check(libc.sethostname(name, len(name)), "host name")


def show(path: str) -> None:
    """Show a file or a directory where it lies, read-only, or a device as it is."""
    source, target = OLD / path[1:], NEW / path[1:]
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    mount(source, target, None, MS_BIND | MS_REC)
    devices = 0 if source.is_char_device() else MOUNT_ATTR_NODEV
    restrict(target, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | devices)


def change_view(plan: dict[str, Any]) -> None:
    """See the planned files and nothing else from now on."""
    mount("none", "/", None, MS_REC | MS_SLAVE)
    mount("tmpfs", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    os.chdir(STAGE)
    for view in (OLD, NEW):
        Path(view.name).mkdir()
    mount(NEW.name, NEW.name, None, MS_BIND)
    check(libc.pivot_root(b".", OLD.name.encode()), "root")
    os.chdir("/")

    for place in ("tmp", "proc", "dev"):
        (NEW / place).mkdir()
    mount("tmpfs", NEW / "tmp", "tmpfs", MS_NOSUID | MS_NODEV, plan["tmp"])
    # A container may hide parts of its own; the kernel then allows no new one, and a program does without.
    with contextlib.suppress(OSError):
        mount("proc", NEW / "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "subset=pid")
    for path in plan["shown"]:
        show(path)
    for link, says in plan["links"]:
        (NEW / link[1:]).parent.mkdir(parents=True, exist_ok=True)
        (NEW / link[1:]).symlink_to(says)
    for path in plan["covered"]:
        mount("tmpfs", NEW / path[1:], "tmpfs", MS_NOSUID | MS_NODEV, "size=4k,nr_inodes=1")
        restrict(NEW / path[1:], MOUNT_ATTR_RDONLY)
    with os.fdopen(plan["program"], "rb") as program:
        (NEW / plan["program_path"][1:]).write_bytes(program.read())

    os.chdir(NEW)
    check(libc.pivot_root(b".", b"."), "root")
    check(libc.umount2(b".", MNT_DETACH), "root")
    os.chdir("/tmp")
    restrict("/", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, recursive=False)


def main(plan: dict[str, Any]) -> int:
    """Confine a command and wait for its end. Its exit code; for a signal, 128 and its number.

    Args:
        plan: ``own_users``, whether a namespace of users is needed; ``info``, a descriptor that hears the number of the first
            process; ``program``, a descriptor to read the program from, and ``program_path``, where it is to lie; ``shown``,
            ``links`` and ``covered``, as a view has them; ``tmp``, the mount options of ``/tmp``; ``command`` and its
            ``environment``.
    """
    die_with_parent()
    unshare(plan["own_users"])
    told, tell = os.pipe()
    first = os.fork()
    if first == 0:
        os.close(tell)
        die_with_parent()
        # An end of file says that the parent was gone before its death could be heard of.
        if not os.read(told, 1):
            return 1
        change_view(plan)
        os.execve(plan["command"][0], plan["command"], plan["environment"])
    with os.fdopen(plan["info"], "w") as info:
        info.write(f'{{"child-pid": {first}}}')
    os.write(tell, b"1")
    code = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(marshal.loads(bytes.fromhex(sys.argv[1]))))

"""The last step into the sandbox: every right is given up, and the program starts.

This runs as a script, in an interpreter that is already confined and sees nothing but its standard library.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import signal
import sys
import time
from types import ModuleType

# Other imports would take longer than all that is done here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_CAP_AMBIENT = 38, 22, 47
PR_SET_DUMPABLE = 4
PR_CAP_AMBIENT_CLEAR_ALL, SECCOMP_MODE_FILTER = 4, 2
CAPABILITY_VERSION = 0x20080522
MS_NOSUID, MS_NODEV, MS_REMOUNT = 2, 4, 32
ANY_DESCRIPTOR = 1 << 20
LENGTH_BYTES = 8

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    """Raise what the C library has noted, should a call have failed."""
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def become(user: int) -> None:
    """Be a user who owns nothing. All capabilities go with that."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def give_up_capabilities() -> None:
    """Keep none, not even through the program that is started next."""
    check(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "capabilities")
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    check(libc.capset(header, (ctypes.c_uint32 * 6)()), "capabilities")


def install(steps: bytes) -> None:
    """Let the kernel refuse what a seccomp filter refuses, from now on."""

    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]

    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "new privileges")
    wanted = Filter(len(steps) // 8, steps)
    check(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(wanted), 0, 0), "seccomp filter")


def give_up(plan: dict[str, Any]) -> None:
    """Keep no right, and stay within the limits."""
    give_up_capabilities()
    for name, limits in plan["resources"].items():
        resource.setrlimit(getattr(resource, name), limits)
    install(plan["filter"])


def await_end(program: int) -> int:
    """Wait for the end of a process. Its exit code; for a signal, 128 and its number."""
    ended, status = os.wait()
    while ended != program:
        ended, status = os.wait()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def become_program(plan: dict[str, Any], channel: tuple[int, ...]) -> None:
    """Give up every right, say when, and let the program take this process's place.

    Beside a referee it has no input, no output but the errors, and the ends of a channel, whose numbers are its arguments.
    """
    os.setsid()
    if channel:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        for end in channel:
            os.set_inheritable(end, True)
    if plan["user"] is not None:
        become(plan["user"])
    give_up(plan)
    os.write(plan["ready"], str(time.monotonic_ns()).encode())
    try:
        os.execve(plan["command"][0], [*plan["command"], *map(str, channel)], plan["environment"])
    except OSError as error:
        os.write(plan["ready"], str(error).encode())


def become_referee(plan: dict[str, Any], source: int, sink: int, program: int) -> int:
    """Give up every right and judge the program. The exit code.

    The referee may be of the program's user: it is the first process of the namespace, whose memory, files and limits are closed
    to others, and whom signals of the namespace do not reach. Its code is the beginning of the input.
    """
    os.close(plan["ready"])
    if plan["user"] is not None:
        become(plan["user"])
    check(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "memory")
    give_up(plan)
    with open(0, "rb", buffering=0, closefd=False) as given:
        size = int.from_bytes(given.read(LENGTH_BYTES), "big")
        code_of_modules = b""
        while len(code_of_modules) < size:
            code_of_modules += given.read(size - len(code_of_modules))
    for name, code in marshal.loads(code_of_modules):
        module = sys.modules[name] = ModuleType(name)
        exec(code, vars(module))
    exit_code: int = module.main(source, sink, program)
    return exit_code


def main(plan: dict[str, Any]) -> int:
    """Start the program and wait for its end. Its exit code; for a signal, 128 and its number.

    This is the first process of the namespace, and the program can do nothing to it: a program's signals are kept from it, its
    memory is closed, and there would be nothing to gain.

    Args:
        plan: ``ready``, the descriptor that hears when the program starts; ``user``, whom to become, or null; ``tmp``, the
            mount options that ``/tmp`` still lacks, or null; ``resources``, limits by their names; ``filter``, the seccomp
            filter; ``command`` and ``environment``; ``referee``, whether the program is judged in this process.
    """
    os.closerange(3, plan["ready"])
    os.closerange(plan["ready"] + 1, ANY_DESCRIPTOR)
    os.set_inheritable(plan["ready"], False)
    # Should the machine run out of memory, the kernel takes these processes before any other.
    try:
        with open("/proc/self/oom_score_adj", "w") as score:  # noqa: PTH123
            score.write("1000")
    except OSError:
        pass
    if plan["tmp"] is not None:
        options = plan["tmp"].encode()
        check(libc.mount(None, b"/tmp", None, ctypes.c_ulong(MS_REMOUNT | MS_NOSUID | MS_NODEV), options), "/tmp")
    # A signal that is handled would reach even the first process. The program's memory is its own again once it has started.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    check(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "memory")
    (asked, ask), (told, tell) = (os.pipe(), os.pipe()) if plan["referee"] else ((-1, -1), (-1, -1))
    program = os.fork()
    if program == 0:
        become_program(plan, (asked, tell) if plan["referee"] else ())
        return 1
    if plan["referee"]:
        os.close(asked)
        os.close(tell)
        return become_referee(plan, told, ask, program)
    give_up(plan)
    return await_end(program)


if __name__ == "__main__":
    sys.exit(main(marshal.loads(bytes.fromhex(sys.argv[1]))))

"""Which calls the kernel refuses to a program.

The namespaces already keep a program from everybody else's things. The filter keeps it from starting processes, so that a limit
for one holds for all of it; from memory that no limit of a process counts; and from parts of the kernel that no program of its
kind needs and that have let others out.
"""

from __future__ import annotations

import errno
import platform
import socket
import struct

from judges.errors import MagistrateError

LAST_KNOWN_CALL = 450
"""Every machine counts the same since 424. Later calls look as if the kernel were older, and so do those of another ABI."""

AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Numbers on x86_64 and on aarch64.
DENIED: dict[str, tuple[int | None, int | None]] = {
    "fork": (57, None),
    "vfork": (58, None),
    # Memory that outlives a process, or that is in no address space.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "io_setup": (206, 0),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    # Namespaces and file systems.
    "unshare": (272, 97),
    "setns": (308, 268),
    "chroot": (161, 51),
    "pivot_root": (155, 41),
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    # Other processes.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # The kernel itself.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "personality": (135, 92),
    "lookup_dcookie": (212, 18),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
}
CLONE = (56, 220)
CLONE3 = (435, 435)
ONLY_WITH: dict[str, tuple[tuple[int, int], int]] = {
    "socket": ((41, 198), socket.AF_UNIX),
    "socketpair": ((53, 199), socket.AF_UNIX),
    "prlimit64": ((302, 261), 0),
}
"""Calls that are allowed with one first argument only, and which: pipes by another name, and limits of the process itself."""

CLONE_THREAD = 0x10000

LOAD_WORD = 0x20
JUMP_IF_EQUAL = 0x15
JUMP_IF_AT_LEAST = 0x35
JUMP_IF_ANY_BIT = 0x45
RETURN = 0x06

NUMBER_OFFSET, ARCHITECTURE_OFFSET, FIRST_ARGUMENT_OFFSET = 0, 4, 16

ALLOW = 0x7FFF0000
KILL_PROCESS = 0x80000000
REFUSE = 0x00050000
"""To this an error number is added."""


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction: ``struct sock_filter``. The jumps count instructions that are passed over."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


def seccomp_filter(machine: str | None = None) -> bytes:
    """The filter, in the kernel's own form.

    Args:
        machine: What ``uname -m`` says; ``None`` for this machine.

    Raises:
        MagistrateError: The numbers of that machine's calls are not known here.
    """
    machine = machine or platform.machine()
    if machine not in AUDIT_ARCHITECTURES:
        raise MagistrateError(f"programs cannot be confined on {machine}; run them on {' or '.join(AUDIT_ARCHITECTURES)}")
    column = list(AUDIT_ARCHITECTURES).index(machine)
    steps = [
        _step(LOAD_WORD, ARCHITECTURE_OFFSET),
        _step(JUMP_IF_EQUAL, AUDIT_ARCHITECTURES[machine], if_true=1),
        _step(RETURN, KILL_PROCESS),
        _step(LOAD_WORD, NUMBER_OFFSET),
        _step(JUMP_IF_AT_LEAST, LAST_KNOWN_CALL + 1, if_false=1),
        _step(RETURN, REFUSE | errno.ENOSYS),
        # Its flags are in memory, which a filter cannot read. Without it, the C library starts threads by `clone`.
        _step(JUMP_IF_EQUAL, CLONE3[column], if_false=1),
        _step(RETURN, REFUSE | errno.ENOSYS),
        # A thread is let pass, a process is not.
        _step(JUMP_IF_EQUAL, CLONE[column], if_false=4),
        _step(LOAD_WORD, FIRST_ARGUMENT_OFFSET),
        _step(JUMP_IF_ANY_BIT, CLONE_THREAD, if_true=1),
        _step(RETURN, REFUSE | errno.EPERM),
        _step(RETURN, ALLOW),
    ]
    for call, argument in ONLY_WITH.values():
        steps += [
            _step(JUMP_IF_EQUAL, call[column], if_false=4),
            _step(LOAD_WORD, FIRST_ARGUMENT_OFFSET),
            _step(JUMP_IF_EQUAL, argument, if_true=1),
            _step(RETURN, REFUSE | errno.EPERM),
            _step(RETURN, ALLOW),
        ]
    for numbers in DENIED.values():
        number = numbers[column]
        if number is not None:
            steps += [_step(JUMP_IF_EQUAL, number, if_false=1), _step(RETURN, REFUSE | errno.EPERM)]
    return b"".join([*steps, _step(RETURN, ALLOW)])

"""How much a program may use."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite

from judges.errors import MagistrateError

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one program may use. It is one process and can start no other, so these bound all that it does.

    A referee beside it has as much again.

    Attributes:
        memory_bytes: Its address space. 64 MiB are hardly enough for Python itself.
        threads: How many threads it may have.
        open_files: How many files it may have open.
        file_bytes: How large a file may grow.
        tmp_bytes: How much all files in ``/tmp`` may hold; they are kept in memory.
        tmp_files: How many there may be.
        kept_bytes: How much is kept of what it writes, of the output and of the errors each: the end. The last line of
            the errors tells whether the memory was too small.

    Raises:
        MagistrateError: A limit is less than 1.
    """

    memory_bytes: int = 1024 * MIB
    threads: int = 32
    open_files: int = 64
    file_bytes: int = 16 * MIB
    tmp_bytes: int = 64 * MIB
    tmp_files: int = 1024
    kept_bytes: int = MIB // 16

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise MagistrateError(f"the sandbox's limit `{name}` is {getattr(self, name)}; give 1 or more")

    @property
    def tmp_options(self) -> str:
        """The mount options of ``/tmp``. Without a number of files, empty ones could fill the memory: each takes about 1 kB."""
        return f"size={self.tmp_bytes},nr_inodes={self.tmp_files},mode=1777"

    def resources(self, seconds: float) -> dict[str, tuple[int, int]]:
        """The limits that the kernel keeps for a process, soft and hard, by the names that module ``resource`` has for them.

        Args:
            seconds: How long the program may run. All its threads together may use no more of the processors.
        """
        processor = ceil(seconds) + 1
        same = {
            "RLIMIT_AS": self.memory_bytes,
            # The processes around the program may count as its own user's.
            "RLIMIT_NPROC": self.threads + 2,
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_STACK": 8 * MIB,
            "RLIMIT_SIGPENDING": 256,
            "RLIMIT_MEMLOCK": 0,
            "RLIMIT_MSGQUEUE": 0,
            "RLIMIT_CORE": 0,
        }
        # At the soft limit comes a signal that says what was wrong, at the hard one the end.
        return {name: (most, most) for name, most in same.items()} | {"RLIMIT_CPU": (processor, processor + 1)}


def check_seconds(seconds: float) -> None:
    """Refuse a time limit that is no number of seconds.

    Raises:
        MagistrateError: It is zero, negative or not finite.
    """
    if not isfinite(seconds) or seconds <= 0:
        raise MagistrateError(f"a program cannot be given {seconds} seconds; give a finite number above 0")

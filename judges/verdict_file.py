"""A file of verdicts, one a line, that a crash cannot spoil.

A verdict is appended and handed to the system the moment it is reached, so a killed process loses nothing that was judged.
When the last one is in, the file is put in the order of its input. A line torn by a crash is cut off when the file is opened.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from judges.errors import MagistrateError
from judges.verdict import Fingerprint, Verdict

KEY_BYTES = 16
FIRST_BYTES = b'{"id": '
"""How every verdict begins. A last line without an end that begins otherwise was not torn by a crash: it is somebody's file."""


class VerdictFile:
    """The output of a run, and its memory. Use it as ``with VerdictFile(path, fingerprint) as file:``.

    Args:
        path: The file. It may exist, from a run of the same fingerprint that did not finish.
        fingerprint: What this run's verdicts depend on.
        overwrite: Whether to throw away what the file holds.
    """

    def __init__(self, path: Path, fingerprint: Fingerprint, *, overwrite: bool = False) -> None:
        self.path = path.resolve()
        self.fingerprint = fingerprint
        self.overwrite = overwrite
        self._file: BinaryIO | None = None
        self._found: Counter[bytes] = Counter()
        self._input = bytearray()
        self._written = bytearray()

    def __enter__(self) -> Self:
        """Open the file, mend it and read what is judged already.

        Raises:
            MagistrateError: It cannot be written, another run is writing it, or it holds something other than verdicts of
                this fingerprint.
        """
        if self.path.exists() and not self.path.is_file():
            kind = "a folder" if self.path.is_dir() else "no ordinary file"
            raise MagistrateError(f"{self.path} is {kind}; give `-o` a file")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b", buffering=0)
        except OSError as error:
            raise MagistrateError(f"{self.path} cannot be written: {error.strerror or error}") from error
        try:
            self._lock()
            if not self.overwrite:
                self._load()
            self._describe()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def needs(self, key: str) -> bool:
        """Whether the next sample of the input is still to be judged. Call it once for each sample, in the input's order."""
        raw = bytes.fromhex(key)
        self._input += raw
        if self._found[raw] > 0:
            self._found[raw] -= 1
            return False
        return True

    def append(self, verdict: Verdict) -> None:
        """Write a verdict so that it outlives this process.

        Raises:
            MagistrateError: The disk is full, or the file cannot be written any more.
        """
        assert self._file is not None
        line = verdict.to_json().encode() + b"\n"
        if self.overwrite and not self._written:  # only now, when there is something to put in its place
            self._file.truncate(0)
        start = self._file.seek(0, os.SEEK_END)
        try:
            written = 0
            while written < len(line):
                written += self._file.write(line[written:]) or 0
        except OSError as error:
            self._file.truncate(start)
            cause = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
            raise MagistrateError(
                f"{self.path} cannot be written: {cause}; what is judged is safe, and the same command goes on from there"
            ) from error
        self._written += bytes.fromhex(verdict.sample)

    def finish(self, *, whole: bool = True) -> Path | None:
        """Put the verdicts in the order of the input, once every sample has one.

        Args:
            whole: Whether every sample of the input was asked about. If so, verdicts of samples that the input no longer has are
                moved to a file beside this one, not thrown away. If not, other verdicts stay, behind those asked about.

        Returns:
            The file of verdicts left over, ``None`` where there are none.
        """
        if self._written == self._input:
            return None
        assert self._file is not None
        places: dict[bytes, list[tuple[int, int]]] = {}
        start = 0
        for number, line in enumerate(self._lines()):
            key = bytes(self._written[number * KEY_BYTES : (number + 1) * KEY_BYTES])
            places.setdefault(key, []).append((start, len(line)))
            start += len(line)
        for spans in places.values():
            spans.reverse()
        ordered = self.path.with_name(self.path.name + ".ordered")
        leftover = self.path.with_name(f"{self.path.stem}.leftover{self.path.suffix}")
        try:
            with ordered.open("wb") as target:
                for at in range(0, len(self._input), KEY_BYTES):
                    target.write(self._span(places[bytes(self._input[at : at + KEY_BYTES])].pop()))
                remaining = sorted(span for spans in places.values() for span in spans)
                if not whole:
                    target.writelines(self._span(span) for span in remaining)
                target.flush()
                os.fsync(target.fileno())
            if whole and remaining:
                with leftover.open("ab") as side:
                    side.writelines(self._span(span) for span in remaining)
            ordered.replace(self.path)
        except OSError as error:
            ordered.unlink(missing_ok=True)
            raise MagistrateError(
                f"{self.path} is complete but could not be put in the input's order: {error.strerror or error}"
            ) from error
        return leftover if whole and remaining else None

    def verdicts(self) -> Iterator[Verdict]:
        """Read the file's verdicts, in its order."""
        with self.path.open("rb") as file:
            for line in file:
                yield Verdict.from_json(line)

    def _span(self, span: tuple[int, int]) -> bytes:
        assert self._file is not None
        self._file.seek(span[0])
        return self._file.read(span[1])

    def _lock(self) -> None:
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise self._taken() from error
        if os.fstat(self._file.fileno()).st_ino != self.path.stat().st_ino:  # a run that ended just now put its order in place
            raise self._taken()

    def _taken(self) -> MagistrateError:
        return MagistrateError(f"another run is writing {self.path}; wait for it, or give another `-o`")

    def _lines(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            yield from file

    def _load(self) -> None:
        """Read what is judged. A verdict that says nothing about its sample is dropped, so that it is asked again."""
        assert self._file is not None
        end = 0
        dropped = False
        for number, line in enumerate(self._lines(), start=1):
            if not line.endswith(b"\n"):
                if not line.startswith(FIRST_BYTES[: len(line)]):
                    raise self._not_ours(number)
                break
            end += len(line)
            try:
                verdict = Verdict.from_json(line)
                key = bytes.fromhex(verdict.sample)
            except (ValueError, TypeError):
                raise self._not_ours(number) from None
            if verdict.fingerprint != self.fingerprint.digest:
                raise MagistrateError(
                    f"{self.path} holds verdicts of another judge, model or setting ({self._difference(verdict.fingerprint)}); "
                    "give another `-o`, or `--overwrite`"
                )
            if verdict.final:
                self._found[key] += 1
                self._written += key
            else:
                dropped = True
        self._file.truncate(end)
        if dropped:
            self._rewrite()

    def _rewrite(self) -> None:
        """Write the final verdicts to a new file and put it in this one's place."""
        assert self._file is not None
        mended = self.path.with_name(self.path.name + ".mended")
        try:
            with mended.open("wb") as target:
                target.writelines(line for line in self._lines() if Verdict.from_json(line).final)
                target.flush()
                os.fsync(target.fileno())
            mended.replace(self.path)
            self._file.close()
            self._file = self.path.open("a+b", buffering=0)
        except OSError as error:
            mended.unlink(missing_ok=True)
            raise MagistrateError(f"{self.path} cannot be written: {error.strerror or error}") from error
        self._lock()

    def _not_ours(self, number: int) -> MagistrateError:
        return MagistrateError(f"{self.path} line {number} is no verdict of Magistrate; give another `-o`, or `--overwrite`")

    def _sidecar(self) -> Path:
        return self.path.with_name(self.path.name + ".fingerprints.json")

    def _known(self) -> dict[str, object]:
        try:
            return dict(json.loads(self._sidecar().read_text()))
        except (OSError, ValueError):
            return {}

    def _describe(self) -> None:
        """Write what the fingerprint stands for beside the verdicts."""
        known = self._known() | {self.fingerprint.digest: self.fingerprint.fields()}
        try:
            scratch = self._sidecar().with_suffix(".scratch")
            scratch.write_text(json.dumps(known, indent=2) + "\n")
            scratch.replace(self._sidecar())
        except OSError as error:
            raise MagistrateError(f"{self._sidecar()} cannot be written: {error.strerror or error}") from error

    def _difference(self, digest: str) -> str:
        other = self._known().get(digest)
        if not isinstance(other, dict):
            return f"fingerprint {digest}"
        ours, theirs = _flat(self.fingerprint.fields()), _flat(other)
        differing = [name for name in ours if ours[name] != theirs.get(name)]
        return ", ".join(f"{name} {theirs.get(name)} there, {ours[name]} here" for name in differing)


def _flat(fields: dict[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that hold something, with their numbers.

    Raises:
        MagistrateError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except OSError as error:
        raise MagistrateError(f"{path} cannot be read: {error.strerror or error}") from error


def numbered_verdicts(path: Path) -> Iterator[tuple[int, Verdict]]:
    """The verdicts of a file that may be anybody's, with the numbers of their lines.

    Raises:
        MagistrateError: It cannot be read, or a line is no verdict.
    """
    for number, line in numbered_lines(path):
        try:
            verdict = Verdict.from_json(line)
        except (ValueError, KeyError, TypeError) as error:
            torn = isinstance(error, ValueError) and not line.endswith(b"\n")
            mended = "; the run that wrote it was stopped there, and the same command goes on from it" if torn else ""
            raise MagistrateError(f"{path} line {number} is no verdict of Magistrate: {error}{mended}") from None
        yield number, verdict

"""A file of verdicts, one a line, that a crash cannot spoil.

A verdict is appended and handed to the system the moment it is reached, so a killed process loses nothing that was judged.
When the last one is in, the file is put in the order of its input. A line torn by a crash is cut off when the file is opened.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from judges.errors import MagistrateError
from judges.judge import Judge
from judges.verdict import Fingerprint, Verdict
from judges.verdict_lines import MEND, check_judge, check_scores, known_fingerprints, sidecar

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY_BYTES = 16
FIRST_BYTES = b'{"id": '
"""How every verdict begins. A last line without an end that begins otherwise was not torn by a crash: it is somebody's file."""


class VerdictFile:
    """The output of a run, and its memory. Use it as ``with VerdictFile(path, fingerprint) as file:``.

    Args:
        path: The file. It may exist, from a run of the same fingerprint that did not finish.
        fingerprint: What this run's verdicts depend on.
        judge: Whose verdicts they are; scores that it does not give are refused.
        overwrite: Whether to throw away what the file holds.
    """

    def __init__(self, path: Path, fingerprint: Fingerprint, judge: Judge | None = None, *, overwrite: bool = False) -> None:
        self.path = path.resolve()
        self.fingerprint = fingerprint
        self.judge = judge
        self.overwrite = overwrite
        self._file: BinaryIO | None = None
        self._found: Counter[bytes] = Counter()
        self._input = bytearray()
        self._written = bytearray()
        self._later_rows: dict[int, int] = {}  # of the input: number of a row to its occurrence, where that is not 1
        self._later_lines: dict[int, int] = {}  # of the file
        self._new = False
        self._row_names, self._line_names = array("q"), array("q")  # hashes of ids

    def __enter__(self) -> Self:
        """Open the file, mend it and read what is judged already.

        Raises:
            MagistrateError: It cannot be written, another run is writing it, or it holds something other than verdicts of
                this fingerprint.
        """
        if self.path.exists() and not self.path.is_file():
            kind = "a folder" if self.path.is_dir() else "no ordinary file"
            raise MagistrateError(f"{self.path} is {kind}; give `-o` a file")
        self._new = not self.path.exists()
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
            if kind is not None and self._new and not self._written:
                self.path.unlink(missing_ok=True)
                sidecar(self.path).unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def needs(self, key: str, occurrence: int = 1, name: str | None = None) -> bool:
        """Whether the next sample of the input is still to be judged. Call it once for each sample, in the input's order.

        Args:
            key: What the judge is shown, and the sample's id.
            occurrence: Which of the samples of this id it is.
            name: The sample's id, if verdicts are to be compared with it.
        """
        if name is not None:
            self._row_names.append(hash(name))
        raw = bytes.fromhex(key)
        if occurrence > 1:
            self._later_rows[len(self._input) // KEY_BYTES] = occurrence
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
        self._note(bytes.fromhex(verdict.sample), verdict)

    def finish(self, *, whole: bool = True) -> Path | None:
        """Put the verdicts in the order of the input, once every sample has one.

        A verdict of an id that is in the input, but made of something else than the sample now holds, is moved to a file beside
        this one, not thrown away: no sample has two.

        Args:
            whole: Whether every sample of the input was asked about. If so, verdicts of ids that the input no longer has are
                moved likewise. If not, they stay, behind those asked about.

        Returns:
            The file of verdicts left over, ``None`` where none was moved.

        Raises:
            MagistrateError: A verdict has another id than its sample, or the file cannot be written.
        """
        ordered_already = self._written == self._input and self._later_lines == self._later_rows
        if ordered_already and self._row_names in (self._line_names, array("q")):
            return None
        starts = array("Q", [0])
        for line in self._lines():
            starts.append(starts[-1] + len(line))
        chosen = _matched(self._written, self._input)
        self._check_names(starts, chosen)
        leaving, staying = self._others(starts, chosen, whole=whole)
        ordered = self.path.with_name(self.path.name + ".ordered")
        leftover = self.path.with_name(f"{self.path.stem}.leftover{self.path.suffix}")
        try:
            with ordered.open("wb") as target:
                for row, number in enumerate(chosen):
                    line = self._line(starts, number)
                    occurrence = self._later_rows.get(row, 1)
                    target.write(line if self._later_lines.get(number, 1) == occurrence else _told_apart(line, occurrence))
                target.writelines(self._line(starts, number) for number in staying)
                _sync(target)
            if len(leaving):
                with leftover.open("ab") as side:
                    side.writelines(self._line(starts, number) for number in leaving)
                    _sync(side)
            ordered.replace(self.path)
        except OSError as error:
            ordered.unlink(missing_ok=True)
            raise MagistrateError(
                f"{self.path} is complete but could not be put in the input's order: {error.strerror or error}"
            ) from error
        return leftover if len(leaving) else None

    def _check_names(self, starts: array[int], chosen: NDArray[Any]) -> None:
        for number, name in zip(chosen, self._row_names, strict=False):
            if self._line_names[number] != name:
                found = json.dumps(Verdict.from_json(self._line(starts, number)).id, ensure_ascii=False)
                raise MagistrateError(
                    f"{self.path} line {number + 1}: field `id` is {found}, but its sample has another id; {MEND}"
                )

    def asked(self) -> Iterator[Verdict]:
        """Read the verdicts on the samples that were asked about, in the input's order. The file must be finished."""
        return islice(self.verdicts(), len(self._input) // KEY_BYTES)

    def verdicts(self) -> Iterator[Verdict]:
        """Read the file's verdicts, in its order."""
        with self.path.open("rb") as file:
            for line in file:
                yield Verdict.from_json(line)

    def _others(self, starts: array[int], chosen: NDArray[Any], *, whole: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        """The lines of no sample of the input: those to be moved away, and those that stay."""
        import numpy as np

        others = np.setdiff1d(np.arange(len(starts) - 1), chosen)
        if whole or not len(others):
            return others, others[:0]
        asked = (self._name(starts, number, self._later_rows.get(row, 1)) for row, number in enumerate(chosen))
        names = np.fromiter(asked, np.int64, len(chosen))
        there = (self._name(starts, number, self._later_lines.get(number, 1)) for number in others)
        replaced = np.isin(np.fromiter(there, np.int64, len(others)), names)
        return others[replaced], others[~replaced]

    def _name(self, starts: array[int], number: int, occurrence: int) -> int:
        """A number for the id of a line and its occurrence."""
        return hash((Verdict.from_json(self._line(starts, number)).id, occurrence))

    def _note(self, key: bytes, verdict: Verdict) -> None:
        """Note a line of the file."""
        if verdict.occurrence > 1:
            self._later_lines[len(self._written) // KEY_BYTES] = verdict.occurrence
        self._line_names.append(hash(verdict.id))
        self._written += key

    def _line(self, starts: array[int], number: int) -> bytes:
        assert self._file is not None
        self._file.seek(starts[number])
        return self._file.read(starts[number + 1] - starts[number])

    def _lock(self) -> None:
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = self.path.stat()
        except OSError as error:
            raise self._taken() from error
        if os.fstat(self._file.fileno()).st_ino != there.st_ino:  # a run that ended just now put its order in place
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
                    raise self._not_ours(number, "it has no end")
                break
            end += len(line)
            try:
                verdict = Verdict.from_json(line)
                key = bytes.fromhex(verdict.sample)
            except ValueError as error:
                raise self._not_ours(number, str(error)) from None
            if len(key) != KEY_BYTES:
                raise self._not_ours(number, f"field `sample` must have {2 * KEY_BYTES} digits, not {2 * len(key)}")
            if verdict.fingerprint != self.fingerprint.digest:
                raise MagistrateError(
                    f"{self.path} holds verdicts of another judge, model or setting ({self._difference(verdict.fingerprint)}); "
                    "give another `-o`, or `--overwrite`"
                )
            check_judge(verdict, self.fingerprint.judge, self.path, number)
            check_scores(verdict, self.judge, self.path, number, whole=True)
            if verdict.final:
                self._found[key] += 1
                self._note(key, verdict)
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
                _sync(target)
            mended.replace(self.path)
            self._file.close()
            self._file = self.path.open("a+b", buffering=0)
        except OSError as error:
            mended.unlink(missing_ok=True)
            raise MagistrateError(f"{self.path} cannot be written: {error.strerror or error}") from error
        self._lock()

    def _not_ours(self, number: int, why: str) -> MagistrateError:
        there = f"{self.path} line {number} is no verdict of Magistrate: {why}"
        return MagistrateError(f"{there}; {MEND}, give another `-o`, or `--overwrite`")

    def _describe(self) -> None:
        """Write what the fingerprint stands for beside the verdicts."""
        known = known_fingerprints(self.path) | {self.fingerprint.digest: self.fingerprint.fields()}
        beside = sidecar(self.path)
        try:
            scratch = beside.with_suffix(".scratch")
            scratch.write_text(json.dumps(known, indent=2) + "\n")
            scratch.replace(beside)
        except OSError as error:
            raise MagistrateError(f"{beside} cannot be written: {error.strerror or error}") from error

    def _difference(self, digest: str) -> str:
        other = known_fingerprints(self.path).get(digest)
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


def _matched(written: bytearray, wanted: bytearray) -> NDArray[Any]:
    """For each key that is wanted, the number of a line with that key. Of equal keys the first has the first line."""
    import numpy as np

    have, want = (np.frombuffer(keys, f"S{KEY_BYTES}") for keys in (written, wanted))
    lines, rows = (np.argsort(keys, kind="stable") for keys in (have, want))
    asked = want[rows]
    before = np.arange(len(want)) - np.searchsorted(asked, asked)
    found = np.empty(len(want), np.int64)
    found[rows] = lines[np.searchsorted(have[lines], asked) + before]
    assert np.array_equal(have[found], want), "a sample has no verdict"
    return found


def _told_apart(line: bytes, occurrence: int) -> bytes:
    """A verdict's line with another occurrence."""
    fields = json.loads(line) | {"occurrence": occurrence}
    if occurrence == 1:
        del fields["occurrence"]
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())

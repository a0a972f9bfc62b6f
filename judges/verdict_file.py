"""Writes a file of verdicts, one a line, that survives crashes.

Each verdict is appended and handed to the system as soon as it is reached, so a killed process loses no verdict. After the last
one the file is put in the order of its input. A line torn by a crash is cut off when the file is opened.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from judges.errors import MagistrateError, reason_of
from judges.judge import Judge
from judges.upgrades import explained
from judges.verdict import Fingerprint, Verdict, besides_hardware
from judges.verdict_lines import CORRECT, check_judge, check_scores, known_fingerprints, sidecar, write_fingerprints

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY_BYTES = 16
FIRST_BYTES = b'{"id": '
"""Beginning of every verdict. An unfinished last line with another beginning is not a torn verdict but someone else's file."""


class VerdictFile:
    """The verdicts of a run, and its memory. Use it as ``with VerdictFile(path, fingerprint) as file:``.

    Args:
        path: The file. It may exist, from an unfinished run with the same fingerprint.
        fingerprint: Everything that this run's verdicts depend on besides their samples.
        judge: The run's judge; scores that it does not give are refused.
        overwrite: Whether to discard the file's contents.
        mixed: Whether its verdicts may be of other hardware. Each keeps its own fingerprint.
    """

    def __init__(
        self,
        path: Path,
        fingerprint: Fingerprint,
        judge: Judge | None = None,
        *,
        overwrite: bool = False,
        mixed: bool = False,
    ) -> None:
        self.path = path.resolve()
        self.fingerprint = fingerprint
        self.judge = judge
        self.overwrite = overwrite
        self.mixed = mixed
        self._file: BinaryIO | None = None
        self._unclaimed: Counter[bytes] = Counter()  # keys of verdicts in the file that no sample has claimed
        self._input = bytearray()
        self._written = bytearray()
        self._later_rows: dict[int, int] = {}  # row of the input -> its occurrence, if that is not 1
        self._later_lines: dict[int, int] = {}  # line of the file -> its occurrence, if that is not 1
        self._starts = array("Q")  # start of each line, while the file is put in order
        self._new = False
        self._row_names, self._line_names = array("q"), array("q")  # hashes of ids

    def __enter__(self) -> Self:
        """Open the file, repair it and read its verdicts.

        Raises:
            MagistrateError: It cannot be written, another run is writing it, or it holds something other than verdicts of
                this fingerprint.
        """
        if self.path.exists() and not self.path.is_file():
            kind = "a folder" if self.path.is_dir() else "not an ordinary file"
            raise MagistrateError(f"{self.path} is {kind}; give `-o` a file")
        self._new = not self.path.exists()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b", buffering=0)
        except OSError as error:
            raise _unwritable(self.path, error) from error
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
        """Whether the next sample of the input has no verdict yet. Call it once for each sample, in the input's order.

        Args:
            key: Digest of the sample's id and of the text that the judge is shown.
            occurrence: Occurrence of the sample among those with its id, from 1.
            name: The sample's id, to be compared with that of its verdict; ``None`` skips the comparison.
        """
        if name is not None:
            self._row_names.append(hash(name))
        raw = bytes.fromhex(key)
        if occurrence > 1:
            self._later_rows[len(self._input) // KEY_BYTES] = occurrence
        self._input += raw
        if self._unclaimed[raw] > 0:
            self._unclaimed[raw] -= 1
            return False
        return True

    def append(self, verdict: Verdict) -> None:
        """Write a verdict so that it outlives this process.

        Raises:
            MagistrateError: The disk is full, or the file can no longer be written.
        """
        assert self._file is not None
        line = verdict.to_json().encode() + b"\n"
        if self.overwrite and not self._written:  # not before there is something to put in its place
            self._file.truncate(0)
        start = self._file.seek(0, os.SEEK_END)
        try:
            written = 0
            while written < len(line):
                written += self._file.write(line[written:]) or 0
        except OSError as error:
            self._file.truncate(start)
            cause = "the disk is full" if error.errno == errno.ENOSPC else reason_of(error)
            advice = "verdicts written so far are safe, and the same command resumes from there"
            raise MagistrateError(f"{self.path} cannot be written: {cause}; {advice}") from error
        self._note(bytes.fromhex(verdict.sample), verdict)

    def finish(self, *, whole: bool = True) -> Path | None:
        """Put the verdicts in the order of the input. Every sample must have one.

        If a sample's content has changed under the same id, its old verdict moves to a file beside this one.

        Args:
            whole: Whether the samples are the entire input. If so, verdicts of ids that the input no longer has move as well; if
                not, they stay, after those of the samples.

        Returns:
            The file of the verdicts that moved, ``None`` if none did.

        Raises:
            MagistrateError: A verdict has another id than its sample, or the file cannot be written.
        """
        ordered_already = self._written == self._input and self._later_lines == self._later_rows
        if ordered_already and self._row_names in (self._line_names, array("q")):
            return None
        self._starts = array("Q", [0])
        for line in self._lines():
            self._starts.append(self._starts[-1] + len(line))
        chosen = _matched(self._written, self._input)
        self._check_names(chosen)
        moving, staying = self._others(chosen, whole=whole)
        ordered = self.path.with_name(self.path.name + ".ordered")
        leftover = self.path.with_name(f"{self.path.stem}.leftover{self.path.suffix}")
        try:
            with ordered.open("wb") as target:
                for row, number in enumerate(chosen):
                    line = self._line(number)
                    occurrence = self._later_rows.get(row, 1)
                    target.write(line if self._later_lines.get(number, 1) == occurrence else _renumbered(line, occurrence))
                _write(target, map(self._line, staying))
            if len(moving):
                with leftover.open("ab") as target:
                    _write(target, map(self._line, moving))
            ordered.replace(self.path)
        except OSError as error:
            ordered.unlink(missing_ok=True)
            fault = f"is complete but could not be put in the input's order: {reason_of(error)}"
            raise MagistrateError(f"{self.path} {fault}") from error
        return leftover if len(moving) else None

    def of_input(self) -> Iterator[Verdict]:
        """Read the verdicts on the run's samples, in the input's order. The file must be finished."""
        return islice(self.verdicts(), len(self._input) // KEY_BYTES)

    def verdicts(self) -> Iterator[Verdict]:
        """Read the file's verdicts, in its order."""
        return map(Verdict.from_json, self._lines())

    def _check_names(self, chosen: NDArray[Any]) -> None:
        for number, name in zip(chosen, self._row_names, strict=False):
            if self._line_names[number] != name:
                line_id = json.dumps(Verdict.from_json(self._line(number)).id, ensure_ascii=False)
                fault = f"field `id` is {line_id}, but its sample has another id"
                raise MagistrateError(f"{self.path} line {number + 1}: {fault}; {CORRECT}")

    def _others(self, chosen: NDArray[Any], *, whole: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        """The lines that belong to no sample of the input: those that move away, and those that stay."""
        import numpy as np

        others = np.setdiff1d(np.arange(len(self._starts) - 1), chosen)
        if whole or not len(others):
            return others, others[:0]
        judged = (self._name(number, self._later_rows.get(row, 1)) for row, number in enumerate(chosen))
        names = np.fromiter(judged, np.int64, len(chosen))
        unclaimed = (self._name(number, self._later_lines.get(number, 1)) for number in others)
        replaced = np.isin(np.fromiter(unclaimed, np.int64, len(others)), names)
        return others[replaced], others[~replaced]

    def _name(self, number: int, occurrence: int) -> int:
        """A hash of a line's id and its occurrence."""
        return hash((Verdict.from_json(self._line(number)).id, occurrence))

    def _note(self, key: bytes, verdict: Verdict) -> None:
        if verdict.occurrence > 1:
            self._later_lines[len(self._written) // KEY_BYTES] = verdict.occurrence
        self._line_names.append(hash(verdict.id))
        self._written += key

    def _line(self, number: int) -> bytes:
        assert self._file is not None
        self._file.seek(self._starts[number])
        return self._file.read(self._starts[number + 1] - self._starts[number])

    def _lock(self) -> None:
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(self._file.fileno()).st_ino == self.path.stat().st_ino:
                return
        except OSError as error:
            raise self._taken() from error
        raise self._taken()  # another run has just replaced the file by the ordered one

    def _taken(self) -> MagistrateError:
        return MagistrateError(f"another run is writing {self.path}; wait for it, or give another `-o`")

    def _lines(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            yield from file

    def _load(self) -> None:
        """Read the verdicts. One that says nothing about its sample is dropped, so that the sample is judged again."""
        assert self._file is not None
        end = 0
        dropped = False
        alike = {self.fingerprint.digest, *(self._of_other_hardware() if self.mixed else ())}
        for number, line in enumerate(self._lines(), start=1):
            if not line.endswith(b"\n"):
                if not line.startswith(FIRST_BYTES[: len(line)]):
                    raise self._foreign(number, "it has no end")
                break
            end += len(line)
            try:
                verdict = Verdict.from_json(line)
                key = bytes.fromhex(verdict.sample)
            except ValueError as error:
                raise self._foreign(number, str(error)) from None
            if len(key) != KEY_BYTES:
                raise self._foreign(number, f"field `sample` must have {2 * KEY_BYTES} digits, not {2 * len(key)}")
            if verdict.fingerprint not in alike:
                raise MagistrateError(
                    f"{self.path} holds verdicts of another judge, model or setting ({self._difference(verdict.fingerprint)}); "
                    f"give another `-o`, or `--overwrite`{self._advice(verdict.fingerprint)}"
                )
            check_judge(verdict, self.fingerprint.judge, self.path, number)
            check_scores(verdict, self.judge, self.path, number, whole=True)
            if verdict.final:
                self._unclaimed[key] += 1
                self._note(key, verdict)
            else:
                dropped = True
        self._file.truncate(end)
        if dropped:
            self._rewrite()

    def _rewrite(self) -> None:
        """Replace the file by one that holds the final verdicts alone."""
        assert self._file is not None
        scratch = self.path.with_name(self.path.name + ".mended")
        try:
            with scratch.open("wb") as target:
                _write(target, (line for line in self._lines() if Verdict.from_json(line).final))
            scratch.replace(self.path)
            self._file.close()
            self._file = self.path.open("a+b", buffering=0)
        except OSError as error:
            scratch.unlink(missing_ok=True)
            raise _unwritable(self.path, error) from error
        self._lock()

    def _foreign(self, number: int, why: str) -> MagistrateError:
        fault = f"{self.path} line {number} is not a Magistrate verdict: {why}"
        return MagistrateError(f"{fault}; {CORRECT}, give another `-o`, or `--overwrite`")

    def _describe(self) -> None:
        """Write the fields of the fingerprint to the file beside the verdicts."""
        known = known_fingerprints(self.path) | {self.fingerprint.digest: self.fingerprint.fields()}
        try:
            write_fingerprints(self.path, known)
        except OSError as error:
            raise _unwritable(sidecar(self.path), error) from error

    def _of_other_hardware(self) -> list[str]:
        """The file's fingerprints that differ from this run's in nothing but the hardware."""
        ours = besides_hardware(json.loads(json.dumps(self.fingerprint.fields())))
        known = known_fingerprints(self.path).items()
        return [digest for digest, fields in known if isinstance(fields, dict) and besides_hardware(fields) == ours]

    def _advice(self, digest: str) -> str:
        return "; with `--allow-mixed`, `score` and `jury` mix hardware" if digest in self._of_other_hardware() else ""

    def _difference(self, digest: str) -> str:
        other = known_fingerprints(self.path).get(digest)
        if not isinstance(other, dict):
            return f"fingerprint {digest}"
        ours, theirs = _flat(self.fingerprint.fields()), _flat(other)
        differing = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
        if "judge" in differing:
            differing = [name for name in differing if name != "judge_version"]
        said = ", ".join(_told_apart(name, theirs.get(name), ours.get(name)) for name in differing)
        changes = explained({name: theirs.get(name) for name in differing}, self.judge)
        return said + "".join(f"; since version {change.version} {change.why}" for change in changes)


def _told_apart(name: str, theirs: object, ours: object) -> str:
    """Say how a field of two fingerprints differs. The judge's version is a digest, which tells nobody anything."""
    if name == "judge_version":
        return "prompts or options of the judge"
    return f"{name.rpartition('.')[2]} {_spelt(theirs)} there, {_spelt(ours)} here"


def _spelt(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _flat(fields: dict[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in fields.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat


def _matched(written: bytearray, wanted: bytearray) -> NDArray[Any]:
    """For each wanted key, the number of a line with that key. Equal keys get their lines in order."""
    import numpy as np

    have, want = (np.frombuffer(keys, f"S{KEY_BYTES}") for keys in (written, wanted))
    lines, rows = (np.argsort(keys, kind="stable") for keys in (have, want))
    in_order = want[rows]
    equal_before = np.arange(len(want)) - np.searchsorted(in_order, in_order)
    matched = np.empty(len(want), np.int64)
    matched[rows] = lines[np.searchsorted(have[lines], in_order) + equal_before]
    assert np.array_equal(have[matched], want), "a sample has no verdict"
    return matched


def _renumbered(line: bytes, occurrence: int) -> bytes:
    """A verdict's line with another occurrence."""
    fields = json.loads(line) | {"occurrence": occurrence}
    if occurrence == 1:
        del fields["occurrence"]
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def _write(file: BinaryIO, lines: Iterable[bytes]) -> None:
    """Write the last lines of a file, and have them on the disk."""
    file.writelines(lines)
    file.flush()
    os.fsync(file.fileno())


def _unwritable(path: Path, error: OSError) -> MagistrateError:
    return MagistrateError(f"{path} cannot be written: {reason_of(error)}")

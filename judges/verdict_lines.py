"""Reads the lines of verdict files, whoever wrote them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from judges.data.files import atomic_write, check_file, parse_json
from judges.data.rows import local
from judges.errors import MagistrateError, reason_of
from judges.judge import Judge
from judges.verdict import NoJsonError, Verdict, fault_in

MANIFEST = "run.json"
"""What a folder of units' verdicts is of."""

PARQUET = ".parquet"
CSV = ".csv"

CORRECT = "correct the line, or delete it to have its sample judged again"


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the non-empty lines of a file, or of standard input for ``-``, with their numbers.

    Raises:
        MagistrateError: It cannot be read.
    """
    path = local(path)
    check_file(path)
    try:
        with path.open("rb") as file:
            yield from ((number, line) for number, line in enumerate(file, start=1) if line.strip())
    except OSError as error:
        raise MagistrateError(f"{path} cannot be read: {reason_of(error)}") from error


def numbered_verdicts(path: Path, judge: Judge | None = None) -> Iterator[tuple[int, Verdict]]:
    """Yield the verdicts of a file from any source, or of a folder of units, with their numbers. Scores of ``judge`` are checked.

    Raises:
        MagistrateError: The file cannot be read, or a line is not a verdict, has a score that the judge does not give, or names a
            judge other than its fingerprint's.
    """
    known = known_fingerprints(path)
    if path.suffix.lower() == CSV:
        raise MagistrateError(f"{path}: verdicts are read from JSON lines, Parquet or a folder of units, not from CSV")
    if path.is_dir() or path.suffix.lower() == PARQUET:
        from judges.units.tables import of_place

        for number, verdict in enumerate(of_place(str(path)), start=1):
            check_scores(verdict, judge, path, number)
            yield number, verdict
        return
    for number, line in numbered_lines(path):
        try:
            verdict = Verdict.from_json(line)
        except ValueError as error:
            torn = isinstance(error, NoJsonError | UnicodeDecodeError) and not line.endswith(b"\n")
            advice = "; the run that wrote it was stopped there; resume it with the same command" if torn else ""
            raise MagistrateError(f"{path} line {number} is not a Magistrate verdict: {error}{advice}") from None
        fields = known.get(verdict.fingerprint)
        if isinstance(fields, dict):
            check_judge(verdict, str(fields.get("judge", verdict.judge)), path, number)
        check_scores(verdict, judge, path, number)
        yield number, verdict


def check_scores(verdict: Verdict, judge: Judge | None, path: Path, number: int, *, whole: bool = False) -> None:
    """Check that a verdict from a line of a file has only scores that its judge gives, and all of them if ``whole``.

    A verdict of a judge other than ``judge`` is not checked.

    Raises:
        MagistrateError: A score is illegal or missing; the message names the file, the line and the field.
    """
    if judge is not None and verdict.judge == judge.name and (fault := fault_in(verdict, judge, whole=whole)):
        raise MagistrateError(f"{place_of(path, number)}: {fault}; {CORRECT}")


def check_judge(verdict: Verdict, name: str, path: Path, number: int) -> None:
    """Check that a verdict from a line of a file names the judge of its fingerprint, ``name``.

    Raises:
        MagistrateError: It names another; the message names the file, the line and the field.
    """
    if verdict.judge != name:
        value = json.dumps(verdict.judge)[:80]
        fault = f"field `judge` is {value}, but its fingerprint is of judge `{name}`"
        raise MagistrateError(f"{place_of(path, number)}: {fault}; {CORRECT}")


def known_fingerprints(path: Path) -> dict[str, Any]:
    """Map the fingerprints of a verdict file or folder to their fields, from the file that says so; empty without one."""
    try:
        if path.is_dir():
            fields = parse_json((path / MANIFEST).read_text())["fingerprint"]
            return {str(fields.pop("digest")): fields}
        fingerprints = parse_json(sidecar(path).read_text())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return fingerprints if isinstance(fingerprints, dict) else {}


def sidecar(path: Path) -> Path:
    """The file beside a verdict file that describes its fingerprints."""
    return path.with_name(path.name + ".fingerprints.json")


def place_of(path: Path, number: int) -> str:
    """Where a verdict stands, for messages."""
    return f"{path} {'verdict' if path.is_dir() or path.suffix.lower() == PARQUET else 'line'} {number}"


def write_fingerprints(path: Path, known: Mapping[str, Any]) -> None:
    """Write the file beside a verdict file.

    Raises:
        OSError: It cannot be written.
    """
    atomic_write(sidecar(path), json.dumps(known, indent=2) + "\n")

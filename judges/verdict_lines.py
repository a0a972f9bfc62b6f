"""The lines of a file of verdicts, whoever wrote it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from judges.errors import MagistrateError
from judges.input_file import check_file
from judges.json_text import parse_json
from judges.judge import Judge
from judges.verdict import NoJsonError, Verdict, fault_in

MEND = "mend the line, or take it out to have its sample judged again"


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that hold something, with their numbers.

    Raises:
        MagistrateError: It cannot be read.
    """
    check_file(path)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except OSError as error:
        raise MagistrateError(f"{path} cannot be read: {error.strerror or error}") from error


def numbered_verdicts(path: Path, judge: Judge | None = None) -> Iterator[tuple[int, Verdict]]:
    """The verdicts of a file that may be anybody's, with the numbers of their lines.

    Args:
        path: The file.
        judge: Whose scores they have, where that is known; verdicts of other judges are not looked at.

    Raises:
        MagistrateError: It cannot be read, a line is no verdict, or has a score that the judge does not give, or a judge that its
            fingerprint is not of.
    """
    known = known_fingerprints(path)
    for number, line in numbered_lines(path):
        try:
            verdict = Verdict.from_json(line)
        except ValueError as error:
            torn = isinstance(error, NoJsonError | UnicodeDecodeError) and not line.endswith(b"\n")
            mended = "; the run that wrote it was stopped there, and the same command goes on from it" if torn else ""
            raise MagistrateError(f"{path} line {number} is no verdict of Magistrate: {error}{mended}") from None
        stands_for = known.get(verdict.fingerprint)
        if isinstance(stands_for, dict):
            check_judge(verdict, str(stands_for.get("judge", verdict.judge)), path, number)
        check_scores(verdict, judge, path, number)
        yield number, verdict


def check_scores(verdict: Verdict, judge: Judge | None, path: Path, number: int, *, whole: bool = False) -> None:
    """See that a verdict of a file has only scores that its judge gives.

    Args:
        verdict: What the line says.
        judge: Whose it is, where that is known; a verdict of another judge is not looked at.
        path: The file.
        number: Of the line.
        whole: Whether every score that the judge gives must be there.

    Raises:
        MagistrateError: It has another; the sentence names the file, the line and the field.
    """
    if judge is not None and verdict.judge == judge.name and (fault := fault_in(verdict, judge, whole=whole)):
        raise MagistrateError(f"{path} line {number}: {fault}; {MEND}")


def check_judge(verdict: Verdict, name: str, path: Path, number: int) -> None:
    """See that a verdict of a file says the judge that its fingerprint is of.

    Args:
        verdict: What the line says.
        name: The fingerprint's judge.
        path: The file.
        number: Of the line.

    Raises:
        MagistrateError: It says another; the sentence names the file, the line and the field.
    """
    if verdict.judge != name:
        said = json.dumps(verdict.judge)[:80]
        raise MagistrateError(f"{path} line {number}: field `judge` is {said}, but its fingerprint is of judge `{name}`; {MEND}")


def known_fingerprints(path: Path) -> dict[str, Any]:
    """What the fingerprints of a file of verdicts stand for, as the file beside it says; nothing where there is none."""
    try:
        found = parse_json(sidecar(path).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def sidecar(path: Path) -> Path:
    """The file beside a file of verdicts that says what its fingerprints stand for."""
    return path.with_name(path.name + ".fingerprints.json")

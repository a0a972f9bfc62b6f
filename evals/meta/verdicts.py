"""A file of verdicts as studies take it: by id, with the judge's numbers or why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evals.meta.cells import finite
from judges.errors import MagistrateError
from judges.verdict import Verdict
from judges.verdict_file import numbered_verdicts


def read_verdicts(path: Path) -> dict[str, Verdict]:
    """Verdicts by id.

    Raises:
        MagistrateError: The file cannot be read, a line is no verdict, or an id has several.
    """
    found: dict[str, Verdict] = {}
    for number, verdict in numbered_verdicts(path):
        if verdict.id in found:
            raise MagistrateError(
                f"{path} line {number}: id `{verdict.id}` has two verdicts; give one judge's, of samples with ids of their own"
            )
        found[verdict.id] = verdict
    if not found:
        raise MagistrateError(f"{path} holds no verdicts; give a file that `magistrate score` wrote")
    return found


def metrics_of(verdicts: Mapping[str, Verdict]) -> list[str]:
    """Metrics of which any verdict has a number, in the order they come in."""
    scores = ((name, value) for verdict in verdicts.values() for name, value in (verdict.scores or {}).items())
    return list(dict.fromkeys(name for name, value in scores if finite(value) is not None))


def score_of(verdict: Verdict, metric: str, *, expected: bool) -> float | str:
    """The judge's number, or why there is none."""
    if verdict.status == "unscored" or verdict.scores is None:
        return verdict.reason or "unscored"
    if expected:
        expectation = (verdict.expected or {}).get(metric)
        number = None if expectation is None else finite(expectation.expectation)
        return "the verdict has no expected score" if number is None else number
    number = finite(verdict.scores.get(metric))
    return "the verdict has no number for it" if number is None else number


def origin(path: Path) -> str:
    """A file of verdicts and whose they are, as a report tells it: by its first one."""
    verdict = next((one for _, one in numbered_verdicts(path)), None)
    return path.name if verdict is None else f"{path.name} (judge {verdict.judge}, fingerprint {verdict.fingerprint})"

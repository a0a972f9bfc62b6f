"""A file of verdicts as studies take it: by id, with the judge's numbers or why there are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from evals.data.tables import finite
from evals.data.tasks import Fault
from evals.reports.wording import first_few
from judges import catalog
from judges.data.rows import Row
from judges.errors import MagistrateError
from judges.judge import Judge
from judges.runner import prepare
from judges.verdict import Verdict
from judges.verdict_lines import check_scores, known_fingerprints, numbered_verdicts, place_of


def read_verdicts(path: Path, judge: Judge | None = None) -> dict[str, Verdict]:
    """Verdicts by id.

    Args:
        path: Magistrate's verdicts, a line each.
        judge: The judge that gave the scores. By default the judge of that name with its usual options, where the file beside the
            verdicts says that these are its.

    Raises:
        MagistrateError: The file cannot be read, a line is no verdict, or an id has several.
    """
    found: dict[str, Verdict] = {}
    usual = {} if judge else _usual_judges(path)
    for number, verdict in numbered_verdicts(path, judge):
        check_scores(verdict, usual.get(verdict.fingerprint), path, number)
        if verdict.id in found:
            raise MagistrateError(
                f"{place_of(path, number)}: id `{verdict.id}` has two verdicts; "
                "give one judge's, of samples with ids of their own"
            )
        found[verdict.id] = verdict
    if not found:
        raise MagistrateError(f"{path} holds no verdicts; give a file that `magistrate score` wrote")
    return found


def read_scored(path: Path, *, expected: bool = False) -> dict[str, Verdict]:
    """Verdicts by id, some of them with scores.

    Args:
        path: Magistrate's verdicts, a line each.
        expected: Whether expected scores are asked for.

    Raises:
        MagistrateError: As in ``read_verdicts``; or none has scores, or none has expected ones that are asked for.
    """
    found = read_verdicts(path)
    scored = [verdict for verdict in found.values() if verdict.status == "scored"]
    if not scored:
        reasons = Counter(verdict.reason or "unscored" for verdict in found.values()).most_common(3)
        why = "; ".join(f"{amount:,}: {reason}" for reason, amount in reasons)
        raise MagistrateError(f"no verdict of {path.name} has scores ({why})")
    if expected and not any(verdict.expected for verdict in scored):
        raise MagistrateError(f"no verdict of {path.name} has expected scores; judge with `--expected`, or leave it out here")
    return found


def on_other_texts(rows: Iterable[Row], verdicts: Mapping[str, Verdict]) -> list[Fault]:
    """Rows whose verdict may be on another text that has the same id, as rows without ids are numbered in every file.

    A verdict holds a digest of what its judge was shown. That depends on the judge's options too, which it does not hold: the
    usual ones are supposed. Judges that have none, rubrics and juries, are not looked at.
    """
    judge_of = cache(usual_judge)
    fault = Fault("verdict on another text of the same id, or with options of the judge that are not the usual ones")
    for row in rows:
        verdict = verdicts.get(row.id)
        judge = judge_of(verdict.judge) if verdict is not None and verdict.status == "scored" else None
        if verdict is not None and judge is not None and prepare(row, judge).key != verdict.sample:
            fault.add(row.id)
    return [fault] if fault.count else []


def _usual_judges(path: Path) -> dict[str, Judge]:
    """Fingerprints of a file of verdicts to the judges that they are of, of judges with their usual options."""
    stated = {digest: fields for digest, fields in known_fingerprints(path).items() if isinstance(fields, dict)}
    judges = {digest: usual_judge(str(fields.get("judge"))) for digest, fields in stated.items()}
    return {digest: one for digest, one in judges.items() if one and one.version == stated[digest].get("judge_version")}


def usual_judge(name: str) -> Judge | None:
    """The judge of a name with its usual options; ``None`` if there is none."""
    try:
        return catalog.open_judge(name) if name in catalog.JUDGES else None
    except MagistrateError:
        return None  # it has no usual options


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


def judges_of(verdicts: Iterable[Verdict]) -> list[str]:
    """The judges that gave verdicts, and how they judged, each once."""
    return list(dict.fromkeys(f"judge {verdict.judge}, fingerprint {verdict.fingerprint}" for verdict in verdicts))


def origin(path: Path, judges: Sequence[str]) -> str:
    """A file of verdicts and whose they are, as a report tells it."""
    return f"{path.name} ({first_few(judges, most=3, between='; ')})"


def mixed(judges: Sequence[str]) -> list[str]:
    """What to say of verdicts of several judges, or of one that judged in several ways; nothing of others."""
    if len(judges) < 2:
        return []
    return [f"the verdicts are of {len(judges)} judges or ways of judging: {first_few(judges, most=3, between='; ')}"]

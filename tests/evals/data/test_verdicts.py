"""Verdicts as studies take them."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.data.verdicts import on_other_texts, read_verdicts
from judges import catalog
from judges.data.rows import Row
from judges.engines.engine import EngineIdentity
from judges.errors import MagistrateError
from judges.llm_eval import LLMEval
from judges.runner import prepare
from judges.verdict import Fingerprint, Verdict
from judges.verdict_file import VerdictFile


def rows(*answers: str) -> list[Row]:
    return [
        Row(str(number), f"row {number}", {"context": "Why?", "response": answer}) for number, answer in enumerate(answers, 1)
    ]


def verdict(row: Row, judge: str = "llm-eval", status: str = "scored", **options: str) -> Verdict:
    key = prepare(row, catalog.open_judge("llm-eval", options)).key
    return Verdict(id=row.id, judge=judge, status=status, sample=key, fingerprint="f")  # type: ignore[arg-type]


def test_verdicts_on_another_files_rows_of_the_same_numbers_are_told_of() -> None:
    judged = rows("So.", "No.", "Yes.")
    verdicts = {row.id: verdict(row) for row in judged}
    assert on_other_texts(judged, verdicts) == []
    (fault,) = on_other_texts(rows("So.", "Perhaps.", "Never."), verdicts)
    assert (fault.count, fault.ids) == (2, ["2", "3"])
    assert fault.what == "verdict on another text of the same id, or with options of the judge that are not the usual ones"
    assert on_other_texts(rows(*"abcde")[3:], verdicts) == [], "there are no verdicts on these"


def test_other_options_cannot_be_told_from_another_text() -> None:
    (row,) = rows("So.")
    (fault,) = on_other_texts([row], {"1": verdict(row, scale="0-100")})
    assert fault.count == 1


@pytest.mark.parametrize(
    ("judge", "status"), [("jury", "scored"), ("affinity", "scored"), ("mine", "scored"), ("llm-eval", "unscored")]
)
def test_what_has_no_usual_options_or_no_score_is_not_looked_at(judge: str, status: str) -> None:
    (row,), (other,) = rows("So."), rows("No.")
    assert on_other_texts([row], {"1": verdict(other, judge, status)}) == []


@pytest.mark.parametrize(("judge", "refused"), [(LLMEval(), True), (LLMEval(scale="0-100"), False)])
def test_a_score_outside_of_the_judges_scale_is_refused_where_the_scale_is_known(
    tmp_path: Path, judge: LLMEval, refused: bool
) -> None:
    """The file beside the verdicts says whose they are; options of a judge's own it does not spell out."""
    fingerprint = Fingerprint.of(judge, EngineIdentity("vllm", "0.32.0", "tiny", "abc", "outlines"))
    path = tmp_path / "v.jsonl"
    scores = dict.fromkeys(judge.metrics, 4)
    with VerdictFile(path, fingerprint) as file:
        for number, content in enumerate((3, 99)):
            verdict = Verdict(
                id=str(number),
                judge=judge.name,
                status="scored",
                scores={**scores, "content": content},
                sample=f"{number:032x}",
                fingerprint=fingerprint.digest,
            )
            file.append(verdict)
    if refused:
        with pytest.raises(MagistrateError, match=r"v\.jsonl line 2: field `scores\.content` is 99, but judge"):
            read_verdicts(path)
    else:
        assert len(read_verdicts(path)) == 2

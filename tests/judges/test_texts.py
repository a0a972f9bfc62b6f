"""The file of prompts and answers beside verdicts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from judges.data.rows import row_of
from judges.errors import MagistrateError
from judges.llm_eval import LLMEval
from judges.runner import PreparedSample, prepare
from judges.texts import TextReader, TextWriter, discard_texts, texts_beside
from judges.verdict import Verdict

OURS, OTHER = "a" * 16, "b" * 16


def sample(number: int, occurrence: int = 1) -> PreparedSample:
    row = row_of({"id": str(number), "context": "Tea?", "response": f"Yes, {number} \ud83d cups."}, number)
    return prepare(replace(row, occurrence=occurrence), LLMEval())


def verdict(of: PreparedSample, fingerprint: str = OURS, reason: str = "bad answer") -> Verdict:
    return Verdict(
        id=of.row.id,
        judge="llm-eval",
        status="unscored",
        reason=reason,
        sample=of.key,
        fingerprint=fingerprint,
        occurrence=of.row.occurrence,
    )


def answers(path: Path, of: Verdict) -> list[str] | None:
    texts = TextReader(path).of(of)
    return None if texts is None else list(texts.answers)


def test_texts_are_found_by_their_verdict_and_survive_a_torn_line(tmp_path: Path) -> None:
    path = texts_beside(tmp_path / "v.jsonl")
    assert path.name == "v.jsonl.texts.jsonl"
    first = TextWriter(path)
    first.add(sample(1), ['{"content": 1}'], OURS)
    first.add(sample(2), ["cut off"], OURS)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])  # a process killed as it wrote
    TextWriter(path).add(sample(3), ["é\n"], OURS)
    assert len(TextReader(path)) == 3
    texts = TextReader(path).of(verdict(sample(3)))
    assert texts is not None
    assert texts.answers == ["é\n"]
    rendered = sample(3).rendered
    assert rendered is not None
    assert [turn.content for turn in texts.prompts[0]] == [turn.content for turn in rendered.prompts[0].messages]
    assert answers(path, verdict(sample(4))) is None


def test_texts_of_another_run_row_or_failure_are_not_a_verdicts_own(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    writer = TextWriter(path)
    writer.add(sample(1), ["one"], OURS)
    writer.add(sample(1, 2), ["two"], OURS)
    assert answers(path, verdict(sample(1))) == ["one"]
    assert answers(path, verdict(sample(1, 2))) == ["two"]
    assert answers(path, verdict(sample(1), OTHER)) is None
    assert answers(path, verdict(sample(1), reason="engine error: gone")) is None


def test_an_overwritten_run_begins_anew_and_a_resumed_one_adds(tmp_path: Path) -> None:
    path = texts_beside(tmp_path / "v.jsonl")
    TextWriter(path).add(sample(1), ["a"], OURS)
    TextWriter(path).add(sample(1), ["b"], OURS)
    assert answers(path, verdict(sample(1))) == ["b"]  # the last one counts
    TextWriter(path, overwrite=True).add(sample(2), ["c"], OURS)
    assert len(TextReader(path)) == 1
    discard_texts(tmp_path / "v.jsonl")
    assert not path.exists()
    assert len(TextReader(path)) == 0


SAMPLE = '{"id": "1", "context": "Tea?"}'


@pytest.mark.parametrize("content", ["my notes", "my notes\nunfinished", f"{SAMPLE}\n", SAMPLE])
def test_a_file_of_somebody_else_is_left_alone(content: str, tmp_path: Path) -> None:
    path = texts_beside(tmp_path / "v.jsonl")
    path.write_text(content)
    with pytest.raises(MagistrateError, match="holds something else"):
        TextWriter(path, overwrite=True)
    discard_texts(tmp_path / "v.jsonl")
    assert path.read_text() == content


@pytest.mark.parametrize(
    "fields",
    [{"prompts": 5}, {"prompts": [["x"]]}, {"prompts": [[{"role": 1, "content": 2}]]}, {"answers": [3]}, {"answers": "text"}],
    ids=str,
)
def test_a_line_that_is_no_line_of_texts_is_passed_over(fields: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    TextWriter(path).add(sample(1), ["a"], OURS)
    strange = json.loads(path.read_text()) | {"sample": sample(2).key} | fields
    with path.open("a") as file:
        file.write(json.dumps(strange) + "\n" + "[" * 60_000 + "\n" + '{"sample": "x"}\n')
    assert answers(path, verdict(sample(1))) == ["a"]
    assert answers(path, verdict(sample(2))) is None

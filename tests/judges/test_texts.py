"""The file of prompts and answers beside verdicts."""

from __future__ import annotations

from pathlib import Path

from judges.data.rows import row_of
from judges.llm_eval import LLMEval
from judges.runner import PreparedSample, prepare
from judges.texts import TextReader, TextWriter, texts_beside


def sample(number: int) -> PreparedSample:
    return prepare(row_of({"id": str(number), "context": "Tea?", "response": f"Yes, {number} \ud83d cups."}, number), LLMEval())


def test_texts_are_found_by_their_sample_and_survive_a_torn_line(tmp_path: Path) -> None:
    path = texts_beside(tmp_path / "v.jsonl")
    assert path.name == "v.jsonl.texts.jsonl"
    first = TextWriter(path)
    first.add(sample(1), ['{"content": 1}'])
    first.add(sample(2), ["cut off"])
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])  # a process killed as it wrote
    TextWriter(path).add(sample(3), ["é\n"])
    kept = TextReader(path)
    assert len(kept) == 3
    texts = kept.of(sample(3).key)
    assert texts is not None
    assert texts.answers == ["é\n"]
    rendered = sample(3).rendered
    assert rendered is not None
    assert [turn.content for turn in texts.prompts[0]] == [turn.content for turn in rendered.prompts[0].messages]
    assert kept.of("0" * 32) is None


def test_an_overwritten_run_begins_anew_and_a_resumed_one_adds(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    TextWriter(path).add(sample(1), ["a"])
    TextWriter(path).add(sample(1), ["b"])
    texts = TextReader(path).of(sample(1).key)
    assert texts is not None
    assert texts.answers == ["b"]  # the last one counts
    TextWriter(path, overwrite=True).add(sample(2), ["c"])
    assert len(TextReader(path)) == 1
    assert len(TextReader(tmp_path / "none")) == 0

"""A model's answers to an arena's questions, from a real engine to the loader."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from evals.arena.answering import answer_questions
from evals.data.answers import read_answers
from evals.data.questions import Question, QuestionSet
from evals.generation import Sampling
from judges.engines.engine import Engine
from judges.errors import MagistrateError

TURNS = [("Say how you are.",), ("Name a fruit.", "Name another one."), ("Say hello.",)]
QUESTIONS = [Question(str(number), turns, None, None, None, "EN") for number, turns in enumerate(TURNS)]
SAMPLING = Sampling(temperatures=(0,), shots=0, max_tokens=8)


def made(loop: asyncio.Runner, engine: Engine, path: Path, questions: list[Question], sampling: Sampling = SAMPLING) -> int:
    return loop.run(answer_questions(questions, "tiny", engine, path, sampling))


def test_answers_are_kept_and_read_as_a_contestants(loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "answers" / "tiny.jsonl"
    assert made(loop, vllm_engine, path, QUESTIONS[:2]) == 2
    assert made(loop, vllm_engine, path, QUESTIONS) == 1
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["id"] for row in rows] == ["0", "1", "2"]
    assert isinstance(rows[1]["answer"], list)
    assert len(rows[1]["answer"]) == 2
    assert all(row["complete"] in (True, False) for row in rows)
    (found,) = read_answers(path, QuestionSet(QUESTIONS, [], (), tmp_path / "q.jsonl"))
    assert found.model == "tiny"
    assert set(found.texts) == {row["id"] for row in rows if row["answer"]}
    assert found.texts["1"] == tuple(rows[1]["answer"])


def test_answers_made_in_another_way_are_refused(loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "tiny.jsonl"
    made(loop, vllm_engine, path, QUESTIONS[:1])
    with pytest.raises(MagistrateError, match="answers of another model, task or sampling"):
        made(loop, vllm_engine, path, QUESTIONS[:1], Sampling(temperatures=(0,), shots=0, max_tokens=9))


def test_a_prompt_that_does_not_fit_is_no_answer_and_has_its_reason(
    loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path
) -> None:
    path = tmp_path / "tiny.jsonl"
    long = Question("long", ("word " * 40_000,), None, None, None, "EN")
    assert made(loop, vllm_engine, path, [QUESTIONS[0], long]) == 2
    row = json.loads(path.read_text().splitlines()[1])
    assert row["answer"] is None
    assert "context" in row["reason"]
    (found,) = read_answers(path, QuestionSet([QUESTIONS[0], long], [], (), tmp_path / "q.jsonl"))
    assert "long" not in found.texts
    assert any("long" in fault.ids for fault in found.faults)

"""Answers to a task: sampled again alike, resumed, in the data's order."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals.generation import Sampling, generate, prompt
from evals.tasks import Instance, Task
from judges.engines.engine import Engine
from judges.errors import MagistrateError

INSTANCES = [Instance(str(number), {}, f"A: Hello, I am number {number}.", f"Number {number} says hello.") for number in range(6)]
SAMPLING = Sampling(max_tokens=12)
TASK = Task.load("dialogsum")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def make(loop: asyncio.Runner, engine: Engine, path: Path, sampling: Sampling = SAMPLING, count: int = 6) -> int:
    return loop.run(generate(TASK, INSTANCES[:count], INSTANCES, engine, path, sampling))


def test_answers_are_the_same_again_and_a_stopped_run_goes_on(loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole.jsonl", tmp_path / "stopped.jsonl"
    assert make(loop, vllm_engine, whole) == 6
    found = lines(whole)
    assert [one["id"] for one in found] == [one.id for one in INSTANCES]
    assert all(len(one["shots"]) == 2 and one["id"] not in one["shots"] for one in found)
    assert len({tuple(one["shots"]) for one in found}) > 1
    assert all(isinstance(one["prediction"], str) for one in found)

    text = whole.read_text()
    stopped.write_text("\n".join(text.splitlines()[3:5]) + '\n{"id": "1", "predi')
    assert make(loop, vllm_engine, stopped) == 4
    assert stopped.read_text() == text
    assert make(loop, vllm_engine, stopped) == 0


def test_a_seed_changes_what_is_sampled_and_no_temperature_does_not(
    loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path
) -> None:
    texts = []
    for number, sampling in enumerate(
        [
            SAMPLING,
            Sampling(max_tokens=12, seed=1),
            *[Sampling(max_tokens=12, shots=0, temperature=0, seed=seed) for seed in (0, 1)],
        ]
    ):
        make(loop, vllm_engine, tmp_path / f"{number}.jsonl", sampling)
        texts.append([one["prediction"] for one in lines(tmp_path / f"{number}.jsonl")])
    assert texts[0] != texts[1]
    assert texts[2] == texts[3]


def test_another_way_of_answering_needs_another_file(loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    make(loop, vllm_engine, path, count=1)
    with pytest.raises(MagistrateError, match="another model, task or sampling"):
        make(loop, vllm_engine, path, Sampling(max_tokens=13))
    changed = [replace(INSTANCES[0], input="B: Somebody else.")]
    with pytest.raises(MagistrateError, match="line 1 answers another `0` than the data has"):
        loop.run(generate(TASK, changed, INSTANCES, vllm_engine, path, SAMPLING))
    path.write_text('{"id": "1", "prediction": "mine"}\n')
    with pytest.raises(MagistrateError, match="line 1 was not written here"):
        make(loop, vllm_engine, path)


def test_examples_stand_before_the_question() -> None:
    asked = prompt(TASK, INSTANCES[0], INSTANCES[1:3])
    assert asked.startswith(TASK.instruction)
    assert asked.count("Input:\n") == 3
    assert asked.endswith(f"{INSTANCES[0].input}\n\nOutput:")
    assert INSTANCES[0].truth not in asked


def test_too_few_rows_for_the_examples_is_one_sentence(loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(MagistrateError, match="2 examples cannot be drawn from 2 rows"):
        loop.run(generate(TASK, INSTANCES, INSTANCES[:2], vllm_engine, tmp_path / "a.jsonl", SAMPLING))


def test_an_instance_that_does_not_fit_is_kept_with_its_reason(loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    long = replace(INSTANCES[0], id="long", input="word " * 40_000)
    alone = Sampling(max_tokens=12, shots=0)
    assert loop.run(generate(TASK, [INSTANCES[1], long], INSTANCES, vllm_engine, path, alone)) == 2
    fine, unanswered = lines(path)
    assert isinstance(fine["prediction"], str)
    assert unanswered["prediction"] is None
    assert "context overflow" in unanswered["reason"]

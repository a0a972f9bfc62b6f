"""Answers to a task: sampled again alike, resumed, in the data's order."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from evals.data.tasks import Instance, Task, read_dataset
from evals.generation import Sampling, generate, prompt
from judges.data.rows import read_rows
from judges.engines.engine import Engine
from judges.errors import MagistrateError
from judges.grouse import Grouse
from judges.prompt_files import prompt_file
from judges.runner import prepare

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
            *[Sampling(max_tokens=12, shots=0, temperatures=(0,), seed=seed) for seed in (0, 1)],
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


GROUNDED = Task.load("grounded-qa")
REQUESTS = [
    {"input": f"Who are you, {number}?", "references": ["I am Ann.", f"I am {number}."], "expected_output": f"I am {number} [2]."}
    for number in range(8)
]


def grounded(path: Path) -> list[Instance]:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in REQUESTS))
    return read_dataset(GROUNDED, path).instances


def test_a_grounded_question_is_asked_with_numbered_references_in_the_cards_words() -> None:
    asked = prompt(GROUNDED, Instance("1", REQUESTS[0], GROUNDED.input_of(REQUESTS[0]), ""), [])
    assert "\n[1] I am Ann.\n[2] I am 0.\n" in asked
    assert GROUNDED.instruction in prompt_file("grouse")["opening"]
    assert GROUNDED.input_of({"input": "Q", "references": "a single text"}).startswith("[1] a single text\n")
    with pytest.raises(KeyError, match="references"):
        GROUNDED.input_of({"input": "Q"})


def test_grounded_answers_are_samples_for_the_grouse_judge(loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path) -> None:
    instances = grounded(tmp_path / "requests.jsonl")
    whole, stopped = tmp_path / "whole.jsonl", tmp_path / "stopped.jsonl"
    varied = Sampling(temperatures=(0.3, 1.5), top_k=(1, 0, 40), shots=0, max_tokens=12)
    assert loop.run(generate(GROUNDED, instances, instances, vllm_engine, whole, varied)) == 8
    rows = list(read_rows(whole))
    judge = Grouse()
    for request, row, line in zip(REQUESTS, rows, lines(whole), strict=True):
        record, said = line["generation"], line["actual_output"]
        assert line == {**request, "id": record["id"], "actual_output": said, "generation": record}
        rendered = prepare(row, judge).rendered
        assert rendered is not None
        assert said in rendered.prompts[0].messages[0].content
    drawn = {(line["generation"]["temperature"], line["generation"]["top_k"]) for line in lines(whole)}
    assert len(drawn) > 3
    assert drawn <= set(product((0.3, 1.5), (1, 0, 40)))

    text = whole.read_text()
    stopped.write_text("\n".join(text.splitlines()[2:4]) + '\n{"input": "Who')
    assert loop.run(generate(GROUNDED, instances, instances, vllm_engine, stopped, varied)) == 6
    assert stopped.read_text() == text


def test_a_grounded_question_without_an_answer_is_unscored_with_a_reason(
    loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path
) -> None:
    long = Instance("long", {**REQUESTS[0], "id": "long"}, "word " * 40_000, "")
    path = tmp_path / "long.jsonl"
    loop.run(generate(GROUNDED, [long], [long], vllm_engine, path, Sampling(shots=0, max_tokens=12)))
    (line,) = lines(path)
    assert line["actual_output"] is None
    assert "context overflow" in line["generation"]["reason"]
    (row,) = read_rows(path)
    assert prepare(row, Grouse()).problem == "long.jsonl row 1: field `actual_output` must be a string, not null"


def test_rows_are_skipped_and_keep_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    grounded(path)
    some = read_dataset(GROUNDED, path, 3, skip=2).instances
    assert [(one.id, one.fields["input"]) for one in some] == [(str(n + 1), f"Who are you, {n}?") for n in (2, 3, 4)]
    with pytest.raises(MagistrateError, match=r"requests.jsonl holds no row after the first 8 \(`--skip`\)"):
        read_dataset(GROUNDED, path, skip=8)


def test_sampling_out_of_range_is_one_sentence() -> None:
    for wrong, why in (
        ({"temperatures": (0.5, 3.0)}, "a temperature is from 0 to 2, not 3"),
        ({"temperatures": (float("nan"),)}, "not nan"),
        ({"top_k": (5, -1)}, "a `top_k` is from 0 to 1,000,000, not -1"),
    ):
        with pytest.raises(MagistrateError, match=why):
            Sampling(**wrong)

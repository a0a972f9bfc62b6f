"""Pairs of answers to train on: that the better one is better, whatever its length and place."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from judges.orders import SWAPPED
from scripts.judge_data.examples import Example, rows
from scripts.judge_data.pairs import Answer, _reason, pairs
from scripts.judge_data.tasks import Tasks


@pytest.fixture(scope="module")
def examples(data: Path) -> list[Example]:
    return [example for group in islice(pairs(data, "train", random.Random(1)), 500) for example in group]


def choice(example: Example) -> str:
    return str((example.answers[0] or {})["choice"].value)


def test_the_judge_reads_every_answer_and_the_orders_agree(examples: list[Example]) -> None:
    both = [example for example in examples if all(example.answers)]
    assert len(both) > 100
    for example in examples:
        written = [row["messages"][-1]["content"] for row in rows(example, "x", random.Random(1))]
        if len(written) == 2:
            assert example.judge.read(*written).scores == {"preference": choice(example), "orders_agree": 1}


def test_neither_place_nor_length_tells_the_better_answer(examples: list[Example]) -> None:
    found = Counter(map(choice, examples))
    assert 0.45 < found["A"] / (found["A"] + found["B"]) < 0.55
    assert 0.08 < found["both"] / found.total() < 0.17
    assert 0.04 < found["neither"] / found.total() < 0.12
    decided = [(choice(each), len(each.sample["answer_a"]) > len(each.sample["answer_b"])) for each in examples]
    longer = [longer == (better == "A") for better, longer in decided if better in SWAPPED]
    assert 0.42 < sum(longer) / len(longer) < 0.58


def test_examples_of_a_group_ask_the_same_of_one_judge(data: Path) -> None:
    for group in islice(pairs(data, "held-out", random.Random(2)), 50):
        assert len({example.sample["question"] for example in group}) == 1
        assert len({example.judge for example in group}) == 1


def test_wrong_answers_are_none_of_the_right_ones(data: Path) -> None:
    tasks = Tasks(data, "train", random.Random(3))
    for task in (tasks.draw() for _ in range(2000)):
        wrong = {text.strip() for text, _ in task.wrong}
        assert wrong, task
        assert not wrong & {text.strip() for text in task.good}, task


def test_answers_of_words_and_figures_are_right(data: Path) -> None:
    tasks = Tasks(data, "train", random.Random(4))
    for task in (tasks.words() for _ in range(1000)):
        given = re.split(r", ", task.question.rpartition("\n")[2].removeprefix("Input: "))
        match task.family:
            case "sum":
                assert task.good[0] == str(sum(map(int, given)))
            case "count":
                assert task.good[0] == str(len(given))
            case "numbers":
                assert list(map(int, re.findall(r"(?<!\d)\d+(?![\d.])", task.good[1]))) == sorted(map(int, given))
            case "sort":
                assert task.good[1].removeprefix("- ").split("\n- ") == sorted(given, key=str.lower)
            case "upper":
                assert task.good[0] == task.question.rpartition("\n")[2].removeprefix("Input: ").upper()


def test_splits_share_no_category(data: Path) -> None:
    train, held_out = (Tasks(data, split, random.Random(5)) for split in ("train", "held-out"))
    assert not train.categories.keys() & held_out.categories.keys()
    assert not {program.task for program in train.programs} & {program.task for program in held_out.programs}
    assert not {question.stem for question in train.told} & {question.stem for question in held_out.told}


@pytest.mark.parametrize(
    ("choice", "a", "b", "reasons"),
    [
        ("A", "", "breaks off", {"B breaks off.", "B breaks off, A does what was asked."}),
        ("B", "refuses", "rambles on", {"A refuses, B rambles on, which is less bad."}),
        ("neither", "refuses", "is nonsense", {"A refuses, and B is nonsense."}),
    ],
)
def test_reasons_name_the_defect(choice: str, a: str, b: str, reasons: set[str]) -> None:
    rng = random.Random(6)
    assert {_reason(choice, Answer("x", a), Answer("y", b), rng) for _ in range(20)} == reasons


def test_reasons_stand_before_the_choice(examples: list[Example]) -> None:
    reasoned = [example for example in examples if "reasoning" in (example.answers[0] or {})]
    assert 0.13 < len(reasoned) / len(examples) < 0.27
    for row in rows(reasoned[0], "x", random.Random(1)):
        assert list(json.loads(row["messages"][-1]["content"])) == ["reasoning", "choice"]

"""Sources of a few rows each, in the forms of DialogSum, MMLU and MBPP."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

THEMES = (
    ("a new car", "car", "buys a red car on Friday because it is cheap", "the garage"),
    ("a dinner table", "table", "books a table for six people at 8 o'clock", "the restaurant"),
    ("a broken computer", "computer", "sells the old computer for 200 dollars", "the shop"),
    ("a train journey", "ticket", "wants a ticket to Boston before noon", "the station"),
    ("a bad cold", "cold", "takes medicine for the cold every morning", "the doctor"),
    ("a tennis match", "match", "plays a match of tennis with two friends", "the park"),
)
PROGRAMS = (
    ("Write a function to sort a list of numbers.", "def order(numbers):\n    result = sorted(numbers)\n    return result"),
    ("Write a function to find the factorial of n.", "def fact(n):\n    if n < 2:\n        return 1\n    return n * fact(n - 1)"),
    ("Write a function to join a list of strings.", "def join(parts):\n    return ','.join(parts)"),
    ("Write a function to count the words of a text.", "def count(text):\n    words = text.split()\n    return len(words)"),
    ("Write a function to find the largest element.", "def largest(items):\n    return max(items)"),
)
SUBJECTS = ("anatomy", "astronomy", "jurisprudence", "marketing", "college_biology", "high_school_biology")


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name in ("dialogsum", "mbpp", "mmlu/test", "mmlu/dev", "mmlu/val"):
        (folder / name).mkdir(parents=True)
    for split in ("train", "dev"):
        rows = [_dialogue(*theme) for theme in THEMES]
        (folder / "dialogsum" / f"dialogsum.{split}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    programs = [{"task_id": at, "prompt": task, "code": code} for at, (task, code) in enumerate(PROGRAMS * 8)]
    (folder / "mbpp" / "sanitized-mbpp.json").write_text(json.dumps(programs), encoding="utf-8")
    for part in ("test", "val"):
        for subject in SUBJECTS:
            with (folder / "mmlu" / part / f"{subject}_{part}.csv").open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerow([f"Which term belongs to {subject}?", "alpha", "beta", "gamma", "delta", "B"])
    return folder


def _dialogue(topic: str, thing: str, doing: str, place: str) -> dict[str, str]:
    turns = [
        f"#Person1#: I have been thinking about the {thing} for a long time.",
        f"#Person2#: Tell me more about the {thing}, I would like to hear it.",
        f"#Person1#: You know that one {doing} these days.",
        f"#Person2#: Then let us meet at {place} and talk about it with everybody.",
    ]
    summary = f"#Person1# tells #Person2# that #Person1# {doing}. #Person2# suggests meeting at {place}. They agree."
    return {"dialogue": "\n".join(turns), "summary": summary, "topic": topic}

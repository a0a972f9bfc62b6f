"""Accuracy of multiple choice, and exact matches."""

from __future__ import annotations

import asyncio
import csv
import time
from pathlib import Path
from typing import Any

import pytest

from evals.metrics.catalog import open_metric
from evals.metrics.exact import NO_CHOICE, Accuracy
from evals.metrics.metric import Measured, Pair


def measure(name: str, texts: list[tuple[str, str]], **options: Any) -> list[Measured]:
    return asyncio.run(open_metric(name, options).measure([Pair("", {}, truth, answer) for truth, answer in texts]))


@pytest.mark.parametrize(
    ("answer", "choice"),
    [
        ("B", "B"),
        (" b\n", "B"),
        ("(B)", "B"),
        ("[[B]]", "B"),
        ("B.", "B"),
        ("**B**", "B"),
        ("`B`", "B"),
        ("Ｂ", "B"),
        ("（B）", "B"),
        ("Option B", "B"),
        ('{"answer": "B"}', "B"),
        ("B\n\nQuestion: What is next?\nAnswer: C", "B"),
        ("The answer is B", "B"),
        ("The answer is (b) insulin.", "B"),
        ("the answer is b.", "B"),
        ("The answer is A because it is.", "A"),
        ("The correct answer is option C.", "C"),
        ("The best answer is most likely **D**", "D"),
        ("Answer:\nB", "B"),
        ("Answer: B) Insulin", "B"),
        ("The correct letter is: C", "C"),
        ("<answer>b</answer>", "B"),
        ("My answer would be C, since it is", "C"),
        ("The answer is B and the reason is this", "B"),
        ("C is correct.", "C"),
        ("(C) is the best answer", "C"),
        ("A is wrong, so the answer is not A. The answer is B.", "B"),
        ("The answer is A. No, wait: the answer is B.", "B"),
        (r"So it is $\boxed{C}$. I hope that it is correct.", "C"),
        (r"\boxed{\text{(C)}}", "C"),
        ("b) because it is so", "B"),
        ("B. Insulin", "B"),
        ("(B) Insulin", "B"),
        ("B: Insulin", "B"),
        ("B - Insulin", "B"),
        ("C because it is", "C"),
        ("A, since it is", "A"),
        ("B. Insulin\n\nA. is wrong, for\nC. is wrong too", "B"),
        ("A. Liver\nB. Heart\nC. Lung\nD. Skin\nAnswer: C", "C"),
        ("Let me think about A and about B.\n\nC", "C"),
        ("I would choose C.", "C"),
        ("Both A and C might do, and I pick C", "C"),
        ("I'd go with (D)", "D"),
    ],
)
def test_a_choice_is_read_where_a_person_sees_one(answer: str, choice: str) -> None:
    assert Accuracy().choice(answer) == choice


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " \n ",
        "I do not know.",
        "E",
        "A patient with pain",
        "The answer is a drug",
        "The answer is A patient",
        "The answer is B-cell lymphoma",
        "The answer is Direct",
        "The answer is A-level",
        "vitamin B12",
        "2.5 mg",
        "A and B",
        "neither A nor B is correct",
        "A. Liver\nB. Heart\nC. Lung\nD. Skin",
        "Option B is wrong.",
        "option A or option B",
        "The answer is A or B.",
        "The answer is (A) and (B)",
    ],
)
def test_an_answer_that_names_no_choice_is_wrong_and_says_so(answer: str) -> None:
    assert measure("accuracy", [("A", answer)]) == [Measured(0.0, note=NO_CHOICE)]


def test_right_is_one_and_wrong_is_nought() -> None:
    found = measure("accuracy", [("A", "A"), ("A", "The answer is B"), (" (a) ", "a"), ("D.", "C")])
    assert found == [Measured(1.0), Measured(0.0), Measured(1.0), Measured(0.0)]


@pytest.mark.parametrize("truth", ["", "E", "AB", "Insulin", "A. Insulin"])
def test_a_right_answer_that_is_no_choice_cannot_be_measured(truth: str) -> None:
    assert measure("accuracy", [(truth, "A")]) == [
        Measured(None, f"the right answer must be one of A, B, C, D, and it is {truth!r}")
    ]


def test_choices_may_be_others() -> None:
    texts = [("e", "The answer is E."), ("J", "J"), ("I", "The answer is I think unclear")]
    assert measure("accuracy", texts, choices="abcdefghij") == [Measured(1.0), Measured(1.0), Measured(0.0, note=NO_CHOICE)]
    texts = [("2", "The answer is 2."), ("2", "2) because"), ("2", "2.5 mg"), ("2", "12"), ("1", "The answer is 10")]
    found = measure("accuracy", texts, choices="1234")
    assert [one.value for one in found] == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert [one.note for one in found] == [None, None] + [NO_CHOICE] * 3


def test_texts_of_mmlu_are_hardly_ever_taken_for_choices(data: Path) -> None:
    """56,316 texts that stand behind a choice: alone they name none, and behind theirs, they do not hide it."""
    accuracy = Accuracy()
    mistaken = []
    texts = 0
    for file in sorted((data / "mmlu" / "test").glob("*.csv")):
        with file.open(encoding="utf-8", newline="") as rows:
            for row in csv.reader(rows):
                for choice, text in zip("ABCD", row[1:5], strict=True):
                    texts += 1
                    if accuracy.choice(text) is not None and len(text) > 1:
                        mistaken.append(text)
                    assert accuracy.choice(f"{choice}. {text}") == choice
                    assert accuracy.choice(f"The answer is ({choice}) {text}") == choice
    assert texts == 56_316
    assert len(mistaken) < 20, mistaken


@pytest.mark.parametrize("text", ["-", " ", "(", "answer is ", "A. ", "\n", "option a ", "\\boxed{"])
def test_no_answer_takes_long_to_read(text: str) -> None:
    began = time.process_time()
    Accuracy().choice(text * 30_000)
    Accuracy().choice("The answer is" + text * 30_000)
    assert time.process_time() - began < 5


def test_exact_means_letter_for_letter() -> None:
    texts = [("Café", " Cafe\u0301\n"), ("a  b", "a b"), ("A", "a"), ("", " "), ("Straße", "STRASSE")]
    assert [one.value for one in measure("exact", texts)] == [1.0, 0.0, 0.0, 1.0, 0.0]
    assert [one.value for one in measure("exact", texts, ignore_case=True)] == [1.0, 0.0, 1.0, 1.0, 1.0]

"""ROUGE."""

from __future__ import annotations

import asyncio
import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from evals.metrics.catalog import open_metric
from evals.metrics.metric import Measured, Pair

NAMES = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}


@cache
def scorer(stemmer: bool) -> Any:
    return RougeScorer(list(NAMES.values()), use_stemmer=stemmer)


def measure(name: str, texts: list[tuple[str, str]], **options: Any) -> list[Measured]:
    return asyncio.run(open_metric(name, options).measure([Pair("", {}, truth, answer) for truth, answer in texts]))


@pytest.mark.parametrize("stemmer", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_rouge_score_on_dialogsum(name: str, stemmer: bool, data: Path) -> None:
    """Each summary against the next one's, against its own topic, and against the dialogue it sums up."""
    lines = (data / "dialogsum" / "dialogsum.dev.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    texts = [(row["summary"], other["summary"]) for row, other in zip(rows, [*rows[1:], rows[0]], strict=True)]
    texts += [(row["summary"], row["topic"]) for row in rows]
    texts += [(row["summary"], row["dialogue"]) for row in rows[:50]]
    expected = [float(scorer(stemmer).score(truth, answer)[NAMES[name]].fmeasure) for truth, answer in texts]
    assert [one.value for one in measure(name, texts, stemmer=stemmer)] == expected
    assert max(expected) > 0.3


WORDS = st.lists(st.sampled_from(["run", "running", "Runs", "a", "b.", "über", "7", "-", "\ud800", "ran\n"]), max_size=14).map(
    " ".join
)


@settings(max_examples=150)
@given(WORDS, WORDS)
def test_values_are_those_of_rouge_score(truth: str, answer: str) -> None:
    expected = scorer(True).score(truth, answer)
    for name, theirs in NAMES.items():
        (found,) = measure(name, [(truth, answer)])
        if found.reason is None:
            assert found.value == expected[theirs].fmeasure
        else:
            assert expected[theirs].fmeasure == 0.0
            assert measure(name, [(truth, truth)]) == [found], "not even the right answer itself can be measured"


def test_a_stemmer_finds_more_in_common() -> None:
    texts = [("he was running homewards", "he runs homeward")]
    (stemmed,), (plain,) = measure("rouge-l", texts), measure("rouge-l", texts, stemmer=False)
    assert stemmed.value == pytest.approx(2 * (3 / 3) * (3 / 4) / (3 / 3 + 3 / 4))
    assert plain.value == pytest.approx(2 * (1 / 3) * (1 / 4) / (1 / 3 + 1 / 4))


def test_a_right_answer_without_words_cannot_be_measured() -> None:
    assert measure("rouge-l", [("。", "a"), ("", ""), ("a", ""), ("a", "日本")]) == [
        Measured(None, "the right answer has no word of the letters a to z and digits"),
        Measured(None, "the right answer has no word of the letters a to z and digits"),
        Measured(0.0),
        Measured(0.0),
    ]
    assert measure("rouge-2", [("yes", "yes")]) == [
        Measured(None, "the right answer has one word of the letters a to z and digits")
    ]
    assert measure("rouge-1", [("yes", "yes")]) == [Measured(1.0)]


def test_endless_answers_take_neither_minutes_nor_memory() -> None:
    """A table of the two would have 400 million entries."""
    began = time.process_time()
    (found,) = measure("rouge-l", [("a b c d " * 5_000, "d c b a " * 5_000)])
    assert found.value == pytest.approx(0.5, abs=0.01)
    assert time.process_time() - began < 10

"""Metrics by name, and what every metric promises."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from typing import Any

import pytest

from evals.metrics.catalog import METRICS, open_metric
from evals.metrics.metric import Measured, Metric, Pair, measured, one_answer
from judges.errors import MagistrateError

WITHOUT_A_MODEL = ["rouge-1", "rouge-2", "rouge-l", "accuracy", "exact"]


def pair(truth: Any, prediction: Any, **fields: Any) -> Pair:
    return Pair("1", fields, truth, prediction)


def values(metric: Metric, pairs: list[Pair]) -> list[Measured]:
    return asyncio.run(metric.measure(pairs))


@pytest.mark.parametrize("name", WITHOUT_A_MODEL)
def test_a_row_that_cannot_be_measured_says_why_and_stops_no_other(name: str) -> None:
    good = pair("B", "B") if name in ("accuracy", "exact") else pair("two words", "two words")
    metric = open_metric(name)
    found = values(metric, [good, pair("B", ["B", "C"]), pair(None, "B"), pair("B", 3), good])
    assert [one.value for one in (found[0], found[4])] == [1.0, 1.0]
    assert [one.value for one in found[1:4]] == [None] * 3
    assert found[1].reason in (
        "there are 2 answers, and this metric measures one",
        "the right answer has one word of the letters a to z and digits",
    )
    assert all((one.reason or "").startswith(("cannot be measured: ", "the right answer", "there are")) for one in found[1:4])


@pytest.mark.parametrize("name", WITHOUT_A_MODEL)
def test_a_list_of_one_answer_is_that_answer(name: str) -> None:
    truth = "B" if name in ("accuracy", "exact") else "two words"
    assert values(open_metric(name), [pair(truth, [truth])]) == [Measured(1.0)]


@pytest.mark.parametrize("name", [*WITHOUT_A_MODEL, "pass@1", "pass@10"])
def test_a_metric_says_what_it_is_and_what_its_values_depend_on(name: str) -> None:
    metric = open_metric(name)
    assert metric.name == name
    assert metric.title
    assert metric.scale == (0.0, 1.0)
    assert json.loads(json.dumps(dict(metric.identity()))) == metric.identity()
    assert metric.identity()["metric"] == metric.name


def test_no_pairs_are_no_values() -> None:
    assert all(values(open_metric(name), []) == [] for name in WITHOUT_A_MODEL)


def test_options_are_part_of_the_identity() -> None:
    made = [
        open_metric("rouge-l"),
        open_metric("rouge-l", {"stemmer": False}),
        open_metric("exact"),
        open_metric("exact", {"ignore_case": True}),
        open_metric("accuracy"),
        open_metric("accuracy", {"choices": "ABCDE"}),
        open_metric("pass@1", {"seconds": 3}),
        open_metric("pass@k", {"k": 1, "seconds": 4}),
    ]
    assert len({json.dumps(dict(metric.identity()), sort_keys=True) for metric in made}) == len(made)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "bleu",
            {},
            "there is no metric `bleu`; there are rouge-1, rouge-2, rouge-l, accuracy, exact, pass@1 or the like, judge",
        ),
        ("pass@0", {}, "there is no metric `pass@0`"),
        ("rouge-l", {"stem": True}, "metric `rouge-l` has no option `stem`; it has: stemmer"),
        ("rouge-2", {"stemmer": "no"}, "option `stemmer` of metric `rouge-2` must be true or false, not 'no'"),
        ("exact", {"ignore_case": 1}, "option `ignore_case` of metric `exact` must be true or false, not 1"),
        ("accuracy", {"choices": "A"}, "must be letters or digits, like ABCD, not 'A'"),
        ("accuracy", {"choices": "AB-"}, "must be letters or digits"),
        ("accuracy", {"choices": "ABa"}, "has a letter or digit twice: ABa"),
        ("accuracy", {"choices": 5}, "must be letters or digits"),
        ("pass@3", {"k": 3}, "the metric `pass@3` says its k already; leave out the option `k`"),
        ("pass@k", {"k": 0}, "option `k` of metric `pass@k` must be a whole number from 1, not 0"),
        ("pass@k", {"k": True}, "option `k` of metric `pass@k` must be a whole number"),
        ("pass@k", {}, "the metric `pass@k` needs its k: call it `pass@1`, `pass@5` or the like, or give the option `k`"),
        ("pass@k", {"k": 1, "seconds": 0}, "option `seconds` of metric `pass@k` must be a number above 0, not 0"),
        ("pass@k", {"k": 1, "seconds": math.nan}, "must be a number above 0"),
        ("judge", {"judge": "llm-eval"}, "metric `judge` asks a model, and none is given"),
    ],
)
def test_what_there_is_not_is_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MagistrateError) as error:
        open_metric(name, options)
    assert message in str(error.value)


def test_every_metric_has_a_line() -> None:
    assert list(METRICS) == ["rouge-1", "rouge-2", "rouge-l", "accuracy", "exact", "pass@k", "judge"]
    assert all(10 < len(says) < 80 and "\n" not in says for says in METRICS.values())


def test_a_value_and_a_reason_exclude_each_other() -> None:
    for arguments in ((None, None), (0.5, "why"), (math.nan, None), (math.inf, None)):
        with pytest.raises(ValueError, match=r"measured, or says why not|no value of a metric"):
            Measured(*arguments)


def test_whatever_a_measure_raises_becomes_a_reason() -> None:
    def fail(error: Exception) -> Measured:
        raise error

    assert measured(pair("", ""), lambda _: fail(MagistrateError("no tests"))) == Measured(None, "no tests")
    assert measured(pair("", ""), lambda _: fail(KeyError("x"))) == Measured(None, "cannot be measured: KeyError: 'x'")
    assert measured(pair("", ""), lambda _: Measured(0.5)) == Measured(0.5)


def test_several_answers_are_not_one() -> None:
    assert one_answer(pair("", "a")) == one_answer(pair("", ["a"])) == "a"
    with pytest.raises(MagistrateError, match="there are 0 answers"):
        one_answer(pair("", []))


def test_a_list_of_metrics_loads_none_of_their_libraries() -> None:
    program = "import sys, evals.metrics.catalog; print({'nltk', 'rouge_score', 'evals.sandbox'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "set()\n"

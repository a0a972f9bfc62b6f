"""The rules give what their authors' code gives, and the facts of the benchmarks go together.

``authors.json`` holds the authors' figures at the commits that it names; ``scripts/compare_benchmark_rules.py`` makes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.data.choice_labels import FIRST, SECOND, TIE
from evals.meta.benchmarks.decisions import Decision
from evals.meta.benchmarks.declared import NAMES, Name, benchmark
from evals.meta.benchmarks.files import Item
from evals.meta.benchmarks.rules import Scored, sums_of
from scripts.compare_benchmark_rules import COMMITS, ROUNDED, SOURCES, figures_of, unpacked

GOLDEN: dict[str, Any] = json.loads((Path(__file__).with_name("authors.json")).read_text())
CASES = [(name, case) for name, one in GOLDEN.items() for case in one["cases"]]


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{name}-{case['what']}" for name, case in CASES])
def test_a_rule_gives_the_figures_of_its_authors_code(name: Name, case: dict[str, Any]) -> None:
    found = figures_of(name, unpacked(case["rows"]))
    assert found.keys() >= case["figures"].keys()
    for part, figures in case["figures"].items():
        assert found[part][: len(figures)] == pytest.approx(figures, abs=ROUNDED)


def test_every_benchmark_is_held_against_its_authors() -> None:
    assert GOLDEN.keys() == set(NAMES)
    for name, one in GOLDEN.items():
        repository = SOURCES[name][0]
        assert one["code"] == f"{repository} at {COMMITS[repository]}"
        assert benchmark(name).code.endswith(COMMITS[repository][:7])


@pytest.mark.parametrize(
    ("name", "version", "rows"),
    [
        ("rewardbench", "", 2985),
        ("rewardbench2", "", 1865),
        ("judgebench", "gpt-4o-2024-05-13", 350),
        ("judgebench", "claude-3-5-sonnet-20240620", 270),
        ("llmbar", "", 419),
        ("pandalm", "", 999),
        ("autoj", "", 1392),
    ],
)
def test_the_parts_are_the_whole_published_set(name: Name, version: str, rows: int) -> None:
    declared = benchmark(name)
    assert sum(declared.expected_rows([version]).values()) == rows
    if declared.labels:
        assert sum(declared.labels.values()) == rows * (3 if name == "pandalm" else 1)
    members = [part.name for part in declared.part] + [group.name for group in declared.group]
    assert len(members) == len(set(members))
    for one in declared.published:
        assert one.figures.keys() <= set(members)
        assert all(0 <= figure <= 100 for figures in one.figures.values() for figure in figures)
        assert one.source


def test_rewardbench_counts_math_as_often_as_code() -> None:
    weights = {part.name: part.weight for part in benchmark("rewardbench").part}
    assert weights["math-prm"] == sum(weight for name, weight in weights.items() if name.startswith("hep-"))
    assert [group.by for group in benchmark("rewardbench").group] == ["weight"] * 4 + ["mean"]


def test_autoj_has_58_scenarios_each_of_one_group() -> None:
    scenarios = [value for part in benchmark("autoj").part for value in part.values or ()]
    assert (len(scenarios), len(set(scenarios)), len(benchmark("autoj").part)) == (58, 58, 8)


def test_printed_averages_are_those_of_the_printed_domains() -> None:
    """Of figures with one digit: what was typed wrong in a row would move its mean."""
    declared = benchmark("rewardbench2")
    whole = [one for one in declared.published if one.figures.keys() > {"Average"}]
    assert len(whole) == 25
    for one in whole:
        domains = [one.figures[part.name][0] for part in declared.part]
        assert np.mean(domains) == pytest.approx(one.figures["Average"][0], abs=0.1), one.judge


def test_a_judges_printed_figures_are_those_of_its_answers() -> None:
    answers = {case["what"]: case["figures"] for case in GOLDEN["llmbar"]["cases"]}
    printed = {one.judge: one.figures for one in benchmark("llmbar").published}
    for part, figures in answers["GPT-4/Vanilla_NoRules"].items():
        assert printed["GPT-4, Vanilla"][part] == pytest.approx(figures, abs=ROUNDED)


def one(right: int, *orders: int | None, rated: bool = False, expected: bool = False) -> Scored:
    item = Item(id="i", part="p", item="q", question="q", answers=("a", "b"), right=right)
    return Scored(item, Decision(orders), rated, expected)


def figures(name: Name, *scored: Scored) -> list[float]:
    sums = sums_of(name, "p", scored)
    found: list[float] = sums.figures(sums.rows.sum(axis=0)).tolist()
    return found


@pytest.mark.parametrize(
    ("name", "scored", "wanted"),
    [
        ("llmbar", one(FIRST, TIE, rated=True), [0.5, 0.0]),
        ("llmbar", one(FIRST, None, rated=True), [0.5, 0.0]),
        ("llmbar", one(FIRST, SECOND, rated=True), [0.0, 1.0]),
        ("llmbar", one(FIRST, TIE, TIE), [0.0, 1.0]),
        ("llmbar", one(FIRST, FIRST), [1.0, np.nan]),
        ("judgebench", one(FIRST, FIRST, TIE), [1.0]),
        ("judgebench", one(FIRST, FIRST, SECOND), [0.0]),
        ("judgebench", one(FIRST, TIE, rated=True), [0.0]),
        ("autoj", one(TIE, TIE, TIE), [1.0, 1.0]),
        ("autoj", one(TIE, TIE, FIRST), [0.0, 0.0]),
        ("autoj", one(FIRST, None, None), [0.0, 0.0]),
        ("autoj", one(SECOND, SECOND, rated=True), [1.0, np.nan]),
        ("rewardbench", one(SECOND, SECOND, FIRST), [0.5]),
        ("rewardbench", one(SECOND, SECOND, TIE), [0.75]),
        ("rewardbench", one(SECOND, None), [0.5]),
        ("rewardbench", one(SECOND, TIE, rated=True), [0.5]),
        ("rewardbench", one(SECOND, TIE, rated=True, expected=True), [0.0]),
        ("rewardbench", one(SECOND, None, rated=True, expected=True), [0.5]),
    ],
)
def test_ties_and_answers_without_a_choice(name: Name, scored: Scored, wanted: list[float]) -> None:
    assert figures(name, scored) == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize(
    ("ratings", "wanted"),
    [
        ((5, 1, 2, 3), 1.0),
        ((5, 5, 2, 5), 1 / 3),
        ((4, 5, 2, 3), 0.0),
        ((5, None, 2, 5), 0.5),
        ((None, 1, 2, 3), 0.0),
        ((None, None, None, None), 0.25),
    ],
)
def test_the_best_of_four(ratings: tuple[float | None, ...], wanted: float) -> None:
    item = Item(id="i", part="Math", item="q", question="q", answers="abcd", right=1)
    sums = sums_of("rewardbench2", "Math", [Scored(item, Decision((), ratings), rated=True)])
    assert sums.figures(sums.rows.sum(axis=0)).tolist() == [pytest.approx(wanted)]


def test_ties_without_their_reference_have_no_figure() -> None:
    item = Item(id="i", part="Ties", item="1", question="q", answers="abc", right=2, key="tied:1")
    sums = sums_of("rewardbench2", "Ties", [Scored(item, Decision((), (5, 4, 1)), rated=True)])
    assert np.isnan(sums.figures(sums.rows.sum(axis=0))).all()

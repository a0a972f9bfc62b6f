"""What a report of a judge's test cases holds, and what it says."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from evals.data.tasks import Fault
from evals.meta.grounded.cases import PUBLISHED
from evals.meta.grounded.conditions import ALL, FOLLOWING
from evals.meta.grounded.matrix import HEADINGS, TITLES, UNLABELLED, matrix
from evals.meta.grounded.reference import Likeness
from evals.meta.grounded.study import LEVEL, Constant, Rate, Study
from evals.reports.document import Block, Chart, Document, Heading, Only, Strong, Table, Text, to_know
from evals.reports.wording import BELOW, absent, counted, fault_lines, interval, line, number, number_or, percent, percents

SIZE = 144
"""Cases of GroUSE's own set."""

TOGETHER = "the six go together"
"""Why their mean has no interval."""

HERE = "as asked here"
"""Whose prompts those of this judge are."""

SHOWN = ("Finetuned Llama 3 8b", "GPT-4", "Human annotators")
"""Published rows that the terminal shows; the report has all."""

EACH = tuple(one.capitalize() for one in HEADINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is found of a judge, and of what.

    Attributes:
        judge: Who judged: the model, or the file of verdicts.
        options: Of the judge, as they were given.
        cases: Name of the test cases; ``None`` for the project's own.
        study: The rates.
        reference: Name of the reference evaluator's file, where there is one.
        likeness: Metric to how far the judge goes together with it; empty likewise.
        faults: What could not be used of cases, verdicts and reference.
    """

    judge: str
    options: Mapping[str, str]
    cases: str | None
    study: Study
    reference: str | None = None
    likeness: Mapping[str, Likeness] = field(default_factory=dict)
    faults: Sequence[Fault] = ()

    @property
    def title(self) -> str:
        """What the cases are called in a sentence."""
        return "the project's own" if self.cases is None else self.cases

    @property
    def comparison(self) -> str:
        """What the published rates are on, and whether the prompts are the same, in a sentence or two."""
        if self.options.get("per_metric", "no") != "no" and self.options.get("prompts") == "card":
            return f"{self._cases_compared} Published rows of separate prompts are of other words: the authors' own."
        return self._cases_compared

    @property
    def _cases_compared(self) -> str:
        if self.cases is None:
            return f"The published rates are on GroUSE's own {SIZE} cases, not on these; they show what is usual there."
        if self.cases != PUBLISHED:
            return f"The published rates are on GroUSE's own {SIZE} cases, and are of use only if these are the same."
        return f"The published rates are on {'the same' if len(self.study.results) == SIZE else f'all {SIZE}'} cases."


def figures(report: Report) -> dict[str, Any]:
    """The report as JSON can hold it."""
    found = report.study
    return {
        "judge": report.judge,
        "options": dict(report.options),
        "cases": report.cases,
        "count": len(found.results),
        "level": LEVEL,
        "total": found.total,
        "rates": {metric: asdict(rate) for metric, rate in found.rates.items()},
        "constants": {metric: asdict(one) for metric, one in found.constants.items()},
        "kinds": {kind: {metric: asdict(rate) for metric, rate in rates.items()} for kind, rates in found.kinds.items()},
        "unscored": dict(found.unscored),
        "reference": report.reference,
        "likeness": {metric: asdict(one) for metric, one in report.likeness.items()},
        "faults": [asdict(fault) for fault in report.faults],
        "published": published(),
        "results": [asdict(one) for one in found.results],
    }


@cache
def published() -> Mapping[str, Any]:
    """The tables of GroUSE's authors: ``agreement`` and ``correlation``, a row an evaluator, and their ``source``."""
    return tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))


def document(report: Report) -> Document:
    """The report as a document."""
    whole = [*_head(report), *_rates(report), *_kinds(report), *_likeness(report), *_questions(report)]
    blocks = [Only("terminal", list(_short(report))), Only(("html", "markdown"), whole), *to_know(remarks(report))]
    return Document(f"Grounded answers: {called(report)}", blocks)


def remarks(report: Report) -> list[str]:
    """What a reader should know of what is and is not in the figures, a sentence each."""
    told = [f"{counted(amount, 'case')} unscored: {why}" for why, amount in report.study.unscored.items()]
    told += fault_lines(report.faults)
    told += [f"{TITLES[metric]}: no figure, as {one.reason}" for metric, one in report.likeness.items() if one.reason]
    return told


def called(report: Report) -> str:
    """The judge with its options."""
    options = ", ".join(f"{name}={value}" for name, value in report.options.items())
    return line(f"{report.judge} ({options})" if options else report.judge)


def likeness_rows(report: Report) -> list[list[str]]:
    """A row a metric: how far the judge goes together with the reference evaluator."""
    rows = []
    for metric, one in report.likeness.items():
        figure, alone = ("F1, macro", absent("F1 counts them")) if metric in FOLLOWING else ("Spearman", f"{one.one_sided:,}")
        rows.append([TITLES[metric], figure, number_or(BELOW, one.value, 2), f"{one.count:,}", alone])
    return rows


def _short(report: Report) -> Iterator[Block]:
    """What the terminal shows."""
    found = report.study
    yield f"{called(report)}, {counted(len(found.results), 'case')}"
    rows, beside = [], []
    evaluators = {row["evaluator"]: row for row in published()["agreement"]}
    for metric, rate in found.rates.items():
        title, own = TITLES[metric], _hundredths(rate.rate)
        ends = interval(100 * rate.low, 100 * rate.high, 1)
        rows.append((title, own, ends, _hundredths(found.constants[metric].rate), f"{rate.unscored:,}"))
        beside.append((title, own, *(f"{evaluators[name][metric]:.1f}" for name in SHOWN)))
    total = _hundredths(found.total)
    rows.append(("mean", total, absent(TOGETHER), _hundredths(found.constant), ""))
    beside.append(("mean", total, *(f"{evaluators[name]['total']:.1f}" for name in SHOWN)))
    yield Table(("cases passed, %", "this judge", "95% interval", "one grade for all", "unscored"), rows)
    yield Table(("cases passed, %", "this judge", *SHOWN), beside)
    yield f"{report.comparison} The report has all of them."
    if report.likeness:
        yield Table((f"with {report.reference}", "figure", "value", "cases", "applies by one alone"), likeness_rows(report))


def _hundredths(rate: float) -> str:
    return f"{100 * rate:.1f}"


def _head(report: Report) -> Iterator[Block]:
    found = report.study
    sets = len({one.set for one in found.results})
    yield Text(
        (
            f"{counted(len(found.results), 'case')} ({report.title}): {counted(len(found.kinds), 'kind')} of answers to "
            f"{counted(sets, 'question')}. Each says what a right grade is; the judge passes it if its grade is one. Over all "
            "six metrics it passes ",
            Strong(percent(found.total)),
            ".",
        )
    )


def _rates(report: Report) -> Iterator[Block]:
    found = report.study
    yield Heading("Cases passed")
    rows = []
    for metric, one in found.rates.items():
        counts = f"{one.passed:,}", f"{one.failed:,}", f"{one.unscored:,}"
        rows.append((TITLES[metric], *counts, percent(one.rate), percents(one.low, one.high), _best(found.constants[metric])))
    rows.append(("mean of the six", "", "", "", percent(found.total), absent(TOGETHER), percent(found.constant)))
    yield Table(("Metric", "Passed", "Failed", "Unscored", "Rate", "95% interval", "One grade for all"), rows)
    yield (
        "Unscored cases count as not passed. Intervals are Wilson's. The mean has none, as the six metrics of a case go "
        "together. One grade for all: what a judge would pass that gives every case the same grade, the best one. A rate "
        "that is not above it says nothing for the judge."
    )
    yield Chart("matrix", "Which cases are passed", matrix(found, called(report)))
    yield Heading("Beside published rates", 3)
    own = (called(report), HERE, *_shares(found.rates), percent(found.total))
    others = [
        (row["evaluator"], row["protocol"], *(f"{row[metric]:.2f}%" for metric in (*ALL, "total")))
        for row in published()["agreement"]
    ]
    yield Table(("Evaluator", "Prompts", *EACH, "Mean"), [own, *others], 2)
    yield f"{report.comparison} Source: {published()['source']}."


def _shares(rates: Mapping[str, Rate]) -> list[str]:
    return [percent(one.rate) for one in rates.values()]


def _best(one: Constant) -> str:
    return f"{percent(one.rate)} ({'does not apply' if one.grade is None else one.grade})"


def _kinds(report: Report) -> Iterator[Block]:
    yield Heading("By kind of answer")
    rows = []
    for kind, rates in report.study.kinds.items():
        one = rates[ALL[0]]
        rows.append((kind or UNLABELLED, f"{one.passed + one.failed + one.unscored:,}", *_shares(rates)))
    yield Table(("Kind", "Cases", *EACH), rows)


def _likeness(report: Report) -> Iterator[Block]:
    if report.reference is None:
        return
    yield Heading(f"Together with {report.reference}")
    yield Table(("Metric", "Figure", "Value", "Cases", "Applies by one alone"), likeness_rows(report), 2)
    yield (
        "Spearman's correlation is over cases where both gave a number. F1 is the mean of the F1-scores of the outcomes 1, 0 and "
        "“does not apply”, as far as they occur: with 1 alone to find, both metrics would have the same figure."
    )
    yield Heading("Beside published correlations with GPT-4", 3)
    own = (called(report), HERE, *(number_or(BELOW, report.likeness[metric].value, 2) for metric in ALL))
    others = [
        (row["evaluator"], row["protocol"], *(number(row[metric], 2) for metric in ALL)) for row in published()["correlation"]
    ]
    yield Table(("Evaluator", "Prompts", *EACH), [own, *others], 2)
    yield (
        "The published figures are with GPT-4 on 200 answers of the authors' validation set, other cases than these and another "
        "reference."
    )


def _questions(report: Report) -> Iterator[Block]:
    yield Heading("Questions")
    names = dict.fromkeys(one.set for one in report.study.results)
    yield Table(("Number", "Question"), [(str(place), name) for place, name in enumerate(names, start=1)], 2)

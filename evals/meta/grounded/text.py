"""What is found of a judge's test cases, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evals.dashboard.text import escaped, markdown_table
from evals.dashboard.words import NONE, counted, line, number, percent
from evals.meta.grounded.conditions import ALL, FOLLOWING
from evals.meta.grounded.report import Report, published
from evals.meta.grounded.study import Constant, Rate
from evals.meta.page import fault_lines

MATRIX = "matrix.png"

HEADINGS = ("relevancy", "completeness", "usefulness", "faithfulness", "positive acceptance", "negative rejection")
TITLES = dict(zip(ALL, HEADINGS, strict=True))

UNLABELLED = "(no kind)"


def markdown(report: Report) -> str:
    """The report as Markdown."""
    parts = [*_head(report), *_rates(report), *_kinds(report), *_likeness(report), *_sets(report), *_left_out(report)]
    return "\n\n".join(parts) + "\n"


def remarks(report: Report) -> list[str]:
    """What a reader should know of what is and is not in the figures, a sentence each."""
    told = [f"{counted(amount, 'case')} unscored: {why}" for why, amount in report.study.unscored.items()]
    told += fault_lines(report.faults)
    told += [f"{TITLES[metric]}: no figure, as {one.reason}" for metric, one in report.likeness.items() if one.reason]
    return [line(text) for text in told]


def called(report: Report) -> str:
    """The judge with its options."""
    options = ", ".join(f"{name}={value}" for name, value in report.options.items())
    return line(f"{report.judge} ({options})" if options else report.judge)


def likeness_rows(report: Report) -> list[list[str]]:
    """A row a metric: how far the judge goes together with the reference evaluator."""
    rows = []
    for metric, one in report.likeness.items():
        figure, alone = ("F1, macro", NONE) if metric in FOLLOWING else ("Spearman", f"{one.one_sided:,}")
        rows.append([TITLES[metric], figure, number(one.value, 2), f"{one.count:,}", alone])
    return rows


def shares(rates: Sequence[Rate]) -> list[str]:
    """Rates in percent."""
    return [percent(one.rate) for one in rates]


def _head(report: Report) -> Iterator[str]:
    found = report.study
    sets = len({one.set for one in found.results})
    yield f"# Grounded answers: {escaped(called(report))}"
    yield (
        f"{counted(len(found.results), 'case')} ({escaped(report.title)}): {counted(len(found.kinds), 'kind')} of answers to "
        f"{counted(sets, 'question')}. Each says what a right grade is; the judge passes it if its grade is one. Over all six "
        f"metrics it passes **{percent(found.total)}**."
    )


def _rates(report: Report) -> Iterator[str]:
    found = report.study
    yield "## Cases passed"
    rows = []
    for metric, one in found.rates.items():
        counts = f"{one.passed:,}", f"{one.failed:,}", f"{one.unscored:,}"
        rows.append((TITLES[metric], *counts, percent(one.rate), _interval(one), _best(found.constants[metric])))
    rows.append(("mean of the six", "", "", "", percent(found.total), NONE, percent(found.constant)))
    yield markdown_table(("Metric", "Passed", "Failed", "Unscored", "Rate", "95% interval", "One grade for all"), rows, 1)
    yield (
        "Unscored cases count as not passed. Intervals are Wilson's. The mean has none, as the six metrics of a case go "
        "together. One grade for all: what a judge would pass that gives every case the same grade, the best one. A rate "
        "that is not above it says nothing for the judge."
    )
    yield f"![Which cases are passed]({MATRIX})"
    yield "### Beside published rates"
    own = (called(report), NONE, *shares(list(found.rates.values())), percent(found.total))
    others = [
        (row["evaluator"], row["protocol"], *(f"{row[metric]:.2f}%" for metric in (*ALL, "total")))
        for row in published()["agreement"]
    ]
    yield markdown_table(("Evaluator", "Prompts", *(one.capitalize() for one in HEADINGS), "Mean"), [own, *others], 2)
    yield f"{report.comparison} Source: {escaped(published()['source'])}."


def _best(one: Constant) -> str:
    return f"{percent(one.rate)} ({'does not apply' if one.grade is None else one.grade})"


def _interval(rate: Rate) -> str:
    return f"{percent(rate.low)} to {percent(rate.high)}"


def _kinds(report: Report) -> Iterator[str]:
    yield "## By kind of answer"
    rows = []
    for kind, rates in report.study.kinds.items():
        one = rates[ALL[0]]
        rows.append((kind or UNLABELLED, f"{one.passed + one.failed + one.unscored:,}", *shares(list(rates.values()))))
    yield markdown_table(("Kind", "Cases", *(one.capitalize() for one in HEADINGS)), rows, 1)


def _likeness(report: Report) -> Iterator[str]:
    if report.reference is None:
        return
    yield f"## Together with {escaped(report.reference)}"
    yield markdown_table(("Metric", "Figure", "Value", "Cases", "Applies by one alone"), likeness_rows(report), 2)
    yield (
        "Spearman's correlation is over cases where both gave a number. F1 is the mean of the F1-scores of the outcomes 1, 0 and "
        "“does not apply”, as far as they occur: with 1 alone to find, both metrics would have the same figure."
    )
    yield "### Beside published correlations with GPT-4"
    own = (called(report), NONE, *(number(report.likeness[metric].value, 2) for metric in ALL))
    others = [
        (row["evaluator"], row["protocol"], *(number(row[metric], 2) for metric in ALL)) for row in published()["correlation"]
    ]
    yield markdown_table(("Evaluator", "Prompts", *(one.capitalize() for one in HEADINGS)), [own, *others], 2)
    yield (
        "The published figures are with GPT-4 on 200 answers of the authors' validation set, other cases than these and another "
        "reference."
    )


def _sets(report: Report) -> Iterator[str]:
    yield "## Questions"
    names = dict.fromkeys(one.set for one in report.study.results)
    yield markdown_table(("Number", "Question"), [(str(place), name) for place, name in enumerate(names, start=1)], 2)


def _left_out(report: Report) -> Iterator[str]:
    if told := remarks(report):
        yield "## What to know"
        yield "\n".join(f"- {escaped(one)}" for one in told)

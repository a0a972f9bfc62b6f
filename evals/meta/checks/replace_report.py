"""What the alternative annotator test says, in tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from evals.data.labels import remarks
from evals.meta.checks.replace import MetricReplacement, Replacement
from evals.reports.document import Block, Document, Heading, Notes, Table, to_know
from evals.reports.wording import chance, count, counted, fault_lines, first_few, number, percent
from evals.stats.alternative_annotator import LEAST, MANY, WINNING, LeftOut

TOO_READY = "Wilcoxon"
"""The test of annotators with few items, which replaces people far too readily."""


def document(found: Replacement) -> Document:
    """The test as a document."""
    return Document("May this judge replace annotators?", list(_blocks(found)))


def figures(found: Replacement) -> dict[str, object]:
    """What the report's JSON holds, with the raters' names in place of their numbers."""
    made = asdict(found)
    for one in made["metrics"]:
        for row in one["found"]["raters"]:
            row["rater"] = one["raters"][row["rater"]]
        one["found"]["few"] = {one["raters"][rater]: items for rater, items in one["found"]["few"].items()}
    return made


def _blocks(found: Replacement) -> Iterator[Block]:
    yield Notes([_decision(one) for one in found.metrics])
    yield Table(
        ("metric", "agreement by", "annotators", "items", "winning rate", "advantage", "passes"),
        [
            (
                one.metric,
                "nearness" if one.graded else "equality",
                count(len(one.found.raters)),
                count(one.found.items),
                number(one.found.winning_rate, 2),
                number(one.found.advantage, 2),
                "yes" if one.found.passed else "no",
            )
            for one in found.metrics
        ],
        2,
    )
    for one in found.metrics:
        yield Heading(one.metric)
        yield Table(
            ("annotator", "test", "items", "judge as good", "annotator as good", "p", "p adjusted", "replaced"),
            [_row(row, one) for row in one.found.raters],
            2,
        )
    yield (
        "As good is the share of items on which the judge agrees with the other annotators at least as well as the one left out "
        f"does, and that on which this one agrees at least as well as the judge. The judge replaces those whose lead is below "
        f"epsilon, here {found.epsilon:g}; p is adjusted by Benjamini and Yekutieli, and may be {found.discoveries:g} at most."
    )
    if all(one.about is None for one in found.metrics):
        yield (
            "The test takes samples as independent. Where several are about one thing, such as answers in one dialogue, it "
            "replaces annotators too readily; say so by `--items` and `--item`."
        )
    yield from to_know(_remarks(found))


def _decision(one: MetricReplacement) -> str:
    replaced, all_of_them = sum(row.rejected for row in one.found.raters), len(one.found.raters)
    may = "the judge may stand in for an annotator" if one.found.passed else "the judge may not stand in for an annotator"
    warned = ""
    if any(row.test == TOO_READY for row in one.found.raters):
        warned = f" Annotators with fewer than {MANY} items count here, and the test replaces those too readily."
    return (
        f"{one.metric}: {may}: it replaces {replaced} of {all_of_them} (winning rate {number(one.found.winning_rate, 2)}, "
        f"{WINNING:g} or more is asked for), and agrees with the others at least as well as the annotator left out on "
        f"{percent(one.found.advantage)} of items.{warned}"
    )


def _row(row: LeftOut, one: MetricReplacement) -> tuple[str, ...]:
    return (
        one.raters[row.rater],
        row.test,
        count(row.items),
        percent(row.judge),
        percent(row.person),
        chance(row.p),
        chance(row.adjusted),
        "yes" if row.rejected else "no",
    )


def _remarks(found: Replacement) -> Iterator[str]:
    notes = ((one.metric, _metric_remarks(one)) for one in found.metrics)
    yield from remarks(found.judges, notes, found.refused, "tested")
    yield from fault_lines(found.faults)


def _metric_remarks(one: MetricReplacement) -> Iterator[str]:
    if one.about is not None:
        yield f"samples are about {counted(one.about, 'thing')}, and the test is that of these"
    yield from one.notes
    few = [row for row in one.found.raters if row.test == TOO_READY]
    if few:
        names = first_few([one.raters[row.rater] for row in few])
        yield (
            f"{counted(len(few), 'annotator')} with fewer than {MANY} items, tested by Wilcoxon's signed ranks, which replaces "
            f"people far too readily here: {names}"
        )
    sure = [one.raters[row.rater] for row in one.found.raters if row.test == "none needed"]
    if sure:
        yield f"no test for {first_few(sure)}: all items say the same, so epsilon decides at once"
    if one.found.few:
        names = first_few([f"{one.raters[rater]} ({items})" for rater, items in one.found.few.items()])
        yield f"{counted(len(one.found.few), 'annotator')} left out, with fewer than {LEAST if few else MANY} items: {names}"
    if one.alone:
        yield f"{counted(one.alone, 'item')} left out, of one annotator alone"
    yield from (f"{counted(amount, 'item')} left out: {why}" for why, amount in one.unscored.items())

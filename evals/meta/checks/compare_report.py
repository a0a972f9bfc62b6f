"""What a comparison of two systems says, in tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator

from evals.meta.checks.compare import Comparison, MetricComparison
from evals.reports.document import Block, Document, Heading, Notes, Table, to_know
from evals.reports.wording import ALIKE, chance, count, counted, fault_lines, interval, number, number_or, percent


def document(found: Comparison) -> Document:
    """The comparison as a document."""
    return Document(f"{found.names[0]} against {found.names[1]}", list(_blocks(found)))


def _blocks(found: Comparison) -> Iterator[Block]:
    first, second = found.names
    if found.notes:
        yield Notes(found.notes)
    yield Notes([_verdict(one, found) for one in found.metrics])
    yield Heading("Differences")
    yield Table(
        ("metric", first, second, "difference", f"{found.level:.4g} interval", "p", "p adjusted"),
        [
            (
                one.metric,
                number(one.first),
                number(one.second),
                number(one.difference),
                interval(one.low, one.high),
                chance(one.p),
                chance(one.adjusted),
            )
            for one in found.metrics
        ],
    )
    yield Heading("Samples")
    yield Table(
        (
            "metric",
            f"{first} higher",
            "equal",
            f"{second} higher",
            "Cohen's dz",
            "least seen",
            "items needed",
            "items",
            "samples",
        ),
        [
            (
                one.metric,
                percent(one.higher),
                percent(one.equal),
                percent(one.lower),
                number_or(_unknown(one), one.dz, 2),
                number_or(_unknown(one), one.least),
                number_or(_unknown(one), one.needed, 0),
                count(one.items),
                count(one.samples),
            )
            for one in found.metrics
        ],
    )
    yield (
        "Difference is the first less the second. Least seen is the least difference that as many items show four times of five; "
        "items needed is how many would show the difference found as often, were it the true one. Both are for as many metrics "
        "as are tested."
    )
    yield from to_know(_left_out(found))


def _unknown(one: MetricComparison) -> str:
    """Why it is not known how many items would show a difference."""
    return "no difference" if one.difference == 0 else ALIKE


def _verdict(one: MetricComparison, found: Comparison) -> str:
    sure = f"p adjusted is {chance(one.adjusted)}"
    if one.adjusted > 1 - found.level:
        least = "" if one.least is None else f"; one of {number(one.least)} would be seen four times of five"
        return f"{one.metric}: no difference is shown, {sure}{least}."
    higher, lower = found.names if one.difference > 0 else found.names[::-1]
    return f"{one.metric}: {higher} scores {number(abs(one.difference))} higher than {lower}, {sure}."


def _left_out(found: Comparison) -> Iterator[str]:
    for one in found.metrics:
        yield from (f"{one.metric}: {note}" for note in one.notes)
        for name, reasons in one.unscored.items():
            yield from (f"{one.metric}: {counted(amount, 'sample')} of {name} left out: {why}" for why, amount in reasons.items())
    yield from (f"{metric}: not compared: {why}" for metric, why in found.refused.items())
    yield from fault_lines(found.faults)

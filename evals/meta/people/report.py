"""What a study of a judge and people says, in tables and sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from evals.meta.people.calibrate import Fitted
from evals.meta.people.published import Published, published_on
from evals.meta.people.study import Group, Line, People
from evals.reports.document import Block, Cell, Document, Heading, Notes, Table, estimate_cell, to_know
from evals.reports.wording import count, counted, fault_lines, number, number_or
from evals.stats.association import COEFFICIENTS, Association, Coefficient

TITLES: Mapping[Coefficient, str] = {"pearson": "Pearson's r", "spearman": "Spearman's rho", "kendall": "Kendall's tau-b"}

PRINTED: tuple[Coefficient, ...] = ("pearson", "spearman")
"""The coefficients that published tables have."""

CONSTANT: Mapping[str, str] = {
    "the first column is constant": "it is the same of every sample, so no correlation is defined",
    "the second column is constant": "people's mean is the same of every sample, so no correlation is defined",
    "both columns are constant": "it and people's mean are the same of every sample, so no correlation is defined",
}
"""What an undefined coefficient's reason means here."""


def figures(found: People) -> dict[str, Any]:
    """The study as JSON can hold it, with what others published on its sets."""
    beside = [published_on(group.name, referenced=group.referenced) for group in found.groups]
    curves = [asdict(one) | {"curve": one.curve.model_dump()} for one in found.calibrated]
    return asdict(found) | {"calibrated": curves, "published": [asdict(one) for one in beside if one is not None]}


def document(found: People) -> Document:
    """The study as a document."""
    who = "What people agree on" if found.judge is None else f"{found.judge} beside people"
    return Document(f"{who}: {found.name}", list(_blocks(found)))


def _blocks(found: People) -> Iterator[Block]:
    yield (
        f"Correlations with the mean rating of a sample. Intervals hold the true value {found.level:.4g} of the time; "
        f"{found.rounds:,} resamples of items, all samples of one item together."
    )
    for group in found.groups:
        yield from _group(group, found)
    if found.calibrated:
        yield from _calibrated(found.calibrated)
    lines = [f"{counted(amount, 'sample')} not scored: {why}" for why, amount in found.unscored.items()]
    yield from to_know([*found.notes, *lines, *fault_lines(found.faults)])


def _calibrated(fitted: Sequence[Fitted]) -> Iterator[Block]:
    yield Heading("Calibration")
    yield (
        "What people give on average where the judge expects a score, on the metric's scale. Here each calibrated score is by a "
        "curve of other items. The curves of all items are in calibration.json: put it in the model's folder to use them."
    )
    rows = [
        (name, one.quality, number(column.mean), number(column.spread), number(column.distance))
        for one in fitted
        for name, column in (
            ("people", one.people),
            (f"{one.metric}, expected", one.expected),
            (f"{one.metric}, calibrated", one.calibrated),
        )
    ]
    yield Table(("", "quality", "mean", "standard deviation", "mean distance from people"), rows, 2)


def _group(group: Group, found: People) -> Iterator[Block]:
    part = ", samples with a reference" if group.referenced else ""
    yield Heading(f"{group.name}{part}")
    yield f"{counted(group.samples, 'sample')} of {counted(group.items, 'item')}."
    yield from _coefficients(group.lines, list(group.raters))
    if not group.referenced:
        yield Table(
            ("people", "alpha, interval", "alpha, ordinal", "samples rated twice or more", "ratings of a sample"),
            [
                (
                    quality,
                    number(one.interval),
                    number(one.ordinal),
                    count(one.units),
                    count(one.most) if one.least == one.most else f"{one.least} to {one.most}",
                )
                for quality, one in group.raters.items()
            ],
        )
    told = [*group.notes, *_remarks(group.lines, group.samples, "samples", found.rounds)]
    if not group.referenced:
        told += [f"{quality}: no alpha: {one.reason}" for quality, one in group.raters.items() if one.reason is not None]
    told += fault_lines(group.faults)
    if told:
        yield Notes(told)
    if group.over_systems:
        yield Heading(f"{group.name}{part}: over {group.systems} systems", 3)
        yield "Each system's mean against people's mean of it. The intervals are of other items, not of other systems."
        yield from _coefficients(group.over_systems, list(group.raters))
        if told := list(_remarks(group.over_systems, group.systems, "systems", found.rounds)):
            yield Notes(told)
    beside = published_on(group.name, referenced=group.referenced)
    if beside is not None and beside.quality in group.raters:
        yield from _beside(group, beside)


def _coefficients(lines: Sequence[Line], qualities: Sequence[str]) -> Iterator[Table]:
    for name in COEFFICIENTS:
        rows: list[list[str | Cell]] = [
            [line.name, *(estimate_cell(line.qualities[quality][name]) for quality in qualities)] for line in lines
        ]
        yield Table((TITLES[name], *qualities), rows)


def _beside(group: Group, beside: Published) -> Iterator[Block]:
    """The lines of one quality, and below them those that others have published."""
    yield Heading(f"Beside published correlations: {beside.quality}", 3)
    own = [
        (line.name, "this study", *(number_or("see above", line.qualities[beside.quality][name].value) for name in PRINTED))
        for line in group.lines
    ]
    others = [(name, beside.source, *map(number, values)) for name, values in beside.metrics.items()]
    yield Table(("", "published by", *(TITLES[name] for name in PRINTED)), [*own, *others], 2)
    same = group.samples == beside.samples
    yield f"The published figures are of {'the same' if same else f'all {beside.samples:,}'} samples."


def _remarks(lines: Sequence[Line], whole: int, what: str, rounds: int) -> Iterator[str]:
    """Why a figure or an interval is missing, and how many of the ``whole`` it rests on, a line a cause."""
    causes: dict[str, list[str]] = {}
    for line in lines:
        qualities: dict[str, list[str]] = {}
        for quality, all_three in line.qualities.items():
            for said in _of(all_three.values(), whole, what, rounds):
                qualities.setdefault(said, []).append(quality)
        for said, some in qualities.items():
            where = line.name if len(some) == len(line.qualities) else f"{line.name}, {', '.join(some)}"
            causes.setdefault(said, []).append(where)
    yield from (f"{'; '.join(which)}: {said}" for said, which in causes.items())


def _of(all_three: Collection[Association], whole: int, what: str, rounds: int) -> list[str]:
    found: dict[str, None] = {}
    for one in all_three:
        if one.reason is not None:
            found[CONSTANT.get(one.reason, one.reason)] = None
        if one.value is not None and one.pairs < whole:
            found[f"{one.pairs:,} of {whole:,} {what} have it"] = None
    # Where too many are left out, the reason that there is no interval says so.
    left_out = max((one.left_out for one in all_three if one.low is not None), default=0)
    if left_out:
        found[f"{left_out:,} of {rounds:,} resamples are constant and left out"] = None
    return list(found)

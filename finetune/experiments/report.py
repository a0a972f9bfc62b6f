"""Reports table 1 as a page, a text and a picture, beside the paper's figures."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import altair as alt

from evals.reports.charts import theme
from evals.reports.charts.drawing import ROW, WIDTH, Drawing, Spec, points_with_intervals, spec_of
from evals.reports.document import Block, Chart, Document, Heading, Table, Text
from evals.reports.files import as_json, write_files
from evals.reports.html import page
from evals.reports.markdown import markdown
from evals.reports.wording import absent, counted, label, line, number
from evals.stats.crossed import FEWEST
from finetune.experiments.experiment import Experiment, Values
from finetune.experiments.table import rows_of, table

PAPER = Path(__file__).parents[1] / "table_1.toml"

SOURCE = "QualEval (Murahari et al., arXiv 2311.02807)"

Figures = Mapping[str, Any]


def write_report(experiment: Experiment, values: Values, folder: Path) -> list[Path]:
    """Write ``table.html``, ``table.md``, ``table.png`` and ``table.json``, and return the files.

    Raises:
        MagistrateError: The folder cannot be written to.
    """
    figures = table(experiment, values)
    report = document(figures)
    files: dict[str, str | bytes] = {
        "table.html": page(report),
        "table.md": markdown(report),
        **report.pictures(),
        "table.json": as_json(figures),
    }
    return write_files(folder, files, what="table")


def document(figures: Figures) -> Document:
    """Make a document of the figures of ``table``."""
    return Document(
        "Rows of chosen domains against rows at random",
        list(_blocks(figures)),
        kicker="QualEval, table 1",
        foot=f"Made by Magistrate after {SOURCE}. The same figures are in table.json and table.md.",
    )


def lead(figures: Figures) -> str:
    """Summarize the outcome: only differences whose interval excludes zero are called differences."""
    if len(figures["seeds"]) < FEWEST:
        return "Rows of chosen domains, compared with as many at random, in one training each: a first look, and no more."
    overall = _tally([group["overall"] for group in figures["sets"]])
    inside = _tally([row for group in figures["sets"] for row in group["domains"]])
    return (
        f"Rows of chosen domains, compared with as many at random: {overall} over all instances, and {inside} within the domains "
        "that rows were added of."
    )


def note(figures: Figures) -> str:
    """Say what the intervals cover."""
    if len(figures["seeds"]) < FEWEST:
        return "One training says nothing of another, so there are no intervals: train with several seeds."
    return "Intervals are over instances and seeds, both paired; of a few seeds they are too narrow."


def _tally(rows: list[Figures]) -> str:
    better = sum(row["low"] is not None and row["low"] > 0 for row in rows)
    worse = sum(row["high"] is not None and row["high"] < 0 for row in rows)
    if not better and not worse:
        return f"no difference beyond chance in {counted(len(rows), 'comparison')}"
    return f"better in {better}, worse in {worse} and not told from chance in {len(rows) - better - worse} of {len(rows)}"


def _blocks(figures: Figures) -> Iterator[Block]:
    rows = figures["rows"]
    yield Text(lead(figures), "lead")
    yield Text(
        f"{figures['metric']} on {counted(figures['instances'], 'instance')}, {counted(len(figures['seeds']), 'seed')}, recipe "
        f"{figures['recipe']}: {rows['base']} rows and {rows['added']} more. Before training: {number(figures['before'])}.",
        "aside",
    )
    numbered = [(str(position), row) for position, group in enumerate(figures["sets"], start=1) for row in rows_of(group)]
    yield Heading("What rows of the domains change", key="differences")
    yield Chart(
        "table",
        "The differences with their intervals",
        differences(figures),
        "The differences by set, domain and overall; the table below has the same figures.",
    )
    yield Table(
        ("Set", "Domain", "Instances", "At random", "Of the domains", "Difference", "95% interval"),
        [
            (
                position,
                line(row["name"]),
                str(row["instances"]),
                number(row["random"]),
                number(row["targeted"]),
                _signed(row["difference"]),
                _ends(row),
            )
            for position, row in numbered
        ],
        texts=2,
        names=1,
        label="The differences",
    )
    yield Text(note(figures), "aside")
    yield Heading("The differences seed by seed", key="seeds")
    yield Table(
        ("Set", "Domain", *(f"Seed {seed}" for seed in figures["seeds"])),
        [(position, line(row["name"]), *(_signed(_between(means)) for means in row["by_seed"])) for position, row in numbered],
        texts=2,
        names=1,
        label="The differences of each seed",
    )
    paper = _paper()
    yield Heading("The paper’s figures", key="paper")
    yield f"In hundredths: {paper['source']}."
    yield Table(
        ("Domains", "At random", "Of the domains", "Differences", "Overall"),
        [
            (
                *(", ".join(map(str, group[part])) for part in ("domains", "random", "targeted", "differences")),
                str(group["overall"]),
            )
            for group in paper["set"]
        ],
    )


def differences(figures: Figures) -> Drawing:
    """Draw a point for each difference, with a line over its interval, by set."""
    seeds = counted(len(figures["seeds"]), "seed")
    subtitle = f"{label(figures['metric'])}, {seeds}; lines: 95% intervals over instances and seeds"
    return Drawing("Rows of chosen domains less rows at random", partial(_spec, figures), [subtitle])


def _spec(figures: Figures, colours: theme.Colours) -> Spec:
    rows = [
        {"set": f"Set {number}", "name": label(row["name"]), "order": order, "whole": row is group["overall"]}
        | {name: row[name] for name in ("difference", "low", "high")}
        for number, group in enumerate(figures["sets"], start=1)
        for order, row in enumerate(rows_of(group))
    ]
    axis = alt.X("difference:Q").axis(title=f"Difference in {label(figures['metric'])}", format="+.3~f")
    name = alt.Y("name:N").sort(field="order").axis(labelExpr="datum.label")
    colour = alt.condition("datum.whole", alt.value(colours["model2"]), alt.value(colours["model1"]))
    zero = alt.Chart().mark_rule(strokeDash=[5, 4], color=colours["quiet"]).encode(x=alt.XDatum(0))
    lines, points = points_with_intervals(alt.Chart(), name, axis, color=colour)
    points = points.encode(shape=alt.condition("datum.whole", alt.value("diamond"), alt.value("circle")))
    header = alt.Header(labelAngle=0, labelOrient="top", labelPadding=0, title=None)
    chart = (
        alt.layer(zero, lines, points, data={"values": rows})
        .properties(width=WIDTH, height=alt.Step(ROW))
        .facet(row=alt.Row("set:N").header(header), spacing=4)
        .resolve_scale(y="independent")
    )
    look = {"labelColor": colours["quiet"], "labelFontSize": 12, "labelFontWeight": "normal", "labelAnchor": "start"}
    return {**spec_of(chart), "config": {"headerRow": look}}


@cache
def _paper() -> Figures:
    return tomllib.loads(PAPER.read_text(encoding="utf-8"))


def _signed(value: float | None) -> str:
    if value is None:
        return number(value)
    return f"{round(value, 3) + 0.0:+.3f}".replace("-", "−")


def _between(means: Figures) -> float | None:
    random, targeted = means["random"], means["targeted"]
    return None if random is None or targeted is None else targeted - random


def _ends(row: Figures) -> str:
    return absent("too few instances") if row["low"] is None else f"{_signed(row['low'])} to {_signed(row['high'])}"

"""The tables that stand beside the charts, with the same figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evals.dashboard.rows import ENOUGH, PLURAL, Report, Row, kinds, named
from evals.reports.wording import count, digits, interval, line, number, percent, percents
from evals.statistics.bootstrap import LEVEL
from judges.qualeval import Kind

MOST_PAIRS = 200
"""Pairs of attributes that a table lists, of each kind."""

_INTERVAL = f"{LEVEL:.0%} interval"


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table: its cells, the kind it is of, where there is more than one, and the model's number, where it has one."""

    cells: tuple[str, ...]
    kind: Kind | None = None
    model: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        caption: What it shows.
        headings: Of its columns. The first ``texts`` hold texts, the others figures.
        rows: Whatever their kind.
        texts: How many columns hold texts.
        note: What else a reader should know.
    """

    caption: str
    headings: tuple[str, ...]
    rows: list[TableRow]
    texts: int = 1
    note: str | None = None

    def of(self, kind: Kind) -> list[TableRow]:
        """The rows of a kind."""
        return [row for row in self.rows if row.kind == kind]


def tables(report: Report, sets: Mapping[str, list[Row]]) -> dict[str, Table]:
    """A table for each chart, by the chart's name, of the rows that the charts show."""
    return {
        "priors": _priors(report, sets["priors"]),
        "proficiency": _proficiency(report, sets["proficiency"]),
        "calibration": _calibration(report, sets["calibration"]),
        "shares": _shares(report, sets["shares"]),
        "pairs": _pairs(report, sets["pairs"]),
    }


def _priors(report: Report, rows: list[Row]) -> Table:
    made = []
    for row, told in zip(rows, named(report, rows), strict=True):
        one = report["kinds"][row["kind"]]["attributes"][row["attribute"]]
        bounds = f"{count(one['lower'])} to {count(one['upper'])}"
        cells = (percent(one["prior"]), count(one["instances"]), bounds, number(one["mean_affinity"], 2), number(one["price"], 2))
        made.append(TableRow((told["attribute"], *cells), row["kind"]))
    headings = ("Attribute", "Prior", "Instances", "Allowed", "Mean affinity", "Price")
    note = "Price: what the bounds cost. Above 0, more instances want the attribute than it may have; below 0, fewer."
    return Table("Priors, and the instances that the assignment gives each attribute", headings, made, note=note)


def _proficiency(report: Report, rows: list[Row]) -> Table:
    places = digits(report["metric"]["scale"])
    made = []
    for row, told in zip(rows, named(report, rows), strict=True):
        cells = (number(row["value"], places), interval(row["low"], row["high"], places), _instances(row))
        made.append(TableRow((told["attribute"], told["model"], *cells), row["kind"], row["model"]))
    title = line(report["metric"]["title"])
    headings = ("Attribute", "Model", title, _INTERVAL, "Instances")
    return Table(f"{title} by attribute, the weakest first", headings, made, 2, _few(rows))


def _calibration(report: Report, rows: list[Row]) -> Table:
    made = []
    for row, told in zip(rows, named(report, rows), strict=True):
        cells = (percent(row["distance"]), percents(row["low"], row["high"]), number(row["correlation"], 2), _instances(row))
        made.append(TableRow((told["attribute"], told["model"], *cells), None, row["model"]))
    headings = ("Sub-task", "Model", "Distance", _INTERVAL, "Rank correlation", "Instances")
    return Table("Skill calibration by sub-task, the furthest apart first", headings, made, 2, _few(rows))


def _shares(report: Report, rows: list[Row]) -> Table:
    found: dict[tuple[Kind, int, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["kind"], row["attribute"], row["of"]), []).append(row)
    made = []
    names = named(report, (scores[0] for scores in found.values()))
    for told, ((kind, _, of), scores) in zip(names, found.items(), strict=True):
        cells = tuple(percent(row["share"]) for row in scores)
        made.append(TableRow((told["attribute"], of.partition("|")[2], *cells), kind, scores[0]["model"]))
    return Table("Share of instances by affinity, from 1 to 5", ("Attribute", "Of", "1", "2", "3", "4", "5"), made, 2)


def _pairs(report: Report, rows: list[Row]) -> Table:
    made = []
    left = dict.fromkeys(kinds(report), MOST_PAIRS)
    cut = 0
    for row, told in zip(rows, named(report, rows), strict=True):
        left[row["kind"]] -= 1
        if left[row["kind"]] < 0:
            cut += 1
            continue
        made.append(TableRow((told["attribute"], told["other"], count(row["instances"]), percent(row["share"])), row["kind"]))
    headings = ("Attribute", "With", "Instances with both", "Of the instances of the rarer")
    note = f"The {MOST_PAIRS} most frequent pairs of each kind; {cut:,} more are in report.json." if cut else None
    return Table("Attributes that go together, the most frequent first", headings, made, 2, note)


def _instances(row: Row) -> str:
    return f"{count(row['instances'])}{' *' if row['few'] else ''}"


def _few(rows: list[Row]) -> str | None:
    if not any(row["few"] for row in rows):
        return None
    return f"* Fewer than {ENOUGH} instances, hollow in the chart: too few for the interval to be relied on."


def heading_of(kind: Kind) -> str:
    """A kind as a heading."""
    return PLURAL[kind].capitalize()

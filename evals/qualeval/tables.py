"""The tables that stand beside the charts, with the same figures."""

from __future__ import annotations

from collections.abc import Sequence

from evals.qualeval.rows import ENOUGH, Report, Row, models, named
from evals.reports.document import Table, Tags
from evals.reports.wording import absent, count, counted, digits, interval, line, number, percent, percents
from evals.stats.bootstrap import LEVEL
from judges.qualeval import Kind

MOST_PAIRS = 200
"""Pairs of attributes that a table lists, of each kind."""

INTERVAL = f"{LEVEL:.0%} interval"


def table(report: Report, name: str, rows: Sequence[Row]) -> Table:
    """The table of a set of rows, as ``charts.row_sets`` makes them: all of them, or those of a kind."""
    return {"priors": _priors, "proficiency": _proficiency, "calibration": _calibration, "shares": _shares, "pairs": _pairs}[
        name
    ](report, rows)


def title(report: Report, name: str) -> str:
    """What the table of a set of rows shows."""
    return {
        "priors": "Priors, and the instances that the assignment gives each attribute",
        "proficiency": f"{line(report['metric']['title'])} by attribute, the weakest first",
        "calibration": "Skill calibration by sub-task, the furthest apart first",
        "shares": "Share of instances by affinity, from 1 to 5",
        "pairs": "Attributes that go together, the most frequent first",
    }[name]


def note(name: str, rows: Sequence[Row]) -> str | None:
    """What a reader of the tables of a set of rows should know."""
    if name == "priors":
        return "Price: what the bounds cost. Above 0, more instances want the attribute than it may have; below 0, fewer."
    if name == "pairs":
        counts = [sum(row["kind"] == kind for row in rows) for kind in {row["kind"] for row in rows}]
        cut = sum(max(0, amount - MOST_PAIRS) for amount in counts)
        return f"The {MOST_PAIRS} most frequent pairs of each kind; {cut:,} more are in report.json." if cut else None
    if any(row.get("few") for row in rows):
        return f"* Fewer than {ENOUGH} instances, hollow in the chart: too few for the interval to be relied on."
    return None


def extremes(report: Report, kind: Kind) -> Table | None:
    """The best and the worst answers of each attribute of a kind; None where there are none."""
    shown = [extreme for extreme in report.get("extremes", []) if extreme["kind"] == kind]
    if not shown:
        return None
    numbers, places = {name: number for number, name in enumerate(models(report))}, digits(report["metric"]["scale"])
    cells = [
        (*(line(extreme[name]) for name in ("attribute", "model", "end", "id", "generation")), number(extreme["value"], places))
        for extreme in shown
    ]
    headings = ("Attribute", "Model", "Among the", "Instance", "Answer", line(report["metric"]["title"]))
    label = "The answers of highest and of lowest proficiency by attribute"
    return Table(headings, cells, 5, label, tags=[{"model": numbers.get(extreme["model"])} for extreme in shown])


def _priors(report: Report, rows: Sequence[Row]) -> Table:
    cells = []
    for row, called in zip(rows, named(report, rows), strict=True):
        one = report["kinds"][row["kind"]]["attributes"][row["attribute"]]
        bounds = f"{count(one['lower'])} to {count(one['upper'])}"
        figures = (
            percent(one["prior"]),
            count(one["instances"]),
            bounds,
            number(one["mean_affinity"], 2),
            number(one["price"], 2),
        )
        cells.append((called["attribute"], *figures))
    headings = ("Attribute", "Prior", "Instances", "Allowed", "Mean affinity", "Price")
    return Table(headings, cells, label=title(report, "priors"))


def _proficiency(report: Report, rows: Sequence[Row]) -> Table:
    places = digits(report["metric"]["scale"])
    cells = [
        (
            row["attribute"],
            row["model"],
            number(row["value"], places),
            interval(row["low"], row["high"], places, too_few(row)),
            _instances(row),
        )
        for row in named(report, rows)
    ]
    headings = ("Attribute", "Model", line(report["metric"]["title"]), INTERVAL, "Instances")
    return Table(headings, cells, 2, title(report, "proficiency"), tags=_by_model(rows))


def _calibration(report: Report, rows: Sequence[Row]) -> Table:
    cells = [
        (
            row["attribute"],
            row["model"],
            percent(row["distance"]),
            percents(row["low"], row["high"], too_few(row)),
            absent(_uncorrelated(row)) if row["correlation"] is None else number(row["correlation"], 2),
            _instances(row),
        )
        for row in named(report, rows)
    ]
    headings = ("Sub-task", "Model", "Distance", INTERVAL, "Rank correlation", "Instances")
    return Table(headings, cells, 2, title(report, "calibration"), tags=_by_model(rows))


def _shares(report: Report, rows: Sequence[Row]) -> Table:
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["attribute"], row["of"]), []).append(row)
    firsts = [scores[0] for scores in groups.values()]
    cells = [
        (called["attribute"], called["of"].partition("|")[2], *(percent(row["share"]) for row in scores))
        for called, scores in zip(named(report, firsts), groups.values(), strict=True)
    ]
    return Table(("Attribute", "Of", "1", "2", "3", "4", "5"), cells, 2, title(report, "shares"), tags=_by_model(firsts))


def _pairs(report: Report, rows: Sequence[Row]) -> Table:
    cells = [
        (row["attribute"], row["other"], count(row["instances"]), percent(row["share"]))
        for row in named(report, rows[:MOST_PAIRS])
    ]
    headings = ("Attribute", "With", "Instances with both", "Of the instances of the rarer")
    return Table(headings, cells, 2, title(report, "pairs"))


def too_few(row: Row) -> str:
    """Why a figure has no interval."""
    return f"{counted(row['instances'], 'instance')} only" if row["instances"] else "no instance"


def _uncorrelated(row: Row) -> str:
    return "one side is all the same" if row["instances"] > 1 else too_few(row)


def _by_model(rows: Sequence[Row]) -> list[Tags]:
    return [{"model": row["model"]} for row in rows]


def _instances(row: Row) -> str:
    return f"{count(row['instances'])}{' *' if row['few'] else ''}"

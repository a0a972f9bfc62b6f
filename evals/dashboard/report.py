"""The report as Markdown, with the tables, the insights and the pictures; and everything that people see of a study as files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from evals.dashboard import findings
from evals.dashboard.charts import row_sets
from evals.dashboard.making import making
from evals.dashboard.page import page
from evals.dashboard.pictures import picture_names, pictures
from evals.dashboard.rows import PLURAL, SINGULAR, Report, Row, kinds
from evals.dashboard.tables import Table as Rows
from evals.dashboard.tables import TableRow, heading_of, tables
from evals.reports.charts.drawing import Drawing
from evals.reports.document import Block, Chart, Document, Facts, Heading, Notes, Strong, Table
from evals.reports.files import write_files
from evals.reports.markdown import markdown
from evals.reports.wording import digits, interval, listed, number
from evals.statistics.bootstrap import LEVEL
from judges.errors import MagistrateError
from judges.qualeval import Kind

PARTS = ("title", "made", "counts", "metric", "models", "kinds", "samples", "insights")


def write(report: Report, folder: Path) -> list[Path]:
    """Write the page, the pictures and the text of a study. Each file is written whole or not at all.

    Args:
        report: As ``report.json`` has it.
        folder: Where to; it is made if need be. Pictures that an earlier report left there, and this one has not, are removed.

    Returns:
        The files: ``index.html``, ``report.md`` and the pictures.

    Raises:
        MagistrateError: It is no report, or the folder cannot be written to.
    """
    if missing := [part for part in PARTS if part not in report]:
        raise MagistrateError(f"this is no report of a study: it has no `{missing[0]}`")
    sets = row_sets(report)
    said = document(report, sets, pictures(report, sets))
    files: dict[str, str | bytes] = {"index.html": page(report, sets), "report.md": markdown(said), **said.pictures()}
    return write_files(folder, files, picture_names(), what="page")


def document(report: Report, sets: Mapping[str, list[Row]], drawn: Mapping[str, Drawing]) -> Document:
    """The report as a document, for Markdown.

    Args:
        report: As ``report.json`` has it.
        sets: Its rows, as ``charts.row_sets`` makes them.
        drawn: Its pictures, by name.
    """
    made = tables(report, sets)
    blocks = [
        *_head(report),
        *_weak(report),
        *_insights(report),
        *_by_kind("Priors", made["priors"], report, drawn, "priors"),
        *_by_kind("Proficiency", made["proficiency"], report, drawn, "proficiency"),
        *_calibration(made["calibration"], drawn),
        *_by_kind("Affinities", made["shares"], report, drawn, "shares"),
        *_by_kind("Attributes that go together", made["pairs"], report, drawn, "pairs"),
        *_faithfulness(report),
        *_making(report),
    ]
    return Document(report["title"], blocks)


def _head(report: Report) -> Iterator[Block]:
    yield findings.lead(report)
    places = digits(report["metric"]["scale"])
    rows = []
    for model in report["models"]:
        found = model["overall"]
        ends = interval(found["low"], found["high"], places)
        rows.append((model["name"], number(found["value"], places), ends, f"{found['instances']:,}"))
    if rows:
        yield Table(("Model", report["metric"]["title"], f"{LEVEL:.0%} interval", "Instances"), rows)
    if missing := findings.faults(report):
        yield "Not everything is in these figures:"
        yield Notes(missing)
    if remarks := findings.remarks(report):
        yield "What the metric remarks on answers that it measured:"
        yield Notes(remarks)


def _weak(report: Report) -> Iterator[Block]:
    if not report["models"]:
        return
    yield Heading("What to fix first")
    weak, unsure = findings.weak_attributes(report), findings.unsure(report)
    for kind in kinds(report):
        yield Heading(heading_of(kind), 3)
        found = [one for one in weak if one.kind == kind]
        if found:
            yield Notes([(Strong(one.name), f": {one.words}") for one in found], "numbered")
        else:
            yield f"No {SINGULAR[kind]} with {findings.enough_words()} lies clearly below the mean."
        if kind in unsure:
            yield f"Below the mean too, but with fewer instances than that: {listed(unsure[kind])}."


def _insights(report: Report) -> Iterator[Block]:
    if not report["insights"]:
        return
    yield Heading("Insights")
    for one in report["insights"]:
        yield Heading(f"{one['model']}, {PLURAL[one['kind']]}", 3)
        if not one["sentences"]:
            yield f"None: {one['reason'] or 'no reason is given'}."
        else:
            yield Notes([(said["text"], *_flag(said["flag"])) for said in one["sentences"]])


def _flag(flag: str | None) -> tuple[str, ...]:
    return (" ", Strong("Contradicted by the tables:"), f" it {flag}.") if flag else ()


def _by_kind(title: str, table: Rows, report: Report, drawn: Mapping[str, Drawing], name: str) -> Iterator[Block]:
    if not table.rows:
        return
    yield Heading(title)
    yield f"{table.caption}."
    for kind in kinds(report):
        if rows := table.of(kind):
            yield Heading(heading_of(kind), 3)
            yield from _pictured(table, rows, f"{name}-{kind}", drawn, f"{title} of {PLURAL[kind]}")
    if table.note:
        yield table.note


def _calibration(table: Rows, drawn: Mapping[str, Drawing]) -> Iterator[Block]:
    if not table.rows:
        return
    yield Heading("Skill calibration")
    yield f"{table.caption}. A lower distance is better, and a higher correlation."
    yield from _pictured(table, table.rows, "calibration", drawn, "Skill calibration by sub-tasks")
    if table.note:
        yield table.note


def _pictured(table: Rows, rows: Sequence[TableRow], picture: str, drawn: Mapping[str, Drawing], words: str) -> Iterator[Block]:
    if picture in drawn:
        yield Chart(picture, words, drawn[picture])
    yield Table(table.headings, [row.cells for row in rows], table.texts)


def _faithfulness(report: Report) -> Iterator[Block]:
    if rows := findings.faithfulness_rows(report):
        yield Heading("Faithfulness to people's labels")
        yield Table(("Domains assigned", "Total variation (lower is better)", "Accuracy"), rows)


def _making(report: Report) -> Iterator[Block]:
    made = making(report)
    yield Heading("How this was made")
    yield Facts([*made.facts, *made.assignments])
    if made.options:
        yield "Options: " + ", ".join(f"{name} {value}" for name, value in made.options) + "."
    if made.seconds:
        yield "Times: " + ", ".join(f"{name} {value}" for name, value in made.seconds) + "."
    if made.stages:
        yield Table(
            ("Stage", "Fingerprint", "Asked this time", "Kept from before"), [(a, d, b, c) for a, b, c, d in made.stages], 2
        )
    for one in made.discoveries:
        yield from _discovery(one.kind, one.summary, one.dropped, one.left_out)


def _discovery(kind: Kind, summary: Sequence[str], dropped: Sequence[tuple[str, int]], left_out: int) -> Iterator[Block]:
    yield Heading(f"Discovery of the {PLURAL[kind]}", 3)
    yield Notes(summary)
    if dropped:
        names = ", ".join(f"{name} ({mentions})" for name, mentions in dropped)
        yield f"Not kept: {names}{f', and {left_out} more' if left_out else ''}."

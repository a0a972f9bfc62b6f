"""The report as Markdown, with the tables, the insights and the pictures."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from evals.dashboard import findings
from evals.dashboard.making import making
from evals.dashboard.rows import PLURAL, SINGULAR, Report, Row, kinds
from evals.dashboard.tables import Table, TableRow, heading_of, tables
from evals.reports.markdown import escaped, markdown_table
from evals.reports.wording import digits, interval, listed, number
from evals.statistics.bootstrap import LEVEL
from judges.qualeval import Kind


def markdown(report: Report, sets: Mapping[str, list[Row]], pictures: Collection[str]) -> str:
    """The report as Markdown.

    Args:
        report: As ``report.json`` has it.
        sets: Its rows, as ``charts.row_sets`` makes them.
        pictures: Names of the pictures that lie beside it.
    """
    made = tables(report, sets)
    parts = [
        *_head(report),
        *_weak(report),
        *_insights(report),
        *_by_kind("Priors", made["priors"], report, pictures, "priors"),
        *_by_kind("Proficiency", made["proficiency"], report, pictures, "proficiency"),
        *_calibration(made["calibration"], pictures),
        *_by_kind("Affinities", made["shares"], report, pictures, "shares"),
        *_by_kind("Attributes that go together", made["pairs"], report, pictures, "pairs"),
        *_faithfulness(report),
        *_making(report),
    ]
    return "\n\n".join(parts) + "\n"


def _head(report: Report) -> Iterator[str]:
    yield f"# {escaped(report['title'])}"
    yield escaped(findings.lead(report))
    places = digits(report["metric"]["scale"])
    rows = []
    for model in report["models"]:
        found = model["overall"]
        ends = interval(found["low"], found["high"], places)
        rows.append((model["name"], number(found["value"], places), ends, f"{found['instances']:,}"))
    if rows:
        yield markdown_table(("Model", report["metric"]["title"], f"{LEVEL:.0%} interval", "Instances"), rows, 1)
    if missing := findings.faults(report):
        yield "Not everything is in these figures:"
        yield "\n".join(f"- {escaped(fault)}" for fault in missing)
    if remarks := findings.remarks(report):
        yield "What the metric remarks on answers that it measured:"
        yield "\n".join(f"- {escaped(remark)}" for remark in remarks)


def _weak(report: Report) -> Iterator[str]:
    if not report["models"]:
        return
    yield "## What to fix first"
    weak, unsure = findings.weak_attributes(report), findings.unsure(report)
    for kind in kinds(report):
        yield f"### {heading_of(kind)}"
        found = [one for one in weak if one.kind == kind]
        if found:
            yield "\n".join(f"{place}. **{escaped(one.name)}**: {escaped(one.words)}" for place, one in enumerate(found, start=1))
        else:
            yield f"No {SINGULAR[kind]} with {findings.enough_words()} lies clearly below the mean."
        if kind in unsure:
            yield f"Below the mean too, but with fewer instances than that: {escaped(listed(unsure[kind]))}."


def _insights(report: Report) -> Iterator[str]:
    if not report["insights"]:
        return
    yield "## Insights"
    for one in report["insights"]:
        yield f"### {escaped(one['model'])}, {PLURAL[one['kind']]}"
        if not one["sentences"]:
            yield f"None: {escaped(one['reason'] or 'no reason is given')}."
        else:
            yield "\n".join(f"- {escaped(said['text'])}{_flag(said['flag'])}" for said in one["sentences"])


def _flag(flag: str | None) -> str:
    return f" **Contradicted by the tables:** it {escaped(flag)}." if flag else ""


def _by_kind(title: str, table: Table, report: Report, pictures: Collection[str], name: str) -> Iterator[str]:
    if not table.rows:
        return
    yield f"## {title}"
    yield f"{escaped(table.caption)}."
    for kind in kinds(report):
        if rows := table.of(kind):
            yield f"### {heading_of(kind)}"
            yield from _pictured(table, rows, f"{name}-{kind}.png", pictures, f"{title} of {PLURAL[kind]}")
    if table.note:
        yield escaped(table.note)


def _calibration(table: Table, pictures: Collection[str]) -> Iterator[str]:
    if not table.rows:
        return
    yield "## Skill calibration"
    yield f"{table.caption}. A lower distance is better, and a higher correlation."
    yield from _pictured(table, table.rows, "calibration.png", pictures, "Skill calibration by sub-tasks")
    if table.note:
        yield escaped(table.note)


def _pictured(table: Table, rows: Sequence[TableRow], picture: str, pictures: Collection[str], words: str) -> Iterator[str]:
    if picture in pictures:
        yield f"![{words}]({picture})"
    yield markdown_table(table.headings, [row.cells for row in rows], table.texts)


def _faithfulness(report: Report) -> Iterator[str]:
    if rows := findings.faithfulness_rows(report):
        yield "## Faithfulness to people's labels"
        yield markdown_table(("Domains assigned", "Total variation (lower is better)", "Accuracy"), rows, 1)


def _making(report: Report) -> Iterator[str]:
    made = making(report)
    yield "## How this was made"
    yield "\n".join(f"- {escaped(name)}: {escaped(value)}" for name, value in [*made.facts, *made.assignments])
    if made.options:
        yield "Options: " + ", ".join(f"{escaped(name)} {escaped(value)}" for name, value in made.options) + "."
    if made.seconds:
        yield "Times: " + ", ".join(f"{escaped(name)} {value}" for name, value in made.seconds) + "."
    if made.stages:
        yield markdown_table(
            ("Stage", "Fingerprint", "Asked this time", "Kept from before"), [(a, d, b, c) for a, b, c, d in made.stages], 2
        )
    for one in made.discoveries:
        yield from _discovery(one.kind, one.summary, one.dropped, one.left_out)


def _discovery(kind: Kind, summary: Sequence[str], dropped: Sequence[tuple[str, int]], left_out: int) -> Iterator[str]:
    yield f"### Discovery of the {PLURAL[kind]}"
    yield "\n".join(f"- {escaped(sentence)}" for sentence in summary)
    if dropped:
        names = ", ".join(f"{escaped(name)} ({mentions})" for name, mentions in dropped)
        yield f"Not kept: {names}{f', and {left_out} more' if left_out else ''}."

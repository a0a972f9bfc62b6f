"""What people see of a study: a page in one file, a text, and pictures of its charts. All of it comes from ``report.json``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import vl_convert
from markupsafe import Markup

from evals.qualeval import findings, tables
from evals.qualeval.charts import APART_BY_LANE, PADDINGS, charts, picture_names, pictures, row_sets, without_legends
from evals.qualeval.options import ALL
from evals.qualeval.provenance import provenance
from evals.qualeval.rows import (
    ENOUGH,
    MOST,
    PLURAL,
    SINGULAR,
    Report,
    Row,
    attribute_names,
    kinds,
    model_names,
    models,
    overall_rows,
)
from evals.reports import html
from evals.reports.charts import theme
from evals.reports.charts.drawing import Drawing
from evals.reports.document import (
    Block,
    Chart,
    Claim,
    Claims,
    Document,
    Examples,
    Filter,
    Filtered,
    Filters,
    Folded,
    Heading,
    Headline,
    Implied,
    Link,
    LiveChart,
    LiveCharts,
    Name,
    Only,
    Ranking,
    Signed,
    Table,
    Tags,
    Text,
)
from evals.reports.files import write_files
from evals.reports.markdown import markdown
from evals.reports.wording import NONE, counted, digits, first_few, interval, is_absent, line, listed, number
from evals.stats.bootstrap import LEVEL
from judges.errors import MagistrateError
from judges.qualeval import Kind

TEMPLATES = Path(__file__).parent / "templates"

PARTS = ("title", "made", "counts", "metric", "models", "kinds", "samples", "insights")

MOST_FAULTS = 4
"""Faults that stand above the figures; all of them stand below."""

MOST_UNSURE = 12
"""Attributes of a kind that may be below a model's mean and are named."""

INTROS = {
    "priors": "The prior of an attribute is its part of all affinity that the judge sees in the data. The assignment gives each "
    "instance its attributes so that their numbers follow the priors.",
    "proficiency": "{metric} by attribute with {level:.0%} intervals, the weakest first. Higher is better. A dashed line is a "
    "model’s mean over everything.",
    "calibration": "Skill calibration compares the sub-tasks that an answer shows with those of the ground truth, whatever kind "
    "is chosen above. The distance is the share of instances whose affinities are more than 1 apart: lower is better. The rank "
    "correlation says whether an answer shows more of a sub-task where the ground truth does: higher is better.",
    "shares": "Each attribute’s scores from 1 to 5: the stronger a cell’s colour, the more instances have this score.",
    "pairs": "The stronger a cell’s colour, the more instances have both attributes. The columns are numbered as the rows are.",
    "samples": "The instances whose answer and ground truth differ most in a sub-task. Arrow keys turn the pages while an "
    "example has the focus.",
    "extremes": "Of each attribute’s answers the three of highest and the three of lowest {metric}.",
    "labels": "Each label with a domain of its own, so that most rows are assigned the domain of their label. Labels of less "
    "than 2% of the rows are one class. Intervals are of resampled rows, matched anew in each.",
    "faithfulness": "Total variation is how far the shares of the attributes are from those of the labels: lower is better. "
    "Accuracy is the share of instances among whose attributes is their label: higher is better.",
}
"""What is said below the heading of a part, by the part's key."""

HEADINGS = {
    "priors": "Priors: what the data consists of",
    "proficiency": "Proficiency: how well it is done",
    "calibration": "Calibration: whether the skills asked for are used",
    "shares": "Affinities: how much of each the judge sees",
    "pairs": "Attributes that go together",
}

FOOT = "Made by Magistrate after QualEval (Murahari et al., arXiv 2311.02807). The same figures are in report.json and report.md."


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
    said = document(report)
    files: dict[str, str | bytes] = {"index.html": page(report), "report.md": markdown(said), **said.pictures()}
    return write_files(folder, files, picture_names(), what="page")


def page(report: Report) -> str:
    """The report as a page."""
    script = (TEMPLATES / "qualeval.js").read_text(encoding="utf-8")
    return html.page(document(report), [_libraries(), script], _data(report))


def document(report: Report) -> Document:
    """The report as a document."""
    sets = row_sets(report)
    drawn = pictures(report, sets)
    date = report["made"].get("date")
    blocks = [
        *_head(report),
        *_weak(report),
        *_insights(report),
        *_figures(report, sets, drawn),
        *_samples(report),
        *_extremes(report),
        *_labels(report),
        *_faithfulness(report),
        *provenance(report),
    ]
    return Document(report["title"], blocks, f"QualEval · {date}" if date else "QualEval", FOOT)


@cache
def _libraries() -> str:
    """Vega, Vega-Lite and what puts them into a page, with the interpreter that needs no ``eval``."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed"))


def _data(report: Report) -> dict[str, Any]:
    """What the page's script goes by."""
    sets = row_sets(report)
    found = charts(report, sets)
    return {
        "models": model_names(report),
        "attributes": attribute_names(report),
        "sets": {one.of: {kind: _columns(_of(sets[one.of], kind)) for kind in kinds(report)} for one in found.values()},
        "means": overall_rows(report),
        "charts": {
            name: {
                "of": one.of,
                "spec": without_legends(one.spec),
                "lane": one.lane,
                "apart": one.apart,
                "byModel": one.by_model,
                "sort": one.sort,
                "kind": one.kind,
                "cell": one.cell,
            }
            for name, one in found.items()
        },
        "wide": theme.config(theme.VARIABLES),
        "narrow": theme.config(theme.VARIABLES, narrow=True),
        "look": theme.model_range(range(len(models(report))), theme.VARIABLES)["range"],
        "paddings": PADDINGS,
        "apartByLane": APART_BY_LANE,
        "most": MOST,
        "plural": PLURAL,
        "labelWidth": theme.LABEL_WIDTH,
    }


def _of(rows: Sequence[Row], kind: Kind) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Rows of a kind as columns, which take a third of the room."""
    return {field: [row[field] for row in rows] for field in (rows[0] if rows else {}) if field != "kind"}


def _signed(report: Report) -> dict[str, Signed]:
    """The models' names, with their signs where there are several."""
    names = models(report)
    return {name: Signed(line(name), place if len(names) > 1 else None) for place, name in enumerate(names)}


def _numbers(report: Report) -> dict[str, int]:
    return {name: place for place, name in enumerate(models(report))}


def _head(report: Report) -> Iterator[Block]:
    names, places = _signed(report), digits(report["metric"]["scale"])
    yield Text(findings.lead(report), "lead")
    if report.get("instruction"):
        yield Text(f"The task: “{line(report['instruction'])}”", "aside")
    if names:
        overall = [model["overall"] for model in report["models"]]
        title = line(report["metric"]["title"])
        ends = [interval(one["low"], one["high"], places, tables.too_few(one)) for one in overall]
        values = [number(one["value"], places) for one in overall]
        shown = [one.replace(NONE, "no interval") if is_absent(one) else f"{LEVEL:.0%} interval {one}" for one in ends]
        lines = [(f"{title}, {one}", counted(each["instances"], "instance")) for one, each in zip(shown, overall, strict=True)]
        tags = [{"model": place} for place in range(len(names))]
        yield Only("html", [Headline(list(zip(names.values(), values, lines, strict=True)), tags)])
        rows = [(*row, f"{one['instances']:,}") for *row, one in zip(models(report), values, ends, overall, strict=True)]
        yield Only("markdown", [Table(("Model", title, tables.INTERVAL, "Instances"), rows)])
    if faults := findings.faults(report):
        told = f"Not everything is in these figures: {'; '.join(faults[:MOST_FAULTS])}"
        more = (", ", Link(f"{len(faults) - MOST_FAULTS} more below", "making")) if len(faults) > MOST_FAULTS else ()
        yield Text((told, *more, "."), "notice")
    kinds_of = Filter("kind", "Kind of attribute", [(kind, _heading(kind)) for kind in kinds(report)])
    yield Only("html", [Filters([kinds_of, Filter("model", "Models", list(enumerate(names.values())), many=True)])])


def _heading(kind: Kind) -> str:
    return PLURAL[kind].capitalize()


def _kind_heading(kind: Kind) -> Heading:
    return Heading((Implied(_heading(kind)),), 3)


def _weak(report: Report) -> Iterator[Block]:
    if not report["models"]:
        return
    yield Heading("What to fix first", key="fix")
    yield (
        f"The attributes furthest below a model’s mean, among those with at least {ENOUGH} instances whose {LEVEL:.0%} interval "
        "ends below that mean."
    )
    weak, unsure = findings.weak_attributes(report), findings.unsure(report)
    parts = []
    for kind in kinds(report):
        found = [one for one in weak if one.kind == kind]
        none = f"No {SINGULAR[kind]} lies clearly below the mean."
        rows = Ranking([(one.name, one.words) for one in found], [{"model": one.model} for one in found], none)
        parts.append(({"kind": kind}, [_kind_heading(kind), rows, *_unsure(unsure.get(kind, []))]))
    yield Filtered(parts)


def _unsure(names: Sequence[str]) -> Iterator[Block]:
    if names:
        why = f"Below the mean too, but with fewer than {ENOUGH} instances, so that chance may have put them there"
        yield Text(f"{why}: {first_few(names, most=MOST_UNSURE) if len(names) > MOST_UNSURE else listed(names)}.", "aside")


def _insights(report: Report) -> Iterator[Block]:
    insights = [one for one in report["insights"] if one["kind"] in (ALL, *kinds(report))]
    if not insights:
        return
    yield Heading("Insights")
    judge = report["made"].get("judge_model")
    yield Text(
        (
            "Written by the judge",
            *((", ", Name(judge), ",") if judge else ()),
            " from the tables below. Every number was then looked up in them; a sentence that they contradict is marked.",
        )
    )
    names, numbers = _signed(report), _numbers(report)
    parts = []
    for one in insights:
        of, kind = one["model"], None if one["kind"] == ALL else one["kind"]
        what = Implied(f", {PLURAL[kind]}") if kind else ", all attributes"
        heading = Heading((names.get(of, of), what), 3)
        parts.append(({"kind": kind, "model": numbers.get(of)}, [heading, _claims(one)]))
    yield Filtered(parts, "There is nothing to show of what is chosen above.")


def _claims(one: Mapping[str, Any]) -> Block:
    if not one["sentences"]:
        return Text(f"None{': ' + one['reason'] if one['reason'] else ''}.", "aside")
    return Claims([Claim(said["text"], said["flag"], _confirmed(said)) for said in one["sentences"]])


def _confirmed(said: Mapping[str, Any]) -> list[str]:
    return [f"{found['number']}: {found['where']}" for found in said["checked"] if found["where"]]


def _figures(report: Report, sets: Mapping[str, list[Row]], drawn: Mapping[str, Drawing]) -> Iterator[Block]:
    """The charts and the tables."""
    found, metric, names = charts(report, sets), line(report["metric"]["title"]), list(_signed(report).values())
    shown = {
        "priors": [LiveChart("priors", "Bar chart of the priors")],
        "proficiency": [LiveChart("proficiency", f"Chart of {metric} with intervals", names)],
        "calibration": [
            LiveChart("distance", "Chart of calibration distances with intervals", names),
            LiveChart("correlation", "Chart of rank correlations"),
        ],
        "shares": [LiveChart("shares", "Heat map of the shares of scores from 1 to 5")],
        "pairs": [LiveChart("pairs", "Heat map of attributes that the same instances have")],
    }
    for name, live in shown.items():
        if live[0].name in found:
            yield Heading(HEADINGS[name], key=name)
            live = [replace(one, strongest=found[one.name].strongest) for one in live]
            intro = INTROS[name].format(metric=metric, level=LEVEL)
            if name == "calibration" and (least := report["made"].get("options", {}).get("proficient")) is not None:
                intro = f"{intro} Only answers whose {metric} is {least:g} or more count."
            if live[0].strongest:  # of a heat map the text has the table alone
                yield Only("markdown", [f"{tables.title(report, name)}."])
            yield Only("html", [intro]) if live[0].strongest else intro
            yield Only("html", [LiveCharts(live)])
            yield _tables(report, name, sets[name], drawn)


def _tables(report: Report, name: str, rows: Sequence[Row], drawn: Mapping[str, Drawing]) -> Folded:
    """The table of each kind, with its picture in the text. Of calibration there is one, whatever kind is chosen."""
    if name == "calibration":
        blocks = _pictured(report, name, rows, name, drawn)
    else:
        of_kinds = {kind: _of(rows, kind) for kind in kinds(report)}
        parts = [
            ({"kind": kind}, [_kind_heading(kind), *_pictured(report, name, of_kind, f"{name}-{kind}", drawn)])
            for kind, of_kind in of_kinds.items()
            if of_kind
        ]
        blocks = [Filtered(parts)]
    note = tables.note(name, rows)
    return Folded("The figures as a table", [*blocks, *([Text(note, "aside")] if note else [])], tables.title(report, name), name)


def _pictured(report: Report, name: str, rows: Sequence[Row], picture: str, drawn: Mapping[str, Drawing]) -> list[Block]:
    chart = [Only("markdown", [Chart(picture, drawn[picture].title, drawn[picture])])] if picture in drawn else []
    return [*chart, tables.table(report, name, rows)]


def _samples(report: Report) -> Iterator[Block]:
    if not report["samples"]:
        return
    attributes = Counter(one["attribute"] for one in report["samples"]).most_common()
    filled = (
        html.environment("evals.qualeval")
        .get_template("samples.html")
        .render(
            samples=report["samples"],
            attributes=attributes,
            places={name: place for place, (name, _) in enumerate(attributes)},
            models=_signed(report),
            numbers=_numbers(report),
            metric=report["metric"]["title"],
            digits=digits(report["metric"]["scale"]),
        )
    )
    yield Only("html", [Heading("Examples", key="samples"), INTROS["samples"], Examples(Markup(filled), filled=True)])


def _extremes(report: Report) -> Iterator[Block]:
    """On the page alone, as the examples are."""
    shown = {kind: table for kind in kinds(report) if (table := tables.extremes(report, kind))}
    if shown:
        label = "The best and the worst answers"
        parts: list[tuple[Tags, list[Block]]] = [({"kind": kind}, [_kind_heading(kind), shown[kind]]) for kind in shown]
        intro = INTROS["extremes"].format(metric=line(report["metric"]["title"]))
        folded = Folded("The answers as a table", [Filtered(parts)], label, "extremes")
        yield Only("html", [Heading(label, key="extremes"), intro, folded])


def _labels(report: Report) -> Iterator[Block]:
    if report.get("label_priors"):
        yield Heading("Domains and people’s labels", key="labels")
        yield INTROS["labels"]
        yield findings.label_words(report)
        headings = ("Label", "Share of the rows", "Domain", "Prior", "Rows of the label with the domain")
        yield Table(headings, findings.label_rows(report), (0, 2), "Labels and domains", sorts=("text", "", "text", "", ""))


def _faithfulness(report: Report) -> Iterator[Block]:
    if rows := findings.faithfulness_rows(report):
        yield Heading("Faithfulness of the assignment to people’s labels", key="faithfulness")
        yield INTROS["faithfulness"]
        yield Table(("Domains assigned", "Total variation", "Accuracy"), rows, label="Faithfulness")

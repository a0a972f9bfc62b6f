"""The page: one file with its style, its scripts and its data, which asks for nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import vl_convert
from markupsafe import Markup

from evals.dashboard import findings, making
from evals.dashboard.charts import APART_BY_LANE, PADDINGS, Chart, charts, without_legends
from evals.dashboard.rows import (
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
from evals.dashboard.tables import heading_of, tables
from evals.reports.charts import theme
from evals.reports.html import environment, policy
from evals.reports.wording import counted, digits, interval, label, line, number
from evals.statistics.bootstrap import LEVEL
from judges.qualeval import Kind

PACKAGE = "evals.dashboard"
TEMPLATES = Path(__file__).parent / "templates"


def page(report: Report, sets: Mapping[str, list[Row]]) -> str:
    """The page as HTML.

    Args:
        report: As ``report.json`` has it.
        sets: Its rows, as ``charts.row_sets`` makes them.
    """
    found = charts(report, sets)
    scripts = [_libraries(), (TEMPLATES / "dashboard.js").read_text(encoding="utf-8")]
    return (
        environment(PACKAGE)
        .get_template("page.html")
        .render(
            report=report,
            lead=findings.lead(report),
            headline=_headline(report),
            kinds=kinds(report),
            models=_models(report),
            weak=findings.weak_attributes(report),
            unsure=findings.unsure(report),
            faults=findings.faults(report),
            remarks=findings.remarks(report),
            faithfulness=findings.faithfulness_rows(report),
            insights=_insights(report),
            samples=_samples(report),
            making=making.making(report),
            charts=found,
            tables=tables(report, sets),
            study=_study(report, sets, found),
            scripts=[Markup(script) for script in scripts],
            policy=policy(scripts),
            level=f"{LEVEL:.0%}",
            enough=ENOUGH,
            most=MOST,
            singular=SINGULAR,
            plural=PLURAL,
            heading_of=heading_of,
        )
    )


@cache
def _libraries() -> str:
    """Vega, Vega-Lite and what puts them into a page, with the interpreter that needs no ``eval``."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed"))


def _study(report: Report, sets: Mapping[str, list[Row]], found: Mapping[str, Chart]) -> dict[str, Any]:
    """What the page's script goes by."""
    numbers = range(len(models(report)))
    return {
        "models": model_names(report),
        "attributes": attribute_names(report),
        "sets": {one.of: {kind: _columns(sets[one.of], kind) for kind in kinds(report)} for one in found.values()},
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
        "look": theme.model_range(numbers, theme.VARIABLES)["range"],
        "paddings": PADDINGS,
        "apartByLane": APART_BY_LANE,
        "most": MOST,
        "plural": PLURAL,
        "labelWidth": theme.LABEL_WIDTH,
    }


def _columns(rows: list[Row], kind: Kind) -> dict[str, list[Any]]:
    """The rows of a kind as columns, which take a third of the room."""
    of_kind = [row for row in rows if row["kind"] == kind]
    return {field: [row[field] for row in of_kind] for field in (of_kind[0] if of_kind else {}) if field != "kind"}


def _models(report: Report) -> list[dict[str, Any]]:
    return [
        {
            "number": place,
            "name": line(name),
            "label": label(name),
            "colour": theme.MODEL_COLOURS[place % len(theme.MODEL_COLOURS)],
            "glyph": theme.GLYPHS[place % len(theme.GLYPHS)],
        }
        for place, name in enumerate(models(report))
    ]


def _headline(report: Report) -> list[dict[str, Any]]:
    """Each model's figure over everything."""
    places = digits(report["metric"]["scale"])
    return [
        {
            "value": number(model["overall"]["value"], places),
            "interval": _interval(model["overall"], places),
            "instances": counted(model["overall"]["instances"], "instance"),
        }
        for model in report["models"]
    ]


def _interval(found: Mapping[str, Any], places: int) -> str:
    if found["low"] is None or found["high"] is None:
        return "no interval"
    return f"{LEVEL:.0%} interval {interval(found['low'], found['high'], places)}"


def _insights(report: Report) -> list[dict[str, Any]]:
    numbers = {name: place for place, name in enumerate(models(report))}
    return [{**one, "number": numbers.get(one["model"])} for one in report["insights"] if one["kind"] in kinds(report)]


def _samples(report: Report) -> dict[str, Any]:
    numbers = {name: place for place, name in enumerate(models(report))}
    shown = [{**one, "number": numbers.get(one["model"])} for one in report["samples"]]
    return {
        "all": shown,
        "attributes": Counter(one["attribute"] for one in shown).most_common(),
        "digits": digits(report["metric"]["scale"]),
    }

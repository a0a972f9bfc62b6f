"""The differences of table 1 as a chart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import vl_convert

from evals.reports.charts import theme
from evals.reports.wording import counted, label
from finetune.table import rows_of

WIDTH = 560
ROW = 30
SCALE = 2.0


def svg(found: Mapping[str, Any]) -> str:
    """For a page, whose colours it takes."""
    return vl_convert.vegalite_to_svg(_chart(found, theme.VARIABLES, theme.SANS), allowed_base_urls=[])


def drawn(found: Mapping[str, Any]) -> bytes:
    """As PNG, on a light ground, with its title."""
    chart = _chart(found, theme.LIGHT, theme.PICTURE_FONT)
    seeds = counted(len(found["seeds"]), "seed")
    title = {
        "text": "Rows of chosen domains less rows at random",
        "subtitle": f"{label(found['metric'])}, {seeds}; lines: 95% intervals over instances and seeds",
    }
    chart |= {"title": title, "background": theme.LIGHT["paper"], "padding": 24}
    return vl_convert.vegalite_to_png(chart, scale=SCALE, allowed_base_urls=[])


def _chart(found: Mapping[str, Any], colours: theme.Colours, font: str) -> dict[str, Any]:
    """A point for each difference, with a line over its interval, by set."""
    rows = [
        {"set": f"Set {place}", "name": label(row["name"]), "order": order, "whole": row is one["overall"]}
        | {name: row[name] for name in ("difference", "low", "high")}
        for place, one in enumerate(found["sets"], start=1)
        for order, row in enumerate(rows_of(one))
    ]
    axis = alt.X("difference:Q").axis(title=f"Difference in {label(found['metric'])}", format="+.3~f")
    name = alt.Y("name:N").sort(field="order").axis(labelExpr="datum.label")
    colour = alt.condition("datum.whole", alt.value(colours["model2"]), alt.value(colours["model1"]))
    base = alt.Chart()
    zero = base.mark_rule(strokeDash=[5, 4], color=colours["quiet"]).encode(x=alt.XDatum(0))
    lines = (
        base.mark_rule(strokeWidth=2, opacity=0.55, strokeCap="round")
        .transform_filter("isValid(datum.low)")
        .encode(y=name, x="low:Q", x2="high:Q", color=colour)
    )
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        y=name, x=axis, color=colour, shape=alt.condition("datum.whole", alt.value("diamond"), alt.value("circle"))
    )
    header = alt.Header(labelAngle=0, labelOrient="top", labelPadding=0, title=None)
    chart = (
        alt.layer(zero, lines, points, data={"values": rows})
        .properties(width=WIDTH, height=alt.Step(ROW))
        .facet(row=alt.Row("set:N").header(header), spacing=4)
        .resolve_scale(y="independent")
    )
    made: dict[str, Any] = chart.to_dict()
    look = {"labelColor": colours["quiet"], "labelFontSize": 12, "labelFontWeight": "normal", "labelAnchor": "start"}
    made["config"] = theme.config(colours, font=font) | {"headerRow": look}
    return made

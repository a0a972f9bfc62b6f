"""The differences of table 1 as a chart."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import altair as alt

from evals.reports.charts import theme
from evals.reports.charts.drawing import ROW, WIDTH, Drawing, Spec, points_with_intervals, spec_of
from evals.reports.wording import counted, label
from finetune.table import rows_of


def differences(found: Mapping[str, Any]) -> Drawing:
    """A point for each difference, with a line over its interval, by set."""
    seeds = counted(len(found["seeds"]), "seed")
    subtitle = f"{label(found['metric'])}, {seeds}; lines: 95% intervals over instances and seeds"
    return Drawing("Rows of chosen domains less rows at random", partial(_spec, found), [subtitle])


def _spec(found: Mapping[str, Any], colours: theme.Colours) -> Spec:
    rows = [
        {"set": f"Set {place}", "name": label(row["name"]), "order": order, "whole": row is one["overall"]}
        | {name: row[name] for name in ("difference", "low", "high")}
        for place, one in enumerate(found["sets"], start=1)
        for order, row in enumerate(rows_of(one))
    ]
    axis = alt.X("difference:Q").axis(title=f"Difference in {label(found['metric'])}", format="+.3~f")
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

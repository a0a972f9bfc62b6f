"""The charts: Vega-Lite specifications without data, into which the page and the pictures put the rows that they show."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import altair as alt

from evals.qualeval import rows
from evals.qualeval.rows import MOST, PLURAL, Report, Row, kinds, models, named, overall_rows
from evals.reports.charts import theme
from evals.reports.charts.drawing import WIDTH, Drawing, spec_of
from evals.reports.wording import counted, digits, label, percent
from judges.qualeval import Kind

Spec = dict[str, Any]

# What stands before the bar tells names apart that are the same where they are cut.
_NAME = "slice(datum.label, indexof(datum.label, '|') + 1)"

_ROWS = alt.NamedData(name="rows")
_MEANS = alt.NamedData(name="means")
_INTERVAL = ["low", "high"]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart.

    Attributes:
        name: For files and for the page.
        of: Name of its rows, among those of ``row_sets``.
        spec: In Vega-Lite, with the data sets ``rows`` and perhaps ``means`` left open.
        lane: Pixels of height for a mark.
        apart: Pixels between the marks of two attributes.
        by_model: Whether an attribute has a lane for each model.
        sort: The figure by whose mean over models attributes are sorted, the lowest first, or the highest where there is a
            minus; None where the rows stand in their order.
        kind: The only kind of attribute that it can show.
        cell: Pixels of width for a cell of a table; None where marks take all there is.
        strongest: What the strongest colour stands for, where colours stand for figures.
    """

    name: str
    of: str
    spec: Spec
    lane: int = 16
    apart: int = 10
    by_model: bool = False
    sort: str | None = None
    kind: Kind | None = None
    cell: int | None = None
    strongest: str | None = None

    def lanes(self, models: int) -> int:
        """How many an attribute has."""
        return max(1, models) if self.by_model else 1

    def sized(self, spec: Spec, attributes: int, models: int) -> Spec:
        """A specification with its height, for attributes' names that stand beside the marks."""
        lanes = self.lanes(models)
        apart = self.apart + APART_BY_LANE * (lanes - 1)
        step = lanes * self.lane + apart
        padding = {name: part * apart / step for name, part in PADDINGS.items()}
        return {**spec, "height": step * attributes, "config": {"scale": padding}}


APART_BY_LANE = 3
"""Pixels more between the marks of two attributes for each lane beyond the first."""

PADDINGS = {
    "bandPaddingInner": 1.0,
    "barBandPaddingInner": 1.0,
    "rectBandPaddingInner": 1.0,
    "bandWithNestedOffsetPaddingInner": 1.0,
    "bandPaddingOuter": 0.5,
    "bandWithNestedOffsetPaddingOuter": 0.5,
}
"""Vega-Lite's settings for what is left free between bands and around them, and which part of it each sets."""


def row_sets(report: Report) -> dict[str, list[Row]]:
    """The rows of all charts, by name."""
    return {
        "priors": rows.prior_rows(report),
        "proficiency": rows.proficiency_rows(report),
        "calibration": rows.calibration_rows(report),
        "shares": rows.share_rows(report),
        "pairs": rows.pair_rows(report),
        "cells": rows.cell_rows(report),
    }


def charts(report: Report, sets: Mapping[str, list[Row]]) -> dict[str, Chart]:
    """The charts that the report has figures for."""
    makers: tuple[Callable[[Report, Mapping[str, list[Row]]], Chart], ...] = (
        _priors,
        _proficiency,
        _distance,
        _correlation,
        _shares,
        _pairs,
    )
    made = [make(report, sets) for make in makers]
    return {chart.name: chart for chart in made if sets[chart.of]}


def _priors(report: Report, sets: Mapping[str, list[Row]]) -> Chart:
    top = (rows.extent(sets["priors"], "prior") or (0, 1))[1]
    # There is room for the longest bar's figure beside it, so no axis need be read.
    share = alt.X("prior:Q").axis(None).scale(domain=[0, top * 1.14], nice=False)
    bars = (
        alt.Chart(_ROWS)
        .mark_bar()
        .encode(y=_attribute(), x=share, tooltip=[*_told(), _tip("prior", "Prior", ".1%"), _tip("instances", "Instances", ",")])
    )
    values = bars.mark_text(align="left", dx=6).encode(text=alt.Text("prior:Q").format(".1%"))
    return Chart("priors", "priors", _spec(alt.layer(bars, values)))


def _proficiency(report: Report, sets: Mapping[str, list[Row]]) -> Chart:
    metric = report["metric"]
    places = f".{digits(metric['scale'])}f"
    found = rows.extent([*sets["proficiency"], *rows.overall_rows(report)], "value", *_INTERVAL)
    axis = alt.X("value:Q").axis(title=metric["title"]).scale(domain=found or metric["scale"], nice=True, zero=False)
    means = (
        alt.Chart(_MEANS)
        .mark_rule(strokeDash=[5, 4], strokeWidth=1.5, opacity=0.8)
        .encode(x=axis, color=_own_colour(), tooltip=[_tip("model", "Model"), _tip("value", "Mean over everything", places)])
    )
    return Chart(
        "proficiency",
        "proficiency",
        _spec(alt.layer(means, *_with_intervals("value", axis, metric["title"], places))),
        lane=11,
        apart=16,
        by_model=True,
        sort="value",
    )


def _distance(report: Report, sets: Mapping[str, list[Row]]) -> Chart:
    top = (rows.extent(sets["calibration"], "distance", *_INTERVAL) or (0, 1))[1]
    axis = alt.X("distance:Q").axis(title="Distance", format="~%")
    axis = axis.scale(domain=[0, top], nice=True)
    layers = _with_intervals("distance", axis, "Distance", ".1%")
    return Chart(
        "distance", "calibration", _spec(alt.layer(*layers)), lane=11, apart=16, by_model=True, sort="-distance", kind="subtask"
    )


def _correlation(report: Report, sets: Mapping[str, list[Row]]) -> Chart:
    found = rows.extent(sets["calibration"], "correlation") or (0.0, 1.0)
    scale = [-1 if found[0] < 0 else 0, 1]
    points = (
        _points()
        .transform_filter("isValid(datum.correlation)")
        .encode(
            y=_attribute(),
            yOffset=_lane(),
            x=alt.X("correlation:Q").axis(title="Rank correlation").scale(domain=scale),
            **_marked(),
            tooltip=[
                *_told(),
                _tip("model", "Model"),
                _tip("correlation", "Rank correlation", ".2f"),
                _tip("instances", "Instances", ","),
            ],
        )
    )
    return Chart("correlation", "calibration", _spec(points), lane=11, apart=16, by_model=True, sort="-distance", kind="subtask")


def _shares(report: Report, sets: Mapping[str, list[Row]]) -> Chart:
    of = alt.X("of:N").sort(None).axis(orient="top", title=None, labelExpr=_NAME, labelFontSize=13, labelAngle=0, labelPadding=8)
    top = (rows.extent(sets["shares"], "share") or (0, 1))[1]
    score = alt.XOffset("score:O").scale(paddingInner=0.08, paddingOuter=0)
    cells = (
        alt.Chart(_ROWS)
        .transform_calculate(of_name=_NAME.replace("datum.label", "datum.of"))
        .mark_rect(cornerRadius=1)
        .encode(
            y=_attribute(),
            x=of.scale(paddingInner=0.12, paddingOuter=0),
            xOffset=score,
            fillOpacity=alt.FillOpacity("share:Q").scale(domain=[0, top], range=[0.05, 1]).legend(None),
            tooltip=[*_told(), _tip("of_name", "Of"), _tip("score", "Affinity"), _tip("share", "Share of instances", ".1%")],
        )
    )
    scores = (
        alt.Chart(_ROWS)
        .transform_aggregate(groupby=["of", "score"])
        .mark_text(dy=12, fontSize=11)
        .encode(x=of.scale(paddingInner=0.12, paddingOuter=0), xOffset=score, y=alt.value("height"), text="score:O")
    )
    return Chart("shares", "shares", _spec(alt.layer(cells, scores)), lane=22, apart=3, cell=32, strongest=percent(top))


def _pairs(report: Report, sets: Mapping[str, list[Row]]) -> Chart:
    top = max((row["instances"] for row in sets["cells"]), default=1)
    place = alt.X("other_place:O").axis(title=None, labelAngle=0, labelOverlap=True, orient="top")
    cells = (
        alt.Chart(_ROWS)
        .mark_rect(cornerRadius=1)
        .encode(
            y=alt.Y("attribute_numbered:N").sort(field="place", op="min").axis(labelExpr=_NAME),
            x=place.scale(paddingInner=0.08, paddingOuter=0),
            fillOpacity=alt.FillOpacity("instances:Q").scale(domain=[0, top], range=[0.05, 1]).legend(None),
            tooltip=[
                *_told(),
                _tip("other", "With"),
                _tip("instances", "Instances", ","),
                _tip("share", "Of the rarer's", ".0%"),
            ],
        )
    )
    return Chart("pairs", "cells", _spec(cells), lane=22, apart=2, cell=34, strongest=counted(top, "instance"))


def _with_intervals(field: str, axis: alt.X, what: str, places: str) -> list[alt.Chart]:
    """A point for each row, in the lane of its model, and a line over its interval."""
    lines = (
        alt.Chart(_ROWS)
        .transform_filter("isValid(datum.low) && isValid(datum.high)")
        .mark_rule(strokeWidth=2, opacity=0.55, strokeCap="round")
        .encode(y=_attribute(), yOffset=_lane(), x=alt.X("low:Q"), x2="high:Q", color=_own_colour())
    )
    tips = [_tip("model", "Model"), _tip(field, what, places), _tip("low", "From", places), _tip("high", "To", places)]
    points = _points().transform_filter(f"isValid(datum.{field})")
    points = points.encode(
        y=_attribute(), yOffset=_lane(), x=axis, **_marked(), tooltip=[*_told(), *tips, _tip("instances", "Instances", ",")]
    )
    return [lines, points]


def _points() -> alt.Chart:
    chart: alt.Chart = alt.Chart(_ROWS).mark_point(filled=True, size=70, opacity=1, strokeWidth=1.5)
    return chart


def _marked() -> dict[str, Any]:
    """How a point tells its model, and, if it is hollow, that there are few instances."""
    hollow = alt.condition("datum.few", alt.value(0), alt.value(1))
    return {"color": _model(), "shape": _model(alt.Shape), "stroke": _own_colour(alt.Stroke), "fillOpacity": hollow}


def _attribute() -> alt.Y:
    return alt.Y("attribute_key:N").sort(None).axis(labelExpr=_NAME)


def _lane() -> alt.YOffset:
    return alt.YOffset("model_key:N").sort(None)


def _model(channel: Any = alt.Color) -> Any:
    return channel("model_key:N").sort(None).legend(labelExpr=_NAME, symbolOpacity=1)


def _own_colour(channel: Any = alt.Color) -> Any:
    """The model's colour as the row has it. The scale of the points keeps to the points, which the legend shows."""
    return channel("colour:N").scale(None)


def _told() -> list[alt.Tooltip]:
    return [_tip("attribute", "Attribute")]


def _tip(field: str, title: str, places: str | None = None) -> alt.Tooltip:
    return alt.Tooltip(f"{field}:N", title=title) if places is None else alt.Tooltip(f"{field}:Q", title=title, format=places)


def _spec(chart: Any) -> Spec:
    return spec_of(chart.properties(width="container", autosize=alt.AutoSizeParams(type="fit-x", contains="padding")))


def without_legends(spec: Spec) -> Spec:
    """A specification that leaves it to the text around it to tell the models apart."""
    bare = copy.deepcopy(spec)
    for part in (bare, *bare.get("layer", [])):
        for channel in ("color", "shape"):
            if channel in part.get("encoding", {}):
                part["encoding"][channel]["legend"] = None
    return bare


TOP_LEVEL = ("$schema", "autosize", "config")
"""What only a whole specification may say, not a part of one."""

TITLES = {"priors": "Priors of", "proficiency": "Proficiency by", "calibration": "Skill calibration by"}


def pictures(report: Report, sets: Mapping[str, list[Row]]) -> dict[str, Drawing]:
    """The main charts as pictures, by name. Charts that the report has no figures for are left out.

    Args:
        report: As ``report.json`` has it.
        sets: Its rows, as ``charts.row_sets`` makes them.
    """
    found, drawn = charts(report, sets), {}
    for kind in kinds(report):
        for name in ("priors", "proficiency"):
            of_kind = [row for row in sets[name] if row["kind"] == kind]
            if name in found and of_kind:
                drawn[f"{name}-{kind}"] = _drawn(report, name, kind, [found[name]], of_kind)
    if "distance" in found:
        parts = [found["distance"], found["correlation"]]
        drawn["calibration"] = _drawn(report, "calibration", "subtask", parts, sets["calibration"])
    return drawn


def picture_names() -> list[str]:
    """The names of all pictures that a report may have."""
    return ["calibration.png", *(f"{name}-{kind}.png" for name in ("priors", "proficiency") for kind in PLURAL)]


def _drawn(report: Report, name: str, kind: Kind, parts: list[Chart], shown: list[Row]) -> Drawing:
    total = len({row["attribute"] for row in shown})
    cut = f"; the first {MOST} of {total}" if total > MOST else ""
    dashes = "; dashed: a model's mean over everything" if name == "proficiency" else ""
    subtitle = f"{label(report['title'])}, {counted(report['counts']['instances'], 'instance')}{dashes}{cut}"
    return Drawing(f"{TITLES[name]} {PLURAL[kind]}", partial(_picture, report, parts, shown), [subtitle])


def _picture(report: Report, parts: list[Chart], every: list[Row], colours: theme.Colours) -> Spec:
    numbers = list(range(len(models(report))))
    total = len({row["attribute"] for row in every})
    specs = [part.sized(part.spec, min(total, MOST), len(numbers)) for part in parts]
    look = theme.model_range(numbers, colours) | specs[0]["config"]
    if len(numbers) < 2:
        specs = [without_legends(spec) for spec in specs]
    shown = {"rows": rows.first(every), "means": overall_rows(report)}
    return {
        **_beside([{key: part for key, part in spec.items() if key not in TOP_LEVEL} for spec in specs]),
        "$schema": parts[0].spec["$schema"],
        "datasets": {name: _coloured(report, some, colours) for name, some in shown.items()},
        "config": look,
    }


def _beside(specs: list[Spec]) -> Spec:
    """One chart, or two beside each other, of which the second goes by the names of the first."""
    if len(specs) == 1:
        return {**specs[0], "width": WIDTH}
    wide, slim = copy.deepcopy(specs)
    wide["width"], slim["width"] = WIDTH * 3 // 5, WIDTH * 2 // 5
    slim["encoding"]["y"]["axis"] = {"labels": False, "minExtent": 0, "maxExtent": 0}
    return {"hconcat": [wide, slim], "spacing": 48}


def _coloured(report: Report, shown: list[Row], colours: theme.Colours) -> list[Row]:
    """Rows as charts show them: with names, and the model's colour where they are of one."""
    return [
        called if row.get("model") is None else {**called, "colour": colours[theme.model_name(row["model"])]}
        for row, called in zip(shown, named(report, shown), strict=True)
    ]

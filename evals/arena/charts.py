"""The charts: ratings with their intervals, and how models do by language and by capability."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import altair as alt

from evals.arena.phrases import called, judge_of, pictured
from evals.reports.charts import theme
from evals.reports.charts.drawing import ROW, WIDTH, Drawing, Spec, cut_off, points_with_intervals, spec_of, told_apart
from evals.reports.wording import counted, label

Figures = Mapping[str, Any]

CELL = 58

MOST_RATED = 60
"""Models in the chart of ratings, the first ones."""

MOST_MODELS = 20
"""Models in a chart by capability or by language: more columns than that are wider than any page."""

MOST_PARTS = 60
"""Capabilities or languages in a chart."""

STRONGEST = 0.45
"""How opaque the strongest colour is, so that figures on it can be read on light and on dark paper."""

PARTS = {
    "by_capa": ("CAPA", "What models take of their games, by capability"),
    "by_lang": ("LANG", "What models take of their games, by language"),
}
"""Charts of parts: their kind and title."""


def charts(report: Figures) -> dict[str, Drawing]:
    """The charts that there is something to draw for, by name."""
    judge, battles = judge_of(report), counted(report["counts"]["scored"], "battle")
    told = battles if judge is None else f"{battles}, judged by {label(judge)}"
    drawn = {}
    for name in pictured(report):
        if name == "ratings":
            rated = sum(one["rating"] is not None for one in report["ratings"]["models"])
            told_more = f"{told}; lines: {report['options']['level']:.0%} intervals"
            cut = cut_off((rated, MOST_RATED, "models"))
            drawn[name] = Drawing("Ratings", partial(_ratings, report), [told_more], cut)
        else:
            kind, title = PARTS[name]
            parts = sum(one["kind"] == kind and any(one["models"]) for one in report["standings"])
            cut = cut_off((len(report["models"]), MOST_MODELS, "models"), (parts, MOST_PARTS, "rows"))
            drawn[name] = Drawing(title, partial(_shares, report, kind), [told], cut)
    return drawn


def labels(names: Iterable[str]) -> list[str]:
    """Names as charts have room for them, each of its own: names that differ only where they are cut off are numbered."""
    return told_apart([label(called(name)) for name in names])


def _ratings(report: Figures, colours: theme.Colours) -> Spec:
    """A point for each model, with a line over its interval, the best first."""
    rated, names = report["ratings"]["models"], labels(report["models"])
    shown = [model for model in report["order"] if rated[model]["rating"] is not None][:MOST_RATED]
    rows = [
        {"name": names[model], "order": place, **{part: rated[model][part] for part in ("rating", "low", "high")}}
        for place, model in enumerate(shown)
    ]
    axis = alt.X("rating:Q").axis(title="Rating, Elo points").scale(zero=False)
    name = alt.Y("name:N").sort(field="order").axis(minExtent=0)
    marks = points_with_intervals(alt.Chart(alt.InlineData(rows)), name, axis, size=80, color=alt.value(colours["accent"]))
    return _spec(alt.layer(*marks).properties(width=WIDTH, height=alt.Step(ROW)))


def _shares(report: Figures, kind: str, colours: theme.Colours) -> Spec:
    """A cell for each model and part: what it takes of its games there, a tie being one half. White is one half."""
    names = labels(report["models"])
    shown = report["order"][:MOST_MODELS]
    parts = [one for one in report["standings"] if one["kind"] == kind and any(one["models"])][:MOST_PARTS]
    titles = labels(one["name"] for one in parts)
    rows = [
        {
            "part": titles[place],
            "place": place,
            "name": names[model],
            "order": order,
            "taken": cell["win"] + cell["tie"] / 2,
            "apart": abs(cell["win"] + cell["tie"] / 2 - 0.5),
        }
        for place, one in enumerate(parts)
        for order, model in enumerate(shown)
        if (cell := one["models"][model])
    ]
    models = alt.X("name:N").sort(field="order").axis(title=None, orient="top", labelAngle=-35, labelAlign="left", labelLimit=160)
    part = alt.Y("part:N").sort(field="place").axis(minExtent=0)
    base = alt.Chart(alt.InlineData(rows)).encode(x=models, y=part)
    colour = alt.condition("datum.taken < 0.5", alt.value(colours["model2"]), alt.value(colours["model1"]))
    cells = base.mark_rect(cornerRadius=2).encode(
        color=colour, opacity=alt.Opacity("apart:Q").scale(domain=[0, 0.5], range=[0.04, STRONGEST]).legend(None)
    )
    figures = base.mark_text(fontSize=12, color=colours["ink"]).encode(text=alt.Text("taken:Q").format(".0%"))
    return _spec(alt.layer(cells, figures).properties(width=alt.Step(CELL), height=alt.Step(ROW)))


def _spec(chart: Any) -> Spec:
    return {**spec_of(chart), "title": {"frame": "bounds"}}

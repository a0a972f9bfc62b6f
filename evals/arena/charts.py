"""The charts: ratings with their intervals, and how models do by language and by capability, in all and against each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt

from evals.arena.phrases import called, judge_of, pictured
from evals.reports.charts import theme
from evals.reports.charts.drawing import ROW, WIDTH, Drawing, Spec, cut_off, points_with_intervals, spec_of, told_apart
from evals.reports.wording import counted, label

Figures = Mapping[str, Any]

CELL = 58

NARROW = 44
LABELS = 130
"""Pixels: a cell of a panel, and the names beside it."""

MOST_PANELS = 9
"""Capabilities or languages whose models are shown against each other."""

MOST_MET = 8
"""Models in such a panel."""

WIDEST = 1000
"""Pixels that such panels beside each other may take."""

MOST_RATED = 60
"""Models in the chart of ratings, the first ones."""

MOST_MODELS = 20
"""Models in a chart by capability or by language: more columns than that are wider than any page."""

MOST_PARTS = 60
"""Capabilities or languages in a chart."""

STRONGEST = 0.45
"""How opaque the strongest colour is, so that figures on it can be read on light and on dark paper."""

MODELS_AXIS: Any = {"title": None, "orient": "top", "labelAngle": -35, "labelAlign": "left", "labelLimit": 160}

PARTS = {"capa": ("CAPA", "capability"), "lang": ("LANG", "language")}
"""Ends of the names of charts of parts: their kind, and how it is called."""


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
            drawn[name] = _of_parts(report, name, told)
    return drawn


def _of_parts(report: Figures, name: str, told: str) -> Drawing:
    prefix, _, end = name.rpartition("by_")
    kind, word = PARTS[end]
    title, draw, most_models, most, what = TAKEN if prefix else WON
    parts = sum(part["kind"] == kind and any(part["models"]) for part in report["standings"])
    cut = cut_off((len(report["models"]), most_models, "models"), (parts, most, what))
    return Drawing(f"{title}, by {word}", partial(draw, report, kind), [told], cut)


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
    models = alt.X("name:N").sort(field="order").axis(**MODELS_AXIS)
    part = alt.Y("part:N").sort(field="place").axis(minExtent=0)
    base = alt.Chart(alt.InlineData(rows)).encode(x=models, y=part)
    colour = alt.condition("datum.taken < 0.5", alt.value(colours["model2"]), alt.value(colours["model1"]))
    cells = base.mark_rect(cornerRadius=2).encode(
        color=colour, opacity=alt.Opacity("apart:Q").scale(domain=[0, 0.5], range=[0.04, STRONGEST]).legend(None)
    )
    figures = base.mark_text(fontSize=12, color=colours["ink"]).encode(text=alt.Text("taken:Q").format(".0%"))
    return _spec(alt.layer(cells, figures).properties(width=alt.Step(CELL), height=alt.Step(ROW)))


def _against(report: Figures, kind: str, colours: theme.Colours) -> Spec:
    """A panel for each part, with a cell for each two models: the share of their games that the row's model won.

    Source: OpenCompass's summarizer, whose ``by_lang.png`` and ``by_capa.png`` these are.
    """
    names = labels(report["models"])
    shown = [names[model] for model in report["order"][:MOST_MET]]
    parts = [one for one in report["standings"] if one["kind"] == kind and any(one["models"])][:MOST_PANELS]
    panels = [
        _panel(title, shown, [row[:MOST_MET] for row in part["won"][:MOST_MET]], colours)
        for title, part in zip(labels(one["name"] for one in parts), parts, strict=True)
    ]
    return _spec(alt.concat(*panels, columns=max(1, WIDEST // (NARROW * len(shown) + LABELS))))


def _panel(title: str, names: Sequence[str], won: Sequence[Sequence[float | None]], colours: theme.Colours) -> Any:
    rows = [
        {"name": name, "opponent": opponent, "won": share}
        for name, line in zip(names, won, strict=True)
        for opponent, share in zip(names, line, strict=True)
        if share is not None
    ]
    order = list(names)
    columns = alt.X("opponent:N").scale(domain=order).axis(**MODELS_AXIS)
    base = alt.Chart(alt.InlineData(rows)).encode(x=columns, y=alt.Y("name:N").scale(domain=order).axis(title=None, minExtent=0))
    opacity = alt.Opacity("won:Q").scale(domain=[0, 1], range=[0.04, STRONGEST]).legend(None)
    cells = base.mark_rect(cornerRadius=2, color=colours["model1"]).encode(opacity=opacity)
    figures = base.mark_text(fontSize=12, color=colours["ink"]).encode(text=alt.Text("won:Q").format(".0%"))
    return alt.layer(cells, figures, title=alt.TitleParams(title, fontSize=15), width=alt.Step(NARROW), height=alt.Step(ROW))


TAKEN = ("What models take of their games", _shares, MOST_MODELS, MOST_PARTS, "rows")
WON = ("Games that the row’s model wins against the column’s", _against, MOST_MET, MOST_PANELS, "parts")
"""Charts of parts: the title, how they are drawn, how many models and parts they show, and what the latter are."""


def _spec(chart: Any) -> Spec:
    return {**spec_of(chart), "title": {"frame": "bounds"}}

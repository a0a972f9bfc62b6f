"""The charts: ratings with their intervals, and how models do by language and by capability."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import altair as alt
import vl_convert

from evals.arena.words import called, judge_of, pictured
from evals.reports.charts import theme
from evals.reports.wording import counted, label

Figures = Mapping[str, Any]
Spec = dict[str, Any]

WIDTH = 560
ROW = 30
CELL = 58
SCALE = 2.0

MOST_RATED = 60
"""Models in the chart of ratings, the first ones."""

MOST_MODELS = 20
"""Models in a chart by capability or by language: more columns than that are wider than any page."""

MOST_PARTS = 60
"""Capabilities or languages in a chart."""

STRONGEST = 0.45
"""How opaque the strongest colour is, so that figures on it can be read on light and on dark paper."""

PARTS = {"CAPA": "by_capa", "LANG": "by_lang"}
TITLES = {"CAPA": "What models take of their games, by capability", "LANG": "What models take of their games, by language"}


def pictures(report: Figures) -> Iterator[tuple[str, bytes]]:
    """Draw the charts, each with its name and its ending, on a light ground with a title."""
    judge = judge_of(report)
    battles = counted(report["counts"]["scored"], "battle")
    told = battles if judge is None else f"{battles}, judged by {label(judge)}"
    for name, (title, chart) in _charts(report, theme.LIGHT, theme.PICTURE_FONT).items():
        lines = [told, *left_out(report, name)]
        if name == "ratings":
            lines[0] += f"; lines: {report['options']['level']:.0%} intervals"
        whole = chart | {
            "title": {"text": title, "subtitle": lines, "frame": "bounds"},
            "background": theme.LIGHT["paper"],
            "padding": 24,
        }
        yield f"{name}.png", vl_convert.vegalite_to_png(whole, scale=SCALE, allowed_base_urls=[])


def drawings(report: Figures) -> dict[str, str]:
    """The charts as SVG, for a page, whose colours they take."""
    found = _charts(report, theme.VARIABLES, theme.SANS)
    # A browser's font may be wider than the one that the chart was laid out with.
    return {
        name: vl_convert.vegalite_to_svg({**chart, "padding": 14}, allowed_base_urls=[]) for name, (_, chart) in found.items()
    }


def left_out(report: Figures, name: str) -> list[str]:
    """What a chart has no room for, in a sentence."""
    if name == "ratings":
        rated = sum(one["rating"] is not None for one in report["ratings"]["models"])
        return [f"The first {MOST_RATED} of {rated} models"] if rated > MOST_RATED else []
    parts = sum(PARTS[one["kind"]] == name and any(one["models"]) for one in report["standings"])
    over = [(len(report["models"]), MOST_MODELS, "models"), (parts, MOST_PARTS, "rows")]
    shown = [f"the first {most} of {amount} {what}" for amount, most, what in over if amount > most]
    return [" and ".join(shown).capitalize()] if shown else []


def labels(names: Iterable[str]) -> list[str]:
    """Names as charts have room for them, each of its own: names that differ only where they are cut off are numbered."""
    found: dict[str, None] = {}
    for name in names:
        own = short = label(called(name))
        times = 1
        while own in found:
            times += 1
            own = f"({times}) {short}"
        found[own] = None
    return list(found)


def _charts(report: Figures, colours: theme.Colours, font: str) -> dict[str, tuple[str, Spec]]:
    kinds = {name: kind for kind, name in PARTS.items()}
    found = {}
    for name in pictured(report):
        kind = kinds.get(name)
        found[name] = ("Ratings", _ratings(report, colours)) if kind is None else (TITLES[kind], _shares(report, kind, colours))
    return {name: (title, spec | {"config": theme.config(colours, font=font)}) for name, (title, spec) in found.items()}


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
    base = alt.Chart(alt.InlineData(rows))
    lines = (
        base.mark_rule(strokeWidth=2, opacity=0.55, strokeCap="round", color=colours["accent"])
        .transform_filter("isValid(datum.low)")
        .encode(y=name, x="low:Q", x2="high:Q")
    )
    points = base.mark_point(filled=True, size=80, opacity=1, color=colours["accent"]).encode(y=name, x=axis)
    return _spec(alt.layer(lines, points).properties(width=WIDTH, height=alt.Step(ROW)))


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
    made: Spec = chart.to_dict()
    made.pop("config", None)  # Altair's own look
    return made

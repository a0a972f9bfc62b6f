"""Charts as pictures, drawn without a browser: as PNG to lie beside a text, as SVG to stand in a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import vl_convert

from evals.reports.charts import theme

Spec = dict[str, Any]
"""A chart in Vega-Lite."""

SCALE = 2.0
WIDTH = 560
ROW = 30
NARROW, NARROW_CELL = 260, 40
"""The widths on a telephone: of a chart, and of a cell of one that goes by cells."""

ROOM, ROOM_OF_LABELS = 14, 44
"""Pixels around a chart in a page, and on its left: a browser's font may be wider than the one it was laid out with."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart that can be drawn in any colours.

    Attributes:
        title: What it shows.
        spec: In Vega-Lite, by the colours. Of ``title`` and ``config`` it has what differs from other charts.
        subtitle: Lines below the title.
        cut: What it has no room for, a line below those.
    """

    title: str
    spec: Callable[[theme.Colours], Spec]
    subtitle: Sequence[str] = ()
    cut: Sequence[str] = ()

    def png(self) -> bytes:
        """On a light ground, with its title."""
        made = self._with_look(theme.LIGHT, theme.PICTURE_FONT)
        title = {"text": self.title, "subtitle": [*self.subtitle, *self.cut], **made.get("title", {})}
        whole = {**made, "title": title, "background": theme.LIGHT["paper"], "padding": 24}
        return vl_convert.vegalite_to_png(whole, scale=SCALE, allowed_base_urls=[])

    def svg(self) -> str:
        """For a page, whose colours it takes."""
        return _svg(self._with_look(theme.VARIABLES, theme.SANS))

    def narrow_svg(self) -> str:
        """For a page on a telephone."""
        return _svg(_narrowed(self._with_look(theme.VARIABLES, theme.SANS)))

    def _with_look(self, colours: theme.Colours, font: str) -> Spec:
        made, look = self.spec(colours), theme.config(colours, font=font)
        own = {name: {**look.get(name, {}), **part} for name, part in made.get("config", {}).items()}
        return {**made, "config": look | own}


def _svg(spec: Spec) -> str:
    """A chart without its title, which says how wide it would be for a page to make it smaller."""
    room = {"left": ROOM_OF_LABELS, "right": ROOM, "top": ROOM, "bottom": ROOM}
    drawn: str = vl_convert.vegalite_to_svg({**spec, "title": None, "padding": room}, allowed_base_urls=[])
    return re.sub(r'<svg (?=[^>]*\bwidth="([\d.]+)")', r'<svg style="--wide: \1px" ', drawn, count=1)


def _narrowed(spec: Spec) -> Spec:
    """A chart with less width, and its panels one below the other, each with the names of its rows."""
    width = spec.get("width")
    made = {**spec, "concat": [_narrowed(_named(one)) for one in spec["concat"]], "columns": 1} if "concat" in spec else {**spec}
    if isinstance(width, Mapping):
        return made | {"width": {"step": min(width["step"], NARROW_CELL)}}
    return made if width is None else made | {"width": min(width, NARROW)}


def _named(panel: Spec) -> Spec:
    layers = [{**one, "encoding": {**one["encoding"], "y": _with_labels(one["encoding"]["y"])}} for one in panel["layer"]]
    return {**panel, "layer": layers}


def _with_labels(y: Spec) -> Spec:
    return {**y, "axis": {**y.get("axis", {}), "labels": True}}


def spec_of(chart: Any) -> Spec:
    """An Altair chart in Vega-Lite, without Altair's own look."""
    made: Spec = chart.to_dict()
    made.pop("config", None)
    return made


def points_with_intervals(base: alt.Chart, y: alt.Y, x: alt.X, *, size: int = 70, **told: Any) -> tuple[alt.Chart, alt.Chart]:
    """Lines over the intervals from ``low`` to ``high``, and points; what tells rows apart, such as ``color``, is given."""
    lines = (
        base.mark_rule(strokeWidth=2, opacity=0.55, strokeCap="round")
        .transform_filter("isValid(datum.low)")
        .encode(y=y, x="low:Q", x2="high:Q", **told)
    )
    return lines, base.mark_point(filled=True, size=size, opacity=1).encode(y=y, x=x, **told)


def cut_off(*over: tuple[int, int, str]) -> list[str]:
    """What a chart has no room for, as a line of its subtitle: of how many there are, how many it shows, and what they are."""
    shown = [f"the first {most} of {amount} {what}" for amount, most, what in over if amount > most]
    return [" and ".join(shown).capitalize()] if shown else []


def told_apart(names: Sequence[str]) -> list[str]:
    """Names that a chart has cut off, each of its own: those that are the same now are numbered."""
    found: dict[str, None] = {}
    for short in names:
        own, times = short, 1
        while own in found:
            times += 1
            own = f"({times}) {short}"
        found[own] = None
    return list(found)

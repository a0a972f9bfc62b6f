"""How the page and the charts look: two palettes, and what every chart has in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Colours = Mapping[str, str]

SERIF = 'Charter, "Bitstream Charter", "Iowan Old Style", "Source Serif 4", Georgia, "Liberation Serif", serif'
SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", sans-serif'
MONO = 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "Liberation Mono", monospace'
PICTURE_FONT = "Helvetica Neue, Arial, Liberation Sans, DejaVu Sans, sans-serif"

LIGHT: Colours = {
    "paper": "#fbfaf7",
    "ink": "#22211f",
    "quiet": "#625f59",
    "rule": "#dedad1",
    "wash": "#f2efe8",
    "accent": "#14584c",
    "model1": "#14584c",
    "model2": "#b5532a",
    "model3": "#35589c",
    "model4": "#8a6712",
    "model5": "#7b4185",
    "model6": "#53771f",
    "model7": "#a8345f",
    "model8": "#5b6670",
}

DARK: Colours = {
    "paper": "#191a1b",
    "ink": "#e6e3dc",
    "quiet": "#a5a199",
    "rule": "#38393a",
    "wash": "#222425",
    "accent": "#84ccba",
    "model1": "#84ccba",
    "model2": "#e79a72",
    "model3": "#94b4f0",
    "model4": "#d8be6c",
    "model5": "#d0a2d8",
    "model6": "#aad283",
    "model7": "#f09cb6",
    "model8": "#b5bfc9",
}

# A browser takes a variable wherever a chart has a colour, so that charts follow the page without being drawn again.
VARIABLES: Colours = {name: f"var(--{name})" for name in LIGHT}

MODEL_COLOURS = tuple(name for name in LIGHT if name.startswith("model"))
GLYPHS = ("●", "◆", "■", "▲", "✚", "▼", "▶", "◀")
"""The shapes, where a text tells of a model."""

SHAPES = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down", "triangle-right", "triangle-left")
"""A model's colour is never the only thing that tells it from the others."""

LABEL_WIDTH = 270
"""Pixels for the attributes' names, where they stand beside the marks."""

Config = dict[str, Any]


def config(colours: Colours, *, narrow: bool = False, font: str = SANS) -> Config:
    """What all charts have in common, as Vega-Lite's ``config``.

    Args:
        colours: Of the palette, or the page's variables.
        narrow: Whether the attributes' names stand above their marks, for want of width.
        font: The font's name.
    """
    beside = {"labelLimit": LABEL_WIDTH - 10, "minExtent": LABEL_WIDTH, "maxExtent": LABEL_WIDTH, "labelPadding": 10}
    above = {"labelAlign": "left", "labelPadding": 0, "labelLimit": 300, "minExtent": 0, "maxExtent": 0, "zindex": 1}
    return {
        "aria": False,
        "background": None,
        "font": font,
        "view": {"stroke": None},
        "axis": {
            "labelColor": colours["quiet"],
            "labelFontSize": 12,
            "titleColor": colours["quiet"],
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 10,
            "titleLimit": 280,
            "gridColor": colours["rule"],
            "domain": False,
            "ticks": False,
            "labelPadding": 6,
        },
        "axisXQuantitative": {"tickCount": 4 if narrow else 6, "titleAnchor": "start", "labelFlush": False},
        "axisTop": {"offset": 10 if narrow else 0},
        "axisYBand": {
            "labelColor": colours["ink"],
            "labelFontSize": 13,
            "grid": False,
            "title": None,
            **(above if narrow else beside),
        },
        "legend": {
            "orient": "top",
            "title": None,
            "labelColor": colours["ink"],
            "labelFontSize": 13,
            "labelLimit": 220,
            "symbolSize": 90,
            "symbolOpacity": 1,
            "offset": 14,
            "columns": 2 if narrow else 4,
            "columnPadding": 24,
        },
        "title": {
            "anchor": "start",
            "frame": "group",
            "color": colours["ink"],
            "fontSize": 18,
            "fontWeight": 600,
            "subtitleColor": colours["quiet"],
            "subtitleFontSize": 13,
            "subtitlePadding": 6,
            "offset": 18,
        },
        "bar": {"color": colours["accent"], "cornerRadiusEnd": 2},
        "rect": {"color": colours["accent"]},
        "rule": {"color": colours["quiet"]},
        "text": {"color": colours["quiet"], "fontSize": 12},
    }


def model_name(number: int) -> str:
    """What the palette calls the colour of a model, by its number from 0."""
    return MODEL_COLOURS[number % len(MODEL_COLOURS)]


def model_range(numbers: Sequence[int], colours: Colours) -> Config:
    """The part of a ``config`` that gives models, by their numbers from 0, their colours and shapes, whichever are shown."""
    return {
        "range": {
            "category": [colours[model_name(number)] for number in numbers],
            "symbol": [SHAPES[number % len(SHAPES)] for number in numbers],
        }
    }

"""The matrix of cases: a square for each question and kind of answer, passed, failed or unscored, in a panel for each metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from string import ascii_lowercase
from typing import Any

import altair as alt
import vl_convert

from evals.dashboard import theme
from evals.dashboard.words import label, percent
from evals.meta.grounded.conditions import ALL
from evals.meta.grounded.report import Report
from evals.meta.grounded.study import Result
from evals.meta.grounded.text import MATRIX, TITLES, UNLABELLED, called

CELL = 22
SCALE = 2.0

MOST_COLUMNS = 60
"""Columns in a panel: more than that are wider than any page."""

MOST_KINDS = 60

WIDE = 45
"""Columns of panels that stand beside one another, at the most."""

SIGNS = {"passed": "", "failed": "×", "unscored": "?"}
COLOURS = {"passed": "model1", "failed": "model2", "unscored": "rule"}
OPACITY = {"passed": 0.28, "failed": 0.75, "unscored": 1.0}


def pictures(report: Report) -> Iterator[tuple[str, bytes]]:
    """Draw the matrix, with its name."""
    columns, kinds = places(report.study.results)
    shown = list(columns)[:MOST_COLUMNS], kinds[:MOST_KINDS]
    panels = [_panel(report, metric, *shown, first=not place % _beside(shown[0])) for place, metric in enumerate(ALL)]
    whole = alt.concat(*panels, columns=_beside(shown[0]), spacing=26).resolve_scale(color="shared", opacity="shared")
    made: dict[str, Any] = whole.to_dict()
    config = theme.config(theme.LIGHT, font=theme.PICTURE_FONT)
    config["title"] |= {"fontSize": 14, "offset": 8}
    made |= {
        "title": {
            "text": "Which cases are passed",
            "subtitle": [
                f"{label(called(report))}: {percent(report.study.total)} over all metrics; × is failed, ? is unscored",
                *_left_out(len(columns), len(kinds)),
            ],
            "fontSize": 18,
        },
        "config": config,
        "background": theme.LIGHT["paper"],
        "padding": 24,
    }
    yield MATRIX, vl_convert.vegalite_to_png(made, scale=SCALE, allowed_base_urls=[])


def places(results: Sequence[Result]) -> tuple[dict[str, tuple[str, int]], list[str]]:
    """The columns and rows that the cases need.

    Returns:
        Column's heading to its question and which of its cases of a kind it holds, from 0; and the kinds. A question that has
        several cases of a kind has as many columns: 1, 1b, 1c.
    """
    needed: dict[str, int] = {}
    for (question, _), count in Counter((one.set, one.kind) for one in results).items():
        needed[question] = max(count, needed.get(question, 0))
    columns = {
        f"{number}{_letter(again)}": (question, again)
        for number, (question, count) in enumerate(needed.items(), start=1)
        for again in range(count)
    }
    return columns, list(dict.fromkeys(one.kind for one in results))


def _letter(again: int) -> str:
    if not again:
        return ""
    return ascii_lowercase[again] if again < len(ascii_lowercase) else f".{again + 1}"


def _panel(report: Report, metric: str, columns: Sequence[str], kinds: Sequence[str], *, first: bool) -> Any:
    headings = {place: name for name, place in places(report.study.results)[0].items()}
    titles = _titles(kinds)
    seen: Counter[tuple[str, str]] = Counter()
    rows = []
    for one in report.study.results:
        column = headings[one.set, seen[one.set, one.kind]]
        seen[one.set, one.kind] += 1
        if column in columns and one.kind in titles:
            outcome = one.outcomes[metric]
            rows.append({"column": column, "kind": titles[one.kind], "outcome": outcome, "sign": SIGNS[outcome]})
    axis = alt.Axis(title=None, minExtent=0, labels=first, labelLimit=theme.LABEL_WIDTH, labelPadding=8)
    across = alt.Axis(title=None, orient="bottom", labelAngle=0, labelFontSize=11, labelOverlap=False)
    base = alt.Chart(alt.InlineData(rows)).encode(
        x=alt.X("column:N", sort=list(columns), axis=across, scale=alt.Scale(domain=list(columns))),
        y=alt.Y("kind:N", sort=list(titles.values()), axis=axis, scale=alt.Scale(domain=list(titles.values()))),
    )
    names = list(SIGNS)
    colours = alt.Scale(domain=names, range=[theme.LIGHT[COLOURS[name]] for name in names])
    opacity = alt.Scale(domain=names, range=[OPACITY[name] for name in names])
    cells = base.mark_rect(cornerRadius=2, stroke=theme.LIGHT["paper"], strokeWidth=1.5).encode(
        color=alt.Color("outcome:N", scale=colours), opacity=alt.Opacity("outcome:N", scale=opacity)
    )
    signs = base.mark_text(fontSize=14, fontWeight=600, color=theme.LIGHT["ink"]).encode(text="sign:N")
    title = f"{TITLES[metric].capitalize()}, {percent(report.study.rates[metric].rate)}"
    return alt.layer(cells, signs).properties(width=alt.Step(CELL), height=alt.Step(CELL), title=title)


def _titles(kinds: Sequence[str]) -> dict[str, str]:
    """Kinds as the chart has room for them, each of its own."""
    found: dict[str, str] = {}
    for kind in kinds:
        name = short = label(kind or UNLABELLED)
        times = 1
        while name in found.values():
            times += 1
            name = f"({times}) {short}"
        found[kind] = name
    return found


def _beside(columns: Sequence[str]) -> int:
    """Panels that stand beside one another."""
    return next((amount for amount in (3, 2) if amount * len(columns) <= WIDE), 1)


def _left_out(columns: int, kinds: int) -> list[str]:
    over = [(columns, MOST_COLUMNS, "columns"), (kinds, MOST_KINDS, "kinds")]
    shown = [f"the first {most} of {amount} {what}" for amount, most, what in over if amount > most]
    return [" and ".join(shown).capitalize()] if shown else []

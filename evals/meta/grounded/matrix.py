"""The matrix of cases: a square for each question and kind of answer, passed, failed or unscored, in a panel for each metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from string import ascii_lowercase
from typing import Any

import altair as alt

from evals.meta.grounded.conditions import ALL
from evals.meta.grounded.study import Result, Study
from evals.reports.charts import theme
from evals.reports.charts.drawing import Drawing, Spec, cut_off, spec_of, told_apart
from evals.reports.wording import label, percent

HEADINGS = ("relevancy", "completeness", "usefulness", "faithfulness", "positive acceptance", "negative rejection")
TITLES = dict(zip(ALL, HEADINGS, strict=True))

UNLABELLED = "(no kind)"

CELL = 22

MOST_COLUMNS = 60
"""Columns in a panel: more than that are wider than any page."""

MOST_KINDS = 60

WIDE = 45
"""Columns of panels that stand beside one another, at the most."""

SIGNS = {"passed": "", "failed": "×", "unscored": "?"}
COLOURS = {"passed": "model1", "failed": "model2", "unscored": "rule"}
OPACITY = {"passed": 0.28, "failed": 0.75, "unscored": 1.0}


def matrix(study: Study, judge: str) -> Drawing:
    """The matrix of a judge."""
    columns, kinds = places(study.results)
    lines = [
        f"{label(judge)}: {percent(study.total)} over all metrics; × is failed, ? is unscored",
    ]
    cut = cut_off((len(columns), MOST_COLUMNS, "columns"), (len(kinds), MOST_KINDS, "kinds"))
    return Drawing("Which cases are passed", partial(_panels, study), lines, cut)


def _panels(study: Study, colours: theme.Colours) -> Spec:
    columns, kinds = places(study.results)
    shown = list(columns)[:MOST_COLUMNS], kinds[:MOST_KINDS]
    panels = [_panel(study, metric, *shown, colours, first=not place % _beside(shown[0])) for place, metric in enumerate(ALL)]
    whole = alt.concat(*panels, columns=_beside(shown[0]), spacing=26).resolve_scale(color="shared", opacity="shared")
    return {**spec_of(whole), "title": {"fontSize": 18}, "config": {"title": {"fontSize": 14, "offset": 8}}}


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


def _panel(
    study: Study, metric: str, columns: Sequence[str], kinds: Sequence[str], colours: theme.Colours, *, first: bool
) -> Any:
    headings = {place: name for name, place in places(study.results)[0].items()}
    titles = dict(zip(kinds, told_apart([label(kind or UNLABELLED) for kind in kinds]), strict=True))
    seen: Counter[tuple[str, str]] = Counter()
    rows = []
    for one in study.results:
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
    colour = alt.Scale(domain=names, range=[colours[COLOURS[name]] for name in names])
    opacity = alt.Scale(domain=names, range=[OPACITY[name] for name in names])
    cells = base.mark_rect(cornerRadius=2, stroke=colours["paper"], strokeWidth=1.5).encode(
        color=alt.Color("outcome:N", scale=colour), opacity=alt.Opacity("outcome:N", scale=opacity)
    )
    signs = base.mark_text(fontSize=14, fontWeight=600, color=colours["ink"]).encode(text="sign:N")
    title = f"{TITLES[metric].capitalize()}, {percent(study.rates[metric].rate)}"
    return alt.layer(cells, signs).properties(width=alt.Step(CELL), height=alt.Step(CELL), title=title)


def _beside(columns: Sequence[str]) -> int:
    """Panels that stand beside one another."""
    return next((amount for amount in (3, 2) if amount * len(columns) <= WIDE), 1)

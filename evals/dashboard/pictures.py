"""The charts as PNG, drawn without a browser."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping

import vl_convert

from evals.dashboard.charts import Chart, Spec, charts, without_legends
from evals.dashboard.rows import MOST, PLURAL, Report, Row, first, kinds, models, named, overall_rows
from evals.reports.charts import theme
from evals.reports.wording import counted, label
from judges.qualeval import Kind

WIDTH = 560
"""Of what is drawn beside the attributes' names, in pixels before they are doubled."""

SCALE = 2.0

TOP_LEVEL = ("$schema", "autosize", "config")
"""What only a whole specification may say, not a part of one."""

TITLES = {"priors": "Priors of", "proficiency": "Proficiency by", "calibration": "Skill calibration by"}


def pictures(report: Report, sets: Mapping[str, list[Row]]) -> Iterator[tuple[str, bytes]]:
    """Draw the main charts.

    Args:
        report: As ``report.json`` has it.
        sets: Its rows, as ``charts.row_sets`` makes them.

    Yields:
        Each picture's name, with the ending, and its bytes. Charts that the report has no figures for are left out.
    """
    found = charts(report, sets)
    for kind in kinds(report):
        for name in ("priors", "proficiency"):
            of_kind = [row for row in sets[name] if row["kind"] == kind]
            if name in found and of_kind:
                yield f"{name}-{kind}.png", _drawn(report, name, kind, [found[name]], of_kind)
    if "distance" in found:
        yield (
            "calibration.png",
            _drawn(report, "calibration", "subtask", [found["distance"], found["correlation"]], sets["calibration"]),
        )


def picture_names() -> list[str]:
    """The names of all pictures that a report may have."""
    return ["calibration.png", *(f"{name}-{kind}.png" for name in ("priors", "proficiency") for kind in PLURAL)]


def _drawn(report: Report, name: str, kind: Kind, parts: list[Chart], rows: list[Row]) -> bytes:
    shown = first(rows)
    total = len({row["attribute"] for row in rows})
    cut = f"; the first {MOST} of {total}" if total > MOST else ""
    dashes = "; dashed: a model's mean over everything" if name == "proficiency" else ""
    numbers = list(range(len(models(report))))
    specs = [part.sized(part.spec, min(total, MOST), len(numbers)) for part in parts]
    look = theme.config(theme.LIGHT, font=theme.PICTURE_FONT) | theme.model_range(numbers, theme.LIGHT) | specs[0]["config"]
    if len(numbers) < 2:
        specs = [without_legends(spec) for spec in specs]
    whole = {
        **_beside([{key: part for key, part in spec.items() if key not in TOP_LEVEL} for spec in specs]),
        "$schema": parts[0].spec["$schema"],
        "title": {
            "text": f"{TITLES[name]} {PLURAL[kind]}",
            "subtitle": f"{label(report['title'])}, {counted(report['counts']['instances'], 'instance')}{dashes}{cut}",
        },
        "datasets": {name: _coloured(report, rows) for name, rows in (("rows", shown), ("means", overall_rows(report)))},
        "background": theme.LIGHT["paper"],
        "padding": 24,
        "config": look,
    }
    return vl_convert.vegalite_to_png(whole, scale=SCALE, allowed_base_urls=[])


def _beside(specs: list[Spec]) -> Spec:
    """One chart, or two beside each other, of which the second goes by the names of the first."""
    if len(specs) == 1:
        return {**specs[0], "width": WIDTH}
    wide, slim = copy.deepcopy(specs)
    wide["width"], slim["width"] = WIDTH * 3 // 5, WIDTH * 2 // 5
    slim["encoding"]["y"]["axis"] = {"labels": False, "minExtent": 0, "maxExtent": 0}
    return {"hconcat": [wide, slim], "spacing": 48}


def _coloured(report: Report, rows: list[Row]) -> list[Row]:
    """Rows as charts show them: with names, and the model's colour where they are of one."""
    return [
        {**told, "colour": theme.model_colour(row["model"], theme.LIGHT)} if "model" in row else told
        for row, told in zip(rows, named(report, rows), strict=True)
    ]

"""The charts as PNG, drawn without a browser."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial

from evals.dashboard.charts import Chart, charts, without_legends
from evals.dashboard.rows import MOST, PLURAL, Report, Row, first, kinds, models, named, overall_rows
from evals.reports.charts import theme
from evals.reports.charts.drawing import Drawing, Spec
from evals.reports.wording import counted, label
from judges.qualeval import Kind

WIDTH = 560
"""Of what is drawn beside the attributes' names, in pixels before they are doubled."""

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


def _drawn(report: Report, name: str, kind: Kind, parts: list[Chart], rows: list[Row]) -> Drawing:
    total = len({row["attribute"] for row in rows})
    cut = f"; the first {MOST} of {total}" if total > MOST else ""
    dashes = "; dashed: a model's mean over everything" if name == "proficiency" else ""
    subtitle = f"{label(report['title'])}, {counted(report['counts']['instances'], 'instance')}{dashes}{cut}"
    return Drawing(f"{TITLES[name]} {PLURAL[kind]}", partial(_spec, report, parts, rows), [subtitle])


def _spec(report: Report, parts: list[Chart], rows: list[Row], colours: theme.Colours) -> Spec:
    numbers = list(range(len(models(report))))
    total = len({row["attribute"] for row in rows})
    specs = [part.sized(part.spec, min(total, MOST), len(numbers)) for part in parts]
    look = theme.model_range(numbers, colours) | specs[0]["config"]
    if len(numbers) < 2:
        specs = [without_legends(spec) for spec in specs]
    shown = {"rows": first(rows), "means": overall_rows(report)}
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


def _coloured(report: Report, rows: list[Row], colours: theme.Colours) -> list[Row]:
    """Rows as charts show them: with names, and the model's colour where they are of one."""
    return [
        {**told, "colour": theme.model_colour(row["model"], colours)} if "model" in row else told
        for row, told in zip(rows, named(report, rows), strict=True)
    ]

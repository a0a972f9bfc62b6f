"""The figures of a report as rows, which the charts, the tables and the text share.

A row tells of an attribute by its kind and its number in the report's list, and of a model by its number in the report's list,
since names may be long, and come up in many rows. ``named`` writes the names out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from evals.reports.wording import label, line
from judges.qualeval import Kind

Report = Mapping[str, Any]
Row = dict[str, Any]

SINGULAR: dict[Kind, str] = {"domain": "domain", "subtask": "sub-task"}
PLURAL: dict[Kind, str] = {"domain": "domains", "subtask": "sub-tasks"}

ENOUGH = 10
"""Instances from which on an interval can be relied on. One of fewer is too narrow, and is marked."""

MOST = 30
"""Attributes that a chart shows before it is asked for all of them."""

_TITLES = {"input": "Input", "truth": "Ground truth"}


def kinds(report: Report) -> list[Kind]:
    """The kinds that the report has attributes of."""
    return [kind for kind in get_args(Kind) if report["kinds"].get(kind, {}).get("attributes")]


def models(report: Report) -> list[str]:
    """The models' names."""
    return [model["name"] for model in report["models"]]


def keyed(number: int, name: str) -> str:
    """A name that no other has, which charts show from behind the bar on."""
    return f"{number}|{label(name)}"


def attribute_names(report: Report) -> dict[Kind, list[Row]]:
    """How each attribute is called: ``name`` whole, ``key`` in a chart."""
    return {
        kind: [
            {"name": line(one["name"]), "key": keyed(number, one["name"])}
            for number, one in enumerate(report["kinds"][kind]["attributes"])
        ]
        for kind in kinds(report)
    }


def model_names(report: Report) -> list[Row]:
    """How each model is called: ``name`` whole, ``key`` in a chart."""
    return [{"name": line(name), "key": keyed(number, name)} for number, name in enumerate(models(report))]


def named(report: Report, rows: Iterable[Row]) -> list[Row]:
    """Rows with the names of their attributes and models."""
    attributes, called = attribute_names(report), model_names(report)
    made = []
    for row in rows:
        both = {**row}
        of_kind = attributes.get(row.get("kind", "domain"), [])
        for field, names in (("attribute", of_kind), ("other", of_kind), ("model", called)):
            if row.get(field) is not None:
                both[field], both[f"{field}_key"] = names[row[field]]["name"], names[row[field]]["key"]
        made.append(both)
    return made


def prior_rows(report: Report) -> list[Row]:
    """A row for each attribute, the most common first."""
    rows = [
        {"kind": kind, "attribute": number, "prior": one["prior"], "instances": one["instances"]}
        for kind, number, one in _attributes(report)
    ]
    return sorted(rows, key=lambda row: -_or(row["prior"], 0.0))


def overall_rows(report: Report) -> list[Row]:
    """A row for each model: its mean over everything."""
    return [{"model": number, **one["overall"]} for number, one in enumerate(report["models"])]


def proficiency_rows(report: Report) -> list[Row]:
    """A row for each attribute and model, the weakest attribute first."""
    rows = []
    for kind, number, one in _attributes(report):
        for model, name in enumerate(models(report)):
            found = one.get("proficiency", {}).get(name)
            if found is not None:
                rows.append({"kind": kind, "attribute": number, "model": model, **found, "few": found["instances"] < ENOUGH})
    return _by_mean(rows, "value", 1)


def calibration_rows(report: Report) -> list[Row]:
    """A row for each sub-task and model, that of the greatest distance first."""
    rows = []
    for kind, number, one in _attributes(report):
        for model, name in enumerate(models(report)):
            found = one.get("calibration", {}).get(name)
            if found is not None:
                few = found["instances"] < ENOUGH
                rows.append({"kind": kind, "attribute": number, "model": model, **found, "few": few})
    return _by_mean(rows, "distance", -1)


def share_rows(report: Report) -> list[Row]:
    """A row for each attribute, whatever was rated on it, and score: its share. The most common attribute first.

    ``of`` is what was rated: the input, the ground truth or a model's answers; ``model`` is None where it was no model.
    """
    numbers = {name: number for number, name in enumerate(models(report))}
    rows: list[Row] = []
    for kind in kinds(report):
        rated = report["kinds"][kind].get("affinity_shares", {})
        for attribute in _by_prior(report, kind):
            for place, (of, shares) in enumerate(rated.items()):
                one = {"kind": kind, "attribute": attribute, "of": keyed(place, _TITLES.get(of, of)), "model": numbers.get(of)}
                rows += [{**one, "score": score, "share": share} for score, share in enumerate(shares[attribute], start=1)]
    return rows


def pair_rows(report: Report) -> list[Row]:
    """A row for every two attributes that an instance has, the most frequent first.

    ``attribute`` and ``other`` are their numbers, ``place`` and ``other_place`` (from 1) their places by prior, the other's being
    the lower. ``share`` is that of the instances of the rarer of the two.
    """
    rows: list[Row] = []
    for kind in kinds(report):
        together = report["kinds"][kind].get("together", [])
        counts = [one["instances"] for one in report["kinds"][kind]["attributes"]]
        order = _by_prior(report, kind) if together else []
        for other_place, other in enumerate(order, start=1):
            for place, attribute in enumerate(order[: other_place - 1], start=1):
                if found := together[attribute][other]:
                    both = {"kind": kind, "attribute": attribute, "other": other, "place": place, "other_place": other_place}
                    rarer = min(counts[attribute], counts[other])
                    rows.append({**both, "instances": found, "share": round(found / rarer, 4) if rarer else None})
    return sorted(rows, key=lambda row: -row["instances"])


def cell_rows(report: Report) -> list[Row]:
    """A row for every two attributes, as ``pair_rows`` has them, and another with the two exchanged."""
    rows = []
    for row in pair_rows(report):
        turned = {"attribute": row["other"], "other": row["attribute"], "place": row["other_place"], "other_place": row["place"]}
        rows += [row, row | turned]
    return rows


def first(rows: Sequence[Row], most: int = MOST) -> list[Row]:
    """The rows of the attributes that come first, this many of them."""
    shown: dict[int, None] = {}
    for row in rows:
        if len(shown) < most:
            shown[row["attribute"]] = None
    return [row for row in rows if row["attribute"] in shown]


def extent(rows: Iterable[Row], *fields: str) -> tuple[float, float] | None:
    """The least and the greatest of some figures, a little apart where they are the same; None where there are none."""
    found = [row[field] for row in rows for field in fields if row[field] is not None]
    if not found:
        return None
    low, high = min(found), max(found)
    return (low, high) if low < high else (low - 0.05 * (abs(low) or 1), high + 0.05 * (abs(high) or 1))


def _attributes(report: Report) -> Iterable[tuple[Kind, int, Mapping[str, Any]]]:
    for kind in kinds(report):
        for number, one in enumerate(report["kinds"][kind]["attributes"]):
            yield kind, number, one


def _by_prior(report: Report, kind: Kind) -> list[int]:
    """The attributes' numbers, the most common first."""
    attributes = report["kinds"][kind]["attributes"]
    return sorted(range(len(attributes)), key=lambda number: -_or(attributes[number]["prior"], 0.0))


def _by_mean(rows: list[Row], field: str, sign: int) -> list[Row]:
    """Rows by their attribute's mean over models, those without a figure last; the models of one stay in their order."""
    found: dict[tuple[Kind, int], list[float]] = {}
    for row in rows:
        found.setdefault((row["kind"], row["attribute"]), [])
        if row[field] is not None:
            found[row["kind"], row["attribute"]].append(row[field])
    means = {key: sign * sum(values) / len(values) if values else math.inf for key, values in found.items()}
    return sorted(rows, key=lambda row: (row["kind"], means[row["kind"], row["attribute"]], row["attribute"]))


def _or(value: float | None, other: float) -> float:
    return other if value is None else value

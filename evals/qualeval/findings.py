"""What a report says first: what was measured, what to fix, and what is missing from the figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evals.qualeval.rows import PLURAL, SINGULAR, Report, kinds, models, named, proficiency_rows
from evals.reports.wording import (
    NONE,
    absent,
    counted,
    digits,
    first_few,
    interval,
    label,
    line,
    listed,
    number,
    percent,
    share_with_interval,
    with_interval,
)
from evals.stats.bootstrap import LEVEL
from judges.qualeval import Kind

MOST_WEAK = 5
"""Weak attributes that the report names, for each model and kind."""

MOST_IN_ALL = 12
"""Weak attributes of a kind that the report names, unless there are many models: each has two."""

MOST_NAMED = 3
"""Models that a sentence names; more are counted."""


@dataclass(frozen=True, slots=True)
class Weak:
    """An attribute that a model does clearly worse in than overall.

    Attributes:
        kind: Domain or sub-task.
        model: The model's number.
        name: The attribute's name.
        words: What is wrong with it, as a sentence.
        gap: How far below the model's mean it is.
    """

    kind: Kind
    model: int
    name: str
    words: str
    gap: float


def lead(report: Report) -> str:
    """What was measured, of what, as a sentence."""
    instances = counted(report["counts"]["instances"], "instance")
    found = [counted(len(report["kinds"][kind]["attributes"]), SINGULAR[kind], PLURAL[kind]) for kind in kinds(report)]
    names = [label(name) for name in models(report)]
    if not names:
        verb = "consists" if report["counts"]["instances"] == 1 else "consist"
        return f"What {instances} {verb} of: {listed(found)}. No model’s answers were studied."
    who = listed(names) if len(names) <= MOST_NAMED else f"{len(names)} models"
    verb = "does" if len(names) == 1 else "do"
    return f"How well {who} {verb} on {instances}, by {report['metric']['title']}, over {listed(found)}."


def weak_attributes(report: Report) -> list[Weak]:
    """For each model and kind the attributes furthest below the model's mean, among those that have instances enough and whose
    interval ends below it. The furthest first.
    """
    places = digits(report["metric"]["scale"])
    most = min(MOST_WEAK, max(2, MOST_IN_ALL // max(1, len(report["models"]))))
    found: list[Weak] = []
    taken: dict[tuple[Kind, int], int] = {}
    for row in sorted(proficiency_rows(report), key=lambda row: _gap(report, row), reverse=True):
        mean = report["models"][row["model"]]["overall"]["value"]
        if row["few"] or mean is None or row["high"] is None or row["high"] >= mean:
            continue
        key = (row["kind"], row["model"])
        taken[key] = taken.get(key, 0) + 1
        if taken[key] > most:
            continue
        attribute = report["kinds"][row["kind"]]["attributes"][row["attribute"]]
        gap = mean - row["value"]
        who = label(report["models"][row["model"]]["name"])
        words = (
            f"{who} reaches {number(row['value'], places)}, {number(gap, places)} below its mean of "
            f"{number(mean, places)} ({LEVEL:.0%} interval {interval(row['low'], row['high'], places)}), over "
            f"{counted(row['instances'], 'instance')}. Its prior is {percent(attribute['prior'])}."
        )
        found.append(Weak(row["kind"], row["model"], line(attribute["name"]), words, gap))
    return found


def unsure(report: Report) -> dict[Kind, list[str]]:
    """The attributes that are below a model's mean with too few instances to say so, by kind."""
    found: dict[Kind, list[str]] = {kind: [] for kind in kinds(report)}
    for row, told in zip(rows := proficiency_rows(report), named(report, rows), strict=True):
        if row["few"] and row["instances"] and _gap(report, row) > 0:
            words = f"{label(told['attribute'])} ({label(told['model'])}, {counted(row['instances'], 'instance')})"
            found[row["kind"]].append(words)
    return {kind: names for kind, names in found.items() if names}


def faults(report: Report) -> list[str]:
    """What is missing from the figures, a sentence each."""
    told = []
    for fault in report["counts"].get("faults", []):
        ids = [line(one) for one in fault["ids"]]
        which = f": {first_few(ids, fault['count'], len(ids))}" if ids else ""
        whose = line(fault["model"]) if fault.get("model") else "the data"
        told.append(f"{whose}: {line(fault['what'])} ({counted(fault['count'], 'row')}{which})")
    told += [
        f"{_rated(one['of'])}: no affinities, because {line(one['reason'])} ({counted(one['count'], 'row')})"
        for one in report["counts"].get("unscored", [])
    ]
    return told


def remarks(report: Report) -> list[str]:
    """What the metric remarks on answers that it did measure, such as that one names no choice; a sentence each."""
    return [
        f"{line(note['model'])}: {line(note['note'])} ({counted(note['count'], 'answer')})"
        for note in report["counts"].get("notes", [])
    ]


def faithfulness_rows(report: Report) -> list[tuple[str, str, str]]:
    """Each way to assign domains, with its total variation and its accuracy."""
    ways: Mapping[str, str] = {
        "assigned": "As this study assigns them",
        "highest": "By highest affinity alone",
        "random": "By judges that score at random",
    }
    found: Mapping[str, Any] = report.get("faithfulness") or {}
    return [
        (ways.get(way, line(way)), number(one.get("total_variation")), percent(one.get("accuracy"))) for way, one in found.items()
    ]


def label_rows(report: Report) -> list[tuple[str, ...]]:
    """Each label with its share, its domain, the domain's prior, and how many of its rows have the domain."""
    found: Mapping[str, Any] = report.get("label_priors") or {}
    rows: list[tuple[str, ...]] = [
        (line(pair["label"]), _estimate(pair["share"]), line(pair["domain"]), *map(_estimate, (pair["prior"], pair["agreement"])))
        for pair in found.get("pairs", [])
    ]
    labels, domains = found.get("labels", {}), found.get("domains", {})
    rows += [(line(name), percent(share), absent("no domain left"), NONE, NONE) for name, share in labels.items()]
    if found.get("rare"):
        rows.append((f"other: {counted(found['rare'], 'rare label')}", percent(found["other"]), absent("too rare"), NONE, NONE))
    return rows + [(absent("no label left"), NONE, line(name), percent(prior), NONE) for name, prior in domains.items()]


def label_words(report: Report) -> str:
    """How far priors are from the labels' shares, and how often a row is assigned the domain of its label."""
    found = report["label_priors"]
    apart, agreement = found["distance"], found["agreement"]
    left = found["unlabelled"]
    out = f" {counted(left, 'row')} without a label {'is' if left == 1 else 'are'} left out." if left else ""
    return (
        "The distance between the shares of the labels and the priors of their domains is "
        f"{with_interval(apart['value'], apart['low'], apart['high'])}, from 0 to 1 (total variation). Of "
        f"{counted(found['rows'], 'row')} {_estimate(agreement)} are assigned the domain of their label; labels in random order "
        f"reach {percent(found['chance'])}.{out}"
    )


def _estimate(found: Mapping[str, Any]) -> str:
    return share_with_interval(found["value"], found["low"], found["high"])


def _gap(report: Report, row: Mapping[str, Any]) -> float:
    mean = report["models"][row["model"]]["overall"]["value"]
    return float("-inf") if mean is None or row["value"] is None else float(mean - row["value"])


def _rated(of: str) -> str:
    return {"input": "the inputs", "truth": "the ground truth"}.get(of, line(of))

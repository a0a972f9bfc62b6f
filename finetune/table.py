"""The figures of table 1: for each set of domains rows at random against rows of these domains, by domain and overall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evals.statistics.bootstrap import ROUNDS
from evals.statistics.crossed import crossed_difference
from finetune.experiment import Experiment, Values


def table(experiment: Experiment, values: Values, *, rounds: int = ROUNDS, seed: int = 0) -> dict[str, Any]:
    """The figures. Differences are paired, with intervals over instances and seeds.

    Returns:
        ``metric``, ``seeds``, ``instances``, ``before`` (the base's mean) and ``sets``: each with ``domains`` and ``overall``,
        which have ``name``, ``instances``, the means ``random`` and ``targeted``, their ``difference`` with ``low`` and
        ``high``, and the means ``by_seed``. ``None`` stands where there is no figure.
    """
    plan, member = experiment.plan, experiment.evaluation.chosen
    sets = []
    for number, domains in enumerate(experiment.sets):
        targeted = values.targeted[number]
        found = crossed_difference(targeted, values.random, member, len(experiment.domains), rounds=rounds, seed=seed)
        whole = np.ones(len(member), bool)
        parts = [(experiment.domains[domain], (member == domain).any(axis=1), _ends(found, domain)) for domain in domains]
        overall = found.overall
        parts.append(("overall", whole, (overall.mean, overall.low, overall.high)))
        rows = [
            {
                "name": name,
                "instances": int(inside.sum()),
                "random": _mean(values.random[:, inside]),
                "targeted": _mean(targeted[:, inside]),
                "difference": _figure(mean),
                "low": _figure(low),
                "high": _figure(high),
                "by_seed": [
                    {"random": _mean(one[inside]), "targeted": _mean(other[inside])}
                    for one, other in zip(values.random, targeted, strict=True)
                ],
            }
            for name, inside, (mean, low, high) in parts
        ]
        sets.append({"domains": rows[:-1], "overall": rows[-1]})
    return {
        "metric": plan.metric.title,
        "recipe": plan.recipe.name,
        "seeds": list(plan.seeds),
        "instances": len(member),
        "rows": {"base": plan.base, "added": plan.added, "validation": plan.validation},
        "before": _mean(values.before),
        "sets": sets,
    }


def rows_of(one: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows of a set of ``table``'s: its domains, and the overall figures."""
    return [*one["domains"], one["overall"]]


def _ends(found: Any, domain: int) -> tuple[float, float, float]:
    return float(found.mean[domain]), float(found.low[domain]), float(found.high[domain])


def _mean(values: Any) -> float | None:
    there = values[~np.isnan(values)]
    return _figure(there.mean()) if there.size else None


def _figure(value: Any) -> float | None:
    return None if np.isnan(value) else round(float(value), 6)

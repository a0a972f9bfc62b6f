"""Computes table 1: rows at random against rows of each set of domains, by domain and overall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evals.stats.bootstrap import ROUNDS, Intervals
from evals.stats.crossed import crossed_difference
from finetune.experiments.experiment import Experiment, Values


def table(experiment: Experiment, values: Values, *, rounds: int = ROUNDS, seed: int = 0) -> dict[str, Any]:
    """Compute the figures. Differences are paired, with intervals over instances and seeds.

    Returns:
        ``metric``, ``seeds``, ``instances``, ``before`` (the base's mean) and ``sets``: each with ``domains`` and ``overall``,
        which have ``name``, ``instances``, the means ``random`` and ``targeted``, their ``difference`` with ``low`` and
        ``high``, and the means ``by_seed``. A missing figure is ``None``.
    """
    plan, member = experiment.plan, experiment.evaluation.chosen
    sets = []
    for number, domains in enumerate(experiment.sets):
        targeted = values.targeted[number]
        difference = crossed_difference(targeted, values.random, member, len(experiment.domains), rounds=rounds, seed=seed)
        whole = np.ones(len(member), bool)
        parts = [(experiment.domains[domain], (member == domain).any(axis=1), _ends(difference, domain)) for domain in domains]
        overall = difference.overall
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
                    {"random": _mean(control[inside]), "targeted": _mean(chosen[inside])}
                    for control, chosen in zip(values.random, targeted, strict=True)
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


def rows_of(group: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the rows of one of the ``sets``: its domains, and the overall figures."""
    return [*group["domains"], group["overall"]]


def _ends(difference: Intervals, domain: int) -> tuple[float, float, float]:
    return float(difference.mean[domain]), float(difference.low[domain]), float(difference.high[domain])


def _mean(values: Any) -> float | None:
    measured = values[~np.isnan(values)]
    return _figure(measured.mean()) if measured.size else None


def _figure(value: Any) -> float | None:
    return None if np.isnan(value) else round(float(value), 6)

"""How far found priors and assignments are from what people say. Source: QualEval, section 4.1 and figure 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import solver
from evals.data.tasks import Instance
from evals.qualeval.breakdown import Assigned
from evals.qualeval.options import Options

RANDOM_JUDGES = 20
"""Random judges whose figures are averaged."""


@dataclass(frozen=True, slots=True)
class Faithfulness:
    """Figures of one way to assign domains.

    Attributes:
        total_variation: Between the shares that the attributes have and those of the labels: half the sum of the differences.
        accuracy: Share of instances among whose attributes is their label.
    """

    total_variation: float
    accuracy: float


def faithfulness(domains: Assigned, instances: Sequence[Instance], options: Options) -> dict[str, Faithfulness] | None:
    """Compare the assignment with people's labels.

    Args:
        domains: Of the study, where the domains are the labels.
        instances: With their labels.
        options: Of the study.

    Returns:
        The figures of the study's way (``assigned``), of the k domains of highest affinity without the solver (``highest``) and
        of judges that score at random, assigned in the study's way (``random``). ``None`` where not every label is a domain.
    """
    names = {name.casefold(): number for number, name in enumerate(domains.found.names)}
    labels = np.array([names.get((one.label or "").casefold(), -1) for one in instances])
    rated = domains.affinities.rated
    if (labels < 0).any() or not rated.any():
        return None
    scores = domains.affinities.used(options)[rated]
    truth = labels[rated]
    width = len(names)
    highest = np.argsort(-scores, axis=1, kind="stable")[:, : options.k]
    chance = np.random.default_rng(options.seed)
    drawn = [
        _figures(
            solver.assign(chance.integers(1, 6, scores.shape), k=options.k, slack=options.slack).chosen.astype(np.int64),
            truth,
            width,
        )
        for _ in range(RANDOM_JUDGES)
    ]
    return {
        "assigned": _figures(domains.chosen[rated].astype(np.int64), truth, width),
        "highest": _figures(highest, truth, width),
        "random": Faithfulness(
            float(np.mean([one.total_variation for one in drawn])), float(np.mean([one.accuracy for one in drawn]))
        ),
    }


def _figures(chosen: NDArray[np.int64], truth: NDArray[np.int64], width: int) -> Faithfulness:
    shares = np.bincount(chosen.ravel(), minlength=width) / chosen.size
    wanted = np.bincount(truth, minlength=width) / len(truth)
    return Faithfulness(float(np.abs(shares - wanted).sum() / 2), float((chosen == truth[:, None]).any(axis=1).mean()))

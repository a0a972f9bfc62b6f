"""Win rates against a baseline, on the same questions: how sure they are, and how many questions it would take."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evals.arena.battles import Battles
from evals.arena.pairing import check_contestant
from evals.stats.paired import Paired, adjusted, items_needed, least_seen, paired
from evals.stats.shares import paired_shares

DIFFERENCES = (0.05, 0.1)
"""Differences of a win rate from one half, for which the report gives the questions needed."""


@dataclass(frozen=True, slots=True)
class WinRate:
    """How a model does against the baseline.

    Attributes:
        model: Its number.
        rate: What it takes of a game, a tie being one half.
        soft: The same with the judge's probability in place of its choice, over the games that have one; ``None`` where none has.
            AlpacaEval's "win rate"; ``rate`` is its "discrete win rate".
        adjusted: The test's p against one half, adjusted for the number of models. Source: Holm (1979).
        needed: Questions that show each of ``DIFFERENCES``, four times of five.
        least: The least difference that as many questions as there were show so often.
        ahead: By how much its rate exceeds that of the model that does next best, on questions that both met the baseline on.
    """

    model: int
    rate: Paired
    soft: Paired | None
    adjusted: float
    needed: tuple[int | None, ...]
    least: float | None
    ahead: Paired | None


def win_rates(battles: Battles, baseline: str, seed: int = 0) -> list[WinRate]:
    """Of every model that has met the baseline, the best first.

    Args:
        battles: Scored or not.
        baseline: A contestant's name.
        seed: Of the tests' draws.

    Raises:
        MagistrateError: The baseline is no contestant.
    """
    check_contestant("baseline", baseline, battles.models)
    base = battles.models.index(baseline)
    taken, soft, question = {}, {}, {}
    for model in range(len(battles.models)):
        as_first = battles.scored & (battles.first == model) & (battles.second == base)
        as_second = battles.scored & (battles.second == model) & (battles.first == base)
        mask = as_first | as_second
        if model != base and mask.any():
            taken[model], soft[model] = (
                np.where(as_first, share, 1 - share)[mask] for share in (battles.share, battles.probability)
            )
            question[model] = battles.question.codes[mask]
    rates = {model: paired_shares(taken[model], question[model], seed=seed) for model in taken}
    order = sorted(rates, key=lambda model: -rates[model].mean)
    values = adjusted([rates[model].p for model in order])
    ahead = [_ahead(taken[one], question[one], taken[other], question[other], seed) for one, other in pairwise(order)]
    return [
        WinRate(
            model,
            rates[model],
            None if np.isnan(soft[model]).all() else paired_shares(soft[model], question[model], seed=seed),
            p,
            tuple(items_needed(rates[model].spread, difference) for difference in DIFFERENCES),
            least_seen(rates[model]),
            gap,
        )
        for model, p, gap in zip(order, values, [*ahead, None][: len(order)], strict=True)
    ]


def _ahead(
    one: NDArray[np.float64],
    asked: NDArray[np.int32],
    other: NDArray[np.float64],
    other_asked: NDArray[np.int32],
    seed: int,
) -> Paired:
    """The difference of two models' means, question by question."""
    size = int(max(asked.max(), other_asked.max())) + 1
    with np.errstate(invalid="ignore"):
        means = [
            np.bincount(question, share, size) / np.bincount(question, minlength=size)
            for share, question in ((one, asked), (other, other_asked))
        ]
    return paired(means[0] - means[1], seed=seed)

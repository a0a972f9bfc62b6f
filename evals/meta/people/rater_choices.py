"""How far people agree on which answer is the better one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from evals.data.choice_labels import TIE
from evals.data.compared_answers import Compared, ComparedSet, majority
from evals.data.tables import numbered
from evals.stats.bootstrap import LEVEL, ROUNDS
from evals.stats.nominal import Nominal, nominals
from judges.agreement import Agreement

Choices = Sequence[int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to study.

    Attributes:
        rounds: Of the bootstrap.
        level: How often an interval is to hold the true value.
        seed: Of the resamples.
        called: What the report calls the judge; by default as its verdicts do.
        expected: Whether the likelier answer by the judge's probabilities is compared too.
    """

    rounds: int = ROUNDS
    level: float = LEVEL
    seed: int = 0
    called: str | None = None
    expected: bool = False


@dataclass(frozen=True, slots=True)
class Raters:
    """People among themselves.

    Attributes:
        pairs: Two raters' names to how far they agree.
        mean: Over these pairs.
        ceiling: A rater with the majority of the others, the mean over raters: what a judge as good as a person would have.
        ceiling_without_ties: The same without ties.
        alpha: Krippendorff's, nominal; ``None`` where it is undefined.
        reason: Why there is none.
    """

    pairs: Sequence[tuple[str, str, Nominal]]
    mean: Nominal
    ceiling: Nominal
    ceiling_without_ties: Nominal
    alpha: float | None
    reason: str | None


def agreement(
    sides: Sequence[tuple[Choices, Choices]], pairs: Sequence[Compared], options: Options, *, without_ties: bool = False
) -> Nominal:
    """The mean agreement of pairs of sides.

    Args:
        sides: What either side names of each pair of answers.
        pairs: These pairs.
        options: Of the bootstrap.
        without_ties: Whether to leave out what either side calls a tie.
    """
    if without_ties:
        sides = [_decided(*both) for both in sides]
    items = numbered([one.item for one in pairs])
    return nominals(sides, items, rounds=options.rounds, level=options.level, seed=options.seed)[1]


def _decided(first: Choices, second: Choices) -> tuple[Choices, Choices]:
    """Both sides where neither names a tie."""
    both = [(None, None) if TIE in (one, other) else (one, other) for one, other in zip(first, second, strict=True)]
    return [one for one, _ in both], [other for _, other in both]


def among_raters(compared: ComparedSet, options: Options) -> Raters:
    """How far the raters of a file agree."""
    pairs = compared.pairs
    raters: list[Choices] = list(zip(*(one.choices for one in pairs), strict=True))
    items = numbered([one.item for one in pairs])
    places = list(combinations(range(len(raters)), 2))
    sides = [(raters[one], raters[other]) for one, other in places]
    each, mean = nominals(sides, items, rounds=options.rounds, level=options.level, seed=options.seed)
    others: list[tuple[Choices, Choices]] = [
        (raters[place], [majority([*one.choices[:place], *one.choices[place + 1 :]]) for one in pairs])
        for place in range(len(raters) if len(raters) > 1 else 0)
    ]
    tally = Agreement("nominal")
    for one in pairs:
        tally.add(one.choices)
    reason = None
    if tally.alpha is None:
        reason = "no pair has the choices of two people" if not tally.units else "all choices are the same"
    return Raters(
        pairs=[(compared.raters[one], compared.raters[other], found) for (one, other), found in zip(places, each, strict=True)],
        mean=mean,
        ceiling=agreement(others, pairs, options),
        ceiling_without_ties=agreement(others, pairs, options, without_ties=True),
        alpha=tally.alpha,
        reason=reason,
    )

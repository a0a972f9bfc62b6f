"""Which models meet on which questions: all pairs, each against a baseline, or Swiss rounds.

In a Swiss round every question brings each model to one game, against one that is about as strong and that it has not met on this
question: such games say the most. Of M models all pairs are M - 1 games a model and question, and R rounds are R.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evals.data.answer_file import digest
from judges.errors import MagistrateError

METHODS = ("all", "baseline", "swiss")

SPREAD = 0.3
"""By how much a model's place is drawn about its strength, from question to question, as a logarithm. With none, the same two
would meet on every question, and a chain of neighbours says little of its ends."""

PRIOR = 0.25
"""Of the strengths' logarithms in a Swiss tournament: the inverse of their variance."""

MOST_STEPS = 50
ENOUGH = 1e-6
"""Newton's method ends after so many steps, or with one so small."""


class Game(NamedTuple):
    """Two models' answers to a question, to be compared. Which is A is drawn, so that no model always has one place."""

    question: str
    model_a: str
    model_b: str


def check_contestant(what: str, name: str | None, models: Sequence[str]) -> None:
    """Refuse a name that is no contestant's.

    Args:
        what: Who it is to be.
        name: ``None`` for nobody.
        models: The contestants.

    Raises:
        MagistrateError: It is not among them.
    """
    if name is not None and name not in models:
        raise MagistrateError(f"the {what} `{name}` is not among the models: {', '.join(models)}")


def all_pairs(questions: Sequence[str], models: Sequence[str], seed: int = 0) -> list[Game]:
    """Every model against every other on every question."""
    return [_game(question, *pair, seed) for question in questions for pair in combinations(models, 2)]


def against(questions: Sequence[str], models: Sequence[str], baseline: str, seed: int = 0) -> list[Game]:
    """Every model against the baseline on every question.

    Raises:
        MagistrateError: The baseline is not among the models.
    """
    check_contestant("baseline", baseline, models)
    return [_game(question, baseline, model, seed) for question in questions for model in models if model != baseline]


def swiss_round(
    questions: Sequence[str],
    models: Sequence[str],
    strengths: Mapping[str, float],
    played: Mapping[str, Collection[frozenset[str]]],
    place: int,
    seed: int = 0,
) -> list[Game]:
    """The games of a Swiss round: on every question as many pairs of neighbours as there are.

    With an odd number of models one sits out: one that has had the most games so far.

    Args:
        questions: What is asked.
        models: The contestants.
        strengths: Logarithms of their strengths, as far as these are known; in the first round all alike.
        played: By question which two have met on it.
        place: Which round this is, from 0.
        seed: Of the draws.
    """
    games: list[Game] = []
    had = Counter(model for pairs in played.values() for pair in pairs for model in pair)
    for question in questions:
        chance = random.Random(digest([seed, place, question]))
        about = {model: strengths.get(model, 0.0) + chance.gauss(0.0, SPREAD) for model in models}
        order = sorted(models, key=lambda model: -about[model])
        if len(order) % 2:
            order.remove(max(order, key=lambda model: (had[model], chance.random())))
        pairs = _neighbours(order, played.get(question, ()))
        had.update(model for pair in pairs for model in pair)
        games += [_game(question, *pair, seed) for pair in pairs]
    return games


def strengths(first: ArrayLike, second: ArrayLike, share: ArrayLike, number: int) -> NDArray[np.float64]:
    """What is known of models' strengths, to pair them by: a Bradley-Terry model with a normal prior, which never diverges.

    Args:
        first: ``(N,)`` models, from 0.
        second: ``(N,)`` their opponents.
        share: ``(N,)`` what the first took; NaN where a game says nothing.
        number: M, how many models there are.

    Returns:
        ``(M,)`` logarithms of strengths, their mean 0; 0 for a model without games.
    """
    one, other, taken = np.asarray(first), np.asarray(second), np.asarray(share, np.float64)
    told = ~np.isnan(taken)
    won = np.zeros((number, number))
    np.add.at(won, (one[told], other[told]), taken[told])
    np.add.at(won, (other[told], one[told]), 1 - taken[told])
    games = won + won.T
    found = np.zeros(number)
    for _ in range(MOST_STEPS):
        chance = 1 / (1 + np.exp(found[None, :] - found[:, None]))
        weight = games * chance * (1 - chance)
        curvature = np.diag(weight.sum(axis=1) + PRIOR) - weight
        step = np.linalg.solve(curvature, (won - games * chance).sum(axis=1) - PRIOR * found)
        found += step.clip(-1.0, 1.0)
        if np.abs(step).max(initial=0.0) < ENOUGH:
            break
    return np.asarray(found - found.mean())


def _neighbours(order: Sequence[str], met: Collection[frozenset[str]]) -> list[tuple[str, str]]:
    """Pairs from the strongest down, each with the next below that it has not met. Who has met all that are left sits out."""
    left = list(order)
    pairs = []
    while len(left) > 1:
        one = left.pop(0)
        place = next((place for place, other in enumerate(left) if frozenset((one, other)) not in met), None)
        if place is not None:
            pairs.append((one, left.pop(place)))
    return pairs


def _game(question: str, one: str, other: str, seed: int) -> Game:
    first, second = sorted((one, other))
    swap = int(digest([seed, question, first, second]), 16) % 2
    return Game(question, second, first) if swap else Game(question, first, second)

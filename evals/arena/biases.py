"""What the judge goes by besides the answers: their places, their length, itself; and whether its verdicts fit together.

These figures stand in every report. Source: Zheng et al. (2023), "Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena",
section 3.3, for position, verbosity and self-enhancement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evals.arena.battles import SHARES, A, B, Battles
from evals.arena.standings import counted_meetings
from evals.stats.paired import LEVEL, Paired
from evals.stats.shares import paired_shares


@dataclass(frozen=True, slots=True)
class Position:
    """Whether the place of an answer decides.

    Attributes:
        flips: Of the pairs judged in both orders, the share whose choice changes with the order.
        first_gains: Of the pairs that flip, how many times an answer fares better where it is shown first.
        second_gains: Likewise where it is shown second. Between both good and neither, no side gains.
        first: Of choices for one answer, the share that went to the one shown first. One half is fair where both orders are
            judged, or which comes first is drawn.
    """

    flips: Paired
    first_gains: int
    second_gains: int
    first: Paired


@dataclass(frozen=True, slots=True)
class OwnAnswers:
    """How a judge that is a contestant rates its own answers.

    Attributes:
        model: Its number.
        own: What it takes of games that it judges itself.
        others: What it takes of games that other judges judged, where there are any.
    """

    model: int
    own: Paired
    others: Paired


@dataclass(frozen=True, slots=True)
class Triples:
    """Whether verdicts go round in a circle: A before B, B before C and C before A.

    Attributes:
        on_question: Of three models compared on one question with three clear verdicts, the share that goes round. By chance it
            would be a quarter.
        triples: How many there are.
        among_models: Triples of models of which each beats the next in most of their games, as numbers.
    """

    on_question: float
    triples: int
    among_models: list[tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Biases:
    """All of these. ``longer``: of games with one winner and answers of different length, the share that the longer won."""

    position: Position
    longer: Paired
    own: list[OwnAnswers]
    triples: Triples


MOST_CIRCLES = 20
"""Circles of models that are named."""


def biases(battles: Battles, seed: int = 0) -> Biases:
    """Measure them.

    Args:
        battles: Scored or not.
        seed: Of the tests' draws.
    """
    return Biases(
        position(battles.orders, battles.question.codes, seed=seed),
        _longer(battles, seed),
        _own(battles, seed),
        _triples(battles),
    )


def position(orders: NDArray[np.int32], items: ArrayLike, *, level: float = LEVEL, seed: int = 0) -> Position:
    """Whether the place of an answer decides.

    Args:
        orders: ``(N, 2)`` codes of what is chosen with A first and with B first, of A and B; below 0 where there is none.
        items: ``(N,)`` which question each is of.
        level: How often an interval is to hold.
        seed: Of the tests' draws.
    """
    question = np.asarray(items)
    both = (orders >= 0).all(axis=1)
    flipped = orders[both, 0] != orders[both, 1]
    gain = SHARES[orders[both, 0]] - SHARES[orders[both, 1]]  # of A, by being shown first
    chosen = first_chosen(orders)
    return Position(
        paired_shares(flipped.astype(np.float64), question[both], null=0.0, level=level, seed=seed),
        int((gain > 0).sum()),
        int((gain < 0).sum()),
        paired_shares(chosen.ravel(), np.repeat(question, 2), level=level, seed=seed),
    )


def first_chosen(orders: NDArray[np.int32]) -> NDArray[np.float64]:
    """``(N, 2)`` 1 where the answer shown first is chosen, 0 where the other is, NaN where neither is.

    Args:
        orders: As in ``position``. They are in terms of A and B: with B first, a choice of B is one of the answer shown first.
    """
    return np.stack([_side(orders[:, 0], A, B), _side(orders[:, 1], B, A)], axis=1)


def _side(choices: NDArray[np.int32], one: int, other: int) -> NDArray[np.float64]:
    """1 for the one, 0 for the other, NaN for neither of them."""
    return np.where(choices == one, 1.0, np.where(choices == other, 0.0, np.nan))


def _longer(battles: Battles, seed: int) -> Paired:
    first, second = battles.style[:, 0, 0], battles.style[:, 1, 0]
    won = _side(battles.preference, A, B)
    longer = np.where(first > second, won, np.where(first < second, 1 - won, np.nan))
    return paired_shares(longer, battles.question.codes, seed=seed)


def _own(battles: Battles, seed: int) -> list[OwnAnswers]:
    named = {name.casefold(): code for code, name in enumerate(battles.judge.names)}
    found = []
    for model, name in enumerate(battles.models):
        judge = named.get(name.casefold())
        if judge is None:
            continue
        taken = np.where(battles.first == model, battles.share, np.where(battles.second == model, 1 - battles.share, np.nan))
        by_itself = battles.judge.codes == judge
        own, others = (
            paired_shares(np.where(mask, taken, np.nan), battles.question.codes, seed=seed) for mask in (by_itself, ~by_itself)
        )
        found.append(OwnAnswers(model, own, others))
    return found


def _triples(battles: Battles) -> Triples:
    circles, triples = _on_questions(battles)
    return Triples(circles / triples if triples else math.nan, triples, _among_models(battles))


def _on_questions(battles: Battles) -> tuple[int, int]:
    """Triples of models with three clear verdicts on one question: how many go round in a circle, and how many there are."""
    clear = np.isin(battles.preference, (A, B))
    asked = battles.question.codes[clear]
    order = np.argsort(asked, kind="stable")
    won = np.where(battles.preference[clear] == A, 1, -1)[order]
    first, second = battles.first[clear][order], battles.second[clear][order]
    bounds = np.flatnonzero(np.diff(asked[order], prepend=-2, append=-2))
    circles = triples = 0
    for begin, end in pairwise(bounds):
        if end - begin < 3:
            continue
        there, local = np.unique(np.concatenate([first[begin:end], second[begin:end]]), return_inverse=True)
        table = np.zeros((len(there), len(there)))
        np.add.at(table, (local[: end - begin], local[end - begin :]), won[begin:end])
        ahead = (table - table.T > 0).astype(np.float64)
        met = ahead + ahead.T
        circles += round(float(np.trace(ahead @ ahead @ ahead)) / 3)
        triples += round(float(np.trace(met @ met @ met)) / 6)
    return circles, triples


def _among_models(battles: Battles) -> list[tuple[int, int, int]]:
    taken, games = np.moveaxis(counted_meetings(battles), -1, 0)
    ahead = (games > 0) & (taken > games / 2)
    found: list[tuple[int, int, int]] = []
    for one in range(len(ahead)):
        for other in np.flatnonzero(ahead[one, one + 1 :]) + one + 1:
            thirds = np.flatnonzero(ahead[other] & ahead[:, one])
            found += [(one, int(other), int(third)) for third in thirds if third > one]
            if len(found) >= MOST_CIRCLES:
                return found[:MOST_CIRCLES]
    return found

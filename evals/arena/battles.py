"""Battles: comparisons of two models' answers, as columns, so that millions of them can be counted at once."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evals.data.comparisons import STYLE, Record
from judges.errors import MagistrateError
from judges.orders import CHOICES, TIE

PREFERENCES = (*CHOICES, TIE)
"""What a comparison may come to, in the order of their codes."""

A, BOTH, B, NEITHER, ORDER = range(len(PREFERENCES))
NOT_JUDGED = -1
NO_REASON = "no reason is given"

SHARES = np.array([1.0, 0.5, 0.0, 0.5, 0.5])
"""What the first model takes of a battle, by preference."""

_HEADER = re.compile(r"^ {0,3}#{1,6} ", re.MULTILINE)
_BOLD = re.compile(r"\*\*(?=\S)[^*\n]+\*\*|__(?=\S)[^_\n]+__")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)]) ", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)

Whole = NDArray[np.int32]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Labels:
    """A column of names.

    Attributes:
        names: Each once, in the order of their first coming.
        codes: ``(N,)`` their numbers; -1 for none.
    """

    names: tuple[str, ...]
    codes: Whole


@dataclass(frozen=True, slots=True)
class Battles:
    """N comparisons of two models' answers.

    Attributes:
        models: The contestants.
        first: ``(N,)`` the model whose answer is A.
        second: ``(N,)`` the model whose answer is B.
        preference: ``(N,)`` the place in ``PREFERENCES``; -1 where the comparison is not scored.
        orders: ``(N, 2)`` the choice with A first and with B first, told of A and B, as places in ``CHOICES``; -1 where unknown.
        probability: ``(N,)`` the judge's that A is better, half of what it gives to neither side added; NaN where unknown.
        style: ``(N, 2, 4)`` of A and of B, what ``STYLE`` lists; NaN where the answers are not known.
        identical: ``(N,)`` whether both answers are the same, which then are not judged.
        question: What was asked.
        capability: What the question asks of a model.
        language: Of the question.
        judge: Who compared.
        reason: Why a comparison is not scored.
    """

    models: tuple[str, ...]
    first: Whole
    second: Whole
    preference: Whole
    orders: Whole
    probability: Floats
    style: Floats
    identical: Mask
    question: Labels
    capability: Labels
    language: Labels
    judge: Labels
    reason: Labels

    def __len__(self) -> int:
        return len(self.first)

    @property
    def scored(self) -> Mask:
        """``(N,)`` whether a comparison came to something."""
        return np.asarray(self.preference >= 0)

    @property
    def share(self) -> Floats:
        """``(N,)`` what the first model took: 1, 0.5 or 0; NaN where the comparison is not scored."""
        return np.where(self.scored, SHARES[self.preference], np.nan)

    @property
    def reasons(self) -> Counter[str]:
        """Why comparisons are not scored, to how many; those of identical answers are not among them."""
        codes = self.reason.codes[~self.scored & ~self.identical]
        return Counter({self.reason.names[code]: int(count) for code, count in enumerate(np.bincount(codes)) if count})

    def only(self, which: Mask | NDArray[np.int64]) -> Battles:
        """Some of the battles, of the same models: those of a mask, or by their numbers, which may repeat."""

        def some(labels: Labels) -> Labels:
            return Labels(labels.names, labels.codes[which])

        return Battles(
            self.models,
            self.first[which],
            self.second[which],
            self.preference[which],
            self.orders[which],
            self.probability[which],
            self.style[which],
            self.identical[which],
            some(self.question),
            some(self.capability),
            some(self.language),
            some(self.judge),
            some(self.reason),
        )


@dataclass(slots=True)
class _Names:
    """Numbers names as they come."""

    numbers: dict[str, int] = field(default_factory=dict)
    codes: array[int] = field(default_factory=lambda: array("i"))

    def number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def add(self, name: str | None) -> None:
        self.codes.append(-1 if name is None else self.number(name))

    def labels(self) -> Labels:
        return Labels(tuple(self.numbers), np.array(self.codes, np.int32))


class BattleList:
    """Gathers battles one by one.

    Args:
        models: Contestants that are known beforehand, in their order, with or without a battle.
    """

    def __init__(self, models: Sequence[str] = ()) -> None:
        self._models = _Names({name: number for number, name in enumerate(models)})
        self._columns = {name: array("i") for name in ("first", "second", "preference", "orders")}
        self._probability, self._style = array("d"), array("d")
        self._identical = array("b")
        self._labels = {name: _Names() for name in ("capability", "language", "judge", "reason")}
        self._questions = _Names()

    def add(self, battle: Record) -> None:
        """Add a battle.

        Raises:
            MagistrateError: A model is compared with itself.
        """
        if battle.model_a == battle.model_b:
            raise MagistrateError(
                f"question `{battle.question}`: `{battle.model_a}` is compared with itself; a battle has two models"
            )
        columns, scored = self._columns, battle.preference is not None
        columns["first"].append(self._models.number(battle.model_a))
        columns["second"].append(self._models.number(battle.model_b))
        columns["preference"].append(NOT_JUDGED if battle.preference is None else PREFERENCES.index(battle.preference))
        known = [CHOICES.index(choice) for choice in battle.orders[:2]]
        columns["orders"].extend((*known, *[-1] * (2 - len(known))))
        self._probability.append(np.nan if battle.probability is None else battle.probability)
        for style in (battle.style_a, battle.style_b):
            self._style.extend((np.nan,) * len(STYLE) if style is None else style)
        self._identical.append(battle.identical)
        self._questions.add(battle.question)
        for name in ("capability", "language", "judge"):
            self._labels[name].add(getattr(battle, name) or None)
        self._labels["reason"].add(None if scored or battle.identical else battle.reason or NO_REASON)

    def battles(self) -> Battles:
        """All of them."""
        columns = {name: np.array(column, np.int32) for name, column in self._columns.items()}
        return Battles(
            tuple(self._models.numbers),
            columns["first"],
            columns["second"],
            columns["preference"],
            columns["orders"].reshape(-1, 2),
            np.array(self._probability),
            np.array(self._style).reshape(-1, 2, len(STYLE)),
            np.array(self._identical, bool),
            self._questions.labels(),
            self._labels["capability"].labels(),
            self._labels["language"].labels(),
            self._labels["judge"].labels(),
            self._labels["reason"].labels(),
        )


def style_of(turns: Sequence[str]) -> tuple[float, float, float, float]:
    """What ``STYLE`` lists, of an answer of one turn or several. What stands in fenced code is counted for its length alone."""
    text = "\n".join(turns)
    prose = _FENCE.sub("", text)
    return (
        float(len(text)),
        float(len(_HEADER.findall(prose))),
        float(len(_BOLD.findall(prose))),
        float(len(_ITEM.findall(prose))),
    )

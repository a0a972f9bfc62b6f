"""How often models win, and what that makes: the guide's shares and scores, by language and by capability.

Source: OpenCompass, "Subjective Evaluation Guidance", "Evaluation Report". Its tie is both good or neither, its "not bad" a win
or both good. To these come the ties of a judge whose choice depends on the order: they are ties, no "not bad", and score 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.arena.battles import BOTH, NEITHER, ORDER, PREFERENCES, A, B, Battles, Labels
from evals.data.questions import AND

LANGUAGES = ("CN", "EN")
"""Those that the guide lists, whether or not there are questions in them."""

OVERALL = "Overall"

POINTS = np.array([3, 1, -3, -1, 0])
"""What the first model scores, by preference; the second scores as much, but 3 for a loss and -3 for a win."""

MIRRORED = np.array([B, BOTH, A, NEITHER, ORDER])
"""A preference, as the second model has it."""

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Standing:
    """How the models stand in a part of the battles.

    Attributes:
        kind: ``LANG`` or ``CAPA``.
        name: Which language or capability.
        counts: ``(M, 5)`` battles of each model by what they came to, as ``PREFERENCES`` lists it, with the model as A.
        wins: ``(M, M)`` battles that the row's model won against the column's.
        met: ``(M, M)`` scored battles between both.
    """

    kind: str
    name: str
    counts: Whole
    wins: Whole
    met: Whole

    @property
    def games(self) -> Whole:
        """``(M,)`` scored battles of each model."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def shares(self) -> NDArray[np.float64]:
        """``(M, 4)`` win, tie, lose and not bad, of one; NaN for a model without a battle."""
        counts, games = self.counts, self.games
        four = np.stack(
            [counts[:, A], counts[:, BOTH] + counts[:, NEITHER] + counts[:, ORDER], counts[:, B], counts[:, A] + counts[:, BOTH]],
            axis=1,
        )
        filled = np.full(four.shape, np.nan)
        return np.asarray(np.divide(four, games[:, None], out=filled, where=games[:, None] > 0))

    def won(self, models: Sequence[int]) -> NDArray[np.float64]:
        """``(k, k)`` the share of its battles with the column's model that the row's won; NaN where they have not met."""
        wins, met = (table[np.ix_(models, models)] for table in (self.wins, self.met))
        return np.asarray(np.divide(wins, met, out=np.full(wins.shape, np.nan), where=met > 0))

    @property
    def scores(self) -> Whole:
        """``(M,)`` the models' scores: base 0, win 3, both 1, neither -1, lose -3."""
        return np.asarray(self.counts @ POINTS)


def standings(battles: Battles) -> list[Standing]:
    """Overall, by language and by capability, in the guide's order. A question of several capabilities counts under each."""
    scored = battles.scored
    found = [_standing(battles, "LANG", OVERALL, scored)]
    found += _by(battles, "LANG", battles.language, LANGUAGES)
    found += _by(battles, "CAPA", battles.capability, ())
    return found


def counted_meetings(battles: Battles) -> NDArray[np.float64]:
    """``(M, M, 2)`` what each model took of its games with each other, and how many there were."""
    number = len(battles.models)
    scored = battles.scored
    first, second, share = battles.first[scored], battles.second[scored], battles.share[scored]
    there, back = first * number + second, second * number + first
    size = number * number
    taken = np.bincount(there, share, size) + np.bincount(back, 1 - share, size)
    games = np.bincount(there, minlength=size) + np.bincount(back, minlength=size)
    return np.stack([taken, games], axis=-1).reshape(number, number, 2)


def _by(battles: Battles, kind: str, labels: Labels, always: tuple[str, ...]) -> Iterator[Standing]:
    codes: dict[str, list[int]] = {name: [] for name in always}
    for code, label in enumerate(labels.names):
        for name in dict.fromkeys(label.split(AND) if kind == "CAPA" else [label]):
            codes.setdefault(name, []).append(code)
    for name, under in codes.items():
        yield _standing(battles, kind, name, battles.scored & np.isin(labels.codes, under))


def _standing(battles: Battles, kind: str, name: str, mask: NDArray[np.bool_]) -> Standing:
    size, width = len(battles.models), len(PREFERENCES)
    models = np.concatenate([battles.first[mask], battles.second[mask]])
    opponents = np.concatenate([battles.second[mask], battles.first[mask]])
    preference = np.concatenate([battles.preference[mask], MIRRORED[battles.preference[mask]]])

    def table(rows: NDArray[np.int64], columns: NDArray[np.int64], count: int) -> Whole:
        return np.bincount(rows * count + columns, minlength=size * count).reshape(size, count)

    won = preference == A
    return Standing(
        kind, name, table(models, preference, width), table(models[won], opponents[won], size), table(models, opponents, size)
    )

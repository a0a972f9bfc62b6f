"""Which answer a label names: a word that anybody understands, or a number, which means what its file says that it means.

PandaLM's 1 is the first answer, Auto-J's 1 is the second one. So a number is read as a file's own where the file is known, or as
the user says, and never as anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evals.data.comparisons import ALPACA_EVAL_DRAW, GAME_SCORES, WINNERS, alpaca_eval_preference
from evals.data.tables import is_empty, number_in
from judges.errors import MagistrateError
from judges.verdict import Verdict

TIE, FIRST, SECOND = 0, 1, 2
"""Which answer is the better one."""

EQUAL = 1e-5
"""Probabilities that differ by less are equal: verdicts keep six digits."""

NAMES: Mapping[str, int] = {"first": FIRST, "second": SECOND, "tie": TIE}

WORDS: Mapping[str, int] = {
    word.lower(): {"A": FIRST, "B": SECOND}.get(preference, TIE) for word, preference in {**WINNERS, **GAME_SCORES}.items()
}

BELOW, ABOVE, DRAW = "1 to below 1.5", "above 1.5 to 2", "0 or 1.5"


def label_in(cell: Any) -> str | None:
    """A cell as a label: a number without zeros that say nothing, a word in lower case; ``None`` if absent."""
    if is_empty(cell) or not isinstance(cell, str | int | float):
        return None
    number = None if isinstance(cell, bool) else number_in(cell)
    return str(cell).strip().lower() if number is None else f"{number + 0.0:.15g}"


def band_in(cell: Any) -> str | None:
    """The part of AlpacaEval's scale in which a cell lies. Source: tatsu-lab/alpaca_eval, ``metrics/winrate.py``."""
    preference = alpaca_eval_preference(cell)
    if preference is None:
        return label_in(cell) if number_in(cell) is None else None
    return DRAW if preference == ALPACA_EVAL_DRAW else BELOW if preference < ALPACA_EVAL_DRAW else ABOVE


@dataclass(frozen=True, slots=True)
class ChoiceLabels:
    """What labels mean, besides ``WORDS``.

    Attributes:
        whose: Who says so; ``None`` where only words are understood.
        meanings: Label to choice.
        read: Makes a label of a cell.
    """

    whose: str | None = None
    meanings: Mapping[str, int] = field(default_factory=dict)
    read: Callable[[Any], str | None] = label_in

    def choice(self, label: str | None) -> int | None:
        """The choice that a label names; ``None`` where it names none."""
        return None if label is None else self.meanings.get(label, WORDS.get(label))

    @property
    def told(self) -> str:
        """The labels that are understood, in an error's words."""
        return "".join(f"{label}, " for label in self.meanings) + "A, B and tie"


PANDALM = ChoiceLabels("PandaLM", {"1": FIRST, "2": SECOND, "0": TIE})
AUTO_J = ChoiceLabels("Auto-J", {"0": FIRST, "1": SECOND, "2": TIE})
LLMBAR = ChoiceLabels("LLMBar", {"1": FIRST, "2": SECOND})
ALPACA_EVAL = ChoiceLabels("AlpacaEval", {BELOW: FIRST, ABOVE: SECOND, DRAW: TIE}, band_in)


def choice_of(word: Any) -> int | None:
    """What a judge's word says: A, B, tie, both, neither; ``None`` where it is none of these."""
    return WORDS.get(word.strip().lower()) if isinstance(word, str) else None


def check_words(path: Path, column: str, cells: Iterable[Any], hint: str) -> None:
    """Refuse a column with numbers where nothing says which answer they name.

    Args:
        path: The file.
        column: Of labels.
        cells: That it has.
        hint: What to do.

    Raises:
        MagistrateError: A cell is a number.
    """
    found = {number for cell in cells if not isinstance(cell, bool) and (number := number_in(cell)) is not None}
    if found:
        first = ", ".join(f"{number:g}" for number in sorted(found)[:5])
        raise MagistrateError(f"{path}: nothing says which answer the numbers of column `{column}` ({first}) name; {hint}")


def labels_given(text: str) -> ChoiceLabels:
    """The labels of ``first=0,second=1,tie=2``. A choice may have several labels, and ties none.

    Raises:
        MagistrateError: It has another form, gives a label two meanings, or gives an answer no label.
    """
    meanings: dict[str, int] = {}
    for part in text.split(","):
        name, _, said = part.partition("=")
        choice, label = NAMES.get(name.strip().lower()), label_in(said)
        if choice is None or label is None:
            raise MagistrateError(
                f"`{part.strip()}` in `--labels {text}` must be of the form first=LABEL, second=LABEL or tie=LABEL"
            )
        if meanings.setdefault(label, choice) != choice:
            raise MagistrateError(f"`--labels {text}` gives the label `{label}` two meanings; give it one")
    missing = next((name for name, choice in NAMES.items() if choice != TIE and choice not in meanings.values()), None)
    if missing is not None:
        raise MagistrateError(f"`--labels {text}` gives no label of the {missing} answer; add `{missing}=LABEL`")
    return ChoiceLabels("`--labels`", meanings)


def probability_of(verdict: Verdict) -> float | None:
    """The judge's probability that A is better, over the orders; half of what it gives to neither side counts."""
    found = _leads(verdict)
    return (1 + float(np.mean(found))) / 2 if found else None


def probable_choice(verdict: Verdict) -> int | None:
    """The answer that is the likelier to be better over the orders, so that a place which the judge favours cancels out.

    Source: Wang et al. (2023), https://arxiv.org/abs/2305.17926, balanced position calibration.
    """
    found = _leads(verdict)
    if len(found) != 2:
        return None
    lead = sum(found)
    return TIE if abs(lead) < EQUAL else FIRST if lead > 0 else SECOND


def _leads(verdict: Verdict) -> list[float]:
    """By how much A is likelier than B in each order of which the verdict has probabilities.

    Those of a judge that sees each answer alone are the same in both orders.
    """
    found = (verdict.detail or {}).get("probabilities")
    if isinstance(found, Mapping):
        found = [found, found]
    orders = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
    both = [(number_in(one.get("A")), number_in(one.get("B"))) for one in orders]
    return [a - b for a, b in both if a is not None and b is not None and 0 <= a <= 1 and 0 <= b <= 1]

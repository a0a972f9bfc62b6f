"""Two answers compared in both orders: the choices, and what they come to where the orders disagree."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from judges.errors import AnswerError
from judges.judge import Judge, ParsedAnswer, Score

Choice = Literal["A", "both", "B", "neither"]
Orders = Literal["both", "given"]
Disagreement = Literal["tie", "given", "unscored"]

CHOICES: tuple[str, ...] = get_args(Choice)
TIE = "tie"
"""The preference of a judge whose choice depends on the order. It is not one of the four choices."""

SWAPPED = {"A": "B", "B": "A"}
FIRSTS = ("A first: ", "B first: ")
PREFERENCE = "preference"
AGREE = "orders_agree"

_DISAGREE = re.compile(r"the orders disagree: (\w+) with A first, (\w+) with B first")


def preferred(choices: Sequence[str], reasons: Sequence[str], disagreement: Disagreement) -> ParsedAnswer:
    """Combine the choices of one order or of both.

    Args:
        choices: The choice with A first and that with B first, each in terms of what it shows; only the first if one was asked.
        reasons: The reasons for each, if there are any.
        disagreement: The preference if the orders disagree; ``given`` takes the choice with A first.

    Raises:
        AnswerError: The orders disagree, and ``disagreement`` is ``unscored``.
    """
    first, *second = choices
    told = [first, *(SWAPPED.get(choice, choice) for choice in second)]
    scores: dict[str, Score] = {PREFERENCE: first}
    notes = []
    if second:
        scores[AGREE] = int(told[0] == told[1])
    if len(set(told)) > 1:
        sentence = f"the orders disagree: {told[0]} with A first, {told[1]} with B first"
        if disagreement == "unscored":
            raise AnswerError(sentence)
        scores[PREFERENCE] = TIE if disagreement == "tie" else first
        notes.append(f"{sentence}; counted as {scores[PREFERENCE]}")
    firsts = FIRSTS if len(reasons) > 1 else ("",)
    justification = "\n".join(first + reason for first, reason in zip(firsts, reasons, strict=False))
    return ParsedAnswer(scores, justification or None, notes, {"choices": told})


def compares(judge: Judge) -> bool:
    """Whether a judge prefers one of two answers."""
    return PREFERENCE in judge.levels and {"answer_a", "answer_b"} <= set(judge.fields.names)


def disagreement_in(reason: str | None) -> tuple[str, str] | None:
    """The choices with A first and with B first, if they are the reason why a verdict is unscored."""
    match = _DISAGREE.search(reason or "")
    return (match[1], match[2]) if match else None


def swapped_back(probabilities: Sequence[Mapping[str, float] | None]) -> list[Mapping[str, float] | None]:
    """Probabilities of the choices in each order, each in terms of what it shows, in terms of A and B."""
    first, *second = probabilities
    return [first, *(each and {SWAPPED.get(choice, choice): share for choice, share in each.items()} for each in second)]

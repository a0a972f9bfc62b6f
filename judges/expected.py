"""The expected score beside the greedy one: G-Eval's weighting, renormalised over the legal scores.

Source: Liu et al., "G-Eval", https://arxiv.org/abs/2303.16634, section 2, equation 1. The expectation is conditional on what
the model wrote before the score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from judges.answer_text import value_span
from judges.engines.engine import Token
from judges.judge import Label, NumericScore

TOLERANCE = 0.01
"""Share of the probability that may stay unaccounted for. Beyond it no expectation is given, rather than a wrong one."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The mean of a score under the model, and how unsure the model was, in nats."""

    expectation: float
    entropy: float


def alternatives_wanted(scores: Sequence[NumericScore]) -> int:
    """How many of the likeliest tokens show every legal score, with room for a second spelling of some."""
    return max((len(score.legal) + min(len(score.legal), 12) + 2 for score in scores), default=0)


def expected_scores(
    answer: str, tokens: Sequence[Token] | None, scores: Sequence[NumericScore]
) -> tuple[dict[str, Expectation | None], list[str]]:
    """The expectation of every numeric score of an answer.

    Args:
        answer: The whole answer.
        tokens: Its tokens, or ``None`` where the engine did not tell.
        scores: Where the scores stand.

    Returns:
        Metric to expectation, ``None`` where there is none, and a note for each ``None`` that says why.
    """
    if tokens is None:
        return _none(scores, "the engine gives no log-probabilities")
    if not "".join(token.text for token in tokens).startswith(answer):  # behind the answer may stand the end-of-turn token
        return _none(scores, "the tokens do not spell the answer")
    ends = list(accumulate(len(token.text) for token in tokens))
    expected: dict[str, Expectation | None] = {}
    notes = []
    for score in scores:
        found = _expectation(answer, tokens, ends, score)
        if isinstance(found, str):
            notes.append(f"no expected {score.metric}: {found}")
        expected[score.metric] = None if isinstance(found, str) else found
    return expected, notes


def _none(scores: Sequence[NumericScore], why: str) -> tuple[dict[str, Expectation | None], list[str]]:
    return {score.metric: None for score in scores}, [f"no expected scores: {why}"]


def _expectation(answer: str, tokens: Sequence[Token], ends: Sequence[int], score: NumericScore) -> Expectation | str:
    span = value_span(answer, score.path)
    if span is None or answer[slice(*span)] == "null":
        return "the answer gives no number"
    start, end = span
    index = next(place for place, token_end in enumerate(ends) if token_end > start)
    if ends[index] < end:
        return "the score is spelt with more than one token"
    lead = answer[ends[index] - len(tokens[index].text) : start]
    masses, lost = _masses(tokens[index].alternatives, lead, score.legal)
    total = sum(masses.values())
    if total <= 0.0:
        return "no legal score is among the likeliest tokens"
    if lost > TOLERANCE * (total + lost):
        return f"{lost / (total + lost):.0%} of the probability is on spellings of more than one token, or unseen"
    shares = {value: mass / total for value, mass in masses.items() if mass > 0.0}
    return Expectation(
        expectation=round(sum(value * share for value, share in shares.items()), 6),
        entropy=round(-sum(share * math.log(share) for share in shares.values()), 6) + 0.0,
    )


def _masses(alternatives: Mapping[str, float], lead: str, legal: Sequence[int]) -> tuple[dict[int, float], float]:
    """Probability of each legal score, and the probability that cannot be told apart.

    A token may carry text before the score (``lead``, often a space) and after it (a comma). A token that another legal score
    begins with, ``1`` where ``10`` is legal, may still become that one.
    """
    labels = {str(value): value for value in legal}
    masses = dict.fromkeys(legal, 0.0)
    before = lead.strip()
    lost = seen = 0.0
    for text, logprob in alternatives.items():
        mass = math.exp(logprob)
        seen += mass
        spelt = text.lstrip().removeprefix(before).lstrip()
        digits = spelt.rstrip(" ,}\n\t")
        ended = digits != spelt
        if digits in labels and (ended or not any(other != digits and other.startswith(digits) for other in labels)):
            masses[labels[digits]] += mass
        elif not ended and any(label.startswith(digits) for label in labels):
            lost += mass
    return masses, lost + max(0.0, 1.0 - seen)  # what is not listed may be another spelling of any of them


def label_probabilities(answer: str, tokens: Sequence[Token] | None, label: Label) -> dict[str, float] | str:
    """The probability of each legal label where an answer has one, of those alone.

    Its first token tells a label from the others, so no two may begin alike.

    Args:
        answer: The whole answer.
        tokens: Its tokens, or ``None`` where the engine did not tell.
        label: Where it stands, and what it may be.

    Returns:
        Label to probability, or why there is none.
    """
    span = value_span(answer, label.path)
    if tokens is None or span is None:
        return "the engine gives no log-probabilities" if span else "the answer has no label"
    begin = span[0] + 1  # behind the quote
    ends = list(accumulate(len(token.text) for token in tokens))
    index = next((place for place, end in enumerate(ends) if end > begin), None)
    if index is None or "".join(token.text for token in tokens[: index + 1]) != answer[: ends[index]]:
        return "the tokens do not spell the answer"
    lead = answer[ends[index] - len(tokens[index].text) : begin]
    masses = dict.fromkeys(label.legal, 0.0)
    lost = seen = 0.0
    for text, logprob in tokens[index].alternatives.items():
        mass = math.exp(logprob)
        seen += mass
        word, quote, _ = text.removeprefix(lead).partition('"')
        fitting = [one for one in label.legal if one == word or (not quote and one.startswith(word))]
        if text.startswith(lead) and len(fitting) == 1:
            masses[fitting[0]] += mass
        elif fitting:
            lost += mass
    lost += max(0.0, 1.0 - seen)
    total = sum(masses.values())
    if total <= 0.0:
        return "no legal label is among the likeliest tokens"
    if lost > TOLERANCE * (total + lost):
        return f"{lost / (total + lost):.0%} of the probability is on beginnings of more than one label, or unseen"
    return {name: round(mass / total, 6) for name, mass in masses.items()}

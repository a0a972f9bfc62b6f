"""Expected scores: G-Eval's probability weighting, renormalised over the legal scores.

Source: Liu et al., "G-Eval", https://arxiv.org/abs/2303.16634, section 2, equation 1. The expectation is conditional on the text
before the score.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate

from judges.answer_text import value_span
from judges.engines.engine import Token
from judges.judge import Label, NumericScore

TOLERANCE = 0.01
"""Maximum share of probability that may be unaccounted for. Beyond it no expectation is given, rather than a wrong one."""


NEGLIGIBLE = 1e-7
"""Probability of a beginning of a score below which what follows it is not asked for."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The mean of a score under the model, and the entropy in nats.

    Attributes:
        expectation: The mean.
        entropy: The entropy.
        calibrated: What people give on average where the model expects this score; ``None`` if the model has no calibration.
    """

    expectation: float
    entropy: float
    calibrated: float | None = None


def alternatives_wanted(scores: Sequence[NumericScore]) -> int:
    """Number of likeliest tokens that covers every legal score, and a second spelling of some."""
    return max((len(score.legal) + min(len(score.legal), 12) + 2 for score in scores), default=0)


def spreads_of(
    answer: str, tokens: Sequence[Token] | None, scores: Sequence[NumericScore]
) -> tuple[dict[str, Spread], dict[str, str]]:
    """Read the probabilities at the first digit of every numeric score of an answer.

    Args:
        answer: The whole answer.
        tokens: Its tokens, ``None`` if the engine does not report them.
        scores: The scores and their locations.

    Returns:
        Metric to spread, and metric to the reason why it has none.
    """
    fault = ""
    ends: list[int] = []
    if tokens is None:
        fault = "the engine gives no log-probabilities"
    else:
        texts = [token.text for token in tokens]
        ends = list(accumulate(map(len, texts)))
        if not "".join(texts).startswith(answer):  # an end-of-turn token may follow the answer
            fault = "the tokens do not spell the answer"
    spreads: dict[str, Spread] = {}
    faults: dict[str, str] = {}
    for score in scores:
        span = value_span(answer, score.path)
        if fault:
            faults[score.metric] = fault
        elif span is None or answer[slice(*span)] == "null":
            faults[score.metric] = "the answer gives no number"
        else:
            spreads[score.metric] = _first_digits(answer, tokens or [], ends, span, score.legal)
    return spreads, faults


def _first_digits(
    answer: str, tokens: Sequence[Token], ends: Sequence[int], span: tuple[int, int], legal: Sequence[int]
) -> Spread:
    """The spread after the token with a score's first digit; ``ends`` are where the tokens end in the answer."""
    start, end = span
    index = bisect_right(ends, start)
    spread = Spread(legal, answer[:start], (_TO_NEXT_VALUE.match(answer, end) or [""])[0])
    spread.add(tokens[index].alternatives, lead=answer[ends[index] - len(tokens[index].text) : start])
    return spread


_TO_NEXT_VALUE = re.compile(r'[\s\]},]*(?:[\s\[{]*"[^"\\]*":[\s\[{]*)*"?')
"""What stands between a number and the next value, or the end."""


@dataclass(slots=True)
class Spread:
    """Probabilities of a score's legal values, as far as the engine has told them.

    A vocabulary may split a number into digits, or have tokens for some numbers alone: what follows the first token is then
    asked for, a request for each beginning that several legal scores share.

    Attributes:
        legal: The legal scores.
        start: The answer's text before the score.
        after: The answer's text between the score and the next value.
        masses: Legal score to probability.
        open: Digits that other digits may follow, to the probability that the score begins so.
        lost: Probability that belongs to no score.
    """

    legal: Sequence[int]
    start: str
    after: str
    masses: dict[int, float] = field(default_factory=dict)
    open: dict[str, float] = field(default_factory=lambda: {"": 1.0})
    lost: float = 0.0

    def add(self, alternatives: Mapping[str, float], begun: str = "", lead: str = "") -> None:
        """Add what may follow the digits ``begun``; a token may begin with the text before the score (``lead``, often a space).

        Args:
            alternatives: Text to log-probability of the likeliest tokens.
            begun: A key of ``open``.
            lead: Text before the score in the token that was written.
        """
        reached = self.open.pop(begun)
        seen = 0.0
        for text, logprob in alternatives.items():
            mass = math.exp(logprob)
            seen += mass
            spelt = text if begun else text.lstrip().removeprefix(lead.strip()).lstrip()
            digits, rest = _split_digits(spelt)
            if text == lead != "":
                self.open[""] = self.open.get("", 0.0) + reached * mass
            elif digits or rest:
                self._put(begun + digits, rest, reached * mass)
            else:
                self.lost += reached * mass
        self.lost += reached * max(0.0, 1.0 - seen)  # an unlisted token may be another spelling of any score

    def _put(self, digits: str, rest: str, mass: float) -> None:
        labels, beginnings = _digits_of(tuple(self.legal))
        longer = digits in beginnings
        ends = bool(rest) and (not rest.strip(" ,}]\n\t") or self.after.startswith(rest) or rest.startswith(self.after))
        if digits in labels and (ends or (not rest and not longer)):
            self.masses[int(digits)] = self.masses.get(int(digits), 0.0) + mass
        elif longer and not rest:
            self.open[digits] = self.open.get(digits, 0.0) + mass

    @property
    def unfinished(self) -> list[str]:
        """The digits whose continuation matters."""
        return [digits for digits, mass in self.open.items() if mass > NEGLIGIBLE]

    def pattern(self, begun: str) -> str:
        """The pattern of what may follow the digits."""
        endings = {label.removeprefix(begun) for label in map(str, self.legal) if label.startswith(begun)}
        after = re.escape(self.after).replace("\\ ", " ")  # xgrammar warns of an escaped space
        return f"({'|'.join(sorted(endings, reverse=True))}){after}"

    def expectation(self) -> Expectation | str:
        """The mean and the entropy over the legal scores, or the reason why they are unknown."""
        total, undecided = sum(self.masses.values()), sum(self.open.values())
        if undecided > TOLERANCE * (total + self.lost + undecided):
            return (
                f"{undecided:.0%} of the probability is on beginnings of several scores, and this engine cannot say what follows"
            )
        if fault := _fault(self.masses.values(), self.lost + undecided, "score", "beginnings of several scores"):
            return fault
        shares = {value: mass / total for value, mass in self.masses.items() if mass > 0.0}
        return Expectation(
            expectation=round(sum(value * share for value, share in shares.items()), 6),
            entropy=round(-sum(share * math.log(share) for share in shares.values()), 6) + 0.0,
        )


@cache
def _digits_of(legal: tuple[int, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """The digits of each legal score, and those that begin a longer one."""
    labels = frozenset(map(str, legal))
    return labels, frozenset(label[:length] for label in labels for length in range(len(label)))


def _split_digits(text: str) -> tuple[str, str]:
    rest = text.lstrip("0123456789")
    return text[: len(text) - len(rest)], rest


def _fault(masses: Iterable[float], lost: float, kind: str, ambiguous: str) -> str | None:
    """The reason why masses allow no probabilities, if there is one."""
    total = sum(masses)
    if total <= 0.0:
        return f"no legal {kind} is among the likeliest tokens"
    if lost > TOLERANCE * (total + lost):
        return f"{lost / (total + lost):.0%} of the probability is on {ambiguous}, or unseen"
    return None


def label_probabilities(answer: str, tokens: Sequence[Token] | None, label: Label) -> dict[str, float] | str:
    """Compute the probability of each legal label of an answer, renormalised over the legal labels.

    The first token identifies a label, so no two may begin alike.

    Args:
        answer: The whole answer.
        tokens: Its tokens, ``None`` if the engine does not report them.
        label: The label's location and legal values.

    Returns:
        Label to probability, or the reason why there is none.
    """
    span = value_span(answer, label.path)
    if tokens is None or span is None:
        return "the engine gives no log-probabilities" if span else "the answer has no label"
    begin = span[0] + 1  # after the quote
    ends = list(accumulate(len(token.text) for token in tokens))
    index = next((index for index, end in enumerate(ends) if end > begin), None)
    if index is None or "".join(token.text for token in tokens[: index + 1]) != answer[: ends[index]]:
        return "the tokens do not spell the answer"
    lead = answer[ends[index] - len(tokens[index].text) : begin]
    masses = dict.fromkeys(label.legal, 0.0)
    lost = seen = 0.0
    for text, logprob in tokens[index].alternatives.items():
        mass = math.exp(logprob)
        seen += mass
        word, quote, _ = text.removeprefix(lead).partition('"')
        fitting = [legal for legal in label.legal if legal == word or (not quote and legal.startswith(word))]
        if text.startswith(lead) and len(fitting) == 1:
            masses[fitting[0]] += mass
        elif fitting:
            lost += mass
    lost += max(0.0, 1.0 - seen)
    if fault := _fault(masses.values(), lost, "label", "beginnings of more than one label"):
        return fault
    return {name: round(mass / sum(masses.values()), 6) for name, mass in masses.items()}

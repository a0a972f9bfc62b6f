"""Expected scores: G-Eval's probability weighting, renormalised over the legal scores.

Source: Liu et al., "G-Eval", https://arxiv.org/abs/2303.16634, section 2, equation 1. The expectation is conditional on the text
before the score.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate

from judges.answer_text import Place
from judges.constraint import escaped
from judges.engines.engine import Token
from judges.form import AnswerForm
from judges.judge import Label, NumericScore

TOLERANCE = 0.01
"""Maximum share of probability that may be unaccounted for. Beyond it no expectation is given, rather than a wrong one."""


NEGLIGIBLE = 1e-7
"""Probability of a beginning of a value below which what follows it is not asked for."""


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


class AnswerTokens:
    """An answer with its tokens, in which the places of values are looked up.

    Args:
        answer: The whole answer.
        tokens: Its tokens, ``None`` if the engine does not report them.
        form: The form that the answer has.
    """

    def __init__(self, answer: str, tokens: Sequence[Token] | None, form: AnswerForm) -> None:
        self._answer, self._tokens, self._form = answer, tokens or (), form
        texts = [token.text for token in self._tokens]
        self._ends = list(accumulate(map(len, texts)))
        self._fault = "the engine gives no log-probabilities" if tokens is None else ""
        if tokens is not None and not "".join(texts).startswith(answer):  # an end-of-turn token may follow the answer
            self._fault = "the tokens do not spell the answer"

    def spread(self, part: NumericScore | Label) -> Spread | str:
        """The probabilities of a part's legal values at its first character, or the reason why they are unknown."""
        place = self._form.place(self._answer, part.path)
        number = isinstance(part, NumericScore)
        if place is None or (number and self._answer[place.start : place.end] == "null"):
            return "the answer gives no number" if number else "the answer has no label"
        return self._fault or self._at(place, part.legal)

    def _at(self, place: Place, legal: Sequence[int] | Sequence[str]) -> Spread:
        index = bisect_right(self._ends, place.start)
        spread = Spread(legal, self._answer[: place.start], place.after)
        token = self._tokens[index]
        spread.add(token.alternatives, lead=self._answer[self._ends[index] - len(token.text) : place.start])
        return spread


@dataclass(slots=True)
class Spread:
    """Probabilities of the legal values of a score or a label, as far as the engine has told them.

    A vocabulary may split a value into tokens, or have one token for what several values begin with: what follows it is then
    asked for, a request for each such beginning.

    Attributes:
        legal: The legal values.
        start: The answer's text before the value.
        after: The answer's text between the value and the next one; empty if the answer ends with the value.
        masses: Legal value, as spelt, to probability.
        open: Text that several legal values begin with, to the probability that the value begins so.
        lost: Probability that belongs to no value.
    """

    legal: Sequence[int] | Sequence[str]
    start: str
    after: str
    masses: dict[str, float] = field(default_factory=dict)
    open: dict[str, float] = field(default_factory=lambda: {"": 1.0})
    lost: float = 0.0

    def add(self, alternatives: Mapping[str, float], begun: str = "", lead: str = "") -> None:
        """Add what may follow the text ``begun``; a token may begin with the text before the value (``lead``, often a space).

        Args:
            alternatives: Text to log-probability of the likeliest tokens.
            begun: A key of ``open``.
            lead: Text before the value in the token that was written.
        """
        reached = self.open.pop(begun)
        seen = 0.0
        for text, logprob in alternatives.items():
            mass = math.exp(logprob)
            seen += mass
            spelt = text if begun else text.lstrip().removeprefix(lead.strip()).lstrip()
            if text == lead != "":
                self.open[""] = self.open.get("", 0.0) + reached * mass
            elif spelt:
                self._put(begun + spelt, reached * mass)
            elif begun in self._labels and not self.after:  # the end of the answer may have no text
                self.masses[begun] = self.masses.get(begun, 0.0) + reached * mass
            else:
                self.lost += reached * mass
        self.lost += reached * max(0.0, 1.0 - seen)  # an unlisted token may be another spelling of any value

    def _put(self, text: str, mass: float) -> None:
        """Count a text that begins a legal value, or holds one with what may follow it. Any other has no part in the scores."""
        fitting = self._beginnings.get(text, ())
        if len(fitting) > 1:
            self.open[text] = self.open.get(text, 0.0) + mass
            return
        whole = fitting[0] if fitting else next(filter(self._labels.__contains__, _shortened(text)), None)
        if whole is not None and (fitting or self._ends(text.removeprefix(whole))):
            self.masses[whole] = self.masses.get(whole, 0.0) + mass

    def _ends(self, rest: str) -> bool:
        """Whether a value ends where this text follows it."""
        if not self.after:
            return not rest[0].isalnum()
        return not rest.strip(' ,}]\n\t"') or self.after.startswith(rest) or rest.startswith(self.after)

    @property
    def _labels(self) -> Mapping[str, None]:
        return _spelt(tuple(self.legal))[0]

    @property
    def _beginnings(self) -> Mapping[str, Sequence[str]]:
        return _spelt(tuple(self.legal))[1]

    @property
    def unfinished(self) -> list[str]:
        """The beginnings whose continuation matters."""
        return [begun for begun, mass in self.open.items() if mass > NEGLIGIBLE]

    def pattern(self, begun: str) -> str:
        """The pattern of what may follow the text ``begun``."""
        endings = {label.removeprefix(begun) for label in self._labels if label.startswith(begun)}
        return f"({'|'.join(map(escaped, sorted(endings, reverse=True)))}){escaped(self.after)}"

    def expectation(self) -> Expectation | str:
        """The mean and the entropy over the legal scores, or the reason why they are unknown."""
        shares = self._shares("score")
        if isinstance(shares, str):
            return shares
        return Expectation(
            expectation=round(sum(int(value) * share for value, share in shares.items()), 6),
            entropy=round(-sum(share * math.log(share) for share in shares.values()), 6) + 0.0,
        )

    def probabilities(self) -> dict[str, float] | str:
        """The probability of each legal label, or the reason why they are unknown."""
        shares = self._shares("label")
        if isinstance(shares, str):
            return shares
        return {label: round(shares.get(label, 0.0), 6) for label in self._labels}

    def _shares(self, kind: str) -> dict[str, float] | str:
        """The probability of each value that has any, renormalised over the legal ones."""
        total, undecided = sum(self.masses.values()), sum(self.open.values())
        lost = self.lost + undecided
        if undecided > TOLERANCE * (total + lost):
            return (
                f"{undecided:.0%} of the probability is on beginnings of several {kind}s, and this engine cannot say what follows"
            )
        if total <= 0.0:
            return f"no legal {kind} is among the likeliest tokens"
        if lost > TOLERANCE * (total + lost):
            return f"{lost / (total + lost):.0%} of the probability is on beginnings of several {kind}s, or unseen"
        return {value: mass / total for value, mass in self.masses.items() if mass > 0.0}


@lru_cache(maxsize=256)
def _spelt(legal: tuple[int | str, ...]) -> tuple[Mapping[str, None], Mapping[str, Sequence[str]]]:
    """The legal values as spelt, and every text that one of them begins with to those that do."""
    labels = dict.fromkeys(map(str, legal))
    beginnings: dict[str, list[str]] = {}
    for label in labels:
        for length in range(len(label) + 1):
            beginnings.setdefault(label[:length], []).append(label)
    return labels, beginnings


def _shortened(text: str) -> Iterator[str]:
    """The beginnings of a text, the longest first."""
    return (text[:length] for length in range(len(text) - 1, 0, -1))

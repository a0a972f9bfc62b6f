"""What a judge decided of each row: a choice for each order in which it was asked, or a rating of each answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals.data.choice_labels import FIRST, SECOND, TIE, choice_of, probable_choice
from evals.data.tables import finite
from evals.meta.benchmarks.files import Item
from judges.data.rows import Row
from judges.errors import MagistrateError
from judges.judge import Judge
from judges.orders import disagreement_in
from judges.verdict import Verdict

PREFERENCE = "preference"
NO_VERDICT = "no verdict"


@dataclass(frozen=True, slots=True)
class Decision:
    """What a judge decided of a row.

    Attributes:
        orders: Its choice in each order that it was asked in, told of the row's own first and second answer; ``None``, none.
        ratings: Its rating of each answer, for a judge that rates; ``None``, none.
        reason: Why there is no choice, or a rating is missing.
    """

    orders: tuple[int | None, ...] = ()
    ratings: tuple[float | None, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """How a judge is asked about a benchmark's rows.

    Attributes:
        metric: The metric of its ratings; ``None`` for a judge that compares.
        question: The field of a sample that holds the question.
        answer: That of the answer, for a judge that rates.
    """

    metric: str | None
    question: str = "question"
    answer: str = "answer"

    def rows(self, items: Sequence[Item]) -> list[Row]:
        """What the judge is asked: a row a pair, or one an answer."""
        if self.metric is not None:
            return [
                Row(name, name, {self.question: item.question, self.answer: answer})
                for item in items
                for name, answer in zip(_names(item), item.answers, strict=True)
            ]
        return [
            Row(one.id, one.id, {"question": one.question, "answer_a": one.answers[0], "answer_b": one.answers[1]})
            for one in items
        ]

    def decision(self, item: Item, verdicts: Mapping[str, Verdict], *, expected: bool = False) -> Decision | None:
        """What the verdicts decide of a row; ``None`` where it was not judged.

        Args:
            item: The row.
            verdicts: By id.
            expected: Whether expected scores, or the likelier answer over the orders, are taken.
        """
        if self.metric is None:
            verdict = verdicts.get(item.id)
            return None if verdict is None else compared(verdict, expected=expected)
        return _rated(item, self.metric, [verdicts.get(name) for name in _names(item)], expected=expected)


def asked(judge: Judge, metric: str | None) -> Asked:
    """How a judge is asked: to compare, if its verdict has a preference, or to rate.

    Args:
        judge: The judge.
        metric: Of its ratings, where it has several.

    Raises:
        MagistrateError: It neither compares nor rates, there is no such metric, or one must be named.
    """
    if PREFERENCE in judge.levels:
        if metric is not None:
            raise MagistrateError(f"judge `{judge.name}` compares two answers and rates none; leave out `--metric {metric}`")
        return Asked(None)
    known = [score.metric for score in judge.numeric_scores if not score.of_reference]
    names = ", ".join(known)
    if not known:
        raise MagistrateError(f"judge `{judge.name}` neither compares two answers nor rates one in numbers; take another judge")
    if metric is None and len(known) > 1:
        raise MagistrateError(f"judge `{judge.name}` rates {names}; say which counts: `--metric {known[0]}`")
    if metric is not None and metric not in known:
        raise MagistrateError(f"judge `{judge.name}` has no metric `{metric}`; it rates {names}")
    fields = judge.fields
    return Asked(metric or known[0], fields.question or "question", fields.answer or "answer")


def compared(verdict: Verdict, *, expected: bool = False) -> Decision:
    """The choices of a comparing judge's verdict."""
    disagreement = disagreement_in(verdict.reason) if verdict.status == "unscored" else None
    if disagreement is not None:
        return Decision(tuple(choice_of(word) for word in disagreement))
    if verdict.scores is None:
        return Decision((None, None), reason=verdict.reason or "unscored")
    if expected:
        likelier = probable_choice(verdict)
        return Decision((likelier,), reason=None if likelier is not None else "no probabilities of both orders")
    said = (verdict.detail or {}).get("choices")
    told = [choice_of(word) for word in said] if isinstance(said, list) else []
    if told and None not in told:
        return Decision(tuple(told[:2]))
    choice, agree = choice_of(verdict.scores.get(PREFERENCE)), verdict.scores.get("orders_agree")
    if choice is None:
        return Decision((None,), reason="the verdict has no preference")
    if agree is None:
        return Decision((choice,))
    if agree == 1:
        return Decision((choice, choice))
    return Decision((None, None), reason="the orders disagree, and the verdict does not say how")


def _names(item: Item) -> list[str]:
    return [f"{item.id}#{place}" for place in range(1, len(item.answers) + 1)]


def _rated(item: Item, metric: str, verdicts: Sequence[Verdict | None], *, expected: bool) -> Decision | None:
    if all(one is None for one in verdicts):
        return None
    ratings = tuple(_rating(one, metric, expected=expected) for one in verdicts)
    reasons = (_why(one) for one, rating in zip(verdicts, ratings, strict=True) if rating is None)
    reason = next(reasons, None)
    if len(item.answers) != 2:
        return Decision((), ratings, reason)
    first, second = ratings
    if first is None or second is None:
        return Decision((None,), ratings, reason)
    return Decision((TIE if first == second else FIRST if first > second else SECOND,), ratings)


def _rating(verdict: Verdict | None, metric: str, *, expected: bool) -> float | None:
    if verdict is None or verdict.scores is None:
        return None
    if expected:
        found = (verdict.expected or {}).get(metric)
        return None if found is None else finite(found.expectation)
    return finite(_plain(verdict.scores.get(metric)))


def _plain(score: Any) -> Any:
    return None if isinstance(score, str) else score


def _why(verdict: Verdict | None) -> str:
    if verdict is None:
        return NO_VERDICT
    return verdict.reason or "the verdict has no number of the metric"

"""How far a pairwise judge prefers what people prefer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evals.data.choice_labels import FIRST, NAMES, SECOND, TIE, choice_of, probable_choice
from evals.data.compared_answers import Compared, ComparedSet
from evals.data.tables import numbered
from evals.data.tasks import Fault
from evals.meta.people.judge_scores import judge_names, unmatched
from evals.meta.people.rater_choices import Choices, Options, Raters, agreement, among_raters
from evals.stats.bootstrap import LEAST_ITEMS, grouped_intervals
from evals.stats.nominal import Nominal, Share
from judges.errors import MagistrateError, counted
from judges.orders import disagreement_in
from judges.verdict import Verdict

LEAST = 10
"""Compared pairs below which nothing is said."""

CHOICES = (FIRST, SECOND, TIE)


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the pairs.

    Attributes:
        name: Which.
        without_ties: Whether pairs are left out that either side calls a tie.
        majority: Of the judge with the majority of people.
        raters: Of the judge with each rater, the mean.
    """

    name: str
    without_ties: bool
    majority: Nominal
    raters: Nominal


@dataclass(frozen=True, slots=True)
class Judged:
    """The judge beside people.

    Attributes:
        judge: Who judged.
        scored: Pairs with a choice of the judge.
        parts: All pairs, those whose orders agree, those on which people are unanimous, and where the verdicts have probabilities
            the likelier answer of both orders; each also without ties.
        confusion: The judge's choice to the majority's to how many pairs; ``None`` where there is no majority.
        consistent: The share of pairs on which both orders agree; ``None`` where only one was asked.
        ordered: Pairs of which that is known.
        unscored: Reason to how many pairs.
    """

    judge: str
    scored: int
    parts: Sequence[Part]
    confusion: Sequence[tuple[int, int | None, int]]
    consistent: Share | None
    ordered: int
    unscored: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What people chose, all raters together.

    Attributes:
        choice: ``first``, ``second`` or ``tie``.
        labels: Those that the file has for it.
        count: How often.
        share: Of all choices.
    """

    choice: str
    labels: Sequence[str]
    count: int
    share: float


@dataclass(frozen=True, slots=True)
class Preferences:
    """The study.

    Attributes:
        name: Of the file.
        pairs: Compared pairs.
        questions: Distinct questions of those.
        unanimous: Pairs on which all raters name the same.
        undecided: Pairs without a majority.
        labels: Who says what the labels mean that are numbers; ``None`` where there are only words.
        choices: What people chose, by choice.
        judged: The judge beside people; ``None`` without a judge.
        raters: People among themselves.
        faults: What could not be used.
        level: Of the intervals.
        rounds: Of the bootstrap.
    """

    name: str
    pairs: int
    questions: int
    unanimous: int
    undecided: int
    labels: str | None
    choices: Sequence[Chosen]
    judged: Judged | None
    raters: Raters
    faults: Sequence[Fault]
    level: float
    rounds: int


def check_enough(compared: ComparedSet, which: str = "") -> None:
    """See that there are pairs enough for a study.

    Args:
        compared: The pairs.
        which: Which of the file's these are, in an error's words.

    Raises:
        MagistrateError: There are fewer than ten.
    """
    if len(compared.pairs) < LEAST:
        found = counted(len(compared.pairs), "compared pair")
        left_out = "; ".join(f"{counted(fault.count, 'row')}: {fault.what}" for fault in compared.faults)
        why = f" ({left_out})" if left_out else ""
        raise MagistrateError(f"{compared.name} has {found}{which}{why}; at least {LEAST} are needed")


def study(compared: ComparedSet, verdicts: Mapping[str, Verdict] | None = None, options: Options | None = None) -> Preferences:
    """Set a pairwise judge's verdicts against people's choices.

    Args:
        compared: The pairs.
        verdicts: By id; without them only people are set beside each other. Pairs without one are left out.
        options: How.

    Raises:
        MagistrateError: Fewer than ten pairs have a verdict, or no verdict has a preference.
    """
    options = options or Options()
    check_enough(compared)
    faults = list(compared.faults)
    if verdicts is not None:
        faults += unmatched([one.id for one in compared.pairs], verdicts)
        compared = replace(compared, pairs=[one for one in compared.pairs if one.id in verdicts])
        check_enough(compared, " with a verdict")
    pairs = compared.pairs
    probable: Choices = []
    if verdicts is not None and options.expected:
        probable = [probable_choice(verdicts[one.id]) for one in pairs]
        faults += _without_probabilities([verdicts[one.id] for one in pairs], probable)
    return Preferences(
        name=compared.name,
        pairs=len(pairs),
        questions=len({one.item for one in pairs}),
        unanimous=sum(one.unanimous for one in pairs),
        undecided=sum(one.majority is None for one in pairs),
        labels=compared.whose,
        choices=chosen(compared),
        judged=None if verdicts is None else _judged(pairs, verdicts, probable, options),
        raters=among_raters(compared, options),
        faults=faults,
        level=options.level,
        rounds=options.rounds,
    )


def chosen(compared: ComparedSet) -> list[Chosen]:
    """What people chose, and by which labels."""
    counts = Counter(choice for one in compared.pairs for choice in one.choices if choice is not None)
    labels = {choice: [label for label, meant in compared.meanings.items() if meant == choice] for choice in CHOICES}
    return [Chosen(name, labels[choice], counts[choice], counts[choice] / counts.total()) for name, choice in NAMES.items()]


def _judged(pairs: Sequence[Compared], verdicts: Mapping[str, Verdict], probable: Choices, options: Options) -> Judged:
    chosen: list[int | None] = []
    agree: list[float] = []
    unscored: Counter[str] = Counter()
    for one in pairs:
        verdict = verdicts.get(one.id)
        choice, orders, reason = (None, np.nan, None) if verdict is None else _told(verdict)
        chosen.append(choice)
        agree.append(orders)
        if reason is not None:
            unscored[reason] += 1
    if all(choice is None for choice in chosen):
        why = "; ".join(f"{counted(amount, 'pair')}: {reason}" for reason, amount in unscored.most_common())
        raise MagistrateError(f"no verdict has a preference ({why}), so nothing can be set against people")
    everything, unanimous = [True] * len(pairs), [one.unanimous for one in pairs]
    parts: list[tuple[str, Choices, list[bool]]] = [("all pairs", chosen, everything)]
    if not all(np.isnan(agree)):
        parts.append(("orders agree", chosen, [one == 1 for one in agree]))
    parts.append(("people unanimous", chosen, unanimous))
    if any(choice is not None for choice in probable):
        parts += [("by probabilities", probable, everything), ("by probabilities, people unanimous", probable, unanimous)]
    confusion = Counter((choice, one.majority) for choice, one in zip(chosen, pairs, strict=True) if choice is not None)
    return Judged(
        judge=options.called or judge_names(verdicts),
        scored=sum(choice is not None for choice in chosen),
        parts=[
            _part(
                name,
                without_ties,
                [one for one, inside in zip(pairs, where, strict=True) if inside],
                [one for one, inside in zip(choices, where, strict=True) if inside],
                options,
            )
            for name, choices, where in parts
            for without_ties in (False, True)
        ],
        confusion=[(choice, other, confusion[choice, other]) for choice in CHOICES for other in (*CHOICES, None)],
        consistent=_consistent(pairs, agree, options),
        ordered=int((~np.isnan(agree)).sum()),
        unscored=dict(unscored.most_common()),
    )


def _without_probabilities(verdicts: Sequence[Verdict], probable: Choices) -> list[Fault]:
    """Verdicts with a preference that count in no row by probabilities."""
    missing = Fault("verdict without probabilities of both orders, which `--expected` compares")
    for verdict, choice in zip(verdicts, probable, strict=True):
        if choice is None and verdict.status == "scored":
            missing.add(verdict.id)
    return [missing] if missing.count else []


def _told(verdict: Verdict) -> tuple[int | None, float, str | None]:
    """The judge's choice, whether the orders agree (NaN where that is not known), and why there is no choice."""
    if verdict.status == "unscored" or verdict.scores is None:
        disagree = disagreement_in(verdict.reason) is not None
        return None, 0.0 if disagree else np.nan, "the orders disagree" if disagree else verdict.reason or "unscored"
    choice, orders = choice_of(verdict.scores.get("preference")), verdict.scores.get("orders_agree")
    known = float(orders) if isinstance(orders, int | float) else np.nan
    return choice, known, "the verdict has no preference" if choice is None else None


def _part(name: str, without_ties: bool, pairs: Sequence[Compared], chosen: Choices, options: Options) -> Part:
    people = [one.majority for one in pairs]
    raters = list(zip(*(one.choices for one in pairs), strict=True))
    return Part(
        name,
        without_ties,
        agreement([(chosen, people)], pairs, options, without_ties=without_ties),
        agreement([(chosen, one) for one in raters], pairs, options, without_ties=without_ties),
    )


def _consistent(pairs: Sequence[Compared], agree: Sequence[float], options: Options) -> Share | None:
    if all(np.isnan(agree)):
        return None
    items = numbered([one.item for one in pairs])
    none = np.empty((len(pairs), 0), np.int64)
    rounds, level, seed = options.rounds, options.level, options.seed
    found = grouped_intervals(agree, none, 0, rounds=rounds, level=level, seed=seed, clusters=items).overall
    questions = len(np.unique(items[~np.isnan(agree)]))
    if questions < LEAST_ITEMS:
        return Share(found.mean, None, None, 0, f"no interval: {questions} items are too few, {LEAST_ITEMS} are needed")
    return Share(found.mean, found.low, found.high)

"""What a study of a pairwise judge and people says, in tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evals.data.choice_labels import FIRST, SECOND, TIE
from evals.data.choice_labels import NAMES as CHOICE_NAMES
from evals.meta.people.preferences import CHOICES, Chosen, Judged, Preferences
from evals.meta.people.rater_choices import Raters
from evals.reports.document import Block, Document, Heading, Table, estimate_cell, to_know
from evals.reports.wording import absent, count, counted, fault_lines, number, percent, share_with_interval
from evals.stats.nominal import Nominal

NAMES: Mapping[int | None, str] = {FIRST: "first better", SECOND: "second better", TIE: "tie", None: "no majority"}


def document(found: Preferences) -> Document:
    """The study as a document."""
    who = "What people prefer" if found.judged is None else f"{found.judged.judge} beside people"
    return Document(f"{who}: {found.name}", list(_blocks(found)))


def _blocks(found: Preferences) -> Iterator[Block]:
    yield (
        f"{counted(found.pairs, 'pair')} of {counted(found.questions, 'question')}; people are unanimous on "
        f"{found.unanimous:,}, and {found.undecided:,} have no majority. Intervals hold the true value {found.level:.4g} of the "
        f"time; {found.rounds:,} resamples of questions."
    )
    yield from choices(found.choices, found.labels)
    if found.judged is not None:
        yield from _judged(found.judged)
    yield from _raters(found.raters)
    yield from to_know(_remarks(found))


def choices(chosen: Sequence[Chosen], whose: str | None) -> Iterator[Block]:
    """What people chose, and who says what their labels mean."""
    yield Heading("What people chose")
    yield Table(
        ("choice", "labels", "choices", "share"),
        [
            (NAMES[CHOICE_NAMES[one.choice]], ", ".join(one.labels) or absent("no label"), count(one.count), percent(one.share))
            for one in chosen
        ],
        texts=2,
    )
    yield "All labels are words." if whose is None else f"Labels mean what {whose} says."


def _judged(judged: Judged) -> Iterator[Block]:
    yield Heading("The judge and people")
    yield Table(
        ("agreement", "pairs", "with majority", "kappa", "with a rater", "kappa"),
        [
            (
                f"{part.name}, no ties" if part.without_ties else part.name,
                count(part.majority.rows),
                *(estimate_cell(one) for side in (part.majority, part.raters) for one in (side.agreement, side.kappa)),
            )
            for part in judged.parts
        ],
    )
    if judged.consistent is not None:
        consistent = judged.consistent
        share = share_with_interval(consistent.value, consistent.low, consistent.high)
        yield f"Both orders agree on {share} of {counted(judged.ordered, 'pair')}."
    amounts = {(choice, other): amount for choice, other, amount in judged.confusion}
    others = (*CHOICES, None)
    yield Table(
        ("judge, then the majority", *(NAMES[other] for other in others)),
        [(NAMES[choice], *(count(amounts[choice, other]) for other in others)) for choice in CHOICES],
    )


def _raters(raters: Raters) -> Iterator[Block]:
    yield Heading("People among themselves")
    rows: list[tuple[str, Nominal]] = [(f"{one} and {other}", found) for one, other, found in raters.pairs]
    if len(rows) > 1:
        rows.append(("two raters, mean", raters.mean))
    rows.append(("a rater and the majority of the others", raters.ceiling))
    rows.append(("the same, no ties", raters.ceiling_without_ties))
    yield Table(
        ("people", "pairs", "agreement", "kappa"),
        [(name, count(found.rows), estimate_cell(found.agreement), estimate_cell(found.kappa)) for name, found in rows],
    )
    why = "" if raters.reason is None else f": {raters.reason}"
    yield f"Krippendorff's alpha, nominal: {number(raters.alpha)}{why}."


def _remarks(found: Preferences) -> Iterator[str]:
    causes: dict[str, list[str]] = {}
    if found.judged is not None:
        yield f"{counted(found.judged.scored, 'pair')} scored"
        yield from (f"{counted(amount, 'pair')} not scored: {why}" for why, amount in found.judged.unscored.items())
        named = {choice for choice, _, amount in found.judged.confusion if amount}
        if len(named) == 1:
            yield f"the judge names the same on every pair, {NAMES[named.pop()]}, so its kappa is 0 whatever people name"
        for part in found.judged.parts:
            name = f"{part.name}, no ties" if part.without_ties else part.name
            if not part.raters.rows:
                causes.setdefault("there is no such pair", []).append(name)
                continue
            _collect(causes, f"{name}, majority", part.majority, found.rounds)
            _collect(causes, f"{name}, a rater", part.raters, found.rounds)
        if found.judged.consistent is not None and found.judged.consistent.reason is not None:
            causes.setdefault(found.judged.consistent.reason, []).append("both orders agree")
    for one, other, both in found.raters.pairs:
        _collect(causes, f"{one} and {other}", both, found.rounds)
    _collect(causes, "a rater and the majority of the others", found.raters.ceiling, found.rounds)
    _collect(causes, "the same, no ties", found.raters.ceiling_without_ties, found.rounds)
    yield from (f"{'; '.join(names)}: {said}" for said, names in causes.items())
    yield from fault_lines(found.faults)


def _collect(causes: dict[str, list[str]], name: str, found: Nominal, rounds: int) -> None:
    """Add why figures or intervals are missing, and what they do not rest on, under the cause."""
    agreement, kappa = found.agreement.reason, found.kappa.reason
    told = [agreement] if agreement == kappa else [agreement and f"agreement: {agreement}", kappa and f"kappa: {kappa}"]
    if found.kappa.left_out and found.kappa.low is not None:
        told.append(f"kappa is undefined in {found.kappa.left_out:,} of {rounds:,} resamples, which are left out")
    for said in told:
        if said is not None:
            causes.setdefault(said, []).append(name)

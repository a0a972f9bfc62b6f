"""A word for each part of the card, by thresholds that the page states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from evals.meta.card.card import SAME, Card
from evals.meta.card.consistency import Change
from evals.stats.shares import Figure

Word = Literal["good", "weak", "not measured"]
Outcome = tuple[Word, str] | None

IDENTICAL = 0.95
ALPHA = 0.8
MOVED = 0.05
SAME_PAIRS = 0.8
FROM_HALF = 0.1
GAINED = 0.05
NET = 0.1
UNSCORED = 0.01
ABOVE_PERFECT = 0.05

LEAST = 10
"""Samples that a figure must be of to decide a mark."""

ALL_SAME = "nearly all scores are the same, so that alpha over seeds says nothing"
TOO_FEW = f"its figures are of fewer than {LEAST} samples each"


@dataclass(frozen=True, slots=True)
class Mark:
    """What the card says of one part of it.

    Attributes:
        key: The part.
        word: Good, weak or not measured.
        says: The figure that decides, or why there is none.
        rule: When it is good.
    """

    key: str
    word: Word
    says: str
    rule: str


RULES = {
    "again": f"at least {IDENTICAL:.0%} of the scores of every metric are the same in all runs",
    "sampled": f"Krippendorff's alpha over seeds is at least {ALPHA:g} for every metric, of its scores and of whether it "
    f"applies; where {SAME:.0%} of them are the same, alpha says nothing and does not count",
    "order": f"in every metric scores move by at most {MOVED:.0%} of the scale, on average; "
    f"of pairs, at least {SAME_PAIRS:.0%} keep their preference",
    "formatting": f"for every edit and metric, scores move by at most {MOVED:.0%} of the scale, on average; "
    f"of pairs, at least {SAME_PAIRS:.0%} keep their preference",
    "position": f"the share of first places is within {100 * FROM_HALF:.0f} points of one half",
    "length": f"padding raises no metric by more than {GAINED:.0%} of the scale, on average; of pairs, the padded answer is "
    f"preferred at most {100 * NET:.0f} points more often than the one without",
    "unscored": f"at most {UNSCORED:.0%} of the judgements are unscored",
    "calibration": f"every error is at most {ABOVE_PERFECT:.0%} of the scale above that of a perfectly calibrated judge",
    "probes": "every probe passes: the interval of its share lies on the right side of one half",
}


NO_MERIT = ("order", "formatting", "length")
"""What a judge is good at, too, that says the same of everything; then it counts as not measured."""


def marks(card: Card) -> list[Mark]:
    """A mark for each part, in the page's order."""
    found = {
        "again": _again(card),
        "sampled": _sampled(card),
        "order": _pair_order(card) if card.pairwise else _changes(card.order, card),
        "formatting": _changes(card.formatting, card),
        "position": _position(card),
        "length": _length(card),
        "unscored": _unscored(card),
        "calibration": _calibration(card),
        "probes": _probes(card),
    }
    return [_mark(key, outcome, card) for key, outcome in found.items()]


def _mark(key: str, outcome: Outcome, card: Card) -> Mark:
    word, says = outcome or ("not measured", card.reasons.get(key, "there is nothing to compare"))
    if word == "good" and key in NO_MERIT and card.constant:
        word, says = "not measured", f"{says}; but nearly all samples have the same score, and so that is no merit"
    return Mark(key, word, says, RULES[key])


def _word(good: bool) -> Word:
    return "good" if good else "weak"


def _decides(figure: Figure) -> bool:
    """Whether it is a figure of samples enough for a mark."""
    return figure.value is not None and figure.count >= LEAST


def _none(figures: Iterable[Figure]) -> Outcome:
    """No mark: because all figures are of few samples, or for the card's own reason."""
    return ("not measured", TOO_FEW) if any(one.value is not None for one in figures) else None


def _again(card: Card) -> Outcome:
    found = [one.identical for one in card.again]
    known = [one.value for one in found if one.value is not None and _decides(one)]
    if not known:
        return _none(found)
    value = min(known)
    least = "at least " if len(known) > 1 and value < 1 else ""
    return _word(value >= IDENTICAL), f"{least}{value:.1%} of the {_scores(card)} are the same in all runs"


def _sampled(card: Card) -> Outcome:
    known = [
        (one.alpha.value, one.metric, "")
        for one in card.sampled
        if one.alpha.value is not None and _decides(one.alpha) and (one.commonest or 0) < SAME
    ]
    known += [
        (one.applying.value, one.metric, " of whether the metric applies")
        for one in card.sampled
        if one.applying.value is not None and _decides(one.applying) and 1 - SAME < (one.applies or 0) < SAME
    ]
    if not known:
        enough = any(_decides(one.deviation) for one in card.sampled)
        return ("not measured", ALL_SAME) if enough else _none(one.deviation for one in card.sampled)
    value, metric, of_what = min(known)
    said = f"alpha over seeds{of_what} is {value:.2f}".replace("-", "\N{MINUS SIGN}")
    return _word(value >= ALPHA), said + _of(metric, card)


def _changes(found: Sequence[Change], card: Card) -> Outcome:
    if card.pairwise:
        known = [(one.unchanged.value, one.title) for one in found if one.unchanged.value is not None and _decides(one.unchanged)]
        if not known:
            return _none(one.unchanged for one in found)
        value, title = min(known)
        return _word(value >= SAME_PAIRS), f"{value:.1%} of the preferences stay, {title}"
    moved = [(one.of_scale, f"{one.metric}, {one.title}") for one in found if one.of_scale is not None and _decides(one.distance)]
    if not moved:
        return _none(one.distance for one in found)
    value, title = max(moved)
    return _word(value <= MOVED), f"scores move by {value:.1%} of the scale at the most: {title}"


def _pair_order(card: Card) -> Outcome:
    if card.places is None or card.places.same.value is None:
        return None
    if not _decides(card.places.same):
        return _none([card.places.same])
    value = card.places.same.value
    return _word(value >= SAME_PAIRS), f"{value:.1%} of the pairs keep their preference when the answers change places"


def _position(card: Card) -> Outcome:
    if card.places is None:
        return None
    value = card.places.first.value
    if value is None:
        return "not measured", card.places.first.reason or ""
    if not _decides(card.places.same):
        return _none([card.places.first])
    return _word(abs(value - 0.5) <= FROM_HALF), f"{value:.1%} of the choices go to the answer shown first"


def _length(card: Card) -> Outcome:
    if card.longer is not None:
        value = card.longer.net.value
        if value is None or card.longer.longer.value is None or card.longer.shorter.value is None:
            return None
        if not _decides(card.longer.net):
            return _none([card.longer.net])
        longer, shorter = card.longer.longer.value, card.longer.shorter.value
        return _word(value <= NET), f"{longer:.1%} of the padded answers are preferred, {shorter:.1%} of those without"
    known = [(one.of_scale, one.metric) for one in card.lengthened if one.of_scale is not None and _decides(one.change)]
    if not known:
        return _none(one.change for one in card.lengthened)
    value, metric = max(known)
    moved = f"raises {metric} by {value:.1%}" if value > 0 else "raises no metric"
    return _word(value <= GAINED), f"padding {moved}{' of the scale' if value > 0 else ''}"


def _unscored(card: Card) -> Outcome:
    value = card.unscored.unscored.value
    if value is not None and card.samples["count"] < LEAST:
        return "not measured", TOO_FEW
    return None if value is None else (_word(value <= UNSCORED), f"{value:.1%} of {card.unscored.unscored.count:,} judgements")


def _calibration(card: Card) -> Outcome:
    spans = {metric.name: metric.span for metric in card.metrics}
    known = [
        ((one.error.value - one.perfect) / spans[one.metric], one.error.value, one.perfect, one.metric)
        for one in card.weighed
        if one.error.value is not None and one.perfect is not None
    ]
    if not known:
        whys = "; ".join(dict.fromkeys(one.error.reason or "" for one in card.weighed))
        return ("not measured", whys) if card.weighed else None
    above, error, perfect, metric = max(known)
    return (
        _word(above <= ABOVE_PERFECT),
        f"the error is {error:.3f}{_of(metric, card)}; a perfectly calibrated judge would have {perfect:.3f}",
    )


def _probes(card: Card) -> Outcome:
    outcomes = [one.outcome for one in card.probes if one.outcome is not None and _decides(one.as_high)]
    if not outcomes:
        return _none(one.as_high for one in card.probes)
    return _word(set(outcomes) == {"pass"}), ", ".join(_counts(outcomes))


def _counts(outcomes: Sequence[str]) -> Iterator[str]:
    for word, title in (("pass", "passed"), ("fail", "failed"), ("unsure", "unsure")):
        if word in outcomes:
            yield f"{outcomes.count(word)} of {len(outcomes)} {title}"


def _scores(card: Card) -> str:
    return "preferences" if card.pairwise else "scores"


def _of(metric: str, card: Card) -> str:
    """Which metric a figure is of, where there are several."""
    return f" ({metric}, the least good)" if len(card.metrics) > 1 else ""

"""The parts of the card with their tables, what each figure is and how to read it."""

from __future__ import annotations

from collections.abc import Sequence

from evals.meta.card.card import Card
from evals.meta.card.consistency import Change
from evals.meta.card.probing import Probed
from evals.meta.card.tables import Given, Table, count_cell, exact_cell, part_cell, points_cell, share_cell
from evals.reports.document import Cell
from evals.reports.wording import NONE, counted, line, number
from judges.catalog import JUDGES
from judges.rubric import Rubric

TITLES = {
    "again": "Asked again",
    "sampled": "Sampled with other seeds",
    "order": "In another order",
    "formatting": "In another form",
    "position": "Position",
    "length": "Length",
    "unscored": "Unscored and cut off",
    "calibration": "Calibration",
    "probes": "Answers that say nothing",
}


Shown = tuple[list[str], list[Table]]
"""What the figures of a part are and how to read them, a sentence each, and the tables."""


def part(key: str, card: Card) -> Shown:
    """A part of the card by its mark's key; without tables where nothing is measured."""
    parts = {
        "again": _again,
        "sampled": _sampled,
        "order": _order,
        "formatting": _formatting,
        "position": _position,
        "length": _length,
        "unscored": _unscored,
        "calibration": _calibration,
        "probes": _probes,
    }
    reading, tables = parts[key](card)
    return reading, [table for table in tables if table.rows]


def _again(card: Card) -> Shown:
    made = Table("Asked again", ("Metric", "Identical", "Mean difference", "Samples"))
    for one in card.again:
        made.add([one.metric], [(one.identical, share_cell), (one.difference, points_cell), count_cell(one.identical.count)])
    return [
        f"The same questions were put {counted(card.options['reruns'], 'time')} more, greedily, with the samples in other orders "
        "and so in other batches.",
        "Identical is the share of the samples with the same score in every run; a judge that depends on nothing else has 100%. "
        "A sample that is scored in one run and unscored in another is not identical.",
        "The mean difference is the mean absolute difference from the first run, in points, of the samples with a score in every "
        "run.",
    ], [made]


def _sampled(card: Card) -> Shown:
    headings = ["Metric", "Standard deviation", "Of the scale", "Alpha over seeds", "Samples"]
    # Of a judge whose metrics always apply there is nothing to say.
    applying = any(one.applying.value is not None for one in card.sampled)
    if applying:
        headings.insert(4, "Alpha of applying")
    made = Table("Sampled", headings)
    for one in card.sampled:
        cells: list[Given] = [
            (one.deviation, points_cell),
            part_cell(one.of_scale),
            (one.alpha, exact_cell),
            *([(one.applying, exact_cell)] if applying else []),
            count_cell(one.deviation.count),
        ]
        made.add([one.metric], cells)
    return [
        f"Answers were sampled at temperature {card.options['temperature']:g} with {counted(card.options['seeds'], 'seed')}.",
        "The standard deviation is that of one sample's scores, in points: how far a single sampled score may be from the next.",
        "Alpha is Krippendorff's: 1 where seeds agree wholly, 0 where they agree as by chance.",
        *(
            ["Alpha of applying is that of whether the metric applies to a sample at all; the lower of the two decides."]
            if applying
            else []
        ),
    ], [made]


def _order(card: Card) -> Shown:
    if card.places is not None:
        made = Table("Both orders", ("Judge", "Same preference", "Pairs"))
        made.add([card.judge["name"]], [(card.places.same, share_cell), count_cell(card.places.same.count)])
        return [
            "Each pair is judged with either answer first; the same preference in both is what a judge of the answers has.",
        ], [made]
    said = JUDGES.get(card.judge["name"], Rubric).reordering
    unchanged = "Unchanged is the share of the samples with the same score; changes are in points."
    reading = [said, unchanged, *_moved(card.order)]
    return reading, _changed(card.order, card)


def _moved(found: Sequence[Change]) -> list[str]:
    one_sided = sum(one.applying for one in found)
    return [
        "The mean change is without its sign, so it cannot cancel out; the shift is with it, and above 0 where scores rise.",
        *(
            [
                "Where a metric applies before the change only, or after it only, the mean change counts the whole scale, as "
                f"“does not apply” is no score; that is so {counted(one_sided, 'time')}. The shift and the largest change leave "
                "it out."
            ]
            if one_sided
            else []
        ),
    ]


def _formatting(card: Card) -> Shown:
    what = "Answer A is" if card.pairwise else "The judged answer is"
    unit = "what answer A takes: 1 where it is preferred, one half where neither is" if card.pairwise else "points"
    return [
        f"{what} edited in ways that change none of its words; the samples that an edit leaves as they are do not count for it.",
        f"Unchanged is the share with the same {'preference' if card.pairwise else 'score'}; changes are in {unit}.",
        *_moved(card.formatting),
    ], _changed(card.formatting, card)


def _changed(found: Sequence[Change], card: Card) -> list[Table]:
    """A table for each change with a row for each metric, or one table where there is one metric."""
    single = len(card.metrics) == 1
    figures = ("Unchanged", "Mean change", "Of the scale", "Shift", "Largest", "Samples")
    made: dict[str, Table] = {}
    for one in found:
        caption = "Changes" if single else one.title
        largest = NONE if one.largest is None else number(one.largest, 1 if card.pairwise else 0)
        cells: list[Given] = [
            (one.unchanged, share_cell),
            (one.distance, points_cell),
            part_cell(one.of_scale),
            (one.shift, points_cell),
            Cell(text=largest if one.sample is None else f"{largest} ({line(one.sample)})"),
            count_cell(one.unchanged.count),
        ]
        rows = made.setdefault(caption, Table(caption.capitalize(), ("Change" if single else "Metric", *figures)))
        rows.add([one.title if single else one.metric], cells)
    return list(made.values())


def _position(card: Card) -> Shown:
    found = card.places
    if found is None:
        return [], []
    made = Table("Position", ("Judge", "Chose the first", "Choices", "First fares better", "Second fares better"))
    cells: list[Given] = [
        (found.first, share_cell),
        count_cell(found.first.count),
        count_cell(found.first_gains),
        count_cell(found.second_gains),
    ]
    made.add([card.judge["name"]], cells)
    return [
        "Of the choices for one answer, over both orders, the share that went to the answer shown first; one half is fair.",
        "Of the pairs whose preference changes with the order, the last columns count those in which answers fare better where "
        "they are shown first, and second.",
    ], [made]


def _length(card: Card) -> Shown:
    if card.longer is not None:
        found = card.longer
        made = Table("Length", ("What", "Share", "Pairs"))
        for title, figure in (
            ("the longer answer won", found.association),
            ("padded answer preferred to itself", found.longer),
            ("answer without padding preferred", found.shorter),
        ):
            made.add([title], [(figure, share_cell), count_cell(figure.count)])
        return [
            "The first row is an association only: of pairs with one winner and answers of different length, how many the longer "
            "won; longer answers may well be better.",
            "The others are an experiment: answer A is compared with itself and its own last sentence said once more, which adds "
            "nothing. A judge of what is said prefers neither, or the one without.",
        ], [made]
    made = Table("Length", ("Metric", "Correlation with length", "Scored", "Change by padding", "Of the scale", "Padded"))
    for one in card.lengthened:
        cells: list[Given] = [
            (one.association, exact_cell),
            count_cell(one.association.count),
            (one.change, points_cell),
            part_cell(one.of_scale),
            count_cell(one.change.count),
        ]
        made.add([one.metric], cells)
    return [
        "The correlation is Spearman’s, of the score with the answer’s characters, over the samples as they are. It is an "
        "association only: longer answers may well be better. Its interval is the bootstrap’s over samples.",
        "The change is an experiment: the answer’s own last sentence is said once more behind it, which adds nothing. Above 0, "
        "the judge rewards length.",
    ], [made]


def _unscored(card: Card) -> Shown:
    found = card.unscored
    whole = Table("All runs", ("What", "Share", "Judgements"))
    whole.add(["unscored"], [(found.unscored, share_cell), count_cell(sum(found.reasons.values()))])
    for reason, amount in found.reasons.items():
        whole.add([f"unscored: {reason}"], [part_cell(amount / found.unscored.count), count_cell(amount)])
    whole.add(["cut off and finished"], [(found.recovered, share_cell), count_cell(sum(one[2] for one in found.runs.values()))])
    by_run = Table("By run", ("Run", "Judgements", "Unscored", "Cut off and finished"))
    for title, amounts in found.runs.items():
        by_run.add([title], [count_cell(amount) for amount in amounts])
    return [
        "Unscored are judgements without a score, by their reasons; a model that is held to the form of the answer cannot refuse "
        "in words, so a refusal shows here or not at all.",
        "Cut off and finished are answers that the token limit ended and that the model went on with when asked.",
        "One sample is judged in many runs and may fail in all of them, so the intervals go by samples.",
    ], [whole, by_run]


def _calibration(card: Card) -> Shown:
    whole = Table("Calibration", ("Metric", "What", "Error", "If perfect", "Bins", "Labels"), texts=2)
    each = Table("Bins", ("Metric and bin", "Labels", "Predicted", "People"))
    scales = {metric.name: metric for metric in card.metrics}
    for one in card.weighed:
        what = "expected score, in points" if one.graded else "probability"
        if one.labels is not None and one.graded:
            metric = scales[one.metric]
            what += f"; judge {metric.lowest:g} to {metric.highest:g}, labels {one.labels[0]:g} to {one.labels[1]:g}"
        perfect = NONE if one.perfect is None else f"{number(one.perfect)}, up to {number(one.perfect_high)}"
        bins = NONE if one.wanted is None else f"{len(one.bins)} of {one.wanted}"
        whole.add([one.metric, what], [(one.error, exact_cell), Cell(text=perfect), Cell(text=bins), count_cell(one.error.count)])
        for place, found in enumerate(one.bins, start=1):
            cells = [count_cell(found.count), Cell(text=number(found.predicted)), Cell(text=number(found.observed))]
            each.add([f"{one.metric}, bin {place}"], cells)
    left = sum(one.without for one in card.weighed)
    return [
        "The error is the mean distance, over bins of as many labels each, of what the judge predicts and what people say; 0 is "
        "best. Equal predictions share a bin, so there may be fewer bins than were asked for.",
        *(
            ["A probability is that of the likeliest of A, B and tie, over both orders together; people say the same or not."]
            if card.pairwise
            else ["It holds only if people used the judge’s scale: 3 of 5 is not 3 of 10."]
        ),
        "Of few labels it is too large. So beside it stands what a perfectly calibrated judge with the same predictions would "
        "have, on average, and what it stays below as often as intervals hold.",
        *([f"{counted(left, 'label')} of samples without a probability are not used."] if left else []),
    ], [whole, each] if card.weighed else []


def _probes(card: Card) -> Shown:
    if card.pairwise:
        made = Table("Probes", ("Second answer", "Real answer wins in both orders", "Pairs", "Outcome"))
        for one in card.probes:
            made.add([one.title], [(one.wins or one.as_high, share_cell), count_cell(one.as_high.count), _outcome(one)])
        return [
            "Answer B is replaced by one that says nothing about the question. Higher is better: the real answer should win in "
            "both orders.",
            "A probe is passed where the whole interval lies above one half, failed where it lies below, else unsure.",
        ], [made]
    made = Table("All metrics together", ("Answer", "As high as the real one", "Samples", "Outcome"))
    each = Table("Metric by metric", ("Answer", "Metric", "Real", "Probe", "As high as the real one", "Samples"), texts=2)
    for one in card.probes:
        made.add([one.title], [(one.as_high, share_cell), count_cell(one.as_high.count), _outcome(one)])
        for found in one.metrics:
            cells: list[Given] = [
                (found.real, points_cell),
                (found.probe, points_cell),
                (found.as_high, share_cell),
                count_cell(found.as_high.count),
            ]
            each.add([one.title, found.metric], cells)
    only_real = sum(found.only_real for one in card.probes for found in one.metrics)
    only_probe = sum(found.only_probe for one in card.probes for found in one.metrics)
    one_sided = [
        *(
            [
                "Where a metric applies to the real answer and not to the probe, the probe counts as lower, by the whole scale: "
                f"{counted(only_real, 'time')}."
            ]
            if only_real
            else []
        ),
        *(
            [f"Where a metric applies to the probe and not to the real answer, it is left out: {counted(only_probe, 'time')}."]
            if only_probe
            else []
        ),
    ]
    return [
        "The answer is replaced by one that says nothing about the question. The share is that of the samples in which the judge "
        "scores it as high as the real answer or higher, all metrics taken together; lower is better.",
        *one_sided,
        "A probe is passed where the whole interval lies below one half, failed where it lies above, else unsure.",
        "It needs real answers that are good: of bad ones, a probe is rightly as good. And another sample’s answer, or the "
        "question said again, may rightly be as good in grammar.",
    ], [made, each]


def _outcome(one: Probed) -> Cell:
    return Cell(text={"pass": "passed", "fail": "failed", "unsure": "unsure"}[one.outcome] if one.outcome else "not measured")

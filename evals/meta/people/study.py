"""How far a judge goes along with people: every metric against every quality, beside what people and simple measures reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evals.data.published_ratings import Rated, RatedSet
from evals.data.tables import numbered
from evals.data.tasks import Fault
from evals.data.verdicts import judges_of, mixed
from evals.meta.people.baselines import baselines, has_reference
from evals.meta.people.calibrate import Fitted, fit
from evals.meta.people.gpt_score import Likelihoods
from evals.meta.people.judge_scores import JudgeScores, Scales, judge_names, judge_scores
from evals.meta.people.raters import RaterAgreement, against_the_others, means, rater_agreement, scales_differ
from evals.metrics.embedding import EmbeddingOptions
from evals.stats.association import Associations, associations
from evals.stats.bootstrap import LEVEL, ROUNDS
from evals.stats.system_association import LEAST_SYSTEMS, system_associations
from judges.errors import MagistrateError, counted
from judges.verdict import Verdict

LEAST = 10
"""Rated samples of a set, below which nothing is said of it."""

MOST_SYSTEMS = 200
"""Systems above which there are no correlations over them: such a column names something else, and each pair takes time."""

ALL = "all sets"
RATERS = "a rater and the others"

Kind = Literal["judge", "expected", "raters", "baseline"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to study.

    Attributes:
        expected: Whether the judge's expected scores count too.
        embeddings: A model for similarity by token vectors, and how these are compared.
        likelihoods: How likely a model finds the responses of all samples, for GPTScore.
        rounds: Of the bootstrap.
        level: How often an interval is to hold the true value.
        seed: Of the resamples.
        called: What the report calls the judge; by default as its verdicts do.
        scales: Of the judge's numeric metrics; ``None`` where only its verdicts are known.
        calibrate: Metric to the quality that its expected scores are calibrated by.
    """

    expected: bool = False
    embeddings: EmbeddingOptions | None = None
    likelihoods: Likelihoods = field(default_factory=Likelihoods)
    rounds: int = ROUNDS
    level: float = LEVEL
    seed: int = 0
    called: str | None = None
    scales: Scales | None = None
    calibrate: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the tables.

    Attributes:
        name: Of a metric, of people, or of a baseline.
        kind: Which of these it is.
        qualities: Quality to the coefficients.
    """

    name: str
    kind: Kind
    qualities: Mapping[str, Associations]


@dataclass(frozen=True, slots=True)
class Group:
    """A data set, or the samples of it that have a reference.

    Attributes:
        name: What it is called.
        referenced: Whether it is those with a reference only.
        samples: How many.
        items: How many distinct items they are of.
        lines: The judge's, people's, and baselines'.
        over_systems: The judge's and baselines', each system's mean against people's mean of it.
        raters: Quality to how far people agree on it.
        notes: What a reader should know.
        faults: What could not be measured.
        systems: How many systems the samples are of.
    """

    name: str
    referenced: bool
    samples: int
    items: int
    lines: Sequence[Line]
    over_systems: Sequence[Line]
    raters: Mapping[str, RaterAgreement]
    notes: Sequence[str] = field(default_factory=tuple)
    faults: Sequence[Fault] = field(default_factory=tuple)
    systems: int = 0


@dataclass(frozen=True, slots=True)
class People:
    """The study.

    Attributes:
        name: Of the file.
        judge: Who judged; ``None`` without a judge.
        groups: The sets, each followed by its samples with a reference; and all of them together, where there are several.
        qualities: What people rate.
        unscored: Reason to how many samples the judge gave no scores.
        notes: What a reader should know.
        faults: What could not be used.
        level: Of the intervals.
        rounds: Of the bootstrap.
        calibrated: The curves that were asked for.
    """

    name: str
    judge: str | None
    groups: Sequence[Group]
    qualities: Sequence[str]
    unscored: Mapping[str, int]
    notes: Sequence[str]
    faults: Sequence[Fault]
    level: float
    rounds: int
    calibrated: Sequence[Fitted] = ()


def check_enough(rated: RatedSet) -> None:
    """See that there are samples enough for a study.

    Raises:
        MagistrateError: There are fewer than ten that anybody has rated.
    """
    count = len(rated.samples)
    if count < LEAST:
        raise MagistrateError(f"{rated.name} has {count} rated samples; at least {LEAST} are needed")


def study(rated: RatedSet, verdicts: Mapping[str, Verdict] | None = None, options: Options | None = None) -> People:
    """Set a judge's verdicts against people's ratings.

    Args:
        rated: The samples.
        verdicts: By id; without them only people and baselines are set against people. Samples without one are left out, so that
            all rows of a table are of the same samples.
        options: How.

    Raises:
        MagistrateError: Fewer than ten rated samples have a verdict, no verdict has a number, or no curve can be fitted.
    """
    options = options or Options()
    samples = list(rated.samples)
    check_enough(rated)
    scores = JudgeScores({}, {}, {}, [])
    if verdicts is not None:
        scores = _scores(samples, verdicts, options)
    notes = [f"`{metric}` gives labels and no numbers, and stands in no table" for metric in scores.labels]
    notes += scores.notes
    notes += mixed(judges_of((verdicts or {}).values()))
    judged = [place for place, one in enumerate(samples) if verdicts is None or one.id in verdicts]
    if len(judged) < LEAST:
        raise MagistrateError(f"{rated.name} has {len(judged)} rated samples with a verdict; at least {LEAST} are needed")
    if len(judged) < len(samples):
        notes.append(f"the tables are of the {len(judged):,} of {len(samples):,} samples that have a verdict")
    names = list(dict.fromkeys(samples[place].set for place in judged))
    wholes = [(name, [place for place in judged if samples[place].set == name]) for name in names]
    if len(wholes) > 1:
        wholes.append((ALL, judged))
    groups = []
    for name, places in wholes:
        if len(places) < LEAST:
            notes.append(f"{name} has {len(places)} rated samples and no tables; at least {LEAST} are needed")
            continue
        groups.append(_group(name, samples, places, rated.qualities, scores, options))
        referenced = [place for place in places if has_reference(samples[place])]
        if len(referenced) >= LEAST:
            groups.append(_group(name, samples, referenced, rated.qualities, scores, options, referenced=True))
        elif referenced:
            notes.append(f"{name} has {len(referenced)} samples with a reference, too few to measure baselines on")
    faults = [*rated.faults, *scores.faults, *options.likelihoods.faults]
    judge = None if verdicts is None else options.called or judge_names(verdicts)
    calibrated = fit(rated, scores, options.calibrate, options.scales or {}, options.seed)
    return People(
        rated.name, judge, groups, rated.qualities, scores.unscored, notes, faults, options.level, options.rounds, calibrated
    )


def _scores(samples: Sequence[Rated], verdicts: Mapping[str, Verdict], options: Options) -> JudgeScores:
    found = judge_scores([one.id for one in samples], verdicts, expected=options.expected, scales=options.scales)
    if not found.written:
        why = "; ".join(f"{counted(amount, 'sample')}: {reason}" for reason, amount in found.unscored.items())
        raise MagistrateError(f"no verdict has a number{f' ({why})' if why else ''}, so nothing can be set against people")
    return found


def _group(
    name: str,
    samples: Sequence[Rated],
    places: Sequence[int],
    qualities: Sequence[str],
    scores: JudgeScores,
    options: Options,
    *,
    referenced: bool = False,
) -> Group:
    here = [samples[place] for place in places]
    items = numbered([f"{one.set}\0{one.item}" for one in here])
    ratings = {quality: [one.ratings[quality] for one in here] for quality in qualities}
    there = [quality for quality in qualities if any(one is not None for given in ratings[quality] for one in given)]
    people = np.column_stack([means(ratings[quality]) for quality in there])
    columns: dict[tuple[str, Kind], Floats] = {
        **{(metric, "judge"): column[list(places)] for metric, column in scores.written.items()},
        **{(f"{metric}, expected", "expected"): column[list(places)] for metric, column in scores.expectations.items()},
    }
    faults: list[Fault] = []
    if referenced:
        measured = baselines(here, options.embeddings)
        columns |= {(baseline, "baseline"): column for baseline, column in measured.columns.items()}
        faults = measured.faults
    drawing: dict[str, Any] = {"rounds": options.rounds, "level": options.level, "seed": options.seed}
    likelihoods = {
        row: np.column_stack([by_quality[quality][list(places)] for quality in there])
        for row, by_quality in options.likelihoods.rows.items()
    }
    measure = partial(associations, items=items, **drawing)
    lines = _lines(columns, likelihoods, people, there, measure)
    agreed = {quality: against_the_others(ratings[quality], items, **drawing) for quality in there}
    begin = next((place for place, line in enumerate(lines) if line.kind == "baseline"), len(lines))
    lines.insert(begin, Line(RATERS, "raters", agreed))
    systems = [one.system for one in here]
    known = len(set(systems) - {None}) if name != ALL else 0
    over_systems = []
    if LEAST_SYSTEMS <= known <= MOST_SYSTEMS:
        of = np.array([one is not None for one in systems])
        measure = partial(system_associations, systems=[one for one in systems if one is not None], items=items[of], **drawing)
        over_systems = _lines(
            {key: column[of] for key, column in columns.items()},
            {row: table[of] for row, table in likelihoods.items()},
            people[of],
            there,
            measure,
        )
    notes = [f"{quality}: {said}" for quality in there if (said := scales_differ(ratings[quality])) is not None]
    if known > MOST_SYSTEMS:
        notes.append(f"no correlations over systems: the samples are of {known:,} systems, and {MOST_SYSTEMS} are the most")
    agreement = {quality: rater_agreement(ratings[quality]) for quality in there}
    return Group(name, referenced, len(here), len(np.unique(items)), lines, over_systems, agreement, notes, faults, systems=known)


def _lines(
    columns: Mapping[tuple[str, Kind], Floats],
    likelihoods: Mapping[str, Floats],
    people: Floats,
    qualities: Sequence[str],
    measure: Callable[[Floats, Floats], list[list[Associations]]],
) -> list[Line]:
    """A line a column, and one for each table of likelihoods, which has a column of its own for each quality."""
    lines = []
    if columns:
        found = measure(np.column_stack(list(columns.values())), people)
        lines = [
            Line(metric, kind, dict(zip(qualities, row, strict=True))) for (metric, kind), row in zip(columns, found, strict=True)
        ]
    for row, table in likelihoods.items():
        beside = {quality: measure(table[:, [place]], people[:, [place]])[0][0] for place, quality in enumerate(qualities)}
        lines.append(Line(row, "baseline", beside))
    return lines

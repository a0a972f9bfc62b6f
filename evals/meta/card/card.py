"""The card: all figures of a judge, from the verdicts of all runs."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from evals.meta.card.bias import Lengthened, LongerPreferred, Places, lengthened, longer_preferred, places
from evals.meta.card.calibration import People, Weighed, weighed
from evals.meta.card.consistency import Again, Change, Sampled, again, changes, sampled
from evals.meta.card.measured import Scores
from evals.meta.card.probing import Probed, probed, probed_pairs
from evals.meta.card.runs import AGAIN, BASE, EDIT, PADDED, PROBE, SEEDS, TURNED, WEIGHED, Plan, Run, Verdicts
from evals.meta.card.subject import Metric, Subject
from evals.reports.wording import counted, first_few, listed
from evals.stats.shares import LEVEL, Figure, share, share_of_items
from judges.data.rows import Row
from judges.summary import Summary
from judges.verdict import Fingerprint

SAME = 0.95
"""Share of the samples with one score, from which a metric says the same of everything."""

FEW = 30
"""Samples below which every figure is rough."""


@dataclass(frozen=True, slots=True)
class Unscored:
    """What could not be scored, over all runs.

    Attributes:
        unscored: Share of the judgements; in its interval, those of one sample go together.
        recovered: Share of the judgements whose answer was cut off and finished, likewise.
        reasons: Reason to count.
        runs: Title of each run to its judgements, those unscored and those recovered.
        prompt_tokens: Tokens of all prompts.
        completion_tokens: Tokens of all answers.
    """

    unscored: Figure
    recovered: Figure
    reasons: Mapping[str, int]
    runs: Mapping[str, tuple[int, int, int]]
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Card:
    """What is found of a judge.

    Attributes:
        judge: Name, version and options.
        fingerprint: Digest of what verdicts of the first run depend on.
        identity: What answered: model, engine and its version, and so on.
        samples: File's name, how many, and a digest of what they hold.
        options: How the card was made.
        metrics: Those with figures.
        commonest: Metric to the share of the samples that have its commonest score.
        pairwise: Whether the judge compares two answers.
        again: When the same is asked again.
        sampled: When answers are sampled.
        order: In another order; empty where ``reasons`` says why.
        formatting: In another form, likewise.
        places: Of a pairwise judge.
        lengthened: Of a scoring judge.
        longer: Of a pairwise judge.
        unscored: What could not be scored.
        weighed: Against people's labels; empty where ``reasons`` says why.
        probes: Answers that say nothing.
        reasons: Section to why it is not measured.
        notes: What a reader should know, a sentence each.
    """

    judge: Mapping[str, Any]
    fingerprint: str
    identity: Mapping[str, Any]
    samples: Mapping[str, Any]
    options: Mapping[str, Any]
    metrics: Sequence[Metric]
    commonest: Mapping[str, Figure]
    pairwise: bool
    again: Sequence[Again]
    sampled: Sequence[Sampled]
    order: Sequence[Change]
    formatting: Sequence[Change]
    places: Places | None
    lengthened: Sequence[Lengthened]
    longer: LongerPreferred | None
    unscored: Unscored
    weighed: Sequence[Weighed]
    probes: Sequence[Probed]
    reasons: Mapping[str, str]
    notes: Sequence[str] = field(default_factory=list)

    @property
    def constant(self) -> bool:
        """Whether it says nearly the same of every sample, in every metric. That scores stay is no merit then."""
        return all(figure.value is not None and figure.value >= SAME for figure in self.commonest.values())

    def fields(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a card is made from, besides the verdicts.

    Attributes:
        fingerprint: Of the first run.
        source: The samples' file, by name.
        rows: The samples.
        judge_options: As the user gave them.
        plan: How much was judged.
        people: What people say; ``None`` where nobody was asked.
        level: How often intervals are to hold.
    """

    fingerprint: Fingerprint
    source: str
    rows: Sequence[Row]
    judge_options: Mapping[str, str]
    plan: Plan
    people: People | None = None
    level: float = LEVEL


def make_card(subject: Subject, runs: Sequence[Run], verdicts: Mapping[str, Verdicts], made: Made) -> Card:
    """Work out the figures.

    Args:
        subject: The judge.
        runs: As ``plan_runs`` gives them.
        verdicts: Run's name to its verdicts, one for each sample.
        made: What else there is.
    """
    metrics, level, ids = subject.metrics, made.level, [row.id for row in made.rows]
    scores = {name: Scores.of(subject, found) for name, found in verdicts.items()}
    base = scores[BASE]

    def kind(beginning: str) -> list[Run]:
        return [run for run in runs if run.name.startswith(f"{beginning}-") or run.name == beginning]

    def changed(run: Run) -> list[Change]:
        return changes(run.title, metrics, base, scores[run.name], ids, level=level)

    unasked = Scores([None] * len(ids), np.full((len(ids), len(metrics)), np.nan))
    padded = scores.get(PADDED, unasked)
    lengths = _lengths(subject, made.rows)
    people = made.people
    return Card(
        judge={"name": subject.judge.name, "version": subject.judge.version, "options": dict(made.judge_options)},
        fingerprint=made.fingerprint.digest,
        identity=asdict(made.fingerprint.identity),
        samples={"file": made.source, "count": len(ids), "digest": _digest(made.rows)},
        options={
            **{name: getattr(made.plan, name) for name in ("reruns", "seeds", "temperature", "seed")},
            "level": level,
            **made.plan.decoding.model_dump(exclude={"expected"}),
        },
        metrics=metrics,
        commonest=(commonest := _commonest(metrics, base, level)),
        pairwise=subject.pairwise,
        again=again(metrics, base, [scores[run.name] for run in kind(AGAIN)], level=level),
        sampled=sampled(metrics, [scores[run.name] for run in kind(SEEDS)]),
        order=[change for run in kind(TURNED) for change in changed(run)],
        formatting=[change for run in kind(EDIT) for change in changed(run)],
        places=places(verdicts[BASE], level=level) if subject.pairwise else None,
        lengthened=[] if subject.pairwise else lengthened(metrics, base, padded, lengths[:, 0], level=level, seed=made.plan.seed),
        longer=longer_preferred(base, padded, lengths, level=level) if subject.pairwise else None,
        unscored=_unscored(runs, verdicts, level),
        weighed=[] if people is None else weighed(subject, verdicts[WEIGHED], people, level=level, seed=made.plan.seed),
        probes=[
            probed_pairs(run.title, scores[run.name], level=level)
            if subject.pairwise
            else probed(run.title, metrics, base, scores[run.name], level=level)
            for run in kind(PROBE)
        ],
        reasons=_reasons(subject, runs, people),
        notes=_notes(subject, made, commonest),
    )


def _reasons(subject: Subject, runs: Sequence[Run], people: People | None) -> dict[str, str]:
    names = {run.name.split("-")[0] if run.name != TURNED else TURNED for run in runs}
    found = {}
    if not subject.pairwise:
        found["position"] = "a judge that scores one answer has no position"
        if TURNED not in names:
            found["order"] = "there are no two metrics, and no two references, whose order could change"
    if EDIT not in names:
        found["formatting"] = "no sample has an answer, as one text, to change"
        found["probes"] = found["length"] = found["formatting"]
    if people is None:
        found["calibration"] = "there are no labels of people; give them with `--human`"
    return found


def _commonest(metrics: Sequence[Metric], base: Scores, level: float) -> dict[str, Figure]:
    found = {}
    for column, metric in enumerate(metrics):
        given = Counter(row[column] for row in base.raw if row is not None)
        most = max(given.values(), default=0)
        found[metric.name] = share(np.arange(given.total()) < most, level=level, reason="no sample is scored")
    return found


def _notes(subject: Subject, made: Made, commonest: Mapping[str, Figure]) -> list[str]:
    notes = []
    count = len(made.rows)
    if count < FEW:
        notes.append(f"there {'is' if count == 1 else 'are'} only {counted(count, 'sample')}: every figure is rough")
    same = [name for name, figure in commonest.items() if figure.value is not None and figure.value >= SAME]
    if same and count > 1:
        notes.append(f"nearly all samples have the same {listed(same)}, and where all is the same, staying the same is no merit")
    if subject.left_out:
        notes.append(f"metrics without numbers have no figures here: {', '.join(subject.left_out)}")
    bare = sum(subject.answer_of(row.sample) is None for row in made.rows)
    if bare:
        notes.append(
            f"{bare:,} of {count:,} samples have no answer of their own, as one text, that could be changed (whole dialogues, "
            "answers of several turns, rows at fault); they count where nothing is changed"
        )
    if made.people is not None:
        known = {row.id for row in made.rows}
        strange = [name for name in made.people.ids if name not in known]
        if strange:
            notes.append(f"{counted(len(strange), 'labelled id')} without a sample judged here: {first_few(strange)}")
        if made.people.empty:
            notes.append(f"{counted(made.people.empty, 'cell')} without a label in the labels' file")
        if made.people.faults:
            notes.append(
                f"{counted(len(made.people.faults), 'fault')} in the labels' file: {first_few(made.people.faults, between='; ')}"
            )
    return notes


def _unscored(runs: Sequence[Run], verdicts: Mapping[str, Verdicts], level: float) -> Unscored:
    whole = Summary()
    by_run = {}
    judged = [(place, verdict) for run in runs for place, verdict in enumerate(verdicts[run.name]) if verdict is not None]
    samples = [place for place, _ in judged]
    for run in runs:
        one = Summary.of(verdict for verdict in verdicts[run.name] if verdict is not None)
        by_run[run.title] = (one.scored + one.unscored.total(), one.unscored.total(), one.recovered)
        whole.scored += one.scored
        whole.unscored.update(one.unscored)
        whole.recovered += one.recovered
        whole.usage += one.usage
    return Unscored(
        share_of_items([verdict.scores is None for _, verdict in judged], samples, level=level),
        share_of_items([verdict.recovered for _, verdict in judged], samples, level=level),
        dict(whole.unscored.most_common()),
        by_run,
        whole.usage.prompt_tokens,
        whole.usage.completion_tokens,
    )


def _lengths(subject: Subject, rows: Sequence[Row]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """``(N, 2)`` characters of the answer, or of both answers of a pair."""
    fields = ("answer_a", "answer_b") if subject.pairwise else (subject.answer, subject.answer)
    texts = [[subject.answer_of(row.sample, name) for name in fields] for row in rows]
    return np.array([[np.nan if text is None else len(text) for text in pair] for pair in texts]).reshape(-1, 2)


def _digest(rows: Sequence[Row]) -> str:
    held = [[row.id, row.problem if row.sample is None else row.sample] for row in rows]
    ground = json.dumps(held, sort_keys=True, default=str)
    return hashlib.sha256(ground.encode()).hexdigest()[:16]

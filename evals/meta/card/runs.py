"""The runs that a card is made of: the same samples as they are, again, and changed, each in a file of verdicts of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evals.meta.card.probes import COPIED, EDITS, ELSEWHERE, NOTHING, from_elsewhere, padded
from evals.meta.card.subject import Subject
from judges.backend import LocalBackend, ProgressListener, judge_file
from judges.data.rows import Row
from judges.decoding import GREEDY, Decoding, SampledDecoding
from judges.engines.engine import Engine
from judges.judge import Judge
from judges.runner import prepare
from judges.verdict import Fingerprint, Verdict

BASE = "as-they-are"
AGAIN = "again"
SEEDS = "seed"
TURNED = "other-order"
EDIT = "edit"
PADDED = "padded"
PROBE = "probe"
WEIGHED = "probabilities"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is judged.

    Attributes:
        reruns: How many times more the same is asked.
        seeds: How many times answers are sampled.
        temperature: Sampling temperature of those.
        seed: Of every random choice.
        weighed: Whether probabilities are asked for, to be held against people's labels.
        decoding: How answers are written where nothing else is said. Expected scores are asked for by ``weighed`` only.
    """

    reruns: int = 3
    seeds: int = 3
    temperature: float = 0.7
    seed: int = 0
    weighed: bool = False
    decoding: Decoding = GREEDY


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run over samples, or over some of them that are changed.

    Attributes:
        name: Its file's name.
        title: What is changed, in words.
        judge: Who is asked.
        rows: What is asked about, in any order.
        places: Of each row, the number of its sample.
        decoding: How answers are written.
    """

    name: str
    title: str
    judge: Judge
    rows: Sequence[Row]
    places: Sequence[int]
    decoding: Decoding = GREEDY


Verdicts = list[Verdict | None]
"""A verdict for each sample, ``None`` where the run does not ask about it."""


class Listener(ProgressListener):
    """Follows the progress of the runs. This one ignores it."""

    def begins(self, run: Run) -> None:
        """Hear of a run that begins."""


def plan_runs(subject: Subject, rows: Sequence[Row], plan: Plan) -> list[Run]:
    """The runs of a card.

    Args:
        subject: The judge.
        rows: The samples, with ids of their own.
        plan: How much.
    """
    judge, whole = subject.judge, range(len(rows))
    runs = [Run(name=BASE, title="the samples as they are", judge=judge, rows=rows, places=whole)]
    for number in range(1, plan.reruns + 1):
        order = list(whole)
        random.Random(f"{plan.seed} {number}").shuffle(order)
        again = [rows[place] for place in order]
        runs.append(Run(name=f"{AGAIN}-{number}", title=f"again, {number}", judge=judge, rows=again, places=order))
    if plan.temperature > 0:
        runs += [
            Run(
                name=f"{SEEDS}-{number}",
                title=f"sampled, {number}",
                judge=judge,
                rows=rows,
                places=whole,
                decoding=SampledDecoding(**plan.decoding.model_dump(), temperature=plan.temperature, seed=plan.seed + number),
            )
            for number in range(1, plan.seeds + 1)
        ]
    if (turned := judge.reordered()) is not None:
        runs.append(Run(name=TURNED, title="metrics the other way round", judge=turned, rows=rows, places=whole))
    runs += _changed(subject, rows)
    if plan.weighed:
        weighed = plan.decoding.model_copy(update={"expected": True})
        runs.append(Run(name=WEIGHED, title="with probabilities", judge=judge, rows=rows, places=whole, decoding=weighed))
    return [replace(run, decoding=plan.decoding) if run.decoding is GREEDY else run for run in runs]


async def judge_all(
    runs: Sequence[Run],
    host: Engine,
    folder: Path,
    listener: Listener | None = None,
    *,
    overwrite: bool = False,
) -> tuple[dict[str, Verdicts], Fingerprint]:
    """Judge all runs on one engine, and return each run's verdicts in the samples' order, and the first run's fingerprint.

    Args:
        runs: The first one covers every sample.
        host: The engine; it is started once, if anything is to be asked. Closing it is left to the caller.
        folder: Where the files of verdicts lie. What they hold is not asked again.
        listener: Follows the progress.
        overwrite: Whether to throw away what the files hold.

    Raises:
        MagistrateError: The judge cannot go on, or a file holds another judge's verdicts. What is judged is kept.
    """
    listener = listener or Listener()
    found: dict[str, Verdicts] = {}
    prints = []
    for run in runs:
        backend = LocalBackend(run.judge, host, run.decoding)
        listener.begins(run)
        questions = [prepare(row, run.judge) for row in run.rows]
        judged = await judge_file(folder / f"{run.name}.jsonl", questions, backend, listener, overwrite=overwrite, whole=False)
        prints.append(judged.fingerprint)
        placed: Verdicts = [None] * len(runs[0].rows)
        for place, verdict in zip(run.places, judged.verdicts(), strict=True):
            placed[place] = verdict
        found[run.name] = placed
    return found, prints[0]


def sides(place: int) -> tuple[str, str]:
    """The fields of the padded answer and of the answer as it is, for the pair of this number.

    The padded one is A for one half of the pairs and B for the other, in case a judge likes a name.
    """
    return ("answer_a", "answer_b") if place % 2 == 0 else ("answer_b", "answer_a")


def _changed(subject: Subject, rows: Sequence[Row]) -> Iterator[Run]:
    """The runs over changed samples. One that would change nothing anywhere is not there."""
    samples = [row.sample or {} for row in rows]
    answers = [subject.answer_of(row.sample) for row in rows]
    questions = [subject.question_of(row.sample) for row in rows]
    turned = [subject.judge.reordered_sample(sample) for sample in samples]
    yield from _run(subject, rows, TURNED, "references the other way round", turned)
    for number, (title, edit) in enumerate(EDITS.items(), start=1):
        edited = [None if answer is None or edit(answer) == answer else {subject.answer: edit(answer)} for answer in answers]
        yield from _run(subject, rows, f"{EDIT}-{number}", title, edited)
    longer = [None if answer is None else padded(answer) for answer in answers]
    if subject.pairwise:
        pairs = zip(longer, answers, strict=True)
        both = [None if pair[0] is None else dict(zip(sides(place), pair, strict=True)) for place, pair in enumerate(pairs)]
        yield from _run(subject, rows, PADDED, "padded, against itself", both)
    else:
        yield from _run(subject, rows, PADDED, "padded", _in_field(subject.answer, longer))
    probed = "answer_b" if subject.pairwise else subject.answer
    probes: dict[str, Sequence[str | None]] = {title: [text] * len(rows) for title, text in NOTHING.items()}
    probes |= {ELSEWHERE: from_elsewhere(questions, answers), COPIED: questions}
    for number, (title, texts) in enumerate(probes.items(), start=1):
        there = [None if answer is None else text for answer, text in zip(answers, texts, strict=True)]
        yield from _run(subject, rows, f"{PROBE}-{number}", title, _in_field(probed, there))


def _in_field(field: str, texts: Sequence[str | None]) -> list[Mapping[str, Any] | None]:
    return [None if text is None else {field: text} for text in texts]


def _run(
    subject: Subject, rows: Sequence[Row], name: str, title: str, changes: Sequence[Mapping[str, Any] | None]
) -> Iterator[Run]:
    """A run over the samples that have a change: fields in place of their own."""
    places = [place for place, change in enumerate(changes) if change is not None]
    changed = [replace(rows[place], sample={**(rows[place].sample or {}), **(changes[place] or {})}) for place in places]
    if places:
        yield Run(name=name, title=title, judge=subject.judge, rows=changed, places=places)

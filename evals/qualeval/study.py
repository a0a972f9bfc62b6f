"""A study, stage by stage. Whatever a judge was asked is kept; the rest is worked out anew each time, which takes seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow

from evals.data.tasks import Dataset, Predictions, Task
from evals.metrics.metric import Metric
from evals.qualeval import breakdown
from evals.qualeval.affinities import Affinities, best, rate
from evals.qualeval.attributes import AttributeList, discover
from evals.qualeval.breakdown import Assigned, Calibration, Proficiency, figures
from evals.qualeval.extremes import extremes
from evals.qualeval.faithfulness import faithfulness
from evals.qualeval.figures import Parts, report
from evals.qualeval.insights import Tables, sum_up
from evals.qualeval.label_priors import label_priors
from evals.qualeval.options import KINDS, Options
from evals.qualeval.samples import Sample, telling
from evals.qualeval.study_folder import StudyFolder, file_name
from judges.backend import ProgressListener
from judges.engines.engine import Engine
from judges.errors import MagistrateError
from judges.qualeval import Kind

LONGEST_NAME = 200
"""Characters of a model's name, so that it can head a column."""

VERSIONS = ("magistrate", "highspy", "numpy", "outlines", "torch", "transformers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What is studied, and how.

    Attributes:
        task: What the rows of the data mean.
        dataset: The rows.
        predictions: What each model answered.
        metric: How an answer is measured.
        attributes: Lists that a user gives, by kind; the others are discovered.
        options: How it is made.
    """

    task: Task
    dataset: Dataset
    predictions: Sequence[Predictions]
    metric: Metric
    attributes: Mapping[Kind, AttributeList] = field(default_factory=dict)
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        names = [one.model for one in self.predictions]
        files = [file_name(f"rate subtask of {name}") for name in names]  # the longest, so the first to lose a difference
        for name in names:
            if len(name) > LONGEST_NAME:
                raise MagistrateError(
                    f"the model `{name[:40]}…` has a name of {len(name)} characters; give one of at most {LONGEST_NAME}"
                )
            if names.count(name) > 1:
                raise MagistrateError(f"two models are called `{name}`; give each a name of its own")
            if name in ("id", "input", "truth"):
                raise MagistrateError(f"a model cannot be called `{name}`; give it another name")
        for name, file in zip(names, files, strict=True):
            if (other := names[files.index(file)]) != name:
                raise MagistrateError(f"the models `{other}` and `{name}` would share a file of verdicts; give one another name")
        least = getattr(self.metric, "k", 1)
        for one in self.predictions:
            most = max((1 if isinstance(answer, str) else len(answer) for answer in one.answers.values()), default=least)
            if most < least:
                raise MagistrateError(
                    f"{self.metric.name} needs {least} programs or more for a row, and no prediction of `{one.model}` has more "
                    f"than {most}; give a list of programs in place of one"
                )


async def run_study(
    study: Study,
    folder: Path,
    engine: Engine,
    progress: Callable[[str, int], ProgressListener] = lambda stage, count: ProgressListener(),
) -> dict[str, Any]:
    """Make a study, or go on with one that was stopped.

    Args:
        study: What is studied.
        folder: Where it leaves what it found. ``docs/qualeval.md`` describes each file.
        engine: Who judges; closing it is left to the caller.
        progress: Makes a listener from a stage's name and the number of its samples.

    Returns:
        The report, as ``report.json`` has it.

    Raises:
        MagistrateError: The judge cannot go on, or there is nothing to go on with. What is judged is kept.
    """
    place = StudyFolder(folder, engine, progress)
    instances, options = study.dataset.instances, study.options
    ids = [instance.id for instance in instances]

    found: dict[Kind, AttributeList] = {}
    for kind, listed in study.attributes.items():
        if len(listed.attributes) < options.k:
            raise MagistrateError(f"{len(listed.attributes)} {kind} is given, and an instance is to be given {options.k}")
    with place.stage("discover"):
        for kind in KINDS:
            found[kind] = study.attributes.get(kind) or await discover(place, study.task, instances, kind, options)
        place.write_json("attributes.json", {kind: one.as_fields() for kind, one in found.items()})

    with place.stage("rate"):
        rated = await _rated(place, study, found)
        _write_affinities(place, ids, [(found[kind], one) for kind in KINDS for one in rated[kind]])
        for kind in KINDS:
            found[kind], rated[kind] = best(found[kind], rated[kind], options)
        place.write_json("attributes.json", {kind: one.as_fields() for kind, one in found.items()})
        (of_input,), (of_truth, *of_models) = rated["domain"], rated["subtask"]

    with place.stage("assign"):
        kinds = [
            breakdown.assign(found["domain"], of_input, ids, options),
            breakdown.assign(found["subtask"], of_truth, ids, options),
        ]
        _write_assignments(place, ids, kinds)

    with place.stage("measure"):
        proficiencies = [
            await breakdown.measure(study.metric, instances, one, kinds, options, place.keep(f"measure {one.model}"))
            for one in study.predictions
        ]
        _write_values(place, ids, kinds, proficiencies)

    with place.stage("calibrate"):
        calibrations = [
            breakdown.calibrate(of_truth, generation, options, proficiency.values)
            for generation, proficiency in zip(of_models, proficiencies, strict=False)
        ]
        samples = [
            sample
            for generation, predictions, proficiency in zip(of_models, study.predictions, proficiencies, strict=False)
            for sample in telling(instances, kinds[1], generation, predictions, proficiency, options)
        ]
        place.write_json("samples.json", [asdict(sample) for sample in samples])
        ends = extremes(instances, kinds, study.predictions, proficiencies)
        place.write_json("extremes.json", [asdict(extreme) for extreme in ends])

    with place.stage("insights"):
        tables = [
            [_tables(one, proficiency, calibration) for one in kinds]
            for proficiency, calibration in zip_longest(proficiencies, calibrations)
        ]
        insights = await sum_up(place, study.task.instruction, tables, options)
        place.write_json("insights.json", [asdict(one) for one in insights])

    faithful = faithfulness(kinds[0], instances, options)
    against = label_priors(kinds[0], instances, options)
    parts = Parts(kinds, rated, proficiencies, calibrations, _spread(samples, options), insights, faithful, ends, against)
    made = report(study.task, study.dataset, study.predictions, study.metric, parts, _making(place, study))
    place.write_json("report.json", made)
    return made


async def _rated(place: StudyFolder, study: Study, found: Mapping[Kind, AttributeList]) -> dict[Kind, list[Affinities]]:
    """Domains of the input; sub-tasks of the ground truth and of every model's answer, or of the input too."""
    ask = partial(rate, place, study.dataset.instances, instruction=study.task.instruction)
    of_input = await ask(found["domain"], "none")
    if study.task.subtasks == "needed":
        return {"domain": [of_input], "subtask": [await ask(found["subtask"], "none")]}
    of_truth = await ask(found["subtask"], "ground_truth")
    of_models = [await ask(found["subtask"], "generation", answers) for answers in study.predictions]
    return {"domain": [of_input], "subtask": [of_truth, *of_models]}


def _tables(one: Assigned, proficiency: Proficiency, calibration: Calibration | None) -> Tables:
    names = one.found.names
    priors = one.assignment.priors
    assert priors is not None
    distances = figures(calibration.distance.mean, names) if calibration and one.kind == "subtask" else {}
    counts = {name: int(count) for name, count in zip(names, one.assignment.counts, strict=True)}
    return Tables(
        proficiency.model, one.kind, figures(priors, names), figures(proficiency.by_kind[one.kind].mean, names), distances, counts
    )


def _spread(samples: Sequence[Sample], options: Options) -> list[Sample]:
    """As many as are shown, of every model alike."""
    models = list(dict.fromkeys(sample.model for sample in samples))
    each = max(1, options.samples // max(1, len(models)))
    return [sample for model in models for sample in [one for one in samples if one.model == model][:each]]


def _making(place: StudyFolder, study: Study) -> dict[str, Any]:
    """How the study was made, for whoever wants to make it again."""
    return {
        "versions": {name: metadata.version(name) for name in VERSIONS},
        "seconds": {name: round(seconds, 2) for name, seconds in place.seconds.items()},
        "tokens": {name.removesuffix("_tokens"): count for name, count in place.tokens.items()},
        "fingerprints": {name: fields["digest"] for name, fields in place.fingerprints.items()},
        "asked": place.asked,
        "judge_model": place.engine.identity.model,
        "engine": f"{place.engine.identity.engine} {place.engine.identity.engine_version}",
        "seed": study.options.seed,
        "date": datetime.now(UTC).date().isoformat(),
        "options": study.options.as_fields(),
        "metric": dict(study.metric.identity()),
    }


def _write_affinities(place: StudyFolder, ids: Sequence[str], rated: Sequence[tuple[AttributeList, Affinities]]) -> None:
    """A row for each instance and attribute that has a score."""
    columns: dict[str, list[Any]] = {name: [] for name in ("id", "of", "kind", "attribute", "score", "expected")}
    for found, affinities in rated:
        there = np.flatnonzero(affinities.rated)
        width = len(found.names)
        names = pyarrow.array(found.names)
        columns["id"].append(pyarrow.array(ids).take(pyarrow.array(np.repeat(there, width))))
        columns["of"].append(pyarrow.array([affinities.of]).take(pyarrow.array(np.zeros(len(there) * width, np.int32))))
        columns["kind"].append(pyarrow.array([found.kind]).take(pyarrow.array(np.zeros(len(there) * width, np.int32))))
        columns["attribute"].append(names.take(pyarrow.array(np.tile(np.arange(width), len(there)))))
        columns["score"].append(pyarrow.array(affinities.scores[there].ravel().astype(np.int8)))
        columns["expected"].append(pyarrow.array(affinities.expected[there].ravel(), from_pandas=True))
    place.write_table("affinities.parquet", {name: pyarrow.chunked_array(parts) for name, parts in columns.items()})


def _write_assignments(place: StudyFolder, ids: Sequence[str], kinds: Sequence[Assigned]) -> None:
    columns: dict[str, Any] = {"id": pyarrow.array(ids)}
    for one in kinds:
        names = [*one.found.names, None]
        columns[one.kind] = pyarrow.array([[names[number] for number in row if number >= 0] for row in one.chosen])
    place.write_table("assignments.parquet", columns)


def _write_values(
    place: StudyFolder, ids: Sequence[str], kinds: Sequence[Assigned], proficiencies: Sequence[Proficiency]
) -> None:
    columns: dict[str, Any] = {"id": pyarrow.array(ids)}
    for one in proficiencies:
        columns[one.model] = pyarrow.array(one.values, from_pandas=True)
    place.write_table("values.parquet", columns)

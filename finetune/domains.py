"""The domains of instances, by a judge and the solver, as a study assigns them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from evals.qualeval import Options, breakdown
from evals.qualeval.affinities import rate
from evals.qualeval.attributes import Found
from evals.qualeval.study_folder import StudyFolder
from evals.tasks import Instance
from finetune.experiment import Assigned
from judges.bench import Audience
from judges.engines.engine import Engine


async def assign_domains(
    instances: Sequence[Instance],
    found: Found,
    folder: Path,
    engine: Engine,
    options: Options,
    audience: Callable[[str, int], Audience] = lambda stage, count: Audience(),
) -> Assigned:
    """Have a judge rate instances by domain, and assign each its own. The same call again asks only what was not asked.

    Args:
        instances: To train on, or to evaluate on.
        found: The domains.
        folder: Keeps the verdicts.
        engine: Who judges; closing it is left to the caller.
        options: How many domains an instance is given, and the slack.
        audience: Makes a listener from a stage's name and the number of its samples.

    Raises:
        MagistrateError: The judge cannot go on, or nothing can be assigned.
    """
    place = StudyFolder(folder, engine, audience)
    affinities = await rate(place, instances, found, "none")
    assigned = breakdown.assign(found, affinities, [one.id for one in instances], options)
    return Assigned(instances, assigned.chosen)

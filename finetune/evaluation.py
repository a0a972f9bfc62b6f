"""What a model answers to a task's instances, and how that measures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evals.generation import Sampling, generate
from evals.metrics.metric import Metric, Pair
from evals.tasks import Instance, Task
from evals.whole_files import write_whole
from judges.bench import Audience
from judges.engines.engine import Engine, and_close

ANSWERS = "answers.jsonl"
VALUES = "values.json"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What models are asked, and how answers are measured.

    Attributes:
        task: What they are asked to do.
        metric: How an answer is measured.
        instances: N of them.
        max_tokens: Room for an answer.
        engine_of: Makes an engine of a model's folder.
    """

    task: Task
    metric: Metric
    instances: Sequence[Instance]
    max_tokens: int
    engine_of: Callable[[Path], Engine]

    def evaluate(self, model: Path, place: Path, audience: Audience) -> NDArray[np.float64]:
        """Have a model answer greedily, and measure its answers. Those that are there already are not asked for again.

        Args:
            model: Its folder.
            place: The folder for ``answers.jsonl`` and ``values.json``.
            audience: Follows the progress.

        Returns:
            ``(N,)`` the metric; NaN where there is no answer or it could not be measured.

        Raises:
            MagistrateError: The model cannot be run here.
        """
        place.mkdir(parents=True, exist_ok=True)
        answers = place / ANSWERS
        engine = self.engine_of(model)
        sampling = Sampling(temperature=0, shots=0, max_tokens=self.max_tokens)
        answering = generate(self.task, self.instances, self.instances, engine, answers, sampling, audience)
        asyncio.run(and_close(answering, engine))
        said = {row["id"]: row["prediction"] for row in map(json.loads, answers.read_text(encoding="utf-8").splitlines())}
        pairs = [Pair(one.id, one.fields, one.truth, said[one.id]) for one in self.instances if said[one.id] is not None]
        measured = asyncio.run(self.metric.measure(pairs))
        by_id = {pair.id: one.value for pair, one in zip(pairs, measured, strict=True)}
        values = [by_id.get(one.id) for one in self.instances]
        write_whole(place / VALUES, json.dumps(values))
        return np.array(values, np.float64)


def evaluated(place: Path) -> NDArray[np.float64] | None:
    """The values that an earlier run has left."""
    file = place / VALUES
    return np.array(json.loads(file.read_text(encoding="utf-8")), np.float64) if file.exists() else None

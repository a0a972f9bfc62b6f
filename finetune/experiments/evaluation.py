"""Has models answer a task's instances, and measures the answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evals.data.tasks import Instance, Task
from evals.generation import Sampling, generate
from evals.metrics.metric import Metric, Pair
from judges.backend import ProgressListener
from judges.data.files import atomic_write
from judges.engines.engine import Engine, and_close

ANSWERS = "answers.jsonl"
VALUES = "values.json"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Instances for models to answer, and the metric of answers.

    Attributes:
        task: The task.
        metric: Measures an answer.
        instances: N instances of the task.
        max_tokens: Most tokens of an answer.
        engine_of: Makes an engine of a model's folder.
    """

    task: Task
    metric: Metric
    instances: Sequence[Instance]
    max_tokens: int
    engine_of: Callable[[Path], Engine]

    def evaluate(self, model: Path, folder: Path, progress: ProgressListener) -> NDArray[np.float64]:
        """Have a model answer greedily, and measure its answers. Only missing answers are generated.

        Args:
            model: The model's folder.
            folder: Gets ``answers.jsonl`` and ``values.json``.
            progress: Follows the progress.

        Returns:
            ``(N,)`` the metric; NaN without an answer, or if it could not be measured.

        Raises:
            MagistrateError: The model cannot be run here.
        """
        folder.mkdir(parents=True, exist_ok=True)
        answers = folder / ANSWERS
        engine = self.engine_of(model)
        sampling = Sampling(temperatures=(0,), shots=0, max_tokens=self.max_tokens)
        answering = generate(self.task, self.instances, self.instances, engine, answers, sampling, progress)
        asyncio.run(and_close(answering, engine))
        predictions = {row["id"]: row["prediction"] for row in map(json.loads, answers.read_text(encoding="utf-8").splitlines())}
        answered = ((instance, predictions[instance.id]) for instance in self.instances)
        pairs = [Pair(one.id, one.fields, one.truth, prediction) for one, prediction in answered if prediction is not None]
        measured = asyncio.run(self.metric.measure(pairs))
        by_id = {pair.id: measurement.value for pair, measurement in zip(pairs, measured, strict=True)}
        values = [by_id.get(instance.id) for instance in self.instances]
        atomic_write(folder / VALUES, json.dumps(values))
        return np.array(values, np.float64)


def evaluated(folder: Path) -> NDArray[np.float64] | None:
    """Read the values of an earlier run, if there are any."""
    file = folder / VALUES
    return np.array(json.loads(file.read_text(encoding="utf-8")), np.float64) if file.exists() else None

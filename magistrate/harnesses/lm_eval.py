"""A judge as metrics of lm-evaluation-harness, which takes functions from a module beside a task's YAML (``!function``).

lm-evaluation-harness: https://github.com/EleutherAI/lm-evaluation-harness, ``docs/task_guide.md`` (``process_results``,
``metric_list``, ``aggregation``). An aggregation has the values of all documents, so it is there that the judge is asked, about
all at once.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from judges.data.samples import ABSENT, value_at
from judges.errors import MagistrateError
from judges.judge import Sample
from judges.verdict import Verdict
from magistrate.harnesses.kept import KeptJudge
from magistrate.judging import check_fields

logger = logging.getLogger(__name__)

Item = dict[str, Any]
"""What stands for a document in a metric: its ``sample`` until it is judged, then its score. lm_eval writes its samples
afterwards, so that their lines have the scores."""

Aggregation = Callable[[Sequence[Item]], float]


class Judged:
    """A judge for a task whose answers are texts (``output_type: generate_until``).

        # judged.py, beside the task's YAML
        judged = Judged("llm-eval", model="llama-3.1-8b", fields={"context": "question", "reference": "answer"})
        process_results = judged.process_results
        relevance = judged.mean("relevance")

    Args:
        judge: A judge's name or a rubric file; by default the model's own.
        model: Its model; by default the embedded judge.
        engine: ``vllm``, ``transformers`` or ``endpoint``.
        options: The judge's options.
        fields: Field that the judge reads to the document's column that holds it. The answer of the model under test is there as
            ``response``, ``answer`` and ``actual_output`` unless the document has such columns itself, and as the judge's own
            name for it.
        settings: Every other setting of ``magistrate.judge``.

    Raises:
        MagistrateError: There is no such judge, option, field or setting.
    """

    def __init__(
        self,
        judge: str | Path | None = None,
        model: str | None = None,
        engine: str | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        fields: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self._judge = KeptJudge(judge, engine, options=options, model=model, **settings)
        self._fields = dict(fields or {})
        check_fields(self._judge.judge, self._fields)
        self._wanted: list[str] = []
        self._known: dict[str, Verdict] = {}

    def process_results(self, doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Item]:
        """Pass a document and its answer on to the aggregations, for ``process_results`` of the YAML.

        Raises:
            MagistrateError: The task gives several answers, or none that is a text.
        """
        answer = results[0][0] if isinstance(results[0], list) and len(results[0]) == 1 else results[0]
        if len(results) != 1 or not isinstance(answer, str):
            raise MagistrateError("a judge reads one text a document: `output_type: generate_until`, and a filter that takes one")
        # The document's columns are read before the answer is added: `answer` may be the right one there.
        moved = {field: value_at(doc, column, ABSENT) for field, column in self._fields.items()}
        own = self._judge.judge.fields.answer
        sample = {
            **dict.fromkeys(("response", "answer", "actual_output"), answer),
            **doc,
            **{field: value for field, value in moved.items() if value is not ABSENT},
            **({own: answer} if own else {}),
        }
        return {metric: {"sample": sample} for metric in self._wanted}

    def mean(self, metric: str) -> Aggregation:
        """The aggregation of a metric called as the judge calls it: the mean over the documents that are scored.

        Raises:
            MagistrateError: The judge has no such metric, or its scores are labels.
        """
        return self._aggregation(self._judge.metric(metric), metric, _mean)

    def standard_error(self, metric: str) -> Aggregation:
        """The aggregation of a metric called ``METRIC_se``: the standard error of the mean, which lm_eval has for its own alone.

        Raises:
            MagistrateError: As in ``mean``.
        """
        return self._aggregation(f"{self._judge.metric(metric)}_se", metric, _standard_error)

    def unscored(self) -> Aggregation:
        """The aggregation of a metric called ``unscored``: the share of documents that the judge could not score."""
        return self._aggregation("unscored", None, _mean)

    def _aggregation(self, name: str, metric: str | None, figure: Callable[[Sequence[float]], float]) -> Aggregation:
        self._wanted.append(name)

        def aggregate(items: Sequence[Item]) -> float:
            verdicts = self._judged([item["sample"] for item in items])
            for item, verdict in zip(items, verdicts, strict=True):
                item.clear()
                item.update(_as_item(verdict, metric))
            scores = [item["score"] for item in items if item["score"] is not None]
            return figure(scores)

        aggregate.__name__ = name
        return aggregate

    def _judged(self, samples: Sequence[Sample]) -> list[Verdict]:
        """The verdicts on samples; those that another metric has asked for already are not asked for again."""
        keys = [json.dumps(sample, sort_keys=True, default=str) for sample in samples]
        new = {key: sample for key, sample in zip(keys, samples, strict=True) if key not in self._known}
        verdicts = self._judge.verdicts(new.values())
        self._known |= zip(new, verdicts, strict=True)
        reasons = [verdict.reason for verdict in verdicts if verdict.status == "unscored"]
        if reasons:
            logger.warning("%d of %d answers are unscored, the first: %s", len(reasons), len(verdicts), reasons[0])
        return [self._known[key] for key in keys]


def _as_item(verdict: Verdict, metric: str | None) -> Item:
    unscored = int(verdict.status == "unscored")
    score = unscored if metric is None else (verdict.scores or {}).get(metric)
    return {"score": score, "reason": verdict.reason, "fingerprint": verdict.fingerprint}


def _mean(scores: Sequence[float]) -> float:
    return float(np.mean(scores)) if scores else math.nan


def _standard_error(scores: Sequence[float]) -> float:
    return float(np.std(scores, ddof=1)) / math.sqrt(len(scores)) if len(scores) > 1 else math.nan

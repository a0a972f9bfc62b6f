"""A judge as a scorer of inspect_ai, which finds it by the entry point ``magistrate`` of the group ``inspect_ai``.

    inspect score LOG --scorer magistrate/judge -S judge=llm-eval -S model=llama-3.1-8b

inspect_ai: https://inspect.aisi.org.uk/extensions.html (entry points), https://inspect.aisi.org.uk/scorers.html (unscored
samples, metrics of each key).
"""

from __future__ import annotations

import math
from typing import Any

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from judges.data.logs.answered import answered
from judges.errors import MagistrateError
from judges.judge import Judge
from judges.verdict import Verdict
from magistrate.harnesses.kept import KeptJudge

OTHERS = frozenset({"reference", "expected_output", "references"})
"""Fields that hold no question, though a rubric that names them first takes them for one."""


@scorer(metrics={"*": [mean(), stderr()]}, name="judge")
def magistrate_judge(
    judge: str | None = None,
    model: str | None = None,
    engine: str | None = None,
    options: dict[str, Any] | None = None,
    fields: dict[str, str] | None = None,
    **settings: Any,
) -> Scorer:
    """Score samples by a judge. Each metric whose scores are numbers is a key of the score, with its mean and standard error.

    A sample that the judge cannot score is unscored (``Score.unscored``), with the reason as its explanation, and counts in no
    mean. The score's metadata has the verdict's fingerprint, labels, expected scores and notes. The model is loaded at the
    first sample, once in a process for all scorers with the same settings.

    Args:
        judge: A judge's name or a rubric file; by default the model's own.
        model: Its model; by default the embedded judge.
        engine: ``vllm``, ``transformers`` or ``endpoint``.
        options: The judge's options.
        fields: Field that the judge reads to the column that holds it, as ``{"references": "metadata.documents"}``. The columns
            are those of a log (``judges.data.logs.answered``): the sample's input, the completion and the target under the names
            by which judges read them, and ``metadata``.
        settings: Every other setting of ``magistrate.judge``.

    Raises:
        MagistrateError: There is no such judge, option, field or setting, or no score of the judge is a number.
    """
    asked = KeptJudge(judge, engine, options=options, fields=fields, model=model, **settings)
    numeric = asked.numeric
    if not numeric:
        raise MagistrateError(f"judge `{asked.judge.name}` gives labels and no numbers, of which inspect_ai takes no mean")

    async def score(state: TaskState, target: Target) -> Score:
        try:
            sample = sample_of(state, target, asked.judge)
        except ValueError as error:
            return Score.unscored(reason="no_response", explanation=f"the sample {error}")
        verdict = await asked.verdict(sample)
        return score_of(verdict, numeric, sample["answer"])

    return score


def sample_of(state: TaskState, target: Target, judge: Judge) -> dict[str, Any]:
    """The sample that a judge is asked about, the same as that of the log's reader.

    Raises:
        RowError: The model gave no output.
    """
    asked = state.input if isinstance(state.input, str) else [{"role": one.role, "content": one.text} for one in state.input]
    sample = answered(
        state.sample_id,
        asked,
        state.output.completion if state.output.choices else None,
        reference=list(target),
        beside={"metadata": state.metadata, "epoch": state.epoch},
    )
    named = {judge.fields.question: sample["question"], judge.fields.answer: sample["answer"]}
    return {**{name: text for name, text in named.items() if name and name not in OTHERS}, **sample}


def score_of(verdict: Verdict, numeric: list[str], answer: str) -> Score:
    """The score of a verdict: metric to number, NaN where the metric does not apply.

    Args:
        verdict: The verdict.
        numeric: The metrics whose scores are numbers.
        answer: What was judged.
    """
    metadata = _metadata(verdict, numeric)
    if verdict.scores is None:
        reason = "grader_failed" if verdict.usage.completion_tokens else "scoring_failed"  # it answered, or was not asked
        return Score.unscored(reason=reason, answer=answer, explanation=verdict.reason, metadata=metadata)
    value = {metric: _number(verdict.scores.get(metric)) for metric in numeric}
    return Score(value=value, answer=answer, explanation=verdict.justification, metadata=metadata)


def _metadata(verdict: Verdict, numeric: list[str]) -> dict[str, Any]:
    fields = verdict.as_fields()
    labels = {metric: score for metric, score in (verdict.scores or {}).items() if metric not in numeric}
    kept = {name: fields[name] for name in ("judge", "fingerprint", "expected", "notes") if fields[name]}
    return {**kept, **({"labels": labels} if labels else {})}


def _number(score: Any) -> float:
    return math.nan if score is None else score

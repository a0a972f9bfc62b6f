"""Lines of lm-evaluation-harness's ``samples_TASK_DATE.jsonl`` (``--log_samples``, read with lm_eval 0.4.13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judges.data.logs.answered import answered, mapping_at, name_in
from judges.errors import RowError, counted

FIELDS = frozenset({"doc_id", "doc", "target", "arguments", "resps", "filtered_resps"})
"""Fields that every line has."""

NO_FILTER = "none"
"""Name of the filter of a task that has none of its own."""


def is_sample(content: Mapping[str, Any]) -> bool:
    """Whether a row is a line of such a file."""
    return content.keys() >= FIELDS


def row_of_line(content: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a line, whose own columns stand beside.

    The id is ``doc_id``, and behind a filter that the task names ``ID-FILTER``: such a task has a line for each filter. The
    question is the whole prompt as the model had it, with its examples.

    Raises:
        RowError: It has log-likelihoods and no text, or several answers.
    """
    name, chosen = name_in(content, "doc_id"), content.get("filter", NO_FILTER)
    row_id = name if chosen == NO_FILTER else f"{name}-{chosen}"
    return answered(
        row_id,
        _request(content["arguments"], row_id),
        _answer(content["filtered_resps"], row_id),
        reference=content["target"],
        scores=_scores(content),
        beside=content,
    )


def _request(arguments: object, row_id: object) -> object:
    """The prompt of the first request: a text, or the messages of a chat as JSON, also as the only member of a list."""
    requests = _members(arguments)
    request = _members(requests[0]) if requests else []
    if len(request) != 2 or not isinstance(request[1], Mapping):  # what stops the answer
        raise RowError("holds log-likelihoods and no answer; a judge reads tasks whose `output_type` is `generate_until`", row_id)
    prompt = request[0]
    return prompt[0] if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str) else prompt


def _members(content: object) -> list[Any]:
    """The members of a list, or of an object such as ``{"gen_args_0": ...}``."""
    return list(content.values()) if isinstance(content, Mapping) else content if isinstance(content, list) else []


def _answer(filtered: object, row_id: object) -> str:
    answers = filtered if isinstance(filtered, list) else [filtered]
    answers = answers[0] if len(answers) == 1 and isinstance(answers[0], list) else answers
    if len(answers) != 1 or not isinstance(answers[0], str):
        said = f"{counted(len(answers), 'answer')} to one prompt" if answers else "no answer"
        raise RowError(f"holds {said}; give the task a filter that takes one, such as `take_first`", row_id)
    return answers[0]


def _scores(content: Mapping[str, Any]) -> dict[str, Any]:
    """The task's metrics; those of ``magistrate.harnesses.lm_eval`` have their score inside."""
    found = {}
    metrics = content.get("metrics")
    for metric in metrics if isinstance(metrics, list) else ():
        value = content.get(metric) if isinstance(metric, str) else None
        value = mapping_at(content, metric).get("score") if isinstance(value, Mapping) else value
        if isinstance(value, int | float):
            found[metric] = value
    return found

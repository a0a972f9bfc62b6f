"""Samples of inspect_ai's logs, in their ``.eval`` and ``.json`` form (log version 2, read with inspect_ai 0.3.285)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from judges.data.logs.answered import ATTACHMENT, answered, mapping_at, name_in, text_of
from judges.errors import RowError, reason_of

GRADES = {"C": 1, "P": 0.5, "I": 0, "N": 0}
"""Correct, partial, incorrect and no answer, as inspect_ai's ``accuracy`` counts them."""


def row_of_sample(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a sample (``EvalSample``).

    The id is the sample's, and in a later epoch ``ID_epoch_N``, as inspect_ai names its files. A score of several metrics is an
    object of them. The columns ``sample_id``, ``epoch``, ``model``, ``choices`` and ``metadata`` stand beside.

    Raises:
        RowError: The sample has no id, no input or no output; the message then has the sample's error.
    """
    name, epoch = name_in(sample, "id"), sample.get("epoch")
    row_id = name if epoch in (None, 1) else f"{name}_epoch_{epoch}"
    output = mapping_at(sample, "output")
    answer = _completion(output)
    if answer is None:
        raise RowError(f"has no output{_failure(sample)}", row_id)
    attached = mapping_at(sample, "attachments")
    beside = {column: sample[column] for column in ("epoch", "choices", "metadata") if sample.get(column) is not None}
    return answered(
        row_id,
        _resolved(sample.get("input"), attached),
        _resolved(answer, attached),
        reference=_resolved(sample.get("target"), attached),
        scores={scorer: _score(score) for scorer, score in mapping_at(sample, "scores").items()},
        beside={**beside, "sample_id": name, "model": output.get("model")},
    )


def _completion(output: Mapping[str, Any]) -> str | None:
    """The text of the first choice; ``None`` if the model gave none."""
    choices = output.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        return None
    completion = output.get("completion")
    return completion if isinstance(completion, str) else text_of(mapping_at(choices[0], "message").get("content"))


def _failure(sample: Mapping[str, Any]) -> str:
    message = mapping_at(sample, "error").get("message")
    return f": the sample failed with `{reason_of(ValueError(message)):.200}`" if isinstance(message, str) and message else ""


def _score(score: object) -> Any:
    """The value of a score, letters as numbers; ``None`` if it is unscored."""
    return _number(score.get("value") if isinstance(score, Mapping) else score)


def _number(value: Any) -> Any:
    match value:
        case str():
            return GRADES.get(value, value)
        case float() if math.isnan(value):
            return None
        case Mapping():
            return {name: _number(part) for name, part in value.items()}
        case list():
            return [_number(part) for part in value]
        case _:
            return value


def _resolved(content: Any, attached: Mapping[str, Any]) -> Any:
    """The content with each reference to an attachment replaced by it."""
    match content:
        case str() if content.startswith(ATTACHMENT):
            return attached.get(content.removeprefix(ATTACHMENT), content)
        case Mapping():
            return {name: _resolved(part, attached) for name, part in content.items()}
        case list():
            return [_resolved(part, attached) for part in content]
        case _:
            return content

"""Test runs of deepeval, as ``DEEPEVAL_RESULTS_FOLDER`` and ``.deepeval/.latest_test_run.json`` hold them (deepeval 4.3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judges.data.logs.answered import answered, name_in
from judges.errors import RowError


def row_of_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a test case, known by its name. ``references`` is what was retrieved, or else the ideal ``context``.

    Of a conversation the turns are ``dialogue``, as the judge ``llm-eval`` reads a whole one.

    Raises:
        RowError: It has no name, no input or no output.
    """
    row_id, scores = name_in(case, "name"), _scores(case.get("metricsData"))
    if isinstance(turns := case.get("turns"), list):
        kept = {name: case[name] for name in ("scenario", "expectedOutcome") if case.get(name) is not None}
        return {"id": row_id, "dialogue": turns, "scores": scores, **kept}
    if case.get("actualOutput") is None:
        raise RowError("has no output", row_id)
    return answered(
        row_id,
        case.get("input"),
        case["actualOutput"],
        reference=case.get("expectedOutput"),
        references=case.get("retrievalContext") or case.get("context"),
        scores=scores,
        beside={"metadata": case["metadata"]} if case.get("metadata") else None,
    )


def _scores(metrics: object) -> dict[str, Any]:
    """Metric to score; a metric that failed has none."""
    found = metrics if isinstance(metrics, list) else []
    named = [one for one in found if isinstance(one, Mapping) and isinstance(one.get("name"), str)]
    return {one["name"]: one.get("score") for one in named}

"""Results of promptfoo: ``promptfoo eval -o results.json`` or ``-o results.jsonl`` (version 3, read with promptfoo 0.121)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judges.data.logs.answered import answered, mapping_at
from judges.errors import RowError

FIELDS = frozenset({"promptIdx", "testIdx", "prompt", "vars", "success", "provider"})
"""Fields that every result has."""


def is_result(content: Mapping[str, Any]) -> bool:
    """Whether a row is a result, as a line of ``-o results.jsonl`` is."""
    return content.keys() >= FIELDS


def row_of_result(content: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a result. The columns ``vars`` and ``model`` stand beside.

    The id is ``TEST-PROMPT``, the numbers of both in the configuration from 0, since promptfoo's own id differs in every run. A
    variable called ``reference`` is the reference; another is named by ``--field reference=vars.NAME``. The scores are ``score``,
    ``success`` as 0 or 1, and the named ones.

    Raises:
        RowError: A field is missing, or the provider gave no output; the message then has its error.
    """
    if lacking := sorted(FIELDS - content.keys()):
        raise RowError(f"field `{lacking[0]}` is missing, which a result of promptfoo has")
    row_id = f"{content['testIdx']}-{content['promptIdx']}"
    given, output = mapping_at(content, "vars"), mapping_at(content, "response").get("output")
    if output is None:
        error = content.get("error")
        raise RowError(f"has no output{f': `{error:.200}`' if isinstance(error, str) else ''}", row_id)
    provider = content["provider"]
    return answered(
        row_id,
        mapping_at(content, "prompt").get("raw"),
        output,
        reference=given.get("reference"),
        scores=_scores(content),
        beside={"vars": given, "model": provider.get("id") if isinstance(provider, Mapping) else provider},
    )


def _scores(content: Mapping[str, Any]) -> dict[str, Any]:
    own = {"score": content.get("score"), "success": int(content["success"] is True)}
    return {**own, **mapping_at(content, "namedScores")}

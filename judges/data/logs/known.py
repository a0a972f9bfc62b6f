"""Tells the forms of logs apart by their shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from judges.data.files import SMALL, parsed_line
from judges.data.logs import deepeval, inspect_ai, lm_eval, promptfoo
from judges.data.logs.archive import samples_in
from judges.data.samples import kind_of
from judges.errors import MagistrateError, RowError

RowOf = Callable[[Mapping[str, Any]], dict[str, Any]]

LOGS = "inspect_ai, promptfoo or deepeval"
"""Tools whose logs are one object."""

TOO_LARGE = (
    f"one object is read up to {SMALL >> 20} MiB, as a log: logs without limit are inspect_ai's `.eval` (`inspect log convert`) "
    "and promptfoo's lines (`-o results.jsonl`)"
)
"""What to do about one large object."""

REFUSED: Mapping[frozenset[str], str] = {
    frozenset({"results", "configs", "versions", "n-shot"}): (
        "holds lm-evaluation-harness's results and no answers; give its `samples_TASK_DATE.jsonl`, which `--log_samples` writes"
    ),
    frozenset({"test_cases_lookup_map"}): (
        "is deepeval's cache of scores; give `.latest_test_run.json` beside it, or a file of `DEEPEVAL_RESULTS_FOLDER`"
    ),
}
"""Keys of a file that stands beside a log to what it is."""


def read_eval(path: Path) -> Iterator[tuple[int, Any]]:
    """Number the samples of a ``.eval`` file, from 1, by epoch and id.

    Raises:
        MagistrateError: As in ``samples_in``.
    """
    for number, (name, content) in enumerate(samples_in(path), start=1):
        found = content if isinstance(content, ValueError) else parsed_line(content)
        row = found if isinstance(found, ValueError) else as_row(found, inspect_ai.row_of_sample)
        known = isinstance(row, dict) or (isinstance(row, RowError) and row.id is not None)
        yield number, row if known else RowError(str(row), name.removesuffix("_epoch_1"))


def rows_of_log(path: Path, content: Any) -> Iterator[tuple[int, Any]]:
    """Number the rows of a log that is one JSON object, from 1.

    Raises:
        MagistrateError: It is no log that is known; the message says what comes instead.
    """
    if not isinstance(content, dict):
        raise MagistrateError(_no_list(path))
    for keys, what in REFUSED.items():
        if content.keys() >= keys:
            raise MagistrateError(f"{path} {what}")
    found = _samples_of(content)
    if found is None:
        raise MagistrateError(_no_list(path))
    samples, row_of = found
    if not isinstance(samples, list):
        raise MagistrateError(f"{path}: the samples of the log must be a list, not {kind_of(samples)}")
    yield from enumerate((as_row(sample, row_of) for sample in samples), start=1)


def _samples_of(content: Mapping[str, Any]) -> tuple[Any, RowOf] | None:
    results = content.get("results")
    if content.keys() >= {"version", "status", "eval"}:
        return content.get("samples") or [], inspect_ai.row_of_sample
    if isinstance(results, Mapping) and "results" in results and "version" in results:
        return results["results"], promptfoo.row_of_result
    if "results" in content and content.keys() >= {"version", "prompts", "stats"}:  # what promptfoo's own `evaluate` returns
        return results, promptfoo.row_of_result
    run = content.get("testRunData", content)
    if isinstance(run, Mapping) and "testCases" in run:
        cases, conversations = run["testCases"], run.get("conversationalTestCases") or []
        both = isinstance(cases, list) and isinstance(conversations, list)
        return [*cases, *conversations] if both else cases, deepeval.row_of_case
    return None


def row_of_line(content: Any) -> Any:
    """The row of a line of JSON: that of a log's line, or the line as it is."""
    if isinstance(content, dict):
        if lm_eval.is_sample(content):
            return as_row(content, lm_eval.row_of_line)
        if promptfoo.is_result(content):
            return as_row(content, promptfoo.row_of_result)
    return content


def as_row(sample: Any, row_of: RowOf) -> Any:
    """The row of a sample, or a ``ValueError`` that says why there is none."""
    if not isinstance(sample, Mapping):
        return ValueError(f"a sample must be an object, not {kind_of(sample)}")
    try:
        return row_of(sample)
    except ValueError as error:
        return error


def _no_list(path: Path) -> str:
    return f"{path} must hold a list of samples, or be a log of {LOGS}; a sample a line is a .jsonl file"

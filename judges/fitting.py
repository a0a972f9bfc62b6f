"""Checks, before an engine starts, that a judge can read the rows of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from judges.data.rows import Row, read_rows, renamed
from judges.data.samples import ABSENT, paths_of, value_at
from judges.errors import MagistrateError, did_you_mean
from judges.judge import Judge, Sample
from judges.runner import prepare

ID = "id"
"""Field that every row may have."""

MOST_NAMED = 30
"""Columns that an error message names."""

ALIKE: Sequence[tuple[str, ...]] = (
    ("question", "prompt", "input", "instruction", "query", "context", "user", "history", "dialogue", "document", "article"),
    ("response", "answer", "output", "actual_output", "generation", "prediction", "completion", "reply", "summary", "hypothesis"),
    ("reference", "expected_output", "ground_truth", "reference_answer", "expected", "target", "gold", "label", "solution"),
    ("references", "contexts", "documents", "passages", "sources", "retrieved_contexts", "context"),
    ("answer_a", "answer_1", "answer1", "response_a", "response_1", "response1", "output_1", "output_a", "chosen"),
    ("answer_b", "answer_2", "answer2", "response_b", "response_2", "response2", "output_2", "output_b", "rejected"),
)
"""Groups of names that data sets use for the same field, the usual ones first."""


def check_columns(judges: Iterable[Judge], columns: Mapping[str, str]) -> None:
    """Check that a judge reads every field that ``--field`` fills. A judge that does not declare its fields accepts any.

    Raises:
        MagistrateError: No judge reads a field.
    """
    judges = list(judges)
    known = list(dict.fromkeys([*(name for judge in judges for name in judge.fields.names), ID]))
    strange = [name for name in columns if name not in known]
    if strange and all(judge.fields.names for judge in judges):
        who = ", ".join(dict.fromkeys(f"`{judge.name}`" for judge in judges))
        raise MagistrateError(
            f"`--field {strange[0]}={columns[strange[0]]}`: judge {who} has no field `{strange[0]}`; it reads {_named(known)}"
        )


def check_source(
    source: Path, judges: Sequence[Judge], columns: Mapping[str, str], limit: int | None = None, encoding: str | None = None
) -> None:
    """Check that each judge can read at least one of a file's first ``limit`` rows.

    ``columns`` maps a field of a sample to the column that holds it; ``encoding`` is that of a CSV file that is not UTF-8.

    Raises:
        MagistrateError: As in ``check_columns`` and ``check_rows``, or the file cannot be read.
    """
    check_columns(judges, columns)
    for judge in judges:
        check_rows(islice(read_rows(source, encoding), limit), judge, columns, source.name)


def check_rows(rows: Iterable[Row], judge: Judge, columns: Mapping[str, str], name: str) -> None:
    """Check that the judge can read at least one of the rows, which are drawn up to the first that it can.

    ``columns`` maps a field of a sample to the column that holds it; ``name`` names the rows in the message.

    Raises:
        MagistrateError: There are no rows, or the judge can read none of them. The message names the columns and the ``--field``
            to try.
    """
    present: dict[str, None] = {}
    found: set[str] = set()
    first: Sample = {}
    first_problem = None
    count = 0
    for row in rows:
        count += 1
        problem = prepare(renamed(row, columns), judge).problem
        if problem is None:
            return
        first_problem = first_problem or problem
        present |= dict.fromkeys(row.sample or ())
        found |= {column for column in columns.values() if value_at(row.sample, column, ABSENT) is not ABSENT}
        first = first or row.sample or {}
    if not count:
        raise MagistrateError(f"{name} holds no samples")
    lacking = [f"--field {field}={column}" for field, column in columns.items() if column not in found]
    if present and lacking:
        column = lacking[0].partition("=")[2]
        raise MagistrateError(
            f"{name} has no column `{column}`, which `{lacking[0]}` names; "
            f"its columns are {_named(present)}{did_you_mean(column, paths_of(first))}"
        )
    missing = [field for field in judge.fields.needed if field not in present and field not in columns]
    if present and missing:
        raise MagistrateError(
            f"no row of {name} has the {_fields(missing)} that judge `{judge.name}` needs; its columns are {_named(present)}; "
            f"{_advice(missing, suggested(missing, [column for column in present if column not in judge.fields.names]))}"
        )
    rows_cannot = f"the only row of {name} cannot" if count == 1 else f"none of the {count:,} rows of {name} can"
    raise MagistrateError(f"{rows_cannot} be judged: {first_problem}")


def suggested(fields: Iterable[str], columns: Sequence[str]) -> dict[str, str]:
    """Map each field to the column that likely holds it. Fields without such a column are omitted; no column serves twice."""
    guesses: dict[str, str] = {}
    for field in fields:
        free = {_plain(column): column for column in reversed(columns) if column not in guesses.values()}
        words = [_plain(field), *(_plain(word) for group in ALIKE if field in group for word in group)]
        best = next((word for word in words if word in free), None) or next(iter(get_close_matches(_plain(field), free, 1)), None)
        if best is not None:
            guesses[field] = free[best]
    return guesses


def _plain(name: str) -> str:
    """A name in lower case without separators: ``Answer A`` and ``answer_a`` are equal."""
    return "".join(character for character in str(name).lower() if character.isalnum())


def _advice(missing: Sequence[str], guesses: Mapping[str, str]) -> str:
    flags = [f"--field {field}={guesses.get(field, 'COLUMN')}" for field in missing]
    return f"try `{' '.join(flags)}`" if guesses else f"name their columns with `{' '.join(flags)}`"


def _fields(names: Sequence[str]) -> str:
    return f"field{'s' if len(names) > 1 else ''} {_named(names)}"


def _named(names: Iterable[str]) -> str:
    listed = [f"`{name}`" for name in names]
    more = f" and {len(listed) - MOST_NAMED} more" if len(listed) > MOST_NAMED else ""
    return ", ".join(listed[:MOST_NAMED]) + more

"""Whether a judge can be asked about the rows of a file, which is looked at before an engine starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from judges.errors import MagistrateError
from judges.judge import Judge
from judges.runner import prepare
from judges.sources import Row, read_rows, renamed

ID = "id"
"""What every row may have."""

MOST_NAMED = 30
"""Columns that a sentence names."""

ALIKE: Sequence[tuple[str, ...]] = (
    ("question", "prompt", "input", "instruction", "query", "context", "user", "history", "dialogue", "document", "article"),
    ("response", "answer", "output", "actual_output", "generation", "prediction", "completion", "reply", "summary", "hypothesis"),
    ("reference", "expected_output", "ground_truth", "reference_answer", "expected", "target", "gold", "label", "solution"),
    ("references", "contexts", "documents", "passages", "sources", "retrieved_contexts", "context"),
    ("answer_a", "answer_1", "answer1", "response_a", "response_1", "response1", "output_1", "output_a", "chosen"),
    ("answer_b", "answer_2", "answer2", "response_b", "response_2", "response2", "output_2", "output_b", "rejected"),
)
"""Names under which data sets have the same thing, the usual ones first."""


def check_columns(judges: Iterable[Judge], columns: Mapping[str, str]) -> None:
    """See that every field that ``--field`` fills is one that a judge reads.

    Raises:
        MagistrateError: One is not. A judge that does not say which it reads takes any.
    """
    judges = list(judges)
    known = list(dict.fromkeys([*(name for judge in judges for name in judge.fields.names), ID]))
    strange = [name for name in columns if name not in known]
    if strange and all(judge.fields.names for judge in judges):
        who = ", ".join(dict.fromkeys(f"`{judge.name}`" for judge in judges))
        raise MagistrateError(
            f"`--field {strange[0]}={columns[strange[0]]}`: judge {who} has no field `{strange[0]}`; it reads {_named(known)}"
        )


def check_source(source: Path, judges: Sequence[Judge], columns: Mapping[str, str], limit: int | None = None) -> None:
    """See that each judge can be asked about any row of a file.

    Args:
        source: The samples.
        judges: Who is asked.
        columns: Field of a sample to the column that holds it.
        limit: Only the first rows are asked about, this many.

    Raises:
        MagistrateError: As in ``check_columns`` and ``check_rows``, or the file cannot be read.
    """
    check_columns(judges, columns)
    for judge in judges:
        check_rows(islice(read_rows(source), limit), judge, columns, source.name)


def check_rows(rows: Iterable[Row], judge: Judge, columns: Mapping[str, str], name: str) -> None:
    """See that the judge can be asked about any of the rows. They are drawn up to the first that it can.

    Args:
        rows: As they are read.
        judge: What is asked.
        columns: Field of a sample to the column that holds it.
        name: What the rows are called: a file's name.

    Raises:
        MagistrateError: There are no rows, or the judge can be asked about none of them. The sentence names the columns and
            the ``--field`` to try.
    """
    there: dict[str, None] = {}
    problem = None
    count = 0
    for row in rows:
        count += 1
        found = prepare(renamed(row, columns), judge).problem
        if found is None:
            return
        problem = problem or found
        there |= dict.fromkeys(row.sample or ())
    if not count:
        raise MagistrateError(f"{name} holds no samples")
    lacking = [f"--field {field}={column}" for field, column in columns.items() if column not in there]
    if there and lacking:
        column = lacking[0].partition("=")[2]
        near = get_close_matches(column, there, 1)
        tried = f"; did you mean `{near[0]}`?" if near else ""
        raise MagistrateError(
            f"{name} has no column `{column}`, which `{lacking[0]}` names; its columns are {_named(there)}{tried}"
        )
    missing = [field for field in judge.fields.needed if field not in there and field not in columns]
    if there and missing:
        raise MagistrateError(
            f"no row of {name} has the {_fields(missing)} that judge `{judge.name}` needs; its columns are {_named(there)}; "
            f"{_advice(missing, suggested(missing, [one for one in there if one not in judge.fields.names]))}"
        )
    who = f"the only row of {name} cannot" if count == 1 else f"none of the {count:,} rows of {name} can"
    raise MagistrateError(f"{who} be judged: {problem}")


def suggested(fields: Iterable[str], columns: Sequence[str]) -> dict[str, str]:
    """Each field to the column that likely holds it; fields without such a column are left out, and no column serves twice."""
    found: dict[str, str] = {}
    for field in fields:
        free = {_plain(column): column for column in reversed(columns) if column not in found.values()}
        words = [_plain(field), *(_plain(word) for group in ALIKE if field in group for word in group)]
        best = next((word for word in words if word in free), None) or next(iter(get_close_matches(_plain(field), free, 1)), None)
        if best is not None:
            found[field] = free[best]
    return found


def _plain(name: str) -> str:
    """A name without what spellings differ by: ``Answer A`` and ``answer_a`` are one."""
    return "".join(character for character in str(name).lower() if character.isalnum())


def _advice(missing: Sequence[str], found: Mapping[str, str]) -> str:
    flags = [f"--field {field}={found.get(field, 'COLUMN')}" for field in missing]
    return f"try `{' '.join(flags)}`" if found else f"say where they stand with `{' '.join(flags)}`"


def _fields(names: Sequence[str]) -> str:
    return f"field{'s' if len(names) > 1 else ''} {_named(names)}"


def _named(names: Iterable[str]) -> str:
    listed = [f"`{name}`" for name in names]
    more = f" and {len(listed) - MOST_NAMED} more" if len(listed) > MOST_NAMED else ""
    return ", ".join(listed[:MOST_NAMED]) + more

"""The columns of a file of people's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from judges.errors import MagistrateError
from judges.samples import well_formed
from judges.sources import Row

ENCODED = "; say how it is encoded, e.g. `--encoding gb18030`"


def header_of(path: Path, rows: Sequence[Row]) -> dict[str, None]:
    """The columns of a file of people's, in its order.

    Raises:
        MagistrateError: No row of it can be read, or it has none.
    """
    header = dict.fromkeys(name for row in rows for name in row.sample or ())
    if not header:
        problem = next((row.problem for row in rows if row.problem), None)
        if problem is None:
            raise MagistrateError(f"{path} has no rows")
        raise MagistrateError(f"no row of {path.name} can be read: {problem}{ENCODED if 'UTF-8' in problem else ''}")
    if any(well_formed(str(name)) != str(name) for name in header):
        raise MagistrateError(f"the columns of {path.name} are not in UTF-8{ENCODED}")
    return header


def check_columns(path: Path, header: Collection[str], wanted: Iterable[str], hint: str = "") -> None:
    """See that a file has columns.

    Args:
        path: The file.
        header: Those that it has.
        wanted: Those that it is to have.
        hint: What else an error should say.

    Raises:
        MagistrateError: It lacks one.
    """
    for column in wanted:
        if column not in header:
            raise MagistrateError(f"{path}: there is no column `{column}`; there are {named(list(header))}{hint}")


def check_distinct(columns: Sequence[str], flag: str) -> None:
    """See that no column is given twice, as two raters who always agree.

    Raises:
        MagistrateError: One is.
    """
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise MagistrateError(f"`{flag}` names the column `{twice}` twice; give each rater's once")


def named(names: Sequence[str]) -> str:
    """Names of columns or metrics in a sentence."""
    return ", ".join(f"`{name}`" for name in names) or "none"

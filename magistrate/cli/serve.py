"""The commands that serve judges over HTTP, and the keys of a server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from magistrate.cli.flags import Debug, with_flags
from magistrate.cli.terminal import JUDGED_IS_KEPT, cli_errors

keys = typer.Typer(invoke_without_command=True)

DATABASE_HERE = "sqlite:///magistrate.db"
DATABASE = typer.Option(help="Where files, batches and keys are kept: sqlite:///FILE or postgresql://USER@HOST/NAME.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessFlags:
    """Where a server listens, and who may call it."""

    host: Annotated[str, typer.Option(help="Address to listen on. Any but this machine's own requires keys.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8700
    require_keys: Annotated[bool, typer.Option("--require-keys", help="Require a key on this machine too.")] = False
    hostname: Annotated[list[str] | None, typer.Option(help="A host name of the server that clients may use.")] = None
    rate: Annotated[int | None, typer.Option(help="Calls per minute for each key.", min=1)] = None
    quota: Annotated[float, typer.Option(help="GiB of uploaded files for each key.")] = 64.0


@with_flags()
def serve(
    access: AccessFlags,
    models: Annotated[
        str | None, typer.Option(help="A models.toml, or a preset: cpu, 24gb, 80gb. This machine's preset by default.")
    ] = None,
    database: Annotated[str, DATABASE] = DATABASE_HERE,
    adapters: Annotated[list[Path] | None, typer.Option(help="A folder of adapters that may be loaded.")] = None,
    dashboards: Annotated[Path, typer.Option(help="The folder served at /dashboards/.")] = Path("dashboards"),
    log_samples: Annotated[bool, typer.Option("--log-samples", help="Write the text of samples to the log.")] = False,
    debug: Debug = False,
) -> None:
    """Serve judges over HTTP: at once or in batches that survive a crash, and OpenAI's API."""
    from magistrate.cli import serving
    from server.settings import GIB, Settings

    with cli_errors(debug=debug, stopped=JUDGED_IS_KEPT):
        settings = Settings(
            host=access.host,
            port=access.port,
            database=database,
            require_keys=access.require_keys,
            hosts=tuple(access.hostname or ()),
            rate=access.rate,
            quota=int(access.quota * GIB),
            adapter_folders=serving.absolute(adapters),
            dashboards=dashboards.resolve(),
            log_samples=log_samples,
        )
        serving.serve(settings, models, Console(stderr=True))


@keys.callback()
def list_keys(context: typer.Context, database: Annotated[str, DATABASE] = DATABASE_HERE) -> None:
    """List the keys that open a server, make one, or revoke one."""
    from magistrate.cli import serving

    if context.invoked_subcommand is None:
        with cli_errors(debug=False):
            serving.list_keys(database, Console())


@keys.command("add")
def add_key(
    name: Annotated[str, typer.Argument(help="Who it is for.")], database: Annotated[str, DATABASE] = DATABASE_HERE
) -> None:
    """Make a key and print it. It is shown this once."""
    from magistrate.cli import serving

    with cli_errors(debug=False):
        print(serving.add_key(database, name))


@keys.command("revoke")
def revoke_key(
    name: Annotated[str, typer.Argument(help="The key's name.")], database: Annotated[str, DATABASE] = DATABASE_HERE
) -> None:
    """Revoke a key; a running server notices within seconds."""
    from magistrate.cli import serving

    with cli_errors(debug=False):
        serving.revoke_key(database, name)

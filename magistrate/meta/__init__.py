"""The commands that judge judges."""

from __future__ import annotations

import typer

meta = typer.Typer(no_args_is_help=True)


@meta.callback()
def about_meta() -> None:
    """How far a judge can be trusted: unit tests, people, comparisons, and what to check by hand."""

"""The commands that judge judges."""

from __future__ import annotations

import typer

from magistrate.cli.meta.audit import audit
from magistrate.cli.meta.benchmark import benchmark
from magistrate.cli.meta.compare import compare
from magistrate.cli.meta.grouse import grouse
from magistrate.cli.meta.people import people
from magistrate.cli.meta.preferences import preferences
from magistrate.cli.meta.replace import replace

meta = typer.Typer(no_args_is_help=True)


@meta.callback()
def about_meta() -> None:
    """Judge the judge: unit tests, people's ratings, comparisons, and what to check by hand."""


meta.command("compare")(compare)
meta.command("audit")(audit)
meta.command("replace")(replace)
meta.command("grouse")(grouse)
meta.command("people")(people)
meta.command("preferences")(preferences)
meta.command("benchmark")(benchmark)

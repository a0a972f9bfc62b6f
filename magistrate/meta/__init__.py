"""The commands that judge judges."""

from __future__ import annotations

import typer

from magistrate.meta.audit import audit
from magistrate.meta.compare import compare
from magistrate.meta.grouse import grouse
from magistrate.meta.people import people
from magistrate.meta.preferences import preferences
from magistrate.meta.replace import replace

meta = typer.Typer(no_args_is_help=True)


@meta.callback()
def about_meta() -> None:
    """How far a judge can be trusted: unit tests, people, comparisons, and what to check by hand."""


meta.command("compare")(compare)
meta.command("audit")(audit)
meta.command("replace")(replace)
meta.command("grouse")(grouse)
meta.command("people")(people)
meta.command("preferences")(preferences)

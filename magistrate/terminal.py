"""What every command does alike: errors in a sentence, flags of the form name=value, and progress on the console."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from judges.bench import Audience, Tally
from judges.errors import MagistrateError
from magistrate.quiet import quiet
from magistrate.stopping import exit_status

JUDGED_IS_KEPT = "what is judged is kept, and the same command goes on from there"
ANSWERED_IS_KEPT = "what is answered is kept, and the same command goes on from there"
"""What is left after a stop, for ``clear_errors``."""


@contextmanager
def clear_errors(*, debug: bool, stopped: str = "nothing was changed") -> Iterator[None]:
    """One sentence for what a user can mend, or for what is left after a stop signal; a traceback only on request."""
    try:
        yield
    except MagistrateError as error:
        if debug:
            raise
        print(f"magistrate: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        print(f"magistrate: stopped; {stopped}", file=sys.stderr)
        raise typer.Exit(exit_status()) from None
    except typer.Exit:
        raise
    except Exception as error:
        if debug:
            raise
        print(f"magistrate: unexpected {type(error).__name__}: {error} (`--debug` shows where)", file=sys.stderr)
        raise typer.Exit(1) from None


def pairs(texts: list[str] | None, flag: str, form: str) -> dict[str, str]:
    """The values of a flag that is given as ``name=value``, several times.

    Raises:
        MagistrateError: One has another form, or a name is given twice.
    """
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name.strip() and equals):
            raise MagistrateError(f"`{flag} {text}` must be of the form {form}")
        if name.strip() in found:
            raise MagistrateError(f"`{flag} {name.strip()}=...` is given twice")
        found[name.strip()] = value.strip()
    return found


def metric_columns(texts: list[str] | None) -> dict[str, str]:
    """Metrics to their columns of people's file, each given as ``name=column``, or as ``name`` where the two are the same.

    Raises:
        MagistrateError: As in ``pairs``.
    """
    return pairs([text if "=" in text else f"{text}={text}" for text in texts or ()], "--metric", "NAME=COLUMN")


class Watching(Audience):
    """Shows the progress of a run on a console.

    Args:
        console: Where.
        total: Samples of the input, where that is known.
        what: What is done, as a word or two.
        debug: Whether to let libraries print.
    """

    def __init__(self, console: Console, total: int | None = None, *, what: str = "judging", debug: bool = False) -> None:
        self._console = console
        self._debug = debug
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unscored]} unscored"),
            TimeRemainingColumn(),
            console=console,
            refresh_per_second=4,
        )
        self._task = self._progress.add_task(what, total=total, unscored=0)

    @contextmanager
    def loading(self) -> Iterator[None]:
        with self._console.status("loading the judge"), quiet(enabled=not self._debug):
            yield

    def judging(self) -> Progress:
        return self._progress

    def told(self, tally: Tally) -> None:
        self._progress.update(self._task, completed=tally.judged + tally.kept, unscored=tally.unscored)

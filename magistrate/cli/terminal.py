"""What commands share: errors as one sentence, flags of the form name=value, and progress on the console."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from judges.backend import ProgressListener, Tally
from judges.errors import MagistrateError
from judges.extras import naming_extras
from magistrate.cli.stopping import exit_status

JUDGED_IS_KEPT = "what is judged is kept, and the same command resumes"
UNITS_ARE_KEPT = "units judged to their end are kept, and the same command resumes"
ANSWERED_IS_KEPT = "what is answered is kept, and the same command resumes"
"""What remains after a stop, for ``cli_errors``."""

KEPT = "\n\t\u200d"
"""Signs of a message that are not printable and do no harm; the last one joins emoji."""


@contextmanager
def cli_errors(*, debug: bool, stopped: str = "nothing was changed") -> Iterator[None]:
    """Print one sentence for an error that a user can mend, or for a stop; a traceback only on request."""
    try:
        with naming_extras():
            yield
    except MagistrateError as error:
        if debug:
            raise
        print(f"magistrate: {_printable(str(error))}", file=sys.stderr)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        print(f"magistrate: stopped; {stopped}", file=sys.stderr)
        raise typer.Exit(exit_status()) from None
    except typer.Exit:
        raise
    except Exception as error:
        if debug:
            raise
        print(f"magistrate: unexpected {type(error).__name__}: {_printable(str(error))} (`--debug` shows where)", file=sys.stderr)
        raise typer.Exit(1) from None


def _printable(text: str) -> str:
    """A text with what would steer a terminal, such as an escape or a change of direction, spelled out."""
    return "".join(sign if sign.isprintable() or sign in KEPT else sign.encode("unicode_escape").decode() for sign in text)


def pairs(texts: list[str] | None, flag: str, form: str) -> dict[str, str]:
    """The values of a flag that is given several times as ``name=value``.

    Raises:
        MagistrateError: A value has another form, or a name is given twice.
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
    """Metrics to their columns of people's file, each given as ``name=column``, or as ``name`` if the two are the same.

    Raises:
        MagistrateError: As in ``pairs``.
    """
    return pairs([text if "=" in text else f"{text}={text}" for text in texts or ()], "--metric", "NAME=COLUMN")


class ConsoleProgress(ProgressListener):
    """Shows the progress of a run on a console.

    Args:
        console: Where to show it.
        total: Samples of the input, if known.
        what: The work, in a word or two.
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

    def update(self, tally: Tally) -> None:
        self._progress.update(self._task, completed=tally.judged + tally.kept, unscored=tally.unscored)


def own_console(*, silent: bool = False) -> Console:
    """A console on the present standard error, whatever happens to file descriptor 2 later; ``silent`` shows nothing."""
    stream: IO[str] = os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="replace")
    return Console(file=stream, quiet=silent)


@contextmanager
def opening(*, debug: bool = False, silent: bool = False) -> Iterator[None]:
    """Say on a terminal that a model is opened: libraries take seconds to import, and weights to be hashed."""
    with own_console(silent=silent).status("opening the model"), quiet(enabled=not debug):
        yield


@contextmanager
def quiet(*, enabled: bool = True) -> Iterator[None]:
    """Send this process's standard output and error, C++ libraries included, to a scratch file."""
    if not enabled:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as scratch:
        os.dup2(scratch.fileno(), 1)
        os.dup2(scratch.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(saved[0], 1)
            os.dup2(saved[1], 2)
            os.close(saved[0])
            os.close(saved[1])

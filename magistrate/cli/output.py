"""Where the result of ``score`` and ``jury`` goes: a file and a table, or standard output for other programs."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import typer
from rich.console import Console

from judges.errors import MagistrateError, reason_of
from magistrate.cli.terminal import JUDGED_IS_KEPT, own_console

if TYPE_CHECKING:
    from magistrate.cli.flags import RunFlags

STANDARD_OUTPUT = Path("-")

BROKEN_PIPE = 128 + 13
"""Exit status of a command whose reader has gone, as a shell gives it."""


@dataclass(frozen=True, slots=True)
class Result:
    """Where a run's verdicts and its summary go.

    Attributes:
        file: The file of verdicts; a scratch file if they go to standard output.
        progress: The console for what happens during the run.
        summary: The console for the table that ends it.
        stream: Standard output, if it is for other programs.
    """

    file: Path
    progress: Console
    summary: Console
    stream: BinaryIO | None = None

    def write(self, text: str) -> None:
        """Write a line for other programs."""
        assert self.stream is not None
        self.stream.write(text.encode() + b"\n")


def stopped(run: RunFlags) -> str:
    """What remains after a stop, for ``cli_errors``."""
    return "no verdict is kept, since `-o -` names no file" if run.output == STANDARD_OUTPUT else JUDGED_IS_KEPT


@contextmanager
def result_of(run: RunFlags) -> Iterator[Result]:
    """Say where the result goes. At the end, verdicts for standard output are written there.

    Raises:
        MagistrateError: The verdicts go to standard output, and the summary would too, or texts would be kept beside them; or
            standard output cannot be written.
        typer.Exit: The reader of standard output has gone.
    """
    progress = own_console(silent=run.quiet)
    piped = run.output == STANDARD_OUTPUT
    if not (piped or run.as_json):
        yield Result(run.output, progress, Console(quiet=run.quiet))
        return
    if piped and (run.as_json or run.keep_texts):
        flag = "`--json` would write to standard output too" if run.as_json else "`--keep-texts` writes beside a file"
        raise MagistrateError(f"{flag}; give `-o` a file")
    with tempfile.TemporaryDirectory(prefix="magistrate-") as folder, _own_stream() as stream:
        file = Path(folder) / "verdicts.jsonl" if piped else run.output
        yield Result(file, progress, progress, stream)
        try:
            if piped:
                with file.open("rb") as verdicts:
                    shutil.copyfileobj(verdicts, stream)
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # what is left in the buffer goes nowhere
            raise typer.Exit(BROKEN_PIPE) from None
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            raise MagistrateError(f"standard output cannot be written: {reason_of(error)}") from error


@contextmanager
def preview_result(run: RunFlags) -> Iterator[Result]:
    """Where the result of a dry run would go. It writes no verdicts, and says what it finds on standard output."""
    yield Result(run.output, own_console(silent=True), Console(quiet=True))


@contextmanager
def _own_stream() -> Iterator[BinaryIO]:
    """Standard output for the result alone: what libraries print there goes to standard error meanwhile."""
    if sys.stdout is None:
        raise MagistrateError("standard output is closed; leave `-o -` and `--json` out, or open it")
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "wb") as stream:
        os.dup2(2, 1)
        try:
            yield stream
        finally:
            sys.stdout.flush()
            os.dup2(stream.fileno(), 1)

"""Names the extra of this package that brings a library which is not installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType

from judges.errors import MagistrateError

PARTS: Mapping[str, str] = {
    "evals": "studies",
    "evals.metrics.embedding": "models",
    "finetune": "finetune",
    "judges.data.logs": "parquet",
    "judges.data.rows": "parquet",
    "judges.data.sources": "hub",
    "judges.engines": "models",
    "judges.engines.cluster": "ray",
    "judges.units": "parquet",
    "judges.verdicts": "pandas",
    "magistrate.cli.assigning": "solver",
    "magistrate.cli.augmenting": "finetune",
    "magistrate.cli.doctor": "models",
    "magistrate.cli.finetuning": "finetune",
    "magistrate.cli.serving": "server",
    "magistrate.harnesses.inspect_ai": "inspect",
    "magistrate.ray": "ray",
    "server": "server",
    "server.hosting.models_file": "cpu",
    "solver": "solver",
}
"""Package or module to the extra with the libraries that it imports beside the base ones. The longest name counts."""

WITHIN: Mapping[str, frozenset[str]] = {
    "finetune": frozenset({"models", "parquet", "solver", "studies"}),
    "models": frozenset({"parquet"}),
    "server": frozenset({"solver", "parquet"}),
    "solver": frozenset({"parquet"}),
    "studies": frozenset({"solver", "parquet"}),
}
"""Extra to the extras that it includes."""


class MissingExtraError(MagistrateError, ImportError):
    """A library that an extra brings is not installed."""


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"`pip install 'magistrate[{extra}]'`"


INSTALL_VLLM = f"{install('cpu')}, or with an NVIDIA GPU {install('gpu')}"


def sentence(error: ModuleNotFoundError) -> str | None:
    """The sentence that names the missing library and an extra that brings it; ``None`` if none does.

    The extra is that of the module that imports the library, or of one that led to it if that extra includes the other.
    """
    wanted = [extra for name in _modules(error.__traceback__) if (extra := _extra(name)) is not None]
    if not wanted or not error.name:
        return None
    extra = wanted.pop()
    for outer in reversed(wanted):
        extra = outer if extra in WITHIN.get(outer, ()) else extra
    return f"{error.name.partition('.')[0]} is not installed: {install(extra)}"


@contextmanager
def naming_extras() -> Iterator[None]:
    """Name the extra of a library that is missing.

    Raises:
        MissingExtraError: One is, and an extra brings it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (said := sentence(error)) is None:
            raise
        raise MissingExtraError(said) from error


def _modules(trace: TracebackType | None) -> Iterator[str]:
    """The modules whose code led to an error, the outermost first."""
    while trace is not None:
        yield str(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next


def _extra(module: str) -> str | None:
    """The extra of a module's part."""
    parts = module.split(".")
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((PARTS[name] for name in names if name in PARTS), None)

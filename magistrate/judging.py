"""Judging from Python: samples of any kind in, a list of verdicts out."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import aclosing
from itertools import chain, islice
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judges import catalog
from judges.backend import Backend, LocalBackend
from judges.data.held import rows_of
from judges.data.rows import Row, renamed
from judges.decoding import Decoding
from judges.engines.engine import Engine
from judges.engines.settings import EngineSettings
from judges.errors import MagistrateError, did_you_mean
from judges.extras import naming_extras
from judges.fitting import check_columns, check_rows
from judges.judge import Judge
from judges.repeats import warn, with_occurrences
from judges.runner import PreparedSample, prepare, unscored
from judges.verdict import Verdict
from judges.verdicts import Verdicts
from magistrate.loop_thread import run

if TYPE_CHECKING:
    from judges.data.held import Samples

SETTINGS = {**EngineSettings.model_fields, **Decoding.model_fields}
"""Settings of ``judge``: those of the commands that judge."""


async def judge_async(
    samples: Samples | str | Path,
    judge: Judge | str | Path | None = None,
    engine: Engine | str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    fields: Mapping[str, str] | None = None,
    limit: int | None = None,
    encoding: str | None = None,
    progress: Callable[[int, int | None], object] | None = None,
    **settings: Any,
) -> Verdicts:
    """Judge samples where an event loop runs. Arguments, result and errors are those of ``judge``.

    An engine that is given as an object must be started, and stays so.
    """
    with naming_extras():
        if judge is None and isinstance(engine, Engine):
            raise MagistrateError("name the judge of a given engine, for example `llm-eval`")
        how, decoding = settings_of(engine, settings)
        _check_limit(limit)
        asked, name = opened_judge(judge, options or {}, how)
        fit = _Fit(asked, fields or {}, Path(samples).name if isinstance(samples, str | Path) else "the input")
        rows = fit.renamed(islice(rows_of(samples, encoding), limit))
        total = len(samples) if isinstance(samples, Sized) and not isinstance(samples, str) else None
        report = _Progress(progress, total if limit is None or total is None else min(total, limit))
        if isinstance(engine, Engine):
            return await _verdicts(rows, LocalBackend(asked, engine, decoding), report, fit)
        from magistrate.remote import open_backend

        backend = open_backend(name, asked, how, decoding, stopped="no verdict is kept")
        try:
            return await _verdicts(rows, backend, report, fit)
        finally:
            await backend.close()


def judge(
    samples: Samples | str | Path,
    judge: Judge | str | Path | None = None,
    engine: Engine | str | None = None,
    **settings: Any,
) -> Verdicts:
    """Judge samples: ``judge(samples, "llm-eval")``. Works in notebooks too. Without ``model`` the embedded judge judges.

    Args:
        samples: A list of mappings or any other iterable of them, a data frame of pandas or polars, a table of pyarrow, a data
            set of ``datasets``; or the path of a file, or ``hf://owner/name:split``.
        judge: A judge's name, a rubric file, or a judge; by default the model's own.
        engine: The engine's name, or one that is not started, which is closed in the end.
        options: The judge's options.
        fields: Field that the judge reads to the column that holds it, if the names differ.
        limit: The number of samples to judge, from the first.
        encoding: Encoding of a CSV file that is not UTF-8.
        progress: Called with the number of samples judged, and that of all, ``None`` if it is not known.

    Returns:
        One verdict a sample, in the samples' order. A warning says so where several have one id, or none can be judged.

    Raises:
        EngineError: The engine cannot start, or has failed for good.
        MagistrateError: The samples cannot be read, there is no such judge, option or setting, or a server refuses.
    """

    async def judged() -> Verdicts:
        try:
            return await judge_async(samples, judge, engine, **settings)
        finally:
            if isinstance(engine, Engine):
                await engine.close()

    return run(judged())


def settings_of(engine: Engine | str | None, given: Mapping[str, Any]) -> tuple[EngineSettings, Decoding]:
    """The settings of the engine, whose model is the embedded judge if none is named, and those of how answers are written.

    Raises:
        MagistrateError: There is no such setting, a value is illegal, or one does not go with an engine that is given.
    """
    if not isinstance(engine, Engine | str | None):
        raise MagistrateError(f"`engine` must be an engine's name, or an engine of `open_engine`, not {engine!r:.80}")
    for name in given:
        if name not in SETTINGS:
            raise MagistrateError(f"there is no setting `{name}`; there are {', '.join(SETTINGS)}{did_you_mean(name, SETTINGS)}")
    ours = {name: value for name, value in given.items() if name in EngineSettings.model_fields}
    if isinstance(engine, Engine) and ours:
        raise MagistrateError(f"`{next(iter(ours))}` is a setting of an engine that is opened here, and an open engine is given")
    named = {"engine": engine} if isinstance(engine, str) else {}
    decoding = {name: value for name, value in given.items() if name not in ours}
    return EngineSettings.of(**named, **ours).with_judge(), Decoding.of(**decoding)


def _check_limit(limit: int | None) -> None:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, Integral) or limit < 1):
        raise MagistrateError(f"`limit` must be a whole number of at least 1, not {limit!r:.80}")


def opened_judge(judge: Judge | str | Path | None, options: Mapping[str, Any], engine: EngineSettings) -> tuple[Judge, str]:
    """The judge, and the name by which ``catalog.open_judge`` would take it.

    Raises:
        MagistrateError: There is no such judge or option, or the rubric is invalid.
    """
    if isinstance(judge, Judge):
        if options:
            raise MagistrateError("options are those of a judge that is named; this one has its own")
        return judge, judge.name
    if judge is None:
        from magistrate.remote import usual_judge

        judge = usual_judge(engine)
    return catalog.open_judge(str(judge), **options), str(judge)


class _Fit:
    """Renames the columns of rows, and warns if the judge can read none of them.

    Raises:
        MagistrateError: The judge has no such field.
    """

    def __init__(self, judge: Judge, fields: Mapping[str, str], name: str) -> None:
        self._judge, self._fields, self._name = judge, fields, name
        self._unread: list[Row] | None = []
        check_fields(judge, fields)

    def renamed(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows with the judge's fields; they are kept until ``found``."""
        for row in rows:
            if self._unread is not None:
                self._unread.append(row)
            yield renamed(row, self._fields)

    def found(self) -> None:
        """Note that a row can be judged."""
        self._unread = None

    def warn(self) -> None:
        """Warn, in the words of the command line, that no row can be judged. No rows are no fault."""
        if self._unread:
            try:
                check_rows(self._unread, self._judge, self._fields, self._name)
            except MagistrateError as error:
                warnings.warn(_in_python(str(error)), stacklevel=2)


def check_fields(judge: Judge, fields: Mapping[str, str]) -> None:
    """Check that the judge has every field that ``fields`` fills.

    Raises:
        MagistrateError: It has not.
    """
    try:
        check_columns([judge], fields)
    except MagistrateError as error:
        raise MagistrateError(_in_python(str(error))) from None


def _in_python(sentence: str) -> str:
    """Spell the flags of a sentence as the argument of Python: ```--field a=b``` as ```fields={'a': 'b'}```."""

    def spelt(found: re.Match[str]) -> str:
        columns = dict(flag.split("=", 1) for flag in found[1].split(" --field "))
        return f"`fields={columns}`"

    return re.sub(r"`--field ([^`]+)`", spelt, sentence)


class _Progress:
    """Counts verdicts, and tells a program."""

    def __init__(self, tell: Callable[[int, int | None], object] | None, total: int | None) -> None:
        self._tell, self._total, self._done = tell, total, 0

    def add(self) -> None:
        self._done += 1
        if self._tell is not None:
            self._tell(self._done, self._total)


async def _verdicts(rows: Iterator[Row], backend: Backend, progress: _Progress, fit: _Fit) -> Verdicts:
    """Judge rows. The backend is started if one of them can be asked about."""
    fingerprint = (await backend.fingerprint()).digest
    order: list[tuple[str, int]] = []
    reached: dict[tuple[str, int], Verdict] = {}

    def add(verdict: Verdict) -> None:
        reached[verdict.id, verdict.occurrence] = verdict
        progress.add()

    def askable() -> Iterator[PreparedSample]:
        for row in with_occurrences(rows, warn):
            order.append((row.id, row.occurrence))
            sample = prepare(row, backend.judge)
            if sample.rendered is None:
                add(unscored(sample, sample.problem or "the row holds no sample", backend.judge, fingerprint))
            else:
                yield sample

    waiting = askable()
    first = next(waiting, None)
    if first is None:
        fit.warn()
    else:
        fit.found()
        await backend.start()
        async with aclosing(backend.run(chain([first], waiting))) as verdicts:
            async for verdict in verdicts:
                add(verdict)
    return Verdicts((reached[name] for name in order), backend.judge.legal)


def _show_settings(function: Callable[..., Any]) -> None:
    """Give a function the signature and the help of the settings that it passes on."""
    own = inspect.signature(judge_async).parameters
    parameters = [parameter for parameter in own.values() if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.annotation)
        for name, field in SETTINGS.items()
        if name not in own
    ]
    function.__signature__ = inspect.signature(function).replace(parameters=parameters)  # type: ignore[attr-defined]
    listed = "".join(f"        {name}: {field.description}\n" for name, field in SETTINGS.items() if name not in own)
    function.__doc__ = (function.__doc__ or "").replace("\n\n    Returns:", f"\n{listed}\n    Returns:")


_show_settings(judge)
_show_settings(judge_async)

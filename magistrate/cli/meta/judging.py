"""The verdicts of a study of judges: reached here, read from a file, or none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from judges import catalog
from judges.backend import Backend, judge_file
from judges.data.rows import Row
from judges.data.samples import well_formed
from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.engines.engine import and_close
from judges.errors import MagistrateError, counted
from judges.fitting import check_rows
from judges.judge import Judge
from judges.runner import prepare
from judges.verdict import Verdict
from magistrate.cli.flags import LLM_EVAL_FLAGS
from magistrate.cli.studies import with_judge_model
from magistrate.cli.terminal import opening

if TYPE_CHECKING:
    from evals.data.tasks import Fault

Rounds = Annotated[int, typer.Option(help="Rounds of the bootstrap.", min=2)]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictFlags:
    """Where verdicts come from instead of judging."""

    verdicts: Annotated[
        Path | None,
        typer.Option("--verdicts", help="Verdicts on the samples, as `magistrate score` writes them; nothing is judged."),
    ] = None
    no_judge: Annotated[
        bool, typer.Option("--no-judge", help="Leave out the judge: only people, and what they are set beside.")
    ] = False
    samples: Annotated[
        Path | None,
        typer.Option("--write-samples", metavar="FILE", help="Write the samples for `magistrate score`, a line each, and stop."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSpec:
    """Which judge is asked on which model, and how.

    Attributes:
        judge: Its name, or a rubric file.
        options: Its options as text.
        own: Options of the judge's own flags, as values.
        engine: What runs its model.
        decoding: How answers are written.
        source: Where verdicts come from instead.
        overwrite: Whether to discard verdicts of an earlier run.
        debug: Whether to let libraries print.
    """

    judge: str
    options: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    engine: EngineSettings
    decoding: Decoding
    source: VerdictFlags
    overwrite: bool
    debug: bool

    @property
    def judges(self) -> bool:
        """Whether this command judges, so that the prompts are known."""
        return not self.source.no_judge and self.source.verdicts is None

    def open_judge(self) -> Judge:
        """The judge.

        Raises:
            MagistrateError: There is no such judge or option.
        """
        return catalog.open_judge(self.judge, self.options, **self.own)

    def with_model(self) -> JudgeSpec:
        """The same, with the embedded model if this command judges and no model is named."""
        return replace(self, engine=with_judge_model(self.engine, self.judge)) if self.judges else self

    @property
    def title(self) -> str | None:
        """The judge's name in a report; ``None`` if it is known from its verdicts alone."""
        model = self.engine.model
        return None if self.source.verdicts is not None or model is None else f"{self.judge} on {model}"

    def provenance(self, judged: Mapping[str, Verdict] | None) -> dict[str, object]:
        """Who judged, for a report's list of sources."""
        if judged is None:
            return {}
        from evals.data.verdicts import judges_of
        from evals.reports.wording import first_few

        judges = first_few(judges_of(judged.values()), most=3, between="; ")
        verdicts = self.source.verdicts
        return {"verdicts": verdicts and verdicts.name, "model": self.engine.model, "judged by": judges}


def verdicts_on(rows: Sequence[Row], folder: Path, spec: JudgeSpec, name: str) -> tuple[dict[str, Verdict] | None, list[Fault]]:
    """The verdicts on the rows by id, ``None`` without a judge, and the faults of those from a file.

    Args:
        rows: With distinct ids.
        folder: Where verdicts are kept.
        spec: Which judge, and how.
        name: The rows' name in messages: a file's.

    Raises:
        MagistrateError: Flags contradict each other, there is no such judge or model, or judging failed.
    """
    from evals.data.verdicts import on_other_texts, read_verdicts
    from magistrate.remote import open_backend

    source, decoding = spec.source, spec.decoding.model_dump(exclude_defaults=True)
    expected = decoding.pop("expected", False)
    given = [spec.engine.flag(name) for name in spec.engine.model_dump(exclude_defaults=True)]
    given += [spec.decoding.flag(name) for name in decoding] + ["-O"] * bool(spec.options)
    given += [flag for name, flag in LLM_EVAL_FLAGS.items() if spec.own.get(name) is not None]
    if source.no_judge:
        given += ["--verdicts"] * (source.verdicts is not None) + ["--expected"] * expected
        if given:
            raise MagistrateError(f"`--no-judge` and `{given[0]}` contradict each other; leave out one")
        return None, []
    if source.verdicts is not None:
        if given:
            raise MagistrateError(f"`--verdicts` replaces judging; leave out `{given[0]}`, or leave out `--verdicts`")
        read = read_verdicts(source.verdicts)
        return read, on_other_texts(rows, read)
    judge = spec.open_judge()
    check_rows(rows, judge, {}, name)
    with opening(debug=spec.debug):
        backend = open_backend(spec.judge, judge, spec.engine, spec.decoding)
    verdicts = judge_rows(rows, folder / "verdicts.jsonl", backend, overwrite=spec.overwrite, debug=spec.debug)
    return {verdict.id: verdict for verdict in verdicts}, []


def write_samples(rows: Sequence[Row], path: Path, *, overwrite: bool) -> None:
    """Write the samples with their ids, for ``magistrate score`` to judge elsewhere, and print the path.

    Raises:
        MagistrateError: The file exists already, is not to be JSON lines, or cannot be written.
    """
    from judges.data.files import atomic_write

    if path.suffix != ".jsonl":
        raise MagistrateError(f"`--write-samples {path}` must end in .jsonl")
    if path.exists() and not overwrite:
        raise MagistrateError(f"{path} exists already; give `--write-samples` another file, or `--overwrite`")
    lines = [json.dumps({**(row.sample or {}), "id": row.id}, ensure_ascii=False) for row in rows]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, well_formed("\n".join(lines) + "\n"))
    except OSError as error:
        raise MagistrateError(f"{path} cannot be written: {error.strerror or error}") from error
    Console().print(f"{counted(len(rows), 'sample')}: {path}", markup=False, highlight=False)


def judge_rows(
    rows: Sequence[Row], output: Path, backend: Backend, *, overwrite: bool = False, debug: bool = False
) -> list[Verdict]:
    """Judge rows, show the progress, and close the backend.

    Args:
        rows: With distinct ids.
        output: The file of verdicts; rows that it holds are not judged again.
        backend: Where the judge is asked.
        overwrite: Whether to discard what the file holds.
        debug: Whether to let libraries print.

    Raises:
        MagistrateError: Judging failed. What is judged is kept.
    """
    from magistrate.cli.terminal import ConsoleProgress, own_console

    progress = ConsoleProgress(own_console(), len(rows), debug=debug)
    samples = [prepare(row, backend.judge) for row in rows]
    work = judge_file(output, samples, backend, progress, overwrite=overwrite, whole=False)
    return list(asyncio.run(and_close(work, backend)).verdicts())

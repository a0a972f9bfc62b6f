"""Where the verdicts of a study of a judge and people come from: a judge that is asked here, a file, or nowhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from judges import catalog
from judges.bench import OwnBench
from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.errors import MagistrateError, counted
from judges.judge import Judge
from judges.samples import well_formed
from judges.sources import Row
from judges.verdict import Verdict
from magistrate.fitting import check_rows
from magistrate.llm_eval_flags import FLAGS
from magistrate.studies import with_judge_model

if TYPE_CHECKING:
    from evals.tasks import Fault

Rounds = Annotated[int, typer.Option(help="Rounds of the bootstrap.", min=2)]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictFlags:
    """Where verdicts come from in place of a judge that is asked."""

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
class Asking:
    """How a judge is asked.

    Attributes:
        judge: Its name, or a rubric file.
        options: Its options as text.
        own: Options as values.
        engine: What runs its model.
        decoding: How answers are written.
        source: Where verdicts come from otherwise.
        overwrite: Whether to throw away verdicts of an earlier run.
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
        """Whether a judge is asked here, so that what it asks is known."""
        return not self.source.no_judge and self.source.verdicts is None

    def court(self) -> Judge:
        """The judge that is asked.

        Raises:
            MagistrateError: There is no such judge or option.
        """
        return catalog.open_judge(self.judge, self.options, **self.own)

    def with_model(self) -> Asking:
        """The same with the model that judges where a judge is asked and none is named."""
        return replace(self, engine=with_judge_model(self.engine)) if self.judges else self

    @property
    def called(self) -> str | None:
        """What a report calls the judge; ``None`` where only its verdicts tell."""
        model = self.engine.model
        return None if self.source.verdicts is not None or model is None else f"{self.judge} on {model}"

    def told(self, judged: Mapping[str, Verdict] | None) -> dict[str, object]:
        """Who judged, for a report."""
        if judged is None:
            return {}
        from evals.meta.verdicts import judges_of
        from evals.reports.wording import first_few

        judges = first_few(judges_of(judged.values()), most=3, between="; ")
        verdicts = self.source.verdicts
        return {"verdicts": verdicts and verdicts.name, "model": self.engine.model, "judged by": judges}


def verdicts_on(rows: Sequence[Row], folder: Path, asking: Asking, name: str) -> tuple[dict[str, Verdict] | None, list[Fault]]:
    """The verdicts on the rows, by id, ``None`` without a judge; and what is wrong with those of a file.

    Args:
        rows: With ids of their own.
        folder: Keeps the verdicts.
        asking: How a judge is asked.
        name: What the rows are called.

    Raises:
        MagistrateError: Flags contradict each other, there is no such judge or model, or the judge cannot go on.
    """
    from evals.meta.verdicts import on_other_texts, read_verdicts
    from magistrate.meta.running import judge_rows

    source, decoding = asking.source, asking.decoding.model_dump(exclude_defaults=True)
    expected = decoding.pop("expected", False)
    settings = [*asking.engine.model_dump(exclude_defaults=True), *decoding]
    given = ["--" + name.replace("_", "-") for name in settings] + ["-O"] * bool(asking.options)
    given += [flag for name, flag in FLAGS.items() if asking.own.get(name) is not None]
    if source.no_judge:
        given += ["--verdicts"] * (source.verdicts is not None) + ["--expected"] * expected
        if given:
            raise MagistrateError(f"`--no-judge` and `{given[0]}` contradict each other; leave out one")
        return None, []
    if source.verdicts is not None:
        if given:
            raise MagistrateError(f"`--verdicts` is in place of judging; leave out `{given[0]}`, or leave out `--verdicts`")
        read = read_verdicts(source.verdicts)
        return read, on_other_texts(rows, read)
    court = asking.court()
    check_rows(rows, court, {}, name)
    bench = OwnBench(court, asking.engine.open(), asking.decoding)
    found = judge_rows(rows, folder / "verdicts.jsonl", bench, overwrite=asking.overwrite, debug=asking.debug)
    return {verdict.id: verdict for verdict in found}, []


def write_samples(rows: Sequence[Row], path: Path, *, overwrite: bool) -> None:
    """Write the samples with their ids, for ``magistrate score`` to judge elsewhere, and say where they are.

    Raises:
        MagistrateError: The file is there already, is not to be JSON lines, or cannot be written.
    """
    from evals.whole_files import write_whole

    if path.suffix != ".jsonl":
        raise MagistrateError(f"`--write-samples {path}` must end in .jsonl")
    if path.exists() and not overwrite:
        raise MagistrateError(f"{path} is there already; give `--write-samples` another file, or `--overwrite`")
    lines = [json.dumps({**(row.sample or {}), "id": row.id}, ensure_ascii=False) for row in rows]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, well_formed("\n".join(lines) + "\n"))
    except OSError as error:
        raise MagistrateError(f"{path} cannot be written: {error.strerror or error}") from error
    Console().print(f"{counted(len(rows), 'sample')}: {path}", markup=False, highlight=False)

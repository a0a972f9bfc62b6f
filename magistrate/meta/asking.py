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
from judges.errors import MagistrateError, counted
from judges.judge import Judge
from judges.samples import well_formed
from judges.sources import Row
from judges.verdict import Verdict
from magistrate.fitting import check_rows
from magistrate.llm_eval_flags import FLAGS
from magistrate.studies import judge_model
from magistrate.terminal import pairs

if TYPE_CHECKING:
    from evals.tasks import Fault

VerdictsFlag = Annotated[
    Path | None, typer.Option("--verdicts", help="Verdicts on the samples, as `magistrate score` writes them; nothing is judged.")
]
NoJudge = Annotated[bool, typer.Option("--no-judge", help="Leave out the judge: only people, and what they are set beside.")]
WriteSamples = Annotated[
    Path | None,
    typer.Option("--write-samples", metavar="FILE", help="Write the samples for `magistrate score`, a line each, and stop."),
]
Rounds = Annotated[int, typer.Option(help="Rounds of the bootstrap.", min=2)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How a judge is asked.

    Attributes:
        judge: Its name, or a rubric file.
        option: Its options as text.
        own: Options as values.
        model: Who judges.
        host: Engine, URL, number format and window.
        think: Tokens to think for first.
        expected: Whether expected scores are wanted.
        verdicts: A file of verdicts in place of judging.
        no_judge: Whether there is no judge.
        overwrite: Whether to throw away verdicts of an earlier run.
        debug: Whether to let libraries print.
    """

    judge: str
    option: list[str] | None
    own: Mapping[str, Any] = field(default_factory=dict)
    model: str | None
    host: tuple[str, str | None, str | None, int | None]
    think: int
    expected: bool
    verdicts: Path | None
    no_judge: bool
    overwrite: bool
    debug: bool

    @property
    def judges(self) -> bool:
        """Whether a judge is asked here, so that what it asks is known."""
        return not self.no_judge and self.verdicts is None

    def court(self) -> Judge:
        """The judge that is asked.

        Raises:
            MagistrateError: There is no such judge or option.
        """
        return catalog.open_judge(self.judge, pairs(self.option, "-O", "name=value"), **self.own)

    def with_model(self) -> Asking:
        """The same with the model that judges where a judge is asked and none is named."""
        return replace(self, model=judge_model(self.host[0], self.model)) if self.judges else self

    @property
    def called(self) -> str | None:
        """What a report calls the judge; ``None`` where only its verdicts tell."""
        return None if self.verdicts is not None or self.model is None else f"{self.judge} on {self.model}"

    def told(self, judged: Mapping[str, Verdict] | None) -> dict[str, object]:
        """Who judged, for a report."""
        if judged is None:
            return {}
        from evals.dashboard.words import first_few
        from evals.meta.verdicts import judges_of

        judges = first_few(judges_of(judged.values()), most=3, between="; ")
        return {"verdicts": self.verdicts and self.verdicts.name, "model": self.model, "judged by": judges}


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
    from magistrate.studies import open_judge_engine

    _, base_url, dtype, window = asking.host
    flags = {"--model": asking.model, "-O": asking.option, "--think": asking.think, "--base-url": base_url, "--dtype": dtype}
    given = [flag for flag, value in (flags | {"--window": window}).items() if value]
    given += [flag for name, flag in FLAGS.items() if asking.own.get(name) is not None]
    if asking.no_judge:
        given += ["--verdicts"] * (asking.verdicts is not None) + ["--expected"] * asking.expected
        if given:
            raise MagistrateError(f"`--no-judge` and `{given[0]}` contradict each other; leave out one")
        return None, []
    if asking.verdicts is not None:
        if given:
            raise MagistrateError(f"`--verdicts` is in place of judging; leave out `{given[0]}`, or leave out `--verdicts`")
        read = read_verdicts(asking.verdicts)
        return read, on_other_texts(rows, read)
    court = asking.court()
    check_rows(rows, court, {}, name)
    host = open_judge_engine(asking.host[0], asking.model, *asking.host[1:])
    found = judge_rows(
        rows,
        folder / "verdicts.jsonl",
        court,
        host,
        expected=asking.expected,
        think=asking.think,
        overwrite=asking.overwrite,
        debug=asking.debug,
    )
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

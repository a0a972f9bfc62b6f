"""``magistrate score --server``: the same as without, on a model that a running server holds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from judges.catalog import JUDGES, RUBRIC
from judges.errors import MagistrateError
from judges.judge import Judge, Sample
from judges.located import SUFFIXES
from judges.runner import Question
from judges.sources import count_rows
from judges.summary import Summary
from judges.verdict import ENGINE_FAULT, Fingerprint, Verdict
from judges.verdict_file import VerdictFile
from magistrate.calls import ServerError
from magistrate.client import Asking, AsyncClient, Client
from magistrate.scoring import Outcome, _count_kept, _progress, _questions

PATIENCE_SECONDS = 300.0
"""How long a server is waited for that went away in the middle of a file: as long as a large model takes to load."""

GOES_ON = "what is judged is kept, and the same command goes on from there"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a server is asked with, and the same judge here, which knows the key of each sample.

    Attributes:
        judge: Made here.
        name: Its name on the server; ``None`` for a rubric.
        asking: What else the server is told.
    """

    judge: Judge
    name: str | None
    asking: Asking


def refuse_settings(**settings: object) -> None:
    """Refuse flags that say how a model is to be run: a server's model runs as its ``models.toml`` says.

    Raises:
        MagistrateError: One of them is given.
    """
    given = [f"--{name.replace('_', '-')}" for name, value in settings.items() if value is not None]
    if given:
        raise MagistrateError(f"{', '.join(given)} has no meaning with `--server`, whose models.toml says how its models run")


def usual_judge(server: str, model: str | None) -> str:
    """The judge that a server's model is meant for.

    Raises:
        MagistrateError: There is no such server or model.
    """
    with Client(server) as client:
        return client.fingerprint(model=model).judge


def asked(name: str, judge: Judge, texts: Mapping[str, str], given: Mapping[str, Any], asking: Asking) -> Asked:
    """What to ask a server with. A rubric and a list of names are read here and sent: a server opens no file for a caller.

    Args:
        name: The judge's name or a rubric file, as ``catalog.open_judge`` took it.
        judge: What that made.
        texts: Its options as text.
        given: Its options as values; those that are ``None`` are left out.
        asking: What else the server is told.

    Raises:
        MagistrateError: The rubric cannot be read any more.
    """
    file = Path(name)
    if name in JUDGES or file.suffix.lower() not in SUFFIXES:
        options = {key: value for key, value in given.items() if value is not None}
        options |= JUDGES[name].values(name, texts, as_text=True)
        return Asked(judge, name, {**asking, "options": options})
    try:
        text = file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise MagistrateError(f"{file} cannot be read: {error}") from None
    options = RUBRIC.values(name, texts, as_text=True)
    language: Literal["toml", "yaml"] = "toml" if file.suffix.lower() == ".toml" else "yaml"
    return Asked(judge, None, {**asking, "options": options, "rubric": text, "rubric_format": language})


async def score_there(
    server: str,
    source: Path,
    output: Path,
    asked: Asked,
    *,
    console: Console,
    columns: Mapping[str, str] | None = None,
    strict: bool = False,
    overwrite: bool = False,
    limit: int | None = None,
) -> Outcome:
    """Have a running server judge every sample of a file that its output does not hold yet.

    Args:
        server: The server's address.
        source: The samples.
        output: The verdicts, one JSON line each; in the input's order when the run is complete.
        asked: What to ask with.
        console: Where progress is shown.
        columns: Field of a sample to the column of the file that holds it, where the names differ.
        strict: Whether to stop at the first row that cannot be judged, rather than write an unscored verdict.
        overwrite: Whether to throw away an earlier output.
        limit: Judge only the first rows, this many.

    Raises:
        MagistrateError: Something that the user can mend. What is judged is kept.
    """
    outcome = Outcome()
    total = count_rows(source)
    total = total if limit is None or total is None else min(total, limit)
    questions = _questions(source, asked.judge, columns or {}, strict=strict, limit=limit)
    async with AsyncClient(server, patience=PATIENCE_SECONDS, urgent=False) as client:
        began = time.perf_counter()
        with console.status("waiting for the judge"):
            fingerprint = await client.fingerprint(asked.name, **asked.asking)
        _check_version(fingerprint, asked.judge)
        ready = time.perf_counter()
        outcome.loading = ready - began
        with VerdictFile(output, fingerprint, overwrite=overwrite) as file:
            still_open = (question for question in questions if file.needs(question.key) or _count_kept(outcome))
            first = next(still_open, None)
            if first is not None:
                await _run(client, asked, chain([first], still_open), file, outcome, console, total)
            elif outcome.kept == 0:
                raise MagistrateError(f"{source} holds no samples")
            outcome.judging = time.perf_counter() - ready
            outcome.leftover = file.finish(whole=limit is None)
            outcome.summary = Summary.of(file.verdicts())
    return outcome


async def _run(
    client: AsyncClient,
    asked: Asked,
    questions: Iterable[Question],
    file: VerdictFile,
    outcome: Outcome,
    console: Console,
    total: int | None,
) -> None:
    waiting: dict[int, Question] = {}
    numbers = count(1)
    unscored = 0
    with _progress(console) as progress:
        task = progress.add_task("judging", total=total, unscored=0)

        def add(verdict: Verdict) -> None:
            nonlocal unscored
            file.append(verdict)
            outcome.judged += 1
            unscored += verdict.status == "unscored"
            progress.update(task, completed=outcome.judged + outcome.kept, unscored=unscored)

        def samples() -> Iterator[Sample]:
            for question in questions:
                if question.inquiry is None:
                    add(_unscored(question, question.problem or "the row holds no sample", asked.judge, file.fingerprint))
                    continue
                waiting[next(numbers)] = question
                yield _sent(question, asked.judge)

        try:
            async with aclosing(client.judged(samples(), asked.name, **asked.asking)) as judged:
                async for number, found in judged:
                    question = waiting.pop(number)
                    if isinstance(found, ServerError):
                        add(_unscored(question, f"{ENGINE_FAULT}{found}", asked.judge, file.fingerprint))
                    else:
                        add(_ours(found, question, file.fingerprint))
        except ServerError as error:
            raise MagistrateError(f"{error}; {GOES_ON}") from error


class _Noting(Mapping[str, Any]):
    """A sample that notes which of its fields are looked at."""

    def __init__(self, sample: Sample) -> None:
        self.seen: dict[str, Any] = {}
        self._sample = sample

    def __getitem__(self, name: str) -> Any:
        value = self.seen[name] = self._sample[name]
        return value

    def __iter__(self) -> Iterator[str]:
        self.seen.update(self._sample)
        return iter(self._sample)

    def __len__(self) -> int:
        return len(self._sample)


def _sent(question: Question, judge: Judge) -> Sample:
    """What the judge reads of a sample, and its id. Other columns may be large, or hold what JSON cannot say."""
    assert question.row.sample is not None
    noting = _Noting(question.row.sample)
    judge.render(noting)
    return {"id": question.row.id, **noting.seen}


def _ours(verdict: Verdict, question: Question, fingerprint: Fingerprint) -> Verdict:
    """A verdict under the key that the sample has here.

    Raises:
        MagistrateError: It is no verdict of this run.
    """
    if verdict.fingerprint != fingerprint.digest:
        raise MagistrateError(
            f"the server judges with another model or setting than before (fingerprint {verdict.fingerprint}, not "
            f"{fingerprint.digest}); what was judged before is kept, and the rest needs another `-o`"
        )
    if verdict.id != question.row.id:  # a judge that reads the field `id`, which `--field` may fill
        return replace(verdict, id=question.row.id, sample=question.key)
    if verdict.sample != question.key:
        raise MagistrateError(f"{question.row.place}: the server reads the sample otherwise; it must run the same Magistrate")
    return verdict


def _check_version(fingerprint: Fingerprint, judge: Judge) -> None:
    if (fingerprint.judge, fingerprint.judge_version) != (judge.name, judge.version):
        raise MagistrateError(
            f"the server's judge `{fingerprint.judge}` has version {fingerprint.judge_version}, the one here "
            f"{judge.version}; both must be of the same Magistrate"
        )


def _unscored(question: Question, reason: str, judge: Judge, fingerprint: Fingerprint) -> Verdict:
    return Verdict(
        id=question.row.id,
        judge=judge.name,
        status="unscored",
        reason=reason,
        notes=list(question.inquiry.notes) if question.inquiry else [],
        sample=question.key,
        fingerprint=fingerprint.digest,
    )

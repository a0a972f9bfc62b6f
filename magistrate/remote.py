"""``magistrate score --server``: the same as without, on a model that a running server holds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.errors import MagistrateError, reason_of
from judges.input_file import check_file
from judges.judge import Judge, Sample
from judges.located import SUFFIXES
from judges.runner import Question, unscored
from judges.verdict import ENGINE_FAULT, Fingerprint, Verdict
from magistrate.calls import ServerError
from magistrate.client import Asking, AsyncClient, Client
from magistrate.scoring import Outcome, Scoring, score_file
from magistrate.terminal import JUDGED_IS_KEPT

PATIENCE_SECONDS = 300.0
"""How long a server is waited for that went away in the middle of a file: as long as a large model takes to load."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a server is asked with, and the same judge here, which knows the key of each sample.

    Attributes:
        judge: Made here.
        name: Its name on the server; ``None`` for a rubric.
        asking: What else goes to the server.
    """

    judge: Judge
    name: str | None
    asking: Asking


def refuse_settings(engine: EngineSettings) -> None:
    """Refuse flags that say how a model is to be run: a server's model runs as its ``models.toml`` says.

    Raises:
        MagistrateError: One of them is given.
    """
    given = [f"--{name.replace('_', '-')}" for name in engine.given()]
    if given:
        raise MagistrateError(f"{', '.join(given)} has no meaning with `--server`, whose models.toml says how its models run")


def usual_judge(server: str, model: str | None) -> str:
    """The judge that a server's model is meant for.

    Raises:
        MagistrateError: There is no such server or model.
    """
    with Client(server) as client:
        return client.fingerprint(model=model).judge


def asked(name: str, judge: Judge, asking: Asking) -> Asked:
    """What to ask a server with. A rubric and a list of names are read here and sent: a server opens no file for a caller.

    Args:
        name: The judge's name or a rubric file, as ``catalog.open_judge`` took it.
        judge: What that made.
        asking: What else goes to the server.

    Raises:
        MagistrateError: The rubric cannot be read any more.
    """
    file = Path(name)
    options = judge.options.model_dump(exclude_unset=True)
    if file.suffix.lower() not in SUFFIXES:
        return Asked(judge, name, {**asking, "options": options})
    check_file(file)
    try:
        text = file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise MagistrateError(f"{file} cannot be read: {reason_of(error)}") from None
    language: Literal["toml", "yaml"] = "toml" if file.suffix.lower() == ".toml" else "yaml"
    return Asked(judge, None, {**asking, "options": options, "rubric": text, "rubric_format": language})


def asking(model: str | None, decoding: Decoding) -> Asking:
    """A model's name on the server, and how answers are written."""
    return cast("Asking", {"model": model, **decoding.model_dump()})


class ServerBench:
    """A judge on a running server.

    Args:
        client: Connected to it.
        asked: What to ask with.
    """

    def __init__(self, client: AsyncClient, asked: Asked) -> None:
        self.judge = asked.judge
        self._client = client
        self._asked = asked
        self._fingerprint: Fingerprint | None = None

    async def fingerprint(self) -> Fingerprint:
        """As the server tells it, once its model is loaded.

        Raises:
            MagistrateError: The server has another version of the judge.
        """
        if self._fingerprint is None:
            self._fingerprint = await self._client.fingerprint(self._asked.name, **self._asked.asking)
            _check_version(self._fingerprint, self.judge)
        return self._fingerprint

    async def start(self) -> None:
        await self.fingerprint()

    async def run(self, questions: Iterable[Question]) -> AsyncGenerator[Verdict, None]:
        fingerprint = await self.fingerprint()
        waiting: dict[int, Question] = {}

        def samples() -> Iterator[Sample]:
            for number, question in enumerate(questions, start=1):
                waiting[number] = question
                yield _sent(question, self.judge)

        try:
            async with aclosing(self._client.judged(samples(), self._asked.name, **self._asked.asking)) as judged:
                async for number, found in judged:
                    question = waiting.pop(number)
                    if isinstance(found, ServerError):
                        yield unscored(question, f"{ENGINE_FAULT}{found}", self.judge, fingerprint.digest)
                    else:
                        yield _ours(found, question, fingerprint)
        except ServerError as error:
            raise MagistrateError(f"{error}; {JUDGED_IS_KEPT}") from error


async def score_there(server: str, source: Path, output: Path, asked: Asked, how: Scoring) -> Outcome:
    """Have a running server judge every sample of a file that its output does not hold yet.

    Args:
        server: The server's address.
        source: The samples.
        output: The verdicts.
        asked: What to ask with.
        how: What is judged of it, and how.

    Raises:
        MagistrateError: Something that the user can mend. What is judged is kept.
    """
    async with AsyncClient(server, patience=PATIENCE_SECONDS, urgent=False) as client:
        return await score_file(source, output, ServerBench(client, asked), how)


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
    verdict = replace(verdict, occurrence=question.row.occurrence)
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

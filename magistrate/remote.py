"""Where a judge is asked: on an engine here, or on a running server, which gives the same verdicts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, cast

import yaml

from judges import catalog
from judges.backend import Backend, LocalBackend
from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.errors import MagistrateError
from judges.judge import Judge, Sample
from judges.rubric import Rubric
from judges.runner import PreparedSample, unscored
from judges.templates.judge import TemplateJudge
from judges.templates.shipped import TEMPLATES
from judges.texts import TextWriter
from judges.verdict import ENGINE_FAULT, Fingerprint, Verdict
from magistrate.calls import ServerError
from magistrate.cli.preview import PreviewSettings
from magistrate.cli.terminal import JUDGED_IS_KEPT
from magistrate.client import AsyncClient, Client, RequestSettings

PATIENCE_SECONDS = 300.0
"""How long to wait for a server that went away in the middle of a file: as long as a large model takes to load."""


@dataclass(frozen=True, slots=True)
class RemoteJudge:
    """A judge on a server, and the same judge here, which computes the key of each sample.

    Attributes:
        judge: The judge as it is here.
        name: Its name on the server; ``None`` for a rubric.
        settings: What else the requests say.
    """

    judge: Judge
    name: str | None
    settings: RequestSettings


def usual_judge(engine: EngineSettings) -> str:
    """The judge that a model is meant for, here or on a server.

    Raises:
        MagistrateError: There is no such server or model, or a setting has no meaning beside the server.
    """
    if engine.server is None:
        return catalog.usual_judge(engine.model)
    engine.check()
    with Client(engine.server) as client:
        return client.fingerprint(model=engine.model).judge


def open_backend(
    name: str,
    judge: Judge,
    engine: EngineSettings,
    decoding: Decoding,
    texts: TextWriter | None = None,
    *,
    stopped: str = JUDGED_IS_KEPT,
) -> Backend:
    """Make what asks a judge: a running server if the settings name one, else an engine here. The caller closes it.

    Args:
        name: The judge's name or a rubric file, as ``catalog.open_judge`` took it.
        judge: The judge that it made.
        engine: What runs its model.
        decoding: How answers are written.
        texts: Keeps what the judge is shown and what it answers.
        stopped: What becomes of the verdicts so far if the server goes away, for the message.

    Raises:
        MagistrateError: A setting is missing or has no meaning, or a server's texts are to be kept.
        EngineError: The model does not exist, or the engine is not installed.
    """
    if isinstance(engine, PreviewSettings):
        return engine.backend(judge, decoding)
    if engine.server is None:
        return LocalBackend(judge, engine.open(), decoding, texts)
    if texts is not None:
        raise MagistrateError("`--keep-texts` has no meaning with `--server`, which sends verdicts and no answers")
    engine.check()
    client = AsyncClient(engine.server, patience=PATIENCE_SECONDS, urgent=False)
    return RemoteBackend(client, remote_judge(name, judge, request_settings(engine.model, decoding)), stopped)


def remote_judge(name: str, judge: Judge, settings: RequestSettings) -> RemoteJudge:
    """A judge as a server takes it. A rubric and a list of names are sent: a server opens no file for a caller.

    Args:
        name: The judge's name or a rubric file, as ``catalog.open_judge`` took it.
        judge: The judge that it made.
        settings: What else the requests say.
    """
    options = judge.options.model_dump(exclude_unset=True)
    own = isinstance(judge, TemplateJudge) and judge.name not in TEMPLATES
    if not isinstance(judge, Rubric | TemplateJudge) or (isinstance(judge, TemplateJudge) and not own):
        return RemoteJudge(judge, name, {**settings, "options": options})
    if isinstance(judge, TemplateJudge) and judge.file.sources:
        raise MagistrateError(
            f"judge `{judge.name}` is cut out of a file, which a server does not open for a caller; put its words in `text`"
        )
    text = yaml.safe_dump(judge.file.model_dump(mode="json", by_alias=True, exclude_defaults=True), sort_keys=False)
    return RemoteJudge(judge, None, {**settings, "options": options, "rubric": text, "rubric_format": "yaml"})


def request_settings(model: str | None, decoding: Decoding) -> RequestSettings:
    """The settings of requests: a model's name on the server, and the decoding."""
    return cast("RequestSettings", {"model": model, **decoding.model_dump()})


class RemoteBackend:
    """A judge on a running server.

    Args:
        client: Connected to it; closed with the backend.
        remote: Which judge, and with which settings.
        stopped: What becomes of the verdicts so far if the server goes away, for the message.
    """

    def __init__(self, client: AsyncClient, remote: RemoteJudge, stopped: str = JUDGED_IS_KEPT) -> None:
        self.judge = remote.judge
        self._client = client
        self._remote = remote
        self._stopped = stopped
        self._fingerprint: Fingerprint | None = None

    async def fingerprint(self) -> Fingerprint:
        """The fingerprint that the server states once its model is loaded.

        Raises:
            MagistrateError: The server has another version of the judge.
        """
        if self._fingerprint is None:
            self._fingerprint = await self._client.fingerprint(self._remote.name, **self._remote.settings)
            _check_version(self._fingerprint, self.judge)
        return self._fingerprint

    async def start(self) -> None:
        await self.fingerprint()

    async def close(self) -> None:
        await self._client.close()

    async def run(self, questions: Iterable[PreparedSample]) -> AsyncGenerator[Verdict, None]:
        fingerprint = await self.fingerprint()
        waiting: dict[int, PreparedSample] = {}

        def samples() -> Iterator[Sample]:
            for number, question in enumerate(questions, start=1):
                waiting[number] = question
                yield _sent(question, self.judge)

        try:
            async with aclosing(self._client.judged(samples(), self._remote.name, **self._remote.settings)) as judged:
                async for number, outcome in judged:
                    question = waiting.pop(number)
                    if isinstance(outcome, ServerError):
                        yield unscored(question, f"{ENGINE_FAULT}{outcome}", self.judge, fingerprint.digest)
                    else:
                        yield _keyed(outcome, question, fingerprint)
        except ServerError as error:
            raise MagistrateError(f"{error}; {self._stopped}") from error


class _FieldRecorder(Mapping[str, Any]):
    """A sample that records which of its fields are read."""

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


def _sent(question: PreparedSample, judge: Judge) -> Sample:
    """The fields that the judge reads, and the id. Other columns may be large, or hold what JSON cannot express."""
    assert question.row.sample is not None
    recorder = _FieldRecorder(question.row.sample)
    judge.render(recorder)
    return {"id": question.row.id, **recorder.seen}


def _keyed(verdict: Verdict, question: PreparedSample, fingerprint: Fingerprint) -> Verdict:
    """A verdict under the key that the sample has here.

    Raises:
        MagistrateError: It is not a verdict of this run.
    """
    if verdict.fingerprint != fingerprint.digest:
        raise MagistrateError(
            f"the server judges with another model or setting than before (fingerprint {verdict.fingerprint}, not "
            f"{fingerprint.digest}); what is judged is kept; give another `-o` for the rest"
        )
    verdict = replace(verdict, occurrence=question.row.occurrence)
    if verdict.id != question.row.id:  # a judge that reads the field `id`, which `--field` may fill
        return replace(verdict, id=question.row.id, sample=question.key)
    if verdict.sample != question.key:
        raise MagistrateError(
            f"{question.row.place}: the server reads the sample differently; it must run the same version of Magistrate"
        )
    return verdict


def _check_version(fingerprint: Fingerprint, judge: Judge) -> None:
    if (fingerprint.judge, fingerprint.judge_version) != (judge.name, judge.version):
        raise MagistrateError(
            f"the server's judge `{fingerprint.judge}` has version {fingerprint.judge_version}, the one here "
            f"{judge.version}; both must run the same version of Magistrate"
        )

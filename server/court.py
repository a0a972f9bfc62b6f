"""The court: the hosted models, and what is asked of them. Every call and every line of a batch is answered here."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace
from typing import Any

from pydantic import Field

from judges.catalog import usual_judge
from judges.engines.async_vllm import Adapter
from judges.engines.engine import Engine
from judges.engines.pattern_guard import CALLER
from judges.errors import EngineError, counted
from judges.judge import Judge
from judges.runner import Question, Runner, prepare
from judges.sources import Row, row_id
from judges.verdict import ENGINE_FAULT, Fingerprint, Verdict
from server.asking import JudgeRequest, judge_of
from server.errors import ApiError
from server.hosting.adapters import Adapters
from server.hosting.completion_check import check_completion
from server.hosting.host import Host
from server.hosting.models_file import ModelsFile
from server.hosting.openai_layer import Path as CompletionPath
from server.hosting.openai_layer import Reply
from server.hosting.stage import Stage
from server.metrics import Metrics
from server.settings import Settings
from server.store import AdapterRecord

RUNNERS_KEPT = 256
ALONE_AFTER, GIVEN_UP_AFTER = 3, 6
"""Deaths of an engine that a sample may be in progress at before it is judged with no other of its kind beside it, and before
it is given up: an answer that ends the engine each time may not keep the others from theirs."""

PATTERNS_AT_ONCE = 16
"""Of one call, whose samples may each have a pattern of their own: a caller may have but so many that wait to be compiled."""

LARGE_SAMPLE = 100_000
"""Characters from which a sample is rendered off the event loop: that takes milliseconds."""


class JudgmentsRequest(JudgeRequest):
    """Samples, and the judge that they are put to."""

    model: str | None = Field(
        None,
        max_length=256,
        description="A hosted model or adapter; `GET /v1/models` lists them. The server's default if left out.",
    )
    samples: list[dict[str, Any]] = Field(
        min_length=1,
        fail_fast=True,
        description="What to judge: an object a sample, with the fields that the judge needs, and an `id` if you like.",
        examples=[[{"id": "1", "context": ["Hi! How are you?"], "response": "Fine, thank you. And you?"}]],
    )


class Court:
    """The hosted models.

    Args:
        models: What ``models.toml`` says.
        settings: What the server was started with.
        metrics: Where judgments are counted.
        kept: Adapters to load again.
    """

    def __init__(self, models: ModelsFile, settings: Settings, metrics: Metrics, kept: Iterable[AdapterRecord] = ()) -> None:
        self.models = models
        self.settings = settings
        self.metrics = metrics
        self.stage = Stage() if models.swap and len(models.models) > 1 else None
        records = list(kept)
        self.hosts = {
            name: Host(
                name,
                spec,
                adapters=Adapters(
                    settings.adapter_folders,
                    settings.adapter_copies.resolve(),
                    spec.max_lora_rank,
                    [record for record in records if record.model == name],
                ),
                stage=self.stage,
                on_restart=metrics.engine_restarted,
            )
            for name, spec in models.models.items()
        }
        self._runners: OrderedDict[tuple[Any, ...], tuple[Runner, Engine]] = OrderedDict()
        self._alone = asyncio.Lock()
        self._lines_turn = asyncio.Lock()
        self._preparing = ThreadPoolExecutor(1, "large samples")

    def begin(self) -> None:
        """Start loading the models."""
        for host in self.hosts.values():
            host.begin()

    async def close(self) -> None:
        """Let the models go."""
        if self.stage is not None:
            await self.stage.close()
        await asyncio.gather(*(host.close() for host in self.hosts.values()))

    def find(self, model: str | None) -> tuple[Host, Adapter | None]:
        """The host of a model or an adapter.

        Raises:
            ApiError: Nothing of that name is hosted here.
        """
        if model is None:
            return self.hosts[self.models.first], None
        if model in self.hosts:
            return self.hosts[model], None
        for host in self.hosts.values():
            adapter = host.adapters.find(model)
            if adapter is not None:
                return host, adapter
        names = ", ".join(self.hosts)
        raise ApiError(404, f"there is no model `{model[:80]}` here; there are {names}", code="model_not_found", param="model")

    def check_model(self, model: str | None) -> str:
        """The full name of what a batch's lines call their model.

        Raises:
            ApiError: Nothing of that name is hosted here.
        """
        host, adapter = self.find(model)
        return adapter.name if adapter else host.name

    def names_of(self, host: Host) -> list[str]:
        """Full names of everything that this host can judge with: its model, and the adapters of it."""
        return [host.name, *(adapter.name for adapter in host.adapters)]

    def trouble_with(self, model: str | None) -> str | None:
        """Why a batch for a model would not move here; ``None`` where it would."""
        try:
            host, _ = self.find(model)
        except ApiError:
            return f"this server hosts no `{model}`; unless another one on its database does, load it, or cancel the batch"
        return host.trouble

    async def judge(
        self, request: JudgmentsRequest, *, caller: str, urgent: bool, names: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Put samples to a judge.

        Args:
            request: The samples, the judge and the model.
            caller: Who asks.
            urgent: Whether somebody waits.
            names: An id for each sample that has none; its number by default.

        Returns:
            The answer's body: the verdicts in the samples' order, and what they depend on.

        Raises:
            MagistrateError: There is no such judge, or its options will not do.
            ApiError: There is no such model, or it is not ready in time.
        """
        CALLER.set(_share(caller, urgent=urgent))
        if len(request.samples) > self.settings.max_samples:
            most = self.settings.max_samples
            why = f"a call takes {counted(most, 'sample')}, this one has {len(request.samples):,}; send a batch"
            raise ApiError(413, why, code="too_many_samples", param="samples")
        host, adapter = self.find(request.model)
        judge = await asyncio.to_thread(judge_of, request, usual_judge(host.spec.model))
        rows = [
            Row(row_id(sample, names[number] if names else number + 1), f"sample {number + 1}", sample)
            for number, sample in enumerate(request.samples)
        ]
        name = adapter.name if adapter else None
        turn, turns = asyncio.Lock() if urgent else self._lines_turn, asyncio.Semaphore(PATTERNS_AT_ONCE)
        verdicts = await asyncio.gather(*(self._in_turn(turn, host, name, judge, request, row, urgent, turns) for row in rows))
        return {
            "object": "list",
            "judge": judge.name,
            "model": name or host.name,
            "fingerprint": verdicts[0].fingerprint,
            "data": verdicts,
        }

    async def fingerprint(self, request: JudgeRequest, model: str | None) -> tuple[Fingerprint, str]:
        """What verdicts would depend on, and the full name of the model.

        Raises:
            MagistrateError: There is no such judge or model, or it is not ready in time.
        """
        host, adapter = self.find(model)
        name = adapter.name if adapter else None
        judge = await asyncio.to_thread(judge_of, request, usual_judge(host.spec.model))
        async with host.answering(urgent=True):
            runner = self._runner(host, name, judge, request, urgent=True)
        return runner.basis, name or host.name

    async def complete(self, path: CompletionPath, body: dict[str, Any], *, caller: str, urgent: bool) -> Reply:
        """Answer one of OpenAI's requests, by vLLM's serving layer.

        Raises:
            ApiError: It asks for too much, there is no such model, it is not ready in time, or its engine has no such endpoint
                (501).
        """
        check_completion(body, self.settings)
        CALLER.set(_share(caller, urgent=urgent))
        model = body.get("model")
        if model is not None and not isinstance(model, str):
            raise ApiError(400, "model must be a string", param="model")
        host, adapter = self.find(model)
        for _ in range(GIVEN_UP_AFTER):
            async with AsyncExitStack() as held:
                await held.enter_async_context(host.answering(urgent=urgent))
                layer = host.openai
                if layer is None:
                    raise ApiError(501, f"model `{host.name}` has no {path}: {host.why_no_openai}", code="not_implemented")
                try:
                    reply = await layer.answer(path, body, model=adapter.name if adapter else host.name, urgent=urgent)
                except EngineError as error:
                    await host.failed(error)
                    continue
                if reply.events is None:
                    return reply
                return replace(reply, events=_while_held(reply.events, held.pop_all()))
        raise ApiError(500, "the engine died at this request each time it was tried", code="engine_died")

    async def _in_turn(self, turn: asyncio.Lock, *asked: Any) -> Verdict:
        """Judge one sample of many. Each is rendered and sent in one go, and others' calls are looked at in between."""
        async with turn:
            await asyncio.sleep(0)
        return await self._judge_one(*asked)

    async def _judge_one(
        self,
        host: Host,
        adapter: str | None,
        judge: Judge,
        request: JudgmentsRequest,
        row: Row,
        urgent: bool,
        turns: asyncio.Semaphore,
    ) -> Verdict:
        """Judge one sample, again where the engine died beneath it."""
        began = time.perf_counter()
        question = await self._prepared(row, judge)
        async with turns:
            await self._admit(host, _of_a_caller(question, judge, request), urgent)
        for deaths in range(GIVEN_UP_AFTER):
            async with self._alone if deaths >= ALONE_AFTER else nullcontext(), host.answering(urgent=urgent):
                runner = self._runner(host, adapter, judge, request, urgent)
                try:
                    verdict = await runner.judge_one(question)
                except EngineError as error:
                    await host.failed(error)
                    continue
                break
        else:
            verdict = runner.unscored(question, f"{ENGINE_FAULT}the engine died at this sample {GIVEN_UP_AFTER} times")
        self.metrics.judged(judge.name, verdict.status, time.perf_counter() - began, "now" if urgent else "batch")
        self.metrics.tokens(host.name, verdict.usage)
        return verdict

    async def _prepared(self, row: Row, judge: Judge) -> Question:
        """Render a row: a large one in a thread, one after another, so that everybody else is answered meanwhile."""
        if row.sample is None or _size(row.sample) < LARGE_SAMPLE:
            return prepare(row, judge)
        return await asyncio.get_running_loop().run_in_executor(self._preparing, prepare, row, judge)

    async def _admit(self, host: Host, patterns: Sequence[str], urgent: bool) -> None:
        """Have patterns compiled apart before the engine sees them, which need not be held for that."""
        if not patterns:
            return
        async with host.answering(urgent=urgent) as engine:
            pass
        for pattern in patterns:
            await engine.admit(pattern)

    def _runner(self, host: Host, adapter: str | None, judge: Judge, request: JudgeRequest, urgent: bool) -> Runner:
        key = (id(judge), id(host.engine), adapter, urgent, request.decoding)
        found = self._runners.get(key)
        if found is None:
            lane = host.lane(urgent=urgent, adapter=adapter)
            found = Runner(judge, lane, request.decoding), host.engine
            self._runners[key] = found  # holds what its key numbers, so no number is used again
            if len(self._runners) > RUNNERS_KEPT:
                self._runners.popitem(last=False)
        self._runners.move_to_end(key)
        return found[0]


def _share(caller: str, *, urgent: bool) -> str:
    """Whose turn it is when a caller's patterns are compiled: those of a batch leave the same caller's calls theirs."""
    return caller if urgent else f"{caller}, in the background"


def _size(value: Any) -> int:
    """How much a value that was JSON takes to render: the characters of its texts, and ten for anything else."""
    if isinstance(value, str):
        return len(value)
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return 10 + sum(map(_size, parts))


def _of_a_caller(question: Question, judge: Judge, request: JudgeRequest) -> list[str]:
    """The patterns of a question in which the caller has a hand, by a rubric, an option or the sample itself."""
    forms = [prompt.form for prompt in question.inquiry.prompts] if question.inquiry else []
    own = () if request.rubric is not None or request.options else judge.forms
    return [form.pattern for form in forms if form not in own]


async def _while_held(events: AsyncIterator[str], held: AsyncExitStack) -> AsyncIterator[str]:
    async with held:
        async for event in events:
            yield event

"""The pool of hosted models, which answers every call and every line of a batch."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field

from judges.catalog import usual_judge
from judges.data.rows import Row, row_id
from judges.engines.engine import Engine
from judges.engines.pattern_guard import CALLER
from judges.engines.vllm.async_engine import Adapter
from judges.errors import EngineError, counted
from judges.judge import Judge
from judges.runner import PreparedSample, Runner, prepare
from judges.verdict import ENGINE_FAULT, Fingerprint, Verdict
from server.errors import ApiError
from server.hosting.adapters import Adapters
from server.hosting.completion_check import check_completion
from server.hosting.hosted_model import HostedModel
from server.hosting.models_file import ModelsFile
from server.hosting.openai_layer import Path as CompletionPath
from server.hosting.openai_layer import Reply
from server.hosting.responses import as_chat, as_response
from server.hosting.swapper import ModelSwapper
from server.judge_spec import JudgeSpec, judge_of
from server.metrics import Metrics
from server.settings import Settings
from server.store import AdapterRecord

CACHED_RUNNERS = 256
ALONE_AFTER, GIVEN_UP_AFTER = 3, 6
"""After so many deaths of its engine a sample is judged without other such samples, and after so many it is unscored: an answer
that ends the engine each time must not keep the others from theirs."""

PATTERNS_AT_ONCE = 16
"""Patterns of one call that wait to be compiled: each sample may have its own, and the queue per caller is limited."""

LARGE_SAMPLE = 100_000
"""Characters from which a sample is rendered off the event loop, since that takes milliseconds."""


class JudgmentsRequest(JudgeSpec):
    """Samples and their judge."""

    model: str | None = Field(
        None,
        max_length=256,
        description="A hosted model or adapter; `GET /v1/models` lists them. The server's default if left out.",
    )
    samples: list[dict[str, Any]] = Field(
        min_length=1,
        fail_fast=True,
        description="What to judge: an object for each sample, with the fields that the judge needs, and optionally an `id`.",
        examples=[[{"id": "1", "context": ["Hi! How are you?"], "response": "Fine, thank you. And you?"}]],
    )


class ModelPool:
    """The hosted models.

    Args:
        file: The content of ``models.toml``.
        settings: The server's.
        metrics: Counts judgments.
        kept: Adapters to load again.
    """

    def __init__(self, file: ModelsFile, settings: Settings, metrics: Metrics, kept: Iterable[AdapterRecord] = ()) -> None:
        self.file = file
        self.settings = settings
        self.metrics = metrics
        self.swapper = ModelSwapper() if file.swap and len(file.models) > 1 else None
        records = list(kept)
        self.models = {
            name: HostedModel(
                name,
                spec,
                adapters=Adapters(
                    settings.adapter_folders,
                    settings.adapter_copies.resolve(),
                    spec.max_lora_rank,
                    [record for record in records if record.model == name],
                ),
                swapper=self.swapper,
                on_restart=metrics.engine_restarted,
            )
            for name, spec in file.models.items()
        }
        self._runners: OrderedDict[tuple[Any, ...], tuple[Runner, Engine]] = OrderedDict()
        self._alone = asyncio.Lock()
        self._lines_turn = asyncio.Lock()
        self._preparing = ThreadPoolExecutor(1, "large samples")

    def begin(self) -> None:
        """Start loading the models."""
        for model in self.models.values():
            model.begin()

    async def close(self) -> None:
        """Close the models."""
        if self.swapper is not None:
            await self.swapper.close()
        await asyncio.gather(*(model.close() for model in self.models.values()))

    def find(self, name: str | None) -> tuple[HostedModel, Adapter | None]:
        """Find a model by its name or that of one of its adapters; the default model without a name.

        Raises:
            ApiError: 404: no model or adapter has the name.
        """
        if name is None:
            return self.models[self.file.first], None
        if name in self.models:
            return self.models[name], None
        for model in self.models.values():
            adapter = model.adapters.find(name)
            if adapter is not None:
                return model, adapter
        names = ", ".join(self.models)
        raise ApiError(404, f"there is no model `{name[:80]}` here; there are {names}", code="model_not_found", param="model")

    def full_name(self, name: str | None) -> str:
        """Find the full name of a model or an adapter.

        Raises:
            ApiError: 404: no model or adapter has the name.
        """
        model, adapter = self.find(name)
        return adapter.name if adapter else model.name

    def trouble_with(self, name: str | None) -> str | None:
        """Find out why a batch for a model makes no progress here; ``None`` if it does."""
        try:
            model, _ = self.find(name)
        except ApiError:
            return f"this server hosts no `{name}`: load it, cancel the batch, or wait for another server on its database"
        return model.trouble

    async def judge(
        self, request: JudgmentsRequest, *, caller: str, urgent: bool, names: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Judge samples.

        Args:
            request: The samples, the judge and the model.
            caller: The caller's name.
            urgent: Whether the caller waits.
            names: Ids of samples that have none; their numbers by default.

        Returns:
            The answer's body, with the verdicts in the samples' order.

        Raises:
            MagistrateError: The judge does not exist, or an option is illegal.
            ApiError: The model does not exist, or is not ready in time.
        """
        CALLER.set(_share(caller, urgent=urgent))
        if len(request.samples) > self.settings.max_samples:
            most = self.settings.max_samples
            why = f"a call may have {counted(most, 'sample')}, not {len(request.samples):,}; send a batch"
            raise ApiError(413, why, code="too_many_samples", param="samples")
        model, adapter = self.find(request.model)
        judge = await asyncio.to_thread(judge_of, request, usual_judge(model.spec.model))
        rows = [
            Row(row_id(sample, names[number] if names else number + 1), f"sample {number + 1}", sample)
            for number, sample in enumerate(request.samples)
        ]
        name = adapter.name if adapter else None
        turn, compiling = asyncio.Lock() if urgent else self._lines_turn, asyncio.Semaphore(PATTERNS_AT_ONCE)
        job = _Job(model, name, judge, request, urgent, compiling)
        verdicts = await asyncio.gather(*(self._in_turn(turn, job, row) for row in rows))
        return {
            "object": "list",
            "judge": judge.name,
            "model": name or model.name,
            "fingerprint": verdicts[0].fingerprint,
            "data": verdicts,
        }

    async def fingerprint(self, spec: JudgeSpec, name: str | None) -> tuple[Fingerprint, str]:
        """Make the fingerprint that verdicts would have, and find the full name of the model.

        Raises:
            MagistrateError: The judge or the model does not exist, or the model is not ready in time.
        """
        model, adapter = self.find(name)
        full_name = adapter.name if adapter else None
        judge = await asyncio.to_thread(judge_of, spec, usual_judge(model.spec.model))
        async with model.answering(urgent=True):
            runner = self._runner(model, full_name, judge, spec, urgent=True)
        return runner.basis, full_name or model.name

    async def respond(self, body: dict[str, Any], *, caller: str, urgent: bool) -> Reply:
        """Answer a request for one of OpenAI's responses, by a chat completion.

        Raises:
            ApiError: As ``complete``, or it asks for what responses do not have.
        """
        check_completion(body, self.settings)
        reply = await self.complete("/v1/chat/completions", as_chat(body), caller=caller, urgent=urgent)
        return as_response(body, reply)

    async def complete(self, path: CompletionPath, body: dict[str, Any], *, caller: str, urgent: bool) -> Reply:
        """Answer one of OpenAI's requests, by vLLM's serving layer.

        Raises:
            ApiError: It asks for too much, or the model does not exist, is not ready in time, or has no such endpoint (501).
        """
        check_completion(body, self.settings)
        CALLER.set(_share(caller, urgent=urgent))
        name = body.get("model")
        if name is not None and not isinstance(name, str):
            raise ApiError(400, "model must be a string", param="model")
        model, adapter = self.find(name)
        for _ in range(GIVEN_UP_AFTER):
            async with AsyncExitStack() as held:
                await held.enter_async_context(model.answering(urgent=urgent))
                layer = model.openai
                if layer is None:
                    raise ApiError(501, f"model `{model.name}` has no {path}: {model.why_no_openai}", code="not_implemented")
                try:
                    reply = await layer.answer(path, body, model=adapter.name if adapter else model.name, urgent=urgent)
                except EngineError as error:
                    await model.failed(error)
                    continue
                if reply.events is None:
                    return reply
                return replace(reply, events=_while_held(reply.events, held.pop_all()))
        raise ApiError(500, "the engine died at this request each time it was tried", code="engine_died")

    async def _in_turn(self, turn: asyncio.Lock, job: _Job, row: Row) -> Verdict:
        """Judge one sample of many. The event loop serves other calls between the rendering of two samples."""
        async with turn:
            await asyncio.sleep(0)
        return await self._judge_one(job, row)

    async def _judge_one(self, job: _Job, row: Row) -> Verdict:
        """Judge one sample, again if the engine dies meanwhile."""
        began = time.perf_counter()
        model, judge, urgent = job.model, job.judge, job.urgent
        sample = await self._prepared(row, judge)
        async with job.compiling:
            await self._admit(model, job.own_patterns(sample), urgent)
        for deaths in range(GIVEN_UP_AFTER):
            async with self._alone if deaths >= ALONE_AFTER else nullcontext(), model.answering(urgent=urgent):
                runner = self._runner(model, job.adapter, judge, job.spec, urgent)
                try:
                    verdict = await runner.judge_one(sample)
                except EngineError as error:
                    await model.failed(error)
                    continue
                break
        else:
            verdict = runner.unscored(sample, f"{ENGINE_FAULT}the engine died at this sample {GIVEN_UP_AFTER} times")
        self.metrics.judged(judge.name, verdict.status, time.perf_counter() - began, "now" if urgent else "batch")
        self.metrics.tokens(model.name, verdict.usage)
        return verdict

    async def _prepared(self, row: Row, judge: Judge) -> PreparedSample:
        """Render a row: large ones in a thread, one after another, so that other calls are answered meanwhile."""
        if row.sample is None or _size(row.sample) < LARGE_SAMPLE:
            return prepare(row, judge)
        return await asyncio.get_running_loop().run_in_executor(self._preparing, prepare, row, judge)

    async def _admit(self, model: HostedModel, patterns: Sequence[str], urgent: bool) -> None:
        """Have patterns compiled before the engine sees them. The model need not stay in memory for that."""
        if not patterns:
            return
        async with model.answering(urgent=urgent) as engine:
            pass
        for pattern in patterns:
            await engine.admit(pattern)

    def _runner(self, model: HostedModel, adapter: str | None, judge: Judge, spec: JudgeSpec, urgent: bool) -> Runner:
        key = (id(judge), id(model.engine), adapter, urgent, spec.decoding)
        cached = self._runners.get(key)
        if cached is None:
            cached = Runner(judge, model.view(urgent=urgent, adapter=adapter), spec.decoding), model.engine
            self._runners[key] = cached  # keeps the objects alive whose ids are in the key, so that no id is reused
            if len(self._runners) > CACHED_RUNNERS:
                self._runners.popitem(last=False)
        self._runners.move_to_end(key)
        return cached[0]


@dataclass(frozen=True, slots=True)
class _Job:
    """A call's settings, which all its samples share."""

    model: HostedModel
    adapter: str | None
    judge: Judge
    spec: JudgeSpec
    urgent: bool
    compiling: asyncio.Semaphore

    def own_patterns(self, sample: PreparedSample) -> list[str]:
        """List the patterns of a sample that depend on the caller, by a rubric, an option or the sample itself."""
        forms = [prompt.form for prompt in sample.rendered.prompts] if sample.rendered else []
        known = () if self.spec.rubric is not None or self.spec.options else self.judge.forms
        return [form.pattern for form in forms if form.pattern and form not in known]


def _share(caller: str, *, urgent: bool) -> str:
    """Name a caller's share of the pattern compiler: batches have their own, so that the caller's other calls need not wait."""
    return caller if urgent else f"{caller}, in the background"


def _size(value: Any) -> int:
    """Estimate the cost of rendering a JSON value: the characters of its texts, and ten for anything else."""
    if isinstance(value, str):
        return len(value)
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return 10 + sum(map(_size, parts))


async def _while_held(events: AsyncIterator[str], held: AsyncExitStack) -> AsyncIterator[str]:
    async with held:
        async for event in events:
            yield event

"""vLLM in its own processes, for a server: it can be stopped and restarted, and serves urgent and bulk callers."""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from judges.calibration import Calibration, read_calibration
from judges.engines.chat import ChatTokenizer
from judges.engines.engine import Engine, EngineIdentity, Generation, Request, check_logits
from judges.engines.heads import classified
from judges.engines.own_session import engine_processes
from judges.engines.pattern_guard import Constraint, PatternError, PatternGuard
from judges.engines.vllm.compiler import VLLMCompiler, constraint_of
from judges.engines.vllm.logs import hint
from judges.engines.vllm.plugin import LAST_WORDS_VARIABLE
from judges.engines.vllm.settings import (
    MAX_LOGPROBS,
    HostedModel,
    drafts_forced_tokens,
    generation,
    last_line,
    pooling,
    refusals,
    sampling,
)
from judges.engines.vocabulary import check_spelling
from judges.errors import EngineError, RequestError

URGENT, BULK = 0, 1
"""Priorities. A caller waits for an urgent answer; bulk yields to every urgent request."""

RESERVED = 8
"""Slots for urgent requests alone, in addition to ``max_num_seqs``."""

LONG_PROMPT = 16_384
"""Number of characters from which a prompt is encoded off the event loop, because that takes milliseconds."""

SLEEPER_SHARE = 0.8
"""Share of the GPU's memory for a model that takes turns with others: each that sleeps keeps 1.5 to 3 GiB."""

_one_at_a_time = threading.Lock()
"""Serialises the start of engines: each measures free memory, and reads the file for its last words from the environment."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter of vLLM.

    Attributes:
        name: Its name with its version. vLLM caches prefixes by this name, so no two versions may share one.
        number: vLLM's id of the adapter, never reused.
        folder: Its folder.
        digest: Digest of its weights, and of its chat template if it has one.
        template: The chat template that it was trained with; ``None`` for its base's.
        calibration: What people give where it expects a score; ``None`` if that is not known.
    """

    name: str
    number: int
    folder: Path
    digest: str
    template: str | None = None
    calibration: Calibration | None = None


class AsyncVLLMEngine(Engine):
    """Runs a model on vLLM's ``AsyncLLM``.

    Args:
        model: An embedded model's name, a folder, or a repository on the Hugging Face hub.
        sleeps: Whether to enable vLLM's sleep mode on a GPU, which releases its memory; sets ``can_sleep`` when started.
        settings: Other fields of ``HostedModel``.
    """

    max_alternatives = MAX_LOGPROBS
    context: int

    def __init__(self, model: str, *, sleeps: bool = False, **settings: Any) -> None:
        self.can_sleep = False
        self._sleeps = sleeps
        self.hosted = HostedModel(model, **settings)
        self.calibration = read_calibration(self.hosted.folder)
        self.labels = self.hosted.labels
        self.concurrency = self.hosted.concurrency
        self.client: Any = None
        self.guard: PatternGuard | None = None
        self._apart = ThreadPoolExecutor(1, "long prompts")
        self._starting = asyncio.Lock()
        self._numbers = itertools.count(1)

    @property
    def identity(self) -> EngineIdentity:
        return self.hosted.identity

    @property
    def dead(self) -> bool:
        """Whether vLLM's processes have ended by themselves."""
        return self.client is not None and bool(self.client.errored)

    async def identify(self) -> None:
        return

    async def start(self) -> None:
        async with self._starting:
            if self.client is not None:
                return
            self.client = await asyncio.to_thread(self._load)
            self.context = int(self.client.vllm_config.model_config.max_model_len)
            if self.labels is None:
                self._guard_patterns()
            await check_logits(self)

    def _guard_patterns(self) -> None:
        self.guard = PatternGuard(VLLMCompiler(self.client.vllm_config))
        self.guard.begin()
        # vLLM checks a constraint on the event loop, where a long one blocks all callers. The guard has already checked it.
        self.client.input_processor.structured_outputs_config = None
        # No draft stands where `min_p` or `logit_bias` shapes a token, so they are not refused.
        if drafts_forced_tokens(self.client.vllm_config):
            self.client.input_processor.speculative_config = None

    def _load(self) -> Any:
        with _one_at_a_time:
            self.chat, self._chat_apart = (ChatTokenizer.load(self.hosted.folder) for _ in range(2))
            if self.identity.constraint == "outlines":
                check_spelling(self.chat.tokenizer)
            return self._start_processes()

    def _start_processes(self) -> Any:
        os.environ.pop("VLLM_ENABLE_V1_MULTIPROCESSING", None)
        on_cpu = self.hosted.prepare()
        self._texts = self.hosted.texts(self.chat.tokenizer, on_cpu=on_cpu)
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.usage.usage_lib import UsageContext
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = self.hosted.arguments(on_cpu=on_cpu)
        arguments["max_num_seqs"] = self.hosted.max_num_seqs + RESERVED
        arguments.setdefault("async_scheduling", not on_cpu)
        if on_cpu and arguments.get("tensor_parallel_size", 1) == 1:
            # One process instead of two starts sooner, and saves a boundary at each step. Given the short name, vLLM chooses the
            # other executor on a CPU, because of thread binding.
            arguments.setdefault("distributed_executor_backend", "vllm.v1.executor.uniproc_executor.UniProcExecutor")
        if self._sleeps and not on_cpu:
            self.can_sleep = True
            arguments = sleeping(AsyncEngineArgs) | arguments
        scheduler = "AsyncCourtScheduler" if arguments["async_scheduling"] else "CourtScheduler"
        arguments |= {"scheduling_policy": "priority", "scheduler_cls": f"judges.engines.vllm.scheduler.{scheduler}"}
        with tempfile.TemporaryDirectory() as scratch:
            last_words = Path(scratch) / "last words"
            os.environ[LAST_WORDS_VARIABLE] = str(last_words)
            try:
                with engine_processes():
                    context = UsageContext.OPENAI_API_SERVER  # vLLM chooses the tokens of a step by it, on an H100 8,192
                    return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments), usage_context=context)
            except Exception as error:
                cause = last_words.read_text().strip() if last_words.exists() else last_line(error)
                raise EngineError(f"vLLM cannot start {self.identity.model}: {cause.splitlines()[0][:500]}{hint()}") from error

    async def close(self) -> None:
        async with self._starting:
            client, self.client = self.client, None
            if self.guard is not None:
                await self.guard.close()
            if client is not None:
                await asyncio.to_thread(client.shutdown)

    async def admit(self, pattern: str) -> None:
        await self._admitted({"regex": pattern})

    async def admit_params(self, params: Any) -> Constraint | None:
        """Admit the constraint of vLLM's ``SamplingParams``, as ``admit``, and replace it by the form for the engine.

        Returns:
            The original constraint, if there is one.

        Raises:
            ValueError: The constraint is invalid, or takes too much time or memory to compile.
        """
        from vllm.sampling_params import StructuredOutputsParams

        if params.structured_outputs is None or params.structured_outputs.all_constraints_none():
            return None
        original = constraint_of(params.structured_outputs)
        try:
            constraint = await self._admitted(original)
        except PatternError as error:
            raise ValueError(str(error)) from error
        params.structured_outputs = StructuredOutputsParams(**constraint)
        params.structured_outputs._backend = self.hosted.constraint
        return original

    async def _admitted(self, constraint: Constraint) -> Constraint:
        if self.guard is None:
            raise EngineError("the engine is not running")
        return await self.guard.admit(constraint)

    async def sleep(self) -> None:
        """Move the weights to the machine's memory and drop keys and values. No request may be in progress."""
        await self.client.sleep(level=1)

    async def wake(self) -> None:
        """Move the weights back to the GPU."""
        await self.client.wake_up()

    async def generate(self, request: Request) -> Generation:
        return await self.answer(request)

    async def answer(self, request: Request, *, priority: int = URGENT, adapter: Adapter | None = None) -> Generation:
        """Answer one request, as ``generate``, with a priority and optionally with an adapter."""
        client = self.client
        if client is None:
            raise EngineError("the engine is not running")
        prompt_ids = await self._prompt(request, adapter.template if adapter else None)
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        output: Any = None
        ask, params = self._ways(client, request, prompt_ids)
        try:
            async for output in ask(  # noqa: B007
                {"prompt_token_ids": prompt_ids},
                params,
                str(next(self._numbers)),
                priority=priority,
                lora_request=lora_request(adapter),
            ):
                pass  # there is a single output, the final one
        except EngineDeadError as error:
            raise EngineError("the engine's process has ended") from error
        except EngineGenerateError as error:
            raise RequestError(f"vLLM failed on the request: {last_line(error.__cause__ or error)}") from error
        except refusals() as error:
            raise RequestError(f"vLLM refused the request: {last_line(error)}") from error
        if self.labels is not None:
            return classified(output.outputs.data.tolist(), self.labels, len(prompt_ids), output.num_cached_tokens)
        return generation(output, self._texts)

    def _ways(self, client: Any, request: Request, prompt_ids: list[int]) -> tuple[Callable[..., Any], Any]:
        """The method of vLLM's client that answers a request, and its parameters.

        Raises:
            RequestError: The request is one for another kind of model.
        """
        if why := self.mistaken(request):
            raise RequestError(why)
        if request.classifies:
            return client.encode, pooling(self.chat.second_text(prompt_ids))
        params = sampling(request, self.chat.thought_end, reports=self._texts is not None)
        if params.structured_outputs is not None:
            params.structured_outputs._backend = self.hosted.constraint
        return client.generate, params

    async def _prompt(self, request: Request, template: str | None) -> list[int]:
        """Encode the prompt. A long one is encoded in a thread with its own tokenizer: tokenizers are not thread-safe."""
        if sum(len(message.content) for message in request.messages) <= LONG_PROMPT:
            return self.chat.with_template(template).prompt(request, self.context)
        apart = self._chat_apart.with_template(template)
        return await asyncio.get_running_loop().run_in_executor(self._apart, apart.prompt, request, self.context)

    def view(self, *, priority: int = URGENT, adapter: Adapter | None = None) -> Engine:
        """A view of this engine with a fixed priority and adapter."""
        return EngineView(self, priority, adapter)


def sleeping(arguments: type) -> dict[str, Any]:
    """Arguments by which vLLM can sleep, as far as its ``AsyncEngineArgs`` has them: 0.31 leaves CUDA graphs where they are."""
    wanted = {"enable_sleep_mode": True, "sleep_mode_offload_cudagraph": True, "gpu_memory_utilization": SLEEPER_SHARE}
    return {name: value for name, value in wanted.items() if name in {field.name for field in fields(arguments)}}


def lora_request(adapter: Adapter | None) -> Any:
    """Convert an adapter to vLLM's ``LoRARequest``."""
    if adapter is None:
        return None
    from vllm.lora.request import LoRARequest

    return LoRARequest(lora_name=adapter.name, lora_int_id=adapter.number, lora_path=str(adapter.folder))


class EngineView(Engine):
    """A view of a shared engine with a fixed priority and adapter. Closing it does not close the engine."""

    def __init__(self, engine: AsyncVLLMEngine, priority: int, adapter: Adapter | None) -> None:
        self.engine = engine
        self.priority = priority
        self.adapter = adapter
        self.concurrency = engine.concurrency
        self.max_alternatives = engine.max_alternatives
        self.labels = engine.labels
        self._identity = engine.identity
        self.calibration = engine.calibration
        if adapter is not None:
            self.calibration = adapter.calibration
            self._identity = replace(engine.identity, options={**engine.identity.options, "adapter": adapter.digest})

    @property
    def context(self) -> int:  # type: ignore[override]
        return self.engine.context

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    async def identify(self) -> None:
        await self.engine.identify()

    async def start(self) -> None:
        await self.engine.start()

    async def close(self) -> None:
        return

    async def admit(self, pattern: str) -> None:
        await self.engine.admit(pattern)

    async def generate(self, request: Request) -> Generation:
        return await self.engine.answer(request, priority=self.priority, adapter=self.adapter)

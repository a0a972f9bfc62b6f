"""vLLM in processes of its own, for a server: it lives beside an event loop, can be ended and started again, and serves
many callers of whom some wait and some do not.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from judges.engines.chat import ChatTokenizer
from judges.engines.engine import Engine, EngineIdentity, Generation, Request
from judges.engines.own_session import engine_processes
from judges.engines.pattern_guard import Constraint, PatternError, PatternGuard
from judges.engines.vllm_compiler import VLLMCompiler, constraint_of
from judges.engines.vllm_plugin import LAST_WORDS_VARIABLE
from judges.engines.vllm_settings import MAX_LOGPROBS, HostedModel, generation, last_line, prepare_environment, sampling
from judges.errors import EngineError, RequestError

URGENT, BULK = 0, 1
"""Priorities. Nobody waits for bulk, so it waits for everybody."""

RESERVED = 8
"""Places that only urgent requests may take, beside those for ``max_num_seqs``."""

LONG_PROMPT = 16_384
"""Characters from which a prompt is encoded off the event loop: that takes milliseconds."""

_one_at_a_time = threading.Lock()
"""Of several engines: libraries are imported once, each measures the memory that is free, and each is told by the environment
where to leave its last words."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter as vLLM knows it.

    Attributes:
        name: Its name with its version. vLLM keeps prefixes by this name, so no two versions may share one.
        number: vLLM's own number of it, never used again.
        folder: Where it lies.
        digest: Of its weights.
    """

    name: str
    number: int
    folder: Path
    digest: str


class AsyncVLLMEngine(Engine):
    """Hosts a model on vLLM's ``AsyncLLM``. ``can_sleep`` tells, once it is started, whether it can give its memory back.

    Args:
        model: An embedded model's name, a folder, or a repository on the Hugging Face hub.
        sleeps: Whether it is to be able to give a GPU's memory back for a while (vLLM's sleep mode).
        settings: What else ``HostedModel`` takes.
    """

    max_alternatives = MAX_LOGPROBS
    context: int

    def __init__(self, model: str, *, sleeps: bool = False, **settings: Any) -> None:
        self.can_sleep = False
        self._sleeps = sleeps
        self.hosted = HostedModel(model, **settings)
        self.window = 2 * self.hosted.max_num_seqs
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
            self.guard = PatternGuard(VLLMCompiler(self.client.vllm_config))
            self.guard.begin()
            # vLLM checks a constraint on the event loop, where a long one keeps everybody waiting. The guard has done that.
            self.client.input_processor.structured_outputs_config = None

    def _load(self) -> Any:
        with _one_at_a_time:
            self.chat, self._chat_apart = (ChatTokenizer.load(self.hosted.folder) for _ in range(2))
            return self._start_processes()

    def _start_processes(self) -> Any:
        os.environ.pop("VLLM_ENABLE_V1_MULTIPROCESSING", None)
        on_cpu = prepare_environment(quantized=self.hosted.quantization is not None)
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = self.hosted.arguments(on_cpu=on_cpu)
        arguments["max_num_seqs"] = self.hosted.max_num_seqs + RESERVED
        arguments.setdefault("async_scheduling", not on_cpu)
        if on_cpu and arguments.get("tensor_parallel_size", 1) == 1:
            # One process beside ours, not two: it starts sooner, and a step crosses one boundary less. By its short name vLLM
            # takes the other one on a CPU, for the sake of how it binds threads.
            arguments.setdefault("distributed_executor_backend", "vllm.v1.executor.uniproc_executor.UniProcExecutor")
        if self._sleeps and not on_cpu:
            arguments["enable_sleep_mode"] = self.can_sleep = True
        scheduler = "AsyncCourtScheduler" if arguments["async_scheduling"] else "CourtScheduler"
        arguments |= {"scheduling_policy": "priority", "scheduler_cls": f"judges.engines.vllm_scheduler.{scheduler}"}
        # It logs that an engine has ended also where we ended it.
        logging.getLogger("vllm.v1.engine.async_llm").setLevel(logging.CRITICAL)
        with tempfile.TemporaryDirectory() as scratch:
            last_words = Path(scratch) / "last words"
            os.environ[LAST_WORDS_VARIABLE] = str(last_words)
            try:
                with engine_processes():
                    return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
            except Exception as error:
                cause = last_words.read_text().strip() if last_words.exists() else last_line(error)
                raise EngineError(f"vLLM cannot start {self.identity.model}: {cause.splitlines()[0][:500]}") from error

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
        """Admit the constraint of vLLM's ``SamplingParams``, as ``admit``, and put it there in the form that the engine takes.

        Returns:
            The constraint as it was asked for, if there is one.

        Raises:
            ValueError: The constraint is not in order, or takes too much time or memory to compile.
        """
        from vllm.sampling_params import StructuredOutputsParams

        if params.structured_outputs is None or params.structured_outputs.all_constraints_none():
            return None
        asked = constraint_of(params.structured_outputs)
        try:
            constraint = await self._admitted(asked)
        except PatternError as error:
            raise ValueError(str(error)) from error
        params.structured_outputs = StructuredOutputsParams(**constraint)
        params.structured_outputs._backend = self.hosted.constraint
        return asked

    async def _admitted(self, constraint: Constraint) -> Constraint:
        if self.guard is None:
            raise EngineError("the engine is not running")
        return await self.guard.admit(constraint)

    async def sleep(self) -> None:
        """Move the weights to the machine's memory and drop keys and values. Nothing may be in progress."""
        await self.client.sleep(level=1)

    async def wake(self) -> None:
        """Take the weights back."""
        await self.client.wake_up()

    async def generate(self, request: Request) -> Generation:
        return await self.answer(request)

    async def answer(self, request: Request, *, priority: int = URGENT, adapter: Adapter | None = None) -> Generation:
        """Answer one request, as ``generate``, for somebody who waits or does not, by the model or by an adapter of it."""
        client = self.client
        if client is None:
            raise EngineError("the engine is not running")
        prompt_ids = await self._prompt(request)
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        output: Any = None
        params = sampling(request)
        if params.structured_outputs is not None:
            params.structured_outputs._backend = self.hosted.constraint
        try:
            async for output in client.generate(  # noqa: B007
                {"prompt_token_ids": prompt_ids},
                params,
                str(next(self._numbers)),
                priority=priority,
                lora_request=lora_request(adapter),
            ):
                pass  # there is one, the last
        except EngineDeadError as error:
            raise EngineError("the engine's process has ended") from error
        except EngineGenerateError as error:
            raise RequestError(f"vLLM failed on the request: {last_line(error.__cause__ or error)}") from error
        except ValueError as error:
            raise RequestError(f"vLLM refused the request: {last_line(error)}") from error
        return generation(output)

    async def _prompt(self, request: Request) -> list[int]:
        """Token ids of the prompt. A long one is encoded in a thread, by a tokenizer of its own: one serves one thread only."""
        if sum(len(message.content) for message in request.messages) <= LONG_PROMPT:
            return self.chat.prompt(request, self.context)
        return await asyncio.get_running_loop().run_in_executor(self._apart, self._chat_apart.prompt, request, self.context)

    def lane(self, *, priority: int = URGENT, adapter: Adapter | None = None) -> Engine:
        """This engine as one kind of caller sees it."""
        return _Lane(self, priority, adapter)


def lora_request(adapter: Adapter | None) -> Any:
    """An adapter as vLLM's ``LoRARequest``."""
    if adapter is None:
        return None
    from vllm.lora.request import LoRARequest

    return LoRARequest(lora_name=adapter.name, lora_int_id=adapter.number, lora_path=str(adapter.folder))


class _Lane(Engine):
    """An engine that puts its requests to a shared one, all with one priority and one adapter. Closing it closes nothing."""

    def __init__(self, engine: AsyncVLLMEngine, priority: int, adapter: Adapter | None) -> None:
        self.engine = engine
        self.priority = priority
        self.adapter = adapter
        self.window = engine.window
        self.max_alternatives = engine.max_alternatives
        self._identity = engine.identity
        if adapter is not None:
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

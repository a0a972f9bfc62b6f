"""A hosted model, whose engine is started, watched, and restarted when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Literal

from judges.engines.engine import Engine
from judges.engines.vllm.async_engine import BULK, URGENT, Adapter, AsyncVLLMEngine
from judges.errors import EngineError, MagistrateError
from server.errors import ApiError
from server.hosting.adapters import Adapters
from server.hosting.models_file import ModelSpec
from server.hosting.openai_layer import SERVING_LAYER, OpenAILayer
from server.hosting.swapper import ModelSwapper

State = Literal["waiting", "loading", "ready", "asleep", "restarting", "failed"]

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before an engine that died is restarted: doubled each time, up to the second figure."""

HEALTHY_SECONDS = 60.0
"""An engine that ran this long has recovered: its next pause is the first again."""

POLL_SECONDS = 0.2
"""Seconds between two checks of a running engine."""

DEFAULT_CONCURRENCY = {"vllm": 256, "endpoint": 64}
"""Answers that an engine writes at once, unless ``models.toml`` says otherwise."""

PATIENCE_SECONDS = 60.0
"""Seconds that a call waits for a model that is loading or restarting."""

log = logging.getLogger("magistrate.hosting")


class HostedModel:
    """A model and its supervised engine.

    Args:
        name: The name that clients use.
        spec: Its entry in ``models.toml``.
        adapters: Its LoRA adapters.
        swapper: Shares the memory among models, if they do not fit together.
        on_restart: Called with the name at each restart.
    """

    def __init__(
        self,
        name: str,
        spec: ModelSpec,
        *,
        adapters: Adapters,
        swapper: ModelSwapper | None = None,
        on_restart: Callable[[str], None] | None = None,
    ) -> None:
        self.name = name
        self.spec = spec
        self.state: State = "waiting"
        self.reason: str | None = None
        self.restarts = 0
        self.created = int(time.time())
        self.adapters = adapters
        self.swapper = swapper
        self.openai: OpenAILayer | None = None
        self._on_restart = on_restart
        self._engine: Engine | None = None
        self._ready = asyncio.Event()
        self._unready = asyncio.Event()
        self._settled = asyncio.Event()  # ready, or failed
        self._check_now = asyncio.Event()
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def engine(self) -> Engine:
        """The engine.

        Raises:
            EngineError: It has not been made yet.
        """
        if self._engine is None:
            raise EngineError(f"model `{self.name}` is {self.state}{f': {self.reason}' if self.reason else ''}")
        return self._engine

    @property
    def concurrency(self) -> int:
        """Lines of batches in progress at once: enough to keep the engine busy."""
        return 2 * (self.spec.window or DEFAULT_CONCURRENCY.get(self.spec.engine, 16))

    def begin(self) -> None:
        """Start loading, unless the swapper decides when."""
        if self.swapper is None:
            self._supervise()

    async def close(self) -> None:
        """Stop supervising and close the engine."""
        await self._stop_supervising()
        await self._close_engine()

    async def swap_in(self) -> None:
        """Get ready to answer. If that fails, callers see why, and it is tried again later."""
        if self.state == "asleep" and self._vllm:
            try:
                await self._vllm.wake()
            except Exception as error:  # vLLM has several errors for an engine that died asleep
                log.error("engine did not wake", extra={"model": self.name, "reason": str(error)})
                await self._close_engine()
        self._supervise()
        await self._settled.wait()

    async def swap_out(self) -> None:
        """Free the memory: put the engine to sleep if it can sleep, or close it."""
        await self._stop_supervising()
        if self.state == "ready" and self._vllm and self._vllm.can_sleep:
            await self._vllm.sleep()
            self._set("asleep")
            return
        await self._close_engine()
        self._set("waiting")

    @asynccontextmanager
    async def answering(self, *, urgent: bool) -> AsyncGenerator[Engine, None]:
        """Provide the started engine for one answer.

        Args:
            urgent: Whether a caller waits, for at most ``PATIENCE_SECONDS``. Bulk work waits as long as it takes.

        Raises:
            ApiError: The model is not ready in time; 503 with the time after which to try again.
        """
        if self.swapper is None:
            await self._await_ready(urgent)
            yield self.engine
            return
        async with self.swapper.in_memory(self, urgent=urgent):
            await self._await_ready(urgent)
            yield self.engine

    def view(self, *, urgent: bool, adapter: str | None = None) -> Engine:
        """Return the engine with a priority and an adapter.

        Args:
            urgent: Whether a caller waits.
            adapter: Full name of an adapter. It is looked up now, since a restarted engine numbers adapters anew.

        Raises:
            ApiError: The adapter was unloaded meanwhile.
        """
        loaded = self.adapters.find(adapter) if adapter is not None else None
        if adapter is not None and loaded is None:
            raise ApiError(404, f"adapter `{adapter}` was unloaded", code="model_not_found", param="model")
        if isinstance(self.engine, AsyncVLLMEngine):
            return self.engine.view(priority=URGENT if urgent else BULK, adapter=loaded)
        return self.engine

    @property
    def names(self) -> list[str]:
        """Full names of the model and its adapters."""
        return [self.name, *(adapter.name for adapter in self.adapters)]

    @property
    def context(self) -> int | None:
        """Length of the model's context in tokens, once it is loaded."""
        return self._engine.context if self._engine is not None and self.state in ("ready", "asleep") else None

    @property
    def why_no_openai(self) -> str:
        """The reason why the model has no OpenAI endpoints, if it has none."""
        if self._engine is not None and self._engine.labels is not None:
            return "it is a classifier and writes no text; judges of rewards and groundedness ask it"
        if self.spec.engine == "vllm":
            return f"its engine must be {SERVING_LAYER} or newer"
        return f"it runs on engine `{self.spec.engine}`; host it on engine `vllm`"

    @property
    def trouble(self) -> str | None:
        """The reason why a batch for it makes no progress; ``None`` if it does, or soon will."""
        return f"model `{self.name}` could not be loaded: {self.reason}" if self.state == "failed" else None

    @property
    def available(self) -> bool:
        """True if it answers now, or once it is swapped in."""
        return self.state in ("ready", "asleep") or (self.swapper is not None and self.state == "waiting")

    async def load_adapter(self, name: str, path: str) -> Adapter:
        """Load a LoRA adapter, or a new version of one.

        Raises:
            MagistrateError: This model takes none, or the adapter cannot be used.
        """
        if not self.spec.adapters:
            raise MagistrateError(f"model `{self.name}` takes no adapters; set `adapters` for it in models.toml")
        async with self.answering(urgent=True):
            if self.openai is None:
                raise MagistrateError(f"no adapter can be loaded: {self.why_no_openai}")
            return await self.adapters.load(name, path, self.openai)

    async def unload_adapter(self, name: str) -> Adapter | None:
        """Unload an adapter; ``None`` if no adapter has the name."""
        if self.adapters.find(name) is None:
            return None
        async with self.answering(urgent=True):
            assert self.openai is not None
            return await self.adapters.unload(name, self.openai)

    async def failed(self, error: EngineError) -> None:
        """Report that the engine could not answer, and wait until its state says so, so that no call tries it in vain."""
        if self._vllm is None:
            log.error("engine does not answer", extra={"model": self.name, "reason": str(error)})
            await asyncio.sleep(FIRST_PAUSE)
            return
        self._check_now.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._unready.wait(), 10 * POLL_SECONDS)

    async def _await_ready(self, urgent: bool) -> None:
        if self._ready.is_set():
            return
        try:
            async with asyncio.timeout(PATIENCE_SECONDS if urgent and self.state != "failed" else 0 if urgent else None):
                await self._ready.wait()
        except TimeoutError:
            why = f"model `{self.name}` is not ready: {self.state}{f' ({self.reason})' if self.reason else ''}"
            raise ApiError(503, why, code="model_not_ready", headers={"Retry-After": "10"}) from None

    def _supervise(self) -> None:
        if self._supervisor is None:
            self._supervisor = asyncio.create_task(self._keep_running(), name=f"supervise {self.name}")

    async def _keep_running(self) -> None:
        pause = FIRST_PAUSE
        while True:
            if self.state != "ready":
                self._set("restarting" if self.restarts else "loading", self.reason)
            began = time.monotonic()
            try:
                await self._start()
            except MagistrateError as error:
                log.error("model not loaded", extra={"model": self.name, "reason": str(error)})
                self._set("failed", str(error))
            except Exception as error:  # libraries fail in many ways: report any of them and try again
                log.exception("model not loaded", extra={"model": self.name})
                self._set("failed", f"{type(error).__name__}: {error}"[:500])
            else:
                self._set("ready")
                await self._until_dead()
                self.restarts += 1
                if self._on_restart is not None:
                    self._on_restart(self.name)
                log.error("engine died", extra={"model": self.name, "restarts": self.restarts})
                self._set("restarting", "the engine's process has ended; it is being restarted")
            if time.monotonic() - began > HEALTHY_SECONDS:
                pause = FIRST_PAUSE
            await self._close_engine()
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _start(self) -> None:
        if self._engine is None:
            self._engine = await asyncio.to_thread(self.spec.open, sleeps=self.swapper is not None)
        await self._engine.identify()
        await self._engine.start()
        if self._vllm and self._vllm.labels is None and self.openai is None:
            try:
                schema, most = self.spec.schema_of_answers, self.spec.max_completion_tokens
                self.openai = await OpenAILayer.over(self._vllm, self.name, schema, most)
            except EngineError as error:  # another version of vLLM, which can judge all the same
                log.error("no OpenAI layer", extra={"model": self.name, "reason": str(error)})
            else:
                await self.adapters.load_again(self.openai)

    async def _until_dead(self) -> None:
        while not (self._vllm and self._vllm.dead):
            self._check_now.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._check_now.wait(), POLL_SECONDS)

    async def _close_engine(self) -> None:
        self.openai = None
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    async def _stop_supervising(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.cancel()
            await asyncio.gather(supervisor, return_exceptions=True)

    def _set(self, state: State, reason: str | None = None) -> None:
        self.state, self.reason = state, reason
        for event, holds in (
            (self._ready, state == "ready"),
            (self._unready, state != "ready"),
            (self._settled, state in ("ready", "failed")),
        ):
            event.set() if holds else event.clear()

    @property
    def _vllm(self) -> AsyncVLLMEngine | None:
        """The engine, if it is vLLM's."""
        return self._engine if isinstance(self._engine, AsyncVLLMEngine) else None

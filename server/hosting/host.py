"""One hosted model: its engine is started, watched, and started again when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Literal

from judges.engines.async_vllm import BULK, URGENT, Adapter, AsyncVLLMEngine
from judges.engines.engine import Engine
from judges.errors import EngineError, MagistrateError
from server.errors import ApiError
from server.hosting.adapters import Adapters
from server.hosting.models_file import ModelSpec
from server.hosting.openai_layer import SERVING_LAYER, OpenAILayer
from server.hosting.stage import Stage

State = Literal["waiting", "loading", "ready", "asleep", "restarting", "failed"]

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before an engine that died is started again: doubled each time, up to the second."""

HEALTHY_SECONDS = 60.0
"""An engine that ran so long has recovered: its next pause is the first again."""

LOOK_SECONDS = 0.2
"""How often a running engine is looked at."""

MOST_AT_ONCE = {"vllm": 256, "endpoint": 64}
"""Answers written at once by engines of which ``models.toml`` says nothing else."""

PATIENCE_SECONDS = 60.0
"""How long a call waits for a model that is loading or restarting."""

log = logging.getLogger("magistrate.hosting")


class Host:
    """A model and its engine.

    Args:
        name: The name that clients know.
        spec: What ``models.toml`` says of it.
        adapters: Its LoRA adapters.
        stage: Where it takes turns with others, if it does not have the memory to itself.
        on_restart: Told the name at each restart.
    """

    def __init__(
        self,
        name: str,
        spec: ModelSpec,
        *,
        adapters: Adapters,
        stage: Stage | None = None,
        on_restart: Callable[[str], None] | None = None,
    ) -> None:
        self.name = name
        self.spec = spec
        self.state: State = "waiting"
        self.reason: str | None = None
        self.restarts = 0
        self.created = int(time.time())
        self.adapters = adapters
        self.stage = stage
        self.openai: OpenAILayer | None = None
        self._on_restart = on_restart
        self._engine: Engine | None = None
        self._ready = asyncio.Event()
        self._unready = asyncio.Event()
        self._settled = asyncio.Event()  # ready, or failed
        self._look = asyncio.Event()
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def engine(self) -> Engine:
        """The engine.

        Raises:
            EngineError: There is none yet.
        """
        if self._engine is None:
            raise EngineError(f"model `{self.name}` is {self.state}{f': {self.reason}' if self.reason else ''}")
        return self._engine

    @property
    def window(self) -> int:
        """How many lines of batches are asked about at once: enough to keep the engine busy."""
        return 2 * (self.spec.window or MOST_AT_ONCE.get(self.spec.engine, 16))

    def begin(self) -> None:
        """Start loading, unless the model waits for its turn."""
        if self.stage is None:
            self._supervise()

    async def close(self) -> None:
        """Stop watching, and let the engine go."""
        await self._stop_watching()
        await self._let_go()

    async def wake(self) -> None:
        """Get ready to answer, for the stage. Where that fails, callers are told why and a later attempt is made."""
        if self.state == "asleep":
            try:
                await self._vllm.wake()
            except Exception as error:  # it died in its sleep: vLLM has several errors for that
                log.error("engine did not wake", extra={"model": self.name, "reason": str(error)})
                await self._let_go()
        self._supervise()
        await self._settled.wait()

    async def rest(self) -> None:
        """Give the memory back, for the stage: asleep where the engine can sleep, gone where it cannot."""
        await self._stop_watching()
        if self.state == "ready" and self._can_sleep:
            await self._vllm.sleep()
            self._set("asleep")
            return
        await self._let_go()
        self._set("waiting")

    @asynccontextmanager
    async def answering(self, *, urgent: bool) -> AsyncGenerator[Engine, None]:
        """The started engine, for one answer.

        Args:
            urgent: Whether somebody waits, who is told after a while that the model is not there. Bulk waits as long as it takes.

        Raises:
            ApiError: The model is not there in time; 503 with the time after which to try again.
        """
        if self.stage is None:
            await self._await_ready(urgent)
            yield self.engine
            return
        async with self.stage.on(self, urgent=urgent):
            await self._await_ready(urgent)
            yield self.engine

    def lane(self, *, urgent: bool, adapter: str | None = None) -> Engine:
        """The engine as a caller of this kind sees it.

        Args:
            urgent: Whether somebody waits.
            adapter: Full name of an adapter. It is looked up now, since every engine has numbers of its own for adapters.

        Raises:
            ApiError: It was unloaded in the meantime.
        """
        found = self.adapters.find(adapter) if adapter is not None else None
        if adapter is not None and found is None:
            raise ApiError(404, f"adapter `{adapter}` was unloaded", code="model_not_found", param="model")
        if isinstance(self.engine, AsyncVLLMEngine):
            return self.engine.lane(priority=URGENT if urgent else BULK, adapter=found)
        return self.engine

    @property
    def context(self) -> int | None:
        """Length of the model's context in tokens, once it is loaded."""
        return self._engine.context if self._engine is not None and self.state in ("ready", "asleep") else None

    @property
    def why_no_openai(self) -> str:
        """Why the model has no OpenAI endpoints, where it has none."""
        if self.spec.engine == "vllm":
            return f"{SERVING_LAYER} or newer is needed for that"
        return f"it runs on engine `{self.spec.engine}`; host it on engine `vllm`"

    @property
    def trouble(self) -> str | None:
        """Why a batch for it would not move now; ``None`` where it would, or soon will."""
        return f"model `{self.name}` could not be loaded: {self.reason}" if self.state == "failed" else None

    @property
    def available(self) -> bool:
        """Whether it answers now, or as soon as it is its turn."""
        return self.state in ("ready", "asleep") or (self.stage is not None and self.state == "waiting")

    async def load_adapter(self, name: str, path: str) -> Adapter:
        """Load a LoRA adapter, or a new version of one.

        Raises:
            MagistrateError: This model takes none, or the adapter will not do.
        """
        if not self.spec.adapters:
            raise MagistrateError(f"model `{self.name}` takes no adapters; set `adapters` for it in models.toml")
        async with self.answering(urgent=True):
            if self.openai is None:
                raise MagistrateError(f"no adapter can be loaded: {self.why_no_openai}")
            return await self.adapters.load(name, path, self.openai)

    async def unload_adapter(self, name: str) -> Adapter | None:
        """Unload an adapter; ``None`` where there is none of that name."""
        if self.adapters.find(name) is None:
            return None
        async with self.answering(urgent=True):
            assert self.openai is not None
            return await self.adapters.unload(name, self.openai)

    async def failed(self, error: EngineError) -> None:
        """Hear that the engine could not answer, and wait until that has been dealt with, so that nobody asks it in vain."""
        if not isinstance(self._engine, AsyncVLLMEngine):
            log.error("engine does not answer", extra={"model": self.name, "reason": str(error)})
            await asyncio.sleep(FIRST_PAUSE)
            return
        self._look.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._unready.wait(), 10 * LOOK_SECONDS)

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
            self._supervisor = asyncio.create_task(self._keep_running(), name=f"host {self.name}")

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
            except Exception as error:  # libraries fail in many ways; whichever it was, it is told, and tried again
                log.exception("model not loaded", extra={"model": self.name})
                self._set("failed", f"{type(error).__name__}: {error}"[:500])
            else:
                self._set("ready")
                await self._until_dead()
                self.restarts += 1
                if self._on_restart is not None:
                    self._on_restart(self.name)
                log.error("engine died", extra={"model": self.name, "restarts": self.restarts})
                self._set("restarting", "the engine's process has ended; it is started again")
            if time.monotonic() - began > HEALTHY_SECONDS:
                pause = FIRST_PAUSE
            await self._let_go()
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _start(self) -> None:
        if self._engine is None:
            self._engine = await asyncio.to_thread(self.spec.open, sleeps=self.stage is not None)
        await self._engine.identify()
        await self._engine.start()
        if isinstance(self._engine, AsyncVLLMEngine) and self.openai is None:
            try:
                self.openai = await OpenAILayer.over(self._engine, self.name, self.spec.schema_of_answers)
            except EngineError as error:  # another version of vLLM: it judges all the same
                log.error("no OpenAI layer", extra={"model": self.name, "reason": str(error)})
            else:
                await self.adapters.load_again(self.openai)

    async def _until_dead(self) -> None:
        while not (isinstance(self._engine, AsyncVLLMEngine) and self._engine.dead):
            self._look.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), LOOK_SECONDS)

    async def _let_go(self) -> None:
        self.openai = None
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    async def _stop_watching(self) -> None:
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
    def _vllm(self) -> AsyncVLLMEngine:
        assert isinstance(self._engine, AsyncVLLMEngine)
        return self._engine

    @property
    def _can_sleep(self) -> bool:
        return isinstance(self._engine, AsyncVLLMEngine) and self._engine.can_sleep

"""Engines on a Ray cluster: connecting to one, and an engine whose copies are actors there."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Protocol
from uuid import uuid4

import ray

from judges.engines.engine import Engine, EngineIdentity, Generation, Request
from judges.errors import EngineError, MagistrateError, reason_of

ANSWER_SECONDS = 10
"""How long to wait for a cluster's answer."""

PAUSE_SECONDS = 2.0
"""How long nothing is sent to an actor that did not answer, for example while it starts again."""

PATIENCE_SECONDS = 600
"""How long to wait for a place on the cluster, or for an actor that ended to start again."""

MOST_LOST = 3
"""Engines that may fail at one request, or one unit, before it is given up."""


def connect(address: str, *, debug: bool = False) -> None:
    """Connect to a cluster, if this process has not.

    Args:
        address: Its address; ``auto`` takes a running one that this machine belongs to, or makes one of this machine; ``local``
            makes one.
        debug: Whether workers may print what libraries do.

    Raises:
        MagistrateError: No cluster answers at the address.
    """
    if ray.is_initialized():
        return
    _check_address(address)
    if not debug:  # commands have a progress of their own, and say what failed in one sentence
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    level = "warning" if debug else "error"
    try:
        try:
            ray.init(address, logging_level=level, log_to_driver=debug)
        except ConnectionError:
            if address != "auto":
                raise
            ray.init("local", logging_level=level, log_to_driver=debug)
    except (ConnectionError, ValueError, RuntimeError) as error:
        token = "" if isinstance(error, ValueError) else "; a cluster that asks for a token wants it in RAY_AUTH_TOKEN here too"
        raise MagistrateError(f"no Ray cluster answers at {address}: {reason_of(error)}{token}") from None


def _check_address(address: str) -> None:
    """See that an address is one and that something answers there, which Ray itself tries for minutes."""
    if address in ("", "ray://"):
        raise MagistrateError(f"`--ray {address}` names no cluster; give `auto`, or an address such as ray://head:10001")
    if (found := re.fullmatch(r"(?:ray://)?\[?([^/]+?)\]?:(\d+)", address)) is None:
        return
    try:
        socket.create_connection((found[1], int(found[2])), timeout=ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise MagistrateError(f"no Ray cluster answers at {address}: {reason_of(error)}") from None


def last_words(error: Exception) -> str:
    """The reason in what Ray says of an actor that has ended: the last line that is no detail."""
    return [line for line in str(error).splitlines() if line.strip() and not line.startswith("\t")][-1].strip()


def gpus_of(wanted: int) -> int:
    """GPUs that an actor takes: as many as its engine wants, if the cluster has any."""
    return wanted if ray.cluster_resources().get("GPU") else 0


def check_same(ours: EngineIdentity, theirs: EngineIdentity) -> None:
    """See that an actor's engine gives the verdicts of the first one's.

    Raises:
        MagistrateError: It does not; the message says what differs.
    """
    here, there = _flat(ours), _flat(theirs)
    if differing := [name for name in here | there if here.get(name) != there.get(name)]:
        said = ", ".join(f"{name} ({here.get(name)}, not {there.get(name)})" for name in differing)
        raise MagistrateError(f"its engine differs from the first one's in {said}; give nodes of one kind")


def _flat(identity: EngineIdentity) -> dict[str, Any]:
    fields = asdict(identity)
    options: dict[str, Any] = fields.pop("options")
    return options | fields


def on_node(error: MagistrateError) -> MagistrateError:
    """The same error of starting an engine, with the node's name."""
    return (EngineError if isinstance(error, EngineError) else MagistrateError)(f"node {socket.gethostname()}: {error}")


class Opens(Protocol):
    """Settings of an engine."""

    def open(self) -> Engine:
        """Make the engine."""
        ...


class Host:
    """Opens an engine on a node, and starts it when it is first needed."""

    def __init__(self, settings: Opens) -> None:
        self._settings = settings
        self._engine: Engine | None = None
        self._starting: asyncio.Lock | None = None
        self._name = uuid4().hex

    async def facts(self) -> Mapping[str, Any] | MagistrateError:
        """What the engine says of itself."""
        try:
            engine = await self._opened()
        except MagistrateError as error:
            return on_node(error)
        names = ("identity", "concurrency", "max_alternatives", "context", "supports_prefill", "calibration", "labels")
        return {name: getattr(engine, name) for name in names}

    async def ask(self, first: EngineIdentity, method: str, *arguments: Any) -> tuple[str, Any]:
        """Call a method of the started engine.

        Returns:
            The name of this host, which changes when it starts again, and the method's result or error.
        """
        self._starting = self._starting or asyncio.Lock()
        try:
            async with self._starting:
                engine = await self._opened()
                check_same(engine.identity, first)
                await engine.start()
        except MagistrateError as error:
            return self._name, on_node(error)
        try:
            return self._name, await getattr(engine, method)(*arguments)
        except MagistrateError as error:
            return self._name, error

    async def _opened(self) -> Engine:
        if self._engine is None:
            engine = self._settings.open()
            await engine.identify()
            self._engine = engine
        return self._engine


class ClusterEngine(Engine):
    """Answers requests on a Ray cluster: each goes to the actor that has the fewest.

    An actor that ends, or whose engine fails, is started again, and its requests are asked elsewhere.

    Args:
        settings: The engine that each actor opens. Paths of models are those of the nodes.
        address: The cluster's address.
        gpus: GPUs that an engine takes, if the cluster has any.
        actors: How many engines; by default one for each GPU that is free, or each processor of a cluster without.
    """

    def __init__(self, settings: Opens, address: str, *, gpus: int = 1, actors: int | None = None) -> None:
        self.concurrency = 1
        self.max_alternatives = 1
        self._settings = settings
        self._address = address
        self._gpus = gpus
        self._count = actors
        self._actors: list[Any] = []
        self._busy: list[int] = []
        self._out: list[float] = []
        self._lost: set[str] = set()
        self._identity: EngineIdentity | None = None

    @property
    def identity(self) -> EngineIdentity:
        assert self._identity is not None
        return self._identity

    async def identify(self) -> None:
        if self._identity is not None:
            return
        connect(self._address)
        gpus = gpus_of(self._gpus)
        if self._count is None:
            free = ray.available_resources()
            self._count = max(1, int(free.get("GPU", 0) / gpus if gpus else free.get("CPU", 0)))
        hosts = ray.remote(Host).options(num_gpus=gpus, num_cpus=1, max_restarts=-1, max_concurrency=10_000)
        self._actors = [hosts.remote(self._settings) for _ in range(self._count)]
        self._busy, self._out = [0] * self._count, [math.inf] * self._count
        facts = await self._first_facts()
        self._identity = facts.pop("identity")
        for name, value in facts.items():
            setattr(self, name, value)
        self.concurrency *= self._count

    async def _first_facts(self) -> dict[str, Any]:
        """What the first actor says that can run."""
        try:
            asked = [asyncio.ensure_future(_awaited(actor.facts.remote())) for actor in self._actors]
            for number, one in enumerate(asked):
                one.add_done_callback(partial(self._placed, number))
            done, _ = await asyncio.wait(asked, timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                room = f"no actor found room on the Ray cluster at {self._address} in {PATIENCE_SECONDS // 60} minutes"
                raise EngineError(f"{room}; each wants a CPU and {gpus_of(self._gpus)} GPUs: `ray status` shows what is free")
            facts = done.pop().result()
        except ray.exceptions.RayError as error:
            raise EngineError(f"no actor runs on the Ray cluster at {self._address}: {last_words(error)}") from None
        if isinstance(facts, MagistrateError):
            raise facts
        return dict(facts)

    def _placed(self, number: int, facts: asyncio.Future[Any]) -> None:
        """Let an actor be asked, now that it has a place: of those beyond the cluster's room an answer never comes."""
        self._out[number] = 0.0
        if not facts.cancelled():
            facts.exception()  # a request that finds the same says so

    async def start(self) -> None:
        await self.identify()
        await self._ask("identify")

    async def close(self) -> None:
        actors, self._actors = self._actors, []
        for actor in actors:
            ray.kill(actor)

    async def admit(self, pattern: str) -> None:
        await self._ask("admit", pattern)

    async def generate(self, request: Request) -> Generation:
        found: Generation = await self._ask("generate", request)
        return found

    async def likelihood(self, prompt: str, text: str) -> Sequence[float]:
        found: Sequence[float] = await self._ask("likelihood", prompt, text)
        return found

    async def _ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of an engine that runs.

        Raises:
            MagistrateError: The engine's own, or as many engines have failed as may.
        """
        lost, until = 0, math.inf
        while True:
            number = await self._least_busy()
            self._busy[number] += 1
            try:
                host, outcome = await self._actors[number].ask.remote(self.identity, method, *arguments)
            except ray.exceptions.RayActorError as error:  # it has ended; Ray starts it again where there is room
                now = time.monotonic()
                if now > (until := min(until, now + PATIENCE_SECONDS)):
                    raise EngineError(
                        f"actors end on the Ray cluster at {self._address} and do not come back: {last_words(error)}"
                    ) from None
                self._out[number] = now + PAUSE_SECONDS
                continue
            finally:
                self._busy[number] -= 1
            if isinstance(outcome, EngineError) and (lost := lost + 1) < MOST_LOST:
                self._end(number, host)
                continue
            if isinstance(outcome, MagistrateError):
                raise outcome
            return outcome

    def _end(self, number: int, host: str) -> None:
        """End an actor whose engine has failed, once, so that Ray starts it again."""
        if host not in self._lost:
            self._lost.add(host)
            self._out[number] = time.monotonic() + PAUSE_SECONDS
            ray.kill(self._actors[number], no_restart=False)

    async def _least_busy(self) -> int:
        while True:
            if not self._actors:
                raise EngineError("the engine is closed")
            now = time.monotonic()
            there = [number for number in range(len(self._actors)) if self._out[number] <= now]
            if there:
                return min(there, key=self._busy.__getitem__)
            await asyncio.sleep(PAUSE_SECONDS / 4)


async def _awaited(reference: Any) -> Any:
    return await reference

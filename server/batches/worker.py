"""Judges the lines of queued batches on the models that are hosted here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, cast

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from judges.verdict import Verdict
from judges.window import Work, as_reached
from server.batches.lines import BatchLine, error_line, output_line, read_lines
from server.batches.recorder import Recorder
from server.court import Court, JudgmentsRequest
from server.errors import ApiError, error_body, fault_of
from server.hosting.host import Host
from server.hosting.openai_layer import Path as CompletionPath
from server.store import LeasedPart, Result, Store, StoreError

LEASE_SECONDS = 30.0
"""How long a part stays with a worker that has died, on a database that several servers share."""

RENEW_SECONDS = 2.0
"""How often leases are renewed, and batches that were cancelled elsewhere are noticed."""

LOOK_SECONDS = 1.0
"""How often the queue is looked at while it is empty. What is queued on this server is seen at once."""

PARTS_AT_ONCE = 2

log = logging.getLogger("magistrate.batches")


class Worker:
    """Leases parts of batches, has their lines judged, and records what comes of them.

    Args:
        store: The queue.
        court: The models.
        recorder: Where results go.
        lease_seconds: How long a part stays with a worker that has died.
    """

    def __init__(self, store: Store, court: Court, recorder: Recorder, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._store = store
        self._court = court
        self._recorder = recorder
        self._lease_seconds = lease_seconds
        self._held: set[tuple[str, int]] = set()
        self._arrived = {name: asyncio.Event() for name in court.hosts}
        self._draining = False
        self._abandoned = False

    def wake(self) -> None:
        """Look at the queue now."""
        for event in self._arrived.values():
            event.set()

    async def run(self) -> None:
        """Work until drained."""
        renewing = asyncio.create_task(self._keep_leases())
        try:
            await asyncio.gather(*(self._serve(host) for host in self._court.hosts.values()))
        finally:
            renewing.cancel()
            with contextlib.suppress(StoreError):
                await asyncio.to_thread(self._store.release, self.name)

    def drain(self) -> None:
        """Take up nothing more. ``run`` returns when what is in progress is done."""
        self._draining = True
        self.wake()

    def abandon(self) -> None:
        """Record nothing more: lines in progress are cancelled, and judged again after the next start."""
        self._abandoned = True

    async def _serve(self, host: Host) -> None:
        while not self._draining:
            try:
                async with aclosing(as_reached(self._work(host), host.window)) as done:
                    async for _ in done:
                        pass
            except Exception:  # whatever it was: what is leased is let go, and the queue looked at again
                log.exception("worker failed", extra={"model": host.name})
                self._held.clear()
                with contextlib.suppress(StoreError):
                    await asyncio.to_thread(self._store.release, self.name)
                await asyncio.sleep(LOOK_SECONDS)

    async def _work(self, host: Host) -> AsyncGenerator[Work[None], None]:
        while not self._draining:
            for part in await self._lease(host):
                place = (part.batch_id, part.number)
                for line in read_lines(part):
                    if self._draining or place not in self._held:
                        break
                    yield self._do(host, part, line)

    async def _lease(self, host: Host) -> list[LeasedPart]:
        """Parts to work on. Waits for some, a little while."""
        arrived = self._arrived[host.name]
        arrived.clear()
        try:
            names = self._court.names_of(host)
            parts = await asyncio.to_thread(self._store.lease, self.name, names, parts=PARTS_AT_ONCE, seconds=self._lease_seconds)
        except StoreError as error:
            log.error("queue cannot be read", extra={"reason": str(error)})
            parts = []
        self._held |= {(part.batch_id, part.number) for part in parts}
        if not parts and not self._draining:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(arrived.wait(), LOOK_SECONDS)
        return parts

    async def _do(self, host: Host, part: LeasedPart, line: BatchLine) -> None:
        status, record = 400, ""
        if line.fault is not None:
            record = error_line(line, line.fault.code, line.fault.message)
        else:
            status, body = await self._answer(host, part, line)
            record = output_line(line, status, body)
        if self._abandoned:  # vLLM's handlers answer a cancellation as if the client had gone
            return
        result = Result(part.batch_id, part.number, line.number, line.custom_id, status >= 400, record)
        try:
            await self._recorder.record(result)
        except StoreError as error:
            log.error("result not recorded", extra={"batch": part.batch_id, "line": line.number, "reason": str(error)})

    async def _answer(self, host: Host, part: LeasedPart, line: BatchLine) -> tuple[int, Mapping[str, Any]]:
        """The status and the body that the call would have been answered with which the line stands for."""
        while True:
            try:
                if part.endpoint == "/v1/judgments":
                    return await self._judge(part, line)
                return await self._complete(part, line)
            except Exception as error:
                fault = fault_of(error)
                if fault is None:
                    log.exception("line failed", extra={"line": line.number})
                    fault = ApiError(500, "the server failed at this line; its log says why", "internal_error")
                if fault.status != 503:
                    return fault.status, error_body(fault)
            await asyncio.sleep(LOOK_SECONDS)

    async def _judge(self, part: LeasedPart, line: BatchLine) -> tuple[int, Mapping[str, Any]]:
        try:
            request = JudgmentsRequest.model_validate(line.body)
        except ValidationError as error:
            raise RequestValidationError([{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]) from None
        if len(request.samples) != 1:
            held = len(request.samples)
            raise ApiError(400, f"a line of a batch holds one sample, this one {held}; give each a line", param="samples")
        reply = await self._court.judge(request, caller=part.owner, urgent=False, names=[line.custom_id or str(line.number)])
        verdicts: list[Verdict] = reply["data"]
        status = 200 if all(verdict.final for verdict in verdicts) else 500
        return status, {**reply, "data": [verdict.as_fields() for verdict in verdicts]}

    async def _complete(self, part: LeasedPart, line: BatchLine) -> tuple[int, Mapping[str, Any]]:
        if line.body.get("stream"):
            raise ApiError(400, "a line of a batch cannot be streamed", param="stream")
        reply = await self._court.complete(cast(CompletionPath, part.endpoint), dict(line.body), caller=part.owner, urgent=False)
        return reply.status, reply.body or {}

    async def _keep_leases(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            held = set(self._held)
            try:
                still = await asyncio.to_thread(self._store.renew, self.name, self._lease_seconds)
                await asyncio.to_thread(self._store.settle_cancelled)
            except StoreError:
                continue
            self._held -= held - still

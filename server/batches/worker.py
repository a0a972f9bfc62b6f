"""Judges the lines of queued batches on the models hosted here."""

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

from judges.concurrency import Work, as_reached
from judges.verdict import Verdict
from server.batches.lines import BatchLine, error_line, output_line, read_lines
from server.batches.recorder import Recorder
from server.errors import ApiError, error_body, fault_of
from server.hosting.hosted_model import HostedModel
from server.hosting.openai_layer import Path as CompletionPath
from server.model_pool import JudgmentsRequest, ModelPool
from server.store import LeasedPart, Result, Store, StoreError

LEASE_SECONDS = 30.0
"""Seconds that a dead worker's lease lasts, on a database that several servers share."""

RENEW_SECONDS = 2.0
"""Seconds between two renewals of leases, when batches cancelled on other servers are noticed too."""

LOOK_SECONDS = 1.0
"""Seconds between two checks of an empty queue. Batches created on this server are noticed at once."""

PARTS_AT_ONCE = 2

log = logging.getLogger("magistrate.batches")


class Worker:
    """Leases parts of batches, has their lines judged, and records the results.

    Args:
        store: The queue.
        pool: The models.
        recorder: Receives the results.
        lease_seconds: Seconds that a lease lasts if this worker dies.
    """

    def __init__(self, store: Store, pool: ModelPool, recorder: Recorder, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._store = store
        self._pool = pool
        self._recorder = recorder
        self._lease_seconds = lease_seconds
        self._held: set[tuple[str, int]] = set()
        self._arrived = {name: asyncio.Event() for name in pool.models}
        self._draining = False
        self._abandoned = False

    def wake(self) -> None:
        """Check the queue now."""
        for event in self._arrived.values():
            event.set()

    async def run(self) -> None:
        """Work until drained."""
        renewing = asyncio.create_task(self._keep_leases())
        try:
            await asyncio.gather(*(self._serve(model) for model in self._pool.models.values()))
        finally:
            renewing.cancel()
            with contextlib.suppress(StoreError):
                await asyncio.to_thread(self._store.release, self.name)

    def drain(self) -> None:
        """Lease nothing more. ``run`` returns when the lines in progress are done."""
        self._draining = True
        self.wake()

    def abandon(self) -> None:
        """Record nothing more: lines in progress are judged again after the next start."""
        self._abandoned = True

    async def _serve(self, model: HostedModel) -> None:
        while not self._draining:
            try:
                async with aclosing(as_reached(self._work(model), model.concurrency)) as done:
                    async for _ in done:
                        pass
            except Exception:  # whatever it was: release the leases and check the queue again
                log.exception("worker failed", extra={"model": model.name})
                self._held.clear()
                with contextlib.suppress(StoreError):
                    await asyncio.to_thread(self._store.release, self.name)
                await asyncio.sleep(LOOK_SECONDS)

    async def _work(self, model: HostedModel) -> AsyncGenerator[Work[None], None]:
        while not self._draining:
            for part in await self._lease(model):
                for line in read_lines(part):
                    if self._draining or (part.batch_id, part.number) not in self._held:
                        break
                    yield self._do(part, line)

    async def _lease(self, model: HostedModel) -> list[LeasedPart]:
        """Lease parts to work on, and wait a moment if there are none."""
        arrived = self._arrived[model.name]
        arrived.clear()
        try:
            parts = await asyncio.to_thread(
                self._store.lease, self.name, model.names, parts=PARTS_AT_ONCE, seconds=self._lease_seconds
            )
        except StoreError as error:
            log.error("queue cannot be read", extra={"reason": str(error)})
            parts = []
        self._held |= {(part.batch_id, part.number) for part in parts}
        if not parts and not self._draining:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(arrived.wait(), LOOK_SECONDS)
        return parts

    async def _do(self, part: LeasedPart, line: BatchLine) -> None:
        status, record = 400, ""
        if line.fault is not None:
            record = error_line(line, line.fault.code, line.fault.message)
        else:
            status, body = await self._answer(part, line)
            record = output_line(line, status, body)
        if self._abandoned:  # vLLM's handlers answer a cancelled call as if the client had disconnected
            return
        result = Result(part.batch_id, part.number, line.number, line.custom_id, status >= 400, record)
        try:
            await self._recorder.record(result)
        except StoreError as error:
            log.error("result not recorded", extra={"batch": part.batch_id, "line": line.number, "reason": str(error)})

    async def _answer(self, part: LeasedPart, line: BatchLine) -> tuple[int, Mapping[str, Any]]:
        """Make the status and the body of the answer to the line's call."""
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
            count = len(request.samples)
            raise ApiError(400, f"a line of a batch must hold one sample, not {count}: give each a line", param="samples")
        reply = await self._pool.judge(request, caller=part.owner, urgent=False, names=[line.custom_id or str(line.number)])
        verdicts: list[Verdict] = reply["data"]
        status = 200 if all(verdict.final for verdict in verdicts) else 500
        return status, {**reply, "data": [verdict.as_fields() for verdict in verdicts]}

    async def _complete(self, part: LeasedPart, line: BatchLine) -> tuple[int, Mapping[str, Any]]:
        if line.body.get("stream"):
            raise ApiError(400, "a line of a batch cannot be streamed", param="stream")
        body = dict(line.body)
        if part.endpoint == "/v1/responses":
            reply = await self._pool.respond(body, caller=part.owner, urgent=False)
        else:
            reply = await self._pool.complete(cast(CompletionPath, part.endpoint), body, caller=part.owner, urgent=False)
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

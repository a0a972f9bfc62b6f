"""Batches on a running server, for its clients."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from judges.data.rows import Row, read_rows, row_id, row_of
from judges.errors import MagistrateError
from judges.judge import Sample
from judges.repeats import warn, with_occurrences
from judges.verdict import ENGINE_FAULT, Verdict
from magistrate.calls import Calls, ServerError, encoded

BATCHES = "/v1/batches"
JUDGMENTS = "/v1/judgments"
LOOK_SECONDS = 2.0
"""The longest pause between two polls of a batch."""

PIECE_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class AsyncBatch:
    """A batch on a server.

    Attributes:
        calls: The connection to the server.
        id: The batch's id, by which ``AsyncClient.batch`` finds it again.
    """

    calls: Calls
    id: str

    async def status(self) -> dict[str, Any]:
        """The batch as the server states it: ``status``, ``request_counts``, ``paused`` and more."""
        return await self.calls.json("GET", f"{BATCHES}/{self.id}")

    async def wait(self, progress: Callable[[int, int], object] | None = None) -> AsyncBatch:
        """Wait until the batch has ended.

        Args:
            progress: Called with the number of samples done, and the total.

        Raises:
            MagistrateError: The batch failed; what was judged can still be read.
        """
        for look in count():
            batch = await self.status()
            counts = batch["request_counts"]
            if progress is not None:
                progress(counts["completed"] + counts["failed"], counts["total"])
            if batch["status"] == "failed":
                raise MagistrateError(f"batch {self.id} failed: {batch['errors']['data'][0]['message']}")
            if batch["status"] in ("completed", "cancelled"):
                break
            await asyncio.sleep(min(LOOK_SECONDS, 0.1 * 1.3 ** min(look, 20)))
        return self

    async def verdicts(self) -> AsyncGenerator[Verdict, None]:
        """Yield the verdicts so far, in the samples' order: all of them once the batch is completed.

        A sample that could not be judged at all has an unscored verdict too; its ``sample`` and ``fingerprint``
        are empty.
        """
        batch = await self.status()
        async with (
            aclosing(_results(self.calls, batch["output_file_id"])) as answers,
            aclosing(_results(self.calls, batch["error_file_id"])) as faults,
        ):
            answer, fault = await anext(answers, None), await anext(faults, None)
            while answer or fault:
                if fault is None or (answer is not None and answer[0] < fault[0]):
                    assert answer is not None
                    yield answer[1]
                    answer = await anext(answers, None)
                else:
                    yield fault[1]
                    fault = await anext(faults, None)

    async def cancel(self) -> None:
        """Cancel what has not begun. What is judged is kept."""
        await self.calls.json("POST", f"{BATCHES}/{self.id}/cancel")


async def submit(
    calls: Calls, samples: Iterable[Sample] | Path, body: Mapping[str, Any], metadata: Mapping[str, str] | None
) -> AsyncBatch:
    """Upload samples and create a batch of them.

    Args:
        calls: The connection to the server.
        samples: The samples, or a file of them, which is read as it is sent.
        body: The body of ``POST /v1/judgments`` without samples.
        metadata: Notes that the server keeps with the batch.

    Raises:
        MagistrateError: A row cannot be read, or the server refuses the samples. Nothing is judged.
    """
    kept = samples if isinstance(samples, Path) else list(samples)
    file = (await calls.send(lambda: _upload(calls, kept, body))).json()
    wanted = {"input_file_id": file["id"], "endpoint": JUDGMENTS, "metadata": metadata}
    try:
        batch = await calls.json("POST", BATCHES, wanted, again_if_lost=False)
    except ServerError as error:
        if error.status:
            raise
        # The batch may exist though its answer was lost, and must not exist twice.
        newest = (await calls.json("GET", f"{BATCHES}?limit=100"))["data"]
        there = [batch for batch in newest if batch["input_file_id"] == file["id"]]
        batch = there[0] if there else await calls.json("POST", BATCHES, wanted, again_if_lost=False)
    return AsyncBatch(calls, batch["id"])


def sent(row: Row) -> Sample:
    """The row's sample, with the row's id if it has no other."""
    assert row.sample is not None
    return row.sample if row_id(row.sample, "") == row.id else {**row.sample, "id": row.id}


def verdict_of(fields: Mapping[str, Any]) -> Verdict:
    """A verdict from a server's JSON.

    Raises:
        MagistrateError: The JSON is not a verdict of this version.
    """
    try:
        return Verdict.from_json(json.dumps(fields))
    except (ValueError, TypeError):
        raise MagistrateError("the server makes verdicts of another kind; both must run one version of Magistrate") from None


def _upload(calls: Calls, samples: Path | list[Sample], body: Mapping[str, Any]) -> httpx.Request:
    """A form with the lines of a batch, which are generated as they are sent."""
    boundary = secrets.token_hex(16)
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="samples.jsonl"\r\n\r\n'
    )

    async def content() -> AsyncIterator[bytes]:
        piece = bytearray(head.encode())
        for line in _lines(samples, body):
            piece += line
            if len(piece) > PIECE_BYTES:
                yield bytes(piece)
                piece.clear()
        yield bytes(piece) + f"\r\n--{boundary}--\r\n".encode()

    return calls.request("POST", "/v1/files", content(), f"multipart/form-data; boundary={boundary}")


def _lines(samples: Path | list[Sample], body: Mapping[str, Any]) -> Iterator[bytes]:
    """A line of a batch for each sample. Its ``custom_id`` is the sample's number, from 1."""
    for number, row in enumerate(with_occurrences(_rows(samples), warn), start=1):
        if row.sample is None:
            raise MagistrateError(f"{row.problem}; mend the row, or judge the file with `magistrate score --server`")
        call = {**body, "samples": [sent(row)]}
        line = {"custom_id": str(number), "method": "POST", "url": JUDGMENTS, "body": call}
        yield encoded(line, row.place) + b"\n"


def _rows(samples: Path | list[Sample]) -> Iterator[Row]:
    if isinstance(samples, Path):
        yield from read_rows(samples)
        return
    for number, sample in enumerate(samples, start=1):
        yield row_of(sample, number)


async def _results(calls: Calls, file_id: str | None) -> AsyncGenerator[tuple[int, Verdict], None]:
    """What a batch has made, each with its sample's number. A reading that breaks off goes on from there."""
    last = 0
    while file_id is not None:
        before = last
        response = await calls.send(lambda: calls.request("GET", f"/v1/files/{file_id}/content"), stream=True)
        try:
            async for line in response.aiter_lines():
                fields = json.loads(line)
                number = int(fields["custom_id"])
                if number > last:
                    last = number
                    yield number, _result(fields)
            return
        except httpx.TransportError as error:
            if last == before:
                raise calls.lost(error) from None
        finally:
            await response.aclose()


def _result(fields: Mapping[str, Any]) -> Verdict:
    """A line of an output or error file as a verdict."""
    answer = fields["response"]
    if answer is not None and answer["status_code"] < 400:
        return verdict_of(answer["body"]["data"][0])
    why = fields["error"] or answer["body"]["error"]
    return Verdict(
        id=fields["custom_id"],
        judge="",
        status="unscored",
        reason=f"{ENGINE_FAULT}{why['message']}",
        sample="",
        fingerprint="",
    )

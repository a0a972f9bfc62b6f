"""A client of a running server: samples in, verdicts out, at once or as a batch."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, TypeVar, Unpack

from judges.concurrency import Work, as_reached
from judges.data.held import rows_of, samples_in
from judges.data.rows import row_of
from judges.engines.engine import EngineIdentity
from judges.errors import MagistrateError
from judges.judge import Sample
from judges.repeats import warn, with_occurrences
from judges.verdict import Fingerprint, Verdict
from judges.verdicts import Verdicts
from magistrate.batch import JUDGMENTS, AsyncBatch, sent, submit, verdict_of
from magistrate.calls import LOCAL, PATIENCE_SECONDS, Calls, ServerError, encoded
from magistrate.loop_thread import LoopThread

if TYPE_CHECKING:
    from judges.data.held import Samples

CALL_SAMPLES = 16
CALL_BYTES = 4 * 1024**2
"""The most samples and bytes of one call, unless one sample alone has more."""

CALLS_AT_ONCE = 16
TAKEN_AT_ONCE = 256

Outcome = tuple[int, Verdict | ServerError]
"""A sample's number, and its verdict or why it could not be sent."""

Result = TypeVar("Result")


class RequestSettings(TypedDict, total=False):
    """The settings of a request besides the judge's name.

    Attributes:
        model: A hosted model or adapter; the server's default if left out.
        options: The judge's options, each as JSON.
        rubric: The text of a rubric, in place of a judge.
        rubric_format: The language that the rubric is written in.
        expected: Whether to compute expected scores.
        think: Tokens that a model may think for before it answers.
    """

    model: str | None
    options: Mapping[str, Any] | None
    rubric: str | None
    rubric_format: Literal["toml", "yaml"]
    expected: bool
    think: int


class AsyncClient:
    """A client of a running server. Use it as ``async with AsyncClient() as client:``.

    Without a judge or a rubric the server takes the model's own judge. Every method raises a ``MagistrateError`` if the server
    refuses a call, in the server's own words, or does not answer.

    Args:
        base_url: The server's address.
        key: An API key; by default the value of ``MAGISTRATE_API_KEY``.
        patience: Seconds of retries after a lost connection, 429, 502, 503 and 504.
        urgent: Whether somebody waits for the answers.

    Raises:
        MagistrateError: The address or the key is not valid.
    """

    def __init__(
        self, base_url: str = LOCAL, key: str | None = None, *, patience: float = PATIENCE_SECONDS, urgent: bool = True
    ) -> None:
        self._calls = Calls(base_url, key, patience=patience, urgent=urgent)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._calls.close()

    async def judge(
        self, samples: Samples | str | Path, judge: str | None = None, **settings: Unpack[RequestSettings]
    ) -> Verdicts:
        """Judge samples while the caller waits.

        Args:
            samples: Any number of samples, with the fields that the judge needs, in a list, a data frame, another iterable
                of mappings, or a file; they are sent in several calls.
            judge: A judge's name.
            settings: Further settings of the request.

        Returns:
            One verdict a sample, in the samples' order. Where several samples have one id, a warning says so.
        """
        verdicts: dict[int, Verdict] = {}
        later: dict[int, int] = {}

        def noted() -> Iterator[Sample]:
            for row in with_occurrences(rows_of(samples), warn):
                if row.sample is None:
                    raise MagistrateError(f"{row.problem}; `magistrate.judge` and `magistrate score` take files with such rows")
                if row.occurrence > 1:
                    later[row.number] = row.occurrence
                yield row.sample

        async with aclosing(self.judged(noted(), judge, **settings)) as reached:
            async for number, outcome in reached:
                if isinstance(outcome, ServerError):
                    raise ServerError(f"sample {number}: {outcome}", outcome.status)
                verdicts[number] = replace(outcome, occurrence=later.get(number, 1))
        return Verdicts(verdicts[number] for number in range(1, len(verdicts) + 1))

    async def judged(
        self, samples: Iterable[Sample], judge: str | None = None, **settings: Unpack[RequestSettings]
    ) -> AsyncGenerator[Outcome, None]:
        """Yield each sample's number, from 1, and its verdict as soon as its call is answered.

        Samples are drawn as calls end. A sample too large for a call yields an error instead of a verdict.
        """
        work = self._in_calls(samples, _body(judge, settings))
        async with aclosing(as_reached(work, CALLS_AT_ONCE)) as calls:
            async for outcomes in calls:
                for outcome in outcomes:
                    yield outcome

    async def fingerprint(self, judge: str | None = None, **settings: Unpack[RequestSettings]) -> Fingerprint:
        """The fingerprint that verdicts would have. Waits for a model that is loading."""
        answer = await self._calls.json("POST", "/v1/fingerprints", _body(judge, settings))
        try:
            fields = dict(answer["fields"])
            found = Fingerprint(**{**fields, "identity": EngineIdentity(**fields["identity"])})
        except (KeyError, TypeError, ValueError):
            found = None
        if found is None or found.digest != answer.get("digest"):
            raise MagistrateError("the server makes fingerprints of another kind; both must run one version of Magistrate")
        return found

    async def judges(self) -> list[dict[str, Any]]:
        """The server's judges, with their options and an example each."""
        return list((await self._calls.json("GET", "/v1/judges"))["data"])

    async def models(self) -> list[dict[str, Any]]:
        """The hosted models and adapters, the default first."""
        return list((await self._calls.json("GET", "/v1/models"))["data"])

    async def load_adapter(self, name: str, path: str | Path, model: str | None = None) -> str:
        """Load a LoRA adapter into the server. Returns the full name of this version, whose weights never change.

        Args:
            name: A name for it; requests that name it get the latest version.
            path: Its folder on the server, inside one given to ``magistrate serve --adapters``.
            model: The hosted model that it belongs to; the default if left out.
        """
        body = {"name": name, "path": str(path), **({"model": model} if model is not None else {})}
        return str((await self._calls.json("POST", "/v1/adapters", body))["id"])

    async def ready(self) -> bool:
        """Whether a server answers and all its models are ready, at the first attempt."""
        return await self._calls.succeeds("/ready")

    async def submit(
        self,
        samples: Samples | str | Path,
        judge: str | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        **settings: Unpack[RequestSettings],
    ) -> AsyncBatch:
        """Upload samples and judge them as a batch, which outlives this process.

        Args:
            samples: The samples, or a file of any length, which is read as it is sent.
            judge: A judge's name.
            metadata: Notes that the server keeps with the batch.
            settings: Further settings of the request.

        Raises:
            MagistrateError: A row cannot be read, or the server refuses the samples. Nothing is judged.
        """
        source = Path(samples) if isinstance(samples, str | Path) else samples_in(samples)
        return await submit(self._calls, source, _body(judge, settings), metadata)

    def batch(self, batch_id: str) -> AsyncBatch:
        """A batch that was submitted earlier."""
        return AsyncBatch(self._calls, batch_id)

    async def _in_calls(self, samples: Iterable[Sample], body: Mapping[str, Any]) -> AsyncGenerator[Work[list[Outcome]], None]:
        head = encoded({**body, "samples": []}, "the request")[:-2]
        chunk: list[tuple[int, bytes]] = []
        size = 0
        for number, sample in enumerate(samples, start=1):
            text = encoded(sent(row_of(sample, number)), f"sample {number}")
            if chunk and (len(chunk) == CALL_SAMPLES or size + len(text) > CALL_BYTES):
                yield self._judge(head, chunk)
                chunk, size = [], 0
            chunk.append((number, text))
            size += len(text)
        if chunk:
            yield self._judge(head, chunk)

    async def _judge(self, head: bytes, samples: list[tuple[int, bytes]]) -> list[Outcome]:
        """Judge samples in one call, or in several if the server refuses one so large."""
        content = head + b",".join(text for _, text in samples) + b"]}"
        try:
            answered = (await self._calls.json("POST", JUDGMENTS, content))["data"]
        except ServerError as error:
            if error.status != 413:
                raise
            if len(samples) == 1:
                return [(samples[0][0], error)]
            half = len(samples) // 2
            return [*await self._judge(head, samples[:half]), *await self._judge(head, samples[half:])]
        if len(answered) != len(samples):
            raise MagistrateError(f"the server gave {len(answered)} verdicts on {len(samples)} samples")
        return [
            (number, _placed(verdict_of(fields), place, number))
            for place, ((number, _), fields) in enumerate(zip(samples, answered, strict=True), start=1)
        ]


def _body(judge: str | None, settings: RequestSettings) -> dict[str, Any]:
    """The body of a request without samples."""
    return {name: value for name, value in {"judge": judge, **settings}.items() if value is not None}


def _placed(verdict: Verdict, place: int, number: int) -> Verdict:
    """A verdict whose reason names the sample by its number among all, not in the call."""
    here = f"sample {place}: "
    if place == number or not (verdict.reason or "").startswith(here):
        return verdict
    return replace(verdict, reason=f"sample {number}: {(verdict.reason or '').removeprefix(here)}")


class Client:
    """``AsyncClient`` for programs without an event loop. Use it as ``with Client() as client:``, or close it.

    Arguments, results and errors are those of ``AsyncClient``. Its loop runs in a thread of its own, so it works in notebooks.
    """

    def __init__(self, base_url: str = LOCAL, key: str | None = None, *, patience: float = PATIENCE_SECONDS) -> None:
        self._client = AsyncClient(base_url, key, patience=patience)
        self._loop = LoopThread()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._loop.running:
            self._wait(self._client.close())
            self._loop.close()

    def judge(self, samples: Samples | str | Path, judge: str | None = None, **settings: Unpack[RequestSettings]) -> Verdicts:
        """Judge samples while the caller waits. One verdict a sample, in the samples' order."""
        return self._wait(self._client.judge(samples, judge, **settings))

    def fingerprint(self, judge: str | None = None, **settings: Unpack[RequestSettings]) -> Fingerprint:
        """The fingerprint that verdicts would have."""
        return self._wait(self._client.fingerprint(judge, **settings))

    def judges(self) -> list[dict[str, Any]]:
        """The server's judges, with their options and an example each."""
        return self._wait(self._client.judges())

    def models(self) -> list[dict[str, Any]]:
        """The hosted models and adapters, the default first."""
        return self._wait(self._client.models())

    def load_adapter(self, name: str, path: str | Path, model: str | None = None) -> str:
        """Load a LoRA adapter from a folder of the server, and return the full name of this version."""
        return self._wait(self._client.load_adapter(name, path, model))

    def ready(self) -> bool:
        """Whether a server answers and all its models are ready."""
        return self._wait(self._client.ready())

    def submit(
        self,
        samples: Samples | str | Path,
        judge: str | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        **settings: Unpack[RequestSettings],
    ) -> Batch:
        """Upload samples, or a file of them, and judge them as a batch."""
        return Batch(self, self._wait(self._client.submit(samples, judge, metadata=metadata, **settings)))

    def batch(self, batch_id: str) -> Batch:
        """A batch that was submitted earlier."""
        return Batch(self, self._client.batch(batch_id))

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        if not self._loop.running:
            work.close()
            raise MagistrateError("the client is closed; make another")
        return self._loop.wait(work)


class Batch:
    """``AsyncBatch`` for programs without an event loop."""

    def __init__(self, client: Client, batch: AsyncBatch) -> None:
        self.id = batch.id
        self._client = client
        self._batch = batch

    def status(self) -> dict[str, Any]:
        """The batch as the server states it: ``status``, ``request_counts``, ``paused`` and more."""
        return self._client._wait(self._batch.status())

    def wait(self, progress: Callable[[int, int], object] | None = None) -> Batch:
        """Wait until the batch has ended. ``progress`` is called in another thread with the samples done and the total."""
        self._client._wait(self._batch.wait(progress))
        return self

    def verdicts(self) -> Iterator[Verdict]:
        """Yield the verdicts so far, in the samples' order."""
        reading = self._batch.verdicts()
        try:
            while taken := self._client._wait(_take(reading)):
                yield from taken
        finally:
            self._client._wait(reading.aclose())

    def cancel(self) -> None:
        """Cancel what has not begun. What is judged is kept."""
        self._client._wait(self._batch.cancel())


async def _take(reading: AsyncGenerator[Result, None]) -> list[Result]:
    """The next few items of a stream; empty at its end."""
    taken: list[Result] = []
    while len(taken) < TAKEN_AT_ONCE:
        one = await anext(reading, None)
        if one is None:
            break
        taken.append(one)
    return taken

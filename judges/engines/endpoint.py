"""Asks any server with OpenAI's chat API: vLLM, SGLang, llama.cpp, Ollama, on this machine or across a fleet."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from judges.constraint import answer_pattern
from judges.engines.engine import THINK, Engine, EngineIdentity, Generation, Request
from judges.engines.heads import NO_CONSTRAINT, classified, label_name
from judges.engines.openai_api import chat_body, completed, generation, given, plain_body, usage_of
from judges.errors import CannotContinueError, ContextOverflowError, EngineError, RequestError, ServerOverflowError, reason_of
from judges.judge import Message

API_KEY_VARIABLE = "MAGISTRATE_API_KEY"

SPECIAL_TOKEN = re.compile(
    r"<[|｜][^|｜<>\s]{1,40}[|｜]?>|<[^|｜<>\s]{1,40}[|｜]>|</?s>|<</?SYS>>|<(?:start|end)_of_(?:turn|image)>"
    r"|</?(?:bos|eos|pad|unk|mask|sop|eop|image|think|tool_call|tool_response)>"
    r"|\[/?(?:INST|[A-Z]+(?:_[A-Z]+)+|gMASK|sMASK|MASK|CLS|SEP|PAD|UNK|IMG)\]"
)
"""Spellings of special tokens of the open model families, which a server may encode as such."""

TOO_LONG = re.compile(r"context.{0,40}(length|window|size)|maximum.{0,40}tokens|too (long|large)", re.IGNORECASE)


def defuse(text: str) -> str:
    """Insert a zero-width space into each spelling of a special token, so that no server encodes it as one."""
    return SPECIAL_TOKEN.sub(lambda match: f"{match[0][0]}\u200b{match[0][1:]}", text)


def defused(message: Message) -> str:
    """The content of a message with the sample's texts defused; the judge's own words stay as they are."""
    if message.given is None:
        return defuse(message.content)
    content = message.content
    for text in sorted(set(message.given), key=len, reverse=True):
        if text and (safe := defuse(text)) != text:
            content = content.replace(text, safe)
    return content


@dataclass(frozen=True, slots=True)
class _Dialect:
    """How a family of servers accepts a constraint."""

    name: str
    takes_pattern: bool

    def constraint(self, pattern: str | None, schema: Mapping[str, Any] | None) -> dict[str, Any]:
        if self.name == "structured_outputs" and pattern is not None:
            return {"structured_outputs": {"regex": pattern}, "repetition_penalty": 1.0}
        if self.name == "regex" and pattern is not None:
            return {"regex": pattern, "repetition_penalty": 1.0}
        if schema is None:
            return {}
        return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}}


DIALECTS = (_Dialect("structured_outputs", True), _Dialect("regex", True), _Dialect("json_schema", False))
"""The fields of vLLM, SGLang and OpenAI, in the order in which the probe tries them."""


PROBE_ATTEMPTS = 2
"""Tries of each question of the probe after one that has failed for all tries of a request."""

IGNORED = ": ignored"
"""Ends the probe's note on a dialect that the server accepts without obeying it."""


class EndpointEngine(Engine):
    """Asks a server with OpenAI's chat API.

    A request is retried, with growing pauses, after a lost connection, a time-out, 429 and 5xx, and if the server stops in the
    middle of an answer. The API key is read from ``MAGISTRATE_API_KEY``. A probe at the start asks for an answer that no model
    would give by itself, to find out how the server accepts a constraint.

    Args:
        model: The model's name on the server; ``None`` takes the only one it serves.
        base_url: URL of the API, for example ``http://127.0.0.1:8000/v1``.
        concurrency: Maximum number of concurrent requests.
        timeout: Seconds to wait for one answer.
        attempts: Maximum number of tries of a request.
    """

    max_alternatives = 20

    def __init__(
        self,
        model: str | None,
        *,
        base_url: str,
        concurrency: int = 64,
        timeout: float = 300.0,
        attempts: int = 5,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.concurrency = concurrency
        self.attempts = attempts
        self._model = model
        self._version = "unknown"
        self._dialect = DIALECTS[0]
        self._timeout = timeout
        self._client: httpx.AsyncClient | None = None
        self.gives_alternatives = True

    @property
    def identity(self) -> EngineIdentity:
        options = {"base_url": self.base_url}
        return EngineIdentity("endpoint", self._version, self._model or "", None, self._dialect.name, options)

    async def start(self) -> None:
        await self.identify()

    async def identify(self) -> None:
        if self._client is not None:
            return
        key = os.environ.get(API_KEY_VARIABLE)
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(self._timeout, connect=min(10.0, self._timeout)),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            limits=httpx.Limits(max_connections=self.concurrency, max_keepalive_connections=self.concurrency),
        )
        await self._choose_model()
        await self._find_version()
        await self._probe()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def generate(self, request: Request) -> Generation:
        start = request.answer_start if request.thought is None else request.thought + THINK.closes + request.answer_start
        if start and not self._dialect.takes_pattern:
            raise CannotContinueError("this server takes no regular expression, so a truncated answer cannot be continued")
        messages = [Message(message.role, defused(message)) for message in request.messages]
        if request.classifies:
            return await self._classify(messages)
        await self._check_length(messages, request.max_tokens, start)
        body: dict[str, Any] = {
            "model": self._model,
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            **self._dialect.constraint(request.pattern, request.schema),
        }
        if request.top_k:
            body |= {"top_k": request.top_k}
        if request.seed is not None:
            body |= {"seed": request.seed}
        if request.thinks:
            body |= {"stop": [THINK.ends]}
        alternatives = min(request.alternatives, self.max_alternatives) if self.gives_alternatives else 0
        if request.plain:
            return completed(await self._ask("/completions", body | plain_body(messages, start, alternatives)))
        return generation(await self._ask("/chat/completions", body | chat_body(messages, start, alternatives)))

    async def _classify(self, messages: list[Message]) -> Generation:
        """The logits of the server's classification head, by vLLM's API. It names the likeliest label alone."""
        turns = [{"role": message.role, "content": message.content} for message in messages]
        body = {"model": self._model, "messages": turns, "add_generation_prompt": False, "use_activation": False}
        answer = await self._send("/classify", body, root=True)
        try:
            (found,) = answer["data"]
            logits = [float(logit) for logit in found["probs"]]
        except (KeyError, TypeError, ValueError):
            raise RequestError("the server's answer holds no logits") from None
        self.labels = self.labels or [label_name(number) for number in range(len(logits))]
        return classified(logits, self.labels, usage_of(answer).prompt_tokens)

    async def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        for attempt in range(self.attempts):
            answer = await self._send(path, body)
            if not _aborted(answer):
                break
            await asyncio.sleep(_pause(attempt))  # the server is stopping; another one may replace it
        return answer

    async def likelihood(self, prompt: str, text: str) -> Sequence[float]:
        before, after = defuse(prompt), defuse(text)
        if not after:
            raise RequestError("the text has no tokens")
        asked = {"prompt": before + after, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1}
        return given(await self._send("/completions", {"model": self._model, **asked}), len(after))

    async def _choose_model(self) -> None:
        try:
            listing = await self._send("/models")
        except RequestError as error:
            advice = f"; set {API_KEY_VARIABLE}" if "HTTP 401" in str(error) or "HTTP 403" in str(error) else ""
            raise EngineError(f"{self.base_url} does not list its models ({error}){advice}") from error
        served = {str(entry.get("id")): entry for entry in listing.get("data", []) if isinstance(entry, dict)}
        if self._model is None and len(served) == 1:
            self._model = next(iter(served))
        if self._model not in served:
            names = ", ".join(sorted(served)) or "none"
            raise EngineError(f"{self.base_url} does not serve model {self._model or '(none given)'}; it serves: {names}")
        limit = served[self._model].get("max_model_len")
        self.context = limit if isinstance(limit, int) else None

    async def _find_version(self) -> None:
        try:
            answer = await self._send("/version", root=True)
        except RequestError:
            return  # only some servers report their version
        self._version = str(answer.get("version", "unknown"))

    async def _probe(self) -> None:
        """Find the dialect in which the server enforces a schema. Some servers accept the field and silently ignore it."""
        patience = self.attempts
        try:
            refusals = await self._refusals()
            if refusals and await self._is_classifier():
                return
        finally:
            self.attempts = patience
        if refusals and not any(refusal.endswith(IGNORED) for refusal in refusals):
            raise EngineError(f"the server at {self.base_url} answers no question ({'; '.join(refusals)})")
        if refusals:
            raise EngineError(
                f"the server at {self.base_url} does not enforce a JSON schema, so its answers cannot be trusted "
                f"({'; '.join(refusals)}); use a newer server, or `--engine vllm`"
            )

    async def _is_classifier(self) -> bool:
        """Whether the server's model has a classification head, whose labels are then known by their numbers."""
        try:
            await self._classify([Message("user", "1, 2, 3"), Message("assistant", "4")])
        except RequestError:
            return False
        self._dialect = _Dialect(NO_CONSTRAINT, False)
        return True

    async def _refusals(self) -> list[str]:
        """Try each dialect up to one that the server obeys. Returns why it obeys none; nothing if it obeys the last one tried."""
        word = f"kelp-{random.randrange(1000, 10000)}"
        schema = {"type": "object", "properties": {"probe": {"enum": [word]}}, "required": ["probe"]}
        question = (Message("user", "Say hello in one word."),)
        refusals: list[str] = []
        for dialect in DIALECTS:
            self._dialect = dialect
            self.supports_prefill = dialect.takes_pattern
            for alternatives in (1, 0):  # a server that refuses log-probabilities may still obey the schema
                request = Request(question, 64, answer_pattern(schema), schema, alternatives=alternatives)
                try:
                    generation = await self.generate(request)
                except RequestError as error:
                    refusals.append(f"{dialect.name}: {str(error)[:120]}")
                    self.attempts = min(self.attempts, PROBE_ATTEMPTS)
                    continue
                if _equals(generation.text, {"probe": word}):
                    self.gives_alternatives = bool(generation.tokens)
                    return []
                refusals.append(f"{dialect.name}{IGNORED}")
                break
        return refusals

    async def _check_length(self, messages: list[Message], answer_tokens: int, start: str) -> None:
        """Refuse a prompt that exceeds the context before it is sent.

        A token has at least one byte, so the size shows that most prompts fit. The server counts the tokens of longer ones.
        """
        if self.context is None:
            return
        most = sum(len(message.content.encode()) + 64 for message in messages) + len(start.encode())
        if most + answer_tokens <= self.context:
            return
        turns = [{"role": message.role, "content": message.content} for message in messages]
        try:
            answer = await self._send("/tokenize", {"model": self._model, "messages": turns}, root=True)
        except RequestError:
            return  # the server cannot count; it refuses prompts that are too long
        length = answer.get("count")
        if isinstance(length, int) and length + answer_tokens > self.context:
            raise ContextOverflowError(length, answer_tokens, self.context)

    async def _send(self, path: str, body: dict[str, Any] | None = None, *, root: bool = False) -> dict[str, Any]:
        """Get a path of the API, or post a body to it; ``root`` leaves out ``/v1``."""
        assert self._client is not None, "use the engine as `async with engine:`"
        base = self.base_url.removesuffix("/v1") if root else self.base_url
        problem = ""
        reached = False
        for attempt in range(self.attempts):
            pause = _pause(attempt)
            try:
                response = await self._client.request("GET" if body is None else "POST", base + path, json=body)
            except httpx.TransportError as error:
                problem = reason_of(error)
                reached = reached or not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            else:
                if response.is_success:
                    return _json_object(response)
                reached = True
                problem = _complaint(response)
                if response.status_code != 429 and response.status_code < 500:
                    raise ServerOverflowError(problem) if TOO_LONG.search(problem) else RequestError(problem)
                pause = _retry_after(response) or pause
            if attempt + 1 < self.attempts:
                await asyncio.sleep(pause)
        if not reached:
            raise EngineError(f"no server answers at {self.base_url} ({problem}); is it running?")
        raise RequestError(f"{problem}, after {self.attempts} tries")


def _pause(attempt: int) -> float:
    """Seconds to wait before the next attempt."""
    return min(30.0, 0.5 * float(2**attempt)) * random.uniform(0.8, 1.2)


def _aborted(answer: dict[str, Any]) -> bool:
    choices = answer.get("choices")
    return isinstance(choices, list) and any(isinstance(part, dict) and part.get("finish_reason") == "abort" for part in choices)


def _equals(answer: str, content: object) -> bool:
    try:
        return bool(json.loads(answer) == content)
    except ValueError:
        return False


def _json_object(response: httpx.Response) -> dict[str, Any]:
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise RequestError(f"{response.url.path} did not answer with a JSON object")
    return answer


def _complaint(response: httpx.Response) -> str:
    try:
        answer = response.json()
        error = answer.get("error", answer)
        text = error.get("message", error) if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        text = response.text
    return f"HTTP {response.status_code}: {str(text).strip()[:300]}"


def _retry_after(response: httpx.Response) -> float | None:
    value = response.headers.get("retry-after", "")
    return min(float(value), 60.0) if re.fullmatch(r"\d+(\.\d+)?", value) else None

"""Any server that speaks OpenAI's chat API: vLLM, SGLang, llama.cpp, Ollama, on this machine or across a fleet."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from judges.constraint import answer_pattern
from judges.engines.engine import Engine, EngineIdentity, Generation, Request, Token, Usage
from judges.errors import CannotContinueError, ContextOverflowError, EngineError, RequestError, ServerOverflowError
from judges.judge import Message

API_KEY_VARIABLE = "MAGISTRATE_API_KEY"

SPECIAL_TOKEN = re.compile(
    r"<[|｜][^|｜<>\s]{1,40}[|｜]?>|<[^|｜<>\s]{1,40}[|｜]>|</?s>|<</?SYS>>|<(?:start|end)_of_(?:turn|image)>"
    r"|</?(?:bos|eos|pad|unk|mask|sop|eop|image|think|tool_call|tool_response)>"
    r"|\[/?(?:INST|[A-Z]+(?:_[A-Z]+)+|gMASK|sMASK|MASK|CLS|SEP|PAD|UNK|IMG)\]"
)
"""Spellings of special tokens of the open model families. A server encodes the prompt, out of our reach."""


TOO_LONG = re.compile(r"context.{0,40}(length|window|size)|maximum.{0,40}tokens|too (long|large)", re.IGNORECASE)
FINISHED = ("stop", "length", "eos", None)


def defuse(text: str) -> str:
    """The text with a zero-width space inside each spelling of a special token, so that no server reads one as a token."""
    return SPECIAL_TOKEN.sub(lambda match: f"{match[0][0]}\u200b{match[0][1:]}", text)


@dataclass(frozen=True, slots=True)
class _Dialect:
    """How a family of servers takes a constraint."""

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
"""vLLM's own field, SGLang's own, and OpenAI's, in the order in which the probe tries them."""


class EndpointEngine(Engine):
    """Asks a server that speaks OpenAI's chat API.

    A request is tried again, with growing pauses, after a lost connection, a time-out, 429 and 5xx, and where the server stopped
    in the middle of the answer. An API key is read from
    ``MAGISTRATE_API_KEY``. Where the server runs a newer or older schema language than it says, the probe at the start finds
    out: it asks for an answer no model would give by itself.

    Args:
        model: The model's name on the server; ``None`` takes the only one it serves.
        base_url: Where the API lives, ``http://127.0.0.1:8000/v1`` for example.
        window: How many requests are in flight at once.
        timeout: Seconds to wait for one answer.
        attempts: How often a request is tried in all.
    """

    max_alternatives = 20

    def __init__(
        self,
        model: str | None,
        *,
        base_url: str,
        window: int = 64,
        timeout: float = 300.0,
        attempts: int = 5,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.window = window
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
            limits=httpx.Limits(max_connections=self.window, max_keepalive_connections=self.window),
        )
        await self._choose_model()
        await self._find_version()
        await self._probe()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def generate(self, request: Request) -> Generation:
        if request.answer_start and not self._dialect.takes_pattern:
            raise CannotContinueError("this server takes no regular expression, so a cut-off answer cannot be gone on with")
        messages = [Message(message.role, defuse(message.content)) for message in request.messages]
        await self._check_length(messages, request)
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            **self._dialect.constraint(request.pattern, request.schema),
        }
        if request.alternatives and self.gives_alternatives:
            body |= {"logprobs": True, "top_logprobs": min(request.alternatives, self.max_alternatives)}
        if request.seed is not None:
            body |= {"seed": request.seed}
        if request.stop:
            body |= {"stop": [request.stop]}
        if request.answer_start:
            body["messages"].append({"role": "assistant", "content": request.answer_start})
            body |= {"add_generation_prompt": False, "continue_final_message": True}
        for attempt in range(self.attempts):
            answer = await self._post("/chat/completions", body)
            if not _aborted(answer):
                break
            await asyncio.sleep(_pause(attempt))  # the server is stopping; another one may take its place
        return _generation(answer)

    async def _choose_model(self) -> None:
        try:
            listing = await self._get("/models")
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
            answer = await self._get("/version", root=True)
        except RequestError:
            return  # only some servers tell their version
        self._version = str(answer.get("version", "unknown"))

    async def _probe(self) -> None:
        """Find the dialect in which the server obeys a schema. Some servers take the field and silently ignore it."""
        word = f"kelp-{random.randrange(1000, 10000)}"
        schema = {"type": "object", "properties": {"probe": {"enum": [word]}}, "required": ["probe"]}
        question = (Message("user", "Say hello in one word."),)
        refusals = []
        for dialect in DIALECTS:
            self._dialect = dialect
            self.goes_on = dialect.takes_pattern
            for alternatives in (1, 0):  # a server that refuses log-probabilities may still obey the schema
                request = Request(question, 64, answer_pattern(schema), schema, alternatives=alternatives)
                try:
                    generation = await self.generate(request)
                except RequestError as error:
                    refusals.append(f"{dialect.name}: {str(error)[:120]}")
                    continue
                if _says(generation.text, word):
                    self.gives_alternatives = bool(generation.tokens)
                    return
                refusals.append(f"{dialect.name}: ignored")
                break
        raise EngineError(
            f"the server at {self.base_url} does not enforce a JSON schema, so its answers could not be trusted "
            f"({'; '.join(refusals)}); use a newer server, or `--engine vllm`"
        )

    async def _check_length(self, messages: list[Message], request: Request) -> None:
        """Refuse a prompt that cannot fit before it is sent.

        A token is at least one byte, so most prompts are known to fit by their size. Only a long one is worth asking the
        server, where it can count.
        """
        if self.context is None:
            return
        most = sum(len(message.content.encode()) + 64 for message in messages) + len(request.answer_start.encode())
        if most + request.max_tokens <= self.context:
            return
        turns = [{"role": message.role, "content": message.content} for message in messages]
        try:
            counted = await self._post("/tokenize", {"model": self._model, "messages": turns}, root=True)
        except RequestError:
            return  # the server cannot count; it refuses what is too long
        length = counted.get("count")
        if isinstance(length, int) and length + request.max_tokens > self.context:
            raise ContextOverflowError(length, request.max_tokens, self.context)

    async def _get(self, path: str, *, root: bool = False) -> dict[str, Any]:
        return await self._send("GET", path, None, root)

    async def _post(self, path: str, body: dict[str, Any], *, root: bool = False) -> dict[str, Any]:
        return await self._send("POST", path, body, root)

    async def _send(self, method: str, path: str, body: dict[str, Any] | None, root: bool) -> dict[str, Any]:
        assert self._client is not None, "use the engine as `async with engine:`"
        base = self.base_url.removesuffix("/v1") if root else self.base_url
        problem = ""
        reached = False
        for attempt in range(self.attempts):
            pause = _pause(attempt)
            try:
                response = await self._client.request(method, base + path, json=body)
            except httpx.TransportError as error:
                problem = str(error) or type(error).__name__
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
    return isinstance(choices, list) and any(isinstance(one, dict) and one.get("finish_reason") == "abort" for one in choices)


def _says(answer: str, word: str) -> bool:
    try:
        return bool(json.loads(answer) == {"probe": word})
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


def _generation(answer: dict[str, Any]) -> Generation:
    try:
        choice = answer["choices"][0]
        text = choice["message"]["content"] or ""
        reason = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise RequestError("the server's answer holds no message") from None
    if reason not in FINISHED:
        raise RequestError(f"the server broke the answer off ({reason})")
    counted = answer.get("usage") or {}
    cached = (counted.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    usage = Usage(counted.get("prompt_tokens") or 0, cached, counted.get("completion_tokens") or 0)
    positions = (choice.get("logprobs") or {}).get("content")
    tokens = [_token(position) for position in positions] if positions else None
    return Generation(text, reason != "length", usage, tokens)


def _token(position: dict[str, Any]) -> Token:
    alternatives: dict[str, float] = {}
    for choice in position.get("top_logprobs") or []:
        if (choice.get("logprob") or 0.0) > -1000 and choice.get("token") is not None:  # servers write minus infinity as -9999
            alternatives.setdefault(choice["token"], choice.get("logprob") or 0.0)
    return Token(str(position.get("token", "")), alternatives)

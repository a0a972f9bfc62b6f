"""What every engine is: something that continues a conversation with an answer of a given shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, get_args

from judges.judge import Message

Result = TypeVar("Result")

ConstraintName = Literal["outlines", "xgrammar", "guidance"]
CONSTRAINTS: tuple[ConstraintName, ...] = get_args(ConstraintName)
"""Constraint backends by the names users know. The first is the default."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model. Decoding is greedy, unless a temperature is given: judges give none but to be studied.

    Attributes:
        messages: The conversation so far.
        max_tokens: Room for the answer, in tokens.
        pattern: Regular expression that the whole answer must match, or ``None`` to let the model write freely.
        schema: JSON schema of the whole answer, for servers that take no regular expression.
        answer_start: Text of the answer that already stands. The engine goes on behind it, and then ``pattern`` is for what
            follows it.
        alternatives: How many of the likeliest tokens to report at each position.
        stop: Text that ends the answer and is no part of it; empty for none.
        temperature: Sampling temperature; 0 takes the likeliest token each time.
        seed: Seed of the draws; ``None`` with temperature 0.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    pattern: str | None = None
    schema: Mapping[str, Any] | None = None
    answer_start: str = ""
    alternatives: int = 0
    stop: str = ""
    temperature: float = 0.0
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """A token of an answer, and what else could have stood in its place.

    Attributes:
        text: The token's text.
        alternatives: Text to log-probability of the likeliest tokens at this position, this token's among them. Tokens of
            equal text are one entry.
    """

    text: str
    alternatives: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a judgement took. ``cached_tokens`` are the prompt tokens that a prefix cache served."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
        )


@dataclass(frozen=True, slots=True)
class Generation:
    """An answer.

    Attributes:
        text: The answer, without ``Request.answer_start``.
        complete: False where the token limit cut the answer off.
        usage: Tokens taken.
        tokens: The answer token by token where ``Request.alternatives`` asked for it and the engine can tell.
    """

    text: str
    complete: bool
    usage: Usage
    tokens: list[Token] | None = None


@dataclass(frozen=True, slots=True)
class EngineIdentity:
    """What an engine's answers depend on, as far as the engine knows it. Part of every verdict's fingerprint.

    Attributes:
        engine: ``vllm``, ``transformers`` or ``endpoint``.
        engine_version: The version of the library, or what the server says of itself.
        model: The model's name, as the user gave it.
        weights: Digest of the weights, tokenizer, template and configuration; ``None`` where a server hides them.
        constraint: The constraint backend.
        options: Whatever else changes answers: number format, quantisation, context length.
    """

    engine: str
    engine_version: str
    model: str
    weights: str | None
    constraint: str
    options: Mapping[str, Any] = field(default_factory=dict)


class Engine(ABC):
    """Answers requests, many at a time. Use it as ``async with engine:``.

    Attributes:
        window: How many requests in flight keep the engine busy.
        max_alternatives: The largest ``Request.alternatives`` the engine can serve.
        context: Length of the model's context in tokens, where it is known. Known once the engine is started.
        goes_on: Whether it can go on with an answer that was begun. Known once ``identify`` has been called.
    """

    window: int
    max_alternatives: int
    context: int | None = None
    goes_on: bool = True

    @abstractmethod
    async def identify(self) -> None:
        """Learn what ``identity`` needs. A local engine knows it already; a server must be asked.

        Raises:
            EngineError: The server does not answer, or cannot be used.
        """

    @abstractmethod
    async def start(self) -> None:
        """Load the model, or reach the server. Safe to call twice.

        Raises:
            EngineError: It cannot be loaded or reached; the message says why and what to do.
        """

    @abstractmethod
    async def close(self) -> None:
        """Let go of the model or the connections. Safe to call twice."""

    @property
    @abstractmethod
    def identity(self) -> EngineIdentity:
        """What the answers depend on. Known once ``identify`` has been called."""

    async def admit(self, pattern: str) -> None:
        """Make sure that a stranger's pattern keeps nobody waiting. Call it before a request with such a pattern.

        Raises:
            PatternError: The pattern is not in order, or takes too much time or memory to compile.
            RequestError: It cannot be compiled now.
            EngineError: The engine is not running.
        """
        return

    @abstractmethod
    async def generate(self, request: Request) -> Generation:
        """Answer one request.

        Raises:
            ContextOverflowError: The prompt and the room for the answer exceed the context; nothing was sent.
            RequestError: This request cannot be answered; others may be.
            EngineError: The engine can answer nothing more.
        """

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


async def and_close(run: Coroutine[Any, Any, Result], engine: Engine) -> Result:
    """Await something that needs an engine, and let the engine go."""
    try:
        return await run
    finally:
        await engine.close()

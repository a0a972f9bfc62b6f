"""The interface of engines, which answer a conversation under a constraint."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeVar, get_args

from judges.calibration import Calibration
from judges.errors import EngineError, RequestError
from judges.judge import Message, Prompt

Result = TypeVar("Result")

ConstraintName = Literal["outlines", "xgrammar", "guidance"]
CONSTRAINTS: tuple[ConstraintName, ...] = get_args(ConstraintName)
"""Names of the constraint backends. The first is the default."""


@dataclass(frozen=True, slots=True)
class ThoughtMarks:
    """What stands around the thought of a model that thinks before it answers.

    Attributes:
        ends: What the model writes at its thought's end.
        closes: Text between a thought and the answer.
        opens: Text before a thought, unless the chat template ends with it.
        skips: Text before an answer without a thought.
    """

    ends: str = "</think>"
    closes: str = "\n</think>\n\n"
    opens: str = ""
    skips: str = ""


THINK = ThoughtMarks()
"""Marks of most models. The chat template, or the model, writes ``<think>``."""

HARMONY = ThoughtMarks(
    ends="<|end|>",
    closes="<|end|><|start|>assistant<|channel|>final<|message|>",
    opens="<|channel|>analysis<|message|>",
    skips="<|channel|>final<|message|>",
)
"""Marks of gpt-oss: a thought and an answer are messages of two channels."""


PLAIN = "\n\n"
"""Separates messages that are shown without a chat template."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a model.

    Attributes:
        messages: The conversation so far.
        max_tokens: Room for the answer, in tokens.
        pattern: Regular expression that the whole answer must match; ``None`` leaves it unconstrained.
        schema: JSON schema of the whole answer, for servers that take no regular expression.
        plain: Whether the messages are the whole prompt, after the beginning-of-text token and without the chat template.
        thinks: Whether to write a thought in place of an answer, up to the mark that ends it, which is not part of it.
        thought: The thought before the answer, which the engine puts between the model's marks; ``None`` for no thought.
        answer_start: Beginning of the answer. The engine continues it, and ``pattern`` applies to the continuation.
        alternatives: Number of likeliest tokens to report at each position. An engine may report all legal tokens instead, and
            the written one alone where the pattern forces it.
        temperature: Sampling temperature; 0 takes the likeliest token each time.
        top_k: Number of likeliest tokens that a draw is made from; 0 draws from all.
        seed: Seed of the draws; ``None`` with temperature 0.
        given: Number of the prompt's last tokens whose log-probabilities are asked for, in place of an answer.
        classifies: Whether the logits of a classification head are asked for, in place of an answer.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    pattern: str | None = None
    schema: Mapping[str, Any] | None = None
    plain: bool = False
    thinks: bool = False
    thought: str | None = None
    answer_start: str = ""
    alternatives: int = 0
    temperature: float = 0.0
    top_k: int = 0
    seed: int | None = None
    given: int = 0
    classifies: bool = False

    @classmethod
    def of(cls, prompt: Prompt) -> Request:
        """The request for a prompt's answer."""
        form = prompt.form
        return cls(
            prompt.messages,
            form.max_tokens,
            form.pattern or None,
            schema=form.schema,
            plain=prompt.plain,
            answer_start=prompt.answer_start,
            classifies=form.classifies,
        )


@dataclass(frozen=True, slots=True)
class Token:
    """A token of an answer and its alternatives.

    Attributes:
        text: The token's text.
        alternatives: Text to log-probability of the likeliest tokens at this position, including this one. Tokens with equal text
            share an entry. Empty if none are reported.
    """

    text: str
    alternatives: Mapping[str, float]


def alternatives_of(choices: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Text to log-probability of the legal tokens among choices. Probabilities of equal texts are added.

    A vocabulary may spell a character by a token of its own and by its byte.
    """
    alternatives: dict[str, float] = {}
    for text, logprob in choices:
        if logprob > float("-inf"):
            known = alternatives.get(text)
            alternatives[text] = logprob if known is None else max(known, logprob) + math.log1p(math.exp(-abs(known - logprob)))
    return alternatives


@dataclass(frozen=True, slots=True)
class Usage:
    """Number of tokens used. ``cached_tokens`` are the prompt tokens served by a prefix cache."""

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
        complete: False if the token limit cut the answer off.
        usage: Tokens used.
        tokens: The answer's tokens if ``Request.alternatives`` is set and the engine reports them.
        given: Log-probabilities of the prompt's last tokens, in nats, as many as ``Request.given`` says.
    """

    text: str
    complete: bool
    usage: Usage
    tokens: list[Token] | None = None
    given: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class EngineIdentity:
    """Everything that an engine's answers are known to depend on. Part of every verdict's fingerprint.

    Attributes:
        engine: ``vllm``, ``transformers`` or ``endpoint``.
        engine_version: The version of the library, or the version that the server reports.
        model: The model's name, as given by the user.
        weights: Digest of the weights, tokenizer, template and configuration; ``None`` if a server hides them.
        constraint: The constraint backend.
        options: Other settings that change answers: number format, quantisation, context length.
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
        concurrency: Number of concurrent requests that keeps the engine busy.
        max_alternatives: The largest supported ``Request.alternatives``.
        context: Length of the model's context in tokens, ``None`` if unknown. Set when the engine starts.
        supports_prefill: Whether it can continue a given beginning of an answer. Set by ``identify``.
        calibration: What people give where the model expects a score; ``None`` if the model's folder says nothing.
        labels: Names of the labels of a classifier, in the order of its logits; ``None`` for a model that writes text. Its
            answers are JSON objects of each label's logit. Set by ``identify``.
    """

    concurrency: int
    max_alternatives: int
    context: int | None = None
    supports_prefill: bool = True
    calibration: Calibration | None = None
    labels: Sequence[str] | None = None

    @abstractmethod
    async def identify(self) -> None:
        """Collect the facts for ``identity``, which an endpoint requests from its server.

        Raises:
            EngineError: The server does not answer, or cannot be used.
        """

    @abstractmethod
    async def start(self) -> None:
        """Load the model, or connect to the server. Safe to call twice.

        Raises:
            EngineError: That failed; the message says why and what to do.
        """

    @abstractmethod
    async def close(self) -> None:
        """Release the model or the connections. Safe to call twice."""

    @property
    @abstractmethod
    def identity(self) -> EngineIdentity:
        """Everything that the answers depend on. Available after ``identify``."""

    async def admit(self, pattern: str) -> None:
        """Compile an untrusted pattern within limits, before the first request with it.

        Raises:
            PatternError: The pattern is invalid, or takes too much time or memory to compile.
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
            EngineError: The engine has failed.
        """

    def mistaken(self, request: Request) -> str | None:
        """Why a request is one for another kind of model; ``None`` if it is not."""
        if request.classifies == (self.labels is not None):
            return None
        what = "has no classification head" if request.classifies else "is a classifier and writes no text"
        return f"{self.identity.model} {what}"

    async def likelihood(self, prompt: str, text: str) -> Sequence[float]:
        """Log-probabilities of the tokens of ``text`` as the continuation of ``prompt``, in nats.

        Both are plain text: no chat template, and no constraint. A token that begins in the prompt and ends in the text counts.

        Raises:
            ContextOverflowError: They exceed the context.
            RequestError: The text has no tokens, or the server does not report log-probabilities of a prompt.
            EngineError: The engine has failed, or cannot tell.
        """
        raise EngineError(f"engine `{self.identity.engine}` cannot tell how likely a given text is")

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


class Closable(Protocol):
    """What is closed after use."""

    async def close(self) -> None:
        """Release the model or the connections."""


async def and_close(run: Coroutine[Any, Any, Result], used: Closable) -> Result:
    """Await a coroutine that needs an engine or a backend, and close that."""
    try:
        return await run
    finally:
        await used.close()


async def check_logits(engine: Engine) -> None:
    """Ask a running engine for one token, or for its head's logits, and check that these are numbers.

    A greedy choice among logits that are not numbers looks like an answer: without this, each sample gets the same score.

    Raises:
        EngineError: It is not a number. The weights are damaged, or too large for the number format.
    """
    asked = (Message("user", "1, 2, 3"),)
    request = Request(asked, max_tokens=1, alternatives=1)
    if engine.labels is not None:
        request = Request((*asked, Message("assistant", "4")), max_tokens=0, classifies=True)
    try:
        answer = await engine.generate(request)
    except RequestError:  # of the chat template: each sample gets its own
        return
    damaged = bool(answer.tokens and not answer.tokens[0].alternatives)
    if request.classifies:
        damaged = not all(map(math.isfinite, json.loads(answer.text).values()))
    if damaged:
        raise EngineError(
            f"{engine.identity.model} computes logits that are not numbers, so its scores would mean nothing: its weights are "
            "damaged, or too large for the number format (with float16, try `--dtype bfloat16`)"
        )

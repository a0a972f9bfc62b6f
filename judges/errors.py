"""Errors that a user can act on.

Every message says what was wrong, where, and what to do about it. The command line prints the message and nothing else.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class MagistrateError(Exception):
    """An error that a user can act on. Its text is one clear sentence."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Send it to another process with its text, whatever its constructor takes."""
        return _received, (type(self), self.args, self.__dict__)


def _received(kind: type[MagistrateError], arguments: tuple[Any, ...], fields: dict[str, Any]) -> MagistrateError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(fields)
    return error


class SampleError(MagistrateError):
    """A sample lacks a field, or a field has a value that the judge cannot read; ``problem`` says which, as ``is missing``."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"field `{field}` {problem}")
        self.field = field
        self.problem = problem


class RowError(ValueError):
    """A row that cannot be read, with the value of its ``id`` field if that can."""

    def __init__(self, problem: str, row_id: object = None) -> None:
        super().__init__(problem)
        self.id = row_id


class AnswerError(MagistrateError):
    """A model's answer is not a legal answer to the judge's question."""


class ContextOverflowError(MagistrateError):
    """A prompt and the room for its answer exceed the model's context. All lengths are in tokens.

    Args:
        prompt_tokens: Length of the rendered prompt.
        answer_tokens: Room that the judge needs for its answer.
        limit: Length of the model's context.
        at_least: Whether counting stopped before the end of the prompt.
    """

    def __init__(self, prompt_tokens: int, answer_tokens: int, limit: int, *, at_least: bool = False) -> None:
        room = f" and the answer needs room for {answer_tokens:,}" if answer_tokens else ""
        least = "at least " if at_least else ""
        super().__init__(
            f"context overflow: the prompt has {least}{prompt_tokens:,} tokens{room}, but the model's context holds {limit:,}"
        )
        self.prompt_tokens = prompt_tokens
        self.answer_tokens = answer_tokens
        self.limit = limit


class ServerOverflowError(ContextOverflowError):
    """A server refused a prompt as too long, without saying by how much; ``words`` are the server's."""

    def __init__(self, words: str) -> None:
        MagistrateError.__init__(self, f"context overflow: the server refused the prompt as too long ({words})")


class RequestError(MagistrateError):
    """The engine could not answer this one request. Other requests continue; a resumed run asks again."""


class CannotContinueError(RequestError):
    """The engine cannot continue a truncated answer."""


class EngineError(MagistrateError):
    """The engine cannot be started, or has failed. The run stops and keeps its verdicts."""


def reason_of(error: BaseException) -> str:
    """The reason of a failure in one line, without the number and the path that Python adds to a system error."""
    first, *more = str(getattr(error, "strerror", None) or error).strip().splitlines() or [type(error).__name__]
    return f"{first} {more[0].strip()}" if more and first.endswith(":") else first


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that offers the known name closest to this one; empty if none is close."""
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean `{near[0]}`?" if near else ""


def counted(amount: int, singular: str, plural: str | None = None) -> str:
    """A count with its noun: 1 instance, 2 instances."""
    return f"{amount:,} {singular if amount == 1 else plural or singular + 's'}"

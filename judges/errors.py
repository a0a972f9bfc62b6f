"""What can go wrong, in the words a user reads.

Every message says what was wrong, where, and what to do about it. The command line prints the message and nothing else.
"""


class MagistrateError(Exception):
    """A fault that a user can act on. Its text is one clear sentence."""


class SampleError(MagistrateError):
    """A sample lacks a field, or a field holds something a judge cannot read.

    Args:
        field: The name of the field at fault.
        problem: What is wrong with it, for example ``is missing``.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"field `{field}` {problem}")
        self.field = field
        self.problem = problem


class RowError(ValueError):
    """A row cannot be read as a whole.

    Args:
        problem: Why.
        own: What stands where its id does.
    """

    def __init__(self, problem: str, own: object = None) -> None:
        super().__init__(problem)
        self.id = own


class AnswerError(MagistrateError):
    """A model's answer is not a legal answer to the judge's question."""


class ContextOverflowError(MagistrateError):
    """A prompt and the room for its answer do not fit the model's context.

    Args:
        prompt_tokens: Length of the rendered prompt, in tokens.
        answer_tokens: Room the judge asks for its answer, in tokens.
        limit: Length of the model's context, in tokens.
        at_least: Whether the prompt has more tokens than were counted.
    """

    def __init__(self, prompt_tokens: int, answer_tokens: int, limit: int, *, at_least: bool = False) -> None:
        super().__init__(
            f"context overflow: the prompt has {'at least ' if at_least else ''}{prompt_tokens:,} tokens and the answer needs "
            f"room for {answer_tokens:,}, but the model's context holds {limit:,}"
        )
        self.prompt_tokens = prompt_tokens
        self.answer_tokens = answer_tokens
        self.limit = limit


class ServerOverflowError(ContextOverflowError):
    """A server refused a prompt as too long, without saying by how much.

    Args:
        words: What the server said.
    """

    def __init__(self, words: str) -> None:
        MagistrateError.__init__(self, f"context overflow: the server refused the prompt as too long ({words})")


class RequestError(MagistrateError):
    """The engine could not answer this one request. Other requests may go on; a resumed run asks again."""


class CannotContinueError(RequestError):
    """The engine has no way to go on with an answer that was cut off."""


class EngineError(MagistrateError):
    """The engine cannot be started, or can answer nothing more. The run stops and keeps what is judged."""


def reason_of(error: Exception) -> str:
    """Why something failed, in a line, without the number and the path that Python writes around a reason of the system."""
    return str(getattr(error, "strerror", None) or error).partition("\n")[0]


def counted(amount: int, one: str, more: str | None = None) -> str:
    """A count and what it counts: 1 instance, 2 instances."""
    return f"{amount:,} {one if amount == 1 else more or one + 's'}"

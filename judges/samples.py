"""Reading the fields of a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judges.errors import SampleError
from judges.judge import Sample


def text_field(sample: Sample, name: str) -> str:
    """A field that must be a string.

    Raises:
        SampleError: The field is missing, null or not a string.
    """
    if name not in sample:
        raise SampleError(name, "is missing")
    value = sample[name]
    if not isinstance(value, str):
        raise SampleError(name, f"must be a string, not {kind_of(value)}")
    return well_formed(value)


def turns_field(sample: Sample, name: str) -> str:
    """A conversation as one text, a turn a line.

    Raises:
        SampleError: The field is missing, or is neither a string nor a list of turns.
    """
    return "\n".join(turns_of(sample, name))


def turns_of(sample: Sample, name: str) -> list[str]:
    """The turns of a conversation; a string is one turn.

    Raises:
        SampleError: The field is missing, or is neither a string nor a list of turns.
    """
    value = sample.get(name)
    if not isinstance(value, list | tuple):
        return [text_field(sample, name)]
    return [_turn(turn, name, number) for number, turn in enumerate(value, start=1)]


def strings_field(sample: Sample, name: str) -> list[str]:
    """A field that must be a list of strings; it may be empty.

    Raises:
        SampleError: It is missing or something else.
    """
    if name not in sample:
        raise SampleError(name, "is missing")
    value = sample[name]
    if not isinstance(value, list | tuple):
        raise SampleError(name, f"must be a list of strings, not {kind_of(value)}")
    for number, text in enumerate(value, start=1):
        if not isinstance(text, str):
            raise SampleError(name, f"must hold strings; number {number} is {kind_of(text)}")
    return [well_formed(text) for text in value]


def well_formed(text: str) -> str:
    """The text with each lone surrogate, which no encoding can carry, as U+FFFD; two that belong together are their character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", errors="surrogatepass").decode("utf-16-le", errors="replace")
    return text


def _turn(turn: Any, field: str, number: int) -> str:
    if isinstance(turn, str):
        return well_formed(turn)
    if isinstance(turn, Mapping):
        content = turn.get("content", turn.get("text"))
        speaker = turn.get("role", turn.get("speaker"))
        if isinstance(content, str):
            return well_formed(f"{speaker}: {content}" if isinstance(speaker, str) else content)
    raise SampleError(field, f"must hold turns that are strings or objects with `content`; turn {number} is {kind_of(turn)}")


def kind_of(value: Any) -> str:
    """A JSON value's kind, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case Mapping():
            return "an object"
        case Sequence():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def spelt_tags(texts: Mapping[str, str], tags: Sequence[str]) -> list[str]:
    """Notes on texts of a sample that spell a tag of the prompt: a model may take what is behind it for the prompt's own words.

    Args:
        texts: Name to text, as the prompt shows them.
        tags: The prompt's own tags.
    """
    return [f"{name} holds `{tag}`, a tag of the prompt" for name, text in texts.items() for tag in tags if tag in text]

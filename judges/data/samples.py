"""Reads the fields of a sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from judges.data.files import parse_json
from judges.errors import SampleError
from judges.judge import Sample


def text_field(sample: Sample, name: str) -> str:
    """Read a string.

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
    """Read a conversation as one text with a line for each turn.

    Raises:
        SampleError: The field is missing, or is neither a string nor a list of turns.
    """
    return "\n".join(turns_of(sample, name))


def turns_of(sample: Sample, name: str) -> list[str]:
    """Read the turns of a conversation; a string is one turn.

    Raises:
        SampleError: The field is missing, or is neither a string nor a list of turns.
    """
    value = sample.get(name)
    if value is not None and not isinstance(value, str | list | tuple):
        raise SampleError(name, f"must be a string or a list of turns, not {kind_of(value)}")
    if not isinstance(value, list | tuple):
        return [text_field(sample, name)]
    return [_turn(turn, name, number) for number, turn in enumerate(value, start=1)]


def strings_field(sample: Sample, name: str) -> list[str]:
    """Read a list of strings, which may be empty.

    Raises:
        SampleError: The field is missing, or is not a list of strings.
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


ABSENT = object()
"""A value of nothing that a file can hold, for ``value_at``."""


def value_at(content: Any, path: str, absent: Any = None) -> Any:
    """The value of a column, or at a path into nested objects and lists: ``options.A``, ``annotations.Overall.0``.

    A name that contains dots itself comes before a path, and a path leads into a text that is JSON too, as a cell of a CSV file
    can be. ``absent`` if there is no such value.
    """
    for end in (len(path), *(place for place in range(len(path) - 1, -1, -1) if path[place] == ".")):
        found = _child(content, path[:end])
        if end < len(path) and found is not ABSENT:
            found = value_at(found, path[end + 1 :], ABSENT)
        if found is not ABSENT:
            return found
    return absent


def _child(content: Any, name: str) -> Any:
    content = parsed(content)
    if isinstance(content, Mapping):
        return content.get(name, ABSENT)
    is_place = isinstance(content, list | tuple) and name.isdecimal() and len(name) < 10
    return content[int(name)] if is_place and int(name) < len(content) else ABSENT


def parsed(content: Any) -> Any:
    """The list or the object that a text is in JSON; anything else as it is."""
    if not isinstance(content, str) or not content.lstrip().startswith(("[", "{")):
        return content
    try:
        return parse_json(content)
    except ValueError:
        return content


def paths_of(content: Any, depth: int = 3) -> Iterator[str]:
    """The columns of a sample and, behind each, the paths into it, ``depth`` names long at the most."""
    parts: Iterable[tuple[Any, Any]] = ()
    content = parsed(content)
    if isinstance(content, Mapping):
        parts = content.items()
    elif isinstance(content, list | tuple) and any(isinstance(one, Mapping | list | tuple) for one in content):
        parts = enumerate(content)
    for name, value in parts:
        yield str(name)
        if depth > 1:
            yield from (f"{name}.{path}" for path in paths_of(value, depth - 1))


def well_formed(text: str) -> str:
    """Replace each lone surrogate, which no encoding can represent, by U+FFFD, and join pairs into their character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", errors="surrogatepass").decode("utf-16-le", errors="replace")
    return text


def well_formed_content(value: Any) -> Any:
    """The content of a sample with every text in it well formed."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, Mapping):
        return {well_formed(str(key)): well_formed_content(part) for key, part in value.items()}
    return [well_formed_content(part) for part in value] if isinstance(value, list | tuple) else value


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
    """A JSON value's type in words."""
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
    """Note each text of a sample that contains a tag of the prompt: a model may read what follows it as instructions.

    ``texts`` maps the name of each text to the text.
    """
    return [f"{name} holds `{tag}`, a tag of the prompt" for name, text in texts.items() for tag in tags if tag in text]

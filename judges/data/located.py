"""Reads TOML and YAML with the line of every value, for error messages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from judges.data.files import check_file
from judges.data.samples import kind_of
from judges.errors import MagistrateError, reason_of

SUFFIXES = (".toml", ".yaml", ".yml")
MOST_BYTES = 1_000_000
MOST_FAILURES = 1_000
"""Maximum number of attempts to find the ends of long TOML statements; later values have no line."""

MOST_READ_AGAIN = 2_000_000
"""Maximum number of characters parsed in these attempts."""

DEEPEST = 64
"""Maximum nesting of tables and lists, and of the parts of a TOML key, whose parsing takes quadratic time."""

MOST_NODES = 20_000
"""Maximum number of keys and values of a YAML file; so many take a second or two to read."""

LONGEST_NUMBER = 400
"""Maximum number of characters of a YAML number: one to base 60 takes quadratic time."""

KEY_PART = r"""(?:(?<![\w-])[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
DEEP_KEY = re.compile(rf"{KEY_PART}(?:[ \t]*+\.[ \t]*+{KEY_PART}){{{DEEPEST}}}")

CLOSING = re.compile(r"\]|\"{3}|'{3}")
"""Matches the last line of a TOML statement of several lines."""

Place = tuple[str | int, ...]
"""The keys and list positions that lead to a value."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a file. ``line`` is ``None`` if it has no line, like a missing key of the whole file."""

    line: int | None
    message: str


@dataclass(frozen=True, slots=True)
class Fault:
    place: Place
    message: str
    line: int | None = None


class UnreadableError(Exception):
    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.problem = Problem(line, message)


@dataclass(frozen=True, slots=True)
class LocatedFile:
    """The content of a file, faults that its language permits, and a function that computes the line of each value."""

    content: Any
    faults: list[Fault]
    lines: Callable[[], Mapping[Place, int]]


def read_located(path: Path) -> LocatedFile:
    """Read a ``.toml``, ``.yaml`` or ``.yml`` file.

    Raises:
        UnreadableError: It cannot be read, or has another suffix.
    """
    return locate(_file_text(path), path.suffix.lower())


def locate(text: str, suffix: str) -> LocatedFile:
    """Read the text of a file with one of the ``SUFFIXES``. Limits bound the time and memory for untrusted text.

    Raises:
        UnreadableError: It cannot be read.
    """
    source = _toml(text) if suffix == ".toml" else _yaml(text)
    _check_size(source)
    return source


def _check_size(source: LocatedFile) -> None:
    """Refuse content nested too deeply to be walked recursively, and whole numbers too long to be printed."""
    parts: list[tuple[Place, Any]] = [((), source.content)]
    while parts:
        place, value = parts.pop()
        if len(place) > DEEPEST:
            raise UnreadableError("is nested too deeply")
        if isinstance(value, int) and value.bit_length() > 63:
            spelt = ".".join(map(str, place))
            raise UnreadableError(f"{spelt}: is a whole number of more than 64 bits", line_of(place, source.lines()))
        parts += [((*place, key), part) for key, part in _parts(value)]


def _file_text(path: Path) -> str:
    if path.suffix.lower() not in SUFFIXES:
        raise UnreadableError("the file must end in .toml, .yaml or .yml")
    try:
        check_file(path)
    except MagistrateError as error:
        raise UnreadableError(str(error).removeprefix(f"{path} ")) from None
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UnreadableError(f"cannot be read: {reason_of(error)}") from None
    if len(content) > MOST_BYTES:
        raise UnreadableError(f"is larger than {MOST_BYTES:,} bytes, too large to be read")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UnreadableError("is not UTF-8 text", content[: error.start].count(b"\n") + 1) from None


def _toml(text: str) -> LocatedFile:
    if deep := DEEP_KEY.search(text):
        raise UnreadableError("is nested too deeply", text.count("\n", 0, deep.start()) + 1)
    try:
        return LocatedFile(tomllib.loads(text), [], lambda: _toml_lines(text))
    except RecursionError:
        raise UnreadableError("is nested too deeply") from None
    except ValueError as error:
        message, _, where = str(error).partition(" (at ")
        number = re.match(r"line ([0-9]+)", where)
        line = int(number[1]) if number else len(text.rstrip().split("\n")) if where else None
        raise UnreadableError(f"is not TOML: {message}", line) from None


def _toml_lines(text: str) -> dict[Place, int]:
    """The line on which each value's statement starts. The parser reports no lines, so it gets one statement at a time."""
    lines: dict[Place, int] = {}
    header: Place = ()
    counts: dict[Place, int] = {}
    for line, statement in _toml_statements(text):
        content = tomllib.loads(statement)
        if statement.startswith("["):
            header = _toml_header(content, counts)
            lines.setdefault(header, line)
        else:
            _note(content, header, line, lines)
    return lines


def _toml_statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each statement, which ends at the first line at which it parses."""
    lines = text.split("\n")
    start = failures = read_again = 0
    while start < len(lines):
        end = start + 1
        if lines[start].strip() and not lines[start].strip().startswith("#"):
            while not _parses(lines[start:end]):
                read_again += sum(map(len, lines[start:end]))
                end, failures = end + 1, failures + 1
                while end < len(lines) and not CLOSING.search(lines[end - 1]):
                    end += 1
                if failures > MOST_FAILURES or read_again > MOST_READ_AGAIN or end > len(lines):
                    return
            yield start + 1, "\n".join(lines[start:end]).strip()
        start = end


def _parses(lines: list[str]) -> bool:
    try:
        tomllib.loads("\n".join(lines))
    except ValueError:
        return False
    return True


def _toml_header(content: Any, counts: dict[Place, int]) -> Place:
    """The place that a table's header opens. ``counts`` holds the number of tables so far in each list of tables."""
    place: Place = ()
    while content:
        ((key, content),) = content.items()
        place = (*place, key)
        if isinstance(content, list):
            content = content[0]
            counts[place] = counts.get(place, 0) + 1
        if place in counts:
            place = (*place, counts[place] - 1)
    return place


def _note(value: Any, place: Place, line: int, lines: dict[Place, int]) -> None:
    lines.setdefault(place, line)
    for key, part in _parts(value):
        _note(part, (*place, key), line, lines)


def _parts(value: Any) -> Iterable[tuple[str | int, Any]]:
    return value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()


def _yaml(text: str) -> LocatedFile:
    try:
        root = yaml.compose(text, Loader=_Composer)
        reader = _YamlReader()
        content = reader.read(root, ()) if root is not None else {}
    except RecursionError:
        raise UnreadableError("is nested too deeply") from None
    except yaml.reader.ReaderError as error:
        raise UnreadableError(f"is not YAML: {error.reason}", text[: error.position].count("\n") + 1) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UnreadableError(f"is not YAML: {error.problem or error.context}", mark and mark.line + 1) from None
    return LocatedFile(content, reader.faults, lambda: reader.lines)


class _Composer(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Composes YAML's nodes within limits and without aliases: a short text with aliases may be a huge value, and nested
    brackets take quadratic time."""

    depth = nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            alias = self.peek_event()
            raise UnreadableError(f"`*{alias.anchor}` is an alias: write the value out", alias.start_mark.line + 1)
        self.depth, self.nodes = self.depth + 1, self.nodes + 1
        if self.depth > DEEPEST:
            raise UnreadableError("is nested too deeply")
        if self.nodes > MOST_NODES:
            raise UnreadableError(f"holds more than {MOST_NODES:,} keys and values", self.peek_event().start_mark.line + 1)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


@dataclass
class _YamlReader:
    """Reads YAML's nodes into values that JSON can represent, and notes their lines."""

    faults: list[Fault] = field(default_factory=list)
    lines: dict[Place, int] = field(default_factory=dict)

    def read(self, node: Any, place: Place) -> Any:
        self.lines.setdefault(place, node.start_mark.line + 1)
        kind = node.tag.rpartition(":")[2]
        if kind == "map" and isinstance(node, yaml.MappingNode):
            return self._table(node, place)
        if kind == "seq" and isinstance(node, yaml.SequenceNode):
            return [self.read(part, (*place, number)) for number, part in enumerate(node.value)]
        return self._scalar(node, place)

    def _scalar(self, node: Any, place: Place) -> Any:
        kind = node.tag.rpartition(":")[2]
        if kind in ("int", "float") and len(node.value) > LONGEST_NUMBER:
            self._fault(node, place, f"is a number of more than {LONGEST_NUMBER} characters")
            return str(node.value)
        try:
            if kind in ("str", "int", "float", "bool", "null") and isinstance(node, yaml.ScalarNode):
                return yaml.SafeLoader("").construct_object(node)
        except (ValueError, LookupError, yaml.YAMLError):
            pass
        self._fault(node, place, f"is read as a {kind}, which JSON does not have: put it in quotes")
        return str(node.value)

    def _table(self, node: Any, place: Place) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, place)
            if key in table:
                self._fault(key_node, (*place, key), "is written twice")
            elif key is not None:
                self.lines[(*place, key)] = key_node.start_mark.line + 1
                table[key] = self.read(value_node, (*place, key))
        return table

    def _key(self, node: Any, place: Place) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._fault(node, place, "has a key that is not text")
            return None
        key = self._scalar(node, place)
        if isinstance(key, str) or type(key) is int:
            return str(key)
        self._fault(node, place, f"the key `{node.value}` is read as {kind_of(key)}: put it in quotes")
        return None

    def _fault(self, node: Any, place: Place, message: str) -> None:
        self.faults.append(Fault(place, message, node.start_mark.line + 1))


def line_of(place: Place, lines: Mapping[Place, int]) -> int | None:
    """The line of a place, or of the nearest enclosing table."""
    while place and place not in lines:
        place = place[:-1]
    return lines[place] if place else None

"""Cuts a prompt out of the file in which its authors published it. Nothing of the file is run."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from judges.data.located import UnreadableError, locate
from judges.errors import MagistrateError, reason_of

Style = Literal["format", "jinja", "names"]
"""How a text writes the place of a value.

``format``: ``{name}`` with doubled braces for braces, as ``str.format`` has it; ``jinja``: ``{{name}}``; ``names``: ``{name}``
where ``values`` has the name, and braces as they stand elsewhere.
"""

FENCE = re.compile(r"^```[^\n`]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
JINJA = re.compile(r"\{\{ *(\w+) *\}\}")
FORMAT = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w.]*)\}")
NAMES = re.compile(r"\{(\w+)\}")


MASK = "\ue000"
"""Stands around the place of a value in the text of an f-string; no published prompt has this private-use character."""


@dataclass(frozen=True, slots=True)
class Hole:
    """The place of a value in a text."""

    name: str


Words = tuple[str | Hole, ...]
"""A text whose values are not filled in."""


class Cut(BaseModel):
    """How a text is cut out of a file: the steps that are given, in this order.

    Attributes:
        source: Name of the source, if there are several.
        fence: Number of a fenced block of Markdown, from 1.
        python: A module's constant, ``NAME``; an argument of the call that makes one, ``NAME.argument``; a function's variable,
            ``function.variable``; or what a function returns, ``function.return``. A class's name may stand before it.
        nth: Which of several assignments to that name, from 1.
        yaml: The keys that lead to the text, separated by dots. Another value than a text is spelt as Python spells it.
        json_path: The keys that lead to the text in JSON (``json``).
        after: Words behind which the text begins.
        before: Words at which it then ends.
        line: Number of a line of it, from 1.
        strip: Whether white space around it is left out.
        style: How it writes the place of a value. An f-string of Python needs no style.
        text: The text itself, in place of a cut.
        each_level: A line for each level of the criterion, in place of a cut: ``{score}`` and ``{description}`` are filled in.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    source: str | None = None
    fence: int | None = Field(None, ge=1)
    python: str | None = None
    nth: int = Field(1, ge=1)
    yaml: str | None = None
    json_path: str | None = Field(None, alias="json")
    after: str | None = Field(None, min_length=1)
    before: str | None = Field(None, min_length=1)
    line: int | None = Field(None, ge=1)
    strip: bool = False
    style: Style = "format"
    text: str | None = None
    each_level: str | None = None

    @property
    def own(self) -> str | None:
        """The text that the template's file itself has; ``None`` if it is cut out of a source."""
        return self.text if self.text is not None else self.each_level

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        steps = {"source", "fence", "python", "nth", "yaml", "json_path", "after", "before", "line"} & self.model_fields_set
        if self.text is not None and self.each_level is not None:
            raise ValueError("has both `text` and `each_level`; keep one")
        if self.own is not None and steps:
            raise ValueError(f"has its text here, so `{sorted(steps)[0].removesuffix('_path')}` has no meaning; leave one out")
        return self

    def words(self, file: str, names: Sequence[str]) -> Words:
        """Cut the text out of a file's content.

        Args:
            file: The content; it does not matter if the text stands here.
            names: The names of values, for the style ``names``.

        Raises:
            MagistrateError: A step finds nothing.
        """
        if self.own is not None:
            return parsed(self.own, self.style, names)
        if MASK in file:
            raise MagistrateError("it has the private-use character U+E000")
        if self.fence is not None:
            file = _nth(FENCE.findall(file), self.fence, f"fenced block {self.fence}")
        parts = (file,) if self.python is None else python_text(file, self.python, self.nth)
        text = _masked(parts)
        for keys, content in ((self.yaml, _yaml), (self.json_path, json.loads)):
            text = text if keys is None else _at(content, text, keys)
        text = text if self.after is None else _partition(text, self.after)[1]
        text = text if self.before is None else _partition(text, self.before)[0]
        text = text if self.line is None else _nth(text.split("\n"), self.line, f"line {self.line}")
        text = text.strip() if self.strip else text.removesuffix("\n") if self.style == "jinja" else text  # as Jinja does
        return _unmasked(text) if any(isinstance(part, Hole) for part in parts) else parsed(text, self.style, names)


def _masked(words: Words) -> str:
    return "".join(part if isinstance(part, str) else f"{MASK}{part.name}{MASK}" for part in words)


def _unmasked(text: str) -> Words:
    parts = [Hole(part) if number % 2 else part for number, part in enumerate(text.split(MASK))]
    return tuple(part for part in parts if part != "")


def parsed(text: str, style: Style, names: Sequence[str]) -> Words:
    """Find the places of values in a text."""
    parts: list[str | Hole] = []
    end = 0
    for match in {"format": FORMAT, "jinja": JINJA, "names": NAMES}[style].finditer(text):
        name = match[1] if match.lastindex else None
        if name is not None and style == "names" and name not in names:
            continue
        parts += [text[end : match.start()], match[0][0] if name is None else Hole(name)]
        end = match.end()
    return tuple(part for part in (*parts, text[end:]) if part != "")


def _nth(parts: Sequence[str], number: int, what: str) -> str:
    if number > len(parts):
        raise MagistrateError(f"it has no {what}")
    return parts[number - 1]


def _partition(text: str, words: str) -> tuple[str, str]:
    before, found, after = text.partition(words)
    if not found:
        raise MagistrateError(f"it has no {json.dumps(words, ensure_ascii=False)}")
    return before, after


def _yaml(text: str) -> Any:
    return locate(text, ".yaml").content


def _at(read: Any, text: str, keys: str) -> str:
    try:
        value = read(text)
        for key in keys.split("."):
            value = value[int(key)] if isinstance(value, list) else value[key]
    except (ValueError, LookupError, TypeError, RecursionError, UnreadableError) as error:
        raise MagistrateError(f"it has no text at `{keys}` ({reason_of(error)})") from None
    return value if isinstance(value, str) else repr(value)  # as an f-string of Python shows it


def python_text(module: str, path: str, nth: int = 1) -> Words:
    """The text of a Python module at a path: see ``Cut.python``. An f-string has a place of a value for each
    expression in it, which its source names.

    Raises:
        MagistrateError: It is not Python, or has no text there.
    """
    try:
        tree = ast.parse(module)
        found = list(_values(tree, path))
        if nth > len(found):
            raise MagistrateError(f"its Python has no `{path}`" if not found else f"its Python has `{path}` {len(found)} times")
        return _text(found[nth - 1], path)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise MagistrateError(f"it is not Python: {reason_of(error)}") from None


def _values(tree: ast.AST, path: str) -> Iterator[ast.expr]:
    name, _, inner = path.partition(".")
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            yield from _values(node, inner)
        elif isinstance(node, ast.FunctionDef) and node.name == name:
            yield from _in_function(node, inner)
        elif (value := _assigned(node, name)) is not None:
            if not inner:
                yield value
            elif isinstance(value, ast.Call):
                yield from (keyword.value for keyword in value.keywords if keyword.arg == inner)


def _in_function(function: ast.FunctionDef, inner: str) -> Iterator[ast.expr]:
    statements = [node for node in ast.walk(function) if isinstance(node, ast.stmt)]
    for node in sorted(statements, key=lambda node: node.lineno):
        if inner == "return" and isinstance(node, ast.Return) and node.value is not None:
            yield node.value
        elif (value := _assigned(node, inner)) is not None:
            yield value


def _assigned(node: ast.AST, name: str) -> ast.expr | None:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
    return getattr(node, "value", None) if named else None


def _text(node: ast.expr, path: str) -> Words:
    """The text of an expression: strings, f-strings, sums of them, ``.strip()`` and ``textwrap.dedent``."""
    match node:
        case ast.Constant(value=str(text)):
            return (text,)
        case ast.JoinedStr(values=values):
            return tuple(part for value in values for part in _text(value, path))
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return (Hole(ast.unparse(value)),)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (*_text(left, path), *_text(right, path))
        case ast.Call(func=ast.Attribute(value=inner, attr="strip"), args=[], keywords=[]):
            return (_plain(inner, path).strip(),)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="textwrap"), attr="dedent"), args=[inner], keywords=[]):
            return (textwrap.dedent(_plain(inner, path)),)
    raise MagistrateError(f"its Python makes `{path}` in a way that is not a text as it stands")


def _plain(node: ast.expr, path: str) -> str:
    parts = _text(node, path)
    if any(isinstance(part, Hole) for part in parts):
        raise MagistrateError(f"its Python changes `{path}` after values are filled in")
    return "".join(map(str, parts))

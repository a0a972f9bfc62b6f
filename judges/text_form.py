"""Answers in a text of their own: a pattern of fixed words and named parts.

A fine-tuned judge was trained to answer in its own words, such as ``... [RESULT] 4``. Free text before fixed words ends where
they first occur, in the constraint as in the reading, so that an answer can be read in one way only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from judges.answer_text import Place, Remainder
from judges.constraint import escaped, up_to
from judges.data.samples import well_formed
from judges.errors import AnswerError
from judges.form import AnswerForm

TEXT = "text"
JSON_TEXT = "json text"
SPACE = "space"
FREE = (TEXT, JSON_TEXT, SPACE)
"""Kinds of parts without legal values: any text, the inside of a JSON string, and white space."""

ANY = r"[^\x00]"
"""Matches any character of an answer."""

JSON_CHARACTERS = r'([^"\\\x00-\x1F\x7F-\x9F]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*'
LONGEST_SPACE = 4
SPACES = rf"[ \n]{{0,{LONGEST_SPACE}}}"
"""White space of at most ``LONGEST_SPACE`` characters, so that a weak model cannot write it without end."""

_JSON_TEXT = re.compile(JSON_CHARACTERS)
_SPACES = re.compile(SPACES)


Legal = tuple[int, ...] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A named part of an answer.

    Attributes:
        name: Its name.
        legal: Its legal values: whole numbers or labels; empty if it is free.
        kind: Which characters it may have if it is free: one of ``FREE``.
    """

    name: str
    legal: Legal = ()
    kind: str = ""

    @property
    def is_number(self) -> bool:
        """Whether its values are whole numbers."""
        return bool(self.legal) and isinstance(self.legal[0], int)


Piece = str | Part
"""Fixed words, or a part."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A part of an answer and where it stands; ``end`` is ``None`` if it may be unfinished."""

    part: Part
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class _Walk:
    """How far an answer follows the pieces.

    Attributes:
        found: The parts found.
        piece: Number of the piece at which the answer ends, or departs from the form; the number of pieces if it has them all.
        at: Where that piece begins.
        fits: Whether the answer may still become whole.
    """

    found: Sequence[_Found]
    piece: int
    at: int
    fits: bool


@dataclass(frozen=True)
class TextForm(AnswerForm):
    """A text with named parts.

    Args:
        pieces: Fixed words and parts, in their order. Fixed words stand between any two parts.
        max_tokens: Room for an answer, in tokens.
    """

    pieces: tuple[Piece, ...]
    max_tokens: int

    @cached_property
    def parts(self) -> Sequence[Part]:
        """The parts, in their order."""
        return [piece for piece in self.pieces if isinstance(piece, Part)]

    @property
    def schema(self) -> None:
        return None

    @property
    def hashed(self) -> Mapping[str, Any]:
        pieces = [piece if isinstance(piece, str) else [piece.name, piece.kind, *piece.legal] for piece in self.pieces]
        return {"pieces": pieces, "room": self.max_tokens}

    @cached_property
    def pattern(self) -> str:
        return self._from(0)

    @cached_property
    def terse_room(self) -> int:
        return sum(map(_longest, self.pieces))

    def changed(self, names: Mapping[str, str], legal: Mapping[str, Legal] | None = None) -> TextForm:
        """The same form with other names of parts, or other legal values; a part that is not mentioned stays as it is."""
        pieces = [
            piece if isinstance(piece, str) else replace(piece, **_change(piece, names, legal or {})) for piece in self.pieces
        ]
        return TextForm(tuple(pieces), self.max_tokens)

    def read(self, answer: str) -> dict[str, int | str]:
        """Map each part of an answer to its value: a number, a label, or text without the white space around it."""
        answer = well_formed(answer)
        walk = self._walk(answer)
        trailing = answer[walk.at :].strip() if walk.piece == len(self.pieces) else ""
        if walk.piece < len(self.pieces) or trailing:
            raise AnswerError(self._departure(walk, answer, trailing))
        return {found.part.name: _value(found.part, answer[found.start : found.end]) for found in walk.found}

    def place(self, answer: str, path: tuple[str, ...]) -> Place | None:
        (name,) = path
        for found, after in pairwise([*self._walk(answer).found, None]):
            if found is not None and found.part.name == name and found.end is not None:
                return Place(found.start, found.end, answer[found.end : len(answer) if after is None else after.start])
        return None

    def remainder(self, text: str, *, terse: bool) -> Remainder | None:
        walk = self._walk(text, whole=False)
        if not walk.fits or walk.piece == len(self.pieces):
            return None
        piece = self.pieces[walk.piece]
        if isinstance(piece, str):  # cut off inside fixed words
            return Remainder(text, escaped(piece[len(text) - walk.at :]) + self._from(walk.piece + 1, terse=terse))
        if piece.legal:
            return Remainder(text[: walk.at], self._from(walk.piece, terse=terse))
        if walk.piece + 1 == len(self.pieces):  # the text that ends an answer may end anywhere
            return None
        words = str(self.pieces[walk.piece + 1])
        if piece.kind == JSON_TEXT:  # a half-written escape is left out, and a quote in the text is no end of it
            kept = text[: walk.at] + _matched(_JSON_TEXT, text, walk.at)
            begun = 0
        else:
            kept, begun = text, _overlap(text[walk.at :], words)
        return Remainder(kept, escaped(words[begun:]) + self._from(walk.piece + 2, terse=terse))

    def _from(self, number: int, *, terse: bool = False) -> str:
        """The pattern of all pieces from one on."""
        pattern = ""
        while number < len(self.pieces):
            piece = self.pieces[number]
            following = self.pieces[number + 1] if number + 1 < len(self.pieces) else None
            if isinstance(piece, str):
                pattern += escaped(piece)
            elif piece.legal:
                pattern += f"({'|'.join(escaped(str(value)) for value in piece.legal)})"
            elif terse:
                pass
            elif piece.kind == TEXT and isinstance(following, str):
                pattern += up_to(following)
                number += 1
            else:
                pattern += {TEXT: f"{ANY}*", JSON_TEXT: JSON_CHARACTERS, SPACE: SPACES}[piece.kind]
            number += 1
        return pattern

    def _walk(self, text: str, *, whole: bool = True) -> _Walk:
        """Follow an answer, or the beginning of one, piece by piece as far as it goes."""
        found: list[_Found] = []
        at = 0
        for number, piece in enumerate(self.pieces):
            if isinstance(piece, str):
                if not text.startswith(piece, at):
                    return _Walk(found, number, at, piece.startswith(text[at:]))
                at += len(piece)
                continue
            following = self.pieces[number + 1] if number + 1 < len(self.pieces) else None
            end = _end_of(piece, text, at, following if isinstance(following, str) else None, whole=whole)
            found.append(_Found(piece, at, end))
            if end is None:
                return _Walk(found, number, at, fits=not piece.legal or _begins(text[at:], piece))
            at = end
        return _Walk(found, len(self.pieces), at, fits=True)

    def _departure(self, walk: _Walk, answer: str, trailing: str) -> str:
        """Say where an answer departs from the form."""
        if trailing:
            return f"the answer goes on with {_shown(trailing)} where it should end"
        piece = self.pieces[walk.piece]
        given = _shown(answer[walk.at :])
        if isinstance(piece, str):
            return f"the answer has {given} where {json.dumps(piece, ensure_ascii=False)} should stand"
        if piece.legal:
            legal = ", ".join(map(str, piece.legal))
            return f"{piece.name}: {given} is not one of {legal}"
        words = json.dumps(str(self.pieces[walk.piece + 1]), ensure_ascii=False)
        return f"{piece.name}: nothing follows it, where {words} should stand"


def _change(part: Part, names: Mapping[str, str], legal: Mapping[str, Legal]) -> dict[str, Any]:
    given: dict[str, Any] = {"legal": legal[part.name], "kind": ""} if part.name in legal else {}
    return given | {"name": names.get(part.name, part.name)}


def _shown(text: str) -> str:
    return json.dumps(text[:60], ensure_ascii=False) if text.strip() else "nothing"


def _value(part: Part, text: str) -> int | str:
    if part.is_number:
        return int(text)
    if part.kind == JSON_TEXT:
        text = well_formed(str(json.loads(f'"{text}"')))
    return text if part.legal else text.strip()


def _longest(piece: Piece) -> int:
    """Bytes of a piece without free text, and so its most tokens."""
    if isinstance(piece, str):
        return len(piece.encode())
    return max((len(str(value).encode()) for value in piece.legal), default=0)


def _end_of(part: Part, text: str, at: int, following: str | None, *, whole: bool) -> int | None:
    """The end of a part that begins at a place; ``None`` if it is not to be seen, or the part may go on.

    Args:
        part: The part.
        text: The answer, or its beginning.
        at: Where the part begins.
        following: The fixed words behind it, if there are any.
        whole: Whether the text is the whole answer.
    """
    if not whole and _may_go_on(part, text[at:]):
        return None
    ends = list(_ends(part, text, at, following))
    return next((end for end in ends if _goes_on(text[end:], following, whole=whole)), next(iter(ends), None))


def _ends(part: Part, text: str, at: int, following: str | None) -> Iterator[int]:
    """The places where a part may end, the longest first."""
    if part.legal:
        yield from sorted((at + len(str(value)) for value in part.legal if text.startswith(str(value), at)), reverse=True)
    elif part.kind == SPACE:
        yield from range(at + len(_matched(_SPACES, text, at)), at - 1, -1)
    elif part.kind == JSON_TEXT:
        end = at + len(_matched(_JSON_TEXT, text, at))
        yield from [end] if text.startswith('"', end) else []
    else:
        end = len(text) if following is None else text.find(following, at)
        yield from [end] if end >= 0 else []


def _goes_on(rest: str, following: str | None, *, whole: bool) -> bool:
    """Whether what is behind a part begins with the fixed words, as far as it goes."""
    return following is None or rest.startswith(following) or (not whole and following.startswith(rest))


def _may_go_on(part: Part, text: str) -> bool:
    """Whether a part that is cut off after a text may go on."""
    if part.legal:
        return any(str(value) != text and str(value).startswith(text) for value in part.legal)
    return part.kind == SPACE and len(_matched(_SPACES, text, 0)) == len(text)


def _matched(pattern: re.Pattern[str], text: str, at: int) -> str:
    """The text that a pattern matches at a place, perhaps empty."""
    match = pattern.match(text, at)
    return match[0] if match else ""


def _begins(text: str, part: Part) -> bool:
    return any(str(value).startswith(text) for value in part.legal)


def _overlap(text: str, words: str) -> int:
    """Length of the longest end of a text that the words begin with."""
    return next((length for length in range(len(words) - 1, 0, -1) if text.endswith(words[:length])), 0)


def parts_in(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the fixed words and the part's name that follows, for each part of ``words {part} words``; last, words alone.

    ``{{`` and ``}}`` are braces.
    """
    words = ""
    for match in re.finditer(r"\{\{|\}\}|\{([^{}]*)\}|[^{}]+|[{}]", pattern):
        if match[1] is None:
            words += {"{{": "{", "}}": "}"}.get(match[0], match[0])
        else:
            yield words, match[1]
            words = ""
    yield words, ""

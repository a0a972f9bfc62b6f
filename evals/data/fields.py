"""What the arena's loaders share: rows in the right encoding, and the texts and names in a row's fields."""

from __future__ import annotations

import codecs
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from judges.data.rows import Row, read_rows
from judges.data.samples import kind_of, well_formed
from judges.errors import MagistrateError
from judges.pairwise import CHINESE

TABLES = (".csv", ".xlsx")
"""Suffixes of files whose cells can hold nothing but a text or a number, so that a list stands there as JSON."""

SPOILT = "looks as if it had been read in the wrong encoding"

EXCERPT = 12
"""Characters that a message quotes."""

_NOT_UTF8 = "is not UTF-8"
_CHINESE_WORD = re.compile(f"(?:{CHINESE.pattern}){{2}}")
_ESCAPED = re.compile("[\udc80-\udcff]")
_LANGUAGES = {"zh": "CN", "zh-cn": "CN", "chinese": "CN", "中文": "CN", "cn": "CN", "en": "EN", "english": "EN", "英文": "EN"}


def rows_of(path: Path, encoding: str | None = None) -> Iterator[Row]:
    """The rows of a file.

    Raises:
        MagistrateError: As ``read_rows``; or a CSV that should be UTF-8 reads as Chinese in GB18030; or it is UTF-8, and
            something else was said.
    """
    table = path.suffix.lower() == ".csv"
    if table and encoding and not encoding.lower().startswith("utf"):
        _refuse_utf8(path, encoding)
    asked = encoding is not None or not table
    for number, row in enumerate(read_rows(path, encoding), start=1):
        if not asked and _is_not_utf8(row):
            asked = True
            _tell_gb18030(path, number)
        yield row


def _refuse_utf8(path: Path, encoding: str) -> None:
    try:
        codecs.lookup(encoding)
    except (LookupError, ValueError):
        return  # reading the rows will say so
    chinese = None
    for row in read_rows(path):
        if _is_not_utf8(row):
            return
        chinese = chinese or _chinese(row)
    if chinese:
        raise MagistrateError(f'{path} is UTF-8 ("{chinese}..."), not {encoding}: leave `--encoding` out')


def _is_not_utf8(row: Row) -> bool:
    if row.sample is None:
        return (row.problem or "").endswith(_NOT_UTF8)
    return _has_spoilt_header(row)


def _has_spoilt_header(row: Row) -> bool:
    return any(_ESCAPED.search(name) for name in row.sample or ())


def _tell_gb18030(path: Path, bad: int) -> None:
    # A byte of GB18030 is never a comma, a quote or a line end unless it means one: both ways of reading split rows alike.
    said, mixed = None, False
    for number, (row, other) in enumerate(zip(read_rows(path), read_rows(path, "gb18030"), strict=False), start=1):
        if number == bad:
            told = _chinese(other, header=_has_spoilt_header(row))
            if told is None:
                return
            said = f'{row.place} is not UTF-8; it reads as GB18030 ("{told}...")'
        mixed = mixed or other.sample is None or (not _is_not_utf8(row) and _chinese(row) is not None)
    if mixed:
        raise MagistrateError(f"{said}, while other rows do not: save the whole file in one encoding, UTF-8 at best")
    raise MagistrateError(f"{said}: give `--encoding gb18030`")


def _chinese(row: Row, *, header: bool = False) -> str | None:
    """The beginning of a row's most Chinese text. Single characters do not count: letters with accents can look like one."""
    sample = row.sample or {}
    texts = [text for text in [*sample.values(), *(sample if header else ())] if isinstance(text, str)]
    found = max(texts, key=lambda text: len(CHINESE.findall(text)), default="")
    return " ".join(found.split())[:EXCERPT] if _CHINESE_WORD.search(found) else None


def reason_of(row: Row) -> str:
    """Where a row that cannot be read stands, and why it cannot."""
    return f"row {row.id}: {(row.problem or '').removeprefix(f'{row.place}: ')}"


def _bytes_of_cp1252() -> dict[str, int]:
    bytes_of = {chr(byte): byte for byte in range(0x80, 0x100)}
    for byte in range(0x80, 0x100):
        character = bytes([byte]).decode("cp1252", errors="ignore")
        bytes_of.update({character: byte} if character else {})
    return bytes_of


_BYTES = _bytes_of_cp1252()
_NEXT = "".join(re.escape(character) for character, byte in _BYTES.items() if byte < 0xC0)
# In the longer ones, a no-break space may have become a plain one on its way.
_SEQUENCE = re.compile(f"[\xc2-\xdf][{_NEXT}]|[\xe0-\xef][ {_NEXT}]{{2}}|[\xf0-\xf4][ {_NEXT}]{{3}}")


def spoilt(text: str) -> bool:
    """Whether a text was read in the wrong encoding before it came here, as far as that can be seen.

    It holds U+FFFD, or UTF-8 was read as Latin-1 or Windows-1252, so that ``你好`` became ``ä½\\xa0å¥½``: read back, nearly
    all the characters of these encodings that it has give UTF-8, and that gives letters of another script. Two letters at least,
    for ``é`` before a closing ``»`` in French, or a times sign before a no-break space, would give one.
    """
    if "\N{REPLACEMENT CHARACTER}" in text:
        return True
    if text.isascii():
        return False
    found = _SEQUENCE.findall(text)
    if not found:
        return False
    letters = sum(_has_foreign_letter(sequence) for sequence in set(found))
    high = sum(character in _BYTES for character in text)
    explained = sum(character in _BYTES for sequence in found for character in sequence)
    whole = _SEQUENCE.sub("", text).strip() == ""
    return letters >= (1 if whole else 2) and explained >= 0.9 * high


def _has_foreign_letter(sequence: str) -> bool:
    content = bytes(_BYTES["\xa0"] if character == " " else _BYTES[character] for character in sequence)
    read = content.decode(errors="ignore")
    return any(unicodedata.category(one)[0] == "L" and "LATIN" not in unicodedata.name(one, "") for one in read)


def name_of(value: Any) -> str | None:
    """A number or a name as text, ``3`` and ``3.0`` alike; ``None`` if absent."""
    if isinstance(value, str):
        return well_formed(value.strip()) or None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def turns_in(value: Any, *, listed: bool = False) -> tuple[str, ...]:
    """A text of one or several turns.

    Args:
        value: A text, a number, a list of texts, or a list of objects with ``content``, ``text`` or ``answer``, as Arena-Hard has
            them; ``None`` is no turn.
        listed: Whether a text may be a list as JSON, as it is in a cell of a table.

    Raises:
        ValueError: It is something else.
    """
    match value:
        case None:
            return ()
        case bool():
            return (str(value).upper(),)  # as a spreadsheet shows it
        case int() | float():
            return (str(value),)
        case str():
            turns = _json_list(value) if listed else None
            return tuple(well_formed(turn) for turn in turns or (value,))
        case Mapping() if any(name in value for name in _CONTENT):
            return turns_in(next(value[name] for name in _CONTENT if name in value))
        case list() | tuple():
            return tuple("\n\n".join(turns_in(turn)) for turn in value)
        case _:
            raise ValueError(f"is {kind_of(value)}, not a text")


_CONTENT = ("content", "text", "answer")


def _json_list(text: str) -> list[str] | None:
    if not text.lstrip().startswith("["):
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if content and isinstance(content, list) and all(isinstance(one, str) for one in content) else None


def language_named(value: Any) -> str | None:
    """The language that a file names: ``CN`` and ``EN`` by any of their usual names, another as it stands."""
    name = name_of(value)
    return name and _LANGUAGES.get(name.lower(), name)


def first_of(sample: Mapping[str, Any], names: Iterable[str]) -> Any:
    """The value of the first of these fields that has one."""
    for name in names:
        value = sample.get(name)
        if value is not None and value != "":
            return value
    return None

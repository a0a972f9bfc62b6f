"""Samples from files: JSON lines, JSON, CSV, Parquet and Excel workbooks, read a row at a time."""

from __future__ import annotations

import codecs
import csv
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from judges.errors import MagistrateError, RowError, counted
from judges.input_file import check_file
from judges.json_text import RepeatedKeyError, parse_json
from judges.judge import Sample
from judges.samples import kind_of, well_formed
from judges.spreadsheet import read_xlsx

SMALL = 1 << 26
"""Bytes below which a file that cannot be streamed cheaply is read at once."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of an input: its sample, or what is wrong with it.

    Attributes:
        id: The sample's ``id``, or the row's number where it has none.
        place: File and row, for messages.
        sample: The fields, ``None`` where the row cannot be read.
        problem: What is wrong with the row.
        number: Of the row in its input, from 1, as ``place`` has it.
        occurrence: Which of the rows of this id it is, from 1; see ``judges.repeats``.
    """

    id: str
    place: str
    sample: Sample | None
    problem: str | None = None
    number: int = 0
    occurrence: int = 1


def read_rows(path: Path, encoding: str | None = None) -> Iterator[Row]:
    """Read a file of samples, chosen by its suffix: ``.jsonl``, ``.json`` (a list), ``.csv``, ``.parquet`` or ``.xlsx``.

    A row that cannot be read is yielded with its problem; the rows behind it are read all the same. Of a workbook the first sheet
    is read, and rows have the numbers that the spreadsheet shows.

    Args:
        path: The file.
        encoding: Of a CSV file; UTF-8 where none is given, or UTF-16 where its byte order mark says so. The other kinds of file
            say themselves how they are encoded.

    Raises:
        MagistrateError: There is no such file, it has another suffix, as a whole it is not what its suffix says, or there is no
            such encoding.
    """
    check_file(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise MagistrateError(f"{path}: unknown kind of file; samples come as {', '.join(READERS)}")
    if not path.exists():
        raise MagistrateError(f"{path}: there is no such file")
    try:
        for number, content in _read_csv(path, encoding) if reader is _read_csv else reader(path):
            yield _row(path, number, content)
    except OSError as error:
        raise MagistrateError(f"{path} cannot be read: {error.strerror or error}") from error


def renamed(row: Row, columns: Mapping[str, str]) -> Row:
    """The row with fields under the names a judge knows, and with the id that one of them may hold.

    Args:
        row: As read.
        columns: Field of a sample to the column that holds it.
    """
    if row.sample is None or not columns:
        return row
    sample = row.sample
    moved = {name: sample[column] for name, column in columns.items() if column in sample}
    missing = [column for column in columns.values() if column not in sample]
    if missing:
        return replace(row, sample=None, problem=f"{row.place}: there is no column `{missing[0]}`")
    sample = {**sample, **moved}
    return replace(row, sample=sample, id=row_id(sample, row.number) if "id" in moved else row.id)


def count_rows(path: Path) -> int | None:
    """How many rows a file has, where that is quickly told; for the progress bar only."""
    try:
        return _count(path)
    except Exception:  # reading the rows will say what is wrong
        return None


def _count(path: Path) -> int | None:
    check_file(path)
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        with path.open("rb") as file:
            return sum(1 for line in file if line.strip())
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet

        return int(pyarrow.parquet.ParquetFile(path).metadata.num_rows)
    return sum(1 for _ in read_rows(path)) if path.stat().st_size < SMALL else None


def _row(path: Path, number: int, content: Any) -> Row:
    place = f"{path.name} row {number}"
    if isinstance(content, ValueError):
        named = {"id": content.id} if isinstance(content, RowError) else {}
        return Row(row_id(named, number), place, None, f"{place}: {content}", number)
    if not isinstance(content, dict):
        return Row(str(number), place, None, f"{place}: a sample must be an object, not {kind_of(content)}", number)
    return Row(row_id(content, number), place, content, number=number)


def row_of(sample: Sample, number: int) -> Row:
    """A sample of a program's own as a row.

    Args:
        sample: Its fields.
        number: Its number, from 1.

    Raises:
        MagistrateError: It is no object.
    """
    if not isinstance(sample, Mapping):
        raise MagistrateError(f"sample {number} must be an object, not {kind_of(sample)}; give a list of samples")
    return Row(row_id(sample, number), f"sample {number}", sample, number=number)


def row_id(sample: Sample, number: int | str) -> str:
    """A sample's own id, or its number or whatever it goes by."""
    name = own_id(sample)
    return well_formed(str(number)) if name is None else name


def own_id(sample: Sample) -> str | None:
    """The id that a sample has of its own: a text or a number; ``None`` where it has none.

    A column of whole numbers with gaps reads as 7.0, and means 7.
    """
    name = sample.get("id")
    if isinstance(name, float) and math.isfinite(name):
        name = int(name) if name.is_integer() else repr(name)
    if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
        return None
    return well_formed(str(name))


def _read_jsonl(path: Path) -> Iterator[tuple[int, Any]]:
    """Rows are numbered by line, as editors count them. Empty lines are passed over."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if line.strip():
                content = _parse(line)
                yield number, _with_id(content, line) if isinstance(content, RepeatedKeyError) else content


def _with_id(error: RepeatedKeyError, line: bytes) -> ValueError:
    """The error of a line with a key twice, with the line's id if that stands there once."""
    pairs = json.loads(line, object_pairs_hook=list)
    ids = [one[1] for one in pairs if isinstance(one, tuple) and one[0] == "id"]
    return RowError(str(error), ids[0]) if len(ids) == 1 else error


def _parse(line: bytes) -> Any:
    try:
        return parse_json(line.rstrip().decode())
    except UnicodeDecodeError as error:
        return ValueError(f"is not UTF-8 (byte {error.start + 1})")
    except RepeatedKeyError as error:
        return error
    except json.JSONDecodeError as error:
        return ValueError(f"is not JSON: {error.msg} at column {error.colno}")
    except ValueError as error:  # a number of thousands of digits
        return ValueError(f"is not JSON that can be read: {str(error).split(';')[0]}")


def _read_json(path: Path) -> Iterator[tuple[int, Any]]:
    if path.stat().st_size < SMALL:
        content = _parse(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
        if isinstance(content, RepeatedKeyError):
            raise MagistrateError(f"{path}: an object {content}")
        if isinstance(content, ValueError):
            raise MagistrateError(f"{path} is not a JSON list: it {content}")
        if not isinstance(content, list):
            raise MagistrateError(f"{path} must hold a list of samples; a sample a line is a .jsonl file")
        yield from enumerate(content, start=1)
        return
    import ijson

    with path.open("rb") as file:
        if file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"[":
            raise MagistrateError(f"{path} must hold a list of samples; a sample a line is a .jsonl file")
        file.seek(0)
        try:
            for number, content in enumerate(ijson.items(file, "item", use_float=True, map_type=_Once), start=1):
                key = _repeated(content)
                yield number, content if key is None else RepeatedKeyError(key)
        except (ijson.JSONError, UnicodeDecodeError) as error:
            raise MagistrateError(f"{path} is not a JSON list: {str(error).splitlines()[0]}") from error


class _Once(dict[str, Any]):
    """An object that notes a key that it is given twice, for a parser that fills one key at a time."""

    repeated: str | None = None

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self:
            self.repeated = key
        super().__setitem__(key, value)


def _repeated(content: Any) -> str | None:
    """A key that an object in it was given twice."""
    if isinstance(content, _Once) and content.repeated is not None:
        return content.repeated
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return next((key for key in map(_repeated, parts) if key is not None), None)


def _read_csv(path: Path, encoding: str | None = None) -> Iterator[tuple[int, Any]]:
    csv.field_size_limit(1 << 30)
    name = encoding or _marked(path) or "UTF-8"
    with _opened(path, name) as file:
        reader = csv.DictReader(file, restkey="\0", strict=True)
        for number in itertools.count(1):
            try:
                content = next(reader, None)
            except csv.Error as error:
                if "unexpected end" in str(error):
                    raise MagistrateError(f"{path} row {number} opens a quote that is never closed") from error
                yield number, ValueError(f"cannot be read as CSV: {error}")
                continue
            except UnicodeError as error:  # of a kind that leaves no way to go on behind it
                raise MagistrateError(f"{path} row {number} is not {name}: {error}") from error
            if number == 1:
                _check_header(path, reader.fieldnames or ())
            if content is None:
                return
            yield number, _csv_row(content, name)


def _check_header(path: Path, names: Sequence[str]) -> None:
    between = next((word for sign, word in ((";", "semicolons"), ("\t", "tabs")) if len(names) == 1 and sign in names[0]), None)
    if between is not None:
        raise MagistrateError(f"{path}: {between} stand between the columns; save it with commas")
    _check_distinct(path, [name for name in names if name])  # spreadsheets write columns without a name, for nobody to read


def _check_distinct(path: Path, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise MagistrateError(f"{path}: two columns are called `{max(names, key=names.count)}`; rename one")


def _marked(path: Path) -> str | None:
    with path.open("rb") as file:
        return "UTF-16" if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else None


def _opened(path: Path, encoding: str) -> IO[str]:
    try:
        known = codecs.lookup(encoding).name
        return path.open(encoding="utf-8-sig" if known == "utf-8" else encoding, errors="surrogateescape", newline="")
    except (LookupError, ValueError) as error:
        raise MagistrateError(
            f"there is no text encoding `{encoding}`; well known ones are utf-8, utf-16, gb18030, cp1252"
        ) from error


def _csv_row(content: dict[str, Any], encoding: str) -> Any:
    extra = content.pop("\0", None)
    if extra is not None:
        return RowError(f"has {counted(len(extra), 'more cell', 'more cells')} than the header has names", content.get("id"))
    cells = {name: value for name, value in content.items() if value is not None}
    if any("\udc80" <= character <= "\udcff" for value in cells.values() for character in value):
        return ValueError(f"is not {encoding}")
    return cells


def _read_parquet(path: Path) -> Iterator[tuple[int, Any]]:
    import pyarrow
    import pyarrow.parquet

    try:
        number = 0
        file = pyarrow.parquet.ParquetFile(path)
        _check_distinct(path, file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=1024):
            for content in batch.to_pylist():
                number += 1
                yield number, content
    except pyarrow.ArrowException as error:
        raise MagistrateError(f"{path} is not a Parquet file that can be read: {error}") from error


READERS: dict[str, Callable[[Path], Iterator[tuple[int, Any]]]] = {
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".json": _read_json,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".xlsx": read_xlsx,
}
"""Suffix to reader. A reader yields row numbers from 1 and contents; a ValueError in a content's place says what is wrong."""

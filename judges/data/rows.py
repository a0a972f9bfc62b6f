"""Reads samples from JSON lines, JSON, CSV, Parquet and Excel files, and from other harnesses' logs, one row at a time."""

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

from judges.data.files import SMALL, RepeatedKeyError, bounded_lines, check_file, holds_lines, parsed_line
from judges.data.logs.known import TOO_LARGE, read_eval, row_of_line, rows_of_log
from judges.data.samples import ABSENT, kind_of, value_at, well_formed
from judges.data.sources import hub_name, hub_rows, standard_input
from judges.data.spreadsheet import read_xlsx
from judges.errors import MagistrateError, RowError, counted, reason_of
from judges.judge import Sample


@dataclass(frozen=True, slots=True)
class Row:
    """A row of an input: its sample, or the problem with it.

    Attributes:
        id: The sample's ``id``, or the row's number if it has none.
        place: File and row, for messages.
        sample: The fields, ``None`` if the row cannot be read.
        problem: The reason why it cannot be read.
        number: Number of the row in its input, from 1, as in ``place``.
        occurrence: Occurrence of the row among those with its id, from 1; see ``judges.repeats``.
    """

    id: str
    place: str
    sample: Sample | None
    problem: str | None = None
    number: int = 0
    occurrence: int = 1


def read_rows(path: Path, encoding: str | None = None) -> Iterator[Row]:
    """Read a file of samples by its suffix: ``.jsonl``, ``.ndjson``, ``.json`` (a list, or JSON lines), ``.csv``, ``.parquet`` or
    ``.xlsx``; or standard input, or a data set of the Hugging Face hub. Logs of other harnesses are known by their shape:
    inspect_ai's ``.eval`` and ``.json``, lm-evaluation-harness's samples, promptfoo's results, deepeval's test runs.

    A row that cannot be read is yielded with its problem, and the following rows are still read. Only the first sheet of a
    workbook is read; its rows have the numbers shown by the spreadsheet.

    Args:
        path: The file; ``-`` is standard input, and ``hf://owner/name:split`` a data set.
        encoding: Encoding of a CSV file; by default UTF-8, or UTF-16 if its byte order mark says so.

    Raises:
        MagistrateError: The file is missing, has another suffix or does not match it, or the encoding is unknown; or as
            ``hub_rows`` and ``standard_input``.
    """
    if (name := hub_name(path)) is not None:
        yield from read_hub(name)
        return
    path = local(path)
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
        raise MagistrateError(f"{path} cannot be read: {reason_of(error)}") from error


def read_hub(name: str) -> Iterator[Row]:
    """Read a data set of the Hugging Face hub; arguments and errors are those of ``hub_rows``."""
    return (_row(Path(name), number, content) for number, content in hub_rows(name))


def local(path: Path) -> Path:
    """The file that holds the rows: the copy of standard input for ``-``, else the path itself.

    Raises:
        MagistrateError: As in ``standard_input``.
    """
    return standard_input() if str(path) == "-" else path


def renamed(row: Row, columns: Mapping[str, str]) -> Row:
    """The row with its columns copied to the fields that a judge reads, ``id`` among them.

    Args:
        row: The row.
        columns: Field to its column, or to a path into a nested column; see ``value_at``.
    """
    if row.sample is None or not columns:
        return row
    sample = row.sample
    found = {name: value_at(sample, column, ABSENT) for name, column in columns.items()}
    moved = {name: value for name, value in found.items() if value is not ABSENT}
    name = row.id
    if "id" in moved:  # without an id in that column a row is known as one without an id, in whatever way its reader does that
        name = row_id(moved, row.number if own_id(sample) else row.id)
    missing = [columns[name] for name in columns if name not in moved]
    if missing:
        return replace(row, sample=None, id=name, problem=f"{row.place}: column `{missing[0]}` is missing or empty")
    return replace(row, sample={**sample, **moved}, id=name)


def count_rows(path: Path) -> int | None:
    """Number of rows of a file if counting is quick, else ``None``; for the progress bar only."""
    try:
        return _count(path)
    except Exception:  # reading the rows reports the problem
        return None


def _count(path: Path) -> int | None:
    path = local(path)
    check_file(path)
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        with path.open("rb") as file:
            return sum(1 for _, line in bounded_lines(file) if line.strip())
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet

        return int(pyarrow.parquet.ParquetFile(path).metadata.num_rows)
    return sum(1 for _ in read_rows(path)) if path.stat().st_size < SMALL else None


def _row(path: Path, number: int, content: Any) -> Row:
    return row_at(f"{path.name} row {number}", number, content, number)


def row_at(place: str, name: str | int, content: Any, number: int) -> Row:
    """Make a row of what a reader found.

    Args:
        place: File and row, for messages.
        name: Its id, if it has none of its own.
        content: Its fields, or a ``ValueError`` for a row that cannot be read.
        number: Its number, from 1.
    """
    if isinstance(content, ValueError):
        readable = {"id": content.id} if isinstance(content, RowError) else {}
        return Row(row_id(readable, name), place, None, f"{place}: {content}", number)
    if not isinstance(content, dict):
        return Row(row_id({}, name), place, None, f"{place}: a sample must be an object, not {kind_of(content)}", number)
    return Row(row_id(content, name), place, content, number=number)


def row_of(sample: Sample, number: int) -> Row:
    """Make a row of a sample from a Python program; ``number`` counts from 1.

    Raises:
        MagistrateError: The sample is not a mapping.
    """
    if not isinstance(sample, Mapping):
        raise MagistrateError(f"sample {number} must be an object, not {kind_of(sample)}; give a list of samples")
    return Row(row_id(sample, number), f"sample {number}", sample, number=number)


def row_id(sample: Sample, number: int | str) -> str:
    """A sample's own id, or its number if it has none."""
    name = own_id(sample)
    return well_formed(str(number)) if name is None else name


def own_id(sample: Sample) -> str | None:
    """A sample's ``id`` as text, if it is a string or a number, else ``None``.

    A number such as 7.0 becomes 7, because columns of whole numbers with gaps are read as floats.
    """
    name = sample.get("id")
    if isinstance(name, float) and math.isfinite(name):
        name = int(name) if name.is_integer() else repr(name)
    if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
        return None
    return well_formed(str(name))


def _read_jsonl(path: Path) -> Iterator[tuple[int, Any]]:
    """Number rows by line, as editors do, and skip empty lines."""
    with path.open("rb") as file:
        for number, line in bounded_lines(file):
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if line.strip():
                yield number, row_of_line(parse_line(line))


def _with_id(error: RepeatedKeyError, line: bytes) -> ValueError:
    """The error of a line with a repeated key, with the line's id if that is given once."""
    pairs = json.loads(line, object_pairs_hook=list)
    ids = [pair[1] for pair in pairs if isinstance(pair, tuple) and pair[0] == "id"]
    return RowError(str(error), ids[0]) if len(ids) == 1 else error


def parse_line(line: bytes) -> Any:
    """The content of a line of JSON, or a ``ValueError`` that says why it cannot be read."""
    content = parsed_line(line)
    return _with_id(content, line) if isinstance(content, RepeatedKeyError) else content


def _read_json(path: Path) -> Iterator[tuple[int, Any]]:
    if holds_lines(path):
        yield from _read_jsonl(path)
        return
    if path.stat().st_size < SMALL:
        content = parsed_line(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
        if isinstance(content, RepeatedKeyError):
            raise MagistrateError(f"{path}: an object {content}")
        if isinstance(content, ValueError):
            raise MagistrateError(f"{path} is not a JSON list: it {content}")
        yield from enumerate(content, start=1) if isinstance(content, list) else rows_of_log(path, content)
        return
    import ijson

    with path.open("rb") as file:
        if file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"[":
            raise MagistrateError(f"{path} must hold a list of samples; {TOO_LARGE}")
        file.seek(0)
        try:
            for number, content in enumerate(ijson.items(file, "item", use_float=True, map_type=_Once), start=1):
                key = _repeated(content)
                yield number, content if key is None else RepeatedKeyError(key)
        except (ijson.JSONError, UnicodeDecodeError) as error:
            raise MagistrateError(f"{path} is not a JSON list: {str(error).splitlines()[0]}") from error


class _Once(dict[str, Any]):
    """An object that records a repeated key, for a parser that sets one key at a time."""

    repeated: str | None = None

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self:
            self.repeated = key
        super().__setitem__(key, value)


def _repeated(content: Any) -> str | None:
    """A repeated key of an object anywhere in the content."""
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
            except UnicodeError as error:  # the decoder cannot continue after it
                raise MagistrateError(f"{path} row {number} is not {name}: {error}") from error
            if number == 1:
                _check_header(path, reader.fieldnames or ())
            if content is None:
                return
            yield number, _csv_row(content, name)


def _check_header(path: Path, names: Sequence[str]) -> None:
    separator = next((word for sign, word in ((";", "semicolons"), ("\t", "tabs")) if len(names) == 1 and sign in names[0]), None)
    if separator is not None:
        raise MagistrateError(f"{path}: {separator} separate the columns; save it with commas")
    check_distinct([name for name in names if name], path)  # spreadsheets write empty columns without a name


def check_distinct(names: Sequence[str], path: Path | None = None) -> None:
    """See that no two columns, of a file if there is one, have one name.

    Raises:
        MagistrateError: Two have.
    """
    if len(set(names)) < len(names):
        where = f"{path}: " if path else ""
        raise MagistrateError(f"{where}two columns are called `{max(names, key=names.count)}`; rename one")


def _marked(path: Path) -> str | None:
    with path.open("rb") as file:
        return "UTF-16" if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else None


def _opened(path: Path, encoding: str) -> IO[str]:
    try:
        is_utf8 = codecs.lookup(encoding).name == "utf-8"
        return path.open(encoding="utf-8-sig" if is_utf8 else encoding, errors="surrogateescape", newline="")
    except (LookupError, ValueError) as error:
        raise MagistrateError(f"unknown text encoding `{encoding}`; common ones are utf-8, utf-16, gb18030, cp1252") from error


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
        check_distinct(file.schema_arrow.names, path)
        for batch in file.iter_batches(batch_size=1024):
            for content in batch.to_pylist():
                number += 1
                yield number, content
    except (pyarrow.ArrowException, ValueError, OverflowError) as error:  # values that Python does not have raise its own
        raise MagistrateError(f"{path} is not a readable Parquet file: {error}") from error


READERS: dict[str, Callable[[Path], Iterator[tuple[int, Any]]]] = {
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".json": _read_json,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".xlsx": read_xlsx,
    ".eval": read_eval,
}
"""Suffix to reader. A reader yields row numbers from 1 with contents, or with a ValueError for a row that cannot be read."""

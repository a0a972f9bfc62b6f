"""Reads the rows of an Excel workbook (``.xlsx``, Office Open XML, ECMA-376) as a spreadsheet program shows them.

Only the first sheet is read; its first non-empty row is the header. The value of merged cells belongs to the first of them.
"""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, BinaryIO

from judges.data.samples import well_formed
from judges.errors import MagistrateError, RowError, reason_of

WHOLE = 2**53
"""Bound below which a double, the type of a workbook's numbers, represents every whole number."""

OLD_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1")
ENCRYPTED = "EncryptedPackage".encode("utf-16-le")

_ESCAPE = re.compile("_x(00[01][0-9A-Fa-f]|005[Ff])_")
_LINE_END = re.compile("\r\n?")


def read_xlsx(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the non-empty rows below the header with the numbers that the spreadsheet shows.

    A row maps headings to non-empty cells: text with line ends as ``\\n``, whole numbers as int, dates and times as ISO text,
    formulas as their last calculated value. A row that cannot be read is a ValueError that names the cell.

    Raises:
        MagistrateError: The file is not a workbook, or it has no sheet, no header, or a repeated heading.
    """
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        _refuse_others(path, file)
        headings: dict[int, str] = {}
        try:
            for number, row in enumerate(_rows(file, stack), start=1):
                cells = {column: value for column, value in enumerate(row, start=1) if value is not None}
                if not cells:
                    continue
                if headings:
                    yield number, _content(headings, cells)
                else:
                    headings = _headings(path, number, cells)
        except (MagistrateError, OSError):
            raise
        except Exception as error:  # the library raises any kind of error on a broken file
            raise MagistrateError(f"{path} is not a readable .xlsx workbook: {reason_of(error)}") from error
    if not headings:
        raise MagistrateError(f"{path} is empty: its first sheet has no cell with a value")


def _refuse_others(path: Path, file: BinaryIO) -> None:
    content = file.read(len(OLD_OFFICE))
    if content == OLD_OFFICE:
        if ENCRYPTED in file.read():
            raise MagistrateError(f"{path} is encrypted with a password; save it without one")
        raise MagistrateError(f"{path} is an old .xls workbook under another name; save it as .xlsx")
    if content[:2] != b"PK":
        raise MagistrateError(f"{path} is not an .xlsx workbook; if it is a text file, give it the suffix .csv")
    file.seek(0)


def _rows(file: BinaryIO, stack: ExitStack) -> Iterator[list[Any]]:
    """Yield each row's values, with a ValueError for a cell without a usable value."""
    import openpyxl

    # A workbook opened for values does not distinguish a formula without one from an empty cell, so it is read twice in parallel.
    sheets = []
    for values in (True, False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they concern extensions, which hold no values
            book = stack.enter_context(closing(openpyxl.load_workbook(file, read_only=True, data_only=values, keep_links=False)))
        if not book.worksheets:
            raise ValueError("it has no sheet")
        sheets.append(book.worksheets[0])
        sheets[-1].reset_dimensions()  # some programs write wrong ones, and rows would be cut off
    for values, formulas in zip(*(sheet.iter_rows() for sheet in sheets), strict=True):
        yield [_value(cell, formula) for cell, formula in zip(values, formulas, strict=True)]


def _value(cell: Any, formula: Any) -> Any:
    value = cell.value
    if value is None:
        # The result of a formula that gives an empty text is stored as an empty string.
        if formula.data_type == "f" and cell.data_type != "str":
            words = "holds a formula without a value; open the file in a spreadsheet program and save it, or paste values"
            return ValueError(f"cell {formula.coordinate} {words}")
        return None
    if cell.data_type == "e":
        return ValueError(f"cell {cell.coordinate} holds the error {value}; correct it in a spreadsheet program")
    match value:
        case str():
            return _text(value) or None
        case float() if value.is_integer() and abs(value) < WHOLE:
            return int(value)
        case datetime.datetime() if value.time() == datetime.time.min:
            return value.date().isoformat()
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return str(value)
        case _:
            return value


def _text(value: str) -> str:
    """A cell's text with its control characters, which a workbook writes as ``_x000D_`` (ECMA-376, ST_Xstring)."""
    unescaped = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), value)
    return well_formed(_LINE_END.sub("\n", unescaped))


def _headings(path: Path, number: int, cells: dict[int, Any]) -> dict[int, str]:
    headings: dict[int, str] = {}
    for column, value in cells.items():
        if isinstance(value, ValueError):
            raise MagistrateError(f"{path} row {number}: {value}")
        heading = str(value).strip()
        if heading in headings.values():
            raise MagistrateError(f"{path} row {number}: two columns have the heading `{heading}`; rename one")
        headings[column] = heading
    return headings


def _content(headings: dict[int, str], cells: dict[int, Any]) -> Any:
    row_id = next((value for column, value in cells.items() if headings.get(column) == "id"), None)
    for value in cells.values():
        if isinstance(value, ValueError):
            return RowError(str(value), row_id)
    nameless = [column for column in cells if column not in headings]
    if nameless:
        return RowError(f"has {_count(nameless)} under no heading", row_id)
    return {headings[column]: value for column, value in cells.items()}


def _count(columns: Sequence[int]) -> str:
    from openpyxl.utils import get_column_letter

    names = ", ".join(get_column_letter(column) for column in columns[:3])
    return f"a value in column {names}" if len(columns) == 1 else f"values in columns {names}"

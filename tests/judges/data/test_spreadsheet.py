"""Excel workbooks, real ones that openpyxl writes, with their XML edited where it does not write what other programs do."""

from __future__ import annotations

import datetime
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from judges.data.rows import count_rows, read_rows
from judges.errors import MagistrateError

SHEET = "xl/worksheets/sheet1.xml"


def write(path: Path, rows: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def edited(path: Path, part: str, edit: Callable[[bytes], bytes]) -> Path:
    """The workbook with one part of its zip changed."""
    with zipfile.ZipFile(path) as given:
        parts = {name: given.read(name) for name in given.namelist()}
    assert part in parts
    parts[part] = edit(parts[part])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in parts.items():
            made.writestr(name, content)
    return path


def samples(path: Path) -> list[Any]:
    return [row.sample for row in read_rows(path)]


def test_rows_are_numbered_as_the_spreadsheet_shows_them(tmp_path: Path) -> None:
    path = write(tmp_path / "q.xlsx", [[], [None, "id", " question "], [None, 1, "谁是蝙蝠侠"], [], [None, 7.0, "b", None]])
    rows = list(read_rows(path))
    assert [row.place for row in rows] == ["q.xlsx row 3", "q.xlsx row 5"]
    assert [row.sample for row in rows] == [{"id": 1, "question": "谁是蝙蝠侠"}, {"id": 7, "question": "b"}]
    assert [row.id for row in rows] == ["1", "7"]
    assert count_rows(path) == 2


def test_values_are_plain(tmp_path: Path) -> None:
    day, moment = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 13, 30)
    values = [3.0, 2.5, True, day, moment, datetime.time(9, 5), 2.0**60, "=text", "a_x000D_\nb_x005F_x000D_", "  "]
    path = tmp_path / "q.xlsx"
    book = openpyxl.Workbook()
    for column, value in enumerate(values, start=1):
        book.active.cell(1, column, f"c{column}")
        cell = book.active.cell(2, column)
        cell.value = value
        if value == "=text":
            cell.data_type = "s"
    book.save(path)
    (sample,) = samples(path)
    told = ["2024-02-29", "2024-02-29T13:30:00", "09:05:00"]
    assert list(sample.values()) == [3, 2.5, True, *told, 2.0**60, "=text", "a\nb_x000D_", "  "]
    assert [type(value) for value in list(sample.values())[:3]] == [int, float, bool]


def test_a_formula_has_the_value_that_was_stored(tmp_path: Path) -> None:
    path = write(tmp_path / "q.xlsx", [["a", "b", "c"], ["=1+1", "=T(5)", '="x"&"y"']])

    def store(xml: bytes) -> bytes:
        assert xml.count(b"<v></v>") + xml.count(b"<v />") + xml.count(b"<v/>") == 3
        cells = iter([b"<v>2</v>", b"<v></v>", b"<v>xy</v>"])
        xml = re.sub(rb"<v></v>|<v ?/>", lambda _: next(cells), xml)
        return xml.replace(b'<c r="B2"', b'<c t="str" r="B2"').replace(b'<c r="C2"', b'<c t="str" r="C2"')

    assert samples(edited(path, SHEET, store)) == [{"a": 2, "c": "xy"}], "a formula may well give the empty text"


def test_a_formula_without_a_value_is_a_bad_row(tmp_path: Path) -> None:
    path = write(tmp_path / "q.xlsx", [["id", "b", "question"], [1, 2, "=A1&B1"], [2, 2, "b"]])
    first, second = read_rows(path)
    words = "open the file in a spreadsheet program and save it, or paste values"
    assert first.problem == f"q.xlsx row 2: cell C2 holds a formula without a value; {words}"
    assert second.sample == {"id": 2, "b": 2, "question": "b"}


@pytest.mark.parametrize("error", ["#N/A", "#REF!"])
def test_an_error_is_a_bad_row(tmp_path: Path, error: str) -> None:
    path = write(tmp_path / "q.xlsx", [["id", "question"], [1, error], [2, "b"]])
    first, second = read_rows(path)
    assert f"row 2: cell B2 holds the error {error}" in (first.problem or "")
    assert second.sample


def test_a_value_under_no_heading_is_told(tmp_path: Path) -> None:
    rows = list(read_rows(write(tmp_path / "q.xlsx", [["a"], [1, 2, 3], [1, 2], [1]])))
    told = ["q.xlsx row 2: has values in columns B, C under no heading", "q.xlsx row 3: has a value in column B under no heading"]
    assert [row.problem for row in rows] == [*told, None]


def test_wrong_dimensions_cut_nothing_off(tmp_path: Path) -> None:
    path = write(tmp_path / "q.xlsx", [["a", "b"], [1, 2]])
    edited(path, SHEET, lambda xml: re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1"', xml))
    assert samples(path) == [{"a": 1, "b": 2}]


MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def with_shared_strings(path: Path, strings: list[str], encoding: str) -> Path:
    """A workbook of one column whose texts stand in a part of their own, where Excel puts them."""
    cells = "".join(f'<row r="{n}"><c r="A{n}" t="s"><v>{n - 1}</v></c></row>' for n in range(1, len(strings) + 1))
    overrides = {"workbook": "sheet.main", "worksheets/sheet1": "worksheet", "sharedStrings": "sharedStrings"}
    kinds = "".join(f'<Override PartName="/xl/{part}.xml" ContentType="{TYPES}.{kind}+xml"/>' for part, kind in overrides.items())
    relation = '<Relationship Id="r{}" Type="' + OFFICE + '/{}" Target="{}"/>'
    inner = relation.format(1, "worksheet", "worksheets/sheet1.xml") + relation.format(2, "sharedStrings", "sharedStrings.xml")
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">{kinds}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{relation.format(1, "officeDocument", "xl/workbook.xml")}'
        "</Relationships>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{inner}</Relationships>',
        "xl/workbook.xml": f'<workbook {MAIN} xmlns:r="{OFFICE}"><sheets><sheet name="a" sheetId="1" r:id="r1"/></sheets>'
        "</workbook>",
        SHEET: f"<worksheet {MAIN}><sheetData>{cells}</sheetData></worksheet>",
        "xl/sharedStrings.xml": f"<sst {MAIN}>" + "".join(f"<si><t>{text}</t></si>" for text in strings) + "</sst>",
    }
    with zipfile.ZipFile(path, "w") as made:
        for name, content in parts.items():
            made.writestr(name, f'<?xml version="1.0" encoding="{encoding}"?>{content}'.encode(encoding))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_shared_strings_and_parts_in_utf16(tmp_path: Path, encoding: str) -> None:
    path = with_shared_strings(tmp_path / "q.xlsx", ["问题", "谁是_x000D_\n蝙蝠侠", "a_x005F_b"], encoding)
    assert samples(path) == [{"问题": "谁是\n蝙蝠侠"}, {"问题": "a_b"}]


def test_only_the_first_sheet_is_read_and_merged_cells_are_nothing_special(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["a", "b"], [1, "x"], [None, "y"]):
        book.active.append(row)
    book.active.merge_cells("A2:A3")
    book.create_sheet("more").append(["c"])
    book.save(tmp_path / "q.xlsx")
    assert samples(tmp_path / "q.xlsx") == [{"a": 1, "b": "x"}, {"b": "y"}]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"question,index\na,1\n", "is not an .xlsx workbook; if it is a text file"),
        (b"", "is not an .xlsx workbook"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + b"Workbook", "is an old .xls workbook"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + "EncryptedPackage".encode("utf-16-le"), "is encrypted with a password"),
        (b"PK\x03\x04 and no more", "is not a readable .xlsx workbook: "),
    ],
)
def test_what_is_no_workbook_is_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "q.xlsx"
    path.write_bytes(content)
    with pytest.raises(MagistrateError, match=complaint) as raised:
        samples(path)
    assert "\n" not in str(raised.value)


def test_another_zip_and_broken_xml_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "q.xlsx"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a.txt", "a")
    with pytest.raises(MagistrateError, match="not a readable"):
        samples(path)
    edited(write(path, [["a"], [1]]), SHEET, lambda xml: xml[:-40])
    with pytest.raises(MagistrateError, match="not a readable"):
        samples(path)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([], "is empty"),
        ([["a", "b", " a"], [1, 2, 3]], "row 1: two columns have the heading `a`"),
        ([["a", "=1+1"], [1, 2]], "row 1: cell B1 holds a formula without a value"),
    ],
)
def test_a_sheet_without_a_header_is_refused(tmp_path: Path, rows: list[list[Any]], complaint: str) -> None:
    with pytest.raises(MagistrateError, match=complaint):
        samples(write(tmp_path / "q.xlsx", rows))


def test_a_header_alone_is_no_row(tmp_path: Path) -> None:
    assert samples(write(tmp_path / "q.xlsx", [["a", "b"]])) == []

import csv
import json
from pathlib import Path

import openpyxl
import pyarrow as arrow
import pyarrow.parquet
import pytest

from judges.data.rows import Row, count_rows, read_rows, renamed, row_id
from judges.errors import MagistrateError

ROWS = [{"id": "a", "context": "hi", "response": "ho"}, {"id": "b", "context": 'x\ny, "z" 🙂 שלום', "response": "w\x00v"}]


def write(folder: Path, suffix: str) -> Path:
    path = folder / f"rows{suffix}"
    match suffix:
        case ".jsonl":
            path.write_text("\n".join(json.dumps(row) for row in ROWS), encoding="utf-8")
        case ".json":
            path.write_text(json.dumps(ROWS, ensure_ascii=False), encoding="utf-8")
        case ".csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, ["id", "context", "response"])
                writer.writeheader()
                writer.writerows(ROWS)
        case ".parquet":
            arrow.parquet.write_table(arrow.Table.from_pylist(ROWS), path)
        case ".xlsx":
            book = openpyxl.Workbook()
            for cells in (ROWS[0], *(row.values() for row in ROWS)):
                book.active.append([cell.replace("\0", "_x0000_") for cell in cells])
            book.save(path)
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".parquet", ".xlsx"])
def test_every_kind_of_file_gives_the_same_rows(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, suffix)
    rows = list(read_rows(path))
    assert [row.sample for row in rows] == ROWS
    assert [row.id for row in rows] == ["a", "b"]
    assert count_rows(path) == 2


def test_a_bad_row_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"context": 1}\n\n{"context": \n[1]\n\xff\n"x"\n{"id": 7}')
    rows = list(read_rows(path))
    assert [row.id for row in rows] == ["1", "3", "4", "5", "6", "7"]
    assert [row.problem for row in rows] == [
        None,
        "rows.jsonl row 3: is not JSON: Expecting value at column 12",
        "rows.jsonl row 4: a sample must be an object, not a list",
        "rows.jsonl row 5: is not UTF-8 (byte 1)",
        "rows.jsonl row 6: a sample must be an object, not a string",
        None,
    ]


def test_a_number_without_end_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": ' + "1" * 5000 + "}\n{}")
    first, second = read_rows(path)
    assert "is not readable JSON" in (first.problem or "")
    assert second.sample == {}


def test_a_bad_csv_row_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b'context,response\n"a"x,b\n\xff,b\nc,d\n')
    rows = list(read_rows(path))
    assert ["CSV" in (row.problem or "") for row in rows] == [True, False, False]
    assert rows[1].problem == "rows.csv row 2: is not UTF-8"
    assert rows[2].sample == {"context": "c", "response": "d"}


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.json", "none.jsonl"])
def test_counting_never_fails(tmp_path: Path, name: str) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"")
    (tmp_path / "rows.csv").write_bytes(b'a\n"b')
    (tmp_path / "rows.json").write_bytes(b"{")
    assert count_rows(tmp_path / name) is None


@pytest.mark.parametrize(
    ("given", "found"), [(7, "7"), (7.0, "7"), (1.5, "1.5"), ("x", "x"), (None, "3"), (float("nan"), "3"), (True, "3"), ("", "3")]
)
def test_an_id_is_the_samples_own_or_its_number(given: object, found: str) -> None:
    assert row_id({"id": given}, 3) == found


def test_nesting_without_end_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("[" * 200_000 + "\n{}")
    first, second = read_rows(path)
    assert "nested too deeply" in (first.problem or "")
    assert second.sample == {}


def test_a_csv_row_with_too_many_cells_is_told(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("context,response\na,b,c\nd,e\nf\n")
    rows = list(read_rows(path))
    assert rows[0].problem == "rows.csv row 1: has 1 more cell than the header has names"
    assert rows[1].sample == {"context": "d", "response": "e"}
    assert rows[2].sample == {"context": "f"}, "a cell that is not there is a field that is missing"


@pytest.mark.parametrize(("sign", "said"), [(";", "semicolons"), ("\t", "tabs")])
def test_columns_that_stand_apart_by_something_else_are_told(tmp_path: Path, sign: str, said: str) -> None:
    """With decimal commas too, where each row has more cells than the header."""
    path = tmp_path / "a.csv"
    path.write_text(f"id{sign}score\n1{sign}2,5\n")
    with pytest.raises(MagistrateError, match=f"{said} separate the columns; save it with commas"):
        list(read_rows(path))


def test_a_csv_cell_may_be_longer_than_pythons_default(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("context,response\n" + "word " * 200_000 + ",b\n")
    (row,) = read_rows(path)
    assert row.sample
    assert len(row.sample["context"]) == 1_000_000


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("rows.json", b'{"item": [{"context": "a"}]}', "must hold a list"),
        ("rows.json", b'[{"context": "a"}, {', "is not a JSON list"),
        ("rows.json", b"", "is not a JSON list"),
        ("rows.parquet", b"PAR1 no", "not a readable Parquet file"),
        ("rows.json", b"[" * 200_000, "nested too deeply"),
        ("rows.csv", b'context,response\n"a,b', "row 1 opens a quote that is never closed"),
        ("rows.txt", b"", "unknown kind of file"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(MagistrateError, match=complaint):
        list(read_rows(path))


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(MagistrateError, match="no such file"):
        list(read_rows(tmp_path / "none.jsonl"))
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(MagistrateError, match="is a folder; give a file"):
        list(read_rows(tmp_path / "folder.jsonl"))


@pytest.mark.parametrize(
    ("written", "encoding"),
    [
        ("gb18030", "gb18030"),
        ("gb18030", "GB18030"),
        ("utf-16", None),
        ("utf-16", "utf-16"),
        ("utf-8-sig", None),
        ("utf-8-sig", "UTF-8"),
    ],
)
def test_a_csv_may_have_another_encoding(tmp_path: Path, written: str, encoding: str | None) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('问题,id\n"谁是\n蝙蝠侠, 𠀀",1\n', encoding=written)
    (row,) = read_rows(path, encoding)
    assert row.sample == {"问题": "谁是\n蝙蝠侠, 𠀀", "id": "1"}


def test_big_endian_utf16_is_known_by_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"\xfe\xff" + "a\n谁\n".encode("utf-16-be"))
    assert [row.sample for row in read_rows(path)] == [{"a": "谁"}]


def test_a_row_in_another_encoding_than_said_is_told(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("问题\n谁\n".encode("gb18030") + b"a\xff\n" + "是\n".encode("gb18030"))
    assert [row.problem for row in read_rows(path, "gb18030")] == [None, "rows.csv row 2: is not gb18030", None]
    path.write_bytes("a\n谁\n".encode("utf-16") + b"\x00\xd8\x0a\x00")
    with pytest.raises(MagistrateError, match=r"row [12] is not UTF-16"):
        list(read_rows(path))


@pytest.mark.parametrize("encoding", ["klingon", "rot13", "a\0b"])
def test_an_encoding_that_is_none_is_refused(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n")
    with pytest.raises(MagistrateError, match="unknown text encoding"):
        list(read_rows(path, encoding))


def test_an_encoding_is_for_csv_alone(tmp_path: Path) -> None:
    assert [row.sample for row in read_rows(write(tmp_path, ".jsonl"), "gb18030")] == ROWS


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
def test_a_column_twice_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    match suffix:
        case ".csv":
            path.write_text("id,response,response\n1,a,b\n")
        case ".parquet":
            columns = [arrow.array(["1"]), arrow.array(["a"]), arrow.array(["b"])]
            arrow.parquet.write_table(arrow.Table.from_arrays(columns, ["id", "response", "response"]), path)
        case ".xlsx":
            book = openpyxl.Workbook()
            for cells in (["id", "response", "response"], [1, "a", "b"]):
                book.active.append(cells)
            book.save(path)
    with pytest.raises(MagistrateError, match=r"two columns .* `response`; rename one"):
        list(read_rows(path))


def test_columns_without_a_name_may_be_several(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,a,,\n1,b,,\n")
    (row,) = read_rows(path)
    assert row.sample is not None
    assert (row.id, row.sample["a"]) == ("1", "b")


def test_a_key_twice_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1, "a": 2}\n{"b": [{"c": 1, "c": 1}]}\n{"a": {"a": 1}}\n')
    rows = list(read_rows(path))
    assert [row.problem for row in rows] == [
        "rows.jsonl row 1: has the key `a` twice; leave one of them",
        "rows.jsonl row 2: has the key `c` twice; leave one of them",
        None,
    ]
    (path := tmp_path / "rows.json").write_text('[{"b": 1}, {"a": 1, "a": 2}]')
    with pytest.raises(MagistrateError, match=r"rows.json: an object has the key `a` twice"):
        list(read_rows(path))


def test_a_key_twice_is_a_bad_row_of_a_list_too_large_to_be_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judges.data.rows.SMALL", 10)
    (path := tmp_path / "rows.json").write_text('[{"b": 1}, {"a": 1, "a": 2}, {"b": [{"c": 1, "c": 1}]}, {"a": {"a": [1.5, 2]}}]')
    rows = list(read_rows(path))
    assert [row.problem and row.problem.partition(": ")[2] for row in rows] == [
        None,
        "has the key `a` twice; leave one of them",
        "has the key `c` twice; leave one of them",
        None,
    ]
    assert rows[3].sample == {"a": {"a": [1.5, 2]}}


def test_a_field_may_hold_the_id() -> None:
    row = Row("1", "rows.csv row 1", {"key": 7.0, "said": "Hi."}, number=1)
    assert renamed(row, {"response": "said"}).id == "1"
    assert renamed(row, {"id": "key"}).id == "7"
    assert renamed(Row("4", "rows.csv row 4", {"key": ""}, number=4), {"id": "key"}).id == "4"
    lacking = renamed(row, {"id": "key", "response": "Say"})
    assert (lacking.id, lacking.sample, lacking.problem) == ("7", None, "rows.csv row 1: column `Say` is missing or empty")


def test_a_row_that_cannot_be_read_keeps_its_id(tmp_path: Path) -> None:
    lines = tmp_path / "rows.jsonl"
    lines.write_text(
        '{"id": "a", "x": 1, "x": 2}\n{"id": "b", "id": "c"}\n[{"x": 1, "x": 2}, 3]\n{"id": 7.0, "y": [{"x": 1, "x": 2}]}\n{\n'
    )
    assert [row.id for row in read_rows(lines)] == ["a", "2", "3", "7", "5"]
    table = tmp_path / "rows.csv"
    table.write_text("id,x\nd,1,2\ne,3\n")
    assert [(row.id, row.sample is None) for row in read_rows(table)] == [("d", True), ("e", False)]
    book = openpyxl.Workbook()
    for row in (["x", "id"], ["=A9", "f"], [1, "g"], ["=A9", "=A9"], [1, "h", 2]):
        book.active.append(row)
    book.save(tmp_path / "rows.xlsx")
    assert [(row.id, row.sample is None) for row in read_rows(tmp_path / "rows.xlsx")] == [
        ("f", True),
        ("g", False),
        ("4", True),
        ("h", True),
    ]

"""The workbooks of consistent and inconsistent comparisons."""

from __future__ import annotations

from pathlib import Path

import openpyxl

from evals.arena.battles import BattleList
from evals.arena.orders import in_orders
from evals.arena.storage import write_workbooks
from evals.data.comparisons import Record
from tests.evals.arena import examples


def rows(path: Path) -> list[list[str | None]]:
    sheet = openpyxl.load_workbook(path).active
    assert sheet is not None
    return [[str(cell) if cell is not None else None for cell in row] for row in sheet.values]


def test_each_order_is_a_row_with_the_answer_shown_first_as_a(tmp_path: Path) -> None:
    battles = BattleList(("one", "=SUM(1)"))
    battles.add(Record("q1", "one", "=SUM(1)", "A", orders=("A", "A"), capability="facts", language="EN", judge="m"))
    battles.add(Record("q2", "one", "=SUM(1)", "tie", orders=("A", "neither")))
    battles.add(Record("q\x003", "=SUM(1)", "one", "both", orders=("both",)))
    battles.add(Record("q4", "one", "=SUM(1)", "B"))
    consistent, inconsistent = write_workbooks(battles.battles(), tmp_path)
    heading = ["cmp_index", "A", "B", "extracted", "capability", "lang", "judge"]
    assert rows(consistent) == [
        heading,
        ["q1;one;=SUM(1)", "one", "=SUM(1)", "A", "facts", "EN", "m"],
        ["q1;=SUM(1);one", "=SUM(1)", "one", "B", "facts", "EN", "m"],
        ["q3;=SUM(1);one", "=SUM(1)", "one", "C", None, None, None],
    ]
    assert [row[3] for row in rows(inconsistent)[1:]] == ["A", "D"]
    cells = openpyxl.load_workbook(consistent).active
    assert cells is not None
    assert "f" not in {cell.data_type for row in cells for cell in row}, "no formula"


def test_what_has_no_rows_any_more_is_removed(tmp_path: Path) -> None:
    battles = examples.usual()
    files = write_workbooks(battles, tmp_path)
    orders = in_orders(battles)
    assert sum(len(rows(file)) - 1 for file in files) == orders.compared
    assert len(rows(files[0])) - 1 == orders.kept
    write_workbooks(BattleList(("a", "b")).battles(), tmp_path)
    assert not list(tmp_path.iterdir())

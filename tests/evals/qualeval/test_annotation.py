"""The check of assignments by people: sheets that are written, filled in a workbook, and read back."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import krippendorff
import numpy as np
import openpyxl
import pyarrow
import pyarrow.parquet
import pytest

from evals.data.tasks import Instance
from evals.qualeval.annotation import KINDS, PUBLISHED, QUESTIONS, document, read_sheets, write, write_sheets
from evals.reports.markdown import markdown
from judges.errors import MagistrateError
from judges.qualeval import Kind

COUNT = 120
INSTANCES = [Instance(f"d{n}", {}, f"=1+{n}", f"Truth {n}") for n in range(COUNT)]
"""Their texts look like formulas."""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    columns = {
        "id": [instance.id for instance in INSTANCES],
        "domain": [["Work", "Food"] if n else [] for n in range(COUNT)],  # the first was not rated
        "subtask": [["Name the speakers", "Be brief"]] * COUNT,
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "assignments.parquet")
    return tmp_path


def filled(path: Path, answer: Callable[[int, Kind], str | None]) -> Path:
    """Fill a sheet in as a person does, in the workbook."""
    book = openpyxl.load_workbook(path)
    sheet = book.active
    heads = {str(cell.value): cell.column for cell in sheet[1]}
    for number in range(sheet.max_row - 1):
        for kind in KINDS:
            sheet.cell(number + 2, heads[QUESTIONS[kind]], answer(number, kind))
    book.save(path)
    return path


def test_sheets_hold_the_same_draw_and_what_an_annotator_needs(study: Path) -> None:
    paths = write_sheets(study, INSTANCES)
    assert [path.name for path in paths] == ["annotator-1.xlsx", "annotator-2.xlsx", "annotator-3.xlsx"]
    sheets = [[[cell.value for cell in row] for row in openpyxl.load_workbook(path).active.rows] for path in paths]
    assert sheets[0] == sheets[1] == sheets[2]
    head, *rows = sheets[0]
    assert head == ["id", "input", "ground truth", "domains", "domains right?", "sub-tasks", "sub-tasks right?"]
    drawn = [row[0] for row in rows]
    assert len(set(drawn)) == 100
    assert drawn != sorted(drawn)
    assert "d0" not in drawn, "it has no domains"
    for name, text, truth, domains, first, subtasks, second in rows:
        assert (text, truth) == (INSTANCES[int(name[1:])].input, INSTANCES[int(name[1:])].truth)
        assert (domains, subtasks, first, second) == ("Work\nFood", "Name the speakers\nBe brief", None, None)
    with pytest.raises(MagistrateError, match=r"annotator-1\.xlsx exists already, and may hold answers"):
        write_sheets(study, INSTANCES)


def test_the_papers_shares_come_out_of_sheets_that_hold_them(study: Path) -> None:
    """Of 300 answers on domains 252 are yes, 84%; of those on sub-tasks 270, 90%."""
    chance = random.Random(0)
    yes = {kind: [True] * round(300 * share) + [False] * round(300 * (1 - share)) for kind, share in PUBLISHED.items()}
    for answers in yes.values():
        chance.shuffle(answers)

    def said(place: int) -> Callable[[int, Kind], str]:
        return lambda number, kind: "yes" if yes[kind][100 * place + number] else "No "

    paths = [filled(path, said(place)) for place, path in enumerate(write_sheets(study, INSTANCES))]
    checked = read_sheets(study, paths)
    for kind, share in PUBLISHED.items():
        found = checked.kinds[kind]
        assert found.right.value == pytest.approx(share)
        assert found.right.low is not None
        assert found.right.low < share < found.right.high  # type: ignore[operator]
        table = np.array(yes[kind], float).reshape(3, 100)
        assert [found.each[f"annotator-{n}"].value for n in (1, 2, 3)] == pytest.approx(table.mean(axis=1).tolist())
        assert found.majority.value == pytest.approx((table.sum(axis=0) >= 2).mean())
        assert found.alpha.value == pytest.approx(krippendorff.alpha(table, level_of_measurement="nominal"))
        assert found.alpha.low < found.alpha.value < found.alpha.high  # type: ignore[operator]
    assert (checked.instances, checked.empty) == (100, {})
    assert "| Domains | 84.0% (" in markdown(document(checked))
    assert '"value": 0.84' in write(checked, study).read_text()


def test_empty_cells_are_counted_and_equal_answers_have_no_alpha(study: Path) -> None:
    paths = [filled(path, lambda number, kind: None if number == 0 else "1") for path in write_sheets(study, INSTANCES, count=12)]
    checked = read_sheets(study, paths)
    assert checked.empty == {"annotator-1": 2, "annotator-2": 2, "annotator-3": 2}
    assert checked.instances == 11
    found = checked.kinds["domain"]
    assert (found.right.value, found.alpha.value) == (1, None)
    assert "all answers are the same" in str(found.alpha.reason)
    text = markdown(document(checked))
    assert "2 cells of annotator-1 are empty and count for nothing" in text
    assert "alpha is undefined: all answers are the same" in text


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ({"domains right?": "perhaps"}, r"a.csv row 2, `domains right\?` is 'perhaps': write yes or no, or leave it empty"),
        ({"id": "x9"}, "row 2: the study has no instance `x9`"),
        ({"id": "d1"}, "row 2: the instance `d1` stands on the sheet twice"),
    ],
)
def test_a_sheet_that_says_something_else_is_refused(study: Path, spoil: dict[str, str], words: str) -> None:
    rows = [{"id": f"d{n}", "domains right?": "yes", "sub-tasks right?": "no"} for n in (1, 2)]
    rows[1] |= spoil
    sheet = study / "a.csv"
    sheet.write_text("\n".join([",".join(rows[0]), *(",".join(row.values()) for row in rows)]) + "\n")
    with pytest.raises(MagistrateError, match=words):
        read_sheets(study, [sheet])


def test_what_is_no_study_or_no_sheet_is_refused(study: Path, tmp_path: Path) -> None:
    with pytest.raises(MagistrateError, match="holds no study"):
        write_sheets(tmp_path / "none", INSTANCES)
    with pytest.raises(MagistrateError, match=r"no row with the id `d0`, which .* has assigned"):
        write_sheets(study, INSTANCES[1:])
    sheet = study / "a.csv"
    sheet.write_text("name,text\nd1,a\n")
    with pytest.raises(MagistrateError, match="row 1 has no `id`; give a sheet that `qualeval annotate` wrote"):
        read_sheets(study, [sheet])
    with pytest.raises(MagistrateError, match="a sheet is given twice"):
        read_sheets(study, [sheet, sheet])
    sheet.write_text("id,domains right?,sub-tasks right?\nd1,,\n")
    with pytest.raises(
        MagistrateError, match=r"a\.csv holds no answer in `domains right\?` or `sub-tasks right\?`: write yes or no"
    ):
        read_sheets(study, [sheet])

"""Values and paths inside of samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judges.data.rows import read_rows, renamed
from judges.data.samples import paths_of, value_at

SAMPLE: dict[str, Any] = {
    "ratings": "[4, 5, 4]",
    "annotations": ' {"Overall": [{"anna": 3}, 2], "by": "[[1]]"}',
    "broken": "[4, 5",
    "twice": '{"a": 1, "a": 2}',
    "number": "45",
    "deep": "[" * 100_000,
    "a.b": "named",
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("ratings", "[4, 5, 4]"),
        ("ratings.1", 5),
        ("ratings.3", None),
        ("annotations.Overall.0.anna", 3),
        ("annotations.Overall.1", 2),
        ("annotations.by.0.0", 1),
        ("broken.0", None),
        ("twice.a", None),
        ("number.0", None),
        ("deep.0", None),
        ("a.b", "named"),
    ],
)
def test_a_path_leads_into_texts_that_are_json(path: str, value: Any) -> None:
    assert value_at(SAMPLE, path) == value


def test_paths_are_suggested_inside_of_json() -> None:
    found = list(paths_of({"said": "[not JSON", "annotations": SAMPLE["annotations"]}))
    inside = ["annotations.Overall", "annotations.Overall.0", "annotations.Overall.1", "annotations.by", "annotations.by.0"]
    assert found == ["said", "annotations", *inside]


def test_a_cell_of_csv_is_read_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text('id,outputs\n1,"[""Tea, please."", ""No.""]"\n')
    (row,) = read_rows(file)
    assert (renamed(row, {"response": "outputs.0"}).sample or {})["response"] == "Tea, please."

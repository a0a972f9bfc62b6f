"""Samples that a program holds are read as the rows of a file are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from datasets import Dataset, DatasetDict

from judges.data.held import rows_of
from judges.errors import MagistrateError

SAMPLES: list[dict[str, Any]] = [
    {"id": "a", "turns": ["Hello.", "Hi."], "number": 1, "note": "one"},
    {"id": "b", "turns": [], "number": 2, "note": None},
]

MAKERS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "list": list,
    "iterator": iter,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "pyarrow": pa.Table.from_pylist,
    "record batch": pa.RecordBatch.from_pylist,
    "datasets": Dataset.from_list,
    "datasets of arrays": lambda samples: Dataset.from_list(samples).with_format("numpy"),
    "iterable datasets": lambda samples: Dataset.from_list(samples).to_iterable_dataset(),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_every_kind_gives_the_same_rows(kind: str) -> None:
    rows = list(rows_of(MAKERS[kind](SAMPLES)))
    assert [dict(row.sample or {}) for row in rows] == SAMPLES
    assert {type(row.sample["turns"]) for row in rows if row.sample} == {list}
    assert [(row.id, row.place, row.number) for row in rows] == [("a", "sample 1", 1), ("b", "sample 2", 2)]


def test_a_path_is_read_as_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes("id,text\n1,é\n".encode("cp1252"))
    for path in (file, str(file)):
        (row,) = rows_of(path, "cp1252")
        assert (row.sample, row.place) == ({"id": "1", "text": "é"}, "rows.csv row 1")


def test_cells_of_pandas_become_what_json_has() -> None:
    frame = pd.DataFrame(
        {
            "id": [np.int64(7), np.int64(8)],
            "list": [np.array(["x", "y"]), np.array([{"content": np.array([1.5])}], dtype=object)],
            "text": pd.array(["t", pd.NA], dtype="string"),
            "real": [np.nan, 0.5],
            5: [True, False],
        }
    )
    first, second = (dict(row.sample or {}) for row in rows_of(frame))
    assert first == {"id": 7, "list": ["x", "y"], "text": "t", "real": None, "5": True}
    assert second == {"id": 8, "list": [{"content": [1.5]}], "text": None, "real": 0.5, "5": False}
    assert [type(value) for value in second.values()] == [int, list, type(None), float, bool]
    assert [row.id for row in rows_of(frame)] == ["7", "8"]


def test_a_frame_of_many_rows_keeps_their_order() -> None:
    table = pa.table({"n": list(range(5000))})
    (batch,) = table.to_batches()
    for frame in (table, batch, table.to_pandas(), pl.from_arrow(table)):
        assert [row.sample["n"] for row in rows_of(frame) if row.sample] == list(range(5000))


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        (SAMPLES[0], "the samples are one object, of id, turns, number, note; give a list of samples"),
        (DatasetDict({"train": Dataset.from_list(SAMPLES)}), "one object, of train; give a list of samples, or one split"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "two columns are called `x`; rename one"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "two columns are called `1`; rename one"),
        (pa.table([[1], [2]], names=["x", "x"]), "two columns are called `x`; rename one"),
        (pa.record_batch([[1], [2]], names=["x", "x"]), "two columns are called `x`; rename one"),
        (None, "samples are a list of mappings, a data frame, a data set or a file, not None"),
        (5, "a data set or a file, not 5"),
        (["text"], "sample 1 must be an object, not a string; give a list of samples"),
    ],
)
def test_what_holds_no_samples_is_refused(samples: Any, said: str) -> None:
    with pytest.raises(MagistrateError, match=said):
        list(rows_of(samples))

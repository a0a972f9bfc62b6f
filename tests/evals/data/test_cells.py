"""What a cell of a table says."""

from __future__ import annotations

from typing import Any

import pytest

from evals.data.tables import is_empty, number_in


@pytest.mark.parametrize("cell", [None, "", " \n", float("nan")])
def test_a_cell_without_a_value_is_empty(cell: Any) -> None:
    assert is_empty(cell)
    assert number_in(cell) is None


@pytest.mark.parametrize(("cell", "number"), [(0, 0.0), ("0", 0.0), (" 2.5 ", 2.5), (True, 1.0), ("nan", None), ("x", None)])
def test_other_cells_are_not(cell: Any, number: float | None) -> None:
    assert not is_empty(cell)
    assert number_in(cell) == number

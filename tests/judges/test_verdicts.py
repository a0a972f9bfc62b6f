"""A list of verdicts as a table, summed up, and as a notebook shows it."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from judges.expected import Expectation
from judges.verdict import Verdict
from judges.verdict_lines import numbered_verdicts
from judges.verdicts import MOST_SHOWN, Verdicts

STRANGE = "<script>alert('&')</script>"


def verdict(number: object, scores: dict[str, Any] | None, **fields: Any) -> Verdict:
    status: Any = "unscored" if scores is None else "scored"
    return Verdict(id=str(number), judge="j", status=status, scores=scores, sample="0" * 32, fingerprint="0" * 16, **fields)


def some() -> Verdicts:
    return Verdicts(
        [
            verdict("a", {"kind": 5, "choice": "both"}, expected={"kind": Expectation(4.5, 0.25, 3.5)}),
            verdict("b", None, reason="it broke"),
            verdict("c", {"kind": None, "choice": "tie"}, expected={"kind": None}),
        ],
        {"kind": range(1, 6)},
    )


def test_it_is_a_list_whose_slices_are_alike() -> None:
    verdicts = some()
    assert verdicts == list(verdicts)
    assert (len(verdicts), verdicts[1].reason, verdicts[-1].id) == (3, "it broke", "c")
    assert isinstance(verdicts[:2], Verdicts)
    assert verdicts[:2].legal == verdicts.legal
    assert (Verdicts(), Verdicts().metrics) == ([], [])


def test_a_table_has_a_row_a_sample_and_a_column_a_metric() -> None:
    table = some().to_pandas()
    assert list(table) == ["id", "kind", "choice", "status", "reason", "expected_kind", "entropy_kind", "calibrated_kind"]
    assert list(table["id"]) == ["a", "b", "c"]
    assert list(table["status"]) == ["scored", "unscored", "scored"]
    assert table["kind"].to_list()[0] == 5
    assert table["kind"].isna().to_list() == [False, True, True]
    assert table["reason"].to_list()[1] == "it broke"
    assert table["expected_kind"].to_list()[0] == 4.5
    assert table["entropy_kind"].isna().to_list() == [False, True, True]


def test_a_table_without_expected_scores_or_rows() -> None:
    assert list(Verdicts([verdict(1, {"x": 1})]).to_pandas()) == ["id", "x", "status", "reason"]
    assert Verdicts().to_pandas().shape == (0, 3)


def test_a_metric_called_as_a_column_keeps_its_scores() -> None:
    table = Verdicts([verdict(1, {"id": 3, "status": 4, "expected_id": 5}, expected={"id": Expectation(3.5, 0.1)})]).to_pandas()
    assert table.to_dict("records")[0] | {"reason": None} == {
        "id": "1", "id_": 3, "status_": 4, "expected_id": 5, "status": "scored", "reason": None,
        "expected_id_": 3.5, "entropy_id": 0.1,
    }  # fmt: skip


def test_a_summary_counts() -> None:
    summary = some().summary()
    assert (summary.scored, summary.means["kind"].mean, summary.labels["choice"]) == (2, 5, {"both": 1, "tie": 1})
    assert summary.unscored == {"it broke": 1}


def test_a_file_is_read_as_verdicts(tmp_path: Path) -> None:
    file = some().write(tmp_path / "verdicts.jsonl")
    assert [verdict for _, verdict in numbered_verdicts(file)] == some()
    Verdicts().write(str(file))
    assert file.read_text() == ""


class Cells(HTMLParser):
    """The tags of a page, and the texts of its cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert attrs == []
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_notebook_shows_figures_and_rows() -> None:
    shown = Cells(some()._repr_html_())
    assert {"2 scored, 1 unscored", "5.00", "– (one value)", "choice: both 1 (50%), tie 1 (50%)", "it broke"} <= {*shown.texts}
    many = Verdicts([verdict(number, {"x": number % 2}) for number in range(MOST_SHOWN + 3)], {"x": (0, 1)})
    page = many._repr_html_()
    assert "and 3 more" in page
    assert f"<td>{MOST_SHOWN - 1}</td>" in page
    assert f"<td>{MOST_SHOWN + 1}</td>" not in page


@pytest.mark.parametrize("place", ["id", "metric", "label", "reason"])
def test_a_notebook_runs_nothing_of_a_verdict(place: str) -> None:
    scores: dict[str, Any] = {STRANGE if place == "metric" else "x": STRANGE if place == "label" else 1}
    one = verdict(STRANGE if place == "id" else 1, None if place == "reason" else scores, reason=STRANGE)
    shown = Cells(Verdicts([one])._repr_html_())
    assert shown.tags <= {"p", "table", "thead", "tbody", "tr", "th", "td"}
    assert any(STRANGE in text for text in shown.texts)

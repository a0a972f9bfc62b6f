"""What is written, and how."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from evals.qualeval.charts import charts, pictures, row_sets
from evals.qualeval.report import write
from judges.errors import MagistrateError
from tests.evals.qualeval import strange
from tests.evals.qualeval.examples import dialogsum

PICTURES = {"priors-domain.png", "priors-subtask.png", "proficiency-domain.png", "proficiency-subtask.png", "calibration.png"}


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert png.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def test_a_study_is_written_whole_and_again(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "study"
    written = write(dialogsum(), folder)
    assert {path.name for path in written} == {"index.html", "report.md"} | PICTURES
    assert set(folder.iterdir()) == set(written)
    assert (folder / "index.html").read_text(encoding="utf-8").endswith("</html>")
    for name in PICTURES:
        width, height = size_of((folder / name).read_bytes())
        assert width > 1_400
        assert height > 900
        assert name in (folder / "report.md").read_text(encoding="utf-8")
    (folder / "mine.png").write_bytes(b"")
    written = write(strange.empty(), folder)
    assert {path.name for path in folder.iterdir()} == {path.name for path in written} | {"mine.png"}
    assert {path.name for path in written} == {"index.html", "report.md", "priors-domain.png", "priors-subtask.png"}


def test_pictures_are_drawn_of_the_strangest_report() -> None:
    report = strange.hostile()
    drawn = {f"{name}.png": one.png() for name, one in pictures(report, row_sets(report)).items()}
    assert set(drawn) == PICTURES
    assert all(size_of(png)[0] > 1_000 for png in drawn.values())


def test_a_chart_without_figures_is_left_out() -> None:
    report = strange.empty()
    assert set(charts(report, row_sets(report))) == {"priors", "shares", "pairs"} - (
        set() if row_sets(report)["cells"] else {"pairs"}
    )


def test_what_is_no_report_is_refused(tmp_path: Path) -> None:
    report = strange.empty()
    del report["kinds"]
    with pytest.raises(MagistrateError, match="this is no report of a study: it has no `kinds`"):
        write(report, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_leaves_no_half_of_it(tmp_path: Path) -> None:
    (tmp_path / "index.html").mkdir()
    with pytest.raises(MagistrateError, match=r"the page cannot be written to .*index\.html"):
        write(strange.empty(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]

"""What is written, and how; the pictures; and battles that are read again."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from evals.arena.battles import BattleList, Battles
from evals.arena.charts import MOST_MET, MOST_MODELS, MOST_PANELS, MOST_PARTS, MOST_RATED, STRONGEST, charts, labels
from evals.arena.rating import Options
from evals.arena.report import document, write
from evals.arena.sources import gather
from evals.arena.storage import write_battles
from evals.arena.study import report
from evals.data.comparisons import Record
from evals.data.published_comparisons import read_battles
from evals.reports.charts import theme
from judges.errors import MagistrateError
from tests.evals.arena import examples

PICTURES = {"ratings.png", "by_capa.png", "by_lang.png", "taken_by_capa.png", "taken_by_lang.png"}
FILES = {"index.html", "report.md", "report.json", *PICTURES}
LEFT_OUT = {"by_capa.png", "taken_by_capa.png", "taken_by_lang.png"}
"""Where nobody names a capability or a language."""


@pytest.fixture(scope="module")
def usual() -> dict[str, Any]:
    return examples.usual_report()


def bare(name: str) -> dict[str, Any]:
    return report(examples.BARE[name], Options(rounds=10))


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert png.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def test_a_report_is_written_whole_and_again(usual: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "an" / "arena"
    written = write(usual, folder, examples.usual_examples())
    assert {path.name for path in written} == FILES
    assert set(folder.iterdir()) == set(written)
    assert written[0].name == "index.html", "the command names the first"
    assert json.loads((folder / "report.json").read_text(encoding="utf-8")) == usual
    assert (folder / "index.html").read_text(encoding="utf-8").endswith("</html>")
    (folder / "mine.png").write_bytes(b"")
    (folder / "battles.jsonl").write_bytes(b"")
    written = write(bare("all ties"), folder)
    assert {path.name for path in written} == FILES - LEFT_OUT
    assert {path.name for path in folder.iterdir()} == (FILES - LEFT_OUT) | {"mine.png", "battles.jsonl"}
    written = write(bare("nothing scored"), folder)
    assert {path.name for path in folder.iterdir()} == {"index.html", "report.md", "report.json", "mine.png", "battles.jsonl"}


def test_a_report_of_names_that_cannot_be_encoded_is_written(tmp_path: Path) -> None:
    found = report(examples.only(("1", "a\ud800", "b", "A"), ("2", "a\ud800", "b", "B")), Options(rounds=10))
    write(found, tmp_path)
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["models"] == ["a\N{REPLACEMENT CHARACTER}", "b"]


def test_a_folder_that_cannot_be_written_to_is_told(usual: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MagistrateError, match="the report cannot be written to"):
        write(usual, tmp_path / "file" / "arena")
    (tmp_path / "index.html").mkdir()
    with pytest.raises(MagistrateError, match="the report cannot be written to"):
        write(usual, tmp_path)


def test_pictures_are_of_a_size_to_be_looked_at(usual: dict[str, Any]) -> None:
    drawn = {name: size_of(png) for name, png in document(usual).pictures().items()}
    assert set(drawn) == PICTURES
    for width, height in drawn.values():
        assert 700 < width < 2_000
        assert 400 < height < 1_500


def parted(models: int, parts: int) -> dict[str, Any]:
    """A report of many models and capabilities, by hand: working it out would take a while."""
    cell = {"games": 4, "win": 0.5, "tie": 0.25, "lose": 0.25, "not_bad": 0.75, "score": 3}
    row = {"models": [cell] * models, "won": [[0.5] * 20] * 20}
    return {
        "models": [f"a-model-of-some-size-{number}" for number in range(models)],
        "order": list(range(models)),
        "ratings": {"models": [{"rating": 1000.0 - number, "low": 900.0, "high": 1100.0} for number in range(models)]},
        "standings": [
            {"kind": "LANG", "name": "Overall", **row},
            *({"kind": "CAPA", "name": f"capability number {number}", **row} for number in range(parts)),
        ],
        "counts": {"scored": 1},
        "made": {},
        "options": {"level": 0.95},
    }


def test_pictures_of_very_many_models_stay_of_a_size_to_be_looked_at() -> None:
    found = parted(models=100, parts=80)
    drawn = {name: size_of(drawing.png()) for name, drawing in charts(found).items()}
    for width, height in drawn.values():
        assert width < 3_500
        assert height < 4_500
    cut = {name: drawing.cut for name, drawing in charts(found).items()}
    assert cut["ratings"] == [f"The first {MOST_RATED} of 100 models"]
    assert cut["taken_by_capa"] == [f"The first {MOST_MODELS} of 100 models and the first {MOST_PARTS} of 80 rows"]
    assert cut["by_capa"] == [f"The first {MOST_MET} of 100 models and the first {MOST_PANELS} of 80 parts"]
    assert cut["by_lang"] == [f"The first {MOST_MET} of 100 models"]
    drawn_as = {name: drawing.svg() for name, drawing in charts(found).items()}
    assert drawn_as["taken_by_capa"].count("50%") + drawn_as["taken_by_capa"].count("63%") == MOST_MODELS * MOST_PARTS
    assert "capability number 59" in drawn_as["taken_by_capa"]
    assert "capability number 60" not in drawn_as["taken_by_capa"]
    assert drawn_as["by_capa"].count("50%") == MOST_MET * MOST_MET * MOST_PANELS
    assert "capability number 8" in drawn_as["by_capa"]
    assert "capability number 9" not in drawn_as["by_capa"]


def test_a_chart_of_few_says_nothing_of_what_is_left_out(usual: dict[str, Any]) -> None:
    assert {name: drawing.cut for name, drawing in charts(usual).items()} == {Path(name).stem: [] for name in PICTURES}


def test_every_model_has_its_mark_though_names_are_cut_off_alike() -> None:
    found = examples.hostile_report()
    assert len(set(labels(examples.NAMES))) == len(examples.NAMES)
    assert labels(["m" * 300, "m" * 301])[1].startswith("(2) m")
    assert labels(["", "\n", ""]) == ["(no name)", "(2) (no name)", "(3) (no name)"]
    made = {name: drawing.svg() for name, drawing in charts(found).items()}
    (points,) = re.findall(r'<g class="mark-symbol role-mark.*?</g>', made["ratings"])
    assert points.count("<path") == len(examples.NAMES)
    parts = [one for one in found["standings"] if one["kind"] == "CAPA"]
    assert made["taken_by_capa"].count("%</text>") == len(parts) * len(examples.NAMES)
    assert "<script" not in "".join(made.values())
    assert document(found).pictures().keys() == PICTURES


def mixed(one: str, other: str, share: float) -> list[float]:
    channels = [[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in (one, other)]
    return [share * a + (1 - share) * b for a, b in zip(*channels, strict=True)]


def light(colour: list[float]) -> float:
    parts = [value / 255 / 12.92 if value / 255 <= 0.04045 else ((value / 255 + 0.055) / 1.055) ** 2.4 for value in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK])
@pytest.mark.parametrize("side", ["model1", "model2"])
def test_figures_can_be_read_on_the_strongest_colour(colours: theme.Colours, side: str) -> None:
    ground = light(mixed(colours[side], colours["paper"], STRONGEST))
    ink = light(mixed(colours["ink"], colours["paper"], 1))
    assert (max(ground, ink) + 0.05) / (min(ground, ink) + 0.05) >= 4.5


def written(battles: Battles, folder: Path) -> list[Record]:
    return list(read_battles(write_battles(battles, folder)))


def test_battles_that_are_written_are_read_again_as_they_were(tmp_path: Path) -> None:
    battles = examples.usual()
    records = written(battles, tmp_path)
    assert len(records) == len(battles)
    again = BattleList(battles.models)
    for one in records:
        again.add(one)
    read = again.battles()
    for name in ("first", "second", "preference", "orders", "identical"):
        assert getattr(read, name).tolist() == getattr(battles, name).tolist(), name
    assert [repr(one) for one in read.probability.tolist()] == [repr(one) for one in battles.probability.tolist()]
    for name in ("question", "capability", "language", "judge"):
        ours, theirs = getattr(read, name), getattr(battles, name)
        assert (ours.names, ours.codes.tolist()) == (theirs.names, theirs.codes.tolist())
    assert battles.identical.any()
    assert read.reasons.total() == battles.reasons.total() > 0


def test_a_report_on_an_arena_s_battles_counts_what_the_arena_counted(tmp_path: Path) -> None:
    battles = examples.usual(questions=12)
    read, faults = gather([write_battles(battles, tmp_path)])
    assert faults == []
    ours, theirs = (report(one, Options(rounds=10)) for one in (read, battles))
    for name in ("comparisons", "meaningful", "scored", "questions"):
        assert ours["counts"][name] == theirs["counts"][name]
    position = [[one["biases"]["position"][name] for name in ("flips", "first_gains")] for one in (ours, theirs)]
    assert position[0] == position[1]


def test_battles_of_which_little_is_known_are_written_too(tmp_path: Path) -> None:
    made = BattleList()
    made.add(Record("", "a", "b\ud800", "A"))
    made.add(Record("q", "a", "c", None, reason="why not"))
    rows = [json.loads(one) for one in write_battles(made.battles(), tmp_path).read_text(encoding="utf-8").splitlines()]
    assert rows[0] == {
        "question_id": "",
        "model_a": "a",
        "model_b": "b\N{REPLACEMENT CHARACTER}",
        "preference": "A",
        "orders": [],
        "probability": None,
        "identical": False,
        "capability": None,
        "language": None,
        "judge": None,
        "reason": None,
        "style_a": None,
        "style_b": None,
    }
    first, second = read_battles(tmp_path / "battles.jsonl")
    assert (first.question, first.preference) == ("battles.jsonl row 1", "A")
    assert (second.preference, second.reason, second.identical) == (None, "why not", False)


@pytest.mark.parametrize("orders", [["A", "tie"], "AB", [["A"]], {"A": 1}])
def test_orders_of_another_kind_are_not_taken_for_choices(tmp_path: Path, orders: Any) -> None:
    path = tmp_path / "b.jsonl"
    row = {"question_id": "q", "model_a": "a", "model_b": "b", "preference": "A", "orders": orders, "identical": True}
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    (record,) = read_battles(path)
    assert (record.preference, record.orders, record.identical) == ("A", (), False)


def test_the_page_s_battles_are_the_scored_ones_of_the_first_questions() -> None:
    battles = examples.usual()
    shown = examples.usual_examples()
    assert len(shown["battles"]) == int(battles.scored.sum())
    assert shown["left_out"] == 0
    assert shown["questions"][3]["text"] == "Question 3?\n\nAnd then?"
    place, first, second, preference, choices, reasons = shown["battles"][0]
    assert shown["questions"][place]["answers"][first] == examples.answers_to(place, examples.MODELS)[first]
    assert (len(choices), preference in ("A", "B", "both", "neither", "tie")) == (2, True)
    assert reasons == f"{shown['models'][first]} is <b>more</b> exact on {shown['questions'][place]['index']}."
    assert second != first

"""Rated samples out of published files and of any file with columns of ratings."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evals.data.published_ratings import USR_QUALITIES
from evals.data.rated_samples import read_rated
from evals.data.tables import EMPTY, NO_NUMBER, ratings_in
from evals.meta.people.raters import mean
from judges.errors import MagistrateError
from judges.llm_eval import LLMEval


def written(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def told(faults: Any) -> dict[str, tuple[int, list[str]]]:
    return {one.what: (one.count, one.ids) for one in faults}


def test_usr_is_read_with_the_next_turn_as_reference(data: Path) -> None:
    found = read_rated(data / "usr" / "tc_usr_data.json")
    assert found.name == "TopicalChat (USR)"
    assert found.qualities == ["Understandable", "Natural", "Maintains Context", "Engaging", "Uses Knowledge", "Overall"]
    assert (len(found.samples), len({one.item for one in found.samples}), found.faults) == (360, 60, [])
    raw = json.loads((data / "usr" / "tc_usr_data.json").read_text())
    truths = [next(one["response"] for one in row["responses"] if one["model"] == "Original Ground Truth") for row in raw]
    for place, one in enumerate(found.samples):
        answer = raw[place // 6]["responses"][place % 6]
        assert one.sample["response"] == answer["response"].strip()
        assert one.ratings["Overall"] == answer["Overall"]
        own = answer["model"] == "Original Ground Truth"
        assert one.sample.get("reference") == (None if own else truths[place // 6].strip())
    assert len(found.samples[0].sample["context"]) == 5
    assert "Context: so , i 'm reading" in LLMEval().render(found.samples[0].sample).prompts[0].messages[0].content


def usr_row(*models: str) -> dict[str, Any]:
    """A row of USR's form, with the original turn and a response of each model."""
    rated = {quality: [1, 1, 0] for quality in USR_QUALITIES}
    answers = [{"response": f"I am {model} .\n", "model": model, **rated} for model in ("Original Ground Truth", *models)]
    return {"context": "hi there\nhello !\n", "fact": "your persona: i've three dogs.\n", "responses": answers}


@pytest.mark.parametrize(
    ("models", "name"),
    [
        (("KV-MemNN", "Seq2Seq", "Language Model", "New Human Generated"), "PersonaChat (USR)"),
        (("Argmax Decoding", "Nucleus Decoding (p = 0.3)", "New Human Generated"), "TopicalChat (USR)"),
        (("New Human Generated",), "USR"),
        (("Seq2Seq", "Argmax Decoding"), "USR"),
    ],
)
def test_usrs_two_files_are_told_apart_by_the_models_that_responded(tmp_path: Path, models: tuple[str, ...], name: str) -> None:
    found = read_rated(written(tmp_path / "usr.jsonl", [usr_row(*models)] * 2))
    assert (found.name, {one.set for one in found.samples}, found.faults) == (name, {name}, [])
    assert len(found.samples) == 2 * (len(models) + 1)
    assert found.samples[1].sample["reference"] == "I am Original Ground Truth ."


def test_grade_is_two_sets_of_many_raters(data: Path) -> None:
    found = read_rated(data / "grade" / "human_judgement.json")
    assert Counter(one.set for one in found.samples) == {"ConvAI2 (GRADE)": 600, "DailyDialog (GRADE)": 300}
    assert {len(one.ratings["Quality"]) for one in found.samples} == {11}, "every sample has a place for each rater"
    first = found.samples[0]
    assert [one for one in first.ratings["Quality"] if one is not None] == [3, 5, 5, 2, 4, 5, 3, 3, 5, 1]
    assert first.sample["context"][0] == "yes , that's my only day off until Thursday ."
    assert len(first.sample["context"]) == 2
    assert first.system == "transformer_generator"


def test_dialsummeval_is_a_reply_to_a_dialogue(data: Path) -> None:
    found = read_rated(data / "dialsummeval" / "human_judgment.jsonl")
    assert len(found.samples) == len({one.id for one in found.samples}) == 1400
    assert len({one.item for one in found.samples}) == 100
    first = found.samples[0]
    assert first.id == "dialsummeval-13611791-A"
    assert first.sample["context"][0] == "Elena: Happy birthday my dear!"
    assert len(first.sample["context"]) == 8
    assert first.ratings == {"consistency": [5, 5, 4], "relevance": [4, 3, 5], "fluency": [4, 5, 5], "coherence": [4, 5, 5]}
    assert len(read_rated(data / "dialsummeval" / "human_judgment.jsonl", limit=30).samples) == 30
    assert (first.system, found.samples[1].system, len({one.system for one in found.samples})) == ("A", "B", 14)
    assert "reference" not in first.sample, "people wrote it"
    assert [one.sample["reference"] for one in found.samples[1:14]] == [first.sample["response"]] * 13


@pytest.mark.parametrize(
    ("cell", "ratings", "problems"),
    [
        (3, [3.0], []),
        ("4.5", [4.5], []),
        ([1, "2", None], [1.0, 2.0, None], [EMPTY]),
        ("[3, 5]", [3.0, 5.0], []),
        ("", [None], [EMPTY]),
        (None, [None], [EMPTY]),
        ([], [], [EMPTY]),
        ("good", [None], [NO_NUMBER]),
        ("nan", [None], [NO_NUMBER]),
        ("[3, 5", [None], [NO_NUMBER]),
        ({"a": 1}, [None], [NO_NUMBER]),
        (True, [1.0], []),
    ],
)
def test_a_cell_holds_ratings_or_says_what_it_holds(cell: Any, ratings: list[float | None], problems: list[str]) -> None:
    assert ratings_in(cell) == (ratings, problems)


def test_the_mean_does_not_depend_on_who_comes_first() -> None:
    assert mean([0.1, 0.2, 0.3]) == mean([0.3, 0.2, 0.1])
    assert mean([None, 2.0]) == 2.0
    assert math.isnan(mean([None]))


def rows() -> list[dict[str, Any]]:
    return [
        {
            "id": f"s{place}",
            "question": f"q{place}",
            "text": f"t{place}",
            "doc": place // 2,
            "anna": 1 + place % 5,
            "bob": [3, place % 4],
        }
        for place in range(12)
    ]


def test_columns_of_any_file_are_raters(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.jsonl", rows())
    found = read_rated(
        path,
        {"quality": ["anna", "bob"], "style": ["anna"]},
        fields={"context": "question", "response": "text"},
        item="doc",
    )
    assert (found.name, found.qualities, found.faults) == ("mine", ["quality", "style"], [])
    second = found.samples[1]
    assert (second.id, second.item, second.set) == ("s1", "0", "mine")
    assert second.ratings == {"quality": [2.0, 3.0, 1.0], "style": [2.0]}
    assert second.sample["context"] == "q1"
    assert second.sample["response"] == "t1"
    assert not {"anna", "bob"} & second.sample.keys(), "a judge is not to see what people said"
    assert second.system is None
    assert read_rated(path, {"quality": ["anna"]}, system="doc").samples[2].system == "1"
    named = read_rated(path, {"quality": ["anna"]}, fields={"id": "text", "response": "text"}).samples[1]
    assert (named.id, named.item) == ("t1", "t1")


def test_what_cannot_be_used_is_counted(tmp_path: Path) -> None:
    made = rows()
    made[0]["anna"] = ""
    made[1]["anna"] = "fine"
    made[2]["bob"] = [4]
    made[3] = {**made[3], "anna": None, "bob": []}
    made[4]["doc"] = ""
    path = written(tmp_path / "mine.jsonl", made)
    path.write_text(path.read_text() + "{torn\n")
    found = read_rated(path, {"quality": ["anna", "bob"]}, item="doc", system="doc")
    assert told(found.faults) == {
        "cannot be read": (1, ["mine.jsonl row 13"]),
        "`anna` has an empty cell": (2, ["s0", "s3"]),
        "`anna` holds what is no number": (1, ["s1"]),
        "`bob` has an empty cell": (1, ["s3"]),
        "`doc` says nothing, so the sample is an item of its own": (1, ["s4"]),
        "`doc` says nothing, so the sample is of no system": (1, ["s4"]),
        "has no rating": (1, ["s3"]),
    }
    assert len(found.samples) == 11
    assert found.samples[2].ratings["quality"] == [3.0, 4.0, None], "a rater who is missing keeps the others' places"


def test_a_published_file_with_holes_is_read_as_far_as_it_goes(data: Path, tmp_path: Path) -> None:
    raw = json.loads((data / "usr" / "tc_usr_data.json").read_text())[:3]
    raw[0]["responses"][0]["Natural"] = ["x", None, 2]
    raw[0]["responses"][1] = {"model": "?"}
    raw[1]["responses"] = "none"
    del raw[2]["context"]
    (tmp_path / "usr.json").write_text(json.dumps(raw))
    found = read_rated(tmp_path / "usr.json")
    assert [one.id for one in found.samples] == ["usr-0-0", "usr-0-2", "usr-0-3", "usr-0-4", "usr-0-5"]
    assert told(found.faults) == {
        "`Natural` holds what is no number": (1, ["usr-0-0"]),
        "`Natural` has an empty cell": (1, ["usr-0-0"]),
        "has no response": (1, ["usr-0-1"]),
        "has no list of responses to a text": (1, ["usr-1"]),
        "has no field `context`": (1, ["usr.json row 3"]),
    }


@pytest.mark.parametrize(
    ("human", "more", "words"),
    [
        (None, {}, "is no file of ratings that is known .* `--human QUALITY=COLUMN`"),
        ({"q": ["carl"]}, {}, "no column `carl`; there are `id`, `question`"),
        ({"q": ["anna", "anna"]}, {}, "`--human q` names the column `anna` twice; give each rater's once"),
        ({"q": ["anna"]}, {"item": "page"}, "no column `page`"),
        ({"q": ["anna"]}, {"fields": {"context": "page"}}, "no column `page`"),
        ({"q": ["text"]}, {}, r"no sample with a rating \(12 rows: `text` holds what is no number; 12 rows: has no rating\)"),
    ],
)
def test_a_file_without_what_is_asked_for_is_refused(tmp_path: Path, human: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(MagistrateError, match=words):
        read_rated(written(tmp_path / "mine.jsonl", rows()), human, **more)


def test_two_samples_of_one_id_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.jsonl", [*rows(), rows()[0]])
    with pytest.raises(MagistrateError, match="two samples have the id `s0`"):
        read_rated(path, {"quality": ["anna"]})


def test_the_items_of_a_published_file_are_known(data: Path) -> None:
    with pytest.raises(MagistrateError, match="`--item fact` goes with `--human`"):
        read_rated(data / "usr" / "tc_usr_data.json", item="fact")
    with pytest.raises(MagistrateError, match="have no field `page`; they have context, response, fact, reference"):
        read_rated(data / "usr" / "tc_usr_data.json", fields={"references": "page"})
    found = read_rated(data / "usr" / "tc_usr_data.json", fields={"references": "fact"}, limit=7)
    assert found.samples[0].sample["references"].startswith("from left , emma baker")
    assert [one.id for one in found.samples][-1] == "usr-1-0"

"""Whether a judge may stand in for annotators, from files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.meta.checks.replace import Options, replace
from evals.meta.checks.replace_report import document, figures
from evals.reports.markdown import markdown
from evals.stats.alternative_annotator import alternative_annotator
from judges.errors import MagistrateError
from judges.expected import Expectation
from tests.evals.meta.test_estimate import scored, unscored, write_labels, write_verdicts

ITEMS = 60
RATERS = ("ann", "ben", "cyd")


class Made:
    """60 samples that three people rate from 1 to 5, and a judge that says what is true of them."""

    def __init__(self, folder: Path) -> None:
        chance = np.random.default_rng(4)
        self.truth = chance.integers(1, 6, ITEMS)
        self.people = np.clip(self.truth[:, None] + np.rint(chance.normal(0, 0.9, (ITEMS, 3))), 1, 5).astype(int)
        self.verdicts = [
            scored(f"s{place}", good=int(one), kind="yes" if one > 2 else "no") for place, one in enumerate(self.truth)
        ]
        self.rows: list[dict[str, Any]] = [
            {"id": f"s{place}", "rater": name, "good": int(one), "kind": "yes" if one > 2 else "no"}
            for place, row in enumerate(self.people)
            for name, one in zip(RATERS, row, strict=True)
        ]
        self.folder = folder

    def write(self, rows: Sequence[Mapping[str, Any]] | None = None) -> tuple[Path, Path]:
        return (
            write_verdicts(self.folder / "verdicts.jsonl", self.verdicts),
            write_labels(self.folder / "raters.csv", rows or self.rows),
        )


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def test_numbers_go_by_nearness_and_names_by_equality(made: Made) -> None:
    found = replace(*made.write())
    good, kind = found.metrics
    assert (good.graded, kind.graded) == (True, False)
    assert good.found == alternative_annotator(made.truth, made.people, graded=True)
    assert kind.found == alternative_annotator(made.truth > 2, made.people > 2, graded=False)
    assert good.found.passed
    assert (list(good.raters), found.faults) == (list(RATERS), [])
    (named,) = replace(*made.write(), Options(columns={"good": "good"}, nominal=True)).metrics
    assert named.found == alternative_annotator(made.truth, made.people, graded=False)


def test_a_number_among_names_is_a_name(made: Made) -> None:
    made.verdicts[0] = scored("s0", good=3, kind=1)
    made.verdicts[1] = scored("s1", good=3, kind=None)
    kind = replace(*made.write()).metrics[1]
    truth = np.where(np.arange(ITEMS) == 0, 7.0, np.where(np.arange(ITEMS) == 1, math.nan, made.truth > 2))
    assert kind.found == alternative_annotator(truth, made.people > 2, graded=False)
    assert kind.unscored == {"the verdict has no label for it": 1}


def test_a_whole_number_of_a_workbook_is_the_name_that_the_judge_writes(made: Made) -> None:
    made.verdicts = [scored(f"s{place}", kind=str(int(truth > 2))) for place, truth in enumerate(made.truth)]
    rows = [
        {"id": f"s{place}", "rater": rater, "kind": float(label > 2)}
        for place, row in enumerate(made.people.tolist())
        for rater, label in zip(RATERS, row, strict=True)
    ]
    verdicts, _ = made.write()
    labels = made.folder / "raters.jsonl"
    labels.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (kind,) = replace(verdicts, labels).metrics
    assert kind.found == alternative_annotator(made.truth > 2, made.people > 2, graded=False)


def test_a_column_a_rater_is_the_same(made: Made) -> None:
    rows = [{"id": f"s{place}", **dict(zip(RATERS, row, strict=True))} for place, row in enumerate(made.people.tolist())]
    (wide,) = replace(*made.write(rows), Options(columns={"good": "good"}, raters=RATERS)).metrics
    assert wide.found == replace(*made.write()).metrics[0].found
    with pytest.raises(MagistrateError, match="columns of raters are of one metric; say which of `good`, `kind`"):
        replace(*made.write(rows), Options(raters=RATERS))
    with pytest.raises(MagistrateError, match="no column `dan`"):
        replace(*made.write(rows), Options(columns={"good": "good"}, raters=("ann", "dan")))


def test_samples_about_one_thing_go_together(made: Made) -> None:
    rows = [{"id": f"s{place}", "document": f"d{place % 31}"} for place in range(ITEMS - 2)]
    items = write_labels(made.folder / "items.csv", rows)
    found = replace(*made.write(), Options(items=items, item="document"))
    about = np.arange(ITEMS - 2) % 31
    assert found.metrics[0].found == alternative_annotator(
        made.truth[: ITEMS - 2], made.people[: ITEMS - 2], graded=True, subjects=about
    )
    text = markdown(document(found))
    assert "samples are about 31 things, and the test is that of these" in text
    assert "2 rows: left out: items.csv names no item" in text
    assert "takes samples as independent" not in text
    assert "takes samples as independent" in markdown(document(replace(*made.write())))


def test_a_judge_that_guesses_fails(made: Made) -> None:
    chance = np.random.default_rng(0)
    made.verdicts = [scored(f"s{place}", good=int(chance.integers(1, 6))) for place in range(ITEMS)]
    found = replace(*made.write())
    assert found.metrics[0].found.winning_rate == 0
    text = markdown(document(found))
    assert "good: the judge may not stand in for an annotator: it replaces 0 of 3 (winning rate 0.00" in text


def test_the_page_says_what_is_decided_and_of_whom(made: Made) -> None:
    found = replace(*made.write())
    text = markdown(document(found))
    assert "good: the judge may stand in for an annotator: it replaces 3 of 3 (winning rate 1.00" in text
    assert "| ann | Student | 60 |" in text
    report = json.loads(json.dumps(figures(found), allow_nan=False))
    assert [row["rater"] for row in report["metrics"][0]["found"]["raters"]] == list(RATERS)


def test_scales_are_moved_where_they_are_told(made: Made) -> None:
    made.verdicts = [scored(f"s{place}", good=int(one - 1) * 25) for place, one in enumerate(made.truth)]
    with pytest.raises(MagistrateError, match="from 0 to 100 and people's labels from 1 to 5; say which scales"):
        replace(*made.write())
    (found,) = replace(*made.write(), Options(judge_scale=(0, 100), human_scale=(1, 5))).metrics
    assert found.found == alternative_annotator(made.truth, made.people, graded=True)
    assert found.notes == []
    with pytest.raises(MagistrateError, match="`--judge-scale 0,50`: there are 0 and 100"):
        replace(*made.write(), Options(judge_scale=(0, 50), human_scale=(1, 5)))
    with pytest.raises(MagistrateError, match="the first must be below the second"):
        replace(*made.write(), Options(judge_scale=(100, 0), human_scale=(1, 5)))
    with pytest.raises(MagistrateError, match="belong together"):
        replace(*made.write(), Options(judge_scale=(0, 50)))
    (wide,) = replace(*made.write(), Options(judge_scale=(0, 100), human_scale=(0, 5))).metrics
    assert "people's labels go from 1 to 5, on what is said to be a scale from 0 to 5" in wide.notes
    made.verdicts[0] = scored("s0", good=30)
    (between,) = replace(*made.write(), Options(judge_scale=(0, 100), human_scale=(1, 5))).metrics
    assert "lie between their labels" in between.notes[0]


def test_nothing_that_is_left_out_is_lost(made: Made) -> None:
    made.verdicts[0] = unscored("s0", "context overflow")
    made.rows = [row for row in made.rows if not (row["id"] == "s1" and row["rater"] != "ann")]
    made.rows[5]["good"] = "fine"
    made.rows[6]["good"] = ""
    made.rows += [{"id": "x", "rater": "ann", "good": 1, "kind": "no"}, {"id": "s3", "rater": "", "good": 1, "kind": "no"}]
    made.rows += [{"id": f"s{place}", "rater": "dan", "good": 1, "kind": "no"} for place in range(2, 20)]
    found = replace(*made.write())
    good = found.metrics[0]
    assert good.unscored == {"context overflow": 1}
    assert good.alone == 1
    assert {fault.what: fault.count for fault in found.faults} == {
        "`good` is no number": 1,
        "`good` is empty": 1,
        "no rater": 1,
        "no verdict in verdicts.jsonl": 1,
    }
    assert {good.raters[rater]: items for rater, items in good.found.few.items()} == {"dan": 18}
    text = markdown(document(found))
    assert "1 annotator left out, with fewer than 30 items: dan (18)" in text
    few = replace(*made.write(), Options(few=True))
    assert few.metrics[0].found.raters[3].test == "Wilcoxon"
    assert (
        "1 annotator with fewer than 30 items, tested by Wilcoxon's signed ranks, which replaces people far too readily"
        in markdown(document(few))
    )


def test_few_annotators_are_warned_of_and_one_is_refused(made: Made) -> None:
    made.rows = [row for row in made.rows if row["rater"] != "cyd"]
    good = replace(*made.write()).metrics[0]
    assert good.notes[0].startswith("only 2 annotators are tested; the test asks for 3")
    made.rows = [row for row in made.rows if row["rater"] == "ann"]
    with pytest.raises(MagistrateError, match="good: no annotator has 30 items"):
        replace(*made.write())


def test_expected_scores_are_used_where_asked_for(made: Made) -> None:
    made.verdicts = [
        changed(one, expected={"good": Expectation(float(truth) * 0.9 + 0.4, 0.1)})
        for one, truth in zip(made.verdicts, made.truth, strict=True)
    ]
    good = replace(*made.write(), Options(expected=True)).metrics[0]
    assert good.found == alternative_annotator(made.truth * 0.9 + 0.4, made.people, graded=True)
    with pytest.raises(MagistrateError, match="expected scores are no names"):
        replace(*made.write(), Options(expected=True, nominal=True))


def test_a_judge_that_hardly_says_anything_is_told_of(made: Made) -> None:
    made.verdicts = [scored(f"s{place}", good=3, kind="maybe") for place in range(ITEMS)]
    good, kind = replace(*made.write()).metrics
    assert "gave every sample 3" in good.notes[0]
    assert kind.notes == ["no label of the judge's is one that people gave; are they spelt alike?"]
    assert not math.isnan(good.found.advantage)


def test_files_that_do_not_belong_together_are_told(made: Made) -> None:
    with pytest.raises(MagistrateError, match="nothing for `style`; they have `good`, `kind`"):
        replace(*made.write(), Options(columns={"style": "good"}))
    with pytest.raises(MagistrateError, match=r"no column `rater`.*`--rater ANNA,BEN`"):
        replace(*made.write([{"id": "s0", "good": 1}]))
    with pytest.raises(MagistrateError, match=r"no column of raters.csv \(`style`\)"):
        replace(*made.write([{"id": "s0", "rater": "ann", "style": 1}]))
    with pytest.raises(MagistrateError, match=r"no id of raters\.csv has a verdict"):
        replace(*made.write([{"id": "x", "rater": "ann", "good": 1}]))
    with pytest.raises(MagistrateError, match="rater `ann` has labelled `s0` before"):
        replace(*made.write([*made.rows, made.rows[0]]))

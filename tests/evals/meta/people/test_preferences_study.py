"""A pairwise judge beside people: PandaLM's own figures, and what is said of holes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from evals.data.choice_labels import ALPACA_EVAL, AUTO_J, PANDALM, ChoiceLabels, choice_of, labels_given, probable_choice
from evals.data.compared_answers import Compared, ComparedSet, majority, read_compared
from evals.meta.people.preference_report import document
from evals.meta.people.preferences import Part, Preferences, study
from evals.meta.people.rater_choices import Options
from evals.reports.markdown import markdown
from evals.reports.wording import BELOW, absent
from judges.errors import MagistrateError
from judges.judge import Score
from judges.pairwise import Pairwise
from judges.verdict import Verdict

QUICK = Options(rounds=50)
WORDS = {1: "A", 2: "B", 0: "tie"}


def verdict(name: str, preference: str | None, agree: int | None = 1, reason: str | None = None) -> Verdict:
    scores: dict[str, Score] | None = None
    if preference is not None:
        scores = {"preference": preference, **({} if agree is None else {"orders_agree": agree})}
    return Verdict(
        id=name,
        judge="pairwise",
        status="unscored" if preference is None else "scored",
        reason=reason,
        scores=scores,
        sample="s",
        fingerprint="f",
    )


@pytest.fixture(scope="module")
def pandalm(data: Path) -> ComparedSet:
    return read_compared(data / "pandalm" / "testset-v1.json")


def test_pandalm_is_read_as_the_judge_takes_it(data: Path, pandalm: ComparedSet) -> None:
    raw = json.loads((data / "pandalm" / "testset-v1.json").read_text())
    assert (pandalm.name, len(pandalm.pairs), pandalm.faults) == ("PandaLM", 999, [])
    assert sum(one.unanimous for one in pandalm.pairs) == 879
    first, row = pandalm.pairs[0], raw[0]
    assert first.id == "pandalm-0"
    assert first.sample == {
        "question": f"{row['instruction']}\n\n{row['input']}",
        "answer_a": row["response1"],
        "answer_b": row["response2"],
    }
    assert first.choices == [2, 2, 2]
    assert Pairwise().render(first.sample)


def test_by_probabilities_a_place_that_the_judge_favours_cancels_out(pandalm: ComparedSet) -> None:
    """A judge that names what it sees first, but is surer of it where that is also the better one."""
    verdicts = {}
    for one in pandalm.pairs:
        better, worse = {"A": 0.9, "both": 0.0, "B": 0.1, "neither": 0.0}, {"A": 0.4, "both": 0.0, "B": 0.6, "neither": 0.0}
        orders = {1: [better, worse], 2: [{**better, "A": 0.6, "B": 0.4}, {**worse, "A": 0.1, "B": 0.9}], 0: [better, None]}
        told = verdict(one.id, "tie", 0)
        verdicts[one.id] = replace(told, detail={"choices": ["A", "B"], "probabilities": orders[one.majority or 0]})
    whole = study(pandalm, verdicts, replace(QUICK, expected=True))
    ((lacking,), found) = whole.faults, whole.judged
    assert found is not None
    ties = sum(one.majority in (0, None) for one in pandalm.pairs)
    assert lacking.what == "verdict without probabilities of both orders, which `--expected` compares"
    assert lacking.count == ties
    parts = {(part.name, part.without_ties): part.majority for part in found.parts}
    assert parts["all pairs", False].kappa.value == 0
    assert parts["by probabilities", True].agreement.value == 1
    assert parts["by probabilities, people unanimous", True].rows == sum(
        one.unanimous and one.majority != 0 for one in pandalm.pairs
    )
    assert "by probabilities" not in {part.name for part in (study(pandalm, verdicts, QUICK).judged or found).parts}


@pytest.mark.parametrize(
    "odd",
    [None, "text", 3, {}, [1, 2], [None, None], [{"A": 0.6}, {"A": 0.6}], [{"A": "x", "B": 0.1}] * 2, [{"A": 1e308, "B": -5}] * 2,
     [{"A": 0.6, "B": 0.4}]],
)  # fmt: skip
def test_odd_probabilities_are_none(odd: Any) -> None:
    assert probable_choice(replace(verdict("a", "tie", 0), detail={"probabilities": odd})) is None


def test_what_cancels_but_for_rounding_is_a_tie() -> None:
    orders = [{"A": 0.333333, "B": 0.333334, "both": 0.333333, "neither": 0.0}] * 2
    assert probable_choice(replace(verdict("a", "tie", 0), detail={"probabilities": orders})) == 0


def test_people_among_themselves_are_those_of_another_computation(data: Path, pandalm: ComparedSet) -> None:
    raw = json.loads((data / "pandalm" / "testset-v1.json").read_text())
    table = np.array([[row[f"annotator{one}"] for one in (1, 2, 3)] for row in raw])
    found = study(pandalm, None, QUICK).raters
    for one, other, both in found.pairs:
        columns = table[:, int(one[-1]) - 1], table[:, int(other[-1]) - 1]
        assert both.agreement.value == pytest.approx(np.mean(columns[0] == columns[1]))
        assert both.kappa.value == pytest.approx(cohen_kappa_score(*columns))
    assert len(found.pairs) == 3
    kappas, weights = [], []
    for place in range(3):
        others = np.delete(table, place, axis=1)
        alike = others[:, 0] == others[:, 1]
        kappas.append(cohen_kappa_score(table[alike, place], others[alike, 0]))
        weights.append(alike.sum())
    assert found.ceiling.kappa.value == pytest.approx(np.average(kappas, weights=weights))
    wanted = krippendorff.alpha(reliability_data=table.T, level_of_measurement="nominal")
    assert found.alpha == pytest.approx(wanted, abs=1e-9)


def part(found: Preferences, name: str, *, without_ties: bool = False) -> Part:
    assert found.judged is not None
    return next(one for one in found.judged.parts if (one.name, one.without_ties) == (name, without_ties))


def test_the_judge_is_set_against_the_majority_and_against_each_rater(pandalm: ComparedSet) -> None:
    chance = np.random.default_rng(0)
    chosen = [int(one.choices[0] or 0) if chance.random() < 0.6 else int(chance.integers(0, 3)) for one in pandalm.pairs]
    agree = chance.random(999) < 0.8
    verdicts = {
        one.id: verdict(one.id, WORDS[choice], int(both)) for one, choice, both in zip(pandalm.pairs, chosen, agree, strict=True)
    }
    found = study(pandalm, verdicts, QUICK)
    votes = np.array([one.choices for one in pandalm.pairs])
    most = np.array([Counter(row).most_common(1)[0][0] for row in votes.tolist()])
    judge = np.array(chosen)
    inside = {
        "all pairs": np.ones(999, bool),
        "orders agree": agree,
        "people unanimous": (votes == votes[:, :1]).all(axis=1),
    }
    for name, rows in inside.items():
        for without_ties in (False, True):
            there = rows & (judge != 0) & (most != 0) if without_ties else rows
            one = part(found, name, without_ties=without_ties)
            assert one.majority.rows == there.sum()
            assert one.majority.agreement.value == pytest.approx(np.mean(judge[there] == most[there]))
            assert one.majority.kappa.value == pytest.approx(cohen_kappa_score(judge[there], most[there]))
            kappas, weights = [], []
            for rater in votes.T:
                alike = rows & (judge != 0) & (rater != 0) if without_ties else rows
                kappas.append(cohen_kappa_score(judge[alike], rater[alike]))
                weights.append(alike.sum())
            assert one.raters.kappa.value == pytest.approx(np.average(kappas, weights=weights))
            low, high = one.majority.kappa.low, one.majority.kappa.high
            assert low is not None
            assert high is not None
            assert low < cohen_kappa_score(judge[there], most[there]) < high
    assert found.judged is not None
    assert found.judged.consistent is not None
    assert found.judged.consistent.value == pytest.approx(agree.mean())
    table = {(choice, other): amount for choice, other, amount in found.judged.confusion}
    assert table[1, 2] == ((judge == 1) & (most == 2)).sum()
    assert sum(table.values()) == 999
    assert f"{table[1, 2]} |" in markdown(document(found))


@pytest.mark.parametrize(
    ("cell", "pandalm", "auto_j", "alpaca_eval", "words"),
    [
        (0, 0, 1, 0, None), (1, 1, 2, 1, None), (2.0, 2, 0, 2, None), ("2", 2, 0, 2, None), ("1.0", 1, 2, 1, None),
        (-0.0, 0, 1, 0, None), (1.5, None, None, 0, None), ("1.0000003", None, None, 1, None), (1.97, None, None, 2, None),
        (3, None, None, None, None), (0.5, None, None, None, None), ("", None, None, None, None), (None, None, None, None, None),
        (True, None, None, None, None), (float("nan"), None, None, None, None), ([1], None, None, None, None),
        ("better", None, None, None, None), ("A", 1, 1, 1, 1), (" b ", 2, 2, 2, 2), ("tie", 0, 0, 0, 0), ("both", 0, 0, 0, 0),
        ("Neither", 0, 0, 0, 0), ("[[C]]", 0, 0, 0, 0), ("model_b", 2, 2, 2, 2), ("A>B", 1, 1, 1, 1), ("B>A", 2, 2, 2, 2),
        ("A=B", 0, 0, 0, 0), ("a>>b", 1, 1, 1, 1), ("B=A", 0, 0, 0, 0),
    ],
)  # fmt: skip
def test_a_number_means_what_its_file_says_and_a_word_what_it_says(
    cell: Any, pandalm: int | None, auto_j: int | None, alpaca_eval: int | None, words: int | None
) -> None:
    known = [PANDALM, AUTO_J, ALPACA_EVAL, ChoiceLabels()]
    assert [labels.choice(labels.read(cell)) for labels in known] == [pandalm, auto_j, alpaca_eval, words]
    assert choice_of(cell) == words, "a judge says words"


def test_labels_are_what_the_user_says() -> None:
    labels = labels_given("first=0, second=1,tie=2,tie=2.5")
    assert [labels.choice(labels.read(cell)) for cell in (0, "1", 2, "2.50", 3, "A", "B>A")] == [1, 2, 0, 0, None, 1, 2]
    words = labels_given("first=Left,second=b,second=true")
    assert [words.choice(words.read(cell)) for cell in ("LEFT", " B", True, "tie", 0)] == [1, 2, 2, 0, None]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("0,1,2", "`0` in `--labels 0,1,2` must be of the form first=LABEL, second=LABEL or tie=LABEL"),
        ("third=0", "`third=0` in `--labels third=0` must be of the form"),
        ("first=0,second=1,tie=", "`tie=` in `--labels first=0,second=1,tie=` must be of the form"),
        ("first=0,tie=2", "gives no label of the second answer; add `second=LABEL`"),
        ("first=0,second=0.0", "gives the label `0` two meanings"),
    ],
)
def test_labels_that_say_nothing_are_refused(given: str, words: str) -> None:
    with pytest.raises(MagistrateError, match=re.escape(words)):
        labels_given(given)


def rows_of(count: int, **columns: Callable[[int], Any]) -> list[dict[str, Any]]:
    return [{name: cell(place) for name, cell in columns.items()} for place in range(count)]


SHAPES: dict[str, tuple[list[dict[str, Any]], str | None, str]] = {
    "PandaLM": (
        rows_of(
            12,
            idx=lambda place: place + 100,
            instruction=lambda place: f"Do {place}.",
            input=lambda place: "",
            response1=lambda place: "one",
            response2=lambda place: "two",
            annotator1=lambda place: place % 3,
            annotator2=lambda place: place % 3,
            annotator3=lambda place: place % 3,
        ),
        "PandaLM",
        "pandalm-100",
    ),
    "Auto-J": (
        rows_of(
            12,
            scenario=lambda place: "code",
            label=lambda place: (2, 0, 1)[place % 3],
            prompt=lambda place: f"Do {place}.",
            **{"response 1": lambda place: "one", "response 2": lambda place: "two"},
        ),
        "Auto-J",
        "auto-j-1",
    ),
    "JudgeBench": (
        rows_of(
            12,
            pair_id=lambda place: f"p{place}",
            question=lambda place: f"Do {place}.",
            response_model=lambda place: "m",
            response_A=lambda place: "one",
            response_B=lambda place: "two",
            label=lambda place: ("A=B", "A>B", "B>A")[place % 3],
        ),
        None,
        "judgebench-p0",
    ),
    "AlpacaEval": (
        rows_of(
            12,
            instruction=lambda place: f"Do {place}.",
            output_1=lambda place: "one",
            output_2=lambda place: "two",
            preference=lambda place: (1.5 if place % 2 else 0, 1.0000002, 1.93)[place % 3],
        ),
        "AlpacaEval",
        "alpacaeval-1",
    ),
}
"""Rows in the form of each known file, whose choices are a tie, the first and the second in turn; whose labels; the first id."""


@pytest.mark.parametrize("name", SHAPES)
def test_a_file_is_known_by_its_shape_and_its_labels_with_it(tmp_path: Path, name: str) -> None:
    rows, whose, first_id = SHAPES[name]
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_compared(path)
    assert (found.name, found.whose, found.faults, found.pairs[0].id) == (name, whose, [], first_id)
    assert found.pairs[4].sample == {"question": "Do 4.", "answer_a": "one", "answer_b": "two"}
    wanted = [[0, 1, 2][place % 3] for place in range(12)]
    assert [one.majority for one in found.pairs] == wanted
    raters = [column for column in rows[0] if column in found.raters]
    assert [one.majority for one in read_compared(path, raters).pairs] == wanted, "its columns may be named too"
    if whose is not None:
        swapped = read_compared(path, labels=labels_given("first=1,second=0,tie=2"))
        assert swapped.whose == "`--labels`"
        assert swapped.pairs[1].majority != wanted[1] or swapped.pairs[2].majority != wanted[2]


def test_the_meaning_of_labels_and_the_shares_are_told(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    rows, _, _ = SHAPES["Auto-J"]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {**rows[0], "label": 1}]))
    verdicts = {f"auto-j-{place}": verdict(f"auto-j-{place}", ("tie", "A", "B")[(place - 1) % 3]) for place in range(1, 13)}
    found = study(read_compared(path), verdicts, QUICK)
    assert part(found, "all pairs").majority.kappa.value == 1.0, "a judge that names what people name"
    assert found.labels == "Auto-J"
    assert [(one.choice, one.labels, one.count, one.share) for one in found.choices] == [
        ("first", ["0"], 4, 4 / 12),
        ("second", ["1"], 4, 4 / 12),
        ("tie", ["2"], 4, 4 / 12),
    ], "of the pairs with a verdict"
    text = markdown(document(found))
    assert "| second better | 1 | 4 | 33.3% |" in text
    assert "Labels mean what Auto-J says." in text
    path.write_text("".join(json.dumps(row) + "\n" for row in SHAPES["JudgeBench"][0]))
    text = markdown(document(study(read_compared(path), {f"judgebench-p{n}": verdict("", "A") for n in range(12)}, QUICK)))
    assert "| tie | a=b | 4 | 33.3% |" in text
    assert "All labels are words." in text


def test_numbers_that_nothing_explains_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    rows = [{"id": f"r{place}", "anna": ["0", 1, 2.0, "A"][place % 4]} for place in range(12)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sentence = (
        r"mine.jsonl: nothing says which answer the numbers of column `anna` \(0, 1, 2\) name; say it with this file's own, "
        r"e.g. `--labels first=1,second=2,tie=0`"
    )
    with pytest.raises(MagistrateError, match=sentence):
        read_compared(path, ["anna"])
    found = read_compared(path, ["anna"], labels=labels_given("first=0,second=1"))
    assert [one.choices for one in found.pairs[:3]] == [[1], [2], [1]]
    assert {one.what: one.count for one in found.faults}["`anna` names none of 0, 1, A, B and tie"] == 3


def test_columns_beside_those_of_a_known_file_are_not_its_own(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps({**row, "mine": 1}) + "\n" for row in SHAPES["Auto-J"][0]))
    with pytest.raises(MagistrateError, match="nothing says which answer the numbers of column `label`"):
        read_compared(path, ["label", "mine"])


def test_a_judges_number_is_no_preference() -> None:
    found = {f"p{place}": replace(verdict(f"p{place}", "A"), scores={"preference": 1}) for place in range(12)}
    with pytest.raises(MagistrateError, match="the verdict has no preference"):
        study(made(), found, QUICK)


def test_the_majority_is_what_most_name() -> None:
    assert majority([1, 1, 2]) == 1
    assert majority([1, 2, 0]) is None
    assert majority([1, 2]) is None
    assert majority([None, 2, None]) == 2
    assert majority([None]) is None
    alone = Compared(id="a", sample={}, choices=[1, None], item="a")
    assert not alone.unanimous, "one person says nothing of others"


def made(count: int = 12) -> ComparedSet:
    choices = [(1, 1, 1), (2, 2, 1), (0, 1, 2), (2, 2, None)]
    pairs = [Compared(id=f"p{n}", sample={}, choices=choices[n % 4], item=f"q{n // 2}") for n in range(count)]
    return ComparedSet("mine", pairs, ["x", "y", "z"])


def test_nothing_that_is_left_out_is_lost() -> None:
    compared = made()
    verdicts = {f"p{place}": verdict(f"p{place}", "A") for place in range(12)}
    verdicts["p0"] = verdict("p0", None, reason="bad answer: the orders disagree: A with A first, B with B first")
    verdicts["p1"] = verdict("p1", None, reason="context overflow")
    verdicts["p3"] = verdict("p3", "tie", 0)
    del verdicts["p4"]
    verdicts["strange"] = verdict("strange", "B")
    found = study(compared, verdicts, QUICK)
    assert (found.pairs, found.questions, found.unanimous, found.undecided) == (11, 6, 5, 3), "of those with a verdict"
    assert found.judged is not None
    assert found.judged.scored == 9
    assert found.judged.unscored == {"the orders disagree": 1, "context overflow": 1}
    assert found.judged.consistent is not None
    assert found.judged.ordered == 10
    assert found.judged.consistent.value == pytest.approx(8 / 10)
    assert {one.what: one.ids for one in found.faults} == {
        "no verdict": ["p4"],
        "verdict of no sample of this file": ["strange"],
    }
    assert part(found, "all pairs").majority.rows == 6, "of nine scored pairs three have no majority"
    text = markdown(document(found))
    for said in ("3 have no majority", "1 pair not scored: the orders disagree", "1 row: no verdict: p4"):
        assert said in text
    assert " nan" not in text.lower()


def test_a_judge_that_always_says_the_same_is_told_of() -> None:
    verdicts = {f"p{place}": verdict(f"p{place}", "neither", None) for place in range(12)}
    found = study(made(), verdicts, QUICK)
    assert found.judged is not None
    assert found.judged.consistent is None, "only one order was asked"
    assert [one.name for one in found.judged.parts] == ["all pairs"] * 2 + ["people unanimous"] * 2
    text = markdown(document(found))
    assert "the judge names the same on every pair, tie, so its kappa is 0 whatever people name" in text
    assert "- all pairs, no ties; people unanimous, no ties: there is no such pair" in text
    assert "all pairs, majority; all pairs, a rater; people unanimous, majority;" in text
    assert "no interval: 6 items are too few, 10 are needed" in text
    assert f"| all pairs, no ties | 0 | {absent(BELOW)} | {absent(BELOW)} | {absent(BELOW)} | {absent(BELOW)} |" in text


def test_columns_of_any_file_are_raters(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": f"r{place}", "q": f"question {place // 3}", "left": "a", "right": "b", "anna": "A", "bob": "tie"}
        for place in range(11)
    ]
    rows[1]["bob"] = ""
    rows[2]["bob"] = "left"
    rows[3] |= {"anna": None, "bob": None}
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "[]\n")
    fields = {"question": "q", "answer_a": "left", "answer_b": "right"}
    found = read_compared(path, ["anna", "bob"], fields=fields)
    assert [one.id for one in found.pairs] == [f"r{place}" for place in range(11) if place != 3]
    assert found.pairs[0].choices == [1, 0]
    assert found.pairs[0].item == "question 0"
    assert not {"anna", "bob"} & found.pairs[0].sample.keys()
    assert Pairwise().render(found.pairs[0].sample)
    assert {one.what: (one.count, one.ids) for one in found.faults} == {
        "cannot be read": (1, ["mine.jsonl row 12"]),
        "`anna` has an empty cell": (1, ["r3"]),
        "`bob` has an empty cell": (2, ["r1", "r3"]),
        "`bob` names none of A, B and tie": (1, ["r2"]),
        "has no choice of anyone": (1, ["r3"]),
    }
    alone = study(read_compared(path, ["anna"], fields=fields), None, QUICK)
    assert alone.raters.alpha is None
    assert f"| a rater and the majority of the others | 0 | {absent(BELOW)} | {absent(BELOW)} |" in markdown(document(alone))


@pytest.mark.parametrize("as_text", [False, True])
def test_a_column_of_lists_is_a_rater_a_place(tmp_path: Path, *, as_text: bool) -> None:
    votes: list[Any] = [["A", "B", "A"], ["tie", "A"], None, [], ["B", "?", "B"]]
    path = tmp_path / "votes.jsonl"
    path.write_text(
        "".join(
            json.dumps(
                {"question": str(n), "answer_a": "x", "answer_b": "y", "votes": json.dumps(one) if as_text and one else one}
            )
            + "\n"
            for n, one in enumerate(votes)
        )
    )
    found = read_compared(path, ["votes"])
    assert found.raters == ("votes.0", "votes.1", "votes.2")
    assert [one.choices for one in found.pairs] == [[1, 2, 1], [0, 1, None], [2, None, 2]]
    assert all("votes" not in one.sample for one in found.pairs)
    assert {fault.what: fault.count for fault in found.faults}["`votes.1` names none of A, B and tie"] == 1
    swapped = read_compared(path, ["votes"], labels=labels_given("first=b,second=a,tie=tie"))
    assert [one.majority for one in swapped.pairs] == [2, None, 1]


def test_a_column_of_lists_and_words_is_one_rater(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    path.write_text("".join(json.dumps({"question": "q", "vote": one}) + "\n" for one in ("A", ["B", "A"])))
    found = read_compared(path, ["vote"])
    assert (found.raters, [one.choices for one in found.pairs]) == (("vote",), [[1]])


def test_what_cannot_be_studied_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"id": 1, "anna": "?"}\n')
    with pytest.raises(MagistrateError, match=r"is no file of compared pairs that is known .*--human"):
        read_compared(path)
    with pytest.raises(MagistrateError, match="there is no column `bob`; there are `id`, `anna`"):
        read_compared(path, ["bob"])
    labels = r"its labels are `\?`: say what they mean, `--labels first=...,second=...,tie=...`"
    told = rf"holds no pair that people have compared \(.*\); {labels}"
    with pytest.raises(MagistrateError, match=told):
        read_compared(path, ["anna"])
    path.write_text('{"id": 1, "anna": "A"}\n' * 2)
    with pytest.raises(MagistrateError, match="two pairs have the id `1`"):
        read_compared(path, ["anna"])
    with pytest.raises(MagistrateError, match="mine has 9 compared pairs; at least 10 are needed"):
        study(made(9))
    with pytest.raises(MagistrateError, match="mine has 9 compared pairs with a verdict; at least 10 are needed"):
        study(made(), {f"p{place}": verdict(f"p{place}", "A") for place in range(9)})
    with pytest.raises(MagistrateError, match=r"no verdict has a preference \(12 pairs: too long\)"):
        study(made(), {f"p{place}": verdict(f"p{place}", None, reason="too long") for place in range(12)})
    with pytest.raises(MagistrateError, match="no verdict has the id of a sample"):
        study(made(), {"x": verdict("x", "A")})

"""Which verdicts to check by hand."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from evals.meta.checks.audit import Audit, Options, audit
from evals.meta.checks.audit_report import document, figures, files
from evals.reports.markdown import markdown
from evals.stats.conformal import split_conformal
from evals.stats.expected_errors import expected_errors, groups_of, squared_errors, strength
from judges.errors import MagistrateError
from judges.expected import Expectation
from judges.verdict import Verdict
from tests.evals.meta.test_estimate import scored, unscored, write_labels, write_verdicts

ALL = 300
LABELLED = 90


class Made:
    """300 verdicts and labels of 90 of them. The judge is right where it says 1 to 4 and guesses where it says 5."""

    def __init__(self, folder: Path) -> None:
        chance = np.random.default_rng(6)
        self.people = chance.integers(1, 6, ALL)
        guesses = chance.random(ALL) < 0.3
        self.judged = np.where(guesses, 5, self.people)
        self.entropy = np.where(guesses, 1.2, 0.2) + chance.uniform(0, 0.1, ALL)
        self.verdicts = [
            Verdict(
                id=f"s{place}",
                judge="rubric",
                status="scored",
                scores={"good": int(score)},
                expected={"good": Expectation(float(score) - 0.1, float(entropy))},
                sample="s",
                fingerprint="f",
            )
            for place, (score, entropy) in enumerate(zip(self.judged, self.entropy, strict=True))
        ]
        self.rows: list[dict[str, Any]] = [{"id": f"s{place}", "good": int(self.people[place])} for place in range(LABELLED)]
        self.folder = folder

    def files(self) -> tuple[Path, Path]:
        return (
            write_verdicts(self.folder / "verdicts.jsonl", self.verdicts),
            write_labels(self.folder / "labels.csv", self.rows),
        )


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def listed(found: Audit) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(files(found)["to_check.csv"])))


def test_errors_left_out_in_turn_are_those_of_statsmodels() -> None:
    chance = np.random.default_rng(1)
    scores = chance.integers(1, 6, 50).astype(float)
    labels = scores + chance.normal(size=50)
    fitted = sm.OLS(labels, sm.add_constant(scores)).fit()
    assert squared_errors(scores, labels) == pytest.approx(fitted.get_influence().resid_press ** 2)
    against = squared_errors(scores, -scores)
    assert against == pytest.approx([(-one + (scores.sum() - one) / 49) ** 2 for one in scores]), "a line that is flat"


def test_how_much_groups_differ_is_what_scipy_finds() -> None:
    """The variance between groups of one size is (F - 1) / size of that within, F being that of one-way analysis of variance."""
    chance = np.random.default_rng(3)
    groups = np.repeat(np.arange(4), 9)
    errors = np.arange(4)[groups] * 0.5 + chance.exponential(size=36)
    ratio = stats.f_oneway(*(errors[groups == one] for one in range(4))).statistic
    assert ratio > 1
    assert strength(errors, groups) == pytest.approx(9 / (ratio - 1))
    assert strength(np.tile([0.0, 1.0, 2.0], 12), np.repeat(np.arange(12), 3)) is None, "groups that are all alike"
    assert strength(errors[:4], np.arange(4)) is None


def test_groups_of_unequal_size_are_those_of_a_plain_computation() -> None:
    chance = np.random.default_rng(5)
    groups = np.repeat([0, 1, 2], [4, 10, 30])
    errors = groups + chance.exponential(size=44)
    parts = [errors[groups == one] for one in range(3)]
    within = sum(float(((part - part.mean()) ** 2).sum()) for part in parts) / 41
    between = sum(len(part) * (part.mean() - errors.mean()) ** 2 for part in parts) / 2
    alike = (44 - (16 + 100 + 900) / 44) / 2
    assert strength(errors, groups) == pytest.approx(within / ((between - within) / alike))


def test_an_error_is_that_of_its_group_drawn_to_the_mean() -> None:
    chance = np.random.default_rng(4)
    scores = np.append(np.repeat([1.0, 2.0, 3.0], 12), 9.0)
    other = np.append(np.tile([0.0, 1.0], 18), 1.0)
    errors = scores[:36] * chance.exponential(size=36) + other[:36]
    labelled = np.arange(36)
    mean = errors.mean()
    by_score = {9.0: 0.0}
    count = strength(errors, labelled // 12)
    assert count is not None
    for one in (1.0, 2.0, 3.0):
        by_score[one] = 12 / (12 + count) * (errors[scores[:36] == one].mean() - mean)
    assert expected_errors(labelled, errors, [scores]) == pytest.approx([mean + by_score[one] for one in scores])
    count = strength(errors, labelled % 2)
    assert count is not None
    by_other = {one: 18 / (18 + count) * (errors[other[:36] == one].mean() - mean) for one in (0.0, 1.0)}
    wanted = [max(0.0, mean + by_score[one] + by_other[two]) for one, two in zip(scores, other, strict=True)]
    assert expected_errors(labelled, errors, [scores, other]) == pytest.approx(wanted)


def test_where_groups_say_nothing_all_errors_are_the_mean() -> None:
    errors = np.tile([0.0, 1.0, 2.0], 12)
    assert expected_errors(np.arange(36), errors, [np.repeat(np.arange(12.0), 3)]) == pytest.approx(1.0)
    exact = np.repeat([0.0, 4.0], 10)
    found = expected_errors(np.arange(20), exact, [np.append(np.repeat([1.0, 2.0], 10), 3.0)])
    assert found == pytest.approx([*exact, 2.0]), "groups without any spread are taken at their word"


def test_many_values_are_cut_into_parts_of_a_size() -> None:
    chance = np.random.default_rng(2)
    values = chance.normal(size=100)
    groups = groups_of(values)
    assert np.bincount(groups).tolist() == [20] * 5
    assert [values[groups == one].max() < values[groups == one + 1].min() for one in range(4)] == [True] * 4
    assert groups_of([3, 1, 3, 2]).tolist() == [2, 0, 2, 1]
    assert groups_of([0.0] * 50 + list(range(50))).max() >= 1


def test_intervals_are_those_of_the_labels(made: Made) -> None:
    (found,) = audit(*made.files()).metrics
    wanted = split_conformal(made.judged[:LABELLED], made.people[:LABELLED], level=0.9, legal=[1, 2, 3, 4, 5])
    low, high = wanted.intervals(made.judged)
    assert [(one.low, one.high) for one in found.verdicts] == list(zip(low.tolist(), high.tolist(), strict=True))
    assert [one.label for one in found.verdicts] == [*made.people[:LABELLED].tolist(), *[None] * (ALL - LABELLED)]
    assert found.intervals is not None
    assert (found.intervals.fitted, found.intervals.held_out, found.intervals.rare) == (30, 60, 0)
    assert found.intervals.size == pytest.approx(np.mean(high - low + 1))
    assert found.intervals.whole == 5


def test_the_list_begins_where_the_judge_errs(made: Made) -> None:
    found = audit(*made.files(), Options(most=20))
    rows = listed(found)
    assert len(rows) == 20
    assert {row["score"] for row in rows} == {"5"}
    assert not {row["id"] for row in rows} & {row["id"] for row in made.rows}
    shares = [float(row["cumulative"]) for row in rows]
    (metric,) = found.metrics
    expected = sorted((one.expected_error or 0.0 for one in metric.verdicts if one.label is None), reverse=True)
    assert shares == pytest.approx(np.cumsum(expected)[:20] / np.sum(expected), abs=1e-5)
    assert metric.removed == pytest.approx(shares[-1], abs=1e-5)
    assert "the judge says 5; squared error expected" in rows[0]["reason"]


def test_the_list_ends_with_all_that_is_expected(made: Made) -> None:
    (metric,) = audit(*made.files(), Options(most=1000)).metrics
    assert metric.removed == pytest.approx(1)
    assert len(metric.to_check) == metric.without == ALL - LABELLED


def test_how_unsure_the_judge_was_is_heeded_where_asked_for(made: Made) -> None:
    (found,) = audit(*made.files(), Options(expected=True, most=40)).metrics
    assert found.intervals is not None
    assert found.intervals.by_unsureness
    guessed = made.entropy > 1
    sizes = np.array([(one.high or 0.0) - (one.low or 0.0) for one in found.verdicts])
    assert sizes[guessed].mean() > sizes[~guessed].mean()
    assert all((one.entropy or 0.0) > 1 for one in found.to_check)
    (plain,) = audit(*made.files(), Options(most=40)).metrics
    assert plain.verdicts[0].entropy is None


def test_unscored_verdicts_come_first_as_a_group_of_their_own(made: Made) -> None:
    for place in (0, 100, 150, 200):
        made.verdicts[place] = unscored(f"s{place}", "context overflow")
    found = audit(*made.files(), Options(most=2))
    rows = listed(found)
    assert [(row["id"], row["score"], row["reason"]) for row in rows[:2]] == [
        ("s100", "", "context overflow"),
        ("s150", "", "context overflow"),
    ]
    assert [row["score"] for row in rows[2:]] == ["5", "5"]
    (metric,) = found.metrics
    assert (metric.unscored, metric.unscored_labels) == ({"context overflow": 4}, 1)
    text = markdown(document(found))
    assert "4 samples left out: context overflow" in text
    assert "1 label not used, of samples that the judge gave no number" in text


def test_too_few_labels_for_intervals_leave_the_list(made: Made) -> None:
    made.rows = made.rows[:20]
    found = audit(*made.files(), Options(level=0.95))
    (metric,) = found.metrics
    assert metric.intervals is None
    assert metric.no_intervals == "there are 20 labels of scored items; intervals that hold 0.95 of the time need 28"
    assert (metric.verdicts[0].low, len(metric.to_check)) == (None, 50)
    assert "good: no intervals: there are 20 labels" in markdown(document(found))
    made.rows = made.rows[:9]
    with pytest.raises(MagistrateError, match="there are 9 labels of scored items; at least 10"):
        audit(*made.files())


def test_intervals_as_wide_as_the_scale_are_told_of(made: Made) -> None:
    chance = np.random.default_rng(0)
    made.rows = [{**row, "good": int(chance.integers(1, 6))} for row in made.rows]
    text = markdown(document(audit(*made.files())))
    assert "intervals are too wide to be of use" in text


def test_a_scale_is_kept_to(made: Made) -> None:
    (found,) = audit(*made.files(), Options(scale=[0, 1, 2, 3, 4, 5, 6])).metrics
    assert found.intervals is not None
    assert found.intervals.whole == 7
    close = audit(*made.files(), Options(scale=[one + 3e-5 for one in (0, 1, 2, 3, 4, 5, 6)])).metrics[0]
    assert close.labels == found.labels, "a third is given with some decimals"
    with pytest.raises(MagistrateError, match=r"labels, such as \d, are not on the scale 1, 3, 5"):
        audit(*made.files(), Options(scale=[1, 3, 5]))


def test_labels_of_any_number_have_intervals_of_numbers(made: Made) -> None:
    chance = np.random.default_rng(0)
    made.rows = [{**row, "good": row["good"] + round(chance.uniform(), 4)} for row in made.rows]
    found = audit(*made.files())
    assert found.metrics[0].intervals is not None
    assert found.metrics[0].intervals.legal is None
    assert "intervals are of numbers" in markdown(document(found))


def test_ids_are_drawn_by_lot_among_those_without_a_label(made: Made) -> None:
    made.verdicts[200] = unscored("s200", "context overflow")
    verdicts, labels = made.files()
    found = audit(verdicts, labels, Options(random=100))
    assert len(set(found.at_random)) == 100
    assert not set(found.at_random) & {"s200", *(row["id"] for row in made.rows)}
    assert audit(verdicts, labels, Options(random=100)).at_random == found.at_random
    assert audit(verdicts, labels, Options(random=100, seed=1)).at_random != found.at_random
    rows = list(csv.reader(io.StringIO(files(found)["to_label.csv"])))
    assert rows[0] == ["id", "good"]
    assert [row[0] for row in rows[1:]] == list(found.at_random)
    text = markdown(document(found))
    assert "do not give their labels to `magistrate estimate`".replace("`", "\\`") in text
    with pytest.raises(MagistrateError, match="211 ids are to be drawn, and 209 scored ones have no label"):
        audit(verdicts, labels, Options(random=211))
    first = audit(verdicts, None, Options(random=50))
    assert (len(first.at_random), list(files(first))) == (50, ["to_label.csv"])
    with pytest.raises(MagistrateError, match="give people's labels as `--human FILE`, or `--random N`"):
        audit(verdicts, None)


def test_what_is_written_can_be_read(made: Made) -> None:
    found = audit(*made.files(), Options(random=5))
    lines = [json.loads(line) for line in files(found)["intervals.jsonl"].splitlines()]
    assert len(lines) == ALL
    assert set(lines[0]) == {"id", "metric", "score", "entropy", "label", "low", "high", "expected_error"}
    report = json.loads(json.dumps(figures(found), allow_nan=False))
    assert report["metrics"][0]["listed"] == 50
    assert "verdicts" not in report["metrics"][0]
    assert len(report["at_random"]) == 5


def rated(data: Path, quality: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """What three people say of TopicalChat's 360 answers: ``(360, 3)``."""
    dialogues = json.loads((data / "usr" / "tc_usr_data.json").read_text())
    return np.array([answer[quality] for dialogue in dialogues for answer in dialogue["responses"]], float)


@pytest.mark.parametrize("quality", ["Overall", "Natural", "Engaging", "Maintains Context"])
def test_checking_what_is_listed_removes_more_error_than_checking_by_lot(data: Path, quality: str) -> None:
    """One rater as the judge, the mean of the other two as labels: 60 of 260 items are checked, over 40 draws of 100 labels."""
    people = rated(data, quality)
    removed, told = [], []
    for judge in range(3):
        scores, labels = people[:, judge], np.delete(people, judge, axis=1).mean(axis=1)
        for seed in range(40):
            order = np.random.default_rng(seed).permutation(len(labels))
            known, others = order[:100], order[100:]
            expected = expected_errors(known, squared_errors(scores[known], labels[known]), [scores])
            slope, middle = np.polyfit(scores[known], labels[known], 1)
            true = (labels[others] - middle - slope * scores[others]) ** 2
            picked = np.argsort(-expected[others], kind="stable")[:60]
            removed.append(true[picked].sum() / true.sum())
            told.append(expected[others][picked].sum() / expected[others].sum())
    print(f"{quality}: {60 / 260:.1%} by lot, {np.mean(removed):.1%} as listed, {np.mean(told):.1%} expected")
    assert np.mean(removed) > 60 / 260 + 0.02
    assert np.mean(told) == pytest.approx(np.mean(removed), abs=0.04), "what is expected is about what comes"


def test_intervals_hold_on_real_ratings(data: Path) -> None:
    """One rater as the judge and another as people, over 100 draws of 60 labels each."""
    people = rated(data, "Overall")
    held = []
    for seed in range(100):
        judge, other = np.random.default_rng(seed).permutation(3)[:2]
        order = np.random.default_rng(seed).permutation(len(people))
        known, others = order[:60], order[60:]
        found = split_conformal(people[known, judge], people[known, other], level=0.9, legal=[1, 2, 3, 4, 5], seed=seed)
        low, high = found.intervals(people[others, judge])
        held.append(np.mean((low <= people[others, other]) & (people[others, other] <= high)))
    print(f"held {np.mean(held):.1%}")
    assert 0.89 <= np.mean(held) <= 0.99


def test_a_verdict_without_a_number_is_unscored(made: Made) -> None:
    made.verdicts[0] = scored("s0", good=None)
    (found,) = audit(*made.files()).metrics
    assert found.unscored == {"the verdict has no number for it": 1}

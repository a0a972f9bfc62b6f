"""Two systems by a judge's verdicts of both."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from evals.meta.checks.compare import Options, compare
from evals.meta.checks.compare_report import document
from evals.reports.markdown import markdown
from judges.errors import MagistrateError
from judges.expected import Expectation
from judges.verdict import Verdict
from tests.evals.meta.test_estimate import scored, unscored, write_labels, write_verdicts

ITEMS = 60


class Made:
    """60 samples of 20 dialogues, of two systems: A is better in `good`, alike in `same`, and a little better in `true`."""

    def __init__(self, folder: Path) -> None:
        chance = np.random.default_rng(1)
        dialogue = np.repeat(np.arange(20), 3)
        base = chance.normal(size=20)[dialogue]
        self.dialogue = dialogue
        shift = chance.normal(size=20)[dialogue] * 0.5
        self.good = [
            np.clip(np.rint(3 + base + add + 0.5 * chance.normal(size=ITEMS)), 1, 5).astype(int) for add in (0.8 + shift, 0.0)
        ]
        self.true = [(chance.random(ITEMS) < share).astype(int) for share in (0.7, 0.6)]
        self.first, self.second = (
            [scored(f"s{place}", good=int(good[place]), same=3, true=int(true[place])) for place in range(ITEMS)]
            for good, true in zip(self.good, self.true, strict=True)
        )
        self.folder = folder

    def files(self) -> tuple[Path, Path]:
        return write_verdicts(self.folder / "a.jsonl", self.first), write_verdicts(self.folder / "b.jsonl", self.second)

    def items(self) -> Path:
        rows = [{"id": f"s{place}", "dialogue": f"d{one}"} for place, one in enumerate(self.dialogue.tolist())]
        return write_labels(self.folder / "items.csv", rows)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def mid_p(reference: Any) -> float:
    """Of scipy's permutations: those as far out as the observed one count one half."""
    excess = np.abs(reference.null_distribution) - abs(reference.statistic)
    return float((excess > 1e-9).mean() + (np.abs(excess) <= 1e-9).mean() / 2)


def test_items_of_very_different_sizes_are_told_of(made: Made) -> None:
    rows = [{"id": f"s{place}", "document": f"d{place}" if place < 12 else f"d{place % 2}"} for place in range(ITEMS)]
    items = write_labels(made.folder / "uneven.csv", rows)
    notes = compare(*made.files(), Options(items=items, item="document")).metrics[0].notes
    assert "as rough as one of 3 items" in "".join(notes), "two of 25 and ten of 1: 60^2 / (2 * 25^2 + 10) is 2.9"
    even = compare(*made.files(), Options(items=made.items(), item="dialogue")).metrics[0].notes
    assert "rough" not in "".join(even)


def test_samples_of_their_own_are_compared_as_scipy_does(made: Made) -> None:
    found = compare(*made.files())
    assert (found.names, found.common, found.refused, found.notes) == (("a", "b"), ITEMS, {}, [])
    good, _, true = found.metrics
    for one, (first, second) in ((good, made.good), (true, made.true)):
        apart = first - second
        wanted = stats.ttest_rel(first, second).confidence_interval(0.95)
        assert (one.low, one.high) == pytest.approx((wanted.low, wanted.high))
        assert (one.first, one.second, one.difference) == pytest.approx((first.mean(), second.mean(), apart.mean()))
        assert one.dz == pytest.approx(apart.mean() / apart.std(ddof=1))
        assert (one.higher, one.equal, one.lower) == pytest.approx([np.mean(np.sign(apart) == sign) for sign in (1, 0, -1)])
        reference = stats.permutation_test(
            (first, second),
            lambda x, y, axis: np.mean(x - y, axis=axis),
            permutation_type="samples",
            n_resamples=20_000,
            rng=np.random.default_rng(0),
        )
        assert one.p == pytest.approx(mid_p(reference), abs=0.01)
    tested = multipletests([good.p, true.p], method="holm")[1]
    assert [one.adjusted for one in found.metrics] == pytest.approx([tested[0], 1, tested[1]]), (
        "of `same` there is nothing to test"
    )


def test_power_is_that_of_statsmodels(made: Made) -> None:
    """Normal quantiles in place of Student's, so a little fewer items: of 60, less than 3%. Two metrics are tested."""
    true = compare(*made.files()).metrics[2]
    assert true.dz is not None
    assert true.needed == pytest.approx(
        TTestPower().solve_power(effect_size=abs(true.dz), alpha=0.025, power=0.8), rel=0.03, abs=3
    )
    spread = true.difference / true.dz
    assert true.least == pytest.approx(spread * TTestPower().solve_power(nobs=ITEMS, alpha=0.025, power=0.8), rel=0.03)


def test_samples_of_one_item_go_together_as_statsmodels_has_it(made: Made) -> None:
    found = compare(*made.files(), Options(items=made.items(), item="dialogue"))
    good = found.metrics[0]
    apart = (made.good[0] - made.good[1]).astype(float)
    fitted = sm.OLS(apart, np.ones(ITEMS)).fit(cov_type="cluster", cov_kwds={"groups": made.dialogue, "use_correction": False})
    half = stats.t.ppf(0.975, 19) * fitted.bse[0] * math.sqrt(20 / 19)
    assert (good.low, good.high) == pytest.approx((apart.mean() - half, apart.mean() + half))
    assert (good.samples, good.items) == (ITEMS, 20)
    alone = compare(*made.files()).metrics[0]
    assert good.high is not None
    assert good.low is not None
    assert alone.high is not None
    assert alone.low is not None
    assert good.high - good.low > alone.high - alone.low
    sums = np.bincount(made.dialogue, apart)
    reference = stats.permutation_test(
        (sums,), lambda x, axis: x.mean(axis=axis), permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(0)
    )
    assert good.p == pytest.approx(mid_p(reference), abs=0.005)


def test_what_cannot_be_told_is_none_with_its_reason(made: Made) -> None:
    same = compare(*made.files()).metrics[1]
    assert (same.difference, same.p, same.equal) == (0, 1, 1)
    assert (same.low, same.high, same.dz, same.least, same.needed) == (None,) * 5
    assert list(same.notes) == ["all differences are 0: no interval, no effect size and no number of items can be told from that"]
    assert "NaN" not in json.dumps(asdict(compare(*made.files())))


def test_equal_means_of_unequal_scores_have_an_interval_and_no_number_of_items(tmp_path: Path) -> None:
    first = [scored(f"s{place}", good=1 + place % 2) for place in range(20)]
    second = [scored(f"s{place}", good=2 - place % 2) for place in range(20)]
    (found,) = compare(write_verdicts(tmp_path / "a.jsonl", first), write_verdicts(tmp_path / "b.jsonl", second)).metrics
    assert (found.difference, found.dz, found.needed) == (0, 0, None)
    assert found.low == -found.high  # type: ignore[operator]
    assert found.least is not None
    assert list(found.notes) == ["the means are the same: no number of items shows a difference of none"]


def test_nothing_that_is_left_out_is_lost(made: Made) -> None:
    made.first[0] = unscored("s0", "context overflow")
    made.second[1] = scored("s1", good=None, same=3, true=1)
    made.first.append(scored("only-a", good=1, same=1, true=1))
    made.second += [scored(f"only-b{place}", good=1, same=1, true=1) for place in range(12)]
    found = compare(*made.files())
    assert [(fault.what, fault.count) for fault in found.faults] == [("verdict of a alone", 1), ("verdict of b alone", 12)]
    assert found.faults[1].ids == [f"only-b{place}" for place in range(10)]
    good, _, true = found.metrics
    assert good.unscored == {"a": {"context overflow": 1}, "b": {"the verdict has no number for it": 1}}
    assert (good.samples, true.samples) == (ITEMS - 2, ITEMS - 1)
    text = markdown(document(found))
    assert "12 rows: verdict of b alone: only-b0" in text
    assert "good: 1 sample of a left out: context overflow" in text


def test_samples_without_an_item_are_left_out_and_told(made: Made) -> None:
    items = made.items()
    lines = items.read_text().splitlines()
    items.write_text("\n".join([*lines[:-2], ",d9", "s58,"]) + "\n")
    found = compare(*made.files(), Options(items=items, item="dialogue"))
    assert {fault.what: (fault.count, fault.ids) for fault in found.faults} == {
        "without an id in items.csv": (1, ["items.csv row 59"]),
        "left out: items.csv names no item": (2, ["s58", "s59"]),
    }
    assert found.metrics[0].samples == ITEMS - 2
    items.write_text("id,dialogue\ns0,a\ns0,b\n")
    with pytest.raises(MagistrateError, match="`s0` is of item `b` here and of `a` before"):
        compare(*made.files(), Options(items=items, item="dialogue"))
    with pytest.raises(MagistrateError, match="no column `document`; there are `id`, `dialogue`"):
        compare(*made.files(), Options(items=items, item="document"))
    with pytest.raises(MagistrateError, match="belong together"):
        compare(*made.files(), Options(items=items))
    items.write_text("id,dialogue\nx,a\n")
    with pytest.raises(MagistrateError, match=r"no id of items\.csv is among those judged"):
        compare(*made.files(), Options(items=items, item="dialogue"))


def test_expected_scores_are_used_where_asked_for(made: Made) -> None:
    def with_expected(verdict: Verdict, add: float) -> Verdict:
        good = verdict.scores["good"] if verdict.scores else None
        assert isinstance(good, int)
        return replace(verdict, expected={"good": Expectation(good + add, 0.5)})

    made.first = [with_expected(one, 0.25) for one in made.first]
    made.second = [with_expected(one, 0.0) for one in made.second]
    written = compare(*made.files(), Options(metrics=["good"])).metrics[0]
    found = compare(*made.files(), Options(metrics=["good"], expected=True)).metrics[0]
    assert found.difference == pytest.approx(written.difference + 0.25)


def test_few_items_are_warned_of_and_one_is_refused(made: Made) -> None:
    made.first = made.first[:5]
    (good, *_) = compare(*made.files()).metrics
    assert good.notes[0] == "only 5 items: intervals of so few are rough, and the test's p cannot be below 0.031"
    made.first = made.first[:1]
    with pytest.raises(MagistrateError, match="scored on 1 items; a comparison needs two"):
        compare(*made.files())


def test_other_judges_are_warned_of(made: Made) -> None:
    made.second = [replace(one, fingerprint="g") for one in made.second]
    found = compare(*made.files())
    assert "their fingerprints differ" in found.notes[0]
    assert "their fingerprints differ" in markdown(document(found))


def test_sentences_name_the_better_one(made: Made) -> None:
    text = markdown(document(compare(*made.files(), Options(names=("new", "old")))))
    good = compare(*made.files()).metrics[0]
    assert f"- good: new scores {good.difference:.3f} higher than old, p adjusted is" in text
    assert "- same: no difference is shown, p adjusted is 1.0000." in text
    first, second = made.files()
    turned = markdown(document(compare(second, first, Options(names=("old", "new")))))
    assert f"- good: new scores {good.difference:.3f} higher than old" in turned


def test_files_that_do_not_belong_together_are_told(made: Made) -> None:
    first, second = made.files()
    with pytest.raises(MagistrateError, match="no numbers for `style`; they have good, same, true"):
        compare(first, second, Options(metrics=["style"]))
    with pytest.raises(MagistrateError, match="both systems are called `a`"):
        compare(first, second, Options(names=(None, "a")))
    strangers = write_verdicts(made.folder / "c.jsonl", [scored("x", good=1)])
    with pytest.raises(MagistrateError, match="no id in common"):
        compare(first, strangers)
    others = write_verdicts(made.folder / "d.jsonl", [scored("s1", fluency=1)])
    with pytest.raises(MagistrateError, match="no metric in common: a has good, same, true, d has fluency"):
        compare(first, others)

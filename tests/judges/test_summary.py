import statistics

import pytest
from scipy import stats

from judges.engines.engine import Usage
from judges.summary import Mean, Summary
from judges.verdict import Status, Verdict


def verdict(scores: dict[str, int | str | None] | None, reason: str | None = None) -> Verdict:
    status: Status = "unscored" if scores is None else "scored"
    usage = Usage(10, 4, 2)
    return Verdict(id="1", judge="j", status=status, reason=reason, scores=scores, sample="00", fingerprint="f", usage=usage)


def mean_of(*values: float) -> Mean:
    mean = Mean()
    for value in values:
        mean.add(value)
    return mean


def test_the_interval_is_students() -> None:
    values = [1, 4, 2, 5, 5, 0]
    mean = mean_of(*values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=statistics.mean(values), scale=stats.sem(values))
    assert mean.mean == pytest.approx(statistics.mean(values))
    assert mean.interval() == pytest.approx((low, high))


def test_one_value_and_values_that_are_all_the_same_have_no_interval() -> None:
    assert mean_of(3).interval() is None
    assert mean_of(3, 3, 3).interval(range(6)) is None


def test_an_interval_stays_within_the_scale() -> None:
    low, high = mean_of(0, 5, 5).interval() or (0, 0)
    assert low < 0
    assert high > 5
    assert mean_of(0, 5, 5).interval((*range(6), None)) == (0, 5)


def test_a_share_has_jeffreys_interval() -> None:
    ends = stats.beta.ppf((0.025, 0.975), 3.5, 1.5)
    assert mean_of(1, 1, 1, 0).interval((0, 1)) == pytest.approx(tuple(ends))
    assert mean_of(1, 1, 1, 1).interval((0, 1)) == pytest.approx((stats.beta.ppf(0.025, 4.5, 0.5), 1))
    assert mean_of(0.5, 0.75, 0.5, 0.75).interval((0, 1)) == pytest.approx((0.395, 0.855), abs=1e-3), (
        "a jury's means are no shares"
    )


def test_unscored_verdicts_never_move_a_mean() -> None:
    verdicts = [verdict({"a": 4, "b": None, "c": "good"}), verdict(None, "context overflow: the prompt has 9"), verdict({"a": 2})]
    summary = Summary.of(verdicts)
    assert (summary.scored, summary.unscored) == (2, {"context overflow": 1})
    assert summary.means["a"].mean == 3
    assert "b" not in summary.means
    assert summary.absent == {"b": 1}
    assert "c" not in summary.means
    assert summary.usage == Usage(30, 12, 6)


def test_reasons_of_a_kind_are_counted_together() -> None:
    reasons = [
        "x.jsonl row 3: field `response` is missing",
        "x.jsonl row 8: field `response` is missing",
        "x.jsonl row 9: is not JSON: Expecting value at column 14",
        "x.jsonl row 11: is not JSON: Expecting value at column 2",
        "engine error: HTTP 500",
    ]
    counted = Summary.of(verdict(None, reason) for reason in reasons).unscored
    assert counted == {"bad row: field `response` is missing": 2, "bad row: is not JSON: Expecting value": 2, "engine error": 1}

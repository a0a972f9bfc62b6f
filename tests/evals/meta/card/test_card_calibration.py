"""People's labels: what is compared with them, and what is refused with a reason."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from evals.meta.card.calibration import People, read_people, weighed
from evals.meta.card.subject import Subject
from evals.stats.calibration import calibration
from judges.errors import MagistrateError
from judges.grouse import Grouse
from judges.llm_eval import LLMEval
from judges.pairwise import Pairwise
from tests.evals.meta.card.made import pair, verdict

GRADED = Subject.of(LLMEval(["quality"]))
TRUE = Subject.of(Grouse())
PAIRS = Subject.of(Pairwise())


def labels(metric: str, values: Sequence[float]) -> People:
    return People(numbers={metric: {f"s{place}": [value] for place, value in enumerate(values)}})


def test_expected_scores_are_held_against_labels_on_the_same_scale() -> None:
    said, true = [0.5 * place % 5 for place in range(12)], [place % 6 for place in range(12)]
    verdicts = [verdict(f"s{place}", {"quality": 3}, expected={"quality": one}) for place, one in enumerate(said)]
    (found,) = weighed(GRADED, [*verdicts, None], labels("quality", true))
    expected = calibration(said, true)
    assert found.graded
    assert (found.error.value, found.error.low, found.error.high) == (expected.error, expected.low, expected.high)
    assert (found.error.count, found.labels) == (12, (0.0, 5.0))
    assert found.of_scale == pytest.approx(expected.error / 5)
    (found,) = weighed(GRADED, verdicts, labels("quality", [7, *true[1:]]))
    assert found.error.value is None
    assert found.error.reason == (
        "people's labels go from 0 to 7, and the judge's scale from 0 to 5; only scores on one scale can be compared"
    )


def test_a_metric_of_0_and_1_is_a_probability_and_missing_ones_are_counted() -> None:
    said = [0.05 * place for place in range(20)]
    verdicts = [verdict(f"s{place}", {"faithfulness": 1}, expected={"faithfulness": one}) for place, one in enumerate(said)]
    verdicts[3] = verdict("s3", {"faithfulness": None}, expected={})
    found = {one.metric: one for one in weighed(TRUE, verdicts, labels("faithfulness", [place % 2 for place in range(20)]))}
    faithful = found["faithfulness"]
    assert (faithful.graded, faithful.error.count, faithful.without) == (False, 19, 1)
    assert found["usefulness"].error.reason == "people's file has no column for it"


def test_nine_labels_are_too_few() -> None:
    verdicts = [verdict(f"s{place}", {"quality": 3}, expected={"quality": 3.0}) for place in range(9)]
    (found,) = weighed(GRADED, verdicts, labels("quality", [3] * 9))
    assert found.error.reason == "there are 9 labels of samples with probabilities; at least 10 are needed"


def test_of_pairs_the_likeliest_of_three_over_both_orders_counts() -> None:
    first = {"A": 0.6, "both": 0.1, "B": 0.2, "neither": 0.1}
    second = {"A": 0.2, "both": 0.3, "B": 0.2, "neither": 0.3}
    # Over both orders A has 0.4, B 0.2, and a tie 0.4 at first; the second order of each pair makes A the likeliest.
    surer = {"A": 0.5, "both": 0.2, "B": 0.2, "neither": 0.1}
    verdicts = [pair(f"p{place}", "A", "A", [first, surer]) for place in range(10)]
    verdicts += [pair("q", "A", "tie", [first, None]), pair("r", "A", "tie", [second, second])]
    said: Mapping[str, Sequence[str]] = {f"p{place}": ["A"] if place < 4 else ["B"] for place in range(10)}
    (found,) = weighed(PAIRS, verdicts, People(preferences={**said, "q": ["A"], "r": ["tie", "A"]}))
    expected = calibration([0.55] * 10 + [0.6], [1] * 4 + [0] * 6 + [0.5])
    assert found.error.value == pytest.approx(expected.error)
    assert (found.error.count, found.without) == (11, 1)


def written(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_preferences_are_read_and_faults_counted(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "preference": "A"},
        {"id": "a", "preference": "both"},
        {"id": "b", "preference": " b "},
        {"id": "c", "preference": ""},
        {"id": "d", "preference": "left"},
        {"id": "e", "preference": "B>A"},
        {"id": "f", "preference": "[[A]]"},
        {"preference": "A"},
    ]
    found = read_people(written(tmp_path / "people.jsonl", rows), PAIRS)
    assert found.preferences == {"a": ["A", "tie"], "b": ["B"], "e": ["B"], "f": ["A"]}
    assert (list(found.ids), found.empty) == (["a", "b", "c", "d", "e", "f"], 1)
    assert len(found.faults) == 2
    assert "is 'left', which is not A, B or tie" in found.faults[0]
    numbers = written(tmp_path / "numbers.jsonl", [{"id": "a", "preference": "A"}, {"id": "b", "preference": 0}])
    with pytest.raises(
        MagistrateError, match=r"nothing says which answer the numbers of column `preference` \(0\) name; write A"
    ):
        read_people(numbers, PAIRS)
    with pytest.raises(MagistrateError, match="there is no column `preference`"):
        read_people(written(tmp_path / "other.jsonl", [{"id": "a", "grade": 1}]), PAIRS)

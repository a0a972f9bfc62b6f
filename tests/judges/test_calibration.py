"""Curves from expected scores to people's: values, and faults of the file that holds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judges.calibration import FILE, Calibration, Curve, read_calibration
from judges.errors import MagistrateError
from judges.llm_eval import LLMEval

CURVE = {"expected": [1.0, 2.0, 4.0], "people": [0.5, 3.0, 4.5], "legal": [0, 5], "samples": 30, "source": "ours, quality"}


def write(folder: Path, **changed: Any) -> Path:
    content = {"judge": "llm-eval", "metrics": {"relevance": CURVE | changed}}
    (folder / FILE).write_text(json.dumps(content))
    return folder


def test_a_curve_is_level_outside_its_points_and_straight_between() -> None:
    curve = Curve.model_validate(CURVE)
    places = [-1.0, 0.0, 1.0, 1.5, 2.0, 3.0, 3.7, 4.0, 5.0]
    assert [curve.at(place) for place in places] == pytest.approx(np.interp(places, curve.expected, curve.people).tolist())


def test_a_curve_of_one_point_is_level() -> None:
    assert Curve(expected=(2.0,), people=(1.0,), legal=(0, 5), samples=30, source="").at(4.0) == 1.0


def test_a_folder_may_hold_none(tmp_path: Path) -> None:
    assert read_calibration(tmp_path) is None


def test_it_is_of_one_judge_one_metric_and_one_scale(tmp_path: Path) -> None:
    found = read_calibration(write(tmp_path))
    assert isinstance(found, Calibration)
    assert found.curve("llm-eval", "relevance", range(6)) == Curve.model_validate(CURVE)
    assert found.curve("grouse", "relevance", range(6)) is None
    assert found.curve("llm-eval", "grammar", range(6)) is None
    assert found.curve("llm-eval", "relevance", range(101)) is None


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"expected": [1.0, 1.0, 4.0]}, "`expected` must rise"),
        ({"people": [3.0, 0.5, 4.5]}, "`people` must not fall"),
        ({"people": [0.5, 3.0]}, "`expected` and `people` differ in length"),
        ({"people": [0.5, 3.0, 5.5]}, "`people` must lie between 0 and 5, the scale of the metric"),
        ({"expected": []}, r"metrics\.relevance\.expected: "),
        ({"slope": 1}, r"metrics\.relevance\.slope: is unknown"),
    ],
)
def test_faults_name_the_file_and_the_key(tmp_path: Path, changed: dict[str, Any], fault: str) -> None:
    with pytest.raises(MagistrateError, match=f"{FILE}: .*{fault}"):
        read_calibration(write(tmp_path, **changed))


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    with pytest.raises(MagistrateError, match=rf"{FILE} cannot be read: .*; correct or delete it"):
        read_calibration(tmp_path)


@pytest.mark.parametrize("content", ["[]", "null", "[" * 100_000])
def test_a_file_of_another_kind_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(MagistrateError, match=rf"{FILE} .*; correct or delete it"):
        read_calibration(tmp_path)


def test_a_metric_that_a_user_describes_is_another() -> None:
    assert LLMEval().calibrated("relevance")
    assert not LLMEval(metrics={"relevance": "how many vowels the reply has"}).calibrated("relevance")

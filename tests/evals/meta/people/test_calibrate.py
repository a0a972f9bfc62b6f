"""Curves that ``meta people`` fits: as scikit-learn's, by people who are known to be right, and refused where there are few."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from evals.data.published_ratings import Rated, RatedSet
from evals.meta.people.calibrate import calibration
from evals.meta.people.report import document, figures
from evals.meta.people.study import Options, People, study
from evals.reports.markdown import markdown
from judges.calibration import Calibration, Curve
from judges.errors import MagistrateError
from judges.expected import Expectation
from judges.verdict import Verdict

SCALE = {"relevance": range(6)}
OPTIONS = Options(rounds=50, expected=True, scales=SCALE, calibrate={"relevance": "fit"})


def made(count: int, seed: int = 0) -> tuple[RatedSet, dict[str, Verdict]]:
    """Samples of which three people say from 1 to 5 how well they fit, and a judge that is right but far too mild."""
    chance = np.random.default_rng(seed)
    truth = chance.uniform(1, 5, count)
    samples, verdicts = [], {}
    for number, true in enumerate(truth):
        ratings = np.clip(np.round(true + chance.normal(0, 0.7, 3)), 1, 5)
        rated = {"fit": tuple(map(float, ratings))}
        samples.append(Rated(id=f"s{number}", sample={"response": "r"}, ratings=rated, set="ours", item=f"i{number // 2}"))
        expected = float(np.clip(3 + 0.45 * (true - 1) + chance.normal(0, 0.15), 0, 5))
        verdicts[f"s{number}"] = Verdict(
            id=f"s{number}",
            judge="llm-eval",
            status="scored",
            scores={"relevance": round(expected)},
            expected={"relevance": Expectation(expected, 0.5)},
            sample="s",
            fingerprint="f",
        )
    return RatedSet("ours", samples, ("fit",)), verdicts


@pytest.fixture(scope="module")
def found() -> People:
    return study(*made(200), OPTIONS)


def test_the_curve_is_isotonic_regression(found: People) -> None:
    rated, verdicts = made(200)
    expected = np.array([(verdicts[one.id].expected or {})["relevance"].expectation for one in rated.samples])  # type: ignore[union-attr]
    people = np.array([(np.mean(one.ratings["fit"]) - 1) * 5 / 4 for one in rated.samples])  # type: ignore[arg-type]
    theirs = IsotonicRegression().fit(expected, people).predict(expected)
    (fitted,) = found.calibrated
    blocks = [expected[theirs == value].mean() for value in np.unique(theirs)]
    assert fitted.curve.expected == pytest.approx(blocks, abs=1e-6)
    assert fitted.curve.people == pytest.approx(np.unique(theirs), abs=1e-4)
    assert fitted.curve.samples == 200
    assert fitted.curve.source == "ours, fit, ratings from 1 to 5"


def test_calibrated_scores_have_peoples_mean_and_distance(found: People) -> None:
    (fitted,) = found.calibrated
    assert fitted.expected.mean > fitted.people.mean + 1
    assert fitted.calibrated.mean == pytest.approx(fitted.people.mean, abs=0.1)
    assert fitted.expected.spread < 0.6 * fitted.people.spread
    assert 0.85 * fitted.people.spread < fitted.calibrated.spread < 1.05 * fitted.people.spread
    assert fitted.calibrated.distance < 0.4 * fitted.expected.distance


def test_the_report_has_the_table_and_the_file_can_be_read(found: People) -> None:
    text = markdown(document(found))
    assert "## Calibration" in text
    assert "relevance, calibrated | fit" in text
    written = json.loads(json.dumps(figures(found)["calibrated"][0]))
    assert written["people"] == asdict(found.calibrated[0].people)
    assert Curve.model_validate(written["curve"]) == found.calibrated[0].curve
    content = calibration("llm-eval", found.calibrated)
    assert Calibration.model_validate_json(content.model_dump_json()) == content


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            lambda rated: replace(rated, samples=rated.samples[:20]),
            "people rated fit of 20 samples in ours; at least 30 are needed to calibrate",
        ),
        (
            lambda rated: replace(rated, samples=[replace(one, ratings={"fit": (3.0, None, 3.0)}) for one in rated.samples]),
            "all ratings of fit are 3, so no relevance can be calibrated by them",
        ),
        (
            lambda rated: replace(rated, samples=[replace(one, item="one") for one in rated.samples]),
            "people rated fit of 1 item in ours; at least 10 are needed to calibrate",
        ),
    ],
)
def test_what_cannot_be_fitted_is_refused(change: Any, fault: str) -> None:
    rated, verdicts = made(60)
    with pytest.raises(MagistrateError, match=fault):
        study(change(rated), verdicts, OPTIONS)

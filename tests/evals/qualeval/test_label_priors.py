"""Domains against people's labels: which is which, how far priors are apart, and how often a row has the domain of its label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from evals.data.tasks import Instance
from evals.qualeval.affinities import Affinities
from evals.qualeval.attributes import given
from evals.qualeval.breakdown import Assigned, assign
from evals.qualeval.label_priors import LabelPriors, label_priors
from evals.qualeval.options import Options

OPTIONS = Options(k=1, best=1, rounds=200)
NAMES = ("The heart", "Tooth decay", "Drugs", "Nobody's")
PAPER = {"Pediatrics": 9, "Obstetrics and Gynecology": 7, "Pharmacology": 6, "Microbiology": 6}
"""Percent of MedMCQA's questions with a label. Source: QualEval, section 4.1."""
FOUND = {"Pediatrics": 9, "Obstetrics and Gynecology": 6, "Pharmacology": 6, "Microbiology": 4}
"""Percent that QualEval's priors give the domain of that name there."""


def assigned(scores: NDArray[np.float32], chosen: list[int], names: tuple[str, ...]) -> Assigned:
    """Domains with these affinities and these assignments, whatever the solver would choose."""
    affinities = Affinities("input", scores, scores, {}, lambda numbers: {})
    solved = assign(given("domain", names), affinities, [str(number) for number in range(len(scores))], OPTIONS)
    return replace(solved, chosen=np.array(chosen, np.int16)[:, None])


def instances(labels: Sequence[str | None]) -> list[Instance]:
    return [Instance(str(number), {}, "q", "a", label) for number, label in enumerate(labels)]


def study(labels: Sequence[str | None], domains: list[int], names: tuple[str, ...] = NAMES) -> LabelPriors:
    """Rows that are rated 5 in one domain and 1 in all others, and are assigned it."""
    scores = np.ones((len(labels), len(names)), np.float32)
    scores[np.arange(len(labels)), domains] = 5
    found = label_priors(assigned(scores, domains, names), instances(labels), OPTIONS)
    assert found is not None
    return found


def test_labels_find_their_domains_whatever_these_are_called() -> None:
    labels = ["Medicine"] * 50 + ["Dental"] * 30 + ["Pharmacology"] * 20
    found = study(labels, [0] * 50 + [1] * 30 + [2] * 20)
    assert {pair.label: pair.domain for pair in found.pairs} == {
        "Medicine": "The heart",
        "Dental": "Tooth decay",
        "Pharmacology": "Drugs",
    }
    assert [pair.share.value for pair in found.pairs] == [0.5, 0.3, 0.2]
    assert all(pair.agreement.value == 1 for pair in found.pairs)
    assert found.agreement.value == 1
    assert list(found.domains) == ["Nobody's"]
    assert found.labels == {}
    assert found.chance < 0.5
    for pair in found.pairs:
        assert pair.share.low is not None
        assert pair.share.low < pair.share.value < pair.share.high  # type: ignore[operator]
        prior = 5 * pair.share.value + 1 - pair.share.value  # type: ignore[operator]
        assert pair.prior.value == pytest.approx(prior / (5 + len(NAMES) - 1))


def test_the_distance_counts_what_is_matched_and_all_else_as_one_class() -> None:
    """The paper prints four labels with their priors: 9 and 9%, 7 and 6%, 6 and 6%, 6 and 4%. All else is then 72 and 75%."""
    labels = [label for label, percent in PAPER.items() for _ in range(percent)]
    labels += [f"of its own {number}" for number in range(72)]
    names = (*PAPER, "all else")
    scores = np.tile(np.array([*FOUND.values(), 75], np.float32), (100, 1))
    chosen = [names.index(label) if label in names else 4 for label in labels]
    found = label_priors(assigned(scores, chosen, names), instances(labels), OPTIONS)
    assert found is not None
    for pair in found.pairs:
        assert pair.domain == pair.label
        assert pair.share.value == pytest.approx(PAPER[pair.label] / 100)
        assert pair.prior.value == pytest.approx(FOUND[pair.label] / 100)
    assert len(found.pairs) == len(PAPER)
    assert (found.rare, found.other) == (72, 0.72)
    assert found.distance.value == pytest.approx((0 + 0.01 + 0 + 0.02 + 0.03) / 2)
    assert found.agreement.value == pytest.approx(0.28)


def test_the_matching_is_the_best_one_in_all_and_not_label_by_label() -> None:
    """Label a shares 6 rows with the first domain and 5 with the second; b shares 5 with the first and none with the second."""
    found = study(["a"] * 11 + ["b"] * 5, [0] * 6 + [1] * 5 + [0] * 5, NAMES[:2])
    assert {pair.label: pair.domain for pair in found.pairs} == {"a": NAMES[1], "b": NAMES[0]}
    assert found.agreement.value == pytest.approx(10 / 16)


def test_rows_without_a_label_and_rare_labels_are_counted_and_not_guessed() -> None:
    found = study([None] * 10 + ["a"] * 50 + ["b"] * 49 + ["rare"], [3] * 10 + [0] * 50 + [1] * 49 + [2])
    assert (found.rows, found.unlabelled, found.rare, found.other) == (100, 10, 1, 0.01)
    assert [pair.label for pair in found.pairs] == ["a", "b"]
    assert found.agreement.value == pytest.approx(0.99)


def test_labels_without_any_common_row_stay_alone() -> None:
    found = study(["a"] * 10 + ["b"] * 10 + ["c"] * 10, [0] * 30, NAMES[:2])
    assert len(found.pairs) == 1
    assert len(found.labels) == 2
    assert list(found.domains) == [NAMES[1]]
    fields = found.as_fields()
    assert fields["pairs"][0]["agreement"]["value"] == 1


def test_nothing_is_compared_without_labels() -> None:
    scores = np.ones((4, 2), np.float32)
    assert label_priors(assigned(scores, [0, 1, 0, 1], NAMES[:2]), instances([None] * 4), OPTIONS) is None

"""Correlations over systems' means, against scipy and a resampling written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evals.stats.association import COEFFICIENTS, Coefficient
from evals.stats.system_association import system_associations
from judges.errors import MagistrateError

SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def made(seed: int = 0, systems: int = 9, items: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ratings from 1 to 5, some missing, of every system on every item; a system's own quality shows in both columns."""
    generator = np.random.default_rng(seed)
    of, about = np.divmod(np.arange(systems * items), items)
    quality = np.linspace(1.5, 4.5, systems)[of]
    table = np.rint(np.clip(quality[:, None] + generator.normal(0, 1.5, (len(of), 4)), 1, 5))
    table[generator.random(table.shape) < 0.05] = np.nan
    return table[:, :2], table[:, 2:], of, about


def by_hand(column: np.ndarray, target: np.ndarray, of: np.ndarray, name: str) -> float:
    there = ~(np.isnan(column) | np.isnan(target))
    means = [(column[there & (of == one)].mean(), target[there & (of == one)].mean()) for one in np.unique(of)]
    return float(SCIPY[name](*zip(*means, strict=True)).statistic)


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_coefficients_are_those_of_the_means(name: Coefficient) -> None:
    columns, targets, of, about = made()
    found = system_associations(columns, targets, of, about, rounds=20)
    for column in range(2):
        for target in range(2):
            one = found[column][target][name]
            assert one.value == pytest.approx(by_hand(columns[:, column], targets[:, target], of, name), abs=1e-12)
            assert (one.pairs, one.items) == (9, 20)


def test_intervals_are_of_resampled_items() -> None:
    columns, targets, of, about = made(1)
    (((found),),) = system_associations(columns[:, :1], targets[:, :1], of, about, rounds=4000)
    generator = np.random.default_rng(5)
    drawn = []
    for _ in range(1500):
        rows = np.concatenate([np.flatnonzero(about == one) for one in generator.integers(20, size=20)])
        drawn.append(by_hand(columns[rows, 0], targets[rows, 0], of[rows], "kendall"))
    assert (found["kendall"].low, found["kendall"].high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.04)


def test_equal_means_of_unequal_sums_are_ties() -> None:
    thirds = [0.1, 0.2, 0.3, 0.3, 0.2, 0.1, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0]
    of, about = np.repeat(np.arange(5), 3), np.tile(np.arange(3), 5)
    other = np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], 3)
    (((found),),) = system_associations(np.array(thirds)[:, None], other[:, None], of, about, rounds=2)
    assert found["kendall"].value == pytest.approx(stats.kendalltau([1, 1, 2, 3, 4], [1, 2, 3, 4, 5]).statistic)
    assert found["kendall"].reason == "no interval: 3 items are too few, 10 are needed"


def test_what_has_no_correlation_says_why() -> None:
    columns, targets, of, about = made()
    (((few),),) = system_associations(columns[of < 2, :1], targets[of < 2, :1], of[of < 2], about[of < 2], rounds=2)
    assert few["spearman"].reason == "both are known of 2 systems, and 5 are needed"
    (((flat),),) = system_associations(np.ones((len(of), 1)), targets[:, :1], of, about, rounds=2)
    assert flat["pearson"].reason == "all systems have the same mean on one side"
    with pytest.raises(MagistrateError, match="have the same rows; there are 180, 180, 180 and 179"):
        system_associations(columns, targets, of, about[:-1])

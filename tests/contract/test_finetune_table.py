"""The table that ends a fine-tuning experiment says what it said. It has a file of its own, as it loads PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from finetune.experiments.experiment import Values
from finetune.experiments.report import write_report
from tests.contract.pinned import check
from tests.finetune.experiments.test_experiment import experiment


def test_the_table_says_what_it_said(tmp_path: Path) -> None:
    one = experiment(tmp_path, sets=[[0, 1], [2]])
    random = np.arange(12).reshape(2, 6) % 5 / 7
    targeted = random + np.array([[0.2, 0.1, 0.15, 0, 0.3, 0.05], [0, -0.1, 0.02, 0.04, -0.3, 0.1]])[:, None]
    (tmp_path / "out").mkdir()
    write_report(one, Values(np.full(6, 0.1), random, targeted), tmp_path / "out")
    check("finetune-table", tmp_path / "out", "")

"""A training at each of a recipe's learning rates, and the adapter that validates best."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.whole_files import write_whole
from finetune.card import card
from finetune.recipe import Recipe
from finetune.trainer import Listener
from finetune.training import ADAPTER, MAKING, Data, Trained, is_first, train


@dataclass(frozen=True, slots=True)
class Sweep:
    """What the learning rates came to.

    Attributes:
        trained: One for each rate, in the recipe's order.
        best: The one whose best checkpoint validates best of all.
        adapter: A copy of its adapter.
    """

    trained: list[Trained]
    best: Trained
    adapter: Path


def sweep(
    recipe: Recipe,
    data: Data,
    folder: Path,
    *,
    seed: int = 0,
    listener: Callable[[float], Listener] = lambda rate: Listener(),
    report_to: Sequence[str] = (),
) -> Sweep:
    """Train at each learning rate, or go on where a sweep was stopped.

    Args:
        recipe: How.
        data: On what.
        folder: Has a folder for each rate, and in the end ``adapter`` and ``sweep.json``.
        seed: The same for every rate, so that they differ in nothing else.
        listener: Makes a listener from a rate.
        report_to: Where figures are reported, as transformers names it.

    Raises:
        MagistrateError: See ``train``.
    """
    trained = [
        train(recipe, data, folder / f"rate-{rate:g}", rate=rate, seed=seed, listener=listener(rate), report_to=report_to)
        for rate in recipe.training.learning_rates
    ]
    best = min(trained, key=lambda one: one.validation)
    adapter = folder / ADAPTER
    if is_first():
        scratch = folder / f".{ADAPTER}.part"
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(best.adapter, scratch)
        making = json.loads((best.adapter.parent / MAKING).read_text(encoding="utf-8"))
        (scratch / "README.md").write_text(card(recipe, making, trained, best), encoding="utf-8")
        shutil.rmtree(adapter, ignore_errors=True)
        scratch.replace(adapter)
        table = [{"rate": one.rate, "step": one.step, "validation": one.validation, "chosen": one is best} for one in trained]
        write_whole(folder / "sweep.json", json.dumps(table, indent=1))
    return Sweep(trained, best, adapter)

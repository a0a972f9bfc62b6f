"""Trains at each of a recipe's learning rates, and keeps the adapter that validates best, with a card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finetune.training.recipe import Recipe
from finetune.training.train import PROVENANCE, Data, Trained, is_first, train
from finetune.training.trainer import Listener
from judges.data.files import atomic_write
from judges.engines.merged import ADAPTER


@dataclass(frozen=True, slots=True)
class Sweep:
    """The outcome of a sweep over learning rates.

    Attributes:
        trained: A training for each rate, in the recipe's order.
        best: The one that validates best.
        adapter: The folder with a copy of its adapter.
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
    """Train at each learning rate, or resume.

    Args:
        recipe: How to train.
        data: The rows.
        folder: Gets a folder for each rate, and at the end ``adapter`` and ``sweep.json``.
        seed: The same for every rate, so that they differ in nothing else.
        listener: Makes a listener from a rate.
        report_to: Services to report to, by their names in transformers.

    Raises:
        MagistrateError: A training fails: see ``train``.
    """
    trained = [
        train(recipe, data, folder / f"rate-{rate:g}", rate=rate, seed=seed, listener=listener(rate), report_to=report_to)
        for rate in recipe.training.learning_rates
    ]
    best = min(trained, key=lambda training: training.validation)
    adapter = folder / ADAPTER
    if is_first():
        scratch = folder / f".{ADAPTER}.part"
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(best.adapter, scratch)
        provenance = json.loads((best.adapter.parent / PROVENANCE).read_text(encoding="utf-8"))
        (scratch / "README.md").write_text(card(recipe, provenance, trained, best), encoding="utf-8")
        shutil.rmtree(adapter, ignore_errors=True)
        scratch.replace(adapter)
        rates = [
            {"rate": each.rate, "step": each.step, "validation": each.validation, "chosen": each is best} for each in trained
        ]
        atomic_write(folder / "sweep.json", json.dumps(rates, indent=1))
    return Sweep(trained, best, adapter)


def card(recipe: Recipe, provenance: dict[str, Any], results: Sequence[Trained], best: Trained) -> str:
    """Write an adapter's card, its ``README.md``, which begins with the fields that the hub reads."""
    counts, training = provenance["counts"], recipe.training
    length = f"{training.steps} steps" if training.steps else f"{training.epochs:g} epochs"
    rates = "\n".join(
        f"| {each.rate:g} | {each.step} | {each.validation:.4f} |{' this one' if each is best else ''} |" for each in results
    )
    packing = "packed" if recipe.rows.packing else "a row a pack"
    return f"""---
base_model: {recipe.base}
library_name: peft
tags: [lora, magistrate]
---

# An adapter of {recipe.base}

{recipe.title}: recipe `{recipe.name}`. Loss on the last answer; trained by Magistrate {provenance["versions"]["magistrate"]}.

| learning rate | best step | validation loss by token | |
|---|---|---|---|
{rates}

| | |
|---|---|
| rows | {counts["rows"]:,}, digest `{provenance["rows"]}` |
| validation | {counts["validation"]:,} rows, digest `{provenance["validation"]}` |
| left out | {counts["rejected"]:,} rows |
| base | weights `{provenance["base"]}`, held as {recipe.weights}, computed in {recipe.compute} |
| adapter | rank {recipe.lora.rank}, alpha {recipe.lora.alpha:g}, dropout {recipe.lora.dropout:g} |
| packs | {recipe.rows.length:,} tokens, {packing}; {training.batch} a step |
| training | {length}, {training.optimizer}, {training.schedule} schedule, seed {provenance["seed"]} |
| versions | {", ".join(f"{name} {version}" for name, version in provenance["versions"].items())} |

Source of the recipe: {" ".join(recipe.source.split())}
"""

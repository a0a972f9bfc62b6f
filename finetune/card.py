"""The card of an adapter: what it was trained on, how, and how well it validates. It lies beside the weights as ``README.md``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from finetune.recipe import Recipe
from finetune.training import Trained


def card(recipe: Recipe, making: dict[str, Any], results: Sequence[Trained], best: Trained) -> str:
    """Write it, with the fields that the hub reads at its head.

    Args:
        recipe: How it was trained.
        making: What ``making.json`` holds.
        results: Of all learning rates.
        best: The one whose adapter this is.
    """
    counts, training = making["counts"], recipe.training
    length = f"{training.steps} steps" if training.steps else f"{training.epochs:g} epochs"
    rates = "\n".join(
        f"| {one.rate:g} | {one.step} | {one.validation:.4f} |{' this one' if one is best else ''} |" for one in results
    )
    packing = "packed" if recipe.rows.packing else "a row a pack"
    return f"""---
base_model: {recipe.base}
library_name: peft
tags: [lora, magistrate]
---

# An adapter of {recipe.base}

{recipe.title}: recipe `{recipe.name}`. Loss on the last answer alone; trained by Magistrate {making["versions"]["magistrate"]}.

| learning rate | best step | validation loss by token | |
|---|---|---|---|
{rates}

| | |
|---|---|
| rows | {counts["rows"]:,}, digest `{making["rows"]}` |
| validation | {counts["validation"]:,} rows, digest `{making["validation"]}` |
| left out | {counts["rejected"]:,} rows |
| base | weights `{making["base"]}`, held as {recipe.weights}, computed in {recipe.compute} |
| adapter | rank {recipe.lora.rank}, alpha {recipe.lora.alpha:g}, dropout {recipe.lora.dropout:g} |
| packs | {recipe.rows.length:,} tokens, {packing}; {training.batch} a step |
| training | {length}, {training.optimizer}, {training.schedule} schedule, seed {making["seed"]} |
| versions | {", ".join(f"{name} {version}" for name, version in making["versions"].items())} |

Where the recipe is from: {" ".join(recipe.source.split())}
"""

"""Trains from rows to the adapter that validates best. A training can be killed at any moment and resumed."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from finetune.data.batches import Packs
from finetune.data.conversations import Conversation, Rejected
from finetune.data.rows import Row, encode
from finetune.training import checkpoints, memory
from finetune.training.model import NUMBERS, add_adapter, load_base, load_tokenizer, locate, read_start
from finetune.training.provenance import check_provenance, provenance_of_training
from finetune.training.recipe import Recipe
from finetune.training.trainer import AnswerTrainer, Listener, arguments
from judges.data.files import atomic_write
from judges.engines.chat import ChatTokenizer
from judges.engines.merged import ADAPTER, CONFIG, WEIGHTS
from judges.errors import MagistrateError

PROVENANCE = "making.json"

log = logging.getLogger("magistrate.finetune")


@dataclass(frozen=True, slots=True)
class Data:
    """Rows to train on and to validate on, in tokens.

    Attributes:
        rows: Rows to train on.
        validation: Rows by which checkpoints are chosen.
        rejected: Rows in neither, and why.
    """

    rows: list[Row]
    validation: list[Row]
    rejected: list[Rejected]

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        chat: ChatTokenizer,
        conversations: Sequence[Conversation | Rejected],
        validation: Sequence[Conversation | Rejected],
    ) -> Data:
        """Tokenize conversations.

        Raises:
            MagistrateError: No row is left to train on, or to validate on.
        """
        rows, rejected = encode(conversations, chat, recipe.rows.length)
        held_out, rejected_too = encode(validation, chat, recipe.rows.length)
        for kept, faults, what in ((rows, rejected, "train on"), (held_out, rejected_too, "validate on")):
            if not kept:
                why = f"; the first, {faults[0].id}: {faults[0].reason}" if faults else ""
                raise MagistrateError(f"there is no row to {what}: {len(faults)} were given, and all rejected{why}")
        return cls(rows, held_out, [*rejected, *rejected_too])


@dataclass(frozen=True, slots=True)
class Trained:
    """The outcome of a training.

    Attributes:
        rate: The learning rate.
        adapter: The folder with the adapter of the checkpoint that validates best.
        step: That checkpoint's step.
        validation: Its loss per token of the answers.
        history: Everything logged, in order.
    """

    rate: float
    adapter: Path
    step: int
    validation: float
    history: list[dict[str, float]]


def train(
    recipe: Recipe,
    data: Data,
    folder: Path,
    *,
    rate: float | None = None,
    seed: int = 0,
    listener: Listener | None = None,
    report_to: Sequence[str] = (),
) -> Trained:
    """Train an adapter, or resume its training. Under ``torchrun`` each process takes its part of every step.

    Args:
        recipe: How to train.
        data: The rows.
        folder: Gets checkpoints and at the end the adapter. It is not resumed with another recipe, data or seed.
        rate: One of the recipe's learning rates; the first by default.
        seed: Seeds the adapter, the order of packs, and dropout.
        listener: Follows the progress.
        report_to: Services to report to, by their names in transformers.

    Raises:
        MagistrateError: It cannot be trained here, the loss becomes NaN or infinite, or the disk is full.
    """
    rate = recipe.training.learning_rates[0] if rate is None else rate
    folder.mkdir(parents=True, exist_ok=True)
    base = locate(recipe)
    read_start(recipe)  # first: what cannot begin must not mark the folder as its own
    device = _device()
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if is_first():  # if it fails, the launcher ends the other processes too
        check_provenance(
            folder / PROVENANCE, provenance_of_training(recipe, data, base, rate, seed=seed, device=device), "a training"
        )
        checkpoints.remove_incomplete(folder)

    done = folder / "trained.json"
    if done.exists():
        facts = json.loads(done.read_text(encoding="utf-8"))
        return Trained(rate, folder / ADAPTER, facts["step"], facts["validation"], facts["history"])

    chat = load_tokenizer(recipe, base)
    at_once = recipe.training.at_once
    packs = Packs(data.rows, recipe.rows, at_once=at_once, multiple=max(1, recipe.training.batch // at_once))
    validation = Packs(data.validation, recipe.rows, at_once=at_once)
    args = arguments(recipe, rate, folder, seed=seed, device=device, processes=processes, report_to=report_to)
    if is_first():
        needed = memory.need(recipe, base, max(packs.most_learned(), validation.most_learned()), device)
        log.info("memory: %s", needed)
        memory.check(needed, *memory.free(device))
    model = add_adapter(load_base(recipe, base, device), recipe, seed)
    trainer = AnswerTrainer(model, args, packs, validation, listener or Listener())
    last = checkpoints.latest(folder)
    trainer.train(resume_from_checkpoint=str(last) if last else None)

    state = trainer.state
    if state.best_global_step is None or state.best_metric is None:
        raise MagistrateError(
            f"the training ended after {state.global_step} steps without a checkpoint: set `checkpoints` to fewer steps than that"
        )
    best = folder / f"checkpoint-{state.best_global_step}"
    trained = Trained(rate, folder / ADAPTER, state.best_global_step, state.best_metric, state.log_history)
    if is_first():
        _copy_adapter(best, folder / ADAPTER, chat, recipe)
        facts = {"step": trained.step, "validation": trained.validation, "packing": packs.efficiency, "history": trained.history}
        atomic_write(done, json.dumps(facts, indent=1))
    trainer.accelerator.wait_for_everyone()
    return trained


def is_first() -> bool:
    """Whether this is the only process, or the one of ``torchrun``'s that writes and prints."""
    return os.environ.get("RANK", "0") == "0"


def _device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def _copy_adapter(checkpoint: Path, adapter: Path, chat: ChatTokenizer, recipe: Recipe) -> None:
    scratch = adapter.with_name(f".{adapter.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    kept = {name: weight.to(NUMBERS[recipe.lora.kept]) for name, weight in load_file(checkpoint / WEIGHTS).items()}
    save_file(kept, scratch / WEIGHTS, {"format": "pt"})
    # The base by name, since an adapter is used on other machines; in training peft gets the folder, or it would ask the hub.
    config = json.loads((checkpoint / CONFIG).read_text(encoding="utf-8")) | {"base_model_name_or_path": recipe.base}
    (scratch / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    chat.tokenizer.save_pretrained(str(scratch))
    shutil.rmtree(adapter, ignore_errors=True)
    scratch.replace(adapter)

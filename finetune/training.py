"""A training from rows to the adapter that validates best, which can be killed at any moment and goes on."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from evals.whole_files import write_whole
from finetune import checkpoints, memory
from finetune.batches import Packs
from finetune.conversations import Conversation, Rejected
from finetune.making import keep_making
from finetune.model import add_adapter, load_base, load_tokenizer, locate
from finetune.recipe import Recipe
from finetune.rows import Row, encode
from finetune.trainer import AnswerTrainer, Listener, arguments
from judges.engines import weights
from judges.engines.chat import ChatTokenizer
from judges.errors import MagistrateError

VERSIONS = ("magistrate", "torch", "transformers", "peft", "accelerate", "bitsandbytes")
ADAPTER = "adapter"
MAKING = "making.json"
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

log = logging.getLogger("magistrate.finetune")


@dataclass(frozen=True, slots=True)
class Data:
    """Rows to train on and to validate on, in tokens.

    Attributes:
        rows: What is trained on.
        validation: What checkpoints are chosen by.
        rejected: What is in neither, and why.
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
        """Put conversations into tokens.

        Raises:
            MagistrateError: Nothing is left to train on, or to validate on.
        """
        rows, rejected = encode(conversations, chat, recipe.rows.length)
        held_out, rejected_too = encode(validation, chat, recipe.rows.length)
        for found, faults, what in ((rows, rejected, "train on"), (held_out, rejected_too, "validate on")):
            if not found:
                why = f"; the first, {faults[0].id}: {faults[0].reason}" if faults else ""
                raise MagistrateError(f"there is no row to {what}: {len(faults)} were given, and all rejected{why}")
        return cls(rows, held_out, [*rejected, *rejected_too])


@dataclass(frozen=True, slots=True)
class Trained:
    """What one learning rate came to.

    Attributes:
        rate: The learning rate.
        adapter: The folder with the adapter of the checkpoint that validates best.
        step: That checkpoint's.
        validation: Its loss by token of an answer.
        history: What was logged, in its order.
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
    """Train an adapter, or go on with a training that was stopped.

    Started by ``torchrun``, each process takes its part of every step.

    Args:
        recipe: How.
        data: On what.
        folder: For checkpoints and, in the end, the adapter. A training of another recipe, data or seed is not continued.
        rate: One of the recipe's learning rates; the first by default.
        seed: Of the adapter's start, the order of packs, and dropout.
        listener: Follows the progress.
        report_to: Where figures are reported, as transformers names it.

    Raises:
        MagistrateError: It cannot be trained here, the loss is no number any more, or the disk is full.
    """
    rate = recipe.training.learning_rates[0] if rate is None else rate
    folder.mkdir(parents=True, exist_ok=True)
    base = locate(recipe)
    device = _device()
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    making = _making(recipe, data, base, rate, seed)
    if is_first():  # the launcher ends the others with the first
        keep_making(folder / MAKING, making, "a training")
        checkpoints.throw_away_spoilt(folder)

    done = folder / "trained.json"
    if done.exists():
        found = json.loads(done.read_text(encoding="utf-8"))
        return Trained(rate, folder / ADAPTER, found["step"], found["validation"], found["history"])

    chat = load_tokenizer(recipe, base)
    at_once = recipe.training.at_once
    packs = Packs(data.rows, recipe.rows, at_once=at_once, multiple=max(1, recipe.training.batch // at_once))
    validation = Packs(data.validation, recipe.rows, at_once=at_once)
    args = arguments(recipe, rate, folder, seed=seed, device=device, processes=processes, report_to=report_to)
    if is_first():
        taken = memory.need(recipe, base, max(packs.most_learned(), validation.most_learned()))
        log.info("memory: %s", taken)
        memory.check(taken, *memory.free(device))
    model = add_adapter(load_base(recipe, base, device), recipe, seed)
    trainer = AnswerTrainer(model, args, packs, validation, listener or Listener())
    last = checkpoints.latest(folder)
    trainer.train(resume_from_checkpoint=str(last) if last else None)

    state = trainer.state
    if state.best_global_step is None or state.best_metric is None:
        raise MagistrateError(
            f"the training ended after {state.global_step} steps without a checkpoint: let `checkpoints` be fewer steps than that"
        )
    best = folder / f"checkpoint-{state.best_global_step}"
    trained = Trained(rate, folder / ADAPTER, state.best_global_step, state.best_metric, state.log_history)
    if is_first():
        _copy_adapter(best, folder / ADAPTER, chat, recipe.base)
        facts = {"step": trained.step, "validation": trained.validation, "packing": packs.efficiency, "history": trained.history}
        write_whole(done, json.dumps(facts, indent=1))
    trainer.accelerator.wait_for_everyone()
    return trained


def is_first() -> bool:
    """Whether this is the one process that writes and prints; there are others where ``torchrun`` has started it."""
    return os.environ.get("RANK", "0") == "0"


def _device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def _making(recipe: Recipe, data: Data, base: Path, rate: float, seed: int) -> dict[str, Any]:
    """All that the weights depend on. Thread counts are part of it: sums come out otherwise in their last bits."""
    return {
        "recipe": recipe.model_dump(mode="json"),
        "rate": rate,
        "seed": seed,
        "threads": torch.get_num_threads(),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "base": weights.digest(base),
        "rows": _digest(data.rows),
        "validation": _digest(data.validation),
        "counts": {"rows": len(data.rows), "validation": len(data.validation), "rejected": len(data.rejected)},
        "rejected": [asdict(one) for one in data.rejected],
        "versions": {name: metadata.version(name) for name in VERSIONS},
    }


def _copy_adapter(checkpoint: Path, adapter: Path, chat: ChatTokenizer, base: str) -> None:
    scratch = adapter.with_name(f".{adapter.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    shutil.copyfile(checkpoint / WEIGHTS, scratch / WEIGHTS)
    # Its base by its name, not by the folder that it was found in: an adapter is used on other machines. While it is trained
    # peft is told the folder, since it would ask the hub for a name.
    config = json.loads((checkpoint / CONFIG).read_text(encoding="utf-8")) | {"base_model_name_or_path": base}
    (scratch / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    chat.tokenizer.save_pretrained(str(scratch))
    shutil.rmtree(adapter, ignore_errors=True)
    scratch.replace(adapter)


def _digest(rows: Sequence[Row]) -> str:
    total = hashlib.sha256()
    for row in rows:
        total.update(f"{row.id}\n{row.answer}\n{len(row.ids)}\n".encode())
        total.update(row.ids.tobytes())
    return total.hexdigest()[:16]

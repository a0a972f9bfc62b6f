"""Trains a reward model: a base with an adapter and a classification head, on pairs of which people prefer one answer."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification
from transformers.utils import logging

from finetune.data.batches import Batch
from finetune.data.conversations import Rejected
from finetune.data.pairs import Pair, Pairs
from finetune.training import checkpoints
from finetune.training.model import NUMBERS, QUANTIZATION, load_tokenizer, locate
from finetune.training.provenance import check_provenance, versions
from finetune.training.recipe import Recipe
from finetune.training.train import PROVENANCE
from finetune.training.trainer import AnswerTrainer, Listener, arguments
from judges.data.files import atomic_write
from judges.engines import weights
from judges.engines.transformers import UNPADDED
from judges.errors import EngineError, MagistrateError

MODEL = "model"
"""Folder of the trained model, in the output."""


@dataclass(frozen=True, slots=True)
class TrainedReward:
    """The outcome of a training at one learning rate.

    Attributes:
        rate: The learning rate.
        checkpoint: The folder of the checkpoint that validates best.
        step: Its step.
        validation: Its loss on a pair to validate on, in nats; log 2 for a model that knows nothing.
    """

    rate: float
    checkpoint: Path
    step: int
    validation: float


class RewardTrainer(AnswerTrainer):
    """Trains a reward model."""

    def batch_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Sum Bradley and Terry's losses of a batch's pairs: how unlikely the model finds people's choice, in nats."""
        rewards = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, 0].float()
        better, worse = rewards.chunk(2)
        return -nn.functional.logsigmoid(better - worse) @ batch["weights"]


def train_reward(
    recipe: Recipe,
    pairs: Sequence[Pair],
    validation: Sequence[Pair],
    folder: Path,
    *,
    rejected: Sequence[Rejected] = (),
    seed: int = 0,
    listener: Callable[[float], Listener] = lambda rate: Listener(),
    report_to: Sequence[str] = (),
) -> tuple[Path, list[TrainedReward]]:
    """Train at each of a recipe's learning rates, or resume, and merge the model that validates best.

    Args:
        recipe: How to train; a step has ``batch`` pairs.
        pairs: Pairs to train on.
        validation: Pairs by which checkpoints and the rate are chosen.
        folder: Gets a folder for each rate, and the model.
        rejected: Pairs in neither, and why.
        seed: Seeds the head, the adapter, and the order of pairs.
        listener: Makes a listener from a rate.
        report_to: Services to report to, by their names in transformers.

    Returns:
        The model's folder, which every engine opens, and the trainings.

    Raises:
        MagistrateError: It cannot be trained here, there are no pairs, or the folder holds another training.
    """
    if not pairs or not validation:
        raise MagistrateError(f"there is no pair to {'train on' if not pairs else 'validate on'}")
    if recipe.weights in QUANTIZATION or recipe.start_from is not None:
        raise MagistrateError("a reward model is trained on weights in float32 or bfloat16, and from a new adapter")
    base = locate(recipe)
    trained = []
    for rate in recipe.training.learning_rates:
        own = folder / f"rate-{rate:g}"
        provenance = _provenance(recipe, pairs, validation, base, rate, seed) | {"rejected": [asdict(row) for row in rejected]}
        check_provenance(own / PROVENANCE, provenance, "a training")
        trained.append(_train_at(rate, recipe, base, pairs, validation, own, seed, listener(rate), report_to))
    best = min(trained, key=lambda one: one.validation)
    if not (folder / MODEL).exists():
        _merge(best, recipe, base, folder / MODEL, seed)
    return folder / MODEL, trained


def _train_at(
    rate: float,
    recipe: Recipe,
    base: Path,
    pairs: Sequence[Pair],
    validation: Sequence[Pair],
    folder: Path,
    seed: int,
    listener: Listener,
    report_to: Sequence[str],
) -> TrainedReward:
    done = folder / "trained.json"
    if not done.exists():
        checkpoints.remove_incomplete(folder)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        args = arguments(recipe, rate, folder, seed=seed, device=device, processes=1, report_to=report_to)
        model = _adapted(_with_head(recipe, base, seed).to(device), recipe, seed)
        trainer = RewardTrainer(model, args, Pairs(pairs), Pairs(validation), listener)
        last = checkpoints.latest(folder)
        trainer.train(resume_from_checkpoint=str(last) if last else None)
        state = trainer.state
        if state.best_global_step is None or state.best_metric is None:
            raise MagistrateError("the training ended without a checkpoint: set `checkpoints` to fewer steps than it has")
        facts = {"step": state.best_global_step, "validation": state.best_metric, "history": state.log_history}
        atomic_write(done, json.dumps(facts, indent=1))
    facts = json.loads(done.read_text(encoding="utf-8"))
    return TrainedReward(rate, folder / f"checkpoint-{facts['step']}", facts["step"], facts["validation"])


def _with_head(recipe: Recipe, base: Path, seed: int) -> Any:
    """The base with a new head of one label."""
    torch.manual_seed(seed)
    said = logging.get_verbosity()
    logging.set_verbosity_error()  # that the head is new
    try:
        model = AutoModelForSequenceClassification.from_pretrained(str(base), num_labels=1, dtype=NUMBERS[recipe.weights])
    except (OSError, ValueError) as error:
        raise EngineError(f"transformers cannot load {recipe.base} with a classification head: {error}") from error
    finally:
        logging.set_verbosity(said)
    model.config.pad_token_id = UNPADDED
    return model


def _adapted(model: Any, recipe: Recipe, seed: int) -> Any:
    lora = recipe.lora
    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    config = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=targets, task_type="SEQ_CLS"
    )
    torch.manual_seed(seed)
    try:
        return get_peft_model(model, config)
    except ValueError as error:
        raise MagistrateError(f"the recipe's adapter does not fit {recipe.base}: {error}") from error


def _merge(best: TrainedReward, recipe: Recipe, base: Path, output: Path, seed: int) -> None:
    """Write the base with the adapter added and the trained head, in float32."""
    chat = load_tokenizer(recipe, base)
    model = PeftModel.from_pretrained(_with_head(recipe, base, seed).float(), str(best.checkpoint)).merge_and_unload()
    model.config.pad_token_id = chat.tokenizer.pad_token_id
    scratch = output.with_name(f".{output.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    model.save_pretrained(str(scratch))
    chat.tokenizer.save_pretrained(str(scratch))
    scratch.rename(output)


def _provenance(
    recipe: Recipe, pairs: Sequence[Pair], validation: Sequence[Pair], base: Path, rate: float, seed: int
) -> dict[str, Any]:
    return {
        "recipe": recipe.as_fields(),
        "rate": rate,
        "seed": seed,
        "threads": torch.get_num_threads(),
        "base": weights.digest(base),
        "pairs": _digest(pairs),
        "validation": _digest(validation),
        "counts": {"pairs": len(pairs), "validation": len(validation)},
        "versions": versions(),
    }


def _digest(pairs: Sequence[Pair]) -> str:
    ground = json.dumps([[pair.id, pair.chosen, pair.rejected] for pair in pairs])
    return hashlib.sha256(ground.encode()).hexdigest()[:16]

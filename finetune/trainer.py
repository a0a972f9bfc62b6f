"""transformers' Trainer, with loss on answers alone, weighed by their tokens, and checkpoints that are whole or not there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from finetune import checkpoints
from finetune.batches import Batch, Packs, collate
from finetune.recipe import Recipe
from judges.errors import MagistrateError

MOST_NAMED = 8
"""Rows that a message names."""

OPTIMIZERS = {"adamw": "adamw_torch", "adamw_8bit": "adamw_bnb_8bit"}


class Progress(NamedTuple):
    """The progress of a training.

    Attributes:
        step: Steps done.
        steps: Of all.
        tokens_per_second: Of rows, answers and what is before them, since training began here.
        loss: Of the last step, by token; ``None`` before the first.
        validation: The last validation's loss by token; ``None`` before the first.
    """

    step: int
    steps: int
    tokens_per_second: float
    loss: float | None
    validation: float | None


class Listener:
    """Follows the progress of a training. This one ignores it."""

    def told(self, progress: Progress) -> None:
        """A step is done."""


def arguments(
    recipe: Recipe, rate: float, folder: Path, *, seed: int, device: torch.device, processes: int, report_to: Sequence[str]
) -> TrainingArguments:
    """The recipe, as transformers has it.

    Raises:
        MagistrateError: The processes cannot share a step evenly.
    """
    training = recipe.training
    share = training.at_once * processes
    if training.batch % share:
        raise MagistrateError(
            f"a step of `batch = {training.batch}` cannot be shared by {processes} processes that take `at_once = "
            f"{training.at_once}`: change one of them"
        )
    when: dict[str, Any] = (
        {"save_strategy": "epoch", "eval_strategy": "epoch"}
        if training.checkpoints is None
        else {
            "save_strategy": "steps",
            "eval_strategy": "steps",
            "save_steps": training.checkpoints,
            "eval_steps": training.checkpoints,
        }
    )
    return TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=1,
        gradient_accumulation_steps=training.batch // share,
        max_steps=training.steps or -1,
        num_train_epochs=training.epochs or 1,
        learning_rate=rate,
        lr_scheduler_type=training.schedule,
        warmup_steps=training.warmup_steps,
        optim=OPTIMIZERS[training.optimizer],
        weight_decay=training.weight_decay,
        max_grad_norm=training.clip,
        gradient_checkpointing=training.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        bf16=recipe.compute == "bfloat16",
        seed=seed,
        data_seed=seed,
        use_cpu=device.type == "cpu",
        logging_steps=1,
        logging_nan_inf_filter=False,  # a loss that is no number ends the training, and is not averaged away
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        report_to=list(report_to),
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_num_workers=0,
        dataloader_pin_memory=device.type == "cuda",
        label_names=["targets"],
        **when,
    )


class AnswerTrainer(Trainer):
    """Trains an adapter on packed rows.

    Args:
        model: A base with an adapter.
        args: What ``arguments`` gives.
        rows: What is trained on.
        validation: What each checkpoint is validated on.
        listener: Follows the progress.
    """

    def __init__(self, model: Any, args: TrainingArguments, rows: Packs, validation: Packs, listener: Listener) -> None:
        super().__init__(model=model, args=args, train_dataset=rows, eval_dataset=validation, data_collator=collate)
        for callback in (PrinterCallback, ProgressCallback):
            self.remove_callback(callback)
        self.add_callback(_Guard(self))
        self.add_callback(_Teller(self, listener))
        # Losses are already divided by the tokens of the whole step.
        self.model_accepts_loss_kwargs = True
        self.losses: list[Tensor] = []
        self.names: list[str] = []
        self.tokens = 0

    control: TrainerControl

    def get_batch_samples(
        self, epoch_iterator: Iterator[Batch], num_batches: int, device: torch.device
    ) -> tuple[list[Batch], Tensor]:
        """The batches of a step, and the tokens that are learned from in all of them, on all processes."""
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        self.names = [name for batch in batches for name in batch["rows"]]
        self.losses = []
        counts = torch.tensor([sum(batch[what].numel() for batch in batches) for what in ("targets", "input_ids")], device=device)
        learned, read = self.accelerator.reduce(counts, "sum")
        self.tokens += int(read)
        return batches, learned

    def compute_loss(
        self, model: nn.Module, inputs: Batch, return_outputs: bool = False, num_items_in_batch: Tensor | int | None = None
    ) -> Any:
        """What this batch adds to the loss of its step: the sum over its answers' tokens, over the tokens of the step."""
        total = _loss(model, inputs)
        count = num_items_in_batch if num_items_in_batch is not None else inputs["targets"].numel()
        # Gradients of processes are averaged, and this one is to be summed.
        loss = total / count * self.accelerator.num_processes
        self.losses.append(loss.detach())
        return (loss, {}) if return_outputs else loss

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """The loss by token over all of the validation's answers, whatever their lengths and however they are packed."""
        assert isinstance(self.eval_dataset, Packs)
        began = time.perf_counter()
        mine = range(self.accelerator.process_index, len(self.eval_dataset), self.accelerator.num_processes)
        total = torch.zeros(2, dtype=torch.float64, device=self.args.device)
        self.model.eval()
        for batch in DataLoader(Subset(self.eval_dataset, list(mine)), batch_size=1, collate_fn=collate):
            batch = self._prepare_inputs(batch)
            with torch.no_grad(), self.compute_loss_context_manager():
                total += torch.stack([_loss(self.model, batch).double(), torch.as_tensor(batch["targets"].numel()).to(total)])
        loss, tokens = self.accelerator.reduce(total, "sum").tolist()
        metrics = {"eval_loss": loss / tokens, "eval_tokens": tokens, "eval_runtime": time.perf_counter() - began}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        folder = Path(str(self.args.output_dir))
        checkpoint = folder / f"checkpoint-{self.state.global_step}"
        try:
            super()._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()
            if self.is_world_process_zero():
                checkpoints.seal(checkpoint)
                checkpoints.thin_out(folder, self.state.global_step, self.state.best_global_step)
        except (OSError, RuntimeError, SafetensorError) as error:  # PyTorch and safetensors have their own for a full disk
            checkpoints.throw_away_spoilt(folder)
            last = checkpoints.latest(folder)
            there = f"{last} is whole, and the same command goes on from it" if last else "there is none yet"
            raise MagistrateError(f"the checkpoint {checkpoint} cannot be written: {error}; {there}") from error
        self.accelerator.wait_for_everyone()


def _loss(model: nn.Module, batch: Batch) -> Tensor:
    """The sum of the losses of a batch's answers' tokens. Logits are worked out for these alone."""
    shown = {key: value for key, value in batch.items() if key not in ("places", "targets", "rows")}
    logits = model(**shown, use_cache=False, logits_to_keep=batch["places"]).logits[0]
    return nn.functional.cross_entropy(logits.float(), batch["targets"], reduction="sum")


class _Guard(TrainerCallback):
    """Ends a training whose loss or gradient is no number, before that spoils the weights."""

    def __init__(self, trainer: AnswerTrainer) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        gradients = [one.grad for one in self.trainer.model.parameters() if one.grad is not None]
        squares = torch.stack(torch._foreach_norm(gradients)).sum()
        bad = ~torch.isfinite(torch.stack([*self.trainer.losses, squares])).all()
        if int(self.trainer.accelerator.reduce(bad.int(), "sum")):
            names = self.trainer.names
            told = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
            last = checkpoints.latest(Path(str(args.output_dir)))
            kept = f"; {last} is the last before it" if last else ""
            raise MagistrateError(
                f"the loss is no number at step {state.global_step + 1}, on rows {told}{kept}: look at these rows, or train with "
                "a lower learning rate"
            )


class _Teller(TrainerCallback):
    """Reports the progress to the listener."""

    def __init__(self, trainer: AnswerTrainer, listener: Listener) -> None:
        self.trainer = trainer
        self.listener = listener
        self.began = 0.0
        self.loss: float | None = None
        self.validation: float | None = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.began = time.perf_counter()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        logs = logs or {}
        self.loss = logs.get("loss", self.loss)
        self.validation = logs.get("eval_loss", self.validation)
        speed = self.trainer.tokens / max(time.perf_counter() - self.began, 1e-9)
        if self.trainer.is_world_process_zero():
            self.listener.told(Progress(state.global_step, state.max_steps, speed, self.loss, self.validation))

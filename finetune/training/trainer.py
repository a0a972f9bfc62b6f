"""transformers' Trainer, with loss on answers only, averaged over their tokens, and checkpoints that are complete or ignored."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils.data import DataLoader, Subset
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.utils import is_liger_kernel_available

from finetune.data.batches import Batch, Packs, shown
from finetune.data.pairs import Pairs
from finetune.training import checkpoints
from finetune.training.recipe import Recipe
from judges.errors import MagistrateError

log = logging.getLogger("magistrate.finetune")

MOST_NAMED = 8
"""Rows named in a message."""

OPTIMIZERS = {"adamw": "adamw_torch", "adamw_8bit": "adamw_bnb_8bit"}


Rows = Packs | Pairs
"""What a training takes batches from."""


class Progress(NamedTuple):
    """The progress of a training.

    Attributes:
        step: Steps done.
        steps: Steps in all.
        tokens_per_second: Tokens of prompts and answers, since training began in this process.
        loss: Loss per token of the last step; ``None`` before the first.
        validation: Loss per token of the last validation; ``None`` before the first.
    """

    step: int
    steps: int
    tokens_per_second: float
    loss: float | None
    validation: float | None


class Listener:
    """Follows the progress of a training. This one ignores it."""

    def update(self, progress: Progress) -> None:
        """Take note of a step."""


def uses_liger(device: torch.device) -> bool:
    """Whether Liger's kernels compute norms, rotations and activations: on a GPU, where the package is installed."""
    return device.type == "cuda" and bool(is_liger_kernel_available())


def arguments(
    recipe: Recipe, rate: float, folder: Path, *, seed: int, device: torch.device, processes: int, report_to: Sequence[str]
) -> TrainingArguments:
    """Translate a recipe into transformers' arguments.

    Raises:
        MagistrateError: The processes cannot share a step evenly.
    """
    training = recipe.training
    share = training.at_once * processes
    if training.batch % share:
        raise MagistrateError(
            f"a step of `batch = {training.batch}` cannot be divided among {processes} processes that take `at_once = "
            f"{training.at_once}`: change one of them"
        )
    interval: dict[str, Any] = dict.fromkeys(("save_strategy", "eval_strategy"), "steps" if training.checkpoints else "epoch")
    if training.checkpoints:
        interval |= dict.fromkeys(("save_steps", "eval_steps"), training.checkpoints)
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
        logging_nan_inf_filter=False,  # NaN must end the training, not be filtered out
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        report_to=list(report_to),
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_num_workers=0,
        dataloader_pin_memory=device.type == "cuda",
        label_names=["targets"],
        ddp_find_unused_parameters=False,  # every step uses every weight of the adapter
        use_liger_kernel=uses_liger(device),
        # Its fused loss is of whole sequences, and would compute logits of prompts as well.
        liger_kernel_config={"fused_linear_cross_entropy": False},
        **interval,
    )


class AnswerTrainer(Trainer):
    """Trains an adapter on packed rows."""

    def __init__(self, model: Any, args: TrainingArguments, rows: Rows, validation: Rows, listener: Listener) -> None:
        super().__init__(model=model, args=args, train_dataset=rows, eval_dataset=validation, data_collator=rows.collate)
        for callback in (PrinterCallback, ProgressCallback):
            self.remove_callback(callback)
        self.add_callback(_FiniteCheck(self))
        self.add_callback(_ProgressReport(self, listener))
        # Losses are divided by the tokens of the whole step already.
        self.model_accepts_loss_kwargs = True
        self.validation = validation
        self.losses: list[Tensor] = []
        self.names: list[str] = []
        self.tokens = 0

    control: TrainerControl

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Make the schedule. A warm-up as long as the training, in which hardly anything is learned, is cut to half of it."""
        if self.args.warmup_steps >= num_training_steps:
            self.args.warmup_steps = (num_training_steps - 1) // 2
            log.warning(
                "the recipe warms up for longer than these %d steps last; cut to %d", num_training_steps, self.args.warmup_steps
            )
        return super().create_scheduler(num_training_steps, optimizer)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Batch], num_batches: int, device: torch.device
    ) -> tuple[list[Batch], Tensor]:
        """Get the batches of a step, and the weight of the tokens with loss in all of them, over all processes."""
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        self.names = [name for batch in batches for name in batch["rows"]]
        self.losses = []
        counts = torch.tensor(
            [[float(batch["weights"].sum()), batch["input_ids"].numel()] for batch in batches], dtype=torch.float64, device=device
        )
        learned, read = self.accelerator.reduce(counts.sum(dim=0), "sum")
        self.tokens += int(read)
        return batches, learned

    def compute_loss(
        self, model: nn.Module, inputs: Batch, return_outputs: bool = False, num_items_in_batch: Tensor | int | None = None
    ) -> Any:
        """Compute a batch's share of its step's loss: the sum over its answers' tokens, over the weight of the step's."""
        total = self.batch_loss(model, inputs)
        count = num_items_in_batch if num_items_in_batch is not None else inputs["weights"].sum()
        # Gradients are averaged over processes, and this loss must be summed.
        loss = total / count * self.accelerator.num_processes
        self.losses.append(loss.detach())
        return (loss, {}) if return_outputs else loss

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Compute the loss per token over all answers of the validation, whatever their lengths and packing."""
        began = time.perf_counter()
        mine = range(self.accelerator.process_index, len(self.validation), self.accelerator.num_processes)
        total = torch.zeros(2, dtype=torch.float64, device=self.args.device)
        self.model.eval()
        for batch in DataLoader(Subset(self.validation, list(mine)), batch_size=1, collate_fn=self.validation.collate):
            batch = self._prepare_inputs(batch)
            with torch.no_grad(), self.compute_loss_context_manager():
                total += torch.stack([self.batch_loss(self.model, batch).double(), batch["weights"].sum().double()])
        loss, tokens = self.accelerator.reduce(total, "sum").tolist()
        metrics = {"eval_loss": loss / tokens, "eval_tokens": tokens, "eval_runtime": time.perf_counter() - began}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def batch_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Sum the weighted losses of a batch."""
        return _loss(model, batch)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        folder = Path(str(self.args.output_dir))
        checkpoint = folder / f"checkpoint-{self.state.global_step}"
        try:
            super()._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()
            if self.is_world_process_zero():
                checkpoints.seal(checkpoint)
                checkpoints.keep_only(folder, self.state.global_step, self.state.best_global_step)
        except (OSError, RuntimeError, SafetensorError) as error:  # PyTorch and safetensors have their own errors for a full disk
            checkpoints.remove_incomplete(folder)
            last = checkpoints.latest(folder)
            resume = f"the same command resumes from {last}" if last else "there is none yet to resume from"
            raise MagistrateError(f"the checkpoint {checkpoint} cannot be written: {error}; {resume}") from error
        self.accelerator.wait_for_everyone()


def _loss(model: nn.Module, batch: Batch) -> Tensor:
    """Sum the weighted losses of the tokens of a batch's answers. Only their logits are computed."""
    logits = model(**shown(batch), use_cache=False, logits_to_keep=batch["places"]).logits[0]
    return nn.functional.cross_entropy(logits.float(), batch["targets"], reduction="none") @ batch["weights"]


def sum_of_norms(model: nn.Module) -> Tensor:
    """Sum the norms of a model's gradients. Those that FSDP shares out among processes are put together first."""
    norms = torch.stack(torch._foreach_norm([weight.grad for weight in model.parameters() if weight.grad is not None]))
    return (norms.full_tensor() if isinstance(norms, DTensor) else norms).sum()


class _FiniteCheck(TrainerCallback):
    """Ends a training whose loss or gradient is NaN or infinite, before that spoils the weights."""

    def __init__(self, trainer: AnswerTrainer) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        finite = torch.isfinite(torch.stack([*self.trainer.losses, sum_of_norms(self.trainer.model)])).all()
        if int(self.trainer.accelerator.reduce((~finite).int(), "sum")):
            names = self.trainer.names
            rows = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
            last = checkpoints.latest(Path(str(args.output_dir)))
            kept = f"; {last} is the last checkpoint" if last else ""
            raise MagistrateError(
                f"the loss is not finite at step {state.global_step + 1}, on rows {rows}{kept}: check these rows, or train "
                "with a lower learning rate"
            )


class _ProgressReport(TrainerCallback):
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
            self.listener.update(Progress(state.global_step, state.max_steps, speed, self.loss, self.validation))

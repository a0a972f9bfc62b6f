"""Training speed beside TRL's SFTTrainer, how full packs are, and how long data selection takes.

    pip install trl==1.16.0
    python scripts/bench_finetune.py speed --data ../shared/data/dialogsum
    python scripts/bench_finetune.py packing --data ../shared/data/dialogsum
    python scripts/bench_finetune.py selection --data ../shared/data/dialogsum
    python scripts/bench_finetune.py shared --data judge-data --recipe judge-135m --rows 600

`speed` trains an adapter for one epoch on the same rows, with the same recipe, in turns; each turn is a process of its own, and
only steps are timed. `--base`, `--recipe` and `--variant` take any model and recipe, so the same command runs on a GPU. `shared`
times packs of the rows of `make_judge_data.py`, with their beginnings shared and without.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Trainer, TrainerCallback

import solver
from evals.data.tasks import Instance, Task, read_dataset
from finetune.data.batches import Packs, efficiency, pack
from finetune.data.conversations import Conversation, of_task, read_conversations
from finetune.data.rows import Row, encode
from finetune.data.selection import select
from finetune.training.model import NUMBERS, QUANTIZATION, add_adapter, load_base, load_tokenizer, locate
from finetune.training.recipe import Recipe
from finetune.training.trainer import OPTIMIZERS, AnswerTrainer, Listener, _loss, arguments
from judges.engines.quantized import transformers_config
from judges.grouse import Grouse

SIDES = ("magistrate", "trl", "trl-padded")
"""TRL packs rows too, or puts them beside each other with padding, as many as a pack of ours has on the average."""

GROUSE_LENGTH = 7104
CHARACTERS = 4.4
"""Of a token."""


QUIET = os.environ | {"TRANSFORMERS_VERBOSITY": "error"}


class Clock(TrainerCallback):
    """Seconds of training, from the second step to the last."""

    def __init__(self) -> None:
        self.began = 0.0
        self.took = 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        _wait()
        if state.global_step == 1:
            self.began = time.perf_counter()
        self.took = time.perf_counter() - self.began


def _device() -> torch.device:
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def instances(folder: Path, count: int | None = None) -> list[Instance]:
    return read_dataset(Task.load("dialogsum"), folder / "dialogsum.train.jsonl", count).instances


def conversations(folder: Path, count: int) -> list[Conversation]:
    return of_task(Task.load("dialogsum"), instances(folder, count))


def one_epoch(recipe: Recipe) -> Recipe:
    """The recipe, for an epoch and at its first learning rate."""
    training = recipe.training.model_copy(
        update={"steps": None, "epochs": 1.0, "learning_rates": recipe.training.learning_rates[:1]}
    )
    return recipe.model_copy(update={"training": training})


def time_side(options: argparse.Namespace) -> dict[str, float]:
    """Train one epoch in this process."""
    device = _device()
    recipe = one_epoch(Recipe.load(options.recipe, options.variant, base=options.base))
    chat = load_tokenizer(recipe, locate(recipe))
    told = conversations(options.data, options.rows)
    rows, _ = encode(told, chat, recipe.rows.length)
    kept = {row.id for row in rows}
    told = [one for one in told if one.id in kept]
    clock = Clock()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if options.side == "magistrate":
            trainer = ours(recipe, rows, device, folder)
        else:
            trainer = theirs(options, recipe, rows, told, device, folder)
        trainer.add_callback(clock)
        trainer.train()
    steps = trainer.state.global_step
    tokens = sum(len(row.ids) for row in rows) * (steps - 1) / steps
    peak = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
    loss = [log["loss"] for log in trainer.state.log_history if "loss" in log][-1]
    return {"tokens_per_second": tokens / clock.took, "steps": steps, "peak": peak, "loss": float(loss)}


def ours(recipe: Recipe, rows: Sequence[Row], device: torch.device, scratch: Path) -> Trainer:
    args = arguments(recipe, recipe.training.learning_rates[0], scratch, seed=0, device=device, processes=1, report_to=())
    args.eval_strategy = args.save_strategy = "no"
    packs = Packs(rows, recipe.rows, at_once=recipe.training.at_once, multiple=recipe.training.batch // recipe.training.at_once)
    model = add_adapter(load_base(recipe, locate(recipe), device), recipe, 0)
    return AnswerTrainer(model, args, packs, packs, Listener())


def theirs(
    options: argparse.Namespace,
    recipe: Recipe,
    rows: Sequence[Row],
    told: Sequence[Conversation],
    device: torch.device,
    scratch: Path,
) -> Trainer:
    """SFTTrainer with the recipe's settings, by its documented options."""
    from datasets import Dataset
    from peft import LoraConfig
    from trl import SFTConfig, SFTTrainer

    training, lora = recipe.training, recipe.lora
    packed = options.side == "trl"
    at_once = 1 if packed else round(len(rows) / Packs(rows, recipe.rows).filled)
    load: dict[str, Any] = {"dtype": NUMBERS[recipe.compute], "device_map": {"": device}}
    if recipe.weights in QUANTIZATION:
        load["quantization_config"] = transformers_config(QUANTIZATION[recipe.weights], recipe.compute)
    if device.type == "cuda" and options.attention:
        load["attn_implementation"] = options.attention
    tokenizer = load_tokenizer(recipe, locate(recipe)).tokenizer
    config = SFTConfig(
        output_dir=str(scratch),
        model_init_kwargs=load,
        max_length=recipe.rows.length,
        packing=packed,
        completion_only_loss=True,
        per_device_train_batch_size=at_once,
        gradient_accumulation_steps=training.batch,
        num_train_epochs=1,
        learning_rate=training.learning_rates[0],
        lr_scheduler_type=training.schedule,
        warmup_steps=training.warmup_steps,
        optim=OPTIMIZERS[training.optimizer],
        weight_decay=training.weight_decay,
        max_grad_norm=training.clip,
        gradient_checkpointing=training.gradient_checkpointing,
        bf16=recipe.compute == "bfloat16",
        use_cpu=device.type == "cpu",
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=0,
    )
    data = Dataset.from_list(
        [
            {
                "prompt": [{"role": one.role, "content": one.content} for one in conversation.messages[:-1]],
                "completion": [{"role": "assistant", "content": conversation.messages[-1].content}],
            }
            for conversation in told
        ]
    )
    adapter = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=lora.targets, task_type="CAUSAL_LM"
    )
    return SFTTrainer(model=str(locate(recipe)), args=config, train_dataset=data, processing_class=tokenizer, peft_config=adapter)


def speed(options: argparse.Namespace) -> None:
    """Both in turns, and the ratio of each round."""
    rounds: list[dict[str, dict[str, float]]] = []
    for number in range(options.rounds):
        turn = SIDES if number % 2 == 0 else SIDES[::-1]
        rounds.append({side: _in_a_process(side) for side in turn if side in options.sides})
        print(json.dumps(rounds[-1]), flush=True)
    print("| side | tokens a second | steps | ratio | GPU memory, GiB |\n|---|---|---|---|---|")
    for side in options.sides:
        speeds = [one[side]["tokens_per_second"] for one in rounds]
        ratios = [one["magistrate"]["tokens_per_second"] / one[side]["tokens_per_second"] for one in rounds]
        last = rounds[-1][side]
        print(
            f"| {side} | {statistics.median(speeds):,.0f} | {last['steps']:.0f} | {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f}) | {last['peak']:.1f} |"
        )


def _in_a_process(side: str) -> dict[str, float]:
    command = [sys.executable, *sys.argv, "--side", side]
    done = subprocess.run(
        command, env=os.environ | {"TRANSFORMERS_VERBOSITY": "error"}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def packing(options: argparse.Namespace) -> None:
    """The share of packs' room that rows take, of DialogSum's rows and of rows as long as GroUSE's."""
    print("| rows | count | tokens of a row | room of a pack | packs | filled | seconds |")
    print("|---|---|---|---|---|---|---|")
    recipe = Recipe.load("tiny")
    chat = load_tokenizer(recipe, locate(recipe))
    dialogues, _ = encode(conversations(options.data, options.rows), chat, 2048)
    _packed("DialogSum", [len(row.ids) for row in dialogues], 2048)
    lengths = grouse_lengths(options.data)
    for at_once in (1, 2, 8):
        _packed(f"as GroUSE's, {at_once} at once", lengths, GROUSE_LENGTH * at_once)


def grouse_lengths(folder: Path) -> list[int]:
    """Lengths of a thousand rows: the card's prompt, one to ten real dialogues as references, real summaries as answers, and a
    verdict with a reason for each grade, that goes through the answers sentence by sentence.

    Tokens are guessed from characters, at those that Llama 3 takes for English: its tokenizer is not here.
    """
    rng, there = random.Random(0), instances(folder)

    def some(most: int) -> str:
        return " ".join(one.truth for one in rng.sample(there, rng.randint(1, most)))

    lengths = []
    for _ in range(1000):
        references = [one.input for one in rng.sample(there, rng.randint(1, 10))]
        answers = [some(3), some(3)]
        sample = {"input": "What is it?", "references": references, "expected_output": answers[0], "actual_output": answers[1]}
        (asked,) = Grouse().render(sample).prompts
        verdict = " ".join([*(some(1) for _ in range(8)), *answers * 4])
        lengths.append(round((len(asked.messages[0].content) + len(verdict)) / CHARACTERS))
    return lengths


def _packed(name: str, lengths: Sequence[int], capacity: int) -> None:
    began = time.perf_counter()
    packs = pack(lengths, capacity)
    took = time.perf_counter() - began
    middle = f"{statistics.median(lengths):,.0f} ({min(lengths):,} to {max(lengths):,})"
    print(
        f"| {name} | {len(lengths):,} | {middle} | {capacity:,} | {len(packs):,} | {efficiency(lengths, packs, capacity):.1%} | "
        f"{took:.3f} |"
    )


def shared(options: argparse.Namespace) -> None:
    """Rows a second, forward and backward, with beginnings shared and without, in turns on the same rows and threads."""
    recipe, device = Recipe.load(options.recipe, options.variant, base=options.base), _device()
    folder = locate(recipe)
    told = islice(read_conversations(options.data / "train.jsonl"), options.rows)
    rows, _ = encode(told, load_tokenizer(recipe, folder), recipe.rows.length)
    model = add_adapter(load_base(recipe, folder, device), recipe, 0)
    sides = {how: Packs(rows, recipe.rows.model_copy(update={"packing": how})) for how in ("shared", True)}
    found: dict[str | bool, list[float]] = {how: [] for how in sides}
    for number in range(options.rounds + 1):  # the first is not counted
        for how, packs in sides.items():
            batch = packs.collate([packs[number]])
            began = time.perf_counter()
            batch = {name: part.to(device) if isinstance(part, torch.Tensor) else part for name, part in batch.items()}
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=recipe.compute == "bfloat16"):
                loss = _loss(model, batch)
            loss.backward()
            _wait()
            found[how].append(len(batch["rows"]) / (time.perf_counter() - began))
    print(f"{len(rows)} rows in {len(sides['shared'])} packs shared, {len(sides[True])} not; {torch.get_num_threads()} threads")
    for how, speeds in found.items():
        kept = speeds[1:]
        print(f"packing {how}: {statistics.median(kept):.2f} rows/s ({min(kept):.2f} to {max(kept):.2f})")


def selection(options: argparse.Namespace) -> None:
    """Seconds to assign domains to all of DialogSum's training rows, and to draw from them: the judge's own time is left out."""
    count, names = 12_460, [f"Domain {number}" for number in range(15)]
    affinities = np.random.default_rng(0).choice([1, 2, 3, 4, 5], (count, 15), p=[0.5, 0.2, 0.12, 0.1, 0.08]).astype(np.float32)
    took: dict[str, list[float]] = {"assign": [], "draw": []}
    for _ in range(options.rounds):
        began = time.perf_counter()
        chosen = solver.assign(affinities, k=2, slack="auto", labels=names).chosen
        middle = time.perf_counter()
        for seed in range(3):
            for domains in ([0], [1, 2], [3, 4, 5]):
                select(chosen, domains, names=names, seed=seed)
        took["assign"].append(middle - began)
        took["draw"].append(time.perf_counter() - middle)
    print("| step | seconds |\n|---|---|")
    for name, seconds in took.items():
        print(f"| {name} | {statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f}) |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "packing", "selection", "shared"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/dialogsum"), help="folder with DialogSum's files")
    parser.add_argument("--recipe", default="tiny")
    parser.add_argument("--variant")
    parser.add_argument("--base", help="another model than the recipe's")
    parser.add_argument("--rows", type=int, default=200, help="of DialogSum, to train on or to pack")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--attention", help="of TRL on a GPU, as transformers names it, such as flash_attention_2")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(time_side(options)))
        return
    {"speed": speed, "packing": packing, "selection": selection, "shared": shared}[options.what](options)


if __name__ == "__main__":
    main()

"""Pre-train a small Llama on DialogSum's training dialogues, from nothing, on a CPU: a base for experiments of fine-tuning.

    python scripts/pretrain_small.py --data ../shared/data/dialogsum --output runs/small-llama

It reads dialogues and no summary. The tokenizer is that of the tests' model, which was made of the same dialogues. Held-out loss
is that of the development split. The same code on a GPU takes `--width 640 --layers 12 --steps 20000` and the like.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

HEAD = 64


def read_tokens(path: Path, tokenizer: Any) -> torch.Tensor:
    """All dialogues of a file as one row of ids, each from its start to its end of text."""
    texts = [json.loads(line)["dialogue"] for line in path.read_text(encoding="utf-8").splitlines()]
    encoded = tokenizer(texts, add_special_tokens=True)["input_ids"]
    return torch.tensor([token for ids in encoded for token in [*ids, tokenizer.eos_token_id]])


def new_model(tokenizer: Any, width: int, layers: int) -> LlamaForCausalLM:
    """An untrained Llama with heads of 64, which attention kernels are written for."""
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=64 * math.ceil(width * 8 / 3 / 64),
        num_hidden_layers=layers, num_attention_heads=width // HEAD, num_key_value_heads=width // HEAD, head_dim=HEAD,
        max_position_embeddings=4096, tie_word_embeddings=True, initializer_range=0.02, bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def loss_of(model: LlamaForCausalLM, rows: torch.Tensor) -> torch.Tensor:
    """The mean loss by token of ``(B, T + 1)`` ids."""
    # Not every CPU is faster in bfloat16; some are several times slower.
    with torch.autocast("cuda", torch.bfloat16, enabled=rows.is_cuda):
        logits = model(input_ids=rows[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())


def held_out_loss(model: LlamaForCausalLM, tokens: torch.Tensor, options: argparse.Namespace) -> float:
    model.eval()
    rows = tokens[: len(tokens) // (options.length + 1) * (options.length + 1)].view(-1, options.length + 1)
    with torch.no_grad():
        losses = [loss_of(model, part) * len(part) for part in rows.split(options.batch)]
    model.train()
    return float(sum(losses)) / len(rows)


def save(model: LlamaForCausalLM, tokenizer: Any, folder: Path, record: dict[str, Any]) -> None:
    model.save_pretrained(folder)
    GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "training.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def pretrain(options: argparse.Namespace) -> None:
    """AdamW under a cosine schedule that ends with the time or the steps, whichever is first."""
    torch.manual_seed(options.seed)
    if options.threads:
        torch.set_num_threads(options.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tokenizer = AutoTokenizer.from_pretrained("tests/models/magistrate-tiny")
    tokens, held_out = (
        read_tokens(options.data / f"dialogsum.{split}.jsonl", tokenizer).to(device) for split in ("train", "dev")
    )
    model = new_model(tokenizer, options.width, options.layers).to(device)
    matrices = [value for name, value in model.named_parameters() if value.ndim > 1 and "embed" not in name]
    others = [value for name, value in model.named_parameters() if value.ndim == 1 or "embed" in name]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=options.rate, betas=(0.9, 0.95)
    )
    print(f"{model.num_parameters():,} parameters, {len(tokens):,} tokens", flush=True)
    model.train()
    began, step, running = time.monotonic(), 0, 0.0
    while True:
        done = max((time.monotonic() - began) / 60 / options.minutes, step / options.steps)
        if done >= 1:
            break
        step += 1
        rate = options.rate * min(step / 100, 1.0) * (0.02 + 0.98 * (0.5 + 0.5 * math.cos(math.pi * done)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        # A start anywhere, so that no two epochs cut the dialogues at the same places.
        starts = torch.randint(len(tokens) - options.length - 1, (options.batch,)).tolist()
        loss = loss_of(model, torch.stack([tokens[start : start + options.length + 1] for start in starts]))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        running = loss.item() if step == 1 else 0.98 * running + 0.02 * loss.item()
        if step % 50 == 0:
            speed = step * options.batch * options.length / (time.monotonic() - began)
            print(f"step {step}: loss {running:.3f}, {speed:,.0f} tokens/s, {done:.0%}", flush=True)
        if step % 500 == 0:
            print(f"held out: {held_out_loss(model, held_out, options):.3f}", flush=True)
    seen = step * options.batch * options.length
    record = {
        "parameters": model.num_parameters(), "steps": step, "tokens": seen, "epochs": round(seen / len(tokens), 2),
        "minutes": round((time.monotonic() - began) / 60, 1), "device": str(device),
        "held_out_loss": round(held_out_loss(model, held_out, options), 4),
    }  # fmt: skip
    save(model, tokenizer, options.output, record)
    print(json.dumps(record, indent=2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/dialogsum"), help="folder with DialogSum's files")
    parser.add_argument("--output", type=Path, required=True, help="folder for the model")
    parser.add_argument("--width", type=int, default=192, help="a multiple of 64")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--length", type=int, default=256, help="tokens of a row")
    parser.add_argument("--batch", type=int, default=16, help="rows of a step")
    parser.add_argument("--steps", type=int, default=100_000, help="stop after so many")
    parser.add_argument("--minutes", type=float, default=40.0, help="stop after this long")
    parser.add_argument("--rate", type=float, default=3e-3, help="highest learning rate")
    parser.add_argument("--threads", type=int, default=0, help="threads of PyTorch; its own choice by default")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.width % HEAD:
        parser.error(f"--width must be a multiple of {HEAD}")
    pretrain(options)


if __name__ == "__main__":
    main()

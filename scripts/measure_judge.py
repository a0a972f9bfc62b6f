"""Measure a judge on held-out rows of ``make_judge_data.py``: how well its scores follow from how each sample was made.

python -m scripts.measure_judge judge-data/validation.jsonl --base smollm2-135m --adapter judge/adapter
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from finetune.data.batches import Packs, shown
from finetune.data.conversations import read_conversations
from finetune.data.rows import encode
from finetune.training.attention import register
from finetune.training.recipe import Rows
from judges.data.rows import read_rows
from judges.engines import weights
from judges.engines.chat import ChatTokenizer

KEY = re.compile(r'"([^"]*)": $')

CONTRASTS = {
    "relevance: true over random": ("relevance", ("true",), ("random",)),
    "relevance: true over near": ("relevance", ("true",), ("near",)),
    "relevance: true over later": ("relevance", ("true",), ("later",)),
    "appropriateness: true over opposite": ("appropriateness", ("true",), ("opposite",)),
    "appropriateness: true over near": ("appropriateness", ("true",), ("near",)),
    "grammar: clean over broken": (
        "grammar",
        ("true", "random", "near", "later"),
        ("true broken", "random broken", "near broken", "later broken"),
    ),
    "content: true over nonsense": ("content", ("true",), ("nonsense broken",)),
}
"""Of replies: the metric, kinds that should have more of it, and kinds that should have less."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One score of one row: what it should be, what was expected of the probabilities, and whether the likeliest was right."""

    source: str
    kind: str
    metric: str
    wanted: str
    expected: float | None
    right: bool


def scored(model: Any, chat: ChatTokenizer, file: Path, length: int) -> Iterator[Scored]:
    """Compute every score of a file's rows, each with the scores before it drawn at random."""
    samples = {row.id: row.sample for row in read_rows(file) if row.sample is not None}
    rows, rejected = encode(read_conversations(file), chat, length)
    print(f"{len(rows):,} rows, {len(rejected)} rejected")
    digits = [chat.tokenizer.convert_tokens_to_ids(str(digit)) for digit in range(10)]
    packs = Packs(rows, Rows(length=length, packing="shared"))
    for number in range(len(packs)):
        batch = packs.collate([packs[number]])
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(**shown(batch), use_cache=False, logits_to_keep=batch["places"]).logits[0].float()
        start = 0
        for row in packs[number]:
            sample, positions = samples[row.id], row.learned
            of_row = {int(position): logits[start + at] for at, position in enumerate(positions) if position >= row.answer}
            start += len(positions)
            yield from _of_row(sample, row, of_row, chat, digits)


def _of_row(
    sample: Mapping[str, Any], row: Any, logits: Mapping[int, torch.Tensor], chat: Any, digits: Sequence[int]
) -> Iterator[Scored]:
    answer = sample["messages"][-1]["content"]
    text, place = "", row.answer
    spans = [span for span in sample["learn"] if span.get("shown") is not None]
    targets = dict(zip(row.learned.tolist(), row.targets.tolist(), strict=True))
    for span in spans:
        while len(text) < span["end"] and place < len(row.ids):
            begin = len(text)
            token = targets.get(place, int(row.ids[place]))
            text += chat.tokenizer.decode([token])
            if begin <= span["start"] < len(text) and place in logits:
                first = place
            place += 1
        right = all(int(logits[at].argmax()) == targets[at] for at in range(first, place) if at in logits)
        wanted = answer[span["start"] : span["end"]]
        key = KEY.search(answer[: span["start"]])
        chances = logits[first][digits].softmax(0)
        expected = float(chances @ torch.arange(10.0)) if len(wanted) == 1 and wanted.isdigit() else None
        yield Scored(row.id.split(".")[0], sample["kind"], key[1] if key else "", wanted, expected, right)


def auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Chance that a positive outranks a negative, ties half: the area under the ROC curve."""
    above = np.asarray(positive)[:, None] - np.asarray(negative)[None, :]
    return float((above > 0).mean() + 0.5 * (above == 0).mean())


def report(found: Sequence[Scored]) -> None:
    groups: dict[tuple[str, str], list[Scored]] = defaultdict(list)
    for one in found:
        groups[one.source, one.metric].append(one)
    for (source, metric), members in sorted(groups.items()):
        if len(members) < 20:
            continue
        numbers = [(float(one.wanted), one.expected) for one in members if one.expected is not None]
        wanted, expected = zip(*numbers, strict=True) if numbers else ((), ())
        r = np.corrcoef(wanted, expected)[0, 1] if len(set(wanted)) > 1 else float("nan")
        frequent = max(sum(one.wanted == value for one in members) for value in {one.wanted for one in members})
        right = sum(one.right for one in members)
        shares = f"right {right / len(members):.2f} (most frequent {frequent / len(members):.2f})"
        print(f"{source:10} {metric:26} n {len(members):5}  {shares}  r {r:.2f}")
    replies: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in found:
        if one.source == "replies" and one.expected is not None:
            replies[one.metric, one.kind].append(one.expected)
    for name, (metric, good, bad) in CONTRASTS.items():
        above, below = ([value for kind in kinds for value in replies[metric, kind]] for kinds in (good, bad))
        if above and below:
            print(f"AUC {name}: {auc(above, below):.3f} ({len(above)}, {len(below)})")
    relevance = {kind: round(float(np.mean(values)), 2) for (metric, kind), values in replies.items() if metric == "relevance"}
    print(f"mean relevance: {json.dumps(relevance, sort_keys=True)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--base", default="smollm2-135m")
    parser.add_argument("--adapter", type=Path)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    folder = weights.locate(options.base)
    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.bfloat16, attn_implementation=register())
    if options.adapter:
        model = PeftModel.from_pretrained(model, str(options.adapter)).merge_and_unload()
    report(list(scored(model.eval(), ChatTokenizer.load(folder), options.rows, options.length)))


if __name__ == "__main__":
    main()

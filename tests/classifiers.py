"""Small random classifiers: the tests' model with a classification head in place of its vocabulary's."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from judges.engines.transformers import TransformersEngine
from tests.tiny import TINY

NLI = ("contradiction", "Entailment")
"""Labels of a classifier of groundedness."""


def classifier(folder: Path, labels: Sequence[str] = (), **changed: Any) -> Path:
    """Save a random ``LlamaForSequenceClassification`` in float32; without labels it has one, as a reward model has."""
    import torch
    from transformers import AutoConfig, LlamaForSequenceClassification

    shutil.copytree(TINY, folder, ignore=shutil.ignore_patterns("*.safetensors", "README.md", "generation_config.json"))
    named = {"id2label": dict(enumerate(labels)), "label2id": {label: number for number, label in enumerate(labels)}}
    config = AutoConfig.from_pretrained(TINY, dtype="float32", **(named if labels else {"num_labels": 1}), **changed)
    torch.manual_seed(0)
    model = LlamaForSequenceClassification(config).float()
    with torch.no_grad():
        model.score.weight.mul_(20)  # so that logits differ by more than rounding
    model.save_pretrained(folder)
    return folder


def peer_logits(folder: Path, conversations: Sequence[Sequence[tuple[str, str]]]) -> list[list[float]]:
    """The logits by transformers alone, as the README of Skywork-Reward-V2 asks for them."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    model = AutoModelForSequenceClassification.from_pretrained(str(folder), dtype=torch.float32).eval()
    found = []
    for conversation in conversations:
        turns = [{"role": role, "content": content} for role, content in conversation]
        text = str(tokenizer.apply_chat_template(turns, tokenize=False))
        if tokenizer.bos_token is not None:
            text = text.removeprefix(tokenizer.bos_token)
        with torch.no_grad():
            found.append(model(**tokenizer(text, return_tensors="pt")).logits[0].tolist())
    return found


def opened(folder: Path, **settings: Any) -> TransformersEngine:
    """The classifier on transformers, not started."""
    return TransformersEngine(str(folder), dtype="float32", **settings)

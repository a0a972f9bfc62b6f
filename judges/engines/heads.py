"""Classification heads: which models have one, the names of its labels, and its logits as an answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from judges.decoding import GREEDY, Decoding
from judges.engines.engine import Engine, Generation, Usage
from judges.errors import EngineError, MagistrateError, reason_of
from judges.head_form import HeadForm
from judges.judge import Judge

CLASSIFIER = "ForSequenceClassification"
"""End of the names of architectures with a classification head, in ``config.json``."""

NO_CONSTRAINT = "none"
"""The constraint of a model that writes no text."""


def labels_of(folder: Path) -> tuple[str, ...] | None:
    """Names of the labels of a classifier in a folder, in the order of its logits; ``None`` for a model that writes text.

    Raises:
        EngineError: Its configuration cannot be read.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(f"{folder / 'config.json'} cannot be read: {reason_of(error)}") from error
    if not any(str(name).endswith(CLASSIFIER) for name in config.get("architectures") or ()):
        return None
    named = config.get("id2label") or {}
    count = len(named) or int(config.get("num_labels", 2))
    return tuple(str(named.get(str(number), label_name(number))) for number in range(count))


def label_name(number: int) -> str:
    """The name of a label without a name, as transformers gives it."""
    return f"LABEL_{number}"


def classified(logits: Sequence[float], labels: Sequence[str], prompt_tokens: int, cached: int = 0) -> Generation:
    """The answer of a classification head."""
    answer = json.dumps(dict(zip(labels, map(float, logits), strict=True)), ensure_ascii=False)
    return Generation(answer, True, Usage(prompt_tokens, cached))


def check_head(judge: Judge, engine: Engine, decoding: Decoding = GREEDY) -> None:
    """Check that a judge that reads a classification head has a model with one, and any other judge a model that writes.

    Raises:
        MagistrateError: It has not, or a head is asked for thoughts, expected scores or draws.
    """
    reads = any(form.classifies for form in judge.forms)
    if reads and engine.labels is None:
        raise MagistrateError(
            f"{engine.identity.model} has no classification head, which judge `{judge.name}` reads: give a model whose "
            f"architecture ends in {CLASSIFIER}"
        )
    if not reads and engine.labels is not None:
        raise MagistrateError(
            f"{engine.identity.model} is a classifier and writes no text, which judge `{judge.name}` asks for: "
            "take a judge such as `reward`, or another model"
        )
    if reads and decoding.model_dump(exclude_defaults=True):
        raise MagistrateError(
            f"judge `{judge.name}` reads numbers and no text: leave out `--expected`, `--think` and the temperature"
        )
    for form in judge.forms:
        if isinstance(form, HeadForm):
            form.check(engine.identity.model, engine.labels or ())

"""Turns what a judge should answer about a sample into a row to train on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judges.judge import Judge, Sample

FREE_TEXT = 0.05
"""Weight in the loss of a token of free text. Keys and brackets have none: the schema forces them."""


EARLY = 0.25
"""Weight in the loss of a place in the judged text: without it a small model finds very late whether a text fits its context."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A score, a label or a boolean in an answer: what the training is about, unlike keys, brackets and free text.

    Attributes:
        value: The right one, as JSON has it.
        legal: All that the judge's schema allows.
        weight: Its weight in the loss.
    """

    value: Any
    legal: Sequence[Any]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Example:
    """A sample and what a judge should answer about it.

    Attributes:
        judge: The judge that is asked.
        sample: What it is asked about.
        answers: For each of the judge's prompts the JSON of its answer, in which a ``Choice`` stands for each score;
            ``None`` for a prompt that is not to be learned.
        kind: How the sample was made, in a word; held-out figures are given by it.
        early: A score from 0 to 5 that is learned within the judged text too, if that ends every prompt.
    """

    judge: Judge
    sample: Sample
    answers: tuple[Mapping[str, Any] | None, ...]
    kind: str
    early: tuple[int, str] | None = None


def rows(example: Example, name: str, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Write an example as rows of ``magistrate finetune train``: a prompt, its answer, and where the scores stand in it.

    Args:
        example: What to learn.
        name: Begins the rows' ids.
        rng: Draws the scores that the model reads in place of those it has given before.

    Yields:
        ``id``, ``kind``, ``messages``, and ``learn``: the scores in the answer, and for each a legal one that is shown instead.
    """
    prompts = example.judge.render(example.sample).prompts
    for number, (prompt, answer) in enumerate(zip(prompts, example.answers, strict=True)):
        if answer is None:
            continue
        text = _Text(rng)
        text.add(answer)
        assert prompt.form.read(text.written), text.written
        messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
        yield {
            "id": f"{name}.{number}",
            "kind": example.kind,
            "messages": [*messages, {"role": "assistant", "content": text.written}],
            "learn": text.learn,
            **_early(example, prompt.messages[-1].content),
        }


def _early(example: Example, prompt: str) -> dict[str, Any]:
    if example.early is None or not example.early[1].strip():
        return {}
    score, text = example.early
    assert prompt.endswith(text.strip()), text
    return {"early": {"target": str(score), "characters": len(text.strip()), "weight": EARLY}}


class _Text:
    """Writes JSON on one line, as ``json.dumps`` does, and notes where scores stand."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.written = ""
        self.learn: list[dict[str, Any]] = []

    def add(self, value: Any) -> None:
        if isinstance(value, Choice):
            start = len(self.written)
            self.written += _dumped(value.value)
            shown = _dumped(self.rng.choice(value.legal))
            self.learn.append({"start": start, "end": len(self.written), "weight": value.weight, "shown": shown})
        elif isinstance(value, str) and value:
            start = len(self.written)
            self.written += _dumped(value)
            self.learn.append({"start": start, "end": len(self.written), "weight": FREE_TEXT})
        elif isinstance(value, Mapping):
            self._members("{}", [(f"{_dumped(key)}: ", member) for key, member in value.items()])
        elif isinstance(value, list | tuple):
            self._members("[]", [("", member) for member in value])
        else:
            self.written += _dumped(value)

    def _members(self, brackets: str, members: Sequence[tuple[str, Any]]) -> None:
        self.written += brackets[0]
        for at, (key, member) in enumerate(members):
            self.written += (", " if at else "") + key
            self.add(member)
        self.written += brackets[1]


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

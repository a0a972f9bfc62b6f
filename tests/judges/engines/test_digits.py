"""Expected scores from 0 to 100, on vocabularies that split digits and on one that does not, against brute force."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from judges.data.rows import Row
from judges.decoding import Decoding
from judges.engines.chat import ChatTokenizer
from judges.engines.transformers import TransformersEngine
from judges.engines.vocabulary import spelled
from judges.llm_eval import LLMEval
from judges.runner import Runner, prepare
from judges.verdict import Verdict
from tests.vocabularies import model_of

JUDGE = LLMEval(scale="0-100")
SAMPLE = {"context": "Do you like hiking?", "response": "I love it."}
LEGAL = range(101)


@cache
def model_and_tokenizer(name: str) -> tuple[Any, ChatTokenizer]:
    return AutoModelForCausalLM.from_pretrained(model_of(name)).eval(), ChatTokenizer.load(model_of(name))


def brute_force(name: str, answer: list[int]) -> float:
    """The mean of the legal scores in place of an answer's first: every way to spell each, and every token that may follow."""
    model, chat = model_and_tokenizer(name)
    texts = {text.decode(): ids for text, ids in spelled(chat.tokenizer).items() if text.isascii()}
    digits = {text: ids for text, ids in texts.items() if text.isdigit()}
    ends = [token for text, ids in texts.items() if ', "grammar": '.startswith(text) for token in ids]
    (prompt,) = JUDGE.render(SAMPLE).prompts
    masses = dict.fromkeys(LEGAL, 0.0)
    start = '{"content": '
    before = next(place for place in range(len(answer)) if chat.tokenizer.decode(answer[:place]) == start)

    def follow(number: str, mass: float) -> None:
        ids = chat.encode(prompt.messages, start + number) if number else chat.encode(prompt.messages) + answer[:before]
        with torch.inference_mode():
            logits = model(torch.tensor([ids]), logits_to_keep=1).logits[0, -1].double()
        legal = {text: n for text, n in digits.items() if any(label.startswith(number + text) for label in map(str, LEGAL))}
        tokens = [(number + text, token) for text, n in legal.items() for token in n]
        chances = logits[[*(token for _, token in tokens), *(ends if number else [])]].softmax(-1).tolist()
        for (text, _), chance in zip(tokens, chances, strict=False):
            follow(text, mass * chance)
        if number:
            masses[int(number)] += mass * sum(chances[len(tokens) :])

    follow("", 1.0)
    assert sum(masses.values()) == pytest.approx(1)
    return sum(value * mass for value, mass in masses.items())


class RecordingEngine(TransformersEngine):
    """Keeps the tokens of the first answer, not those of the one token that its start asks for."""

    first: list[int] | None = None

    def _generation(self, job: Any, ids: list[int], *rest: Any) -> Any:
        if job.request.max_tokens > 1:
            self.first = self.first or ids
        return super()._generation(job, ids, *rest)


async def judged(engine: RecordingEngine) -> Verdict:
    async with engine:
        return await Runner(JUDGE, engine, Decoding(expected=True)).judge_one(prepare(Row("a", "line 1", SAMPLE), JUDGE))


@pytest.mark.parametrize("name", ["gemma3", *(pytest.param(name, marks=pytest.mark.stress) for name in ("llama3_1", "qwen3"))])
def test_expected_scores_of_three_digits_are_exact(name: str) -> None:
    engine = RecordingEngine(str(model_of(name)), dtype="float32")
    verdict = asyncio.run(judged(engine))
    assert verdict.notes == []
    assert verdict.expected
    assert all(verdict.expected.values())
    assert verdict.expected["content"]
    assert engine.first
    assert verdict.expected["content"].expectation == pytest.approx(brute_force(name, engine.first), abs=1e-3)

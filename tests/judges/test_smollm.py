"""Every judge on SmolLM2, a model that others made: 135 M parameters in bfloat16, with its own vocabulary and chat template."""

import asyncio
from collections.abc import Iterator

import pytest

from judges.engines.engine import Engine
from judges.engines.vllm.async_engine import AsyncVLLMEngine
from judges.llm_eval import LLMEval
from judges.pairwise import Pairwise
from tests.judges.test_every_judge import CASES, check, hear
from tests.vocabularies import folder_of

pytestmark = pytest.mark.smollm

SCRIPTS = ("Ça va très bien, merci.", "Спасибо, хорошо.", "我很好，谢谢你。", "شكرا، أنا بخير.", "आप कैसे हैं?", "잘 지내요 😀")


@pytest.fixture(scope="module")
def smollm(loop: asyncio.Runner) -> Iterator[Engine]:
    """The one engine of it in a session."""
    engine = AsyncVLLMEngine(str(folder_of("smollm2")), dtype="bfloat16", max_num_seqs=8, max_model_len=4096)
    loop.run(engine.start())
    yield engine
    loop.run(engine.close())


@pytest.mark.parametrize("name", CASES)
def test_every_judge_is_answered(loop: asyncio.Runner, smollm: Engine, name: str) -> None:
    judge, sample = CASES[name]
    (verdict,) = hear(loop, smollm, judge, sample)
    check(verdict, judge)


def test_samples_in_many_scripts_are_scored_with_expectations(loop: asyncio.Runner, smollm: Engine) -> None:
    judge = LLMEval()
    samples = [{"context": ["How are you?"], "response": text} for text in SCRIPTS]
    for verdict in hear(loop, smollm, judge, *samples, expected=True):
        check(verdict, judge)
        assert verdict.expected is not None
        assert all(spread is not None and 0 <= spread.expectation <= 5 for spread in verdict.expected.values()), verdict.notes


def test_a_swapped_pair_is_asked_in_both_orders(loop: asyncio.Runner, smollm: Engine) -> None:
    judge = Pairwise(reasoning=False)
    pair = {"question": "What is the capital of France?", "answer_a": "Paris.", "answer_b": "It is Marseille."}
    swapped = pair | {"answer_a": pair["answer_b"], "answer_b": pair["answer_a"]}
    one, other = hear(loop, smollm, judge, pair, swapped)
    assert one.detail is not None
    assert other.detail is not None
    exchange = {"A": "B", "B": "A"}
    assert one.detail["choices"] == [exchange.get(choice, choice) for choice in reversed(other.detail["choices"])]

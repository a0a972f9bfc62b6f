"""What is trained works: on quantised weights, on what the base cannot do, and in vLLM as in transformers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from bitsandbytes.autograd import _functions as bitsandbytes
from peft import PeftModel
from transformers import AutoModelForCausalLM

from finetune.data.conversations import Conversation
from finetune.training.merging import base_of, merge
from finetune.training.model import load_tokenizer, locate
from finetune.training.recipe import Recipe
from finetune.training.train import Data, Trained, train
from judges.engines.chat import ChatTokenizer
from judges.engines.engine import Request, and_close
from judges.engines.vllm.async_engine import Adapter, AsyncVLLMEngine
from judges.engines.vllm.engine import VLLMEngine
from judges.errors import MagistrateError
from judges.judge import Message
from tests.finetune.training_runs import write_recipe
from tests.tiny import TINY

COLOURS = ["red", "green", "blue", "white", "black", "brown", "grey", "pink"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def conversations(count: int, seed: int) -> list[Conversation]:
    """A colour stands for another: a task that no one can do who was not told."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        colour = chance.choice(COLOURS)
        place = chance.randint(1, 999)
        answer = f"{COLOURS[(COLOURS.index(colour) + 3) % len(COLOURS)]} room"
        found.append(Conversation(str(number), (Message("user", f"House {place} is {colour}."), Message("assistant", answer))))
    return found


def data_of(recipe: Recipe, count: int = 400) -> Data:
    chat = load_tokenizer(recipe, locate(recipe))
    return Data.of(recipe, chat, conversations(count, 0), conversations(24, 1))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    recipe = Recipe.load(write_recipe(folder, steps=120, checkpoints=40, dropout=0))
    found = train(recipe, data_of(recipe), folder / "run", rate=5e-3)
    torch.set_num_threads(threads)
    return found


def answers(model: Any, chat: ChatTokenizer, asked: list[Conversation]) -> list[str]:
    found = []
    for one in asked:
        ids = torch.tensor([chat.encode(one.messages[:-1])])
        with torch.no_grad():
            written = model.generate(input_ids=ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1] :]
        found.append(chat.tokenizer.decode(written, skip_special_tokens=True))
    return found


def plain(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32).eval()


def test_it_learns_what_the_base_cannot_do(trained: Trained) -> None:
    recipe = Recipe.load("tiny", base=TINY)
    base = locate(recipe)
    chat = ChatTokenizer.load(trained.adapter)
    asked = conversations(60, 2)
    wanted = [one.messages[-1].content for one in asked]
    before = answers(plain(base), chat, asked)
    after = answers(PeftModel.from_pretrained(plain(base), str(trained.adapter)).eval(), chat, asked)
    assert sum(map(str.__eq__, before, wanted)) == 0
    assert sum(map(str.__eq__, after, wanted)) >= 57


async def served(engine: VLLMEngine | AsyncVLLMEngine, asked: list[Conversation], ask: Callable[[Request], Any]) -> list[str]:
    async def answered() -> list[str]:
        await engine.identify()
        await engine.start()
        return [(await ask(Request(one.messages[:-1], 12))).text for one in asked]

    return await and_close(answered(), engine)


def test_vllm_answers_as_transformers_does_with_the_merged_model_and_with_the_adapter(trained: Trained, tmp_path: Path) -> None:
    base = locate(Recipe.load("tiny", base=TINY))
    asked = conversations(24, 3)
    model = PeftModel.from_pretrained(plain(base), str(trained.adapter)).eval()
    wanted = answers(model, ChatTokenizer.load(trained.adapter), asked)
    merged = merge(base_of(trained.adapter), trained.adapter, tmp_path / "merged", dtype="float32")
    with pytest.raises(MagistrateError, match="merged exists: give another folder"):
        merge(base, trained.adapter, merged)
    whole = VLLMEngine(str(merged), dtype="float32", max_num_seqs=8)
    assert asyncio.run(served(whole, asked, whole.generate)) == wanted

    options = {"enable_lora": True, "max_loras": 1, "max_lora_rank": 16}
    hosting = AsyncVLLMEngine(str(base), dtype="float32", max_num_seqs=8, options=options)
    adapter = Adapter("colours@1", 1, trained.adapter, "1")
    assert asyncio.run(served(hosting, asked, partial(hosting.answer, adapter=adapter))) == wanted


@pytest.mark.parametrize("gpus", [False, pytest.param(True, marks=pytest.mark.stress)])
def test_it_learns_on_8_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: bool) -> None:
    """In training bitsandbytes multiplies by weights put back into floats on a CPU, and in whole numbers of 8 bits on a GPU."""
    recipe = Recipe.load(write_recipe(tmp_path, steps=8, checkpoints=2, weights="8bit", optimizer="adamw_8bit", dropout=0))
    data = data_of(recipe, 40)
    found = train(recipe, data, tmp_path / "run", rate=3e-3)
    validated = [one["eval_loss"] for one in found.history if "eval_loss" in one]
    assert validated[-1] < 0.8 * validated[0]
    if gpus:
        monkeypatch.setattr(bitsandbytes, "MatMul8bitFp", bitsandbytes.MatMul8bitLt)
        by_gpus = train(recipe, data, tmp_path / "gpus", rate=3e-3)
        assert by_gpus.validation != found.validation, "the other path was taken"
        assert by_gpus.validation == pytest.approx(found.validation, rel=0.1)


@pytest.mark.stress
def test_it_learns_on_nf4(tmp_path: Path) -> None:
    recipe = Recipe.load(write_recipe(tmp_path, steps=16, checkpoints=4, weights="nf4", optimizer="adamw_8bit", dropout=0))
    found = train(recipe, data_of(recipe, 80), tmp_path / "run", rate=3e-3)
    validated = [one["eval_loss"] for one in found.history if "eval_loss" in one]
    assert validated[-1] < 0.7 * validated[0]

"""Reward models: trained on pairs, saved as a model that an engine opens, and resumed."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from evals.data.choice_labels import FIRST, SECOND, TIE
from evals.data.compared_answers import Compared
from finetune.data.pairs import Pair, Pairs, encode_pairs
from finetune.training.model import load_tokenizer, locate
from finetune.training.recipe import Recipe
from finetune.training.reward import train_reward
from judges.data.rows import Row
from judges.errors import MagistrateError
from judges.reward import RewardPairwise
from judges.runner import Runner, prepare
from judges.verdict import Verdict
from tests.classifiers import opened, peer_logits
from tests.tiny import TINY

RECIPE = f"""
title = "A test's"
source = "This test."
base = "{TINY}"
weights = "float32"
compute = "float32"

[lora]
rank = 8
alpha = 16

[rows]
length = 64

[training]
objective = "reward"
learning_rates = [3e-3]
steps = 12
batch = 4
checkpoints = 6
"""
WORDS = ("tea", "rain", "trains", "soup", "maps", "chess", "boats", "bread", "snow", "music", "tents", "birds")


def compared(words: Sequence[str]) -> list[Compared]:
    """Pairs in which people prefer the answer that is no refusal, in either place."""
    found = []
    for number, word in enumerate(words):
        good, bad = f"I know a lot about {word}, gladly.", "No. I will not say."
        first, second = (good, bad) if number % 2 else (bad, good)
        sample = {"question": f"Tell me of {word}.", "answer_a": first, "answer_b": second}
        choices = [FIRST if number % 2 else SECOND]
        found.append(Compared(id=word, sample=sample, choices=choices, item=word))
    return found


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    (tmp_path / "reward.toml").write_text(RECIPE)
    return Recipe.load(tmp_path / "reward.toml")


def encoded(recipe: Recipe, pairs: Sequence[Compared]) -> list[Pair]:
    return encode_pairs(pairs, load_tokenizer(recipe, locate(recipe)), recipe.rows.length)[0]


def test_what_people_prefer_is_learned_and_judged_by(tmp_path: Path, recipe: Recipe, loop: asyncio.Runner) -> None:
    seen, unseen = compared(WORDS[:8]), compared(WORDS[8:])
    pairs, validation = encoded(recipe, seen), encoded(recipe, unseen)
    model, (trained,) = train_reward(recipe, pairs, validation, tmp_path / "run")
    assert trained.validation < 0.5 * math.log(2), "half of what a coin loses"

    async def judged() -> list[Verdict]:
        judge = RewardPairwise()
        async with opened(model) as engine:
            runner = Runner(judge, engine)
            return [verdict async for verdict in runner.run(prepare(Row(one.id, "", one.sample), judge) for one in unseen)]

    people = {one.id: "A" if one.choices == [FIRST] else "B" for one in unseen}
    losses = []
    for verdict in loop.run(judged()):
        assert verdict.scores == {"preference": people[verdict.id]}
        assert verdict.detail is not None
        losses.append(-math.log(verdict.detail["probabilities"][people[verdict.id]]))
    assert sum(losses) / len(losses) == pytest.approx(trained.validation, abs=1e-3), "judged as it was trained"
    one = unseen[0].sample
    ((alone,),) = peer_logits(model, [[("user", one["question"]), ("assistant", one["answer_b"])]])
    assert math.isfinite(alone)

    again = train_reward(recipe, pairs, validation, tmp_path / "run")
    assert again == (model, [trained])
    with pytest.raises(MagistrateError, match="holds a training that differs in pairs, counts"):
        train_reward(recipe, pairs[:4], validation, tmp_path / "run")


def test_pairs_that_cannot_be_learned_from_are_left_out(recipe: Recipe) -> None:
    good, tied, long, broken = compared(WORDS[:4])
    tied = Compared(id="tied", sample=tied.sample, choices=[TIE], item="tied")
    long = Compared(id="long", sample={**long.sample, "answer_a": "very " * 100}, choices=[FIRST], item="long")
    broken = Compared(id="broken", sample={**broken.sample, "answer_a": 3}, choices=[FIRST], item="broken")
    pairs, rejected = encode_pairs([good, tied, long, broken], load_tokenizer(recipe, locate(recipe)), recipe.rows.length)
    assert [pair.id for pair in pairs] == [good.id]
    reasons = {row.id: row.reason for row in rejected}
    assert reasons["tied"] == "people prefer neither answer"
    assert reasons["long"].endswith("tokens, and the recipe's length is 64")
    assert reasons["broken"] == "field `answer_a` must be a string or a list of turns, not a number"


def test_padding_stands_in_front() -> None:
    batch = Pairs([]).collate([Pair("x", [5, 6, 7], [8])])
    assert torch.equal(batch["input_ids"], torch.tensor([[5, 6, 7], [0, 0, 8]]))
    assert torch.equal(batch["attention_mask"], torch.tensor([[1, 1, 1], [0, 0, 1]]))


def test_a_recipe_without_the_objective_is_as_it_was() -> None:
    assert "objective" not in json.dumps(Recipe.load("tiny").as_fields())
    assert Recipe.load("reward").as_fields()["training"]["objective"] == "reward"

"""Recipes: those that come along, and what is wrong with one of a user's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoConfig

from finetune.training import memory
from finetune.training.model import load_tokenizer, locate
from finetune.training.recipe import Recipe, recipe_names, usual_variant
from finetune.training.trainer import uses_liger
from judges.errors import MagistrateError
from tests.finetune.training_runs import write_recipe
from tests.tiny import TINY


def test_the_seeds_figures_stand_in_the_recipes() -> None:
    assert recipe_names() == ["grouse", "judge-135m", "qualeval", "reward", "small", "tiny"]
    grouse = Recipe.load("grouse")
    assert (grouse.weights, grouse.lora.rank, grouse.lora.alpha, grouse.lora.dropout) == ("8bit", 32, 16, 0.05)
    assert (grouse.lora.targets, grouse.rows.length, grouse.rows.packing) == ("all-linear", 7104, True)
    training = grouse.training
    assert (training.batch, training.epochs, training.optimizer, training.schedule) == (64, 3, "adamw_8bit", "cosine")
    assert (training.learning_rates, training.warmup_steps, training.gradient_checkpointing) == ((2e-4,), 10, True)
    assert Recipe.load("grouse", "sweep").training.learning_rates == (2e-3, 2e-4, 2e-5)
    qualeval = Recipe.load("qualeval")
    assert qualeval.training.learning_rates == (2e-5, 5e-5, 1e-4, 2e-4, 1e-3)
    assert (qualeval.training.steps, qualeval.training.schedule, qualeval.weights) == (400, "constant", "8bit")


def test_a_variant_takes_the_place_of_what_it_says_and_no_more() -> None:
    plain, variant = Recipe.load("grouse"), Recipe.load("grouse", "nf4", base="my/model")
    assert (variant.name, variant.weights, variant.base) == ("grouse-nf4", "nf4", "my/model")
    assert (plain.training.at_once, variant.training.at_once) == (2, 1), "which fits 24 GB"
    same = {name: getattr(plain, name) for name in ("name", "weights", "base", "training")}
    assert variant.model_copy(update=same) == plain
    assert variant.training.model_copy(update={"at_once": 2}) == plain.training


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("rank = 16", "rank = 0", "lora.rank: must be above 0, not 0"),
        ("rank = 16", "rnak = 16", "lora.rnak: is unknown; it may have rank,"),
        ("steps = 12", "steps = 12\nepochs = 1", "training: give either `steps` or `epochs`"),
        ('schedule = "linear"', 'schedule = "constant"\nwarmup_steps = 3', "a constant schedule has no `warmup_steps`"),
        ('weights = "float32"', 'weights = "bfloat16"', 'weights of bfloat16 need compute = "bfloat16"'),
        ("[rows]", "[rows", "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_recipe_is_one_sentence(tmp_path: Path, old: str, new: str, told: str) -> None:
    path = write_recipe(tmp_path)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(MagistrateError) as raised:
        Recipe.load(path)
    assert told in str(raised.value)
    assert str(path) in str(raised.value)


def test_recipes_and_variants_that_there_are_not() -> None:
    with pytest.raises(MagistrateError, match=f"there is no recipe `alpaca`: give one of {', '.join(recipe_names())}, or a"):
        Recipe.load("alpaca")
    with pytest.raises(MagistrateError, match="has no variant `fp4`: give one of sweep, 8bit, bf16, nf4"):
        Recipe.load("grouse", "fp4")


def test_a_base_without_template_and_padding_gets_the_recipes(tmp_path: Path) -> None:
    base = tmp_path / "base"
    shutil.copytree(locate(Recipe.load("tiny", base=TINY)), base)
    (base / "chat_template.jinja").unlink()
    settings = json.loads((base / "tokenizer_config.json").read_text())
    settings.pop("pad_token", None)
    settings.pop("chat_template", None)
    (base / "tokenizer_config.json").write_text(json.dumps(settings))
    recipe = Recipe.load("tiny", base=str(base))
    bare = load_tokenizer(recipe, base).tokenizer
    assert bare.chat_template is None
    assert bare.pad_token == bare.eos_token
    given = recipe.model_copy(update={"chat_template": "llama-3", "pad_token": "<|end_of_text|>"})
    tokenizer = load_tokenizer(given, base).tokenizer
    assert tokenizer.pad_token == "<|end_of_text|>"
    assert "<|start_header_id|>" in tokenizer.chat_template
    with pytest.raises(MagistrateError, match="no padding token and does not know `<pad-of-no-one>`"):
        load_tokenizer(recipe.model_copy(update={"pad_token": "<pad-of-no-one>"}), base)


def test_memory_is_told_and_what_will_not_fit_is_refused() -> None:
    recipe = Recipe.load("tiny", base=TINY)
    need = memory.need(recipe, locate(recipe), 1000, torch.device("cuda"))
    parameters = 2_624_000
    assert need.weights == pytest.approx(4 * parameters, rel=0.02)
    with pytest.raises(MagistrateError, match=r"needs about .* a toaster has 10 MiB free: choose a variant of the recipe"):
        memory.check(need, 10 << 20, "a toaster")
    memory.check(need, 64 << 30, "this machine")


def test_a_large_gpu_trains_unquantised(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's answers about the device are replaced, to reach what depends on them."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert [usual_variant(name) for name in recipe_names()] == [None] * len(recipe_names())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for gigabytes, variant in ((24, None), (42.5, "bf16"), (85, "bf16")):
        card = SimpleNamespace(total_memory=int(gigabytes * 10**9))
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _, card=card: card)
        assert [usual_variant(name) for name in ("grouse", "qualeval", "tiny")] == [variant, variant, None]
    assert Recipe.load("grouse", "bf16").weights == "bfloat16"
    assert {Recipe.load(name, "8bit").weights for name in ("grouse", "qualeval")} == {"8bit"}


def test_ligers_kernels_are_for_a_gpu_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for installed in (False, True):
        monkeypatch.setattr("finetune.training.trainer.is_liger_kernel_available", lambda there=installed: there)
        assert [uses_liger(torch.device(kind)) for kind in ("cpu", "cuda")] == [False, installed]


def test_on_a_gpu_each_layer_keeps_the_mask_of_shared_beginnings() -> None:
    recipe, gpu = Recipe.load("judge-135m", base=TINY), torch.device("cuda")
    shared, apart = (
        memory.need(recipe.model_copy(update={"rows": recipe.rows.model_copy(update={"packing": how})}), Path(TINY), 1000, gpu)
        for how in ("shared", True)
    )
    layers = AutoConfig.from_pretrained(TINY).num_hidden_layers
    assert shared.activations - apart.activations == layers * 2 * 3072**2

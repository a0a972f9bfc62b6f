"""A training from end to end: it learns, it survives, and it says what is wrong."""

from __future__ import annotations

import copy
import json
import os
import random
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from finetune.data.conversations import read_conversations
from finetune.training import checkpoints
from finetune.training.model import add_adapter, load_base, load_tokenizer, locate
from finetune.training.recipe import Recipe
from finetune.training.train import Data, train
from judges.engines import weights
from judges.errors import MagistrateError
from tests.finetune.training_runs import ENVIRONMENT, adapter_digest, command, run, write_recipe, write_rows
from tests.stopping import KILL, WAYS, Way
from tests.tiny import TINY

RATE = "rate-0.002"


def logged(output: Path, what: str) -> list[float]:
    history = json.loads((output / RATE / "trained.json").read_text())["history"]
    return [one[what] for one in history if what in one]


def losses(output: Path) -> list[float]:
    return logged(output, "loss")


def validations(output: Path) -> list[float]:
    return logged(output, "eval_loss")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training on rows that share their beginnings, which nothing interrupted, beside its rows."""
    folder = tmp_path_factory.mktemp("whole")
    write_recipe(folder, packing='"shared"')
    done = run(folder, folder / "run")
    assert done.returncode == 0, done.stderr
    assert "chosen" in done.stdout
    return folder


def test_a_training_leaves_an_adapter_and_how_it_was_made(whole: Path) -> None:
    output = whole / "run"
    trained = json.loads((output / RATE / "trained.json").read_text())
    validated = {one["step"]: one["eval_loss"] for one in trained["history"] if "eval_loss" in one}
    assert list(validated) == [3, 6, 9, 12]
    assert validated[trained["step"]] == trained["validation"] == min(validated.values())
    assert validated[12] < 0.8 * validated[3], "it learns"
    making = json.loads((output / RATE / "making.json").read_text())
    assert making["seed"] == 0
    assert making["threads"] == 1
    assert making["counts"] == {"rows": 120, "validation": 20, "rejected": 0}
    assert {file.name for file in (output / "adapter").iterdir()} >= {
        *("adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "chat_template.jinja", "README.md")
    }
    assert json.loads((output / "adapter" / "adapter_config.json").read_text())["base_model_name_or_path"] == TINY
    card = (output / "adapter" / "README.md").read_text()
    assert f"| 0.002 | {trained['step']} | {trained['validation']:.4f} | this one |" in card
    assert f"120, digest `{making['rows']}`" in card
    assert list((output / RATE / "runs").rglob("events*")), "TensorBoard can show it"
    assert [one["chosen"] for one in json.loads((output / "sweep.json").read_text())] == [True]


def test_what_is_done_is_not_done_again(whole: Path) -> None:
    before = (whole / "run" / RATE / "trained.json").stat().st_mtime_ns
    done = run(whole, whole / "run")
    assert done.returncode == 0
    assert (whole / "run" / RATE / "trained.json").stat().st_mtime_ns == before
    other = run(whole, whole / "run", "--seed", "1")
    assert other.returncode == 1
    assert "holds a training that differs in seed; give another folder" in other.stderr


@pytest.mark.parametrize(
    "ways", [[KILL, WAYS[3]], pytest.param([*WAYS, KILL] * 3, marks=pytest.mark.stress)], ids=["twice", "all ways"]
)
def test_a_stopped_training_goes_on_bit_for_bit(whole: Path, tmp_path: Path, ways: list[Way]) -> None:
    moments = random.Random(len(ways))
    output = tmp_path / "run"
    for way in ways:
        there = len(checkpoints.all_in(output / RATE)) and max(map(checkpoints.step_of, checkpoints.all_in(output / RATE)))
        process = subprocess.Popen(
            command(whole, output), env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        end = time.monotonic() + 300
        # Until it writes the next checkpoint, or some moment about then.
        while time.monotonic() < end and process.poll() is None:
            if any(checkpoints.step_of(one) > there for one in checkpoints.all_in(output / RATE)):
                break
            time.sleep(0.002)
        time.sleep(moments.choice([0, 0.01, 0.05, 0.3]))
        if process.poll() is None:
            way.stop(process)
    done = run(whole, output)
    assert done.returncode == 0, done.stderr
    assert adapter_digest(output) == adapter_digest(whole / "run")
    assert losses(output) == losses(whole / "run")


def test_a_training_starts_from_an_adapter(whole: Path, tmp_path: Path) -> None:
    further = tmp_path / "further"
    done = run(whole, further, "--start-from", str(whole / "run" / "adapter"), "--seed", "1")
    assert done.returncode == 0, done.stderr
    assert losses(further)[0] < 0.8 * losses(whole / "run")[0], "it begins where the first one ended"
    assert validations(further)[0] < validations(whole / "run")[0]
    making = json.loads((further / RATE / "making.json").read_text())
    assert making["recipe"]["start_from"] == str(whole / "run" / "adapter")
    assert making["start_from"] == weights.digest(whole / "run" / "adapter")
    assert json.loads((whole / "run" / RATE / "making.json").read_text())["start_from"] is None


def test_a_training_starts_from_no_adapter_of_another_shape(whole: Path, tmp_path: Path) -> None:
    adapter = whole / "run" / "adapter"
    (tmp_path / "empty").mkdir()
    broken = shutil.copytree(adapter, tmp_path / "broken")
    (broken / "adapter_model.safetensors").write_bytes(b"no weights")
    smaller = shutil.copytree(adapter, tmp_path / "smaller")
    kept = load_file(adapter / "adapter_model.safetensors")
    save_file(dict(list(kept.items())[:4]), smaller / "adapter_model.safetensors")
    config = json.loads((adapter / "adapter_config.json").read_text())
    for name, content in (
        ("list", []),
        ("scaled", config | {"use_rslora": True}),
        ("other", config | {"base_model_name_or_path": "meta-llama/Llama-3.1-8B"}),
    ):
        (shutil.copytree(adapter, tmp_path / name) / "adapter_config.json").write_text(json.dumps(content))
    base = load_base(Recipe.load(whole / "small.toml"), Path(TINY), torch.device("cpu"))
    for start, rank, why in (
        (tmp_path / "list", None, "its adapter_config.json is no object; give the folder of an adapter"),
        (tmp_path / "scaled", None, "its `use_rslora` is set, and the recipe's adapters have none"),
        (tmp_path / "other", None, "it is an adapter of meta-llama/Llama-3.1-8B, and the recipe's base is"),
        (tmp_path / "empty", None, "No such file or directory; give the folder of an adapter"),
        (broken, None, "give the folder of an adapter"),
        (smaller, None, "its layers are not those that the recipe adapts"),
        (adapter, 2, r"its rank and alpha are 16 and 32.0, the recipe's 2 and"),
    ):
        recipe = Recipe.load(whole / "small.toml", start_from=str(start))
        if rank is not None:
            recipe = recipe.model_copy(update={"lora": recipe.lora.model_copy(update={"rank": rank})})
        with pytest.raises(MagistrateError, match=f"no training can start from {re.escape(str(start))}: .*{why}"):
            add_adapter(copy.deepcopy(base), recipe, 0)


def test_a_start_that_is_none_leaves_the_folder_to_another_training(tmp_path: Path) -> None:
    recipe, data = small(tmp_path)
    with pytest.raises(MagistrateError, match="no training can start from"):
        train(recipe.model_copy(update={"start_from": str(tmp_path / "none")}), data, tmp_path / "run")
    assert not (tmp_path / "run" / "making.json").exists()


def test_a_warm_up_longer_than_the_training_leaves_steps_to_learn_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recipe, data = small(tmp_path, steps=4, checkpoints=2)
    short = recipe.training.model_copy(update={"warmup_steps": 15, "schedule": "constant_with_warmup"})
    with caplog.at_level("WARNING", "magistrate.finetune"):
        found = train(recipe.model_copy(update={"training": short}), data, tmp_path / "run")
    assert [one["learning_rate"] for one in found.history if "learning_rate" in one] == [0.0, 2e-3, 2e-3, 2e-3]
    assert "the recipe warms up for longer than these 4 steps last; cut to 1" in caplog.text


def test_two_processes_give_what_one_gives(tmp_path: Path) -> None:
    write_recipe(tmp_path, steps=6, checkpoints=3, dropout=0)
    assert run(tmp_path, tmp_path / "one").returncode == 0
    python, *rest = command(tmp_path, tmp_path / "two")
    launcher = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *rest]
    done = subprocess.run(launcher, env=ENVIRONMENT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads((tmp_path / "two" / RATE / "making.json").read_text())["processes"] == 2
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), rel=1e-5)
    assert validations(tmp_path / "two") == pytest.approx(validations(tmp_path / "one"), rel=1e-5)
    assert done.stdout.count("chosen") == 1, "one of them speaks"


def small(folder: Path, **changed: Any) -> tuple[Recipe, Data]:
    """The recipe and the rows of ``folder``, for a training in this process."""
    recipe = Recipe.load(write_recipe(folder, **changed))
    command(folder, folder / "run")
    chat = load_tokenizer(recipe, locate(recipe))
    found = (list(read_conversations(folder / name)) for name in ("rows.jsonl", "validation.jsonl"))
    return recipe, Data.of(recipe, chat, *found)


def test_a_loss_that_is_no_number_ends_it_and_names_the_rows(tmp_path: Path) -> None:
    recipe, data = small(tmp_path)
    with pytest.raises(MagistrateError, match=r"the loss is not finite at step \d+, on rows .*: check these rows, or .* lower"):
        train(recipe, data, tmp_path / "run", rate=1e30)


def test_a_checkpoint_that_was_spoilt_is_not_gone_on_from(tmp_path: Path) -> None:
    recipe, data = small(tmp_path, steps=6)
    output = tmp_path / "run"
    train(recipe, data, output)
    first = adapter_digest(output)
    last = output / "checkpoint-6"
    assert checkpoints.fault(last) is None
    (output / "trained.json").unlink()
    optimizer = last / "optimizer.pt"
    content = bytearray(optimizer.read_bytes())
    content[len(content) // 2] ^= 1
    optimizer.write_bytes(content)
    assert checkpoints.fault(last) == "has a changed optimizer.pt"
    train(recipe, data, output)
    assert adapter_digest(output) == first
    (last / "rng_state.pth").unlink()
    assert checkpoints.fault(last) == "lacks rng_state.pth"
    (last / checkpoints.COMPLETE).unlink()
    assert checkpoints.fault(last) == "is incomplete"
    assert checkpoints.latest(output) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_keeps_the_last_whole_checkpoint(tmp_path: Path) -> None:
    recipe, data = small(tmp_path, steps=9)
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=3500k", "none", str(disk)]
    if subprocess.run(mounted, check=False, capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        with pytest.raises(MagistrateError, match=r"checkpoint-\d cannot be written: .*; .* resumes from .*checkpoint-3"):
            train(recipe, data, disk / "run")
        last = checkpoints.latest(disk / "run")
        assert last is not None
        assert last.name == "checkpoint-3"
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        train(recipe, data, disk / "run")
        train(recipe, data, tmp_path / "run")
        assert adapter_digest(disk / "run") == adapter_digest(tmp_path / "run")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_rows_that_are_left_out_are_named(tmp_path: Path) -> None:
    write_recipe(tmp_path, steps=1, checkpoints=1)
    rows = write_rows(tmp_path, 8)
    write_rows(tmp_path, 4, "validation.jsonl")  # the first four of these
    bad = [{"prompt": "a", "completion": " "}, {"prompt": "word " * 900, "completion": "b"}]
    rows.write_text(rows.read_text() + "".join(json.dumps(row) + "\n" for row in bad))
    done = run(tmp_path, tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "left out 9: the answer is empty" in done.stderr
    assert "left out 10: it has " in done.stderr
    assert "4 rows to validate on: trained on too" in " ".join(done.stderr.split())
    rows.write_text(json.dumps(bad[0]) + "\n")
    with pytest.raises(MagistrateError, match="no row to train on: 1 were given, and all rejected; the first, 1: the answer is"):
        small(tmp_path)


def test_what_is_done_is_said_before_it_takes_long(tmp_path: Path) -> None:
    write_recipe(tmp_path, steps=2, checkpoints=1)
    done = run(tmp_path, tmp_path / "out")
    said = r"120 rows to train on, 20 to validate on, at \d learning rates?; now loading \S+"
    assert re.search(said, done.stdout + done.stderr), done

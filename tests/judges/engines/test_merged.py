import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from judges.calibration import FILE, read_calibration
from judges.catalog import EMBEDDED
from judges.engines import merged, weights, wheels
from judges.engines.chat import ChatTokenizer
from judges.engines.kept import derived_digest
from judges.errors import EngineError
from judges.judge import Message
from tests.tiny import TINY

ADAPTER = weights.EMBEDDED / EMBEDDED
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter of the tests' model with random weights that change what it says, in bfloat16."""
    folder = tmp_path_factory.mktemp("adapter")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    adapted = get_peft_model(model, LoraConfig(r=8, lora_alpha=32, target_modules=LINEAR, task_type="CAUSAL_LM"))
    for name, value in adapted.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(value, std=0.03)
    adapted.to(torch.bfloat16).save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def logits(model: torch.nn.Module) -> torch.Tensor:
    ids = ChatTokenizer.load(Path(TINY)).encode([Message("user", "Is tea better than coffee?")])
    with torch.no_grad():
        found: torch.Tensor = model.eval()(input_ids=torch.tensor([ids])).logits[0].float()
    return found


@pytest.mark.usefixtures("one_thread")
def test_a_merged_model_computes_what_its_base_does_beside_the_adapter(adapter: Path, tmp_path: Path) -> None:
    whole = tmp_path / "merged"
    whole.mkdir()
    merged.merge(Path(TINY) / "model.safetensors", adapter, whole / "model.safetensors")
    (whole / "config.json").write_text((Path(TINY) / "config.json").read_text())
    base = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    alone = logits(base)
    exact = PeftModel.from_pretrained(base, str(adapter)).merge_and_unload()
    for name, weight in load_file(whole / "model.safetensors").items():
        assert torch.equal(weight, exact.get_parameter(name).to(torch.bfloat16)), "peft's sum, rounded once"
    beside, ours = logits(exact), logits(AutoModelForCausalLM.from_pretrained(str(whole), dtype=torch.float32))
    assert (beside - alone).abs().max() > 20 * (beside - ours).abs().max(), "what rounding takes is little of what was added"


def test_an_adapter_of_another_model_is_refused(adapter: Path, tmp_path: Path) -> None:
    save_file({"model.norm.weight": torch.ones(4)}, tmp_path / "other.safetensors")
    with pytest.raises(EngineError, match=r"does not fit its base, which has no model\.layers\.0\."):
        merged.merge(tmp_path / "other.safetensors", adapter, tmp_path / "out.safetensors")


def test_the_embedded_judge_is_a_plain_adapter() -> None:
    """``merge`` computes W + alpha / r B A and nothing else."""
    config = json.loads((ADAPTER / merged.CONFIG).read_text())
    assert (config["peft_type"], config["r"], config["bias"]) == ("LORA", 16, "none")
    others = ("use_dora", "use_rslora", "fan_in_fan_out", "lora_bias", "modules_to_save", "rank_pattern", "alpha_pattern")
    assert not any(config.get(name) for name in others)
    assert merged.base_name(ADAPTER) in wheels.WHEELS
    assert {value.dtype for value in load_file(ADAPTER / merged.WEIGHTS).values()} == {torch.bfloat16}


def test_it_is_merged_once_with_its_bases_tokenizer(embedded: Path) -> None:
    base = weights.locate(merged.base_name(ADAPTER))
    assert weights.locate(EMBEDDED) == embedded
    assert {path.name for path in embedded.iterdir()} == {path.name for path in base.iterdir()} | {FILE}
    assert read_calibration(embedded) == read_calibration(ADAPTER) is not None
    for name in ("tokenizer.json", "chat_template.jinja", "config.json"):
        assert (embedded / name).read_bytes() == (base / name).read_bytes()
    assert weights.digest(embedded) == derived_digest(embedded) != weights.digest(base)


def test_the_digest_follows_the_base_and_the_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    other = tmp_path / "adapter"
    other.mkdir()
    for name in (merged.CONFIG, merged.WEIGHTS, FILE):
        (other / name).write_bytes((ADAPTER / name).read_bytes())
    assert merged.folder_of("one", other) == merged.folder_of("one", ADAPTER), "where it stands says nothing"
    assert merged.folder_of("two", other) != merged.folder_of("one", other)
    (other / merged.CONFIG).write_text((ADAPTER / merged.CONFIG).read_text().replace('"lora_alpha": 32', '"lora_alpha": 16'))
    assert merged.folder_of("one", other) != merged.folder_of("one", ADAPTER)
    shutil.copyfile(ADAPTER / merged.CONFIG, other / merged.CONFIG)
    (other / FILE).unlink()
    assert merged.folder_of("one", other) != merged.folder_of("one", ADAPTER), "its verdicts are calibrated otherwise"


def test_two_processes_at_once_merge_one_model(embedded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = weights.locate(merged.base_name(ADAPTER))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    here = tmp_path / "magistrate"
    shutil.copytree(base, here / "gguf" / base.name, copy_function=os.link)
    locating = f"from judges.engines.weights import locate; print(locate({EMBEDDED!r}))"
    started = [subprocess.Popen([sys.executable, "-c", locating], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = {process.communicate()[0].strip() for process in started}
    assert [process.returncode for process in started] == [0, 0]
    (folder,) = map(Path, said)
    assert folder == here / "merged" / embedded.name
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name, f"{folder.name}.lock"]
    assert (folder / "model.safetensors").read_bytes() == (embedded / "model.safetensors").read_bytes()


def test_without_its_base_it_says_how_to_fetch_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said = f"smollm2-135m, the base of {EMBEDDED}, is not on this machine: run `magistrate models fetch {EMBEDDED}`"
    with pytest.raises(EngineError, match=said):
        weights.locate(EMBEDDED)

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judges.errors import MagistrateError
from server.hosting.models_file import PRESETS, read_models
from tests.tiny import TINY


def write(tmp_path: Path, text: str) -> str:
    file = tmp_path / "models.toml"
    file.write_text(text)
    return str(file)


def test_every_preset_can_be_read() -> None:
    for preset in PRESETS:
        hosted = read_models(preset)
        assert hosted.first in hosted.models
    assert read_models("24gb").models["llama-3-grouse"].quantization == "fp8"
    assert sum(spec.gpu_memory or 0 for spec in read_models("80gb").models.values()) <= 0.95


def test_a_model_becomes_arguments_of_vllm(tmp_path: Path) -> None:
    hosted = read_models(
        write(
            tmp_path,
            f"""
            swap = true
            default = "b"
            [models.a]
            model = "{TINY}"
            [models.b]
            model = "{TINY}"
            dtype = "float32"
            memory = 0.4
            max_num_seqs = 8
            max_model_len = 1024
            adapters = 3
            max_lora_rank = 16
            """,
        )
    )
    assert (hosted.first, hosted.swap) == ("b", True)
    engine = hosted.models["b"].open()
    arguments = engine.hosted.arguments(on_cpu=False)  # type: ignore[attr-defined]
    assert arguments["gpu_memory_utilization"] == 0.4
    assert (arguments["enable_lora"], arguments["max_loras"], arguments["max_lora_rank"]) == (True, 3, 16)
    assert (arguments["max_model_len"], arguments["max_num_seqs"], arguments["dtype"]) == (1024, 8, "float32")
    assert engine.concurrency == 16


def test_a_model_in_4_bits_is_quantised_by_vllm_as_it_loads(tmp_path: Path) -> None:
    spec = read_models(write(tmp_path, f'[models.a]\nmodel = "{TINY}"\nquantization = "4bit"\n')).models["a"]
    engine = spec.open()
    arguments = engine.hosted.arguments(on_cpu=False)  # type: ignore[attr-defined]
    assert (arguments["quantization"], arguments["model"]) == ("bitsandbytes", TINY)
    assert "hf_overrides" not in arguments, "they would have vLLM look for weights that are quantised already"
    assert engine.identity.options["quantization"] == "4bit"


def test_a_model_in_8_bits_is_loaded_from_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spec = read_models(write(tmp_path, f'[models.a]\nmodel = "{TINY}"\nquantization = "8bit"\n')).models["a"]
    engine = spec.open()
    assert not (tmp_path / "magistrate" / "quantized").exists(), "nothing is made before the engine starts"
    arguments = engine.hosted.arguments(on_cpu=False)  # type: ignore[attr-defined]
    copy = Path(arguments["model"])
    assert arguments["quantization"] == "bitsandbytes"
    assert copy.parent == tmp_path / "magistrate" / "quantized"
    assert json.loads((copy / "config.json").read_text())["quantization_config"]["load_in_8bit"] is True
    assert engine.identity.model == TINY


def test_transformers_takes_a_quantisation_too(tmp_path: Path) -> None:
    text = f'[models.a]\nmodel = "{TINY}"\nengine = "transformers"\nquantization = "8bit"\n'
    engine = read_models(write(tmp_path, text)).models["a"].open()
    assert (engine.identity.engine, engine.identity.options["quantization"]) == ("transformers", "8bit")


def test_an_answer_schema_may_stand_in_a_file(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"score": {"enum": [1, 2]}}, "required": ["score"]}
    (tmp_path / "answer.json").write_text(json.dumps(schema))
    hosted = read_models(write(tmp_path, f'[models.a]\nmodel = "{TINY}"\nanswer_schema = "answer.json"\n'))
    assert hosted.models["a"].schema_of_answers == schema


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "models"),
        ("[models]", "models"),
        ('[models.a]\nmodel = ""', "models.a.model"),
        ('[models.a]\nmodel = "x"\nmemory = 2', "models.a.memory"),
        ('[models.a]\nmodel = "x"\nquantisation = "8bit"', "models.a.quantisation"),
        ('[models.a]\nmodel = "x"\nengine = "endpoint"', "base_url"),
        ('[models.a]\nmodel = "x"\nengine = "transformers"\nadapters = 2', "adapters"),
        ('[models.a]\nmodel = "x"\nengine = "transformers"\nmax_completion_tokens = 2', "max_completion_tokens has no meaning"),
        ('[models.a]\nmodel = "x"\nmax_completion_tokens = 0', "models.a.max_completion_tokens"),
        (
            '[models.a]\nmodel = "x"\nengine = "endpoint"\nbase_url = "http://x"\nquantization = "8bit"',
            "quantization has no",
        ),
        ('[models."../a b"]\nmodel = "x"', "models"),
        ('default = "b"\n[models.a]\nmodel = "x"', "there is no model `b`"),
        ('[models.a]\nmodel = "x"\nanswer_schema = "none.json"', "none.json cannot be read"),
        ("[models.a", "not TOML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(MagistrateError, match=said) as caught:
        read_models(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MagistrateError, match="cpu, 24gb, 80gb"):
        read_models(str(tmp_path / "none.toml"))

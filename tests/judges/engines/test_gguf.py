"""GGUF files, written by the library that llama.cpp's converter uses, and converted for real."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import load_file

from judges.data.rows import Row
from judges.decoding import Decoding
from judges.engines import gguf, open_engine, weights
from judges.engines.chat import ChatTokenizer
from judges.engines.engine import Engine
from judges.engines.gguf_conversion import convert
from judges.engines.vocabulary import SAMPLES
from judges.errors import EngineError
from judges.llm_eval import LLMEval
from judges.runner import Runner, prepare
from tests import gguf_files
from tests.gguf_files import sha256, tiny_gguf, tiny_tokens
from tests.tiny import TINY

DIALOGUES = Path(__file__).parents[3] / "magistrate" / "sample" / "dialogues.jsonl"
CONVERT = "import sys; from pathlib import Path; from judges.engines.gguf import converted; converted(Path(sys.argv[1]))"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="module")
def folder(cache: Path, file: Path) -> Path:
    with ThreadPoolExecutor(2) as pool:
        (folder,) = set(pool.map(weights.locate, [str(file)] * 2))
    return folder


def test_a_file_is_converted_once_and_kept_by_its_digest(folder: Path, cache: Path, file: Path) -> None:
    assert folder == cache / f"{sha256(file)[:32]}-{gguf.CONVERSION}"
    assert sorted(path.name for path in cache.iterdir()) == [folder.name, f"{folder.name}.lock"]
    assert {path.suffix for path in folder.iterdir()} == {".json", ".jinja", ".safetensors"}
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert gguf.converted(file) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


def test_its_weights_and_configuration_are_the_models_own(folder: Path) -> None:
    theirs, ours = load_file(folder / "model.safetensors"), load_file(Path(TINY) / "model.safetensors")
    assert theirs.keys() == ours.keys()
    assert all(torch.equal(weight, ours[name]) for name, weight in theirs.items())
    read, written = (json.loads((place / "config.json").read_text()) for place in (folder, Path(TINY)))
    same = written.keys() - {"transformers_version", "rms_norm_eps"}
    assert {name: read[name] for name in same} == {name: written[name] for name in same}
    assert read["rms_norm_eps"] == pytest.approx(written["rms_norm_eps"])


def test_its_tokenizer_is_the_models_own(folder: Path) -> None:
    ours, theirs = (ChatTokenizer.load(place).tokenizer for place in (Path(TINY), folder))
    for text in (*SAMPLES, "a  12\n\n3.  1234567", *ours.all_special_tokens):
        assert theirs(text, add_special_tokens=False)["input_ids"] == ours(text, add_special_tokens=False)["input_ids"], text
    assert theirs.get_vocab() == ours.get_vocab()
    assert theirs.chat_template == ours.chat_template
    for role in ("bos_token_id", "eos_token_id", "pad_token_id"):
        assert getattr(theirs, role) == getattr(ours, role)


def test_it_judges_as_the_model_itself_does(folder: Path, file: Path, loop: asyncio.Runner, transformers_engine: Engine) -> None:
    engine = open_engine("transformers", str(file), dtype="float32")
    assert engine.identity.model == str(file)
    loop.run(engine.start())
    try:
        assert judge(loop, engine) == judge(loop, transformers_engine)
    finally:
        loop.run(engine.close())


def judge(loop: asyncio.Runner, engine: Engine) -> dict[str, Any]:
    rows = [Row(str(number), "", json.loads(line)) for number, line in enumerate(DIALOGUES.read_text().splitlines()[:4])]
    judge = LLMEval()

    async def run() -> dict[str, Any]:
        runner = Runner(judge, engine, Decoding())
        return {verdict.id: verdict.scores async for verdict in runner.run(prepare(row, judge) for row in rows)}

    return loop.run(run())


def test_its_digest_follows_from_the_file_alone(
    folder: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = weights.digest(folder)
    config = folder / "config.json"
    text = config.read_text()
    config.write_text(text.replace('"transformers_version": "', '"transformers_version": "9'))
    try:
        assert weights.digest(folder) == before
    finally:
        config.write_text(text)
    other = gguf.folder_of(sha256(tiny_gguf(tmp_path / "other.gguf", Type.Q8_0)))
    other.mkdir()
    assert weights.digest(other) not in (before, weights.digest(Path(TINY)))
    other.rmdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    elsewhere = gguf.folder_of(sha256(file))
    elsewhere.mkdir(parents=True)
    assert weights.digest(elsewhere) == before, "another machine's copy is the same model"


@pytest.mark.parametrize("moment", ["source", "config.json", "model.safetensors"])
def test_a_conversion_killed_at_any_moment_is_done_again(
    moment: str, file: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = tmp_path / "magistrate" / "gguf"
    with subprocess.Popen([sys.executable, "-c", CONVERT, str(file)]) as process:
        while not list(kept.glob(f"*.part/{moment}")):
            assert process.poll() is None
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
    assert not (kept / folder.name).exists()
    monkeypatch.setattr(gguf, "convert", lambda file, scratch: (scratch / "config.json").write_text("{}"))
    assert gguf.converted(file) == kept / folder.name
    time.sleep(0.1)
    assert sorted(path.name for path in kept.iterdir()) == [folder.name, f"{folder.name}.lock"]


@pytest.mark.parametrize("kind", [Type.F32, Type.F16, Type.Q8_0, Type.Q4_0])
def test_other_kinds_of_weights_open_too(kind: Type, tmp_path: Path) -> None:
    convert(tiny_gguf(tmp_path / "a.gguf", kind), empty(tmp_path))
    theirs, ours = load_file(tmp_path / "out" / "model.safetensors"), load_file(Path(TINY) / "model.safetensors")
    far = max(
        float((weight.float() - ours[name].float()).abs().max() / ours[name].abs().max()) for name, weight in theirs.items()
    )
    assert far < {"F32": 1e-9, "F16": 1e-3, "Q8_0": 0.01, "Q4_0": 0.15}[kind.name]


def test_frequencies_stretched_as_llama_3_does_are_found(tmp_path: Path) -> None:
    turns = 8192 / (2 * np.pi * 500000.0 ** (np.arange(16) / 16))
    kept = np.clip((turns - 1) / 3, 0, 1)
    factors = (1 / ((1 - kept) / 32 + kept)).astype(np.float32)
    convert(tiny_gguf(tmp_path / "a.gguf", extra={"rope_freqs.weight": (factors, None)}), empty(tmp_path))
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["rope_parameters"]["rope_type"] == "llama3"
    assert config["rope_parameters"]["factor"] == 32.0
    assert config["rope_parameters"]["rope_theta"] == 500000.0


def test_digits_stand_alone_where_the_file_says_so(tmp_path: Path) -> None:
    convert(tiny_gguf(tmp_path / "a.gguf", tokenizer__ggml__pre="smollm"), empty(tmp_path))
    tokenizer = ChatTokenizer.load(tmp_path / "out").tokenizer
    assert [token for token in tokenizer.tokenize("in 1997, or  12") if token.strip("Ġ").isdigit()] == list("199712")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architecture": "mellum"}, r"architecture `mellum`.*give the model's own folder"),
        ({"without": "tokenizer"}, "holds no tokenizer"),
        ({"without": "blk.2.ffn_up"}, r"lacks 1 weights of its architecture, such as model\.layers\.2\.mlp\.up_proj"),
        (
            {"extra": {"blk.0.attn_q.bias": (np.zeros(128, np.float32), None)}},
            r"holds 2,\d+,\d+ numbers, of which transformers takes",
        ),
        ({"extra": {"blk.0.other": (np.zeros((2, 32), np.int8), None)}}, "holds weights as I8, which gguf .* cannot read"),
        ({"extra": {"rope_freqs.weight": (np.full(16, 3, np.float32), None)}}, "other rules than Llama 3.1's"),
        ({"llama__rope__scaling__type": "yarn"}, "stretches its rotary frequencies"),
        ({"without": "tokenizer.ggml.eos"}, "names no token that ends a text"),
        ({"split__count": 3}, "is one of 3 parts; join them"),
        ({"tokenizer__ggml__pre": "chameleon"}, "splits text by rules `chameleon`"),
        ({"without": "tokenizer.ggml.token_type"}, "does not say of each token whether it is special"),
        ({"without": "llama.context_length"}, "does not say how long its context is"),
        ({"without": "llama.attention.layer_norm"}, "does not name the epsilon of its norms"),
        ({"llama__block_count": 300_000}, "says that it has 300000 layers and holds 3"),
        ({"llama__rope__freq_base": 0.0}, "has rotary frequencies of base 0"),
        ({"llama__embedding_length": 64}, "has an embedding of 4,096 by 256 and says 4,096 by 64"),
        ({"tokenizer__chat_template": "Go!"}, "has a chat template that leaves out what the user says"),
        ({"tokenizer__ggml__model": "bert"}, "holds a tokenizer that transformers cannot convert"),
        (
            {"tokenizer__ggml__tokens": tiny_tokens(eot_id="<｜end▁of▁turn｜>")},
            "transformers loses or adds, such as .*end▁of▁turn",
        ),
    ],
)
def test_a_kind_that_is_not_converted_faithfully_is_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=said) as caught:
        convert(tiny_gguf(tmp_path / "a.gguf", **changes), empty(tmp_path))
    assert "\n" not in str(caught.value)


def test_weights_that_are_not_numbers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights_of = gguf_files._weights

    def broken() -> dict[str, Any]:
        changed = {name: weight.copy() for name, weight in weights_of().items()}
        changed["blk.1.attn_norm.weight"][3] = np.nan
        return changed

    monkeypatch.setattr(gguf_files, "_weights", broken)
    with pytest.raises(EngineError, match="holds or computes values that are not numbers"):
        convert(tiny_gguf(tmp_path / "a.gguf"), empty(tmp_path))


def test_a_file_that_changes_while_it_is_converted_is_not_kept(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    copy = Path(shutil.copy(file, tmp_path / "a.gguf"))
    times = copy.stat().st_atime_ns, copy.stat().st_mtime_ns

    def replace_with_its_like(path: Path, folder: Path) -> None:
        shutil.copy(file, tmp_path / "b.gguf")
        os.utime(tmp_path / "b.gguf", ns=times)
        (tmp_path / "b.gguf").rename(path)

    monkeypatch.setattr(gguf, "convert", replace_with_its_like)
    with pytest.raises(EngineError, match=r"a\.gguf changed while it was read"):
        gguf.converted(copy)
    assert [path.suffix for path in (tmp_path / "cache" / "magistrate" / "gguf").iterdir()] == [".lock"]


@pytest.mark.parametrize("share", [0.00001, 0.001, 0.02, 0.5, 0.999])
def test_a_file_that_is_cut_off_is_refused(share: float, file: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    with pytest.raises(EngineError, match="is damaged or cut off"):
        convert(cut, empty(tmp_path))


def empty(folder: Path) -> Path:
    (folder / "out").mkdir()
    return folder / "out"


def test_what_is_no_gguf_file_is_said(tmp_path: Path) -> None:
    other = tmp_path / "a.gguf"
    other.write_text("no weights")
    with pytest.raises(EngineError, match=r"a\.gguf is not a GGUF file"):
        weights.locate(str(other))
    for missing in ("no.gguf", "folder/no.gguf", str(tmp_path / "no.gguf")):
        with pytest.raises(EngineError, match="there is no model at"):
            weights.locate(missing)
    with pytest.raises(EngineError, match=r"holds no config\.json; give its file .*a\.gguf"):
        weights.locate(str(tmp_path))


def test_the_process_that_converts_says_why(cache: Path, tmp_path: Path) -> None:
    split = tiny_gguf(tmp_path / "split.gguf", split__count=2)
    with pytest.raises(EngineError, match=r"split\.gguf is one of 2 parts") as caught:
        weights.locate(str(split))
    assert "\n" not in str(caught.value)
    assert not list(cache.glob("*.part"))


def test_a_full_disk_is_said_and_leaves_nothing(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_file_above_a_mebibyte: None
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(EngineError, match=r"cannot be written to .*; make room there, or set XDG_CACHE_HOME") as caught:
        gguf.converted(file)
    assert "\n" not in str(caught.value)
    assert [path.suffix for path in (tmp_path / "magistrate" / "gguf").iterdir()] == [".lock"]


def test_the_package_that_is_missing_is_named(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf, "find_spec", lambda name: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(EngineError, match=r"needs the package gguf: `pip install 'magistrate\[models\]'`"):
        gguf.converted(file)

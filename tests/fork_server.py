"""Processes that start at once: forks of one that has imported vLLM, which takes a new process longer than most commands run."""

from __future__ import annotations

import atexit
import ctypes
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from judges.engines.vllm.settings import prepare_environment

PRELOADED = (
    "vllm.entrypoints.openai.api_server",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.llm_engine",
    "judges.engines.vllm.async_engine",
    "judges.engines.vllm.plugin",
    "magistrate.cli.main",
    "magistrate.cli.serving",
)

PARENT_DEATH_SIGNAL = 1
"""Linux's number of that setting of a process."""

MESSAGE = 1 << 20
"""Bytes of a request: arguments and an environment."""


class ForkServer:
    """The process that has imported everything, with a channel over which it takes requests."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE)
            command = [sys.executable, "-m", __name__, str(theirs.fileno())]
            folder = Path(__file__).parents[1]
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], cwd=folder, stdin=subprocess.DEVNULL, start_new_session=True
            )
        atexit.register(self.close)

    def close(self) -> None:
        self._channel.close()
        self._process.wait()

    def fork(self, request: Mapping[str, Any], files: Sequence[int]) -> int:
        """Have a process forked. Returns a pipe that gives its id, and then its status."""
        reading, writing = os.pipe()
        socket.send_fds(self._channel, [json.dumps(request).encode()], [*files, writing])
        os.close(writing)
        return reading


@cache
def fork_server() -> ForkServer:
    """The one of this process, started when it is first needed."""
    return ForkServer()


class ForkedProcess(subprocess.Popen[Any]):
    """``python -m MODULE ARGUMENTS`` as a fork of the fork server, otherwise as any other process.

    Args:
        arguments: The module's name and its arguments.
        ignored: Signals that it ignores from the start; the other stop signals do what they do by default.
        options: What else ``Popen`` takes.
    """

    def __init__(self, arguments: Sequence[str], *, ignored: Sequence[signal.Signals] = (), **options: Any) -> None:
        self._ignored = [int(number) for number in ignored]
        self._own_session = bool(options.get("start_new_session"))
        super().__init__(arguments, **options)

    def _execute_child(self, *given: Any) -> None:
        arguments, _, _, _, _, folder, environment = given[:7]
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = given[10:16]
        request = {
            "arguments": [str(argument) for argument in arguments],
            "folder": str(folder or Path.cwd()),
            "environment": dict(os.environ if environment is None else environment),
            "own_session": self._own_session,
            "ignored": self._ignored,
        }
        files = [number if number >= 0 else own for own, number in enumerate((p2cread, c2pwrite, errwrite))]
        self._status = fork_server().fork(request, files)
        self.pid = self._next_number()
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]

    def _next_number(self) -> int:
        number = os.read(self._status, 4)
        return int(struct.unpack("i", number)[0]) if number else signal.SIGKILL  # whoever waited for it was killed, and so was it

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        status = self._next_number()
        os.close(self._status)
        return self.pid, status

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                process, status = self._try_wait(os.WNOHANG)
                if process == self.pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode


def run(arguments: Sequence[str], *, timeout: float = 300, **options: Any) -> subprocess.CompletedProcess[str]:
    """What ``subprocess.run`` gives of a process, from a fork."""
    pipe = subprocess.PIPE
    with ForkedProcess(arguments, stdout=pipe, stderr=pipe, text=True, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


def preload() -> None:
    """Import what commands import, in the environment in which they do."""
    prepare_environment()
    for name in PRELOADED:
        importlib.import_module(name)
    # Otherwise the first engines each have it found out by a process that imports vLLM anew.
    registry: Any = importlib.import_module("vllm.model_executor.models.registry")
    registry._run_in_subprocess = lambda work: work()
    registry.ModelRegistry.models["LlamaForCausalLM"].inspect_model_cls()


def serve(channel: socket.socket) -> None:
    """Fork a process a request; returns in each, ready to be the command that was asked for."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, files, _, _ = socket.recv_fds(channel, MESSAGE, 4)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            channel.close()
            break
        for file in files:
            os.close(file)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    end_with_parent(signal.SIGKILL)
    request, status = json.loads(message), files.pop()
    process = os.fork()
    if process:  # who waits for it, since a process can wait for its own children only
        os.setsid()
        for file in files:
            os.close(file)
        os.write(status, struct.pack("i", process))
        os.write(status, struct.pack("i", os.waitpid(process, 0)[1]))
        os._exit(0)
    os.close(status)
    end_with_parent(signal.SIGTERM)
    become(request, files)


def end_with_parent(number: signal.Signals) -> None:
    """Have this process sent a signal once its parent has ended: tests that are interrupted leave nothing behind."""
    ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, number)


def become(request: Mapping[str, Any], files: Sequence[int]) -> None:
    """Take on the files, session, signals, folder, environment and arguments of a new process."""
    if request["own_session"]:
        os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN if number in request["ignored"] else signal.SIG_DFL)
    if signal.SIGINT not in request["ignored"]:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for own, file in enumerate(files):
        os.dup2(file, own)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]


if __name__ == "__main__":
    preload()
    serve(socket.socket(fileno=int(sys.argv[1])))
    sys.path[0] = str(Path.cwd())
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

"""``magistrate doctor``: is this machine fit to judge, and if not, what to do."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec

from rich.console import Console
from rich.markup import escape

from judges import catalog
from judges.engines import open_engine
from judges.engines.vllm_settings import installed_version
from judges.errors import MagistrateError
from judges.llm_eval import LLMEval
from magistrate import judge
from magistrate.quiet import own_console, quiet

GIB = 1 << 30
PYTHON = (3, 11)
SUPPORTED_VLLM = ((0, 25), (0, 33))


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found. ``fit`` is ``None`` where it is neither good nor bad."""

    subject: str
    fit: bool | None
    text: str
    advice: str = ""


def examine(console: Console) -> bool:
    """Check the machine and print what is found. True where nothing stands in the way of judging here."""
    healthy = True
    for finding in _findings():
        mark = {True: "[green]ok[/green]  ", False: "[red]bad[/red] ", None: "    "}[finding.fit]
        console.print(f"{mark} [bold]{finding.subject}[/bold]  {escape(finding.text)}", highlight=False)
        if finding.advice:
            console.print(f"       -> {escape(finding.advice)}", highlight=False)
        healthy = healthy and finding.fit is not False
    return healthy


def _findings() -> Iterator[Finding]:
    yield _python()
    yield _torch()
    yield _vllm()
    yield from _memory()
    yield _judgement()


def _python() -> Finding:
    fit = sys.version_info >= PYTHON
    wanted = ".".join(map(str, PYTHON))
    return Finding("Python", fit, platform.python_version(), "" if fit else f"Magistrate needs Python {wanted} or newer")


def _torch() -> Finding:
    if find_spec("torch") is None:
        return Finding("PyTorch", False, "not installed", "`make setup` installs it")
    import torch

    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else f"CPU, {os.cpu_count()} cores"
    advice = "" if torch.cuda.is_available() else "no GPU is seen: fit for magistrate-tiny and tests, slow for real judges"
    return Finding("PyTorch", True, f"{torch.__version__} on {device}", advice)


def _vllm() -> Finding:
    version = installed_version()
    if version is None:
        return Finding("vLLM", False, "not installed", "`make setup` installs it; `--engine transformers` works without")
    parts = tuple(int(part) for part in version.split(".")[:2])
    low, high = SUPPORTED_VLLM
    supported = f"{low[0]}.{low[1]} to {high[0]}.{high[1]}"
    if not low <= parts <= high:
        return Finding("vLLM", None, version, f"Magistrate is made for vLLM {supported}; other versions may or may not work")
    for name in ("torchvision", "torchaudio", "torchcodec"):
        if find_spec(name) is not None and "+cpu" in metadata.version("torch"):
            return Finding("vLLM", False, version, f"{name} cannot load beside CPU PyTorch: `pip uninstall {name}`")
    return Finding("vLLM", True, f"{version} (made for {supported})")


def _memory() -> Iterator[Finding]:
    if find_spec("torch") is None:
        return
    import torch

    if not torch.cuda.is_available():
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
        yield Finding("memory", free > 3, f"{free:.0f} of {total:.0f} GiB free", "" if free > 3 else "close other programs")
        for name, entry in catalog.MODELS.items():
            need = "fits" if entry.embedded else f"needs a GPU with about {entry.gpu_gib:.0f} GiB, or `--engine endpoint`"
            yield Finding(name, None, need)
        return
    free, total = (amount / GIB for amount in torch.cuda.mem_get_info())
    yield Finding("GPU memory", None, f"{free:.0f} of {total:.0f} GiB free")
    for name, entry in catalog.MODELS.items():
        if entry.embedded:
            continue
        fits = entry.gpu_gib <= free
        text = f"{'fits' if fits else 'does not fit'}: needs about {entry.gpu_gib:.0f} GiB"
        advice = "" if fits else "free GPU memory (`nvidia-smi` shows who holds it), or ask a server with `--engine endpoint`"
        yield Finding(name, None, text, advice)


def _judgement() -> Finding:
    sample = {"context": ["Would you like tea or coffee?"], "response": "Tea, please, with a little milk."}
    engine = "vllm" if installed_version() else "transformers"
    console = own_console()
    began = time.perf_counter()
    try:
        with console.status("judging one sample"), quiet():
            verdict = judge([sample], LLMEval(), open_engine(engine, "magistrate-tiny"))[0]
    except MagistrateError as error:
        return Finding("judgement", False, str(error), "`magistrate score --debug` on a file of one row shows more")
    if verdict.scores is None:
        return Finding("judgement", False, verdict.reason or "unscored")
    scores = ", ".join(f"{metric} {score}" for metric, score in verdict.scores.items())
    return Finding("judgement", True, f"{scores} ({engine}, {time.perf_counter() - began:.0f} s from nothing)")

"""``magistrate doctor``: checks whether this machine can judge, and says what to do if not."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from judges import catalog
from judges.engines.vllm.settings import installed_version
from judges.errors import MagistrateError
from judges.extras import INSTALL_VLLM
from magistrate import judge
from magistrate.cli.models import advice_to_fetch
from magistrate.cli.terminal import own_console, quiet

GIB = 1 << 30
PYTHON = (3, 11)
SUPPORTED_VLLM = ((0, 31), (0, 32))
"""The first and the last version of vLLM that Magistrate is made for; ``pyproject.toml`` and ``docs/engines.md`` say the same."""

DRIVERS = {13: 580, 12: 525}
"""Major version of CUDA to the first NVIDIA driver for Linux that runs it (CUDA's release notes)."""

DRIVER_FILE = Path("/proc/driver/nvidia/version")
MEMORY_FILE = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. ``fit`` is ``None`` if it is neither good nor bad."""

    subject: str
    fit: bool | None
    text: str
    advice: str = ""


def examine(console: Console) -> bool:
    """Check the machine and print the findings. Returns whether it can judge."""
    healthy = True
    for subject, check in CHECKS.items():
        with own_console().status(f"looking at {subject}"):
            findings = list(check())
        for finding in findings:
            mark = {True: "[green]ok[/green]  ", False: "[red]bad[/red] ", None: "    "}[finding.fit]
            console.print(f"{mark} [bold]{finding.subject}[/bold]  {escape(finding.text)}", highlight=False)
            if finding.advice:
                console.print(f"       -> {escape(finding.advice)}", highlight=False)
            healthy = healthy and finding.fit is not False
    return healthy


def _python() -> Iterator[Finding]:
    fit = sys.version_info >= PYTHON
    wanted = ".".join(map(str, PYTHON))
    yield Finding("Python", fit, platform.python_version(), "" if fit else f"Magistrate needs Python {wanted} or newer")


def _torch() -> Iterator[Finding]:
    if find_spec("torch") is None:
        yield Finding("PyTorch", False, "not installed", INSTALL_VLLM)
        return
    import torch

    if not torch.cuda.is_available() and (fault := driver_fault(torch.version.cuda, driver_version())):
        yield Finding("PyTorch", False, torch.__version__, fault)
        return
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else f"CPU, {os.cpu_count()} cores"
    advice = (
        "" if torch.cuda.is_available() else f"no GPU found: fit for small models and tests, slow for real judges{_slow_format()}"
    )
    yield Finding("PyTorch", True, f"{torch.__version__} on {device}", advice)


def driver_version(file: Path = DRIVER_FILE) -> int | None:
    """The major version of NVIDIA's driver on Linux; ``None`` without one."""
    try:
        found = re.search(r"Kernel Module.*?\s(\d+)\.\d+", file.read_text())
    except OSError:
        return None
    return int(found[1]) if found else None


def driver_fault(cuda: str | None, driver: int | None) -> str | None:
    """Say what to do if the driver is too old for the CUDA that PyTorch was built with; ``None`` if all is well."""
    needed = DRIVERS.get(int(cuda.partition(".")[0])) if cuda else None
    if needed is None or driver is None or driver >= needed:
        return None
    return (
        f"driver {driver} is too old for CUDA {cuda}, so no GPU is used: install NVIDIA's driver {needed} or newer, or builds of "
        "PyTorch and vLLM for an older CUDA"
    )


def _slow_format() -> str:
    """A clause for CPUs that emulate bfloat16, in which most checkpoints are; empty for others."""
    try:
        facts = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return ""
    if facts & {"avx512_bf16", "amx_bf16", "bf16"}:
        return ""
    return "; this CPU has no bfloat16 arithmetic, so `--dtype float32` is faster"


def _vllm() -> Iterator[Finding]:
    version = installed_version()
    if version is None:
        yield Finding("vLLM", False, "not installed", f"{INSTALL_VLLM}; `--engine transformers` works without")
        return
    parts = tuple(int(part) for part in version.split(".")[:2])
    low, high = SUPPORTED_VLLM
    supported = f"{low[0]}.{low[1]} to {high[0]}.{high[1]}"
    if not low <= parts <= high:
        yield Finding("vLLM", None, version, f"Magistrate is made for vLLM {supported}; other versions may or may not work")
        return
    for name in ("torchvision", "torchaudio", "torchcodec"):
        if find_spec(name) is not None and "+cpu" in metadata.version("torch"):
            yield Finding("vLLM", False, version, f"{name} cannot load beside CPU PyTorch: `pip uninstall {name}`")
            return
    yield Finding("vLLM", True, f"{version} (made for {supported})")


def available_memory(file: Path = MEMORY_FILE) -> int:
    """The memory that programs can have, in bytes. On Linux that in which files are cached counts, since it is given up."""
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", file.read_text(), re.MULTILINE)
    except OSError:
        found = None
    return int(found[1]) * 1024 if found else os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _memory() -> Iterator[Finding]:
    if find_spec("torch") is None:
        return
    import torch

    if not torch.cuda.is_available():
        free = available_memory() / GIB
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
        yield Finding("memory", free > 3, f"{free:.0f} of {total:.0f} GiB free", "" if free > 3 else "close other programs")
        for name, entry in catalog.MODELS.items():
            need = "fits" if entry.small else f"needs a GPU with about {entry.gpu_gib:.0f} GiB, or `--engine endpoint`"
            yield Finding(name, None, need, advice_to_fetch(name))
        return
    free, total = (amount / GIB for amount in torch.cuda.mem_get_info())
    yield Finding("GPU memory", None, f"{free:.0f} of {total:.0f} GiB free")
    for name, entry in catalog.MODELS.items():
        if entry.embedded:
            continue
        fits = entry.gpu_gib <= free
        text = f"{'fits' if fits else 'does not fit'}: needs about {entry.gpu_gib:.0f} GiB"
        advice = (
            advice_to_fetch(name)
            if fits
            else "free GPU memory (`nvidia-smi` shows who holds it), or ask a server with `--engine endpoint`"
        )
        yield Finding(name, None, text, advice)


def _judgement() -> Iterator[Finding]:
    sample = {"context": ["Would you like tea or coffee?"], "response": "Tea, please, with a little milk."}
    engine = "vllm" if installed_version() else "transformers"
    if advice := advice_to_fetch(catalog.EMBEDDED):
        yield Finding("judgement", None, f"not tried: {catalog.EMBEDDED} is not on this machine yet", advice)
        return
    began = time.perf_counter()
    try:
        with quiet():
            verdict = judge([sample], "llm-eval", engine)[0]
    except MagistrateError as error:
        yield Finding("judgement", False, str(error), "`magistrate score --debug` on a file of one row shows more")
        return
    if verdict.scores is None:
        yield Finding("judgement", False, verdict.reason or "unscored")
        return
    scores = ", ".join(f"{metric} {score}" for metric, score in verdict.scores.items())
    yield Finding("judgement", True, f"{scores} ({engine}, {time.perf_counter() - began:.0f} s from nothing)")


CHECKS: Mapping[str, Callable[[], Iterator[Finding]]] = {
    "Python": _python,
    "PyTorch": _torch,
    "vLLM": _vllm,
    "the memory": _memory,
    "the judgement of one sample": _judgement,
}
"""What is looked at, in this order."""

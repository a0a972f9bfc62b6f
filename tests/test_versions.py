"""Versions that the guides name are those that the tests run with."""

from __future__ import annotations

import re
from pathlib import Path

from magistrate.cli.doctor import SUPPORTED_VLLM, available_memory, driver_fault, driver_version

ROOT = Path(__file__).parents[1]


def test_the_guides_name_one_version_of_openais_client() -> None:
    pinned = re.search(r"^openai==(\S+)", (ROOT / "requirements" / "cpu.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    told = [
        version
        for guide in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
        for version in re.findall(r"OpenAI's client[^\n\d]*?(\d+\.\d[\d.]*\d)", guide.read_text())
    ]
    assert len(told) >= 2
    assert set(told) == {pinned[1]}


def test_the_range_of_vllm_is_the_same_wherever_it_stands() -> None:
    low, high = ("{}.{}".format(*version) for version in SUPPORTED_VLLM)
    after = f"{SUPPORTED_VLLM[1][0]}.{SUPPORTED_VLLM[1][1] + 1}"
    assert re.findall(r'"vllm(?:-cpu)?([^"]*)"', (ROOT / "pyproject.toml").read_text())[:2] == [f">={low},<{after}"] * 2
    assert f"made for vLLM {low} to {high}" in (ROOT / "docs" / "engines.md").read_text()
    image = re.search(r"vllm-openai:v(\d+\.\d+)", (ROOT / "Dockerfile.gpu").read_text())
    assert image is not None
    assert low <= image[1] <= high


def test_the_doctor_knows_a_driver_that_is_too_old(tmp_path: Path) -> None:
    file = tmp_path / "version"
    assert driver_version(file) is None
    for line, major in (
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Wed Feb 26 02:15:53 UTC 2025\n", 570),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder)\n", 580),
    ):
        file.write_text(line + "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n")
        assert driver_version(file) == major
    assert "driver 570 is too old for CUDA 13.0" in (driver_fault("13.0", 570) or "")
    assert [driver_fault(*known) for known in (("13.0", 580), ("12.9", 570), ("13.0", None), (None, 570))] == [None] * 4


def test_memory_in_which_files_are_cached_is_available(tmp_path: Path) -> None:
    facts = tmp_path / "meminfo"
    facts.write_text("MemTotal:       24689756 kB\nMemFree:          204800 kB\nMemAvailable:   12345678 kB\n")
    assert available_memory(facts) == 12_345_678 * 1024
    assert available_memory(tmp_path / "none") > 0

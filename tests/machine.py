"""What the tests need of a machine beside Python, and what is not tested where it is missing."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")


def postgres_binaries() -> Path | None:
    """The folder of PostgreSQL's own programs, the newest where there are several."""
    in_path = shutil.which("initdb")
    if in_path:
        return Path(in_path).resolve().parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def has_browser() -> bool:
    """Whether Chromium and its driver are here."""
    return CHROMIUM.exists() and DRIVER.exists()


PACKAGES: dict[str, Callable[[], bool]] = {
    "postgresql": lambda: postgres_binaries() is not None,
    "chromium chromium-driver": has_browser,
    "bubblewrap": lambda: shutil.which("bwrap") is not None,
    "procps": lambda: shutil.which("ps") is not None,
    "npm": lambda: shutil.which("npm") is not None,
    "curl": lambda: shutil.which("curl") is not None,
}
"""Packages of Debian to whether the machine has what they bring."""


def pytest_report_header() -> str:
    """Say first what this machine lacks."""
    packages = [package for package, is_here in PACKAGES.items() if not is_here()]
    if not packages:
        return "this machine has all that the tests need"
    return f"tests will be skipped: on Debian, `apt install {' '.join(packages)}` brings what they need"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say last what was not tested and why, the most frequent reason first."""
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:5} not tested: {reason}")


def _reason(report: pytest.TestReport) -> str:
    where = report.longrepr
    return str(where[-1] if isinstance(where, tuple) else where).removeprefix("Skipped: ")

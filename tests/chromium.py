"""A real browser without a window."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from selenium import webdriver

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --window-size=1280,1000"
)


def new_browser(profile: Path, *, script: bool = True, requests: bool = False) -> webdriver.Chrome:
    """Start one.

    Args:
        profile: A folder of its own.
        script: Whether pages may run scripts.
        requests: Whether to note what pages ask for.
    """
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"} | ({"performance": "ALL"} if requests else {}))
    if not script:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))


def need_chromium() -> None:
    """Skip a test where there is no browser; continuous integration must have one."""
    if not (Path(CHROMIUM).exists() and Path(DRIVER).exists()):
        if os.environ.get("CI"):
            pytest.fail("Chromium is not on this machine; continuous integration must have it")
        pytest.skip("Chromium is not on this machine; install `chromium` and `chromium-driver` to run this test")

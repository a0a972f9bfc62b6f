"""A real browser without a window."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from selenium import webdriver

from tests.machine import CHROMIUM, DRIVER, has_browser

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --window-size=1280,1000"
)

CONTRASTS = """
const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
const behind = (element) => {
  for (; element; element = element.parentElement) {
    const colour = parts(getComputedStyle(element).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
};
return [...document.querySelectorAll("body *")]
  .filter((element) => element.checkVisibility())
  .filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
  .map((element) => {
    const style = getComputedStyle(element);
    const own = parts(element instanceof SVGElement ? style.fill : style.color);
    const [one, other] = [own, behind(element)].map(light).sort((a, b) => b - a);
    return [(one + 0.05) / (other + 0.05), element.outerHTML.slice(0, 200)];
  });
"""
"""JavaScript: the contrast of each text that is seen with what is behind it, and the text's element."""


def new_browser(profile: Path, *, script: bool = True, requests: bool = False) -> webdriver.Chrome:
    """Start one.

    Args:
        profile: A folder of its own.
        script: Whether pages may run scripts.
        requests: Whether to note what pages ask for.
    """
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"} | ({"performance": "ALL"} if requests else {}))
    if not script:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))


def need_chromium() -> None:
    """Skip a test where there is no browser; continuous integration must have one."""
    if not has_browser():
        if os.environ.get("CI"):
            pytest.fail("Chromium is not on this machine; continuous integration must have it")
        pytest.skip("Chromium is not on this machine; install `chromium` and `chromium-driver` to run this test")

"""A real browser that reads a page from its file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.chromium import new_browser

DRAWING_SECONDS = 30


@dataclass
class Reader:
    """Someone who reads pages."""

    browser: Any

    @classmethod
    def start(cls, profile: Path) -> Reader:
        return cls(new_browser(profile, requests=True))

    def open(self, page: Path | str, *, drawn: bool = True) -> None:
        """Open a page, a file or an address, and wait until it is loaded and its charts are drawn."""
        self.browser.get("about:blank")
        _ = self.complaints, self.requests
        self.browser.get(page if isinstance(page, str) else page.as_uri())
        # A page opened with scripts disabled may still be loading when `get` returns.
        self.wait(lambda: self.run("return document.URL !== 'about:blank' && document.readyState === 'complete'"))
        if drawn:
            self.wait(lambda: self.drawings > 0)

    def wait(self, until: Callable[[], bool]) -> None:
        end = time.monotonic() + DRAWING_SECONDS
        while not until():
            assert time.monotonic() < end, "the page did not come to what was awaited"
            time.sleep(0.02)

    @property
    def drawings(self) -> int:
        return int(self.run("return document.body?.dataset.drawn ?? 0"))

    def redraw(self, act: Callable[[], Any]) -> None:
        """Do something upon which the charts are drawn again."""
        before = self.drawings
        act()
        self.wait(lambda: self.drawings > before)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def tell(self, command: str, **options: Any) -> Any:
        """A command of the developer tools."""
        return self.browser.execute_cdp_cmd(command, options)

    def find(self, selector: str) -> WebElement:
        found: WebElement = self.browser.find_element(By.CSS_SELECTOR, selector)
        return found

    def every(self, selector: str) -> list[WebElement]:
        found: list[WebElement] = self.browser.find_elements(By.CSS_SELECTOR, selector)
        return found

    def shown(self, selector: str) -> list[str]:
        """The texts of what is shown, as the page has them, whether they are scrolled into sight or not."""
        shown = "[...document.querySelectorAll(arguments[0])].filter((one) => one.checkVisibility())"
        script = f"return {shown}.map((one) => one.innerText)"
        found: list[str] = self.run(script, selector)
        return found

    def marks(self, chart: str, mark: str, shape: str = "path") -> int:
        """How many marks of a kind a chart has."""
        return int(self.run(f"return document.querySelectorAll('[data-chart={chart}] .mark-{mark}.role-mark {shape}').length"))

    def choose(self, name: str, value: str) -> None:
        """Click a filter."""
        self.redraw(lambda: self.run(f"document.querySelector('[name={name}][value=\"{value}\"]').click()"))

    @property
    def complaints(self) -> list[str]:
        """What the browser found wrong: blocked scripts and styles, faults and warnings of scripts."""
        return [entry["message"] for entry in self.browser.get_log("browser")]

    @property
    def requests(self) -> list[str]:
        """What was asked for since this was last looked at."""
        events = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

"""Reports, their pages, and a browser that reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evals.arena.rating import Options
from evals.arena.report import page
from evals.arena.study import report
from tests.chromium import need_chromium
from tests.evals.arena import examples
from tests.evals.arena.reading import READ, Figures
from tests.evals.browser import Reader


@pytest.fixture(scope="package")
def reports() -> dict[str, Figures]:
    made = {name: report(battles, Options(rounds=10)) for name, battles in examples.BARE.items()}
    many = report(examples.many(), Options(rounds=10))
    return {"usual": examples.usual_report(), "hostile": examples.hostile_report(), "many": many, **made}


@pytest.fixture(scope="package")
def pages(reports: dict[str, Figures], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {}
    for name, found in reports.items():
        made[name] = folder / f"{name}.html"
        made[name].write_text(page(found, READ[name]() if name in READ else None), encoding="utf-8")
    return made


@pytest.fixture(scope="package")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A browser for the whole package."""
    need_chromium()
    reader = Reader.start(tmp_path_factory.mktemp("profile"))
    yield reader
    reader.browser.quit()

"""A study's page as a real server publishes it, in a real browser."""

from __future__ import annotations

import shutil
from pathlib import Path

from evals.dashboard import write
from tests.chromium import need_chromium
from tests.evals.dashboard.browser import Reader
from tests.evals.dashboard.examples import dialogsum
from tests.server.running import RunningServer


def test_a_published_study_draws_its_charts_and_can_call_nobody(magistrate_server: RunningServer, tmp_path: Path) -> None:
    need_chromium()
    folder = magistrate_server.dashboards / "dialogsum"
    folder.mkdir(parents=True)
    write(dialogsum(), folder)
    reader = Reader.start(tmp_path / "profile")
    try:
        reader.open(f"{magistrate_server.url}/dashboards/dialogsum/")
        assert reader.complaints == []
        assert reader.run("return document.querySelectorAll('svg path, svg rect').length") > 100
        calls = "return fetch('/v1/models').then(() => 'answered', () => 'refused')"
        assert reader.run(calls) == "refused"
        assert reader.run("return window.origin") == "null", "to the browser it is nobody's page"
    finally:
        reader.browser.quit()
        shutil.rmtree(folder)

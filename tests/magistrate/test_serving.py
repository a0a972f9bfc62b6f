"""What ``magistrate serve`` says on the terminal."""

from __future__ import annotations

import time
from pathlib import Path

from tests.server.live import within
from tests.server.running import RunningServer


def test_loading_readiness_and_the_stop_are_said_once_each(tmp_path: Path) -> None:
    server = RunningServer(tmp_path).start(anew=True).wait_until_ready()
    server.stop()
    said = server.log.read_text()
    order = [
        "; Ctrl-C stops\n",
        "\nloading: a line says here when a model is ready, and calls wait for it\n",
        " is ready\n",
        "up to 30 s for lines of batches; a second signal ends at once\n",
    ]
    assert [said.count(line) for line in order] == [1, 1, 1, 1], said
    assert sorted(order, key=said.index) == order


def test_a_stop_does_not_wait_for_a_model_that_loads(tmp_path: Path) -> None:
    server = RunningServer(tmp_path).start(anew=True)
    within(60, lambda: "Application startup complete" in server.log.read_text())
    time.sleep(2)  # libraries are being imported
    assert server.stop() == 0
    said = server.log.read_text()
    assert "\nstopping; a second signal ends at once\n" in said
    assert "vLLM" not in said.partition("stopping;")[2], "nothing went on after that"

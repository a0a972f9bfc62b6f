"""What ``magistrate serve`` says on the terminal."""

from __future__ import annotations

from pathlib import Path

from tests.server.running import RunningServer


def test_loading_readiness_and_the_stop_are_said_once_each(tmp_path: Path) -> None:
    server = RunningServer(tmp_path).start().wait_until_ready()
    server.stop()
    said = server.log.read_text()
    order = [
        "; Ctrl-C stops\n",
        "\nloading: a line says here when a model is ready, and calls wait for it\n",
        " is ready\n",
        "\nstopping: waiting up to 10 s for 0 calls and 30 s for lines of batches; a second Ctrl-C ends at once\n",
    ]
    assert [said.count(line) for line in order] == [1, 1, 1, 1], said
    assert sorted(order, key=said.index) == order

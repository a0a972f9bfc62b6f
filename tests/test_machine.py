"""A run of the tests says first what the machine lacks, and last what was not tested."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_a_run_says_what_it_lacks_and_what_it_left_out(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "import pytest\n\n@pytest.mark.parametrize('n', range(3))\n"
        "def test_one(n):\n    pytest.skip('no lute is on this machine')\n"
    )
    plugin = tmp_path / "without.py"
    plugin.write_text("from tests import machine\nmachine.PACKAGES['lute strings'] = lambda: False\n")
    command = [sys.executable, "-m", "pytest", "-p", "without", "-p", "tests.machine", "-p", "no:cacheprovider", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    lines = done.stdout.splitlines()
    said = next(number for number, line in enumerate(lines) if "lute strings` brings what they need" in line)
    assert said < next(number for number, line in enumerate(lines) if "test_one.py" in line)
    assert "    3 not tested: no lute is on this machine" in lines

"""Tests the harnesses' plugins with the real harnesses, in an environment of their own beside this one.

    .venv/bin/python -m scripts.test_harnesses [FOLDER]

inspect_ai wants an older fsspec than the one that is pinned here, so it cannot stand in the environment of the other tests. The
folder (a temporary one by default) gets inspect_ai, lm_eval and this checkout; everything else is taken from here.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ("tests/magistrate/harnesses", "tests/judges/data/test_logs.py")

WITH_DEPENDENCIES = ("inspect_ai==0.3.285",)
ALONE = ("lm_eval==0.4.13", "pytablewriter")
"""Installed without what they ask for: most of it is there already, and what is not is for tasks that are not run."""


def make(folder: Path) -> Path:
    """Make the environment, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    found = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True, capture_output=True
    )
    own = Path(found.stdout.decode().strip())
    (own / "beside.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # behind its own, so its own versions count
    for more in (WITH_DEPENDENCIES, ("--no-deps", *ALONE), ("--no-deps", "-e", str(ROOT))):
        subprocess.run([python, "-m", "pip", "install", "--quiet", *more], check=True)
    return python


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch)
        python = make(folder)
        raise SystemExit(subprocess.run([python, "-m", "pytest", "-q", *TESTS], cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()

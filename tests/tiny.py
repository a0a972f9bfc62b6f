"""The model that tests run: real, and small enough to start in seconds on a CPU."""

from pathlib import Path

TINY = str(Path(__file__).parent / "models" / "magistrate-tiny")
"""Its folder, as a user names a model."""

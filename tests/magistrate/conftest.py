"""Fixtures that several files of this folder share."""

from tests.magistrate.units import inputs, plain, rows

__all__ = ["inputs", "plain", "rows"]

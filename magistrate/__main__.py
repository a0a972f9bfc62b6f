"""``python -m magistrate`` is the ``magistrate`` command."""

from magistrate.cli import run

run()

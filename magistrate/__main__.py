"""``python -m magistrate`` is the ``magistrate`` command."""

from magistrate.cli.main import run

run()

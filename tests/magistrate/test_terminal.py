"""What is shown on the terminal."""

from __future__ import annotations

import io

from rich.console import Console

from magistrate.terminal import figures_table, print_whole


def test_a_table_is_never_cut_however_narrow_the_terminal() -> None:
    written = io.StringIO()
    console = Console(file=written, width=20)
    table = figures_table("metric", *(f"heading {number}" for number in range(5)))
    table.add_row("appropriateness", *("0.123 (0.456 to 0.789)",) * 5)
    print_whole(console, table)
    told = written.getvalue()
    assert told.count("0.123 (0.456 to 0.789)") == 5
    assert "appropriateness" in told
    assert "\N{HORIZONTAL ELLIPSIS}" not in told
    assert console.width == 20

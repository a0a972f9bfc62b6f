"""Documents on the terminal."""

from __future__ import annotations

import io

from rich.console import Console

from evals.reports.document import (
    Block,
    Claim,
    Claims,
    Document,
    Filtered,
    Folded,
    Heading,
    Notes,
    Only,
    Ranking,
    Strong,
    Table,
    Text,
)
from evals.reports.terminal import show


def shown(document: Document, width: int = 100) -> str:
    written = io.StringIO()
    console = Console(file=written, width=width)
    show(document, console=console)
    assert console.width == width
    return written.getvalue()


def test_a_table_is_never_cut_however_narrow_the_terminal() -> None:
    headings = ("metric", *(f"heading {number}" for number in range(5)))
    told = shown(Document("", [Table(headings, [("appropriateness", *("0.123 (0.456 to 0.789)",) * 5)])]), width=20)
    assert told.count("0.123 (0.456 to 0.789)") == 5
    assert "appropriateness" in told
    assert "\N{HORIZONTAL ELLIPSIS}" not in told


def test_texts_stand_on_the_left_and_figures_on_the_right() -> None:
    rows = shown(Document("", [Table(("name", "kind", "figure"), [("a", "b", "1")], 2)])).splitlines()
    assert rows[3] == "│ a    │ b    │      1 │"


def test_nothing_of_anyone_s_becomes_markup() -> None:
    blocks: list[Block] = [
        Heading("[red]a[/]"),
        Text(("b ", Strong("[bold]c[/]"), ".")),
        Notes(["\x1b[31md\n[e]"]),
        Table(["[i]f[/]"], [["[g]"]]),
    ]
    told = shown(Document("", blocks))
    assert [line for line in told.splitlines() if line][:3] == ["[red]a[/]", "b [bold]c[/].", "- \ufffd[31md [e]"]
    assert "[i]f[/]" in told
    assert "[g]" in told


def test_what_another_form_has_is_not_shown() -> None:
    assert shown(Document("", [Only("markdown", ["there"]), Only("terminal", ["here", Only("html", ["nowhere"])])])) == "here\n"


def test_what_a_page_folds_and_filters_is_shown_whole() -> None:
    ranking = Ranking([("a", "the best"), ("b", "the other")], [{}, {}], "none")
    claims = Claims([Claim("It is.", None, ["1: here"]), Claim("It is not.", "says 2")])
    told = shown(Document("", [Folded("more", [Filtered([({"kind": "x"}, [ranking])])]), claims]))
    assert told == "1. a: the best\n2. b: the other\n- It is.\n- It is not. Contradicted: It says 2.\n"

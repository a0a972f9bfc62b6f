"""Documents as Markdown."""

from __future__ import annotations

from markdown_it import MarkdownIt

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
from evals.reports.markdown import markdown


def test_every_block_is_there() -> None:
    blocks: list[Block] = [
        "plain",
        Text(("it is", " ", Strong("80%"), ".")),
        Heading("Part"),
        Heading("Part of a part", 3),
        Table(("name", "figure"), [("a|b", "1")]),
        Notes(["one", ("two ", Strong("2"))]),
        Only("terminal", ["elsewhere"]),
    ]
    assert markdown(Document("All * of it", blocks)) == (
        "# All \\* of it\n\nplain\n\nit is **80%**.\n\n## Part\n\n### Part of a part\n\n"
        "| name | figure |\n| --- | ---: |\n| a\\|b | 1 |\n\n- one\n- two **2**\n"
    )


def test_what_a_page_folds_and_filters_is_shown_whole() -> None:
    ranking = Ranking([("a*", "the best"), ("b", "the other")], [{}, {}], "none")
    claims = Claims([Claim("It is.", None, ["1: here"]), Claim("It is not.", "says 2")])
    said = markdown(Document("T", [Folded("more", [Filtered([({"kind": "x"}, [ranking])])]), claims]))
    assert markdown(Document("T", [Ranking([], [], "No *one* is.")])) == "# T\n\nNo \\*one\\* is.\n"
    assert said == "# T\n\n1. **a\\***: the best\n2. **b**: the other\n\n- It is.\n- It is not. **Contradicted.** It says 2.\n"


def test_nothing_of_anyone_s_becomes_markup() -> None:
    hostile = "**bold** [a](b) `c` <script> # d\n- e"
    blocks: list[Block] = [
        hostile,
        Text((f"{hostile} ", Strong(hostile))),
        Heading(hostile),
        Table([hostile], [[hostile]]),
        Notes([hostile]),
    ]
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown(Document(hostile, blocks)))
    kinds = [child.type for token in tokens for child in token.children or []]
    assert kinds.count("strong_open") == 1
    assert not {"link_open", "code_inline", "html_inline", "em_open"} & set(kinds)
    assert [token.type for token in tokens].count("list_item_open") == 1

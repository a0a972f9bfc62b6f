"""The report as Markdown."""

from __future__ import annotations

import re
from typing import Any

import pytest
from markdown_it import MarkdownIt

from evals.qualeval.report import document
from evals.reports.markdown import escaped, markdown
from evals.reports.wording import interval, number, percent
from tests.evals.qualeval import strange
from tests.evals.qualeval.examples import dialogsum


def told(report: dict[str, Any]) -> str:
    return markdown(document(report))


def rows_of(text: str, heading: str) -> list[list[str]]:
    """The cells of the rows of the tables under a heading, as a reader of Markdown has them."""
    part = re.split(r"(?m)^## ", text)
    (section,) = [one for one in part if one.startswith(heading)]
    parser = MarkdownIt("commonmark").enable("table")
    rows: list[list[str]] = []
    for token, following in zip(tokens := parser.parse(f"## {section}"), tokens[1:], strict=False):
        if token.type == "tr_open":
            rows.append([])
        if token.type in ("td_open", "th_open"):
            rows[-1].append("".join(child.content for child in following.children or []))
    return rows


def test_its_figures_are_the_report_s() -> None:
    report = dialogsum()
    text = told(report)
    priors = {row[0]: row[1:] for row in rows_of(text, "Priors")}
    proficiency = {tuple(row[:2]): row[2:] for row in rows_of(text, "Proficiency")}
    calibration = {tuple(row[:2]): row[2:] for row in rows_of(text, "Calibration")}
    for kind in report["kinds"].values():
        for one in kind["attributes"]:
            assert priors[one["name"]][:2] == [percent(one["prior"]), f"{one['instances']:,}"]
            for model, found in one["proficiency"].items():
                wanted = [number(found["value"]), interval(found["low"], found["high"]), str(found["instances"])]
                assert proficiency[one["name"], model] == wanted
            for model, found in one.get("calibration", {}).items():
                held = calibration[one["name"], model]
                assert (held[0], held[2], held[3]) == (
                    percent(found["distance"]),
                    number(found["correlation"], 2),
                    str(found["instances"]),
                )
    assert len(proficiency) == 1 + 60  # and the headings
    assert rows_of(text, "Faithfulness")[1][2] == percent(report["faithfulness"]["assigned"]["accuracy"])


def test_it_says_what_the_page_says() -> None:
    report = dialogsum()
    text = told(report)
    for one in report["models"]:
        assert f"| {one['name']} | {one['overall']['value']:.3f} |" in text
    assert "1. **" in text
    assert "davinci-3: prediction missing (1 row: dev_7)" in text
    assert "**Contradicted.** It says 0.71" in text
    assert "![Priors of domains](priors-domain.png)" in text
    assert "![Skill calibration by sub-tasks](calibration.png)" in text
    assert "Not kept: Small talk (9)" in text


def test_no_text_becomes_markup() -> None:
    text = told(strange.hostile())
    parser = MarkdownIt("commonmark").enable("table")
    tokens = [one for token in parser.parse(text) for one in (token, *(token.children or []))]
    kinds = {token.type for token in tokens}
    assert {token.attrGet("src") for token in tokens if token.type == "image"} == document(strange.hostile()).pictures().keys()
    assert not kinds & {"html_block", "html_inline", "link_open", "code_inline", "em_open", "code_block", "fence"}
    widths = {len(row) for heading in ("Proficiency", "Calibration") for row in rows_of(text, heading)}
    assert widths == {5, 6}
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text
    assert text.encode()


def test_what_is_not_there_is_not_told() -> None:
    text = told(strange.empty())
    headings = re.findall(r"(?m)^## (.*)$", text)
    assert [heading.partition(":")[0] for heading in headings] == ["Priors", "Affinities", "How this was made"]
    assert "proficiency" not in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("dev_31", "dev_31"),
        ("_so_", r"\_so\_"),
        ("a|b", r"a\|b"),
        ("- a", r"\- a"),
        ("1. a", r"1\. a"),
        ("12. a", r"12\. a"),
        ("0.5 of <b>", r"0.5 of \<b\>"),
        ("two\nlines", "two lines"),
    ],
)
def test_markup_is_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown

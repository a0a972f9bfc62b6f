"""Documents as pages. The studies' own tests look at whole pages in a browser."""

from __future__ import annotations

import re

from evals.reports.document import (
    Block,
    Cell,
    Choice,
    Claim,
    Claims,
    Document,
    Facts,
    Filter,
    Filtered,
    Filters,
    Folded,
    Heading,
    Headline,
    Implied,
    Legend,
    Link,
    LiveChart,
    LiveCharts,
    Mark,
    Name,
    Notes,
    Only,
    Ranking,
    Signed,
    Strip,
    Strong,
    Table,
    Text,
)
from evals.reports.html import page

HOSTILE = "<script>alert(1)</script>\u202e{{ 7 * 7 }}"


def body_of(*blocks: Block) -> str:
    made = page(Document("A title", blocks, kicker="of a kind", foot="The end."))
    return made.partition("<body>")[2].partition("</main>")[0]


def test_every_block_is_there() -> None:
    figures = [("a", Cell(text="1", ends="0 to 2", value="1.5")), ("b", Cell(text="50%", strip=Strip(0.5, 0.25, 1.0)))]
    shown = body_of(
        Text("first", "lead"),
        Heading("One part"),
        Text((Mark("good"), " and ", Strong("strong"), " as ", Link("below", "other"))),
        Table(("name", "figure"), figures, sorts=("text", "number")),
        Legend([("win", "won")]),
        Heading((Name("Other"), " part"), key="other"),
        Heading("Inside", 3),
        Notes(["a note"], "reading"),
        Facts([("Seed", "0")]),
        Choice([("Left", ["to the left"]), ("Right", ["to the right"])]),
        Only("terminal", ["elsewhere"]),
    )
    for wanted in (
        '<p class="lead">first</p>',
        '<section aria-labelledby="one-part">',
        '<span class="mark good"><span aria-hidden="true">●</span> good</span> and <strong>strong</strong>',
        '<a href="#other">below</a>',
        '<th scope="col" class="figure" data-sort="number">figure</th>',
        '<td class="figure" data-label="figure" data-value="1.5"><bdi>1</bdi><span class="ends">0 to 2</span></td>',
        "M26.5 6H97.0",
        '<span class="key win"></span>won',
        '<h2 id="other"><bdi>Other</bdi> part</h2>',
        "<h3>Inside</h3>",
        '<ul class="reading"><li>a note</li></ul>',
        "<dt>Seed</dt><dd><bdi>0</bdi></dd>",
        '<option value="1">Right</option>',
        '<div data-part="1">',
        "<p>to the right</p>",
    ):
        assert wanted in shown
    assert "elsewhere" not in shown


def test_what_a_page_filters_folds_and_draws_is_marked_for_its_script() -> None:
    model = Signed("a model", 1)
    shown = body_of(
        Headline([(model, "0.5", ["of 7"])], [{"model": 1}]),
        Filters([Filter("kind", "Kind", [("x", "X"), ("y", "Y")]), Filter("model", "Models", [(1, model)], many=True)]),
        Heading("Part"),
        LiveCharts([LiveChart("bars", "Bars", strongest="9")]),
        Filtered([({"kind": "x", "model": None}, [Heading((Implied("X"),), 3)])], "None of it."),
        Ranking([("first", "the best")], [{"model": 1}], "No model."),
        Claims([Claim("It is.", "says 2", ["1: here"])]),
        Folded("More", [Table(["a"], [["b"]], tags=[{"kind": "y"}])], "of it", "more"),
    )
    for wanted in (
        '<div data-model="1"><dt><span class="glyph model2" aria-hidden="true">◆</span>',
        '<bdi class="model" title="a model">a model</bdi>',
        '<input type="radio" name="kind" value="x" checked><span>X</span>',
        '<div class="chart" role="img" data-chart="bars"',
        '<span class="ramp">none</span> <span>9</span>',
        '<div data-kind="x">',
        '<h3><span class="kind">X</span></h3>',
        '<p class="aside" data-none hidden>None of it.</p>',
        '<li data-model="1"><strong><bdi>first</bdi></strong> <span>the best</span></li>',
        "Contradicted.</strong> It says 2.",
        "</span> 1: here</p>",
        '<details class="figures" data-fold="more">',
        '<summary>More<span class="unseen">: of it</span></summary>',
        '<tr data-kind="y">',
    ):
        assert wanted in shown
    assert 'name="model"' not in shown, "there is nothing to choose among one"
    assert shown.index("</header>") < shown.index("data-filters"), "filters stay in sight below the header"


def test_a_text_that_repeats_itself_is_cut_and_flagged_and_can_be_unfolded() -> None:
    babble = "I 's a lot of the company . " * 40
    shown = body_of(Claims([Claim(babble), Claim("It is.")]))
    assert shown.count("Repeats itself.</strong>") == 1
    assert shown.count("<summary>more</summary>") == 1
    assert shown.replace("&#39;", "'").count(babble) == 1, "whole where it is unfolded"


def test_what_is_to_be_typed_is_code_and_names_stay_as_they_are() -> None:
    shown = body_of("Give `--human <b>`.", Notes(["`--all`"]), Table(["a", "b"], [["`x`", Name("`y`")]]))
    assert "Give <code>--human &lt;b&gt;</code>." in shown
    assert "<li><code>--all</code></li>" in shown
    assert "<bdi>`y`</bdi>" in shown


def test_nothing_of_anyone_s_becomes_part_of_the_page() -> None:
    shown = body_of(
        Text((HOSTILE, Strong(HOSTILE), Name(HOSTILE), Link(HOSTILE, "x"))),
        Heading(HOSTILE),
        Table([HOSTILE, HOSTILE], [[HOSTILE, Cell(text=HOSTILE, ends=HOSTILE, title=HOSTILE, side="above")]], label=HOSTILE),
        Notes([HOSTILE]),
        Facts([(HOSTILE, HOSTILE)]),
        Choice([(HOSTILE, [HOSTILE]), (HOSTILE, [])]),
    )
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;alert(1)") > 10
    assert "{{ 7 * 7 }}" in shown
    assert "\u202e" not in shown
    assert re.findall(r'<(?:h2 id|section aria-labelledby)="([^"]*)"', shown) == ["script-alert-1-script-7-7"] * 2

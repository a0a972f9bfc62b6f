"""``report.md``: the guide's lines, and what stands in them."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from markdown_it import MarkdownIt

from evals.arena.phrases import bias_rows, called, fault_words, lead, pictured, rank, rating_ends
from evals.arena.rating import Options
from evals.arena.report import document
from evals.arena.study import report
from evals.reports.markdown import markdown
from evals.reports.wording import line, number, with_interval
from tests.evals.arena import examples

WORDS_FOR_NOTHING = re.compile(r"\b(?:nan|NaN|None|inf|Infinity|null|undefined)\b")


@pytest.fixture(scope="module")
def usual() -> dict[str, Any]:
    return examples.usual_report()


def tables_of(text: str) -> list[list[list[str]]]:
    """The cells of all tables, as a reader of Markdown has them."""
    found: list[list[list[str]]] = []
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for token, following in pairwise(tokens):
        if token.type == "table_open":
            found.append([])
        if token.type == "tr_open":
            found[-1].append([])
        if token.type in ("td_open", "th_open"):
            found[-1][-1].append("".join(child.content for child in following.children or []))
    return found


def test_the_guide_s_own_example_comes_out_as_it_stands_there() -> None:
    lines = markdown(document(report(examples.guide(), Options(rounds=50), made={"judge_model": "GPT-4"}))).splitlines()
    told = iter(lines)
    for wanted in (
        "# Subjective Analysis",
        "A total of 30 comparisons, of which 30 comparisons are meaningful (A / B answers inconsistent)",
        "A total of 30 answer comparisons, successfully extracted 30 answers from GPT-4 replies, "
        "with an extraction success rate of 100.00%",
        "### Basic statistics (4 stats: win / tie / lose / not bad)",
        "| Dimension \\ Stat [W / T / L / NB] | chatglm2-6b-hf | qwen-7b-chat-hf | internlm-chat-7b-hf |",
        "| LANG: Overall | 30.0% / 40.0% / 30.0% / 30.0% | 50.0% / 0.0% / 50.0% / 50.0% | 30.0% / 40.0% / 30.0% / 30.0% |",
        "| LANG: CN | 30.0% / 40.0% / 30.0% / 30.0% | 50.0% / 0.0% / 50.0% / 50.0% | 30.0% / 40.0% / 30.0% / 30.0% |",
        "| LANG: EN | N/A | N/A | N/A |",
        "| CAPA: common | 30.0% / 40.0% / 30.0% / 30.0% | 50.0% / 0.0% / 50.0% / 50.0% | 30.0% / 40.0% / 30.0% / 30.0% |",
        "![Capabilities Dimension Classification Result](by_capa.png)",
        "![Language Classification Result](by_lang.png)",
        "### Model scores (base score is 0, win +3, both +1, neither -1, lose -3)",
        "| Dimension \\ Score | chatglm2-6b-hf | qwen-7b-chat-hf | internlm-chat-7b-hf |",
        "| LANG: Overall | -8 | 0 | -8 |",
        "| LANG: CN | -8 | 0 | -8 |",
        "| LANG: EN | N/A | N/A | N/A |",
        "| CAPA: common | -8 | 0 | -8 |",
        "### Bootstrap ELO, Median of n=50 times",
        "|  | chatglm2-6b-hf | internlm-chat-7b-hf | qwen-7b-chat-hf |",
    ):
        assert wanted in told, f"not there, or not in its place: {wanted}"
    for name in ("Mean", "Std"):
        (row,) = [one for one in lines if one.startswith(f"| elo_score [{name}] |")]
        assert re.fullmatch(r"\| elo_score \[\w+\] \|( \d+(\.\d+)? \|){3}", row)


def test_elo_goes_by_the_models_names_and_is_the_report_s(usual: dict[str, Any]) -> None:
    elo, models = usual["elo"], usual["models"]
    (table,) = [one for one in tables_of(markdown(document(usual))) if one[1][0] == "elo_score [Mean]"]
    assert table[0] == ["", *sorted(models)]
    for row, name in zip(table[1:], ("mean", "std"), strict=True):
        assert row[1:] == [f"{elo[name][models.index(model)]:g}" for model in sorted(models)]


def test_counts_and_reasons_are_told(usual: dict[str, Any]) -> None:
    text = markdown(document(usual))
    counts = usual["counts"]
    assert counts["meaningful"] < counts["comparisons"]
    assert counts["scored"] < counts["meaningful"]
    orders = counts["orders"]
    assert orders["kept"] < orders["compared"] < orders["meaningful"] < orders["comparisons"] == 2 * counts["comparisons"]
    assert (
        f"A total of {orders['comparisons']} comparisons, of which {orders['meaningful']} comparisons are meaningful "
        "(A / B answers inconsistent)\n"
        f"A total of {orders['meaningful']} answer comparisons, successfully extracted {orders['compared']} answers from "
        f"auto-j-13b replies, with an extraction success rate of {100 * orders['compared'] / orders['meaningful']:.2f}%\n"
        f"A total of {orders['compared']} answer comparisons, {orders['kept']} pairs (A vs. B \\<-\\> B vs. A) are consistent, "
        f"consistent rate is {100 * orders['kept'] / orders['compared']:.2f}%\n"
    ) in text
    for reason in examples.REASONS:
        assert f"- {counts['unscored'][reason]} not scored: {reason}\n" in text
    assert "- chatglm2-6b: has no answer, 2 times: 3, 9\n" in text


def test_every_rating_and_its_interval_is_there(usual: dict[str, Any]) -> None:
    (table,) = [one for one in tables_of(markdown(document(usual))) if one[0][:2] == ["Rank", "Model"]]
    assert table[0][-2:] == ["At equal style", "By probabilities"]
    assert [row[1] for row in table[1:]] == [usual["models"][model] for model in usual["order"]]
    for row, model in zip(table[1:], usual["order"], strict=True):
        one = usual["ratings"]["models"][model]
        assert row[0] == str(rank(usual, model))
        assert row[2:6] == [
            number(one["rating"], 1),
            rating_ends(usual, model),
            rating_ends(usual, model, "sandwich_"),
            str(one["games"]),
        ]
        for cell, kind in zip(row[6:], ("style", "soft"), strict=True):
            other = usual[kind]["models"][model]
            assert cell == with_interval(other["rating"], other["low"], other["high"], 1)


def test_a_win_rate_is_a_share_all_through(usual: dict[str, Any]) -> None:
    (table,) = [one for one in tables_of(markdown(document(usual))) if one[0][1:2] == ["Win rate"]]
    for row, one in zip(table[1:], usual["win_rates"]["models"], strict=True):
        assert row[0] == usual["models"][one["model"]]
        assert row[1] == f"{one['rate']['mean']:.1%}"
        assert row[2] == f"{one['rate']['low']:.1%} to {one['rate']['high']:.1%}"
    assert [row[5] for row in table[1:]][-1] == "– (none is behind)", "nobody comes behind the last one"


def test_two_games_show_no_leaning_to_length(usual: dict[str, Any]) -> None:
    def said(**longer: float) -> str:
        biases = {**usual["biases"], "longer": {**usual["biases"]["longer"], **longer}}
        return bias_rows({**usual, "biases": biases})[2][2]

    assert said(mean=1.0, low=0.33, high=1.0, count=2) == "one half lies within the interval, so no leaning to length is shown"
    assert said(mean=0.75, low=0.71, high=0.79, count=900).startswith("away from one half")


def everything() -> dict[str, dict[str, Any]]:
    bare = {name: report(battles, Options(rounds=10)) for name, battles in examples.BARE.items()}
    return {"usual": examples.usual_report(), "hostile": examples.hostile_report(), **bare}


@pytest.fixture(scope="module")
def reports() -> dict[str, dict[str, Any]]:
    return everything()


@pytest.mark.parametrize("name", ["usual", "hostile", *examples.BARE])
def test_no_row_has_more_or_fewer_cells_than_its_heading(reports: dict[str, dict[str, Any]], name: str) -> None:
    text = markdown(document(reports[name]))
    # As GitHub splits them: at a bar that no backslash precedes; but a backslash may itself be escaped.
    cell = re.compile(r"(?:\\.|[^|\\])*\|")
    width = None
    for one in text.splitlines():
        if not one.startswith("|"):
            width = None
            continue
        cells = len(cell.findall(one[1:]))
        assert width in (None, cells), one
        width = cells
    found = tables_of(text)
    assert len(found) >= 4
    assert all(len({len(row) for row in table}) == 1 for table in found)
    models = len(reports[name]["models"])
    assert [len(table[0]) for table in found[:3]] == [models + 1] * 3


def test_nothing_of_anyone_s_becomes_markup(reports: dict[str, dict[str, Any]]) -> None:
    text = markdown(document(reports["hostile"]))
    kinds: set[str] = set()
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        kinds.add(token.type)
        kinds.update(child.type for child in token.children or [])
    assert not kinds & {"html_block", "html_inline", "link_open", "code_inline", "em_open", "strong_open", "code_block", "fence"}
    assert not set(text) & {"\N{RIGHT-TO-LEFT OVERRIDE}", "\x1b", "\0"}
    cells = tables_of(text)[0][0]
    assert cells[1:] == [line(name) or "(no name)" for name in reports["hostile"]["models"]]
    assert "a|b \\| c d" in cells


@pytest.mark.parametrize("name", ["usual", "hostile", *examples.BARE])
def test_a_figure_that_is_not_there_is_never_a_word_of_a_programming_language(
    reports: dict[str, dict[str, Any]], name: str
) -> None:
    assert not WORDS_FOR_NOTHING.findall(markdown(document(reports[name])))


@pytest.mark.parametrize("name", ["usual", "hostile", *examples.BARE])
def test_pictures_are_named_where_they_are_drawn(reports: dict[str, dict[str, Any]], name: str) -> None:
    linked = re.findall(r"!\[[^\]]+\]\((\w+)\.png\)", markdown(document(reports[name])))
    assert sorted(linked) == sorted(pictured(reports[name]))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("one game", "These battles give no model a finite rating (one: it won every game it played)."),
        ("all ties", "No game has a winner, so all models are rated alike, 1,000."),
        ("nothing scored", "No battle is scored, so there is no rating."),
        ("no games", "No battle is scored, so there is no rating."),
        ("separable", "These battles give no model a finite rating (one: it won every game it played)."),
        ("one unrated", "All models are rated alike, 1,000. 1 model has no rating."),
    ],
)
def test_what_came_out_where_little_can_be_said(reports: dict[str, dict[str, Any]], name: str, words: str) -> None:
    assert lead(reports[name]) == words
    assert words in markdown(document(reports[name]))


def rated(*ends: tuple[float, float, float] | None) -> dict[str, Any]:
    keys = ("rating", "low", "high")
    models = [dict(zip(keys, one or (None,) * 3, strict=True)) | {"reason": None} for one in ends]
    return {
        "models": ["a", "b", "c", "d", "e", "f"][: len(ends)],
        "order": list(range(len(ends))),
        "standings": [{"models": [{"win": 0.5}]}],
        "ratings": {"models": models, "level": []},
        "counts": {"scored": 1},
    }


@pytest.mark.parametrize(
    ("ends", "words", "ranks"),
    [
        ([(3, 2, 4), (1, 0, 1.5)], "a comes first, with a rating of 3 (2 to 4), clearly ahead of b.", [1, 2]),
        (
            [(3, 2, 4), (1, 0, 1), (1, 0, 1)],
            "a comes first, with a rating of 3 (2 to 4), clearly ahead of all others.",
            [1, 2, 2],
        ),
        ([(3, 2, 4), (2, 1, 3)], "a comes first, with a rating of 3 (2 to 4), but these battles do not tell it from b.", [1, 1]),
        (
            [(3, 2, 4), (2.5, 1, 3), (2, 1, 3)],
            "a comes first, with a rating of 3 (2 to 4), but these battles tell it from none of the others.",
            [1, 1, 1],
        ),
        (
            [(3, 2, 4), (2.5, 1, 3), (2, 1, 3), (0, -1, 1), None],
            "a comes first, with a rating of 3 (2 to 4), but these battles do not tell it from b and c. 1 model has no rating.",
            [1, 1, 1, 2, None],
        ),
        (
            [(3, 2, 4), (3, 2, 4), (0, -1, 1)],
            "a and b come first together, with a rating of 3, clearly ahead of c.",
            [1, 1, 3],
        ),
        ([(3, 2, 4), None, None], "a comes first, with a rating of 3 (2 to 4). 2 models have no rating.", [1, None, None]),
        (
            [(3, 2, 4), (2.5, 1, 3), (2.4, 1, 3), (2.3, 1, 3), (2.2, 1, 3), (0, -1, 1)],
            "a comes first, with a rating of 3 (2 to 4), but these battles do not tell it from b, c, d and e.",
            [1, 1, 1, 1, 1, 2],
        ),
    ],
)
def test_the_lead_tells_apart_what_the_ratings_do(
    ends: list[tuple[float, float, float] | None], words: str, ranks: list[int | None]
) -> None:
    found = rated(*ends)
    found["ratings"]["level"] = [model for model, place in enumerate(ranks) if place == 1]
    assert lead(found) == words


def test_who_judged_is_claimed_only_where_it_is_known() -> None:
    def preference(battles: Any, judge: str | None) -> str:
        rows = bias_rows(report(battles, Options(rounds=10), made={"judge_model": judge}))
        (note,) = [how for what, _, how in rows if what == "Preference for its own answers"]
        return note

    battles = examples.BARE["all ties"]
    assert preference(battles, None) == "who judged is not known"
    assert preference(battles, "gpt-4") == "the judge is no contestant"
    assert preference(battles, "One") == "the judge is a contestant, but its battles do not name it"
    own = bias_rows(report(examples.usual(questions=6, judge=examples.MODELS[1]), Options(rounds=10)))
    assert any(what == "What internlm-chat-7b takes as its own judge" for what, _, _ in own)


def test_orders_are_spoken_of_only_where_they_are_known(usual: dict[str, Any]) -> None:
    with_orders = bias_rows(usual)
    assert re.fullmatch(r"\d+ times? in favour of the answer shown first, \d+ of the one shown second", with_orders[0][2])
    assert with_orders[1][2] == "one half is fair"
    without = bias_rows(report(examples.BARE["all ties"], Options(rounds=10)))
    assert [row[1] for row in without] == ["–", "–", "–", "–", "–", "0"]
    assert without[0][2] == "no pair is known to have been judged in both orders"


def test_a_fault_says_how_often_and_where() -> None:
    fault = {"what": "names no models", "count": 7, "ids": ["row 3", ""], "model": None}
    assert fault_words(fault) == "names no models, 7 times: row 3, (no name), …"
    assert fault_words(fault | {"count": 2, "model": "m"}) == "m: names no models, 2 times: row 3, (no name)"
    assert called("\n") == "(no name)"

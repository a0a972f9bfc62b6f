"""The page's figures, tables and pictures, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from evals.arena.phrases import pictured, rank, rating_ends
from evals.arena.rating import Options
from evals.arena.report import page
from evals.arena.study import report
from evals.reports.wording import BELOW, line, number, number_or, with_interval
from tests.evals.arena import examples
from tests.evals.arena.reading import PAGES, Figures, opened, table
from tests.evals.arena.test_text import WORDS_FOR_NOTHING
from tests.evals.browser import Reader

LARGEST = 2_000_000


@pytest.mark.parametrize("name", PAGES)
def test_a_page_needs_nothing_but_itself(reader: Reader, pages: dict[str, Path], name: str) -> None:
    assert pages[name].stat().st_size < LARGEST
    opened(reader, pages, name)
    assert reader.requests == [pages[name].as_uri()]
    assert reader.run("return performance.getEntriesByType('resource').map((one) => one.name)") == []
    assert reader.complaints == []
    policy = reader.find("meta[http-equiv]").get_attribute("content") or ""
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy


def test_a_script_that_is_not_the_page_s_does_not_run(reader: Reader, pages: dict[str, Path], tmp_path: Path) -> None:
    spoilt = tmp_path / "spoilt.html"
    text = pages["usual"].read_text(encoding="utf-8")
    spoilt.write_text(text.replace("</main>", "<script>document.title = 'taken'</script></main>"), encoding="utf-8")
    reader.open(spoilt, drawn=False)
    assert reader.browser.title == "5 models compared"
    assert any("Content Security Policy" in one for one in reader.complaints)


def test_nothing_that_a_report_holds_becomes_part_of_the_page(reader: Reader, pages: dict[str, Path]) -> None:
    opened(reader, pages, "hostile")
    assert reader.browser.title == "9 models compared"
    assert reader.every("main img, main script, main a, .text *:not(p)") == []
    assert reader.run("return document.scripts.length") == 2
    assert examples.TAKEN in reader.run("return document.querySelector('main').textContent")
    assert "{{ 7 * 7 }}" in reader.run("return document.body.innerText")
    shown = reader.run("return document.body.innerText")
    assert not set("\x1b\0") & set(shown)
    source = pages["hostile"].read_text(encoding="utf-8")
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in source
    assert "(no name)" in [row[1] for row in table(reader, "ratings")]
    assert reader.complaints == []


@pytest.mark.parametrize("name", PAGES)
def test_a_figure_that_is_not_there_is_never_a_word_of_a_programming_language(
    reader: Reader, pages: dict[str, Path], name: str
) -> None:
    opened(reader, pages, name)
    # Also what is hidden, and what is said of pictures.
    script = (
        "for (const one of document.querySelectorAll('script')) one.remove();"
        "return [document.body.textContent, ...[...document.querySelectorAll('*')].flatMap((one) => "
        "['title', 'aria-label', 'style', 'data-value', 'd', 'transform', 'x', 'y'].map((name) => one.getAttribute(name)))"
        ".filter((one) => one !== null)].join('\\n')"
    )
    assert not WORDS_FOR_NOTHING.findall(reader.run(script))


def test_every_rating_of_the_report_is_in_the_table(reader: Reader, pages: dict[str, Path], reports: dict[str, Figures]) -> None:
    for name in ("usual", "many", "separable"):
        found = reports[name]
        opened(reader, pages, name)
        rows = table(reader, "ratings")[1:]
        assert len(rows) == len(found["models"])
        for row, model in zip(rows, found["order"], strict=True):
            one = found["ratings"]["models"][model]
            assert row[:5] == [
                number(rank(found, model), 0),
                line(found["models"][model]),
                number_or(BELOW, one["rating"], 1),
                rating_ends(found, model),
                rating_ends(found, model, "sandwich_"),
            ]
            assert row[6] == f"{one['games']:,}"
            for cell, kind in zip(row[7:], ("style", "soft"), strict=False):
                other = found[kind]["models"][model]
                assert cell.split("\n") == with_interval(other["rating"], other["low"], other["high"], 1).rstrip(")").split(" (")
    assert [row[2:5] for row in rows] == [["– (see below)", "– (no rating)", "– (no rating)"]] * 3
    assert reader.shown("[aria-labelledby=ratings] li")[0] == "one has no rating: it won every game it played."


def test_each_model_that_has_no_rating_is_told_with_its_own_name(reader: Reader, tmp_path: Path) -> None:
    found = report(examples.only(("q", "one", "other", "A"), models=("one", "other", "idle", "lazy")), Options(rounds=10))
    path = tmp_path / "page.html"
    path.write_text(page(found), encoding="utf-8")
    reader.open(path, drawn=False)
    told = {text.split()[0] for text in reader.shown("[aria-labelledby=ratings] li")}
    assert told == {"one", "other", "idle", "lazy"}


def column(reader: Reader, section: str, heading: str) -> list[str]:
    rows = table(reader, section)
    place = [text.split("\n")[0] for text in rows[0]].index(heading)
    return [row[place].split("\n")[0] for row in rows[1:]]


def press(reader: Reader, section: str, heading: str, key: str | None = None) -> str | None:
    """Press the button of a heading, and return how the column is sorted then."""
    (button,) = [
        one
        for one in reader.every(f"[aria-labelledby={section}] th button")
        if one.is_displayed() and one.text.strip() == heading
    ]
    if key is None:
        button.click()
    else:
        reader.run("arguments[0].focus()", button)
        ActionChains(reader.browser).send_keys(key).perform()
    found: str | None = reader.run("return arguments[0].closest('th').ariaSort", button)
    return found


def values(texts: list[str]) -> list[float]:
    return [float(text.replace(",", "").replace("−", "-").rstrip("%")) for text in texts]


def test_tables_are_sorted_both_ways_by_click_and_by_key(reader: Reader, pages: dict[str, Path]) -> None:
    opened(reader, pages, "usual")
    for section, heading, first, key in (
        ("ratings", "Rating", "descending", Keys.ENTER),
        ("ratings", "At equal style", "descending", None),
        ("ratings", "By probabilities", "descending", None),
        ("ratings", "Rank", "ascending", None),
        ("statistics", "Score", "descending", Keys.ENTER),
        ("elo", "Standard deviation", "descending", None),
    ):
        for way in (first, "ascending" if first == "descending" else "descending"):
            assert press(reader, section, heading, key) == way, heading
            found = values(column(reader, section, heading))
            assert found == sorted(found, reverse=way == "descending"), heading
            assert len(set(found)) > 1
        sorted_by = reader.every(f"[aria-labelledby={section}] [aria-sort]")
        assert len(sorted_by) == 1
    assert press(reader, "ratings", "Model", None) == "ascending"
    assert column(reader, "ratings", "Model") == sorted(examples.MODELS)
    assert reader.complaints == []


def test_rows_stay_whole_when_they_are_sorted(reader: Reader, pages: dict[str, Path]) -> None:
    opened(reader, pages, "usual")
    before = {tuple(row) for row in table(reader, "ratings")[1:]}
    press(reader, "ratings", "Games")
    assert {tuple(row) for row in table(reader, "ratings")[1:]} == before


def test_what_is_missing_stands_last_whichever_way(reader: Reader, pages: dict[str, Path]) -> None:
    opened(reader, pages, "one unrated")
    for section, heading in (("ratings", "Rating"), ("statistics", "Win")):
        assert press(reader, section, "Model") == "ascending"
        assert column(reader, section, "Model") == ["idle", "one", "other"]
        for _ in range(2):
            press(reader, section, heading)
            assert column(reader, section, "Model")[-1] == "idle"
            assert column(reader, section, heading)[-1].startswith("–")


def test_one_part_is_shown_at_a_time(reader: Reader, pages: dict[str, Path], reports: dict[str, Figures]) -> None:
    found = reports["usual"]
    opened(reader, pages, "usual")
    select = Select(reader.find("[name=part]"))
    titles = [one.text for one in select.options]
    assert titles == ["Everything", "Language CN", "Language EN", *(f"Capability {one}" for one in examples.CAPABILITIES)]
    for title, part in zip(titles, found["standings"], strict=True):
        select.select_by_visible_text(title)
        assert reader.shown("[aria-labelledby=statistics] h3") == [title]
        rows = table(reader, "statistics")
        assert rows[0] == ["Model", "Of its games", "Win", "Tie", "Lose", "Not bad", "Score", "Games"]
        for row, model in zip(rows[1:], found["order"], strict=True):
            cell = part["models"][model]
            shares = [f"{cell[name]:.1%}" for name in ("win", "tie", "lose", "not_bad")]
            assert row == [found["models"][model], "", *shares, number(cell["score"], 0), str(cell["games"])]


def test_bars_are_as_long_as_their_shares(reader: Reader, pages: dict[str, Path], reports: dict[str, Figures]) -> None:
    found = reports["usual"]
    opened(reader, pages, "usual")
    script = (
        "const stack = [...document.querySelectorAll('.stack')].find((one) => one.checkVisibility());"
        "const whole = stack.getBoundingClientRect().width;"
        "return Object.fromEntries([...stack.children].map((one) => [one.className, one.getBoundingClientRect().width / whole]))"
    )
    widths = reader.run(script)
    cell = found["standings"][0]["models"][found["order"][0]]
    both = cell["not_bad"] - cell["win"]
    wanted = {"win": cell["win"], "both": both, "even": cell["tie"] - both, "lose": cell["lose"]}
    assert widths == pytest.approx(wanted, abs=0.002)
    assert sum(widths.values()) == pytest.approx(1, abs=0.002)


def test_pictures_are_on_the_page_where_there_is_something_to_compare(
    reader: Reader, pages: dict[str, Path], reports: dict[str, Figures]
) -> None:
    for name, count in (("usual", 5), ("all ties", 1), ("nothing scored", 0)):
        opened(reader, pages, name)
        assert len(reader.every("figure .wider svg")) == len(reader.every("figure .narrower svg")) == count
        assert all("figures" in (one.get_attribute("aria-label") or "") for one in reader.every("[role=img]"))
    assert pictured(reports["all ties"]) == ("ratings", "by_lang"), "the guide's picture is drawn all the same"
    opened(reader, pages, "many")
    assert reader.shown("figcaption") == ["The first 20 of 40 models."] * 2 + ["The first 8 of 40 models."] * 2


def test_what_models_take_of_each_other_is_told_with_how_often_they_met(
    reader: Reader, pages: dict[str, Path], reports: dict[str, Figures]
) -> None:
    found = reports["usual"]
    opened(reader, pages, "usual")
    rows = table(reader, "meetings")
    for row, one in zip(rows[1:], found["order"], strict=True):
        for cell, other in zip(row[1:], found["order"], strict=True):
            taken, games = found["meetings"][one][other]
            assert cell.split() == ([] if one == other else [f"{taken / games:.0%}", "of", f"{games:.0f}"])
    opened(reader, pages, "many")
    assert len(table(reader, "meetings")) == 31
    assert "The first 30 models" in reader.shown("[aria-labelledby=meetings] p")[0]


def test_win_rates_are_told_where_there_is_a_baseline(
    reader: Reader, pages: dict[str, Path], reports: dict[str, Figures]
) -> None:
    opened(reader, pages, "usual")
    rows = table(reader, "baseline")
    for row, one in zip(rows[1:], reports["usual"]["win_rates"]["models"], strict=True):
        assert row[1] == f"{one['rate']['mean']:.1%}"
        assert row[3] == ("< 0.001" if one["adjusted"] < 0.001 else f"{one['adjusted']:.3f}")
        assert row[-1].startswith(f"{one['soft']['mean']:.1%} (")
    assert rows[0][-1] == "By probabilities"
    assert len(rows) == 5
    opened(reader, pages, "many")
    assert reader.every("#baseline") == []

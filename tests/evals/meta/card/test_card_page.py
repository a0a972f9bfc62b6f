"""The card's page in a real browser: what it shows, to whom, and that it asks for nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from evals.meta.card.card import Card
from evals.meta.card.grades import RULES, TOO_FEW, Mark, marks
from evals.meta.card.parts import TITLES, part
from evals.meta.card.report import document, write_card
from evals.reports.html import page
from evals.reports.wording import line
from judges.errors import MagistrateError
from judges.llm_eval import LLMEval
from judges.pairwise import Pairwise
from tests.chromium import need_chromium
from tests.evals.arena.reading import table
from tests.evals.arena.test_page_access import CONTRASTS
from tests.evals.browser import Reader
from tests.evals.meta.card.examples import CARDS, constant, usual
from tests.evals.meta.card.examples import card as made_card
from tests.evals.meta.card.made import dialogue, row

WORDS_FOR_NOTHING = re.compile(r"\b(nan|inf|None|null|undefined|Undefined)\b")


@pytest.fixture(scope="module")
def cards() -> dict[str, Card]:
    return {name: make() for name, make in CARDS.items()}


@pytest.fixture(scope="module")
def pages(cards: dict[str, Card], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("cards")
    return {name: write_card(folder / name, card, marks(card))[0] for name, card in cards.items()}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    need_chromium()
    reader = Reader.start(tmp_path_factory.mktemp("profile"))
    yield reader
    reader.browser.quit()


@pytest.mark.parametrize("name", CARDS)
def test_a_page_asks_for_nothing_and_runs_nothing(reader: Reader, pages: dict[str, Path], name: str) -> None:
    reader.open(pages[name], drawn=False)
    assert reader.requests == [pages[name].as_uri()]
    assert reader.complaints == []
    assert reader.run("return document.scripts.length") == 0
    policy = reader.find("meta[http-equiv]").get_attribute("content") or ""
    assert policy.startswith("default-src 'none'; script-src 'none'")


@pytest.mark.parametrize("name", CARDS)
def test_every_mark_stands_with_its_word_its_figure_and_its_rule(
    reader: Reader, pages: dict[str, Path], cards: dict[str, Card], name: str
) -> None:
    reader.open(pages[name], drawn=False)
    rows = table(reader, "summary")[1:]
    found = marks(cards[name])
    assert [row[0] for row in rows] == [TITLES[mark.key] for mark in found]
    assert [row[1].split(maxsplit=1)[1] for row in rows] == [mark.word for mark in found]
    assert [row[2] for row in rows] == [line(mark.says).replace("`", "") for mark in found]
    shown = reader.run("return document.body.innerText")
    assert all(RULES[mark.key] in shown for mark in found)


@pytest.mark.parametrize("name", CARDS)
def test_every_figure_is_in_its_table(reader: Reader, pages: dict[str, Path], cards: dict[str, Card], name: str) -> None:
    reader.open(pages[name], drawn=False)
    for mark in marks(cards[name]):
        _, tables = part(mark.key, cards[name])
        script = (
            "return [...document.querySelectorAll(`[aria-labelledby=${arguments[0]}] tbody tr`)]"
            ".map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"
        )
        rows = reader.run(script, mark.key)
        assert rows == [[f"{cell.text}{cell.ends}" for cell in row] for one in tables for row in one.rows]
        if not tables:
            assert mark.word == "not measured"


@pytest.mark.parametrize("name", CARDS)
def test_no_figure_is_a_word_of_a_programming_language(reader: Reader, pages: dict[str, Path], name: str) -> None:
    reader.open(pages[name], drawn=False)
    script = (
        "for (const one of document.querySelectorAll('style, .facts')) one.remove();"
        "return [document.body.textContent, ...[...document.querySelectorAll('*')].flatMap((one) => "
        "['aria-label', 'd', 'cx'].map((name) => one.getAttribute(name))).filter((one) => one !== null)].join('\\n')"
    )
    assert not WORDS_FOR_NOTHING.findall(reader.run(script))


def test_hostile_names_are_text(reader: Reader, pages: dict[str, Path]) -> None:
    reader.open(pages["hostile"], drawn=False)
    assert reader.browser.title == "llm-eval by model"
    assert reader.every("main img, main script") == []
    shown = reader.run("return document.body.innerText")
    assert "</script><script>" in shown
    assert "{{ 7 * 7 }}" in shown
    assert not set("\x1b\0") & set(shown)
    source = pages["hostile"].read_text(encoding="utf-8")
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in source


@pytest.mark.parametrize("name", CARDS)
def test_nothing_sticks_out_of_a_small_screen(reader: Reader, pages: dict[str, Path], name: str) -> None:
    reader.tell("Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1, mobile=True)
    try:
        reader.open(pages[name], drawn=False)
        assert reader.run("return [document.documentElement.scrollWidth, innerWidth]") == [360, 360]
    finally:
        reader.tell("Emulation.clearDeviceMetricsOverride")


def test_it_can_be_read_in_the_light_and_in_the_dark(reader: Reader, pages: dict[str, Path]) -> None:
    grounds = []
    try:
        for scheme in ("light", "dark"):
            reader.tell("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": scheme}])
            for name in ("usual", "pairs"):
                reader.open(pages[name], drawn=False)
                found = reader.run(CONTRASTS)
                assert len(found) > 40
                assert [one for one in found if one[0] < 4.5] == []
            grounds.append(reader.run("return getComputedStyle(document.body).backgroundColor"))
    finally:
        reader.tell("Emulation.setEmulatedMedia", media="", features=[])
    assert grounds == ["rgb(251, 250, 247)", "rgb(25, 26, 27)"]


@pytest.mark.parametrize("name", CARDS)
def test_headings_and_tables_tell_what_they_are(reader: Reader, pages: dict[str, Path], name: str) -> None:
    reader.open(pages[name], drawn=False)
    levels = reader.run("return [...document.querySelectorAll('h1, h2, h3')].map((one) => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    script = (
        "return [...document.querySelectorAll('table')].filter((table) => "
        "![...table.tHead.rows[0].cells].every((cell) => cell.matches('th[scope=col]') && cell.textContent.trim()) ||"
        "![...table.tBodies[0].rows].every((row) => row.querySelectorAll('th[scope=row]').length === 1) ||"
        "!table.closest('[role=region][aria-label][tabindex=\"0\"]')).length"
    )
    assert reader.run(script) == 0
    ids = reader.run("return [...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    broken = "return [...document.querySelectorAll('a[href^=\"#\"]')].filter((a) => !document.querySelector(a.hash)).length"
    assert reader.run(broken) == 0


@pytest.mark.parametrize("name", CARDS)
def test_the_same_verdicts_make_the_same_card(name: str, cards: dict[str, Card], tmp_path: Path) -> None:
    made = CARDS[name]()
    files = write_card(tmp_path, made, marks(made))
    assert files[0].read_text(encoding="utf-8") == page(document(cards[name], marks(cards[name])))
    figures = json.loads(files[1].read_text(encoding="utf-8"), parse_constant=lambda word: pytest.fail(word))
    assert [one["word"] for one in figures["marks"]] == [mark.word for mark in marks(cards[name])]
    assert figures["unscored"]["unscored"]["value"] == cards[name].unscored.unscored.value


def test_what_is_left_out_is_told(cards: dict[str, Card]) -> None:
    assert cards["usual"].notes == ["1 labelled id without a sample judged here: other", "1 fault in the labels' file: x"]
    assert cards["nothing"].notes[0] == "there is only 1 sample: every figure is rough"
    reasons = {one.metric: one.error.reason for one in cards["usual"].weighed}
    assert reasons["content"] is None
    assert reasons["grammar"] == "there are 4 labels of samples with probabilities; at least 10 are needed"
    assert reasons["relevance"] == "people's file has no column for it"


def test_a_card_is_written_with_the_marks_that_it_is_given(cards: dict[str, Card], tmp_path: Path) -> None:
    given = [Mark("again", "weak", "said once", "never"), Mark("unscored", "good", "said twice", "always")]
    shown, figures = (path.read_text(encoding="utf-8") for path in write_card(tmp_path, cards["usual"], given))
    assert "Of 2 properties: 1 good, 1 weak." in shown
    assert "Good where never." in shown
    assert [one["says"] for one in json.loads(figures)["marks"]] == ["said once", "said twice"]


def test_figures_of_few_samples_decide_no_mark() -> None:
    card = usual()
    lone = [replace(one, of_scale=0.9, distance=replace(one.distance, value=4.5, count=1)) for one in card.formatting[:1]]
    told = {mark.key: mark for mark in marks(replace(card, formatting=lone))}["formatting"]
    assert (told.word, told.says) == ("not measured", TOO_FEW)
    with_lone = {mark.key: mark for mark in marks(replace(card, formatting=[*lone, *card.formatting[1:]]))}["formatting"]
    without = {mark.key: mark for mark in marks(replace(card, formatting=card.formatting[1:]))}["formatting"]
    assert with_lone == without


def test_few_samples_decide_nothing() -> None:
    rows = [dialogue(number, f"Answer {number}. It's so.") for number in range(6)]
    assert {mark.word for mark in marks(made_card(LLMEval(), rows))} == {"not measured"}
    pairs = [row(f"p{number}", question="Why?", answer_a="So.", answer_b="Because.") for number in range(9)]
    assert {mark.word for mark in marks(made_card(Pairwise(), pairs))} == {"not measured"}


def test_a_folder_that_cannot_be_written_to_is_told(cards: dict[str, Card], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MagistrateError, match="the card cannot be written to"):
        write_card(tmp_path / "file", cards["nothing"], marks(cards["nothing"]))


def test_a_judge_that_says_the_same_of_everything_is_not_good_at_staying(cards: dict[str, Card]) -> None:
    alike = constant()
    words = {mark.key: mark.word for mark in marks(alike)}
    assert (words["again"], words["order"], words["formatting"], words["length"]) == ("good", *["not measured"] * 3)
    assert words["probes"] == "weak"
    assert any("nearly all samples have the same preference" in note for note in alike.notes)
    assert not cards["pairs"].constant

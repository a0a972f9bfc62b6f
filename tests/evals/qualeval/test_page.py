"""The page in a real browser, from its file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from evals.qualeval.report import page
from evals.qualeval.rows import MOST
from tests.chromium import CONTRASTS, need_chromium
from tests.evals.browser import Reader
from tests.evals.qualeval import strange
from tests.evals.qualeval.examples import dialogsum

Report = dict[str, Any]

REPORTS = {
    "dialogsum": dialogsum,
    "hostile": strange.hostile,
    "many": strange.many,
    "empty": strange.empty,
}
LARGEST = 5_000_000
USUAL = 1_500_000


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    return {name: make() for name, make in REPORTS.items()}


@pytest.fixture(scope="module")
def pages(reports: dict[str, Report], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {}
    for name, report in reports.items():
        made[name] = folder / f"{name}.html"
        made[name].write_text(page(report), encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A browser for the whole module."""
    need_chromium()
    reader = Reader.start(tmp_path_factory.mktemp("profile"))
    yield reader
    reader.browser.quit()


def figures(report: Report, kind: str, part: str, figure: str) -> int:
    """How many of a figure there are, over attributes and models."""
    attributes = report["kinds"][kind]["attributes"]
    return sum(one[figure] is not None for attribute in attributes for one in attribute.get(part, {}).values())


def pairs(report: Report, kind: str) -> int:
    together = report["kinds"][kind]["together"]
    return sum(count > 0 for one, line in enumerate(together) for other, count in enumerate(line) if one != other)


def marks_wanted(report: Report, kind: str) -> dict[str, int]:
    attributes = report["kinds"][kind]["attributes"]
    return {
        "bars": len(attributes),
        "values of bars": len(attributes),
        "points": figures(report, kind, "proficiency", "value"),
        "intervals": figures(report, kind, "proficiency", "low"),
        "means": sum(model["overall"]["value"] is not None for model in report["models"]),
        "distances": figures(report, "subtask", "calibration", "distance"),
        "intervals of distances": figures(report, "subtask", "calibration", "low"),
        "correlations": figures(report, "subtask", "calibration", "correlation"),
        "cells": 5 * len(attributes) * len(report["kinds"][kind]["affinity_shares"]),
        "pairs": pairs(report, kind),
    }


def marks_shown(reader: Reader) -> dict[str, int]:
    dashed = reader.run(
        "return document.querySelectorAll('[data-chart=proficiency] .mark-rule.role-mark line[stroke-dasharray]').length"
    )
    return {
        "bars": reader.marks("priors", "rect"),
        "values of bars": reader.marks("priors", "text", "text"),
        "points": reader.marks("proficiency", "symbol"),
        "intervals": reader.marks("proficiency", "rule", "line") - dashed,
        "means": dashed,
        "distances": reader.marks("distance", "symbol"),
        "intervals of distances": reader.marks("distance", "rule", "line"),
        "correlations": reader.marks("correlation", "symbol"),
        "cells": reader.marks("shares", "rect"),
        "pairs": reader.marks("pairs", "rect"),
    }


@pytest.mark.parametrize("name", ["dialogsum", "hostile", "empty"])
def test_every_figure_has_its_mark(reader: Reader, pages: dict[str, Path], reports: dict[str, Report], name: str) -> None:
    reader.open(pages[name])
    assert marks_shown(reader) == marks_wanted(reports[name], "domain")
    reader.choose("kind", "subtask")
    assert marks_shown(reader) == marks_wanted(reports[name], "subtask")
    assert reader.complaints == []


@pytest.mark.parametrize("name", REPORTS)
def test_a_page_needs_nothing_but_itself(reader: Reader, pages: dict[str, Path], name: str) -> None:
    assert pages[name].stat().st_size < (USUAL if name != "many" else LARGEST)
    reader.open(pages[name])
    assert reader.requests == [pages[name].as_uri()]
    assert reader.run("return performance.getEntriesByType('resource').map((one) => one.name)") == []
    assert reader.complaints == []
    policy = reader.find("meta[http-equiv]").get_attribute("content") or ""
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy


def test_charts_are_told_in_words_and_stand_beside_their_tables(reader: Reader, pages: dict[str, Path]) -> None:
    reader.open(pages["dialogsum"])
    charts = reader.every("[data-chart]")
    assert len(charts) == 6
    for chart in charts:
        assert chart.get_attribute("role") == "img"
        assert "of 15 " in (chart.get_attribute("aria-label") or "")
    follows = "(one.closest('.pair') ?? one).nextElementSibling.matches('details.figures')"
    assert reader.run(f"return [...document.querySelectorAll('figure')].map((one) => {follows})") == [True] * 6
    label = reader.find("[data-chart=proficiency]").get_attribute("aria-label")
    assert label == "Chart of ROUGE-L with intervals of 15 domains of davinci-3, curie. The table that follows has the figures."


def test_filters_act_on_charts_tables_and_words(reader: Reader, pages: dict[str, Path], reports: dict[str, Report]) -> None:
    reader.open(pages["dialogsum"])
    reader.run("for (const one of document.querySelectorAll('details')) one.open = true")
    domains = {one["name"] for one in reports["dialogsum"]["kinds"]["domain"]["attributes"]}
    assert set(reader.shown(".figures[data-fold=priors] tbody th")) == domains
    assert {words.split()[0] for words in reader.shown(".ranking li > span")} == {"davinci-3", "curie"}
    reader.choose("model", "0")
    assert reader.marks("proficiency", "symbol") == 15
    assert reader.marks("distance", "symbol") == 15
    assert set(reader.shown(".figures[data-fold=proficiency] td:nth-child(2)")) == {"curie"}
    assert {words.split()[0] for words in reader.shown(".ranking li > span")} == {"curie"}
    assert reader.shown("[data-spoken]") == ["Showing domains of 1 of 2 models"]
    reader.choose("kind", "subtask")
    assert not domains & set(reader.shown(".figures[data-fold=priors] tbody th"))
    assert reader.marks("shares", "rect") == 15 * 5 * 2
    assert reader.shown("[aria-labelledby=fix] [data-none]") == ["No sub-task lies clearly below the mean."]
    reader.choose("model", "1")
    assert reader.marks("proficiency", "symbol") == 0
    assert reader.shown("[aria-labelledby=insights] [data-none]") == ["There is nothing to show of what is chosen above."]
    assert len(reader.shown("[data-nothing]")) == 4
    reader.choose("model", "1")
    assert reader.marks("proficiency", "symbol") == 15
    assert reader.shown("[data-nothing]") == []
    assert reader.complaints == []


def test_the_weakest_stand_first_for_the_models_that_are_shown(
    reader: Reader, pages: dict[str, Path], reports: dict[str, Report]
) -> None:
    reader.open(pages["dialogsum"])
    attributes = reports["dialogsum"]["kinds"]["domain"]["attributes"]

    def labels() -> list[str]:
        script = "return [...document.querySelectorAll('[data-chart=proficiency] .role-axis-label')]"
        named: list[str] = reader.run(
            f"{script}.flatMap((group) => [...group.querySelectorAll('text')].map((one) => one.textContent))"
        )
        return [name for name in named if name in {one["name"] for one in attributes}]

    def by_mean(*models: str) -> list[str]:
        return [
            one["name"] for one in sorted(attributes, key=lambda one: sum(one["proficiency"][model]["value"] for model in models))
        ]

    assert labels() == by_mean("davinci-3", "curie")
    reader.choose("model", "0")
    assert labels() == by_mean("curie")


def test_more_attributes_than_a_chart_can_hold_are_shown_when_asked_for(reader: Reader, pages: dict[str, Path]) -> None:
    reader.open(pages["many"])
    assert reader.marks("priors", "rect") == MOST
    assert reader.marks("proficiency", "symbol") == MOST * 8
    assert reader.shown(".every") == ["All 120 domains in the charts"]
    reader.redraw(lambda: reader.find("[name=every]").click())
    assert reader.marks("priors", "rect") == 120
    assert reader.marks("proficiency", "symbol") == 120 * 8
    assert reader.complaints == []


def test_examples_are_turned_by_buttons_and_keys(reader: Reader, pages: dict[str, Path], reports: dict[str, Report]) -> None:
    samples = reports["dialogsum"]["samples"]
    reader.open(pages["dialogsum"])

    def now() -> tuple[str, str, str]:
        (name,) = reader.shown("[data-sample] .id")
        return name, reader.shown("[data-sample] .text p")[2], reader.shown("[data-place]")[0]

    def wanted(place: int) -> tuple[str, str, str]:
        return samples[place]["id"], samples[place]["generation"], f"{place + 1} of {len(samples)}"

    assert now() == wanted(0)
    assert not reader.find("[data-turn='-1']").is_enabled()
    reader.find("[data-turn='1']").click()
    assert now() == wanted(1)
    stage = reader.find("[data-stage]")
    for key, place in [
        (Keys.ARROW_RIGHT, 2),
        (Keys.ARROW_LEFT, 1),
        (Keys.END, len(samples) - 1),
        (Keys.ARROW_RIGHT, len(samples) - 1),
        (Keys.HOME, 0),
    ]:
        stage.send_keys(key)
        assert now() == wanted(place)
    reader.find("[data-turn='1']").click()
    reader.find("[data-turn='-1']").click()
    assert reader.browser.switch_to.active_element == stage
    dots = reader.shown("[data-sample] .of")
    assert [text.split()[0] for text in dots] == [f"{samples[0][side]:.0f}" for side in ("truth_score", "generation_score")]


def test_examples_are_of_the_model_and_the_attribute_that_are_chosen(
    reader: Reader, pages: dict[str, Path], reports: dict[str, Report]
) -> None:
    samples = reports["dialogsum"]["samples"]
    reader.open(pages["dialogsum"])
    Select(reader.find("[name=sample-model]")).select_by_visible_text("curie")
    of_curie = [sample for sample in samples if sample["model"] == "curie"]
    assert reader.shown("[data-place]") == [f"1 of {len(of_curie)}"]
    choice = Select(reader.find("[name=sample-attribute]"))
    name = of_curie[0]["attribute"]
    choice.select_by_index(next(place for place, one in enumerate(choice.options) if one.text.startswith(name)))
    both = [sample for sample in of_curie if sample["attribute"] == name]
    assert reader.shown("[data-place]") == [f"1 of {len(both)}"]
    assert reader.shown("[data-sample] .id") == [both[0]["id"]]
    choice.select_by_index(0)
    reader.choose("model", "1")
    assert reader.shown("[data-place]") == [f"1 of {len(samples) - len(of_curie)}"]
    assert reader.find("[name=sample-model]").get_property("value") == ""


def test_nothing_that_a_report_holds_becomes_part_of_the_page(reader: Reader, pages: dict[str, Path]) -> None:
    reader.open(pages["hostile"])
    assert reader.browser.title.startswith("</script><script>document.title")
    assert reader.every("main img, main script, body > img") == []
    assert reader.run("return document.scripts.length") == 3
    text = reader.run("return document.body.innerText")
    assert "{{ 7 * 7 }}" in reader.run("return document.querySelector('main').textContent")
    assert strange.HOSTILE in text
    source = reader.browser.page_source
    assert not any(unseen in source for unseen in "\N{RIGHT-TO-LEFT OVERRIDE}\x1b\0")
    names = reader.run(
        "return [...document.querySelectorAll('[data-chart=priors] .role-axis-label text')].map((one) => one.textContent)"
    )
    assert "0|1|2" in names
    assert "constructor" in names
    assert len(names) == len(strange.NAMES)
    ActionChains(reader.browser).move_to_element(reader.every("[data-chart=priors] .mark-rect path")[0]).perform()
    reader.wait(lambda: reader.shown("#vg-tooltip-element.visible") != [])
    assert "Attribute" in reader.shown("#vg-tooltip-element")[0]
    assert reader.complaints == []


WIDEST = "return [document.documentElement.scrollWidth, innerWidth]"


@pytest.mark.parametrize("width", [360, 720])
@pytest.mark.parametrize("name", ["dialogsum", "hostile"])
def test_nothing_sticks_out_of_a_screen_of_any_width(reader: Reader, pages: dict[str, Path], name: str, width: int) -> None:
    reader.tell("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=True)
    try:
        reader.open(pages[name])
        reader.run("for (const one of document.querySelectorAll('details')) one.open = true")
        assert reader.run(WIDEST) == [width, width]
        reader.choose("kind", "subtask")
        assert reader.run(WIDEST) == [width, width]
        assert reader.complaints == []
    finally:
        reader.tell("Emulation.clearDeviceMetricsOverride")


BAR = "return getComputedStyle(document.querySelector('[data-chart=priors] .mark-rect path')).fill"


def test_charts_follow_the_page_from_light_to_dark_and_onto_paper(reader: Reader, pages: dict[str, Path]) -> None:
    def scheme(value: str, media: str = "") -> None:
        reader.tell("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": value}])

    try:
        scheme("light")
        reader.open(pages["dialogsum"])
        fills = [reader.run(BAR)]
        assert [pair for pair in reader.run(CONTRASTS) if pair[0] < 4.5] == []
        scheme("dark")
        fills.append(reader.run(BAR))
        assert [pair for pair in reader.run(CONTRASTS) if pair[0] < 4.5] == []
        scheme("dark", "print")
        fills.append(reader.run(BAR))
        assert reader.shown(".filters, .bar") == []
        assert fills == ["rgb(20, 88, 76)", "rgb(132, 204, 186)", "rgb(20, 88, 76)"]
        assert reader.drawings == 1
    finally:
        reader.tell("Emulation.setEmulatedMedia", media="", features=[])


def test_the_keyboard_reaches_everything_and_shows_where_it_is(reader: Reader, pages: dict[str, Path]) -> None:
    reader.open(pages["dialogsum"])
    selector = "a, summary, button:enabled, select, input:not([type=radio]), input:checked, [tabindex='0']"
    seen_by_all = "(one) => one.matches('.skip') || one.checkVisibility()"
    wanted = reader.run(f"return [...document.querySelectorAll({selector!r})].filter({seen_by_all}).length")
    reached, seen = set(), []
    for _ in range(wanted):
        ActionChains(reader.browser).send_keys(Keys.TAB).perform()
        reached.add(reader.browser.switch_to.active_element)
        # A radio button lies unseen over its label, which shows the focus in its place.
        script = (
            "const one = document.activeElement; const place = one.type === 'radio' ? one.nextElementSibling : one;"
            "const { outlineStyle, outlineWidth } = getComputedStyle(place); return [outlineStyle, outlineWidth]"
        )
        seen.append(reader.run(script))
    assert len(reached) == wanted > 20
    assert seen == [["solid", "3px"]] * wanted
    kind = reader.find("[name=kind]:checked")
    reader.redraw(lambda: kind.send_keys(Keys.ARROW_RIGHT))
    assert reader.find("[name=kind]:checked").get_attribute("value") == "subtask"


def test_everything_can_be_read_without_javascript(reader: Reader, pages: dict[str, Path], reports: dict[str, Report]) -> None:
    reader.tell("Emulation.setScriptExecutionDisabled", value=True)
    try:
        reader.open(pages["dialogsum"], drawn=False)
        text = reader.browser.page_source
        rows = len(reader.every(".figures[data-fold=proficiency] tbody tr"))
        articles = [one for one in reader.every("[data-sample]") if one.is_displayed()]
        headings = [one.text for one in reader.every("h3 > .kind:only-child") if one.is_displayed()]
    finally:
        reader.tell("Emulation.setScriptExecutionDisabled", value=False)
    assert "The charts need JavaScript" in text
    assert rows == 60
    assert len(articles) == len(reports["dialogsum"]["samples"])
    assert headings == ["Domains", "Sub-tasks"]


def test_a_study_without_models_tells_what_the_data_consists_of(reader: Reader, pages: dict[str, Path]) -> None:
    reader.open(pages["empty"])
    assert reader.shown("h2") == [
        "Priors: what the data consists of",
        "Affinities: how much of each the judge sees",
        "How this was made",
    ]
    assert reader.shown(".lead") == ["What 1 instance consists of: 1 domain and 1 sub-task. No model’s answers were studied."]
    assert "Nothing is missing: every instance was rated." in reader.shown("[aria-labelledby=making]")[0]

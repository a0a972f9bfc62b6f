"""The page for whoever reads it without a script, on a small screen, in the dark, by keyboard or by ear."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from evals.reports.wording import number
from tests.evals.arena.reading import PAGES, Figures, opened
from tests.evals.browser import Reader


def test_all_figures_are_there_without_javascript(reader: Reader, pages: dict[str, Path], reports: dict[str, Figures]) -> None:
    found = reports["usual"]
    opened(reader, pages, "usual")
    with_script = reader.run("return document.querySelectorAll('td').length")
    reader.tell("Emulation.setScriptExecutionDisabled", value=True)
    try:
        opened(reader, pages, "usual")
        headings = [one.text for one in reader.every("h2") if one.is_displayed()]
        parts = [one.text for one in reader.every("[data-part] h3") if one.is_displayed()]
        controls = [one for one in reader.every("main button, main select") if one.is_displayed()]
        count = len(reader.every("td"))
        cells = [cell for one in reader.every("table") for cell in one.text.split()]  # what is shown, and no more
    finally:
        reader.tell("Emulation.setScriptExecutionDisabled", value=False)
    assert "Read the battles" not in headings
    assert len(headings) == 9
    assert len(parts) == len(found["standings"])
    assert controls == []
    assert count == with_script
    for part in found["standings"]:
        for cell in part["models"]:
            assert number(cell["score"], 0) in cells


@pytest.mark.parametrize("name", ["usual", "hostile", "many", "one game"])
def test_nothing_sticks_out_of_a_small_screen(reader: Reader, pages: dict[str, Path], name: str) -> None:
    reader.tell("Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1, mobile=True)
    try:
        opened(reader, pages, name)
        assert reader.run("return [document.documentElement.scrollWidth, innerWidth]") == [360, 360]
        assert reader.complaints == []
    finally:
        reader.tell("Emulation.clearDeviceMetricsOverride")


# A colour as the screen has it, whatever it is mixed of: painted over what lies behind it, and read again.
CONTRASTS = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const painted = (colours) => {
  for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
  return canvas.getImageData(0, 0, 1, 1).data;
};
const behind = (element) => {
  const found = [];
  for (; element; element = element.parentElement) found.unshift(getComputedStyle(element).backgroundColor);
  return found;
};
return [...document.querySelectorAll("main *, footer *")]
  .filter((element) => element.checkVisibility() && !element.closest("svg, select, :disabled"))
  .filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
  .map((element) => {
    const ground = behind(element);
    const [one, other] = [[...ground, getComputedStyle(element).color], ground].map(painted).map(light).sort((a, b) => b - a);
    return [(one + 0.05) / (other + 0.05), element.outerHTML.slice(0, 200)];
  });
"""


def test_it_can_be_read_in_the_light_and_in_the_dark(reader: Reader, pages: dict[str, Path]) -> None:
    grounds = []
    try:
        for scheme in ("light", "dark"):
            reader.tell("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": scheme}])
            for name in ("usual", "one game"):
                opened(reader, pages, name)
                found = reader.run(CONTRASTS)
                assert len(found) > 40
                assert [pair for pair in found if pair[0] < 4.5] == []
            grounds.append(reader.run("return getComputedStyle(document.body).backgroundColor"))
    finally:
        reader.tell("Emulation.setEmulatedMedia", media="", features=[])
    assert grounds == ["rgb(251, 250, 247)", "rgb(25, 26, 27)"]


@pytest.mark.parametrize("name", PAGES)
def test_headings_tables_and_controls_tell_what_they_are(reader: Reader, pages: dict[str, Path], name: str) -> None:
    opened(reader, pages, name)
    levels = reader.run("return [...document.querySelectorAll('h1, h2, h3, h4')].map((one) => Number(one.tagName[1]))")
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
    script = (
        "return [...document.querySelectorAll('select, button, [role=region], [role=group], [role=img]')].filter((one) => "
        "!(one.ariaLabel || one.textContent.trim() && one.tagName === 'BUTTON' || one.labels?.[0]?.textContent.trim()))"
        ".map((one) => one.outerHTML.slice(0, 100))"
    )
    assert reader.run(script) == []
    ids = reader.run("return [...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    labelled = reader.run(
        "return [...document.querySelectorAll('[aria-labelledby]')].map((one) => one.ariaLabelledByElements.length)"
    )
    assert set(labelled) == {1}


def test_the_keyboard_reaches_everything(reader: Reader, pages: dict[str, Path]) -> None:
    opened(reader, pages, "usual")
    selector = "a, button:enabled, select, [tabindex='0']"
    script = f"return [...document.querySelectorAll({selector!r})].filter((one) => one.checkVisibility()).length"
    wanted = reader.run(script)
    reached, rings = set(), set()
    for _ in range(wanted):
        ActionChains(reader.browser).send_keys(Keys.TAB).perform()
        reached.add(reader.browser.switch_to.active_element)
        rings.add(reader.run("return getComputedStyle(document.activeElement).outlineStyle"))
    assert len(reached) == wanted > 30
    assert rings == {"solid"}


@pytest.mark.parametrize("width", [400, 520])
def test_on_a_telephone_nothing_is_cut_off_and_each_figure_says_what_it_is(
    reader: Reader, pages: dict[str, Path], width: int
) -> None:
    reader.tell("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=True)
    try:
        opened(reader, pages, "usual")
        script = (
            "return [...document.querySelectorAll(arguments[0])].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
        )
        assert reader.run(script, ".scroll, tbody td, tbody th, .narrower:has(circle)") == 0
        (label,) = reader.run(
            "const cell = document.querySelector('[aria-label=\"Table of ratings\"] td[data-label=Rating]');"
            "return [getComputedStyle(cell, '::before').content]"
        )
        assert label == '"Rating"'
        ends = (
            "[...document.querySelectorAll('#ratings ~ figure .narrower path')].map((one) => one.getBoundingClientRect().right)"
        )
        assert max(reader.run(f"return {ends}")) <= width, "the winner's mark is in sight"
        assert "Sort by" in reader.run("return getComputedStyle(document.querySelector('thead:has(button)'), '::before').content")
    finally:
        reader.tell("Emulation.clearDeviceMetricsOverride")

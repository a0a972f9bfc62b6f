"""``magistrate view``: the page on which verdicts are read, in a real browser."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from judges.data.rows import row_of
from judges.llm_eval import LLMEval
from judges.runner import prepare
from judges.texts import TextReader, texts_beside
from judges.verdict import Verdict
from judges.verdict_lines import sidecar
from magistrate.cli.main import SAMPLE
from tests.chromium import need_chromium, new_browser
from tests.magistrate.test_cli import assert_one_sentence, magistrate, read, score, write

HOSTILE = "</script><script>document.title = 'taken'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    need_chromium()
    opened = new_browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.quit()


def made(rows: list[dict[str, Any]], output: Path, **fields: Any) -> Path:
    """A file of verdicts on some rows, as LLM-Eval is shown them, without a model."""
    verdicts = []
    for number, row in enumerate(rows, start=1):
        key = prepare(row_of(row, number), LLMEval()).key
        verdict: dict[str, Any] = {"status": "scored", "scores": {"content": number % 6, "grammar": 5}, **fields}
        if number % 10 == 0:
            verdict = {"status": "unscored", "reason": f"rows.jsonl row {number}: {HOSTILE}"}
        verdicts.append(Verdict(id=str(row["id"]), judge="llm-eval", sample=key, fingerprint="0" * 16, **verdict).as_fields())
    return write(output, verdicts)


def opened(browser: webdriver.Chrome, page: Path) -> list[Any]:
    browser.get(page.as_uri())
    end = time.monotonic() + 60
    while not (rows := browser.find_elements(By.CSS_SELECTOR, "table.verdicts tbody tr")) and time.monotonic() < end:
        time.sleep(0.05)
    return rows


def open_first(browser: webdriver.Chrome) -> str:
    browser.find_element(By.CSS_SELECTOR, "table.verdicts tbody button").click()
    end = time.monotonic() + 60
    while not (found := browser.find_elements(By.CSS_SELECTOR, ".opened section")) and time.monotonic() < end:
        time.sleep(0.05)
    return found[0].text


def test_prompts_and_answers_are_kept_and_shown(browser: webdriver.Chrome, tmp_path: Path) -> None:
    output = tmp_path / "v.jsonl"
    done = score(SAMPLE, output, "--limit", "3", "--keep-texts")
    assert done.returncode == 0, done.stderr
    texts = TextReader(texts_beside(output)).of(Verdict.from_json(output.read_text().splitlines()[0]))
    assert texts is not None
    assert json.loads(texts.answers[0]) == read(output)[0]["scores"]
    shown = magistrate("view", output)
    assert shown.stdout == f"3 verdicts: {tmp_path / 'v.html'}\n"
    assert len(opened(browser, tmp_path / "v.html")) == 3
    said = open_first(browser)
    assert texts.answers[0] in said
    assert read(SAMPLE)[0]["response"] in said


def test_verdicts_are_filtered_and_their_prompts_rendered_again(browser: webdriver.Chrome, tmp_path: Path) -> None:
    rows = [{"id": f"r{number}", "context": "Tea?", "response": f"{HOSTILE} {number}"} for number in range(1, 251)]
    source = write(tmp_path / "rows.jsonl", rows)
    output = made(rows, tmp_path / "v.jsonl", notes=[HOSTILE])
    done = magistrate("view", output, "--input", source, "-o", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert len(opened(browser, tmp_path / "page.html")) == 100
    count = browser.find_element(By.CSS_SELECTOR, "[data-count]")
    assert count.text == "250 verdicts"
    form = browser.find_element(By.CSS_SELECTOR, ".filters")
    Select(form.find_element(By.NAME, "status")).select_by_value("unscored")
    assert count.text == "25 of 250 verdicts"
    Select(form.find_element(By.NAME, "status")).select_by_value("")
    content = Select(form.find_element(By.NAME, "score 0"))
    assert content.options[0].text == "all"
    content.select_by_index(3)  # a score of 2
    wanted = [number for number in range(1, 251) if number % 6 == 2 and number % 10]
    assert count.text == f"{len(wanted)} of 250 verdicts"
    cells = browser.find_elements(By.CSS_SELECTOR, "table.verdicts tbody tr td:first-child")
    assert [cell.text for cell in cells] == [f"r{number}" for number in wanted]
    said = open_first(browser)
    assert f"{HOSTILE} {wanted[0]}" in said  # shown as text
    assert browser.title == "v.jsonl – verdicts"
    content.select_by_index(0)
    form.find_element(By.NAME, "words").send_keys("ROW 240:")
    assert count.text == "1 of 250 verdicts"


def test_what_was_judged_is_seen_without_scrolling(browser: webdriver.Chrome, tmp_path: Path) -> None:
    rows = [{"id": "r1", "context": "Tea? " * 2000, "response": "The judged words."}]
    output = made(rows, tmp_path / "v.jsonl")
    (verdict,) = read(output)
    turns = [{"role": "user", "content": f"{rows[0]['context']} {rows[0]['response']}"}]
    own = {"sample": verdict["sample"], "fingerprint": verdict["fingerprint"], "occurrence": 1}
    write(texts_beside(output), [{"id": "r1", **own, "prompts": [turns], "answers": ["The answer."]}])
    assert magistrate("view", output).returncode == 0
    opened(browser, tmp_path / "v.html")
    open_first(browser)
    answer, prompt = browser.find_elements(By.CSS_SELECTOR, ".opened pre")
    assert answer.text == "The answer."
    assert prompt.text.endswith("The judged words.")
    below = "return arguments[0].scrollHeight - arguments[0].clientHeight - arguments[0].scrollTop"
    assert browser.execute_script(below, prompt) <= 1
    assert browser.execute_script("return arguments[0].scrollTop", prompt) > 0


def test_words_stay_whole_and_rows_stand_as_lines_on_a_telephone(browser: webdriver.Chrome, tmp_path: Path) -> None:
    label = "wise " * 60 + "end"
    scores = {f"ground_truth_completeness_{number}": 1e308 for number in range(12)} | {"label": label}
    rows = [{"id": "r" * 300, "context": "Tea?", "response": "Yes."}]
    output = made(rows, tmp_path / "v.jsonl", scores=scores)
    assert magistrate("view", output).returncode == 0
    size = "Emulation.setDeviceMetricsOverride"
    heights = (
        "return [...document.querySelectorAll('#verdicts :is(th, td:nth-child(n + 2))')].map((cell) => {"
        "const range = document.createRange(); range.selectNodeContents(cell);"
        "return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size; })"
    )
    wide = "return document.documentElement.scrollWidth <= innerWidth"
    try:
        browser.execute_cdp_cmd(size, {"width": 1280, "height": 1000, "deviceScaleFactor": 1, "mobile": False})
        (row,) = opened(browser, tmp_path / "v.html")
        assert set(browser.execute_script(heights)[:-1]) == {1}  # a long label has many lines
        assert browser.execute_script(wide)
        assert browser.find_element(By.CSS_SELECTOR, ".filters details").get_attribute("open")
        assert row.find_element(By.TAG_NAME, "button").text == "r" * 200 + "…"
        assert "1e+308" in row.text
        assert label not in row.text
        said = open_first(browser)
        assert "r" * 300 in said
        assert label in said
        browser.execute_cdp_cmd(size, {"width": 400, "height": 1000, "deviceScaleFactor": 1, "mobile": True})
        (row,) = opened(browser, tmp_path / "v.html")
        assert browser.execute_script(wide)
        assert not browser.find_element(By.CSS_SELECTOR, ".filters details").get_attribute("open")
        assert not browser.find_element(By.CSS_SELECTOR, "#verdicts thead").is_displayed()
        lines = browser.execute_script(
            "return [...document.querySelectorAll('#verdicts td > span')].map((text) => text.getBoundingClientRect().x)"
        )
        assert len(set(lines)) == 1
        assert lines[0] > 150
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_what_cannot_be_viewed_is_a_sentence(tmp_path: Path) -> None:
    rows = [{"id": "1", "context": "Tea?", "response": "Yes."}]
    output = made(rows, tmp_path / "v.jsonl")
    other = write(tmp_path / "other.jsonl", [{"id": "1", "context": "Tea?", "response": "No."}])
    assert_one_sentence(magistrate("view", output, "--input", other), "gives a prompt that a verdict", "options")
    assert_one_sentence(magistrate("view", other), "is not a Magistrate verdict")
    for page in (output, sidecar(output), texts_beside(output)):
        page.touch()
        assert_one_sentence(magistrate("view", output, "-o", page), "is an input")
    assert_one_sentence(magistrate("view", output, "-o", "-"), "is not the name of a file")
    assert_one_sentence(magistrate("view", tmp_path), "holds no verdicts of units")
    empty = write(tmp_path / "empty.jsonl", [])
    (tmp_path / "empty.html").write_text("precious")
    assert_one_sentence(magistrate("view", empty), "holds no verdicts")
    assert (tmp_path / "empty.html").read_text() == "precious"
    for judge, words in (("jury", "view the files of its members"), ("kindness", "give its rubric as `--judge FILE.toml`")):
        rows = [json.loads(line) | {"judge": judge} for line in output.read_text().splitlines()]
        assert_one_sentence(magistrate("view", write(tmp_path / "j.jsonl", rows), "--input", other), words)


def test_a_server_sends_no_texts_to_keep(tmp_path: Path) -> None:
    done = magistrate(
        "score", SAMPLE, "-o", tmp_path / "v.jsonl", "--server", "http://127.0.0.1:9", "--keep-texts", "--judge", "llm-eval"
    )
    assert_one_sentence(done, "`--keep-texts` has no meaning with `--server`")
    assert_one_sentence(score(SAMPLE, Path("-"), "--keep-texts"), "`--keep-texts` writes beside a file")

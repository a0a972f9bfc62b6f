"""The pages in a real browser, on a real server with a real store."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import httpx
import pytest
from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from evals.reports.wording import plain
from judges.data.rows import row_of
from judges.expected import Expectation
from judges.llm_eval import LLMEval
from judges.runner import prepare
from judges.verdict import Verdict
from server.app import protect
from server.batches.lines import BatchLine, error_line, output_line
from server.errors import ApiError, error_body
from server.hosting.hosted_model import State
from server.metrics import Metrics
from server.pages.pages import add_pages
from server.pages.wording import BATCH_WORDS, LONGEST, MODEL_WORDS, OPENING, Passage, read_result
from server.routes import batches, files, models, operations
from server.safety.callers import make_key
from server.settings import Settings
from server.store import BatchRecord, FilePart, Result, Store
from server.store.records import BatchStatus
from tests.chromium import CONTRASTS, need_chromium, new_browser
from tests.server.live import Live, client_of, serving, within

HOSTILE = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"
OVERRIDE = "\N{RIGHT-TO-LEFT OVERRIDE}"


@dataclass
class SomeModel:
    """A hosted model, as far as the pages look at it."""

    name: str
    state: str = "ready"
    reason: str | None = None
    restarts: int = 0
    context: int | None = 8192
    adapters: list[Any] = field(default_factory=list)
    available: bool = True
    created: int = 0
    spec: Any = field(default_factory=lambda: SimpleNamespace(model="magistrate-tiny"))


class SomePool:
    """A court without engines."""

    def __init__(self, *hosts: SomeModel) -> None:
        self.models = {host.name: host for host in hosts or (SomeModel("magistrate-tiny"),)}

    def full_name(self, model: str | None) -> str:
        return model or next(iter(self.models))


class SomeDesk:
    """A desk without a worker."""

    def __init__(self) -> None:
        self.paused: str | None = None

    def waits_because(self, batch: BatchRecord) -> str | None:
        return self.paused if batch.status == "in_progress" else None

    def work_arrived(self) -> None:
        pass


def application(store: Store, pool: SomePool, **settings: Any) -> FastAPI:
    app = FastAPIOffline(docs_url=None, redoc_url=None)
    app.state.store, app.state.pool, app.state.batches = store, pool, SomeDesk()
    for routes in (files, batches, models, operations):
        app.include_router(routes.router)
    add_pages(app)
    protect(app, Settings(port=0, **settings), Metrics())
    return app


def new_batch(
    store: Store, lines: int = 4, *, owner: str = "local", filename: str = "samples.jsonl", metadata: dict[str, str] | None = None
) -> BatchRecord:
    file = store.begin_file(owner, "batch", filename)
    data = b"{}\n" * lines
    if lines:
        store.add_part(file.id, FilePart(0, 1, lines, data, []))
    file = store.finish_file(file.id, bytes=len(data), lines=lines, model=None)
    return store.create_batch(owner, file, "/v1/judgments", "24h", metadata)


def verdict(number: int, custom_id: str | None = None, **fields: Any) -> str:
    """The line of an output file with a verdict."""
    values: dict[str, Any] = {"judge": "llm-eval", "status": "scored", "scores": {"content": 4, "grammar": 5}, "sample": "0" * 32}
    made = Verdict(id=custom_id or str(number), fingerprint="0" * 16, **values | fields)
    body = {"object": "list", "judge": made.judge, "model": "magistrate-tiny", "data": [asdict(made)]}
    return output_line(BatchLine(number, f"{number:024x}", custom_id, {}), 200, body)


def record(
    store: Store, batch: BatchRecord, number: int, text: str | None = None, custom_id: str | None = None, **fields: Any
) -> None:
    """Record a verdict, or, with a text, a line that failed for this reason."""
    custom_id = custom_id or f"r{number}"
    line = BatchLine(number, f"{number:024x}", custom_id, {})
    made = verdict(number, custom_id, **fields) if text is None else error_line(line, "invalid_json_line", text)
    assert store.record([Result(batch.id, 0, number, custom_id, text is not None, made)]) == 1


def new_key(store: Store, name: str = "ada") -> str:
    key_id, text, digest = make_key()
    store.add_key(key_id, name, digest)
    return text


def page(app: FastAPI, path: str = "/", key: str | None = None, **headers: str) -> httpx.Response:
    """A page, without a browser."""

    async def asking() -> httpx.Response:
        async with client_of(app) as client:
            return await client.get(path, auth=("anyone", key) if key else None, headers=headers)

    return asyncio.run(asking())


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A browser for the whole module. A test that fails on what it says in its log knows that it is its own."""
    need_chromium()
    opened = new_browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.quit()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()


@pytest.fixture
def pool() -> SomePool:
    return SomePool()


@pytest.fixture
def live(store: Store, pool: SomePool) -> Iterator[Live]:
    app = application(store, pool)
    with serving(app, app.state.settings) as running:
        yield running


@dataclass
class Reader:
    """Someone who reads the pages of a server."""

    browser: webdriver.Chrome
    live: Live

    def open(self, path: str = "/") -> None:
        self.browser.get("about:blank")
        _ = self.complaints
        self.browser.get(f"http://127.0.0.1:{self.live.port}{path}")

    def find(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        return [element.text for element in self.browser.find_elements(By.CSS_SELECTOR, selector)]

    def rows(self, selector: str) -> list[list[str]]:
        """The texts of the cells of some rows."""
        found = self.browser.find_elements(By.CSS_SELECTOR, selector)
        return [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th, td")] for row in found]

    @property
    def text(self) -> str:
        return self.find("body").text

    def shows(self, text: str) -> bool:
        """Whether the page holds a text now. It does not while it is being loaded again."""
        try:
            return text in self.text
        except WebDriverException:
            return False

    @property
    def batches(self) -> SomeDesk:
        batches: SomeDesk = self.live.server.config.app.state.batches  # type: ignore[union-attr]
        return batches

    @property
    def complaints(self) -> list[str]:
        """What the browser found wrong: blocked scripts and styles, faults of scripts, pages not found."""
        browser: Any = self.browser
        return [entry["message"] for entry in browser.get_log("browser")]


@pytest.fixture
def reader(browser: webdriver.Chrome, live: Live) -> Reader:
    return Reader(browser, live)


def test_a_first_visit_tells_how_to_send_a_batch(reader: Reader) -> None:
    reader.open()
    assert reader.texts("h1, h2, h3") == ["Magistrate", "Models", "Batches", "With curl", "With OpenAI’s client for Python"]
    address = f"http://127.0.0.1:{reader.live.port}/v1"
    curl, python = reader.find("[data-example=curl]").text, reader.find("[data-example=python]").text
    assert address in curl
    assert address in python
    assert (curl.count("\n"), python.count("\n")) == (2, 3)
    assert reader.find("main a[href='/docs']").is_displayed()
    assert "Authorization" not in curl
    assert reader.complaints == []


def test_what_a_first_visit_tells_works(reader: Reader, store: Store, tmp_path: Path) -> None:
    reader.open()
    line, curl, python = (reader.find(f"[data-example={name}]").text for name in ("line", "curl", "python"))
    (tmp_path / "samples.jsonl").write_text(line + "\n")
    if shutil.which("curl"):
        subprocess.run(["bash", "-euc", curl], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    else:
        pytest.skip("curl is not on this machine")
    python = python.replace('"samples.jsonl"', repr(str(tmp_path / "samples.jsonl")))
    exec(python, {})
    made = store.batches("local")
    assert [(batch.total, batch.endpoint) for batch in made] == [(1, "/v1/judgments")] * 2
    (part,) = store.lease("test", ["magistrate-tiny"], parts=1, seconds=60)
    assert json.loads(part.data) == json.loads(line)


def test_with_keys_a_first_visit_tells_where_the_key_goes(store: Store, pool: SomePool) -> None:
    text = page(application(store, pool, require_keys=True), "/", key=new_key(store)).text
    assert text.count("Authorization: Bearer $MAGISTRATE_KEY") == 2
    assert "import os, openai" in text
    assert 'os.environ["MAGISTRATE_KEY"]' in text


def test_models_are_shown_as_they_are(reader: Reader, pool: SomePool) -> None:
    why = "there is no room on the GPU"
    adapters = [SimpleNamespace(name="tone@0123456789ab"), SimpleNamespace(name="harm@ba9876543210")]
    hosts = SomeModel("large", adapters=adapters), SomeModel("small", "failed", why, restarts=1234, context=None)
    pool.models = {host.name: host for host in hosts}
    reader.open()
    ready, failed = reader.rows("[data-model]")
    assert ready == ["large", "Ready", "8,192 tokens", "tone@0123456789ab, harm@ba9876543210", "0"]
    assert failed == ["small", f"Failed\n{why}", "not known yet", "none", "1,234"]
    assert reader.find("[aria-labelledby=models] caption").text == "2 models are hosted here, the default first."


def test_a_model_that_gets_ready_is_shown_without_loading_the_page_again(reader: Reader, pool: SomePool) -> None:
    host = pool.models["magistrate-tiny"]
    host.state, host.context, host.reason = "loading", None, "<b>the weights are read</b>"
    reader.open()
    assert "<b>the weights are read</b>" in reader.find("[data-model]").text
    assert reader.find("[data-context]").text == "not known yet"
    host.state, host.context, host.reason, host.restarts = "ready", 32_768, None, 3
    assert within(15, lambda: reader.find("[data-word]").text == "Ready")
    assert within(5, lambda: reader.find("[data-context]").text == "32,768 tokens")
    assert "weights" not in reader.text
    assert reader.find("[data-restarts]").text == "3"


def test_batches_are_listed_newest_first_and_in_pages(reader: Reader, store: Store) -> None:
    made = [new_batch(store, number % 3) for number in range(23)]
    store.cancel_batch(made[-1].id, "local")
    reader.open()
    assert reader.texts("#content tbody th a") == [batch.id for batch in made[:2:-1]]
    assert reader.texts("[data-status]")[0] == "Being cancelled"
    moment = reader.find("tbody time")
    assert moment.get_attribute("datetime") == time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(made[-1].created_at))
    assert moment.text.endswith(" UTC")
    reader.browser.find_element(By.LINK_TEXT, "Older batches").click()
    assert reader.texts("#content tbody th a") == [made[2].id, made[1].id, made[0].id]
    reader.browser.find_element(By.LINK_TEXT, "Newest batches").click()
    reader.browser.find_element(By.LINK_TEXT, made[-1].id).click()
    assert reader.find("h1").text == f"Batch {made[-1].id}"
    assert reader.complaints == []


@pytest.mark.parametrize("on_its_own_page", [True, False])
def test_progress_moves_as_results_are_recorded(reader: Reader, store: Store, on_its_own_page: bool) -> None:
    batch = new_batch(store, 4, metadata={"study": "first"})
    reader.open(f"/batches/{batch.id}" if on_its_own_page else "/")
    bar, counts = reader.find("progress"), reader.find(".counts")
    assert (bar.get_property("value"), bar.get_property("max")) == (0, 4)
    assert counts.text == "0 of 4 lines: 0 completed, 0 failed"
    record(store, batch, 1)
    record(store, batch, 2, "line 2 is no JSON")
    assert within(10, lambda: counts.text == "2 of 4 lines: 1 completed, 1 failed")
    assert bar.get_property("value") == 2
    spoken = reader.find("[data-spoken]")
    assert spoken.get_attribute("aria-live") == "polite"
    assert spoken.get_property("textContent") == f"{batch.id}: In progress, 2 of 4 lines, 1 failed."
    record(store, batch, 3)
    record(store, batch, 4)
    assert within(10, lambda: reader.find("[data-status]").text == "Completed")
    assert bar.get_property("value") == 4
    assert spoken.get_property("textContent") == f"{batch.id}: Completed, 4 of 4 lines, 1 failed."
    assert "There are more results" in reader.text
    reader.browser.find_element(By.LINK_TEXT, "Show them").click()
    assert within(10, lambda: len(reader.texts(".verdicts tbody tr")) == 4)
    assert "There are more results" not in reader.text
    assert reader.complaints == []


def test_many_batches_are_followed_a_few_at_a_time_to_the_end(reader: Reader, store: Store) -> None:
    made = [new_batch(store, 1) for _ in range(9)]
    reader.open()
    for batch in made:
        record(store, batch, 1)
    assert within(20, lambda: reader.texts("[data-status]") == ["Completed"] * 9)


def test_a_batch_that_does_not_move_says_why(reader: Reader, store: Store) -> None:
    batch = new_batch(store, 4)
    for path in ("/", f"/batches/{batch.id}"):
        reader.batches.paused = None
        reader.open(path)
        notice = reader.find("[data-paused]")
        assert not notice.is_displayed()
        reader.batches.paused = "the disk is full"
        record(store, batch, 1 if path == "/" else 2)
        assert within(10, lambda notice=notice: notice.text.endswith("at the moment: the disk is full"))  # type: ignore[misc]
        reader.open(path)
        assert reader.find("[data-paused]").text.endswith("at the moment: the disk is full")


def test_a_lost_server_is_told_of_and_found_again(browser: webdriver.Chrome, store: Store, pool: SomePool) -> None:
    batch = new_batch(store, 4)
    app = application(store, pool)
    with serving(app, app.state.settings) as live:
        reader = Reader(browser, live)
        reader.open(f"/batches/{batch.id}")
        assert not reader.find("[data-lost]").is_displayed()
    assert within(10, lambda: reader.find("[data-lost]").is_displayed())
    record(store, batch, 1)
    with serving(app, Settings(port=live.port)):
        assert within(20, lambda: reader.find(".counts").text.startswith("1 of 4"))
        assert not reader.find("[data-lost]").is_displayed()


def test_a_batch_is_told_in_full(reader: Reader, store: Store) -> None:
    batch = new_batch(store, 4, filename="say \"hi\" & 'bye' <b>.jsonl", metadata={"study": "first"})
    record(store, batch, 1)
    record(store, batch, 2, "line 2 is no JSON")
    store.fail_batch(batch.id, "the model is gone")
    reader.open(f"/batches/{batch.id}")
    assert reader.texts("h1, h2") == [f"Batch {batch.id}", "Failed", "About this batch", "Verdicts"]
    assert "It failed: the model is gone" in reader.text
    facts = dict(zip(reader.texts(".facts dt"), reader.texts(".facts dd"), strict=True))
    assert facts["Input"] == "say \"hi\" & 'bye' <b>.jsonl (4 lines, 12 bytes)"
    assert (facts["Endpoint"], facts["Model"], facts["study"]) == ("/v1/judgments", "The server’s default", "first")
    for words, text in (("Output file", '"status": "scored"'), ("Error file", "line 2 is no JSON")):
        address = reader.browser.find_element(By.LINK_TEXT, words).get_attribute("href")
        assert address is not None
        assert text in httpx.get(address).text
    assert store.delete_file(batch.input_file_id, "local")
    reader.open(f"/batches/{batch.id}")
    assert "The file has been deleted." in reader.text


def test_verdicts_are_read_page_by_page(reader: Reader, store: Store) -> None:
    batch = new_batch(store, 128)
    for number in range(1, 121):
        record(store, batch, number, f"line {number} is no JSON" if number % 20 == 0 else None)
    reader.open(f"/batches/{batch.id}")

    def shows(numbers: list[int]) -> bool:
        try:
            return reader.texts(".verdicts tbody th .aside") == [f"line {number}" for number in numbers]
        except StaleElementReferenceException:  # the page before it is leaving
            return False

    assert shows(list(range(1, 51)))
    assert reader.texts(".mark.failed") == ["✕ Failed"] * 2
    assert "line 20 is no JSON" in reader.text
    for link, first, last in [("Later", 51, 100), ("Later", 101, 120), ("Earlier", 51, 100), ("Earlier", 1, 50)]:
        reader.browser.find_element(By.LINK_TEXT, f"{link} lines").click()
        assert within(10, partial(shows, list(range(first, last + 1))))
        assert reader.find(".verdicts caption").text == f"Lines {first} to {last}, in the order of the input."
    field = reader.find("#after")
    field.clear()
    field.send_keys("117", Keys.ENTER)
    assert within(10, lambda: shows([118, 119, 120]))
    reader.browser.find_element(By.LINK_TEXT, "First lines").click()
    reader.browser.find_element(By.LINK_TEXT, "Show only the lines that failed").click()
    assert within(10, lambda: shows([20, 40, 60, 80, 100, 120]))
    reader.open(f"/batches/{batch.id}?after=200")
    assert "There is no result after line 200." in reader.text
    assert reader.complaints == []


def test_verdicts_of_every_kind_are_told(reader: Reader, store: Store) -> None:
    batch = new_batch(store, 8)
    whole = "It keeps to the subject, and says so. " * 30
    record(store, batch, 1, judge="rubric:harm", scores={"score": 3.25, "tone": None, "label": "kind"}, justification=whole)
    record(store, batch, 2, status="unscored", reason="the prompt has 9,120 tokens", scores=None)
    record(store, batch, 3, "line 3 lacks the field `method`")
    record(store, batch, 4, judge="discovery", scores={}, detail={"attributes": ["brief"]}, notes=["a name came twice"])
    answer = {"choices": [{"message": {"role": "assistant", "content": "Four."}}]}
    store.record([Result(batch.id, 0, 5, "c", False, output_line(BatchLine(5, "5" * 24, "c", {}), 200, answer))])
    refused = error_body(ApiError(400, "the sample has no `response`"))
    store.record([Result(batch.id, 0, 6, None, True, output_line(BatchLine(6, "6" * 24, None, {}), 400, refused))])
    reader.open()
    rows = reader.rows(".verdicts tbody tr")[::-1]
    assert rows[0][:3] == [f"r1\nline 1 of {batch.id}", "rubric:harm", "score\n3.25\ntone\ndoes not apply\nlabel\nkind"]
    assert rows[0][3].startswith("It keeps to the subject")
    assert rows[0][3].endswith("…\nRead all of it\n, line 1")
    assert rows[1][1:] == ["llm-eval", "○ Unscored", "the prompt has 9,120 tokens"]
    assert rows[2][1:] == ["none", "✕ Failed", "line 3 lacks the field method"]
    assert rows[3][1:] == ["discovery", "No scores", "Details of the answer\n, line 4\nNote: a name came twice"]
    assert rows[4][1:] == ["none", "Answered", "Four."]
    assert rows[5][1:] == ["none", "✕ Failed", "the sample has no response"]
    assert rows[5][0].startswith("no id")
    summary = reader.find(".passage summary")
    summary.send_keys(Keys.ENTER)
    assert reader.find(".passage details p").text == whole.strip()
    assert not reader.find(".passage:has(details) .opening").is_displayed()


def test_nothing_that_a_caller_sends_becomes_part_of_the_page(reader: Reader, store: Store) -> None:
    name = f"evil{OVERRIDE}gpj.jsonl"
    batch = new_batch(store, 3, filename=f"{name}\"'{HOSTILE}", metadata={HOSTILE: HOSTILE})
    spoiled = f"{HOSTILE}{OVERRIDE}\ud800\0\x1b[31m{{{{ 7 * 7 }}}}"
    fields: dict[str, Any] = {
        "justification": spoiled + "x" * 500,
        "judge": spoiled,
        "scores": {HOSTILE: spoiled},
        "detail": {HOSTILE: spoiled},
    }
    record(store, batch, 1, custom_id=spoiled, notes=[spoiled], **fields)
    record(store, batch, 2, spoiled)
    for path in ("/", f"/batches/{batch.id}", f"/batches/{batch.id}?failed=true"):
        reader.open(path)
        assert "taken" not in reader.browser.title
        assert "<script>document.title = 'taken'</script><img" in reader.text
        assert "{{ 7 * 7 }}" in reader.text
        source = reader.browser.page_source
        assert not any(unseen in source for unseen in (OVERRIDE, "\x1b", "\0"))
        assert reader.browser.find_elements(By.CSS_SELECTOR, "main img, main script") == []
        assert reader.complaints == []
    reader.open(f"/batches/{batch.id}")
    assert "evil�gpj.jsonl\"'<script>" in reader.text


def test_the_keyboard_reaches_everything_in_the_order_of_reading(reader: Reader, store: Store) -> None:
    batch = new_batch(store, 128)
    for number in range(1, 60):
        record(store, batch, number, "no JSON" if number == 3 else None, justification="why " * (200 if number == 2 else 1))
    for path in ("/", f"/batches/{batch.id}?after=1", "/batches/none"):
        reader.open(path)
        wanted = reader.browser.execute_script(
            "return [...document.querySelectorAll('a, summary, button, input, pre[tabindex]')]"
            ".filter((element) => element.classList.contains('skip') || element.checkVisibility())"
        )
        reached = []
        for _ in wanted:
            webdriver.ActionChains(reader.browser).send_keys(Keys.TAB).perform()
            reached.append(reader.browser.switch_to.active_element)
            style = "const style = getComputedStyle(document.activeElement); return [style.outlineStyle, style.outlineWidth]"
            assert reader.browser.execute_script(style) == ["solid", "3px"]
        assert reached == wanted
        assert len(wanted) >= 5


def test_the_first_stop_skips_to_the_content(reader: Reader) -> None:
    reader.open()
    webdriver.ActionChains(reader.browser).send_keys(Keys.TAB).perform()
    skip = reader.browser.switch_to.active_element
    assert skip.text == "Skip to the content"
    assert skip.rect["x"] >= 0
    skip.send_keys(Keys.ENTER)
    assert reader.browser.switch_to.active_element == reader.find("main")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(reader: Reader, store: Store, pool: SomePool, scheme: str) -> None:
    reader.batches.paused = "the disk is full"
    pool.models["magistrate-tiny"].reason = "it is slow"
    batch = new_batch(store, 128)
    for number in range(1, 60):
        record(store, batch, number, "no JSON" if number == 3 else None, justification="why " * 200)
    record(store, batch, 61, status="unscored", reason="too long", scores=None)
    feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    reader.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
    try:
        papers = set()
        for path in ("/", f"/batches/{batch.id}?after=1", "/batches/none"):
            reader.open(path)
            found = reader.browser.execute_script(CONTRASTS)
            assert len(found) > 5
            assert [pair for pair in found if pair[0] < 4.5] == []
            papers.add(reader.browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
        assert papers == {"rgb(251, 250, 247)" if scheme == "light" else "rgb(25, 26, 27)"}
    finally:
        reader.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("width", [320, 736, 1280])
def test_nothing_sticks_out_of_a_screen_of_any_width(reader: Reader, store: Store, width: int) -> None:
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    reader.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        for path in ("/", "/?after=batch_0"):
            reader.open(path)
            assert reader.browser.execute_script("return document.documentElement.scrollWidth") == width
        long = "w" * 400
        batch = new_batch(store, 4, filename=long, metadata={long[:64]: long})
        record(store, batch, 1, custom_id=long, judge=long, scores={long: 3, "x": long}, justification=long, detail={long: long})
        for path in ("/", f"/batches/{batch.id}", f"/batches/{batch.id}?after=0"):
            reader.open(path)
            reader.browser.execute_script("for (const more of document.querySelectorAll('details')) more.open = true")
            assert reader.browser.execute_script("return document.documentElement.scrollWidth") == width
    finally:
        reader.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_everything_can_be_read_without_javascript(live: Live, store: Store, tmp_path: Path) -> None:
    need_chromium()
    batch = new_batch(store, 4)
    record(store, batch, 1, justification="why " * 200)
    browser = new_browser(tmp_path / "profile", script=False)
    try:
        reader = Reader(browser, live)
        browser.get("data:text/html,<title>off</title><script>document.title = 'on'</script>")
        assert browser.title == "off"
        reader.open()
        assert reader.find(".counts").text == "1 of 4 lines: 1 completed, 0 failed"
        reader.find("summary").click()
        assert reader.find(".passage details p").text == ("why " * 200).strip()
        reader.browser.find_element(By.LINK_TEXT, batch.id).click()
        record(store, batch, 2)
        assert within(20, lambda: reader.shows("2 of 4 lines"))
    finally:
        browser.quit()


def test_a_browser_shows_its_own_key_s_batches_alone(browser: webdriver.Chrome, store: Store, pool: SomePool) -> None:
    ada, bob = new_key(store, "ada"), new_key(store, "bob")
    hers, his = (new_batch(store, 2, owner=f"key:{name}", filename=f"{name}.jsonl") for name in ("ada", "bob"))
    record(store, his, 1, justification="a secret of bob's")
    app = application(store, pool, require_keys=True)
    with serving(app, app.state.settings) as live:
        reader = Reader(browser, live)
        browser.get(f"http://anyone:{ada}@127.0.0.1:{live.port}/")
        reader.open()
        assert reader.texts("#content tbody th a") == [hers.id]
        assert "for the holder of the key ada" in " ".join(reader.text.split())
        assert "bob" not in browser.page_source
        reader.open(f"/batches/{hers.id}")
        record(store, hers, 1)
        assert within(10, lambda: reader.find(".counts").text.startswith("1 of 2"))
        reader.open(f"/batches/{his.id}")
        assert reader.find("h1").text == "There is no such page"
        assert "secret" not in reader.text
    assert page(app, f"/batches/{his.id}", key=bob).status_code == 200


@pytest.mark.parametrize("path", ["/", "/batches/batch_0199a3f0c1d24be0a1b2c3d4"])
def test_without_a_key_the_browser_is_told_to_ask_for_it(store: Store, pool: SomePool, path: str) -> None:
    app = application(store, pool, require_keys=True)
    for key in (None, "mag_wrong"):
        answer = page(app, path, key=key)
        assert answer.status_code == 401
        assert any(value.startswith("Basic ") for value in answer.headers.get_list("www-authenticate"))
        assert "give your key as the password" in answer.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/batches/none", 404),
        ("/batches/batch_0199a3f0c1d24be0a1b2c3d4", 404),
        ("/?after=" + "x" * 65, 400),
        ("/batches/batch_0199a3f0c1d24be0a1b2c3d4?after=minus", 400),
        ("/batches/batch_0199a3f0c1d24be0a1b2c3d4?after=99999999999999999999", 400),
    ],
)
def test_faults_are_told_on_a_page(store: Store, pool: SomePool, path: str, status: int) -> None:
    answer = page(application(store, pool), path)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    assert "What the server said:" in answer.text


def test_a_closed_store_is_told_on_a_page(store: Store, pool: SomePool, tmp_path: Path) -> None:
    app = application(store, pool)
    for left in tmp_path.glob("store.db*"):
        left.unlink()
    store.close()
    (tmp_path / "store.db").mkdir()
    answer = page(app)
    assert answer.status_code == 503
    assert "<h1>Not available now</h1>" in answer.text
    assert "retry-after" in answer.headers


@pytest.mark.parametrize("host", ["localhost:8700", "127.0.0.1", "[::1]:8700"])
def test_the_address_that_is_told_is_the_one_that_was_asked(store: Store, pool: SomePool, host: str) -> None:
    assert f"http://{host}/v1/files" in page(application(store, pool), host=host).text


def test_pages_are_not_kept_by_browsers(store: Store, pool: SomePool) -> None:
    headers = page(application(store, pool)).headers
    assert headers["cache-control"] == "no-store"
    assert "unsafe" not in headers["content-security-policy"]


def test_the_reference_of_the_api_opens(browser: webdriver.Chrome, store: Store, pool: SomePool) -> None:
    app = application(store, pool)
    with serving(app, app.state.settings) as live:
        reader = Reader(browser, live)
        reader.open("/docs")
        assert within(20, lambda: len(reader.texts(".opblock")) >= 10)
        reader.find(".opblock-summary-control").click()
        assert within(10, lambda: "Responses" in reader.text)
        assert reader.complaints == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r\nb\u2028c\n\td", "a\nb\nc\n\td"),
        ("a\u202eb\u2066c\u2069", "a�b�c�"),
        ("\0\x1b\x7f\x85\ud800", "�����"),
        ("שלום, 你好, naïve 👩‍🚀 \u200f", "שלום, 你好, naïve 👩‍🚀 \u200f"),
    ],
)
def test_only_what_hides_or_reorders_is_replaced(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize("text", ["", " ", "short", "x" * OPENING, "x" * (OPENING + 1), "word " * 5000, "x" * (LONGEST + 1)])
def test_a_long_text_is_opened_and_kept_whole(text: str) -> None:
    passage = Passage.of(text)
    assert len(passage.opening) <= OPENING + 2
    assert text.strip().startswith(passage.opening.removesuffix(" …"))
    assert (passage.whole is None) == (len(text.strip()) <= OPENING)
    assert passage.whole is None or text.strip().startswith(passage.whole)
    assert passage.cut == (len(text.strip()) > LONGEST)


@pytest.mark.parametrize(
    "text",
    [
        *("", "no JSON", "[]", "null", "{}", '{"response": 3}', '{"response": {"body": {"data": [[]]}}}', "[" * 100_000),
        '{"response": {"body": {"data": [{"scores": 3, "notes": 3, "detail": 3, "justification": 3}]}}}',
        '{"response": {"body": {"data": [{"status": "scored", "scores": {"a": [1], "b": true, "c": {}}, "notes": [3]}]}}}',
        *('{"response": {"body": {"choices": [{"text": 3}]}}}', '{"error": {"message": 3}}', '{"error": "x"}'),
    ],
)
@pytest.mark.parametrize("failed", [True, False])
def test_any_record_can_be_shown(store: Store, pool: SomePool, text: str, failed: bool) -> None:
    batch = new_batch(store, 2)
    store.record([Result(batch.id, 0, 1, None, failed, text)])
    assert read_result(Result(batch.id, 0, 1, None, failed, text)).number == 1
    assert page(application(store, pool), f"/batches/{batch.id}").status_code == 200


def test_every_state_has_words() -> None:
    assert set(BATCH_WORDS) == set(get_args(BatchStatus))
    assert set(MODEL_WORDS) == set(get_args(State))


def test_expected_scores_stand_beside_the_scores(store: Store) -> None:
    batch = new_batch(store, 2)
    expected = {"content": Expectation(3.41234, 0.5), "grammar": None}
    record(store, batch, 1, expected=expected)
    (result,) = store.results(batch.id, failed=None)
    assert read_result(result).scores == (("content", "4 (expected 3.412)"), ("grammar", "5"))


def test_the_verdicts_of_a_batch_are_read_with_their_prompts(reader: Reader, store: Store) -> None:
    samples = [{"id": "a", "context": "Tea?", "response": f"<b>Yes</b> {number}"} for number in (1, 2)]
    lines = [{"judge": "llm-eval", "samples": [sample]} for sample in samples]
    data = b"".join(json.dumps({"custom_id": f"r{place}", "body": body}).encode() + b"\n" for place, body in enumerate(lines, 1))
    file = store.begin_file("local", "batch", "rows.jsonl")
    store.add_part(file.id, FilePart(0, 1, 3, data + b"{\n", []))
    file = store.finish_file(file.id, bytes=len(data), lines=3, model=None)
    batch = store.create_batch("local", file, "/v1/judgments", "24h", None)
    key = prepare(row_of(samples[0], 1), LLMEval()).key
    record(store, batch, 1, sample=key)
    record(store, batch, 2)  # a verdict on something else than the line's sample
    record(store, batch, 3, "the line is not JSON")
    reader.open(f"/batches/{batch.id}")
    reader.find(f"a[href='/batches/{batch.id}/verdicts']").click()
    within(20, lambda: reader.shows("3 verdicts"))
    assert [row[:2] for row in reader.rows("table.verdicts tbody tr")] == [["r1", "scored"], ["r2", "scored"], ["r3", "failed"]]
    reader.find("table.verdicts tbody button").click()
    within(20, lambda: reader.shows("<b>Yes</b> 1"))
    reader.browser.find_elements(By.CSS_SELECTOR, "table.verdicts tbody button")[1].click()
    within(20, lambda: reader.shows("could not be read as a request with this sample"))
    assert reader.complaints == []
    reader.open(f"/batches/batch_{'0' * 24}/verdicts")
    assert "You have no batch with this id." in reader.text


def answered_batch(store: Store, url: str, bodies: list[dict[str, Any]], answers: list[dict[str, Any]]) -> BatchRecord:
    """A batch of completions or responses with its answers."""
    data = b"".join(json.dumps({"custom_id": f"r{place}", "body": body}).encode() + b"\n" for place, body in enumerate(bodies, 1))
    file = store.begin_file("local", "batch", "asked.jsonl")
    store.add_part(file.id, FilePart(0, 1, len(bodies), data, []))
    file = store.finish_file(file.id, bytes=len(data), lines=len(bodies), model=None)
    batch = store.create_batch("local", file, url, "24h", None)
    for place, answer in enumerate(answers, 1):
        line = BatchLine(place, f"{place:024x}", f"r{place}", {})
        assert store.record([Result(batch.id, 0, place, f"r{place}", False, output_line(line, 200, answer))]) == 1
    return batch


def opened_texts(reader: Reader, batch: BatchRecord) -> list[list[str]]:
    """The titles and texts of each line of a batch, opened on its page of verdicts."""
    reader.open(f"/batches/{batch.id}/verdicts")
    within(20, lambda: bool(reader.rows("table.verdicts tbody tr")))
    buttons = reader.browser.find_elements(By.CSS_SELECTOR, "table.verdicts tbody button")
    for button in buttons:
        button.click()
    within(20, lambda: len(reader.texts(".opened section")) == len(buttons))
    script = (
        "return [...document.querySelectorAll('.opened section')].map((section) => "
        "[...section.querySelectorAll('h3, pre')].map((element) => element.textContent))"
    )
    found: list[list[str]] = reader.browser.execute_script(script)
    return found


def test_responses_of_a_batch_are_read_with_their_input(reader: Reader, store: Store) -> None:
    parts = [{"type": "input_text", "text": "Red"}, {"type": "input_text", "text": "or green?"}]
    bodies: list[dict[str, Any]] = [
        {"instructions": "Be brief.", "input": "Tea?"},
        {"input": [{"role": "user", "content": parts}]},
    ]
    said = [{"type": "message", "content": [{"type": "output_text", "text": text}]} for text in ("Yes.", "Green.")]
    answers: list[dict[str, Any]] = [{"output": [{"type": "reasoning"}, item]} for item in said]
    batch = answered_batch(store, "/v1/responses", bodies, answers)
    assert opened_texts(reader, batch) == [
        ["answer", "Yes.", "prompt, system", "Be brief.", "prompt", "Tea?"],
        ["answer", "Green.", "prompt, user", "Red\nor green?"],
    ]
    reader.find(f"a[href='/batches/{batch.id}']").click()
    within(20, lambda: reader.shows("asked.jsonl"))
    assert reader.complaints == []


def test_every_answer_of_a_chat_is_read(reader: Reader, store: Store) -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Tea?"}]}], "n": 2}
    answers = [{"choices": [{"message": {"content": text}} for text in ("Yes.", "No.")]}]
    batch = answered_batch(store, "/v1/chat/completions", [body], answers)
    assert opened_texts(reader, batch) == [["answer 1", "Yes.", "answer 2", "No.", "prompt, user", "Tea?"]]

"""Published pages in a real browser: a study's own, which draws its charts, and hostile ones, of which nothing gets out."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from evals.qualeval.report import write
from server.app import protect
from server.metrics import Metrics
from server.pages.published import Published
from server.safety.callers import KeysFirst
from server.settings import Settings
from tests.chromium import need_chromium, new_browser
from tests.evals.browser import Reader
from tests.evals.qualeval.examples import dialogsum
from tests.server.leaks import listening, pages
from tests.server.live import Live, serving
from tests.server.running import RunningServer

TABS = 12
"""Pages that are open at once."""

SETTLING_SECONDS = 1.5

PICTURE = """<svg xmlns="http://www.w3.org/2000/svg"><script>fetch('/v1/files'); location = '/v1/models'</script></svg>"""


def test_a_published_study_draws_its_charts_and_can_call_nobody(magistrate_server: RunningServer, tmp_path: Path) -> None:
    need_chromium()
    folder = magistrate_server.dashboards / "dialogsum"
    folder.mkdir(parents=True)
    write(dialogsum(), folder)
    reader = Reader.start(tmp_path / "profile")
    try:
        reader.open(f"{magistrate_server.url}/dashboards/dialogsum/", drawn=False)
        assert reader.browser.title == "DialogSum"
        reader.browser.switch_to.frame(0)
        reader.wait(lambda: reader.drawings > 0)
        assert reader.complaints == []
        assert reader.run("return document.querySelectorAll('svg path, svg rect').length") > 100
        calls = "return fetch('/v1/models').then(() => 'answered', () => 'refused')"
        assert reader.run(calls) == "refused"
        assert reader.run("return window.origin") == "null", "to the browser it is nobody's page"
        reader.run("document.querySelector('a[href=\"#making\"]').click()")
        reader.wait(lambda: reader.run("return document.scrollingElement.scrollTop") > 0)
    finally:
        reader.browser.quit()
        shutil.rmtree(folder)


class ModelPool:
    """A server of published pages, and of an API that notes what is asked of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.settings = Settings(port=0)
        self.app = FastAPI()
        self.app.state.store = None

        self.app.add_api_route("/v1/{path:path}", self.ask)
        self.app.mount("/dashboards", KeysFirst(Published(directory=folder, html=True), prefix="/dashboards"))
        protect(self.app, self.settings, Metrics())

    def ask(self, path: str) -> None:
        self.asked.append(path)

    def publish(self, name: str, page: str, file: str = "index.html") -> None:
        (self.folder / name).mkdir(exist_ok=True)
        (self.folder / name / file).write_text(page)


@pytest.fixture
def pool(tmp_path: Path) -> ModelPool:
    (tmp_path / "dashboards").mkdir()
    return ModelPool(tmp_path / "dashboards")


@pytest.fixture
def unguarded(pool: ModelPool) -> Iterator[Live]:
    """The same pages, and the same API, from a server that guards nothing."""
    app = FastAPI()
    app.add_api_route("/v1/{path:path}", pool.ask)
    app.mount("/", StaticFiles(directory=pool.folder, html=True))
    with serving(app, pool.settings) as running:
        yield running


@pytest.fixture
def live(pool: ModelPool) -> Iterator[Live]:
    with serving(pool.app, pool.settings) as running:
        yield running


def visit(profile: Path, addresses: list[str]) -> None:
    """Open pages, a few at a time, and leave each a while for what it is up to."""
    need_chromium()
    browser = new_browser(profile)
    try:
        for start in range(0, len(addresses), TABS):
            for address in addresses[start : start + TABS]:
                browser.switch_to.new_window("tab")
                browser.get(address)
            time.sleep(SETTLING_SECONDS)
            first, *others = browser.window_handles
            for tab in others:
                browser.switch_to.window(tab)
                browser.close()
            browser.switch_to.window(first)
    finally:
        browser.quit()


def test_nothing_is_sent_away_by_a_published_page(pool: ModelPool, live: Live, unguarded: Live, tmp_path: Path) -> None:
    with listening() as (port, arrived):
        hostile = list(pages(port).items())
        for number, (_, page) in enumerate(hostile):
            pool.publish(f"page-{number}", page)
        visit(tmp_path / "profile", [f"http://127.0.0.1:{live.port}/dashboards/page-{n}/" for n in range(len(hostile))])
        assert arrived == []
        # The same pages get away with it where nothing guards them.
        some = [n for n, (name, _) in enumerate(hostile) if name in ("fetch", "location", "refresh in the page")]
        visit(tmp_path / "another profile", [f"http://127.0.0.1:{unguarded.port}/page-{n}/" for n in some])
        stolen = [b"GET /fetch HTTP/1.1", b"GET /location HTTP/1.1", b"GET /refresh%20in%20the%20page HTTP/1.1"]
        assert sorted(line for line in arrived if b"favicon" not in line) == stolen


def test_the_api_is_not_asked_by_a_published_page(pool: ModelPool, live: Live, unguarded: Live, tmp_path: Path) -> None:
    ways = "<img src=/v1/files><iframe src=/v1/files></iframe><script>fetch('/v1/files'); location = '/v1/files'</script>"
    pool.publish("page", f"<!doctype html>{ways}<meta http-equiv=refresh content='0;url=/v1/files'>")
    pool.publish("page", PICTURE, "picture.svg")
    pool.publish(
        "page", PICTURE.replace("<svg", "<html").replace("</svg", "</html").replace("2000/svg", "1999/xhtml"), "page.xhtml"
    )
    folder = f"http://127.0.0.1:{live.port}/dashboards/page"
    visit(tmp_path / "profile", [f"{folder}/", f"{folder}/picture.svg", f"{folder}/page.xhtml"])
    assert pool.asked == []
    visit(tmp_path / "another profile", [f"http://127.0.0.1:{unguarded.port}/page/picture.svg"])
    assert set(pool.asked) >= {"files"}, "where nothing guards it, a picture calls the API"


def test_a_page_comes_in_a_frame_whatever_the_browser_has_kept(pool: ModelPool, live: Live, unguarded: Live) -> None:
    pool.publish("page", '<!DOCTYPE html>\n<title>Apples &amp; "pears"</title><p>é</p>')
    bare = unguarded.get("/page/")
    kept = {"if-none-match": bare.headers["etag"], "if-modified-since": bare.headers["last-modified"]}
    answer = httpx.get(f"http://127.0.0.1:{live.port}/dashboards/page/", headers=kept)
    assert answer.status_code == 200
    assert "<title>Apples &amp; &quot;pears&quot;</title>" in answer.text
    assert 'srcdoc="&lt;!DOCTYPE html&gt;&lt;base href=&quot;about:srcdoc&quot;&gt;\n&lt;title&gt;' in answer.text
    assert answer.headers["content-security-policy"].startswith("sandbox allow-scripts allow-downloads; default-src 'none'")
    assert answer.headers["cache-control"] == "no-store"

"""The documentation's pages in a browser: nothing is wider than its column, on a usual screen and on a phone, and their
search and tabs work, from a server and as files.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import built_site
import pytest

pytestmark = pytest.mark.long

TOO_WIDE = """
    () => [...document.querySelectorAll("pre > code")]
        .filter((code) => code.scrollWidth > code.clientWidth)
        .map((code) => `${code.scrollWidth} of ${code.clientWidth} pixels: ${code.innerText.slice(0, 80)}`)
"""
OF_THE_PAGE = "() => document.documentElement.scrollWidth - window.innerWidth"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    site = built_site.build(tmp_path_factory.mktemp("site") / "site")
    found = sorted(page for page in site.rglob("*.html") if page.name != "404.html")
    assert len(found) > 60
    return found


@pytest.fixture
def window(chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    yield context.new_page()
    context.close()


def test_code_fits_its_column(window, pages):
    """At 1280 pixels no block of code has to be scrolled sideways."""
    wide = {}
    for page in pages:
        window.goto(page.as_uri(), wait_until="domcontentloaded")
        if found := window.evaluate(TOO_WIDE):
            wide[page.name] = found
    assert wide == {}


def test_a_phone_does_not_scroll_a_page_sideways(window, pages):
    window.set_viewport_size({"width": 390, "height": 800})
    wide = {}
    for page in pages:
        window.goto(page.as_uri(), wait_until="domcontentloaded")
        if (pixels := window.evaluate(OF_THE_PAGE)) > 0:
            wide[page.name] = pixels
    assert wide == {}


@pytest.mark.parametrize("served", [True, False], ids=["from a server", "as files"])
def test_the_search_and_the_tabs_work(window, pages, served):
    """Also as `make docs` shows the site: a file that is opened."""
    site = next(page.parent for page in pages if page.name == "tutorial.html")
    wrong = []
    window.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    window.on("pageerror", lambda error: wrong.append(str(error)))
    with contextlib.ExitStack() as ending:
        base = ending.enter_context(served_from(site)) if served else site.as_uri()
        window.goto(f"{base}/tutorial.html")
        window.locator(".tabbed-labels label", has_text="Go").click()
        window.get_by_text("func placeOrder").wait_for()
        window.locator("[data-md-component=search-query]").press_sequentially("exactly once")  # it listens to keys
        first = window.locator(".md-search-result__article h1").first
        first.wait_for(state="attached")
        assert first.inner_text() == "Ack in your own transaction"
    assert wrong == []


@contextlib.contextmanager
def served_from(site: Path) -> Iterator[str]:
    """The site's address, on a server of its own."""
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(30)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Not into the test's output."""


def test_a_block_that_is_too_wide_is_noticed(window):
    window.set_content("<pre style='width: 100px'><code style='display: block; overflow: auto'>" + "x" * 99)
    assert len(window.evaluate(TOO_WIDE)) == 1

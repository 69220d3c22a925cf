"""A real browser before a proxy with its console, on each backend. What it finds wrong fails the test."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from console_browser import console_port, opened
from real_browser import OPTIONS, SECONDS, log_in, missing
from servers import Gate, find_binary


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, driven by Playwright."""
    program = find_binary("chromium")
    if program is None:
        missing("chromium")
    try:
        api = importlib.import_module("playwright.sync_api")
    except ImportError:
        missing("playwright")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def gate(shared_gate: Callable[..., Gate]) -> Gate:
    """A proxy with its console."""
    return opened(shared_gate(console={"listen": "127.0.0.1:0"}))


@pytest.fixture
def visitor(chromium: Any, gate: Gate) -> Iterator[Callable[..., Any]]:
    """Opens a window of somebody who is not logged in, of that width and scheme of colours, in that time zone.

    An error in the browser's console, a script that fails, and an answer that is no page fail the test.
    """
    contexts = []
    wrong: list[str] = []

    def make(width: int = 1280, scheme: str = "light", zone: str = "UTC") -> Any:
        context = chromium.new_context(
            base_url=f"http://127.0.0.1:{console_port(gate)}",
            viewport={"width": width, "height": 800},
            color_scheme=scheme,
            timezone_id=zone,
        )
        contexts.append(context)
        context.set_default_timeout(SECONDS * 1000)
        page = context.new_page()
        page.on("console", lambda said: wrong.append(f"{said.type}: {said.text}") if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
        page.on("response", lambda it: wrong.append(f"{it.status} {it.url}") if it.status >= 400 else None)
        return page

    yield make
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture
def person(visitor: Callable[..., Any]) -> Callable[..., Any]:
    """The same, logged in as root."""

    def make(**window: Any) -> Any:
        page = visitor(**window)
        page.goto("/login")
        log_in(page)
        return page

    return make

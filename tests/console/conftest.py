"""A proxy with its console, on each backend, and people who log in to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from console_browser import Browser, console_port, opened
from servers import Gate


@pytest.fixture
def console(shared_gate: Callable[..., Gate]) -> Callable[..., Gate]:
    """A proxy with a console, shared by the tests of a module."""

    def make(**config: Any) -> Gate:
        return opened(shared_gate(**{"console": {"listen": "127.0.0.1:0"}, **config}))

    return make


@pytest.fixture
def new_console(new_gate: Callable[..., Gate]) -> Callable[..., Gate]:
    """One of this test's own."""

    def make(**config: Any) -> Gate:
        gate = new_gate(**{"console": {"listen": "127.0.0.1:0"}, **config})
        gate.start()
        return opened(gate)

    return make


@pytest.fixture
def browser() -> Callable[[Gate], Browser]:
    """Somebody who is not logged in."""
    return lambda gate: Browser(console_port(gate))


@pytest.fixture
def root(browser: Callable[[Gate], Browser]) -> Callable[[Gate], Browser]:
    """Somebody who is logged in as root."""

    def make(gate: Gate) -> Browser:
        person = browser(gate)
        assert person.log_in().status == 303
        return person

    return make


@pytest.fixture
def person(gate: Gate, root: Callable[[Gate], Browser]) -> Browser:
    """Somebody who is logged in as root to the console of the module's gate."""
    return root(gate)

"""Fixtures of pytest: `queuegate_outbox`, without a server, and `queuegate_server`, a proxy that is thrown away.

The distribution registers this module as a plugin of pytest, so there is nothing to import.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from queuegate_worker.testing.outbox import Outbox
from queuegate_worker.testing.server import Server


@pytest.fixture
def queuegate_outbox() -> Iterator[Outbox]:
    """Messages that the test sends are collected, and go nowhere."""
    with Outbox() as outbox:
        yield outbox


@pytest.fixture(scope="session")
def queuegate_process() -> Iterator[Server]:
    """One proxy with the embedded backend for all tests of the session."""
    with Server() as server:
        yield server


@pytest.fixture
def queuegate_server(queuegate_process: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """That proxy, without tables; QUEUEGATE_URL is its address during the test."""
    monkeypatch.setenv("QUEUEGATE_URL", queuegate_process.url)
    yield queuegate_process
    queuegate_process.clear()

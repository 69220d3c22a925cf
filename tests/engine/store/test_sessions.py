"""What the engine's sessions pin at their server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from store_benches import MySQLBench

from engine.backend import mysql, sessions
from engine.backend.mysql import MySQLStoreConnection
from engine.backend.servers import is_mariadb
from engine.backend.sessions import SILENCE_SECONDS, Pin
from engine.model.errors import BackendError


@pytest.fixture
async def bench(fresh_url) -> AsyncIterator[MySQLBench]:
    bench = await MySQLBench.open(fresh_url())
    yield bench
    await bench.close()


async def test_the_server_ends_a_session_of_ours_that_is_silent(bench):
    """Read back from the server: what ends a proxy that stands still in the middle of a transaction."""
    names = ["wait_timeout", "net_read_timeout", "net_write_timeout"]
    version = (await bench.run("SELECT VERSION()"))[0][0]
    names += ["idle_transaction_timeout"] if is_mariadb(version) else []
    pinned = await bench.store._pool.read(lambda c: c.query("SELECT " + ", ".join(f"@@{name}" for name in names)))
    assert pinned == [(SILENCE_SECONDS,) * len(names)]


async def test_a_setting_that_a_server_lacks_does_not_keep_us_from_it_unless_it_is_needed(bench, monkeypatch):
    known = sessions.pins("8.0.31", replicates=False)
    lacking = Pin("SET SESSION no_such_setting = 1", needed=False)
    monkeypatch.setattr(mysql, "pins", lambda *args, **kwargs: (lacking, *known))
    connection = MySQLStoreConnection(bench.url)
    assert connection.query("SELECT @@wait_timeout, @@lock_wait_timeout") == [(SILENCE_SECONDS, 3)]
    assert connection.place == "{}@{}".format(*connection.query(
        "SELECT ID, HOST FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()")[0]
    )  # fmt: skip
    connection.close()
    monkeypatch.setattr(mysql, "pins", lambda *args, **kwargs: (replace(lacking, needed=True), *known))
    with pytest.raises(BackendError) as refused:
        MySQLStoreConnection(bench.url)
    assert refused.value.errno == 1193

"""The list of open transactions, by which a group knows that nobody will fill a hole (engine/store/topic_state.py)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from servers import wait_until
from store_benches import MySQLBench

from engine.backend.mysql import MySQLPool, MySQLStoreConnection
from engine.store.operations import feed
from engine.store.statements.mysql import MYSQL
from engine.store.statements.topics import PositionStatements, create_positions

NOW = f"SELECT {MYSQL.now_ns}"
NUMBER = "SELECT trx_id FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id = ?"


@pytest.fixture
async def bench(own_mariadb) -> AsyncIterator[MySQLBench]:
    bench = await MySQLBench.open(own_mariadb.fresh_database("stale_list"))
    await bench.run(create_positions(bench.url.database))
    yield bench
    await bench.close()


class Poller:
    """Asks for the list all the time, so that the server does not renew it."""

    def __init__(self, bench: MySQLBench) -> None:
        self.stopping, self.polls = threading.Event(), 0
        self.connection = MySQLStoreConnection(bench.url)
        self.thread = threading.Thread(target=self._poll)
        self.thread.start()

    def _poll(self) -> None:
        while not self.stopping.is_set():
            self.connection.query("SELECT COUNT(*) FROM information_schema.INNODB_TRX")
            self.polls += 1

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join()
        self.connection.close()


async def test_a_list_that_is_older_than_a_transaction_counts_for_nothing(bench):
    """Our connection's last transaction is in the old list, and must not be taken for the one that asks."""
    pool = MySQLPool(bench.url, size=1)
    statements = PositionStatements(MYSQL, bench.url.database)

    def asked(number):
        return pool.write(lambda connection: feed.transactions(connection, statements, NOW, number))

    writer, watcher = MySQLStoreConnection(bench.url), MySQLStoreConnection(bench.url)
    ((thread,),) = writer.query("SELECT CONNECTION_ID()")
    for number in range(8):
        first = await asked(10**9 + number)
        assert first.open is not None, (number, first)
        poller = Poller(bench)
        await asyncio.to_thread(wait_until, lambda poller=poller: poller.polls > 3)
        writer.query("BEGIN")
        writer.execute("INSERT INTO queuegate_positions VALUES (?, 0, 0, '[]', 0)", (f"open {number}",))
        known = await asked(10**12 + number)
        poller.stop()
        await asyncio.sleep(0.3)  # the server makes a new list
        ((own,),) = watcher.query(NUMBER, (thread,))
        writer.query("COMMIT")
        assert known.old or (known.open is not None and known.open.last >= int(own)), "the writer is left out"
        await asyncio.sleep(0.3)
    writer.close()
    watcher.close()
    await pool.close()

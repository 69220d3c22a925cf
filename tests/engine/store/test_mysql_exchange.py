"""The engine's statements on a real server without a thread: rows, errors, several at once, ends of connections."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from engine.backend.base import Statement
from engine.backend.mysql import MySQLPool
from engine.backend.url import BackendUrl
from engine.model.errors import AnswerTooLarge, BackendError, BackendUnavailable
from engine.model.queue import ColumnMeta

NUMBER = (ColumnMeta("n", 8),)


@pytest.fixture
async def pool(mariadb) -> AsyncIterator[MySQLPool]:
    pool = MySQLPool(BackendUrl.parse(mariadb.url() + "?ssl=disabled"), size=2)
    await pool.read(lambda connection: connection.query("SELECT 1"))
    yield pool
    await pool.close()


@pytest.fixture
def threads(monkeypatch) -> list[str]:
    """What was run in a thread."""
    names: list[str] = []
    run = MySQLPool.read

    async def noted(self, work):
        names.append(threading.current_thread().name)
        return await run(self, work)

    monkeypatch.setattr(MySQLPool, "read", noted)
    return names


async def test_rows_of_several_statements(pool, threads):
    one, two, large = await pool.ask(
        (
            Statement("SELECT ?, NULL", (7,), NUMBER),
            Statement("SELECT ? UNION ALL SELECT 'b'", ("a'\\",), NUMBER),
            Statement("SELECT REPEAT('x', 300000)", (), NUMBER),
        )
    )
    assert one.rows == [(b"7", None)] and two.rows == [(b"a'\\",), (b"b",)] and len(large.rows[0][0]) == 300_000
    assert threads == []


async def test_an_answer_that_is_too_large_is_given_up(pool, threads):
    """Otherwise ten large messages that a transaction has just added would all be in memory at once."""
    (before,) = await pool.ask((Statement("SELECT CONNECTION_ID()", (), NUMBER),))
    large = Statement("SELECT REPEAT('x', 3000000)", (), NUMBER)
    with pytest.raises(AnswerTooLarge):
        await pool.write_alone((Statement("DO 0", ()), replace(large, bytes_max=1_000_000)))
    (after,) = await pool.ask((Statement("SELECT CONNECTION_ID()", (), NUMBER),))
    assert after.rows != before.rows, "the rest of the answer is never read"
    (answer,) = await pool.write_alone((replace(large, bytes_max=4_000_000),))
    assert len(answer.rows[0][0]) == 3_000_000


async def test_an_error_of_the_server(pool, threads):
    for _ in range(2):
        with pytest.raises(BackendError) as caught:
            await pool.ask((Statement("SELECT * FROM no_such_table", (), NUMBER),))
        assert caught.value.errno == 1146 and not isinstance(caught.value, BackendUnavailable)
        (answer,) = await pool.ask((Statement("SELECT 1", (), NUMBER),))
        assert answer.rows == [(b"1",)]
    assert threads == []


async def test_a_connection_that_the_server_has_ended(pool, threads, mariadb):
    (answer,) = await pool.ask((Statement("SELECT CONNECTION_ID()", (), NUMBER),))
    with mariadb.connect() as other, other.cursor() as cursor:
        cursor.execute(f"KILL {int(answer.rows[0][0])}")
    (again,) = await pool.ask((Statement("SELECT CONNECTION_ID()", (), NUMBER),))
    assert again.rows != answer.rows and len(threads) == 1


async def test_with_tls_and_with_much_text_it_is_a_thread(mariadb, threads):
    pool = MySQLPool(BackendUrl.parse(mariadb.url() + "?ssl=disabled"), size=1)
    await pool.ask((Statement("SELECT 1", (), NUMBER),))
    assert len(threads) == 1, "no connection is open yet"
    (answer,) = await pool.ask((Statement("SELECT LENGTH(?)", ("x" * 20_000,), NUMBER),))
    assert answer.rows == [(b"20000",)] and len(threads) == 2
    await pool.close()

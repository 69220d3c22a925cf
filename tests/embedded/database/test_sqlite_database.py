"""The embedded database file: one process, durable commits, the gate, and commits that many writes share."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from slowness import scaled

from embedded.database import connection as sqlite_connection
from embedded.database.connection import SqlFunctions
from embedded.database.sqlite import SqliteDatabase
from engine.model.errors import BackendError, BackendUnavailable, LockWaitTimeout

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
async def database(tmp_path):
    opened = await SqliteDatabase.open(str(tmp_path / "file.db"), lock_wait_seconds=0.2)
    await opened.write(lambda c: c.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)").close())
    yield opened
    await opened.close()


def insert(n):
    def work(connection):
        connection.execute("INSERT INTO t VALUES (?)", (n,)).close()
        return n

    return work


async def numbers(database):
    return [n for (n,) in await database.read(lambda c: c.fetch_all("SELECT n FROM t ORDER BY n"))]


async def test_a_second_opening_is_refused(database):
    with pytest.raises(BackendUnavailable, match="in use by another process"):
        await SqliteDatabase.open(database.path)
    await database.close()
    again = await SqliteDatabase.open(database.path)
    await again.close()


async def test_a_second_opening_by_a_link_is_refused(database, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(database.path)
    with pytest.raises(BackendUnavailable, match="in use by another process"):
        await SqliteDatabase.open(str(link))


async def test_a_path_that_cannot_be_is_told(tmp_path):
    with pytest.raises(BackendUnavailable, match="cannot open"):
        await SqliteDatabase.open(str(tmp_path / "no" / "such" / "folder.db"))
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"this is no database file, " * 50)
    with pytest.raises(BackendUnavailable, match="cannot"):
        await SqliteDatabase.open(str(broken))


async def test_memory_means_a_temporary_file():
    database = await SqliteDatabase.open(":memory:")
    path = Path(database.path)
    assert path.exists()
    await database.close()
    assert not path.parent.exists()


async def test_commits_are_flushed_and_readers_do_not_wait(database):
    for pragma, expected in (("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1)):
        assert await database.read(lambda c, p=pragma: c.fetch_all(f"PRAGMA {p}")) == [(expected,)]
    await database.gate.acquire(1)
    assert await asyncio.wait_for(numbers(database), 5) == []
    database.gate.release()


async def test_writes_that_wait_together_are_one_transaction(database):
    await database.gate.acquire(1)
    seen = []

    def look(connection):
        seen.append(connection.fetch_all("SELECT n FROM t"))

    tasks = [asyncio.create_task(database.write(insert(n), 5)) for n in (1, 2)]
    tasks.append(asyncio.create_task(database.write(look, 5)))
    await asyncio.sleep(0)
    database.gate.release()
    assert await asyncio.gather(*tasks) == [1, 2, None]
    assert seen == [[(1,), (2,)]]  # what its neighbours wrote, before anybody's commit


async def test_one_that_fails_leaves_its_neighbours_alone(database):
    await database.gate.acquire(1)
    tasks = [asyncio.create_task(database.write(insert(n), 5)) for n in (1, 1, 2)]
    await asyncio.sleep(0)
    database.gate.release()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [result if isinstance(result, int) else result.errno for result in results] == [1, 1062, 2]
    assert await numbers(database) == [1, 2]


async def test_one_that_takes_the_transaction_with_it_is_run_around(database):
    """A killed write makes SQLite roll back everything: its neighbours, not yet answered, are run again."""
    await database.gate.acquire(1)
    loop = asyncio.get_running_loop()
    begun = asyncio.Event()
    runs = []

    def counted(connection):
        runs.append(1)
        return insert(1)(connection)

    def endless(connection):
        loop.call_soon_threadsafe(begun.set)
        connection.execute(
            "INSERT INTO t WITH RECURSIVE c(n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c"
        )

    culprit = database.job(endless)
    tasks = [
        asyncio.create_task(database.write(counted, 5)),
        asyncio.create_task(database.submit(culprit, 5)),
        asyncio.create_task(database.write(insert(3), 5)),
    ]
    await asyncio.sleep(0)
    database.gate.release()
    await asyncio.wait_for(begun.wait(), 5)
    database.kill(culprit, BackendError("killed"))
    results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
    assert (results[0], results[2]) == (1, 3)
    assert results[1].errno == 1317
    assert len(runs) == 2
    assert await numbers(database) == [1, 3]


async def test_a_write_killed_many_times_is_interrupted_by_one_timer(database, monkeypatch):
    """Who kills repeats itself, as the time limit of a statement does."""
    begun, go_on = threading.Event(), threading.Event()
    interrupts = []

    def slow(connection):
        begun.set()
        assert go_on.wait(30)

    job = database.job(slow)
    writing = asyncio.create_task(database.submit(job))
    assert await asyncio.to_thread(begun.wait, 30)
    monkeypatch.setattr(database._writer.worker, "interrupt", lambda: interrupts.append(1))
    for _ in range(100):
        database.kill(job, BackendError("over", 1317, "70100"))
    go_on.set()
    await writing
    assert len(interrupts) < 50, "now and every 50 ms, not for each call"


async def test_a_wait_that_is_too_long_ends_in_1205(database):
    await database.gate.acquire(1)
    with pytest.raises(LockWaitTimeout):
        await database.write(insert(1))
    with pytest.raises(LockWaitTimeout):
        await database.gate.acquire(0.05)
    database.gate.release()
    await database.write(insert(2))
    assert await numbers(database) == [2]


async def test_a_cancelled_write_that_had_not_begun_never_happens(database):
    await database.gate.acquire(1)
    task = asyncio.create_task(database.write(insert(1), 5))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    database.gate.release()
    await database.write(insert(2))
    assert await numbers(database) == [2]


async def test_a_cancelled_read_frees_its_connection(database):
    endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT COUNT(*) FROM c"
    task = asyncio.create_task(database.read(lambda c: c.fetch_all(endless)))
    async with asyncio.timeout(scaled(5)):
        while not database._busy:
            await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert not database._busy
    assert await numbers(database) == []


async def test_cancelled_work_is_done_all_the_same_before_its_connection_is_free(database):
    """A rollback may not be left out."""
    worker = database.acquire_worker()
    await database.run(worker, lambda c: c.execute("BEGIN"))
    busy = threading.Event()
    worker.submit(lambda _: busy.wait(scaled(5)))
    ended = asyncio.create_task(database.run(worker, lambda c: c.execute("ROLLBACK")))
    await asyncio.sleep(0)
    ended.cancel()
    await asyncio.sleep(0)
    busy.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(ended, scaled(5))
    assert not worker.in_transaction
    database.release_worker(worker)


async def test_a_batch_that_cannot_begin_fails_alone(database, monkeypatch):
    """As where its thread is to be replaced, and the system has no further one."""
    writer = database.gate.begin_batch.__self__

    def successor():
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(type(writer.worker), "is_heavy", True)
        patched.setattr(writer.worker, "successor", successor)
        with pytest.raises(RuntimeError):
            await database.write(insert(1))
    await database.write(insert(2))
    assert await numbers(database) == [2]


async def test_the_gate_is_first_come_first_served(database):
    await database.gate.acquire(1)
    order = []

    async def transaction(name):
        await database.gate.acquire(5)
        order.append(name)
        database.gate.release()

    async def write(name):
        await database.write(lambda _: order.append(name), 5)

    tasks = []
    for name, kind in (("a", write), ("b", transaction), ("c", write), ("d", write), ("e", transaction)):
        tasks.append(asyncio.create_task(kind(name)))
        await asyncio.sleep(0)
    database.gate.release()
    await asyncio.wait_for(asyncio.gather(*tasks), 10)
    assert order == list("abcde")


async def test_close_fails_who_waits_and_may_be_called_twice(database):
    await database.gate.acquire(1)
    waiting = [asyncio.create_task(database.write(insert(1), 5)), asyncio.create_task(database.gate.acquire(5))]
    await asyncio.sleep(0)
    await database.close()
    await database.close()
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(result, BackendUnavailable)
    with pytest.raises(BackendUnavailable):
        await database.write(insert(2))
    with pytest.raises(BackendUnavailable):
        database.acquire_worker()


async def test_functions_raise_their_own_errors(database):
    def refuse(context, value):
        raise BackendError(f"not {value}", 1234, "42000")

    database.install(SqlFunctions((("refuse", 1, refuse, True), ("context", 0, lambda context: context.text, False))))
    with pytest.raises(BackendError, match="not 5") as caught:
        await database.read(lambda c: c.fetch_all("SELECT refuse(5)"))
    assert caught.value.errno == 1234

    def with_context(connection):
        connection.context = SimpleNamespace(text="the statement's own", killed=False)
        return connection.fetch_all("SELECT context()")

    assert await database.write(with_context) == [("the statement's own",)]


async def test_a_connection_that_keeps_many_long_statements_is_replaced(database):
    """sqlite3 keeps statements by number, not by size. What the connections have done stays."""
    long_one = lambda n: f"SELECT {n} AS a{'x' * 3000}"  # noqa: E731

    def many(connection):
        for n in range(60):
            assert connection.fetch_all(long_one(n)) == [(n,)]
        return connection

    def same(connection):
        for _ in range(60):
            connection.fetch_all(long_one(1))
        return connection

    for run in (database.read, database.write):
        first = await run(same)
        assert await run(many) is first, "one text, however often, is one statement"
        second = await run(same)
        assert second is not first
        assert await run(lambda connection: connection) is second


CHILD = """
    import asyncio, sys
    from embedded.database.sqlite import SqliteDatabase
    async def main():
        database = await SqliteDatabase.open(sys.argv[1])
        await database.write(lambda c: c.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY)").close())
        async def one(n):
            await database.write(lambda c: c.execute("INSERT INTO t VALUES (?)", (n,)).close())
            print(n, flush=True)
        for start in range(0, 10 ** 9, 20):
            await asyncio.gather(*(one(n) for n in range(start, start + 20)))
    asyncio.run(main())
"""


async def test_what_was_answered_survives_a_kill(tmp_path):
    path = str(tmp_path / "killed.db")
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD), path], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    answered = [int(child.stdout.readline()) for _ in range(200)]
    os.kill(child.pid, signal.SIGKILL)
    answered += [int(line) for line in child.stdout.read().split()]
    child.wait()
    child.stdout.close()
    database = await SqliteDatabase.open(path)  # no stale lock is left
    kept = set(await numbers(database))
    await database.close()
    assert set(answered) <= kept


@pytest.fixture
def through_ctypes(monkeypatch):
    """As on Python 3.11, on any."""
    like = SimpleNamespace(version_info=(3, 11), implementation=sys.implementation, platform="linux")
    monkeypatch.setattr(sqlite_connection, "sys", like)
    raw = sqlite3.connect(":memory:", isolation_level=None)
    raw.execute("PRAGMA foreign_keys = ON").close()
    yield raw
    raw.close()


def test_a_library_that_is_not_found_leaves_foreign_keys_as_they_are(through_ctypes, monkeypatch):
    for module, library in (
        (SimpleNamespace(__file__="/no/such/library.so"), sqlite_connection.ctypes.CDLL),
        (SimpleNamespace(), lambda name: object()),
    ):
        monkeypatch.setattr(sqlite_connection, "_sqlite3", module)
        monkeypatch.setattr(sqlite_connection.ctypes, "CDLL", library)
        assert not sqlite_connection.switch_foreign_keys(through_ctypes, False)
        assert sqlite_connection.switch_foreign_keys(through_ctypes, True)


def test_a_module_that_is_built_in_has_its_library_in_the_process(through_ctypes, monkeypatch):
    asked = []

    def library(name):
        asked.append(name)
        raise OSError("not here")

    monkeypatch.setattr(sqlite_connection, "_sqlite3", SimpleNamespace())
    monkeypatch.setattr(sqlite_connection.ctypes, "CDLL", library)
    assert not sqlite_connection.switch_foreign_keys(through_ctypes, False)
    assert asked == [None]

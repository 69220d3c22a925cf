"""Isolation, the writer gate, shared commits and KILL, as sessions on one database see them."""

from __future__ import annotations

import asyncio
import threading

import pytest
from slowness import scaled

from embedded.database.store_pool import SqliteStorePool
from engine.model.errors import BackendError, LockWaitTimeout

NUMBERS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 100000) SELECT n FROM c"


@pytest.fixture
async def table(client):
    await client("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n INT, UNIQUE KEY by_n (n))")
    return "t"


async def until(condition, seconds=5.0):
    """Wait for something that has no event of its own; fails after the deadline."""
    async with asyncio.timeout(scaled(seconds)):
        while not condition():
            await asyncio.sleep(0)


def waits_for_gate(client):
    """Whether anybody, which can only be this client, stands in line to write."""
    return len(client.session._state.database.gate._queue) > 0


def status(client):
    """Whether each statement commits, and whether a transaction is open."""
    return client.session.autocommit, client.session.in_transaction


async def test_status_follows_the_transaction(client, table):
    assert status(client) == (True, False)
    await client("BEGIN")
    assert status(client) == (True, True)
    assert client.session.in_transaction
    await client("COMMIT")
    assert status(client) == (True, False)
    await client("SET autocommit = 0")
    assert status(client) == (False, False)
    await client.rows("SELECT * FROM t")
    assert status(client) == (False, True)
    await client("SET autocommit = 1")
    assert status(client) == (True, False)


async def test_nothing_is_seen_before_commit_and_nothing_after_rollback(client, connect, table):
    other = connect()
    await client("BEGIN")
    await client("INSERT INTO t (n) VALUES (1)")
    assert await other.value("SELECT COUNT(*) FROM t") == 0
    assert await client.value("SELECT COUNT(*) FROM t") == 1
    await client("COMMIT")
    assert await other.value("SELECT COUNT(*) FROM t") == 1
    await client("BEGIN")
    await client("DELETE FROM t")
    await client("ROLLBACK")
    assert await client.value("SELECT COUNT(*) FROM t") == 1


async def test_reads_in_a_transaction_see_the_latest_commit(client, connect, table):
    other = connect()
    await client("BEGIN")
    assert await client.value("SELECT COUNT(*) FROM t") == 0
    await other("INSERT INTO t (n) VALUES (1)")
    assert await client.value("SELECT COUNT(*) FROM t") == 1


async def test_a_consistent_snapshot_stays_what_it_was_and_conflicts_when_written(client, connect, table):
    other = connect()
    await client("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    await other("INSERT INTO t (n) VALUES (1)")
    assert await client.value("SELECT COUNT(*) FROM t") == 0
    assert await client.errno("INSERT INTO t (n) VALUES (2)") == 1213
    await client("ROLLBACK")
    await client("INSERT INTO t (n) VALUES (2)")
    assert await other.value("SELECT COUNT(*) FROM t") == 2


async def test_a_snapshot_that_is_still_current_can_write(client, connect, table):
    await client("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    await client("INSERT INTO t (n) VALUES (2)")
    await client("COMMIT")
    assert await connect().value("SELECT COUNT(*) FROM t") == 1


async def test_repeatable_read_repeats(client, connect, table):
    other = connect()
    await client("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    await client("BEGIN")
    assert await client.value("SELECT COUNT(*) FROM t") == 0
    await other("INSERT INTO t (n) VALUES (1)")
    assert await client.value("SELECT COUNT(*) FROM t") == 0
    await client("COMMIT")
    await client("BEGIN")  # the level was for one transaction
    await other("INSERT INTO t (n) VALUES (2)")
    assert await client.value("SELECT COUNT(*) FROM t") == 2


async def test_a_select_without_a_table_begins_no_snapshot(client, connect, table):
    """MySQL Connector/J asks for transaction_read_only ahead of its first INSERT."""
    other = connect()
    await client("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    await client("SET autocommit = 0")
    assert await client.value("SELECT @@session.transaction_read_only") == 0
    await other("INSERT INTO t (n) VALUES (1)")
    await client("INSERT INTO t (n) VALUES (2)")
    await client("COMMIT")
    assert await client.value("SELECT COUNT(*) FROM t") == 2


async def test_serializable_lets_no_other_writer_in(client, connect, table):
    other = connect()
    await client("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    await client("BEGIN")
    await client.rows("SELECT * FROM t")
    assert await other.errno("INSERT INTO t (n) VALUES (1)") == 1205
    await client("COMMIT")
    await other("INSERT INTO t (n) VALUES (1)")


async def test_a_read_only_transaction_refuses_writes(client, table):
    await client("START TRANSACTION READ ONLY")
    assert await client.errno("INSERT INTO t (n) VALUES (1)") == 1792
    await client("COMMIT")
    await client("INSERT INTO t (n) VALUES (1)")


async def test_a_second_writer_waits_then_is_told_1205_and_loses_nothing(client, connect, table):
    other = connect()
    await other("BEGIN")
    await client("BEGIN")
    await client("INSERT INTO t (n) VALUES (1)")
    assert await other.errno("INSERT INTO t (n) VALUES (2)") == 1205
    assert other.session.in_transaction
    await client("COMMIT")
    await other("INSERT INTO t (n) VALUES (2)")
    await other("COMMIT")
    assert await client.rows("SELECT n FROM t ORDER BY n") == [(1,), (2,)]


async def test_the_wait_can_be_set_and_the_waiting_writer_goes_on_when_free(client, connect, table):
    other = connect()
    await other("SET innodb_lock_wait_timeout = 30")
    await client("BEGIN")
    await client("INSERT INTO t (n) VALUES (1)")
    waiting = asyncio.create_task(other("INSERT INTO t (n) VALUES (2)"))
    await asyncio.sleep(0)
    assert not waiting.done()
    await client("COMMIT")
    assert (await asyncio.wait_for(waiting, 5)).affected_rows == 1


async def test_waiting_writers_come_in_their_order(client, connect, table):
    await client("SET innodb_lock_wait_timeout = 30")
    await client("BEGIN")
    await client("INSERT INTO t (n) VALUES (0)")
    others = [connect() for _ in range(5)]
    tasks = []
    for number, other in enumerate(others, 1):
        await other("SET innodb_lock_wait_timeout = 30")
        if number % 2:
            await other("BEGIN")  # transactions and single statements stand in one queue

        async def write(other=other, number=number):
            await other(f"INSERT INTO t (n) VALUES ({number})")
            await other("COMMIT")

        tasks.append(asyncio.create_task(write()))
        await until(lambda wanted=number: len(client.session._state.database.gate._queue) == wanted)
    await client("COMMIT")
    await asyncio.wait_for(asyncio.gather(*tasks), 10)
    assert await client.rows("SELECT n FROM t ORDER BY id") == [(n,) for n in range(6)]


async def test_a_session_that_goes_away_rolls_back_and_lets_others_write(client, connect, table):
    await client("BEGIN")
    await client("INSERT INTO t (n) VALUES (1)")
    await client.session.close()
    other = connect()
    await other("INSERT INTO t (n) VALUES (2)")
    assert await other.rows("SELECT n FROM t") == [(2,)]


async def test_a_task_cancelled_while_it_waits_leaves_the_queue(client, connect, table):
    other, third = connect(), connect()
    for one in (other, third):
        await one("SET innodb_lock_wait_timeout = 30")
    await client("BEGIN")
    await client("INSERT INTO t (n) VALUES (1)")
    waiting = asyncio.create_task(other("INSERT INTO t (n) VALUES (2)"))
    await until(lambda: waits_for_gate(other))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await client("COMMIT")
    await third("INSERT INTO t (n) VALUES (3)")
    assert await third.rows("SELECT n FROM t ORDER BY n") == [(1,), (3,)]


async def test_savepoints(client, table):
    await client("BEGIN")
    await client("SAVEPOINT before_any_write")
    await client("INSERT INTO t (n) VALUES (1)")
    await client("SAVEPOINT two")
    await client("INSERT INTO t (n) VALUES (2)")
    await client("ROLLBACK TO two")
    await client("INSERT INTO t (n) VALUES (3)")
    await client("RELEASE SAVEPOINT two")
    assert await client.errno("ROLLBACK TO two") == 1305
    await client("ROLLBACK TO SAVEPOINT before_any_write")
    await client("INSERT INTO t (n) VALUES (4)")
    await client("COMMIT")
    assert await client.rows("SELECT n FROM t") == [(4,)]


async def test_a_failed_statement_undoes_itself_alone(client, table):
    await client("BEGIN")
    await client("INSERT INTO t (n) VALUES (1)")
    assert await client.errno("INSERT INTO t (n) VALUES (2), (3), (1)") == 1062
    await client("COMMIT")
    assert await client.rows("SELECT n FROM t") == [(1,)]
    assert await client.errno("INSERT INTO t (n) VALUES (5), (6), (1)") == 1062
    assert await client.rows("SELECT n FROM t") == [(1,)]


async def test_definitions_commit_what_is_open(client, connect, table):
    await client("BEGIN")
    await client("INSERT INTO t (n) VALUES (1)")
    await client("CREATE TABLE u (a INT)")
    assert not client.session.in_transaction
    assert await connect().value("SELECT COUNT(*) FROM t") == 1


async def test_begin_commits_what_is_open(client, connect, table):
    await client("BEGIN")
    await client("INSERT INTO t (n) VALUES (1)")
    await client("START TRANSACTION")
    assert await connect().value("SELECT COUNT(*) FROM t") == 1


async def test_commit_and_chain(client, table):
    await client("BEGIN")
    await client("INSERT INTO t (n) VALUES (1)")
    await client("COMMIT AND CHAIN")
    assert client.session.in_transaction
    await client("INSERT INTO t (n) VALUES (2)")
    await client("ROLLBACK")
    assert await client.rows("SELECT n FROM t") == [(1,)]


async def test_select_for_update_keeps_others_from_writing(client, connect, table):
    other = connect()
    await client("INSERT INTO t (n) VALUES (1)")
    await client("BEGIN")
    assert await client.rows("SELECT n FROM t FOR UPDATE") == [(1,)]
    assert await other.errno("UPDATE t SET n = 5") == 1205
    await other("BEGIN")
    assert await other.errno("SELECT n FROM t FOR UPDATE NOWAIT") == 3572
    await client("COMMIT")
    assert await other.rows("SELECT n FROM t FOR UPDATE SKIP LOCKED") == [(1,)]


async def test_wait_says_how_long(client, connect, table):
    """FOR UPDATE WAIT n, in place of the session's own wait."""
    other, third = connect(), connect()
    await client("INSERT INTO t (n) VALUES (1)")
    await client("BEGIN")
    await client("UPDATE t SET n = 2")
    await other("SET innodb_lock_wait_timeout = 600")
    await other("BEGIN")
    assert await asyncio.wait_for(other.errno("SELECT n FROM t FOR UPDATE WAIT 1"), 60) == 1205
    assert await other.errno("SELECT n FROM t FOR UPDATE WAIT 0") == 3572
    for session in (other, third):
        await session("SET innodb_lock_wait_timeout = 1")
    waiting = asyncio.create_task(other.rows("SELECT n FROM t FOR UPDATE WAIT 60"))
    assert await third.errno("UPDATE t SET n = 3") == 1205, "by now the other one's setting is over as well"
    await client("COMMIT")
    assert await waiting == [(2,)]


async def test_nowait_fails_at_once_also_outside_a_transaction(client, connect, table):
    other, waiting = connect(), connect()
    await client("INSERT INTO t (n) VALUES (1)")
    assert await other.rows("SELECT n FROM t FOR UPDATE NOWAIT") == [(1,)]
    await client("BEGIN")
    await client("UPDATE t SET n = 2")
    assert await other.errno("SELECT n FROM t FOR UPDATE NOWAIT") == 3572
    assert await other.errno("SELECT n FROM t FOR SHARE NOWAIT") == 3572
    assert await client.rows("SELECT n FROM t FOR UPDATE NOWAIT") == [(2,)], "its own lock is in nobody's way"
    await waiting("SET innodb_lock_wait_timeout = 30")
    behind = asyncio.create_task(waiting("UPDATE t SET n = n + 10"))
    await asyncio.sleep(0)
    await client("COMMIT")
    assert await other.rows("SELECT COUNT(*) FROM t FOR UPDATE NOWAIT") == [(1,)], "an autocommit write is no lock"
    await behind
    await client("LOCK TABLES t WRITE")
    assert await client.rows("SELECT n FROM t FOR UPDATE NOWAIT") == [(12,)]
    assert await other.errno("SELECT n FROM t FOR UPDATE NOWAIT") == 3572


async def test_nowait_waits_for_the_end_of_an_autocommit_write(database, client, table, monkeypatch):
    """Such a write is no lock; 3572, not 1205, where it takes longer than one should."""
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(connection):
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(60)
        connection.execute("INSERT INTO t (n) VALUES (1)").close()

    writing = asyncio.create_task(database.write(slow))
    await asyncio.wait_for(begun.wait(), 30)
    await client("BEGIN")
    assert await client.errno("SELECT n FROM t FOR UPDATE NOWAIT") == 3572
    assert await client.errno("SELECT n FROM t FOR UPDATE WAIT 0") == 3572
    monkeypatch.setattr("embedded.session.plan_runner._BATCH_WAIT", 60.0)
    reading = asyncio.create_task(client.rows("SELECT n FROM t FOR UPDATE NOWAIT"))
    await until(lambda: waits_for_gate(client) or reading.done())
    go_on.set()
    await writing
    assert await reading == [(1,)]
    assert client.session._state.transaction.holds_writer
    await client("COMMIT")


async def test_skip_locked_waits_for_the_one_lock_that_there_is(client, connect, table):
    """See docs/embedded.md: the writer is one lock on all rows, so there are none that could be skipped."""
    other = connect()
    await client("INSERT INTO t (n) VALUES (1)")
    await client("BEGIN")
    await client("UPDATE t SET n = 2")
    await other("BEGIN")
    assert await other.errno("SELECT n FROM t FOR UPDATE SKIP LOCKED") == 1205
    await other("SET innodb_lock_wait_timeout = 30")
    waiting = asyncio.create_task(other.rows("SELECT n FROM t FOR UPDATE SKIP LOCKED"))
    await asyncio.sleep(0)
    await client("COMMIT")
    assert await waiting == [(2,)]


async def test_lock_tables_write_keeps_others_out_until_unlocked(client, connect, table):
    other = connect()
    await client("LOCK TABLES t WRITE")
    await client("INSERT INTO t (n) VALUES (1)")
    assert await other.errno("INSERT INTO t (n) VALUES (2)") == 1205
    assert await other.value("SELECT COUNT(*) FROM t") == 1
    await client("UNLOCK TABLES")
    await other("INSERT INTO t (n) VALUES (2)")


async def test_many_sessions_share_commits_and_each_gets_its_own_answer(connect, table):
    clients = [connect() for _ in range(40)]
    results = await asyncio.gather(
        *(one("INSERT INTO t (n) VALUES (?)", number // 2) for number, one in enumerate(clients)),
        return_exceptions=True,
    )
    failed = [result for result in results if isinstance(result, Exception)]
    assert len(failed) == 20
    assert {error.errno for error in failed} == {1062}
    ids = [result.last_insert_id for result in results if not isinstance(result, Exception)]
    assert len(set(ids)) == 20
    assert await clients[0].value("SELECT COUNT(*) FROM t") == 20
    for one, result in zip(clients, results, strict=True):
        if not isinstance(result, Exception):
            assert await one.value("SELECT LAST_INSERT_ID()") == result.last_insert_id


async def test_kill_ends_a_running_query(client):
    running = asyncio.create_task(client.error("SELECT SLEEP(30)"))
    await until(
        lambda: (
            client.session._dispatch.runner.context is not None
            and client.session._dispatch.runner.context.wake is not None
        )
    )
    client.session.interrupt()
    assert (await asyncio.wait_for(running, 5))[0] == 1317
    assert await client.value("SELECT 1") == 1


async def test_kill_ends_a_busy_query(client):
    endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT COUNT(*) FROM c"
    running = asyncio.create_task(client.error(endless))
    await until(lambda: client.session._state.database._busy)
    client.session.interrupt()
    assert (await asyncio.wait_for(running, 5))[0] == 1317


async def test_kill_between_batches_ends_the_result(client):
    numbers = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c"
    result = await client.result(numbers)
    batches = result.batches
    assert len(await anext(batches)) > 0
    client.session.interrupt()
    with pytest.raises(Exception, match="interrupted"):
        async for _ in batches:
            pass
    assert await client.value("SELECT 1") == 1


async def test_kill_takes_a_waiting_writer_out_of_the_queue(client, connect, table):
    other = connect()
    await other("SET innodb_lock_wait_timeout = 30")
    await client("BEGIN")
    await client("INSERT INTO t (n) VALUES (1)")
    for begin in (False, True):
        if begin:
            await other("BEGIN")
        waiting = asyncio.create_task(other.errno("INSERT INTO t (n) VALUES (2)"))
        await until(lambda: waits_for_gate(other))
        other.session.interrupt()
        assert await asyncio.wait_for(waiting, 5) == 1317
    await client("COMMIT")
    await other("COMMIT")
    assert await other.rows("SELECT n FROM t") == [(1,)]


async def test_killing_one_write_leaves_its_neighbours_in_the_same_commit_alone(client, connect, table):
    slow = connect()
    await slow("SET @numbers = 0")
    many = (
        "INSERT INTO t (n) WITH RECURSIVE c(n) AS (SELECT 1000 UNION ALL SELECT n + 1 FROM c WHERE n < 30000000)"
        " SELECT n FROM c"
    )
    others = [connect() for _ in range(5)]
    killed = asyncio.create_task(slow.errno(many))
    await until(lambda: slow.session._dispatch.runner.job is not None and slow.session._dispatch.runner.job.started)
    tasks = [asyncio.create_task(one("INSERT INTO t (n) VALUES (?)", i)) for i, one in enumerate(others)]
    slow.session.interrupt()
    assert await asyncio.wait_for(killed, 10) == 1317
    await asyncio.wait_for(asyncio.gather(*tasks), 10)
    assert await client.value("SELECT COUNT(*) FROM t") == 5


def fill(connection):
    """The disk is full."""
    connection.execute("PRAGMA max_page_count = 1").close()  # no more than there are
    try:
        connection.execute("INSERT INTO t (n) VALUES (zeroblob(100000))").close()
    finally:
        connection.execute("PRAGMA max_page_count = 1000000000").close()


def interrupt(connection):
    """KILL QUERY and time limits, in the middle of a write."""
    connection.raw.set_progress_handler(lambda: 1, 1)
    try:
        connection.execute("INSERT INTO t (n) VALUES (1)").close()
    finally:
        connection.raw.set_progress_handler(None, 0)


@pytest.mark.parametrize("end", ["ROLLBACK", "COMMIT", "BEGIN", "SET autocommit = 1", "CREATE TABLE u (a INT)"])
@pytest.mark.parametrize(("lose", "errno"), [(fill, 1021), (interrupt, 1317)])
async def test_a_lost_transaction_takes_no_more_statements_until_it_ends(client, connect, table, lose, errno, end):
    await client("SET autocommit = 0")
    await client("INSERT INTO t (n) VALUES (1)")
    await client("SAVEPOINT a")
    transaction = client.session._state.transaction
    with pytest.raises(BackendError) as raised:
        await transaction.database.run(transaction.worker, lose)
    assert raised.value.errno == errno
    assert await client.errno("INSERT INTO t (n) VALUES (2)") == 1213
    assert await client.errno("SELECT * FROM t FOR UPDATE") == 1213
    assert await client.errno("SAVEPOINT b") == 1213
    assert await client.errno("ROLLBACK TO a") == 1305
    assert client.session.in_transaction
    await connect()("INSERT INTO t (n) VALUES (3)")  # nobody waits for it
    if end == "ROLLBACK":
        await client(end)
    else:
        assert await client.errno(end) == 1213
    assert not client.session.in_transaction
    assert await client.rows("SELECT n FROM t") == [(3,)]


async def test_interrupt_between_statements_does_nothing(client):
    client.session.interrupt()
    assert await client.value("SELECT 1") == 1


async def test_the_engine_and_the_clients_share_one_gate(database, client, table):
    pool = SqliteStorePool(database)
    await client("BEGIN")
    await client("INSERT INTO t (n) VALUES (1)")
    with pytest.raises(LockWaitTimeout):
        await pool.write(lambda connection: connection.execute("UPDATE t SET n = 2"))
    assert await pool.read(lambda connection: connection.query("SELECT COUNT(*) FROM t")) == [(0,)]
    await client("COMMIT")
    assert await pool.write(lambda connection: connection.execute("UPDATE t SET n = 2")) == 1
    assert await client.value("SELECT n FROM t") == 2


async def test_a_store_transaction_that_raises_leaves_nothing(database, client, table):
    pool = SqliteStorePool(database)

    def work(connection):
        connection.execute("INSERT INTO t (n) VALUES (1)")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await pool.write(work)
    assert await client.value("SELECT COUNT(*) FROM t") == 0


async def test_a_long_result_outlives_other_statements_of_its_transaction(client, table):
    await client(
        "INSERT INTO t (n)"
        " WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5000) SELECT n FROM c"
    )
    await client("BEGIN")
    await client("UPDATE t SET n = 0 - n WHERE n = 1")
    result = await client.result("SELECT n FROM t ORDER BY id")
    first = await anext(result.batches)
    await client("COMMIT")
    rest = [row async for batch in result.batches for row in batch]
    assert [n for (n,) in first + rest] == [-1, *range(2, 5001)]


async def test_a_result_given_up_gives_its_connection_back(database, client, table):
    for _ in range(30):
        result = await client.result(NUMBERS)
        await anext(result.batches)
        await result.batches.aclose()
    assert len(database._busy) == 0
    assert len(database._idle) <= 16


async def test_a_result_nobody_read_gives_its_connection_back(database, client, table):
    """As a cursor does that is closed before its first row is fetched."""
    for _ in range(3):
        result = await client.result(NUMBERS)
        await result.close()
    assert len(database._busy) == 0


async def test_the_time_of_an_unread_result_ends_nothing_else(client, table):
    await client("SET max_execution_time = 3600000")
    unread = await client.result(NUMBERS)
    await client("SET max_execution_time = 0")
    limit = unread.batches.limit
    timer = limit._timer
    later = asyncio.create_task(client.value("SELECT SLEEP(1)"))
    await until(lambda: client.session._dispatch.runner.context.wake is not None)
    limit._fire()
    assert await later == 0, "it was another statement's time"
    assert limit._timer is timer, "nothing repeats"
    with pytest.raises(BackendError) as over:
        await anext(unread.batches)
    assert over.value.errno == 3024
    await unread.close()


async def test_closing_an_unread_result_ends_its_time(client, table):
    await client("SET max_execution_time = 3600000")
    result = await client.result(NUMBERS)
    await result.close()
    assert result.batches.limit._timer.cancelled()


async def test_the_time_of_a_result_ends_the_wait_for_its_rows(client, table):
    """Some rows are found, and one more is never found."""
    await client("SET max_execution_time = 1000")
    endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c WHERE n <= 1000"
    assert await asyncio.wait_for(client.errno(endless), 30) == 3024
    assert await client.value("SELECT 1") == 1


async def test_a_change_gets_its_turn_where_definitions_follow_each_other(client, connect, table):
    done = asyncio.Event()

    async def define(number: int) -> None:
        other = connect()
        await other("SET innodb_lock_wait_timeout = 50")
        while not done.is_set():
            await other(f"CREATE TABLE d{number} (a INT)")
            await other(f"DROP TABLE d{number}")

    await client("SET innodb_lock_wait_timeout = 50")
    async with asyncio.TaskGroup() as tasks:
        for number in range(6):
            tasks.create_task(define(number))
        try:
            for number in range(10):
                await client(f"INSERT INTO t (n) VALUES ({number})")
                await client("UPDATE t SET n = n + 100 WHERE n = ?", number)
            assert await client.error("INSERT INTO t (missing) VALUES (1)") == (
                1054,
                "Unknown column 'missing' in 'field list'",
            )
            await client("BEGIN")
            await client("INSERT INTO t (n) VALUES (200)")
            await client("ROLLBACK")
        finally:
            done.set()
    assert await client.value("SELECT SUM(n) FROM t") == sum(range(10)) + 1000

"""What only a server can do to the store: layouts, generated columns, other writers, plans, lost connections."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pymysql
import pytest
from memory_store import Row
from servers import SERVER
from store_benches import COMMENT, MySQLBench

from engine.backend.base import Statement
from engine.backend.mysql import MySQLPool, MySQLStoreConnection, _translated
from engine.backend.pool import ThreadPool
from engine.backend.url import BackendUrl
from engine.model.errors import TOO_LARGE, AnswerTooLarge, BackendError, BackendUnavailable, LockWaitTimeout
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import Layout, QueueCatalog, QueueName
from engine.model.states import lease_end
from engine.store.base import ForeseenLease, LeaseUnknown, release_of
from engine.store.claims import WITHOUT_THREAD_MAX
from engine.store.sql_store import SqlMessageStore
from engine.store.statements.added import AddedStatements

DELAYS = {0: 10 * SECOND}


@pytest.fixture
async def bench(fresh_url) -> AsyncIterator[MySQLBench]:
    bench = await MySQLBench.open(fresh_url())
    yield bench
    await bench.close()


async def load(bench, table):
    catalog = await bench.store.load_catalog(QueueCatalog())
    return catalog.queues[QueueName(bench.url.database, table)]


async def test_generated_columns_are_read_as_they_are_after_the_lease(bench):
    state = "state VARCHAR(10) AS (IF(epoch = 0, 'new', 'fired')) VIRTUAL, at TIMESTAMP(6) NULL ON UPDATE NOW(6)"
    await bench.create("g", columns=f"payload TEXT, {state}")
    spec = await load(bench, "g")
    await bench.run("INSERT INTO g (id, payload) VALUES (1, 'x')")
    message = (await bench.store.claim(spec, [1], DELAYS)).messages[0]
    values = dict(zip([column.name for column in spec.columns], message.values, strict=True))
    assert values["state"] == b"fired" and values["at"] is not None


async def test_the_catalog_is_read_past_lock_tables(bench):
    """A restored dump holds them on each table in turn, with ALTER TABLE in between."""
    await bench.create("locked", columns="payload TEXT, d DECIMAL(5,2) NOT NULL, at TIMESTAMP(6) NULL ON UPDATE NOW(6)")
    before = await load(bench, "locked")
    known = await bench.store.load_catalog(QueueCatalog())
    holder = MySQLStoreConnection(bench.url)
    try:
        holder.execute("LOCK TABLES locked WRITE")
        assert await asyncio.wait_for(load(bench, "locked"), 3) == before
        holder.execute("ALTER TABLE locked DISABLE KEYS")  # from here on MariaDB lets nobody look at its columns
        assert await asyncio.wait_for(bench.store.load_catalog(known), 3) is known
        name = QueueName(bench.url.database, "locked")
        assert name not in (await asyncio.wait_for(bench.store.load_catalog(QueueCatalog()), 3)).queues
    finally:
        holder.close()
    waits = await bench.store._pool.read(lambda c: c.query("SELECT @@lock_wait_timeout, @@innodb_lock_wait_timeout"))
    assert waits == [(3, 3)]
    pool = MySQLPool(bench.url, size=1)
    selected = await pool.read(
        lambda c: (c._connection.query("SELECT * FROM locked LIMIT 0"), c._connection._result.fields)[1]
    )
    assert [(c.name, c.type_code, c.flags, c.charsetnr, c.scale) for c in selected] == [
        (c.name, c.type, c.flags, c.charset, c.decimals) for c in before.columns
    ]
    await pool.close()


async def test_vitess_first_layout(bench):
    comment = (
        "vitess_message,vt_ack_wait=30,vt_purge_after=86400,vt_batch_size=10,vt_cache_size=100,vt_poller_interval=1"
    )
    await bench.run(
        "CREATE TABLE old (time_scheduled BIGINT, id BIGINT, time_next BIGINT, epoch BIGINT, time_created BIGINT,"
        " time_acked BIGINT, message VARCHAR(128), PRIMARY KEY (time_scheduled, id), UNIQUE INDEX (id),"
        f" INDEX next_idx (time_next, epoch)) COMMENT '{comment}'"
    )
    spec = await load(bench, "old")
    assert spec.layout is Layout.LEGACY and spec.message_columns == ("id", "message")
    future = await bench.now_ns() + 60 * SECOND
    for id_, time_next in ((1, 20), (2, 10), (3, future), (4, None)):
        await bench.run("INSERT INTO old VALUES (5, ?, ?, 0, 5, NULL, 'm')", (id_, time_next))
    poll = await bench.store.poll(spec, 10)
    assert [(key.priority, key.id) for key in poll.keys] == [(0, 4), (0, 2), (0, 1)] and poll.next_due_ns == future
    claim = await bench.store.claim(spec, [1, 2, 3], DELAYS)
    assert {(m.id, m.priority, m.epoch) for m in claim.messages} == {(1, 0, 1), (2, 0, 1)}


async def test_the_look_reads_only_what_it_returns(bench):
    """Each of its statements must be answered from the index, without sorting: else postponed rows would cost."""
    from engine.store.statements.mysql import MYSQL
    from engine.store.statements.queue import QueueStatements

    await bench.run("INSERT INTO q (id, time_next) SELECT seq, 3000000000000000000 + seq FROM seq_1_to_5000")
    await bench.run("INSERT INTO q (id, time_next) SELECT seq, seq FROM seq_10001_to_10500")
    await bench.run("INSERT INTO q (id, time_acked) SELECT seq, seq FROM seq_20001_to_25000")
    await bench.run("ANALYZE TABLE q")
    texts, now = QueueStatements(MYSQL, bench.spec), await bench.now_ns()
    statements = [
        (texts.poll.start, (50,)),
        (texts.poll.peek, (50, 16)),
        (texts.poll.priority, (50, 101, 50, now, 101, 50, 50, now)),
    ]
    for sql, params in statements:
        await bench.run("FLUSH STATUS")
        await bench.run(sql, params)
        reads = {name: int(value) for name, value in await bench.run("SHOW STATUS LIKE 'Handler_read%'")}
        assert reads["Handler_read_next"] + reads["Handler_read_rnd_next"] < 250, (sql, reads)
        assert (await bench.run("SHOW STATUS LIKE 'Sort_rows'"))[0][1] in ("0", 0), sql


async def test_two_proxies_never_lease_the_same_message(bench):
    await bench.run("INSERT INTO q (id) SELECT seq FROM seq_1_to_400")
    other = SqlMessageStore.for_mysql(MySQLPool(bench.url, size=2))
    try:
        claims = []
        for start in range(1, 400, 50):
            ids = list(range(start, start + 50))
            claims += [bench.store.claim(bench.spec, ids, DELAYS), other.claim(bench.spec, ids, DELAYS)]
        got = [message.id for claim in await asyncio.gather(*claims) for message in claim.messages]
        assert len(got) == len(set(got))
        # What both passed over because the other held it at that moment is still due.
        left = (await bench.store.poll(bench.spec, 1000)).keys
        assert len(got) + len(left) == 400
    finally:
        await other.close()


async def test_a_failed_transaction_changes_nothing(bench):
    pool = MySQLPool(bench.url, size=1)
    await bench.add(Row(1))

    def work(connection):
        connection.execute("UPDATE q SET epoch = 9")
        connection.query("SELECT nonsense")

    try:
        with pytest.raises(BackendError) as caught:
            await pool.write(work)
        assert (caught.value.errno, caught.value.sqlstate) == (1054, "42S22")
        assert (await bench.row(1)).epoch == 0
        assert await pool.read(lambda connection: connection.query("SELECT 1")) == [(1,)]
    finally:
        await pool.close()


@pytest.mark.parametrize("last", [False, True])
async def test_a_commit_that_is_refused_leaves_no_transaction(bench, last):
    await bench.add(Row(1), Row(2))
    counted = Counted(bench.url)
    ask = counted.connection._connection.run
    refused = "SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1205"
    update = "UPDATE q SET epoch = 7 WHERE id = ?"
    write = counted.pool.write
    counted.connection._connection.run = lambda sql, **options: ask(sql.replace("COMMIT", refused), **options)
    with pytest.raises(LockWaitTimeout):
        await write(lambda connection: connection.run([Statement(update, (1,))], last=last))
    counted.connection._connection.run = ask
    await write(lambda connection: connection.execute(update, (2,)))
    assert [(await bench.row(id_)).epoch for id_ in (1, 2)] == [0, 7]
    assert counted.sent[-2:] == ["BEGIN;UPDATE q SET epoch = 7 WHERE id = 2", "COMMIT"]
    await counted.pool.close()


async def test_a_rollback_that_is_refused_ends_the_connection(bench):
    counted = Counted(bench.url)
    ask = counted.connection._connection.run
    refused = "SIGNAL SQLSTATE '45000'"
    counted.connection._connection.run = lambda sql, **options: ask(sql.replace("ROLLBACK", refused), **options)

    def fails(connection):
        connection.execute("UPDATE q SET epoch = 7")
        raise BackendError("no")

    with pytest.raises(BackendUnavailable):
        await counted.pool.write(fails)
    assert not counted.connection._connection.open
    await counted.pool.close()


async def test_lock_waits_end_as_what_they_are(bench):
    pool = MySQLPool(bench.url, size=1)
    await bench.add(Row(1))
    await bench.lock(1)

    def work(connection):
        connection.execute("SET SESSION innodb_lock_wait_timeout = 1")
        connection.execute("UPDATE q SET epoch = 9")

    try:
        with pytest.raises(LockWaitTimeout):
            await pool.write(work)
    finally:
        await pool.close()


async def test_a_killed_connection_is_replaced(bench):
    pool = MySQLPool(bench.url, size=1)
    try:
        id_ = await pool.read(lambda connection: connection.query("SELECT CONNECTION_ID()")[0][0])
        await bench.run(f"KILL {id_}")
        id_ = await pool.read(lambda connection: connection.query("SELECT CONNECTION_ID()")[0][0])  # made again
        await bench.run(f"KILL {id_}")
        with pytest.raises(BackendUnavailable):
            await pool.write(lambda connection: connection.query("SELECT 1"))  # a write never is
        assert await pool.write(lambda connection: connection.query("SELECT 1")) == [(1,)]
    finally:
        await pool.close()


async def test_text_rows_are_the_bytes_of_the_wire(bench):
    columns = "a DECIMAL(10,2), b DATETIME(3), c BLOB, d FLOAT, e JSON, f TIME"
    await bench.create("t", columns=columns)
    spec = await load(bench, "t")
    await bench.run(
        "INSERT INTO t (id, a, b, c, d, e, f) VALUES"
        " (1, 1.5, '2026-01-02 03:04:05.678', X'00FF27', 1.25, '{\"k\": 1}', '-25:00:01')"
    )
    message = (await bench.store.claim(spec, [1], DELAYS)).messages[0]
    expected = (b"1.50", b"2026-01-02 03:04:05.678", b"\x00\xff'", b"1.25", b'{"k": 1}', b"-25:00:01")
    assert message.values[-6:] == expected
    types = [(column.name, column.type, column.charset) for column in spec.columns[-6:]]
    json = ("e", 245, 63) if SERVER == "mysql" else ("e", 252, 45)
    assert types == [("a", 246, 63), ("b", 12, 63), ("c", 252, 63), ("d", 4, 63), json, ("f", 11, 63)]


async def test_tables_that_cannot_be_served_are_rejected_with_the_reason(bench):
    await bench.run(f"CREATE TABLE no_epoch (id INT PRIMARY KEY, priority INT) COMMENT '{COMMENT}'")
    columns = "priority INT, epoch BIGINT, time_next BIGINT, time_acked BIGINT"
    await bench.run(f"CREATE TABLE no_key (id INT, {columns}) COMMENT '{COMMENT}'")
    await bench.run(f"CREATE TABLE half_key (id INT, {columns}, PRIMARY KEY (id, priority)) COMMENT '{COMMENT}'")
    await bench.run(f"CREATE TABLE bit_id (id BIT(8) PRIMARY KEY, {columns}) COMMENT '{COMMENT}'")
    dates = columns.replace("time_next BIGINT", "time_next DATETIME")
    await bench.run(f"CREATE TABLE dates (id INT PRIMARY KEY, {dates}) COMMENT '{COMMENT}'")
    short = columns.replace("time_next BIGINT", "time_next INT")
    await bench.run(f"CREATE TABLE short_times (id INT PRIMARY KEY, {short}) COMMENT '{COMMENT}'")
    years = columns.replace("epoch BIGINT", "epoch YEAR")
    await bench.run(f"CREATE TABLE years (id INT PRIMARY KEY, {years}) COMMENT '{COMMENT}'")
    await bench.run("CREATE TABLE other_case (id INT PRIMARY KEY) COMMENT 'VITESS_MESSAGE'")
    await bench.run("CREATE TABLE other_mark (id INT PRIMARY KEY) COMMENT 'vitess message'")
    await bench.run(f"CREATE TABLE no_options (id INT PRIMARY KEY, {columns}) COMMENT 'vitess_message'")
    await bench.run(f"CREATE TABLE no_column (id INT PRIMARY KEY, {columns}) COMMENT '{COMMENT},vt_message_cols=id|x'")
    await bench.run("CREATE TABLE ordinary (id INT PRIMARY KEY)")
    catalog = await bench.store.load_catalog(QueueCatalog())
    rejected = {name.table: reason for name, reason in catalog.rejected.items() if name.database == bench.url.database}
    assert rejected == {
        "no_epoch": "epoch missing from message table: no_epoch",
        "no_key": "id of message table no_key needs a PRIMARY KEY or UNIQUE key of its own",
        "half_key": "id of message table half_key needs a PRIMARY KEY or UNIQUE key of its own",
        "bit_id": "id of message table bit_id must be an integer, a string or a binary string",
        "dates": "time_next of message table dates must be an integer column",
        "short_times": "time_next of message table short_times must be BIGINT: it holds nanoseconds",
        "years": "epoch of message table years must be an integer column",
        "no_options": "attribute vt_ack_wait not specified for message table: no_options",
        "no_column": "message_cols: 'x' is not a column of the queue (table no_column): "
        "ALTER QUEUE no_column SET (message_cols = ...) names another",
    }


async def test_a_table_without_the_index_is_served_with_a_warning(bench, caplog):
    columns = "priority INT, epoch BIGINT, time_next BIGINT, time_acked BIGINT"
    await bench.run(f"CREATE TABLE slow (id INT PRIMARY KEY, {columns}) COMMENT '{COMMENT}'")
    await load(bench, "slow")
    await load(bench, "slow")
    warnings = [r.getMessage() for r in caplog.records if f"{bench.url.database}.slow" in r.getMessage()]
    assert len(warnings) == 1 and "no index on (time_acked, priority, time_next)" in warnings[0]


async def test_names_that_need_quoting(bench):
    name, column = "a`?'%s b", "select`?"
    quoted = [part.replace("`", "``") for part in (name, column)]
    columns = "priority INT, epoch INT DEFAULT 0, time_next BIGINT, time_acked BIGINT"
    with bench.connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE `{quoted[0]}` (id INT PRIMARY KEY, {columns}, `{quoted[1]}` TEXT) COMMENT '{COMMENT}'"
        )
        cursor.execute(f"INSERT INTO `{quoted[0]}` (id, `{quoted[1]}`) VALUES (1, 'x')")
    spec = await load(bench, name)
    assert spec.message_columns == ("id", column)
    assert [key.id for key in (await bench.store.poll(spec, 5)).keys] == [1]
    assert (await bench.store.claim(spec, [1], DELAYS)).messages[0].values[-1] == b"x"


async def test_connecting_fails_with_a_clear_error_and_without_the_password(bench):
    url = BackendUrl.parse(f"mysql://nobody:s3cret@127.0.0.1:{bench.url.port}/x")
    with pytest.raises(BackendUnavailable) as caught:
        await asyncio.to_thread(MySQLStoreConnection, url)
    assert caught.value.errno == 1045 and "s3cret" not in str(caught.value)
    url = BackendUrl.parse("mysql://nobody:s3cret@127.0.0.1:1/x")
    with pytest.raises(BackendUnavailable) as caught:
        await asyncio.to_thread(MySQLStoreConnection, url)
    assert "s3cret" not in str(caught.value) and "127.0.0.1:1" in str(caught.value)


@pytest.mark.skipif(SERVER == "mysql", reason="MySQL makes itself a certificate")
async def test_tls_that_is_asked_for_and_not_offered_is_an_error(bench):
    url = BackendUrl.parse(f"mysql://root@127.0.0.1:{bench.url.port}/?ssl=required")
    with pytest.raises(BackendUnavailable, match=r"SSL|TLS"):
        await asyncio.to_thread(MySQLStoreConnection, url)


class Counted:
    """A pool of one connection that notes the texts it sends, one entry for each round trip."""

    def __init__(self, url):
        self.sent = []
        self.connection = MySQLStoreConnection(url)
        ask, send = self.connection._connection.run, self.connection._connection.send

        def counted(sql, **options):
            self.sent.append(sql)
            return ask(sql, **options)

        def counted_send(sql):
            self.sent.append(sql)
            return send(sql)

        self.connection._connection.run, self.connection._connection.send = counted, counted_send
        self.pool = ThreadPool(lambda: self.connection, size=1)
        self.pool.replicates, self.pool.without_waiting = False, self.connection.without_waiting


async def test_a_message_costs_three_round_trips_from_look_to_lease(bench):
    counted = Counted(bench.url)
    store = SqlMessageStore.for_mysql(counted.pool)
    await bench.add(Row(1))
    await store.poll(bench.spec, 10)  # learns the level of priority in use
    counted.sent.clear()
    assert (await store.poll_and_claim(bench.spec, 10, 10, frozenset((1,)), DELAYS)).claim is None
    assert len(counted.sent) == 1, "nothing to claim opens no transaction"
    counted.sent.clear()
    found = await store.poll_and_claim(bench.spec, 10, 10, (), DELAYS)
    assert [message.id for message in found.claim.messages] == [1]
    assert len(counted.sent) == 3, counted.sent
    assert counted.sent[1].startswith("BEGIN;SELECT") and counted.sent[2].endswith(";COMMIT")
    await store.close()


async def test_what_was_added_costs_one_round_trip(bench):
    counted = Counted(bench.url)
    store = SqlMessageStore.for_mysql(counted.pool)
    await bench.add(Row(1))
    now = await bench.now_ns()
    lease = ForeseenLease(lease_end(now + 10 * SECOND), now - 5 * SECOND, now + 5 * SECOND)
    claim = await store.claim_added(bench.spec, [1], lease)
    assert [message.id for message in claim.messages] == [1]
    assert len(counted.sent) == 1 and counted.sent[0].startswith("BEGIN;") == bench.mysql
    assert counted.sent[0].endswith(";COMMIT") == bench.mysql, "MariaDB needs no lock before, so it is one statement"
    await store.close()


@pytest.mark.parametrize("count", [2, WITHOUT_THREAD_MAX + 1])
@pytest.mark.parametrize("errno", [1054, 1205, 1213])
async def test_what_was_added_and_leased_and_cannot_be_read_is_told(bench, monkeypatch, errno, count):
    """As where a table is changed between the two statements of a claim."""
    if bench.mysql:
        pytest.skip("there both are in a transaction")
    ids = list(range(1, count + 1))
    store = SqlMessageStore.for_mysql(MySQLPool(bench.url, size=1))
    await bench.add(*map(Row, ids))
    await store.poll(bench.spec, 1)
    now = await bench.now_ns()
    lease = ForeseenLease(lease_end(now + 10 * SECOND), now - 5 * SECOND, now + 5 * SECOND)
    leased_until = AddedStatements.leased_until

    def fails(statements, wanted):
        refused = f"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {errno}; "
        return refused + leased_until(statements, wanted)

    monkeypatch.setattr(AddedStatements, "leased_until", fails)
    with pytest.raises(LeaseUnknown) as caught:
        await store.claim_added(bench.spec, ids, lease)
    assert await store.release(bench.spec, caught.value.leases, counted=False) == count
    assert (await bench.row(1)).epoch == 0
    await store.close()


@pytest.fixture
async def foreseen(bench):
    """A store that has just claimed message 1, so it expects 2 and those behind it; and what it sends."""
    counted = Counted(bench.url)
    store = SqlMessageStore.for_mysql(counted.pool)
    await bench.add(Row(1))
    await store.poll_and_claim(bench.spec, 10, 10, (), DELAYS)
    counted.sent.clear()
    yield store, counted
    await store.close()


async def claimed_and_sent(bench, foreseen, count=10):
    store, counted = foreseen
    found = await store.poll_and_claim(bench.spec, 10, count, (), DELAYS)
    assert counted.connection._transaction.name == "NONE"
    return [message.id for message in found.claim.messages] if found.claim else None, len(counted.sent)


async def test_what_was_expected_costs_two_round_trips(bench, foreseen):
    await bench.add(Row(2), Row(3))
    assert await claimed_and_sent(bench, foreseen) == ([2, 3], 2)
    assert [(await bench.row(id_)).epoch for id_ in (2, 3)] == [1, 1], "committed"


async def test_where_nothing_is_due_no_lock_is_kept(bench, foreseen):
    await bench.add(Row(2, time_next=await bench.now_ns() + 60 * SECOND))
    assert await claimed_and_sent(bench, foreseen) == (None, 2)
    await bench.run("UPDATE q SET payload = 'x' WHERE id = 2")  # waits for no lock


@pytest.mark.parametrize("other", [Row(9), Row(9, priority=-1), Row(9, priority=None)], ids=str)
async def test_what_comes_first_is_claimed_whatever_was_expected(bench, foreseen, other):
    await bench.add(other, Row(2))
    ids, _ = await claimed_and_sent(bench, foreseen, count=1)
    (first,) = (await foreseen[0].poll(bench.spec, 10)).keys
    assert ids == [({2, 9} - {first.id}).pop()] and (await bench.row(first.id)).epoch == 0
    assert ids == [9] or other == Row(9)


async def test_a_lease_that_is_tried_again_locks_anew(bench, foreseen):
    """A deadlock took the locks of the look."""
    await bench.add(Row(2))
    _, counted = foreseen
    ask, failed = counted.connection._connection.run, []

    def failing(sql, **options):
        if sql.startswith("UPDATE") and not failed:
            failed.append(sql)
            ask("ROLLBACK")
            raise pymysql.err.OperationalError(1213, "Deadlock found when trying to get lock")
        return ask(sql, **options)

    counted.connection._connection.run = failing
    assert (await claimed_and_sent(bench, foreseen))[0] == [2]
    assert failed and [text.split()[0] for text in counted.sent[-2:]] == ["BEGIN;SELECT", "UPDATE"]
    assert (await bench.row(2)).epoch == 1


async def test_a_server_without_multi_statements_is_asked_one_by_one(bench):
    counted = Counted(bench.url)
    counted.connection._together = False
    store = SqlMessageStore.for_mysql(counted.pool)
    await bench.add(Row(1), Row(2))
    for id_ in (1, 2):
        found = await store.poll_and_claim(bench.spec, 10, 1, (), DELAYS)
        assert [message.id for message in found.claim.messages] == [id_]
        assert (await bench.row(id_)).epoch == 1, "committed"
    assert not [text for text in counted.sent if ";" in text]
    await store.close()


async def test_nothing_travels_behind_a_lock_on_a_galera_node(bench):
    """MariaDB keeps silent about a transaction that another node ended between two statements of one packet."""
    counted = Counted(bench.url)
    counted.connection._replicates = True
    store = SqlMessageStore.for_mysql(counted.pool)
    await bench.add(Row(1), Row(2))
    await store.poll(bench.spec, 10)
    counted.sent.clear()
    found = await store.poll_and_claim(bench.spec, 10, 1, (), DELAYS)
    assert [message.id for message in found.claim.messages] == [1]
    poll, *claim = counted.sent
    assert poll.count(";") >= 1, "what locks nothing travels together, here too"
    assert [text.split()[0] for text in claim] == ["BEGIN;SELECT", "UPDATE", "SELECT", "COMMIT"]
    assert (await bench.row(1)).epoch == 1, "committed"
    counted.sent.clear()
    await store.release(bench.spec, [release_of(message) for message in found.claim.messages], counted=False)
    assert [text.split()[0] for text in counted.sent] == ["BEGIN;SELECT", "UPDATE", "COMMIT"]
    await store.close()


async def test_a_galera_node_outside_the_majority_is_a_database_out_of_reach():
    apart = pymysql.err.OperationalError(1047, "WSREP has not yet prepared node for application use")
    assert isinstance(_translated(apart, True), BackendUnavailable)
    unread = pymysql.err.OperationalError(1047, "Unknown command")
    assert not isinstance(_translated(unread, True), BackendUnavailable)
    half = pymysql.err.OperationalError(1180, 'Got error 6 "No such device or address" during COMMIT')
    assert isinstance(_translated(half, True), BackendUnavailable), "it may have been committed"


async def test_rows_that_a_tablet_of_a_vitess_cannot_send_at_once_are_too_many_for_one_answer():
    """Then a claim is followed by a smaller one. A packet that the server does not accept is another matter."""
    text = "target: main.-.primary: grpc: trying to send message larger than max (19202399 vs. 16777216)"
    error = _translated(pymysql.err.OperationalError(1153, text), True)
    assert isinstance(error, AnswerTooLarge) and "16 MiB" in str(error)
    packet = pymysql.err.OperationalError(1153, "Got a packet bigger than 'max_allowed_packet' bytes")
    assert not isinstance(_translated(packet, True), AnswerTooLarge)


async def test_a_table_that_cannot_be_described_stops_no_other(bench, engine_mariadb, caplog):
    """As a table that Vitess does not know: here the account may write into it, and not read it."""
    await bench.create("bad")
    account = f"half_{os.urandom(4).hex()}"
    await bench.run(f"CREATE USER {account}@'127.0.0.1'")
    await bench.run(f"GRANT INSERT ON {bench.url.database}.bad TO {account}@'127.0.0.1'")
    await bench.run(f"GRANT ALL ON {bench.url.database}.q TO {account}@'127.0.0.1'")
    url = BackendUrl.parse(f"mysql://{account}@127.0.0.1:{bench.url.port}/{bench.url.database}")
    store = SqlMessageStore.for_mysql(MySQLPool(url, size=1))
    q, bad = (QueueName(bench.url.database, table) for table in ("q", "bad"))
    catalog = await store.load_catalog(QueueCatalog())
    assert q in catalog.queues and "cannot be read" in catalog.rejected[bad] and "1142" in catalog.rejected[bad]
    assert await store.load_catalog(catalog) is catalog
    await bench.run(f"GRANT SELECT ON {bench.url.database}.bad TO {account}@'127.0.0.1'")
    readable = await store.load_catalog(catalog)
    assert bad in readable.queues
    await bench.run(f"REVOKE SELECT ON {bench.url.database}.bad FROM {account}@'127.0.0.1'")
    await bench.run("ALTER TABLE bad ADD more INT")
    await store.load_catalog(readable)
    warned = [record.getMessage() for record in caplog.records if f"{bad}" in record.getMessage()]
    assert len(warned) == 2 and "served as before" in warned[1]
    assert (await store.load_catalog(readable)).queues.keys() == readable.queues.keys(), "its streams go on"
    await bench.run(f"DROP USER {account}@'127.0.0.1'")
    await store.close()


async def test_an_error_amid_statements_sent_together_undoes_them_and_keeps_the_connection(bench):
    await bench.add(Row(1))
    lease = Statement("UPDATE q SET epoch = 7 WHERE id = ?", (1,))

    def fails(connection):
        connection.run([lease, Statement("SELECT nothing FROM nowhere"), lease], last=True)

    counted = Counted(bench.url)
    with pytest.raises(BackendError, match="nowhere"):
        await counted.pool.write(fails)
    assert (await bench.row(1)).epoch == 0
    assert await counted.pool.read(lambda connection: connection.query("SELECT 5")) == [(5,)]
    await counted.pool.write(lambda connection: connection.run([lease], last=True))
    assert (await bench.row(1)).epoch == 7
    await counted.pool.close()


async def test_only_tables_that_changed_are_read_again(bench, monkeypatch):
    for number in range(3):
        await bench.create(f"more_{number}")
    catalog = await bench.store.load_catalog(QueueCatalog())
    described = []
    describe = MySQLStoreConnection.describe

    def noticed(connection, database, table):
        described.append(table)
        return describe(connection, database, table)

    monkeypatch.setattr(MySQLStoreConnection, "describe", noticed)
    await bench.run("INSERT INTO more_1 (id, payload) VALUES (1, 'x')")
    assert await bench.store.load_catalog(catalog) is catalog
    assert described == []
    await bench.run("ALTER TABLE more_1 ADD n INT")
    changed = await bench.store.load_catalog(catalog)
    assert described == ["more_1"]
    names = {queue.name.table: [column.name for column in queue.columns] for queue in changed}
    assert "n" in names["more_1"] and "n" not in names["more_2"]
    await bench.run("DROP TABLE more_2")
    for previous in (changed, QueueCatalog()):
        tables = {queue.name.table for queue in await bench.store.load_catalog(previous)}
        assert {"more_0", "more_1"} <= tables and "more_2" not in tables
    assert described == ["more_1"]


VALUES = (
    "SELECT 1, -1, 2.50, 1e3, NULL, 'a', 'ü', BINARY 'b', '' AS nothing, DATE '2026-01-02', TIME '25:00:00.5', "
    "TIMESTAMP '2026-01-02 03:04:05.678', CAST(18446744073709551615 AS UNSIGNED), b'101', JSON_ARRAY(1, 'x'), "
    "YEAR('2026-01-02'), TRUE"
)


@pytest.mark.parametrize("sql", [VALUES, f"{VALUES} FROM (SELECT 1 UNION SELECT 2) AS t", "SELECT 1 LIMIT 0", "DO 1"])
async def test_values_are_those_that_pymysql_reads(bench, sql):
    connection = MySQLStoreConnection(bench.url)
    try:
        own = connection._connection
        own.query(sql)
        read_by_pymysql = list(own._result.rows or ())
        found = connection.query(sql)
        assert found == read_by_pymysql
        assert [list(map(type, row)) for row in found] == [list(map(type, row)) for row in read_by_pymysql]
    finally:
        connection.close()


async def test_rows_of_several_messages_that_are_too_large_together_are_not_read_to_the_end(bench, monkeypatch):
    monkeypatch.setattr("engine.store.operations.lease.CLAIM_ANSWER_BYTES_MAX", 1 << 20)
    await bench.create("large", columns="payload LONGTEXT")
    spec = await load(bench, "large")
    await bench.run("INSERT INTO large (id, payload) VALUES (1, REPEAT('x', 800000)), (2, REPEAT('y', 800000))")
    with pytest.raises(LeaseUnknown) as raised:
        await bench.store.claim(spec, [1, 2], DELAYS)
    assert raised.value.errno == TOO_LARGE and [lease.id for lease in raised.value.leases] == [1, 2]
    monkeypatch.setattr("engine.store.operations.lease.CLAIM_ANSWER_BYTES_MAX", 500_000)
    for id_ in (1, 2):  # one alone may have any size
        claimed = ()
        async with asyncio.timeout(30):  # the server notices only when it writes that nobody reads
            while not claimed:
                await bench.store.release(spec, raised.value.leases, counted=False)
                claimed = (await bench.store.claim(spec, [id_], DELAYS)).messages
        assert [(message.id, message.epoch) for message in claimed] == [(id_, 1)]

"""A database that fails at the worst moment: streams stay open, every message comes, none comes twice for that."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator

import pymysql
import pytest
from cutter import Cutter, Moment
from servers import Gate, MariaDb, Sql, Stream, wait_until
from slowness import scaled

BACK_SECONDS = 10.0  # from the database's return to the messages' (issue 4)
STALLED_SECONDS = 20.0  # from a line that died silently: eight seconds until it is given up, and what follows
LEASE = b"SET time_next = CASE"  # the engine's lease, with which its COMMIT travels
IN_A_MOMENT = "UNIX_TIMESTAMP(NOW(6) + INTERVAL 2 SECOND) * 1000000000"
CLAIM = b"FOR UPDATE SKIP LOCKED"


@pytest.fixture
def cutter(mariadb: MariaDb) -> Iterator[Cutter]:
    between = Cutter(mariadb.port)
    yield between
    between.close()


@pytest.fixture
def gate(mariadb: MariaDb, cutter: Cutter, tmp_path) -> Iterator[Gate]:
    """A queuegate that reaches its database through the cutter, with one queue of which nothing comes by itself."""
    mariadb.fresh_database("trouble")
    url = f"mysql://root@127.0.0.1:{cutter.port}/trouble?ssl=disabled"  # the cutter reads along
    running = Gate(url, tmp_path, database="trouble", workers=1, peers=False).start()
    client = Sql(running.connect())
    client("CREATE QUEUE q (n INT) WITH (ack_wait = '1h', max_backoff = '2h', poll_interval = '1h')")
    client.close()
    yield running
    running.stop()


@contextlib.contextmanager
def client_of(gate: Gate) -> Iterator[Sql]:
    client = Sql(gate.connect())
    try:
        yield client
    finally:
        client.connection._force_close()


@pytest.mark.parametrize("moment", list(Moment), ids=lambda moment: moment.name.lower())
@pytest.mark.parametrize("statement", [LEASE, CLAIM], ids=["lease", "claim"])
def test_a_line_that_fails_in_the_engines_transaction(gate, cutter, moment, statement):
    """Whether its commit took place is not known then: the message comes once all the same, and as if for the first
    time, for nobody has seen it."""
    with client_of(gate) as client, Stream(gate, "SELECT id, n, epoch FROM STREAM q") as receiver:
        cutter.arm(moment, statement)
        client("INSERT INTO q (n, time_next) VALUES (1, NULL)")  # which takes a poll
        assert cutter.fell.wait(10), "the engine's statement passed by"
        began = time.monotonic()
        assert receiver.wait(1, STALLED_SECONDS) == [(1, 1, 1)]
        assert time.monotonic() - began < scaled(BACK_SECONDS if moment.cuts else STALLED_SECONDS)
        client("INSERT INTO q (n) VALUES (2)")
        assert receiver.wait(2, 5) == [(1, 1, 1), (2, 2, 1)]
        assert client("ACK q 1, 2") == 2
        assert not receiver.ended.is_set()


@pytest.mark.parametrize("moment", [Moment.CUT_AFTER, Moment.CUT_BEFORE], ids=lambda moment: moment.name.lower())
def test_a_clients_line_that_fails_in_its_commit(gate, cutter, mariadb, moment):
    """It learns nothing; if the database took the message, a receiver has it at once."""
    with client_of(gate) as client, Stream(gate, "SELECT n FROM STREAM q") as receiver:
        client("BEGIN")
        client("INSERT INTO q (n) VALUES (1)")
        cutter.arm(moment, b"COMMIT", without=b"SET")
        with pytest.raises(pymysql.err.MySQLError):
            client("COMMIT")
        if moment.passes:
            assert receiver.wait(1, BACK_SECONDS) == [(1,)]
        with mariadb.connect(database="trouble") as around, around.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM q")
            assert cursor.fetchone() == (int(moment.passes),)


@pytest.mark.parametrize("moment", [Moment.CUT_AFTER, Moment.CUT_BEFORE], ids=lambda moment: moment.name.lower())
def test_a_clients_line_that_fails_in_an_insert_with_a_lease(gate, cutter, moment):
    """Nobody knows the message's id; if the database took the message, a receiver has it soon."""
    with client_of(gate) as client, Stream(gate, "SELECT n, epoch FROM STREAM q") as receiver:
        for n in (1, 2):
            client(f"INSERT INTO q (n) VALUES ({n})")
            receiver.wait(n, BACK_SECONDS)
        cutter.arm(moment, b"lease_token) VALUES (")
        with pytest.raises(pymysql.err.MySQLError):
            for n in range(3, 20):  # as below
                client(f"INSERT INTO q (n) VALUES ({n})")
                receiver.wait(n, BACK_SECONDS)
        assert cutter.fell.wait(10), "it was inserted without a lease"
        if moment.passes:
            assert receiver.wait(n, BACK_SECONDS)[n - 1] == (n, 1)
    with client_of(gate) as client, Stream(gate, "SELECT n, epoch FROM STREAM q") as receiver:
        client("INSERT INTO q (n) VALUES (100)")
        assert (100, 1) in receiver.wait(n + 1 if moment.passes else n, BACK_SECONDS)


@pytest.mark.parametrize("moment", list(Moment), ids=lambda moment: moment.name.lower())
def test_a_line_that_fails_as_a_message_is_read_that_its_insert_has_leased(gate, cutter, moment):
    with client_of(gate) as client, Stream(gate, "SELECT id, n, epoch FROM STREAM q") as receiver:
        client("INSERT INTO q (n) VALUES (1)")
        receiver.wait(1, BACK_SECONDS)
        cutter.arm(moment, b") AND time_acked IS NULL", without=b"UPDATE")
        for n in range(2, 20):  # one is not inserted as leased while the receiver is about to wait, or a poll is due
            client("INSERT INTO q (n) VALUES (%s)", n)
            if cutter.fell.wait(1):
                break
            receiver.wait(n, BACK_SECONDS)
        assert cutter.fell.is_set(), "the engine's statement passed by"
        began = time.monotonic()
        assert receiver.wait(n, STALLED_SECONDS)[n - 1] == (n, n, 1)
        assert time.monotonic() - began < scaled(BACK_SECONDS if moment.cuts else STALLED_SECONDS)


def test_idle_lines_that_died_silently_stop_a_queue_for_seconds_only(gate, cutter):
    with Stream(gate, "SELECT n FROM STREAM q") as receiver:
        with client_of(gate) as client:
            client("INSERT INTO q (n) VALUES (1)")
            receiver.wait(1)
        cutter.stall()  # the engine's idle lines among them
        with client_of(gate) as client:
            client("INSERT INTO q (n) VALUES (2)")
            assert receiver.wait(2, STALLED_SECONDS) == [(1,), (2,)]


def test_all_lines_cut_again_and_again(gate, cutter):
    with Stream(gate, "SELECT n FROM STREAM q") as receiver:
        for n in range(5):
            cutter.cut()
            with client_of(gate) as client:
                client("INSERT INTO q (n) VALUES (%s)", n)
            assert receiver.wait(n + 1, BACK_SECONDS)[n] == (n,)


def test_what_a_receiver_held_when_the_database_went_is_given_back_when_it_returns(own_mariadb, tmp_path):
    gate = Gate(own_mariadb.url(), tmp_path).start()
    with client_of(gate) as client:
        client("CREATE QUEUE q (n INT) WITH (ack_wait = '1h', max_backoff = '2h', poll_interval = '1h')")
        lost = Stream(gate, "SELECT n, epoch FROM STREAM q")
        client("INSERT INTO q (n) VALUES (1)")
        lost.wait(1)
    own_mariadb.kill()
    lost.close()
    time.sleep(BACK_SECONDS)  # long enough for everything to have been tried several times
    own_mariadb.start()
    heir = wait_until(lambda: opened(gate, "SELECT n, epoch FROM STREAM q"), 20, "the proxy to serve again")
    assert heir.wait(1, BACK_SECONDS) == [(1, 2)]
    heir.close()
    gate.stop()


def opened(gate: Gate, sql: str) -> Stream | None:
    try:
        return Stream(gate, sql)
    except pymysql.err.MySQLError:
        return None


@pytest.fixture
def plain(own_mariadb, tmp_path) -> Iterator[tuple[Gate, Sql, Sql]]:
    """A queuegate whose account has no special rights; a client of it, and one of the server with all rights."""
    root = Sql(own_mariadb.connect(database="main"))
    root("CREATE USER plain@'127.0.0.1'")
    root("GRANT ALL ON main.* TO plain@'127.0.0.1'")
    gate = Gate(f"mysql://plain@127.0.0.1:{own_mariadb.port}/main", tmp_path, peers=False).start()
    client = Sql(gate.connect(user="plain"))
    client("CREATE QUEUE q (n INT) WITH (ack_wait = '1h', max_backoff = '2h', poll_interval = '1h')")
    yield gate, client, root
    client.connection._force_close()
    root.close()
    gate.stop()


def test_a_server_that_can_only_be_read_for_a_while(plain):
    gate, client, root = plain
    with Stream(gate, "SELECT n, epoch FROM STREAM q", user="plain") as receiver:
        client(f"INSERT INTO q (n, time_scheduled) VALUES (1, 0), (3, {IN_A_MOMENT})")
        receiver.wait(1)
        root("SET GLOBAL read_only = 1")
        assert client.error("INSERT INTO q (n) VALUES (2)")[0] == 1290
        wait_until(lambda: "read-only" in gate.log, 20, "the engine to meet it")
        assert len(receiver.rows) == 1 and not receiver.ended.is_set()
        root("SET GLOBAL read_only = 0")
        assert receiver.wait(2, BACK_SECONDS) == [(1, 1), (3, 1)]
        client("INSERT INTO q (n) VALUES (4)")
        assert receiver.wait(3, 5)[2] == (4, 1)


def test_a_server_without_a_place_for_the_engine(plain):
    gate, client, root = plain
    with Stream(gate, "SELECT n FROM STREAM q", user="plain") as receiver, contextlib.ExitStack() as others:
        mine = {client.connection.thread_id(), receiver.id, root.connection.thread_id()}
        root("SET GLOBAL max_connections = 10")
        for n in itertools.count(1):
            take_all_places(others, root, mine)
            client("INSERT INTO q (n) VALUES (%s)", n)
            wait_until(lambda n=n: "database trouble" in gate.log or len(receiver.rows) == n, 20, "the engine")
            if len(receiver.rows) < n:
                break
            assert n < 20  # it had a connection that the list did not show yet: once more
        assert not receiver.ended.is_set()
        others.close()
        assert receiver.wait(n, BACK_SECONDS)[-1] == (n,)


def take_all_places(stack: contextlib.ExitStack, root: Sql, mine: set[int]) -> None:
    """Take every place, those of the engine's own connections too, which are ended for that.

    A place becomes free a moment after its connection has left the list. So it is over only once the engine had no
    connection, there was no place all the same, and it has got none since.
    """
    port = root.connection.port
    engine = "user IN ('plain', 'unauthenticated user')"  # logged in, or about to be
    listed = f"SELECT id FROM information_schema.PROCESSLIST WHERE {engine}"
    full = False
    while (engines := set(root.column(listed)) - mine) or not full:
        for number in engines:
            with contextlib.suppress(pymysql.err.OperationalError):  # it has ended by itself meanwhile
                root(f"KILL {number}")
        taken = fill(stack, lambda: pymysql.connect(host="127.0.0.1", port=port, user="plain"))
        full = not engines and not taken
        mine |= taken


def fill(stack: contextlib.ExitStack, connect: Callable[[], pymysql.Connection]) -> set[int]:
    """Take all places that there are; MariaDB keeps one more, for administrators. Returns whose they are."""
    taken = set()
    for _ in range(20):
        try:
            connection = connect()
        except pymysql.err.OperationalError as error:
            assert error.args[0] == 1040
            return taken
        stack.callback(connection._force_close)
        taken.add(connection.thread_id())
    raise AssertionError("never full")


def test_a_table_that_is_locked_for_longer_than_the_engine_waits(plain):
    gate, client, root = plain
    with Stream(gate, "SELECT n FROM STREAM q", user="plain") as receiver:
        client(f"INSERT INTO q (n, time_scheduled) VALUES (1, {IN_A_MOMENT})")
        root("LOCK TABLES q WRITE")
        wait_until(lambda: "Lock wait timeout" in gate.log, 20, "the engine to wait in vain")
        root("UNLOCK TABLES")
        assert receiver.wait(1, BACK_SECONDS) == [(1,)]

"""A temporary table of a queue's or topic's name gives its maker no right to the queue or the topic.

The database gives whoever makes a temporary table all rights on it. Whether an account may receive, seek or look is
asked by statements on its own connection, where the name is that of the temporary table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymysql
import pytest
from servers import SERVER, Gate, MariaDb, Sql, Stream, wait_until

HERE, OWN, ACCOUNT = "treasury", "marys", "mary"
NO_TABLE, DENIED = 1347, 1142
COLUMNS = (
    "id BIGINT AUTO_INCREMENT PRIMARY KEY, priority INT, time_scheduled BIGINT, time_next BIGINT, epoch INT,"
    " time_created BIGINT, time_acked BIGINT, state VARCHAR(11), first_error TEXT, last_error TEXT,"
    " failed_attempts TEXT, body VARCHAR(100), lease_token BIGINT, other INT"
)

MYSQL_TOO = ["mariadb", pytest.param("mysql", marks=pytest.mark.long)]


@pytest.fixture(scope="module", params=MYSQL_TOO if SERVER == "mariadb" else [SERVER])
def server(request: pytest.FixtureRequest) -> MariaDb:
    return request.getfixturevalue(str(request.param))


class Place:
    """A gate, a database of queues that are others', and an account that may only make temporary tables there. Besides
    it has a database of its own."""

    def __init__(self, server: MariaDb, folder: Any) -> None:
        self.root = Sql(server.connect())
        self.url = server.fresh_database(HERE)
        self.root(f"DROP DATABASE IF EXISTS {OWN}")
        self.root(f"CREATE DATABASE {OWN}")
        self.root(f"USE {HERE}")
        self.root(f"DROP USER IF EXISTS {ACCOUNT}@'127.0.0.1'")
        self.root(f"CREATE USER {ACCOUNT}@'127.0.0.1' IDENTIFIED BY 'pw'")
        self.root(f"GRANT CREATE TEMPORARY TABLES ON {HERE}.* TO {ACCOUNT}@'127.0.0.1'")
        self.root(f"GRANT ALL ON {OWN}.* TO {ACCOUNT}@'127.0.0.1'")
        self.gate = Gate(self.url, folder, database=HERE).start()
        self.admin = Sql(self.gate.connect(database=HERE))
        self.mysql = "MariaDB" not in str(self.root.value("SELECT VERSION()"))

    def grant(self, rights: str, table: str) -> None:
        self.root(f"GRANT {rights} ON {HERE}.{table} TO {ACCOUNT}@'127.0.0.1'")

    def login(self, *temporary: str) -> Sql:
        """The account, with temporary tables of these names."""
        client = Sql(self.gate.connect(user=ACCOUNT, password="pw", database=HERE))
        for table in temporary:
            client(f"CREATE TEMPORARY TABLE {table} ({COLUMNS})")
        return client

    def stop(self) -> None:
        self.admin.close()
        self.gate.stop()
        self.root(f"DROP USER IF EXISTS {ACCOUNT}@'127.0.0.1'")
        self.root(f"DROP DATABASE {OWN}")
        self.root.close()


@pytest.fixture(scope="module")
def place(server: MariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(server, tmp_path_factory.mktemp("temporary"))
    yield made
    made.stop()


@pytest.fixture
def queue(place: Place, name: str) -> str:
    place.admin(f"CREATE QUEUE {name} (body VARCHAR(100), other INT)")
    place.admin(f"INSERT INTO {name} (body) VALUES ('secret'), ('another')")
    return name


@pytest.fixture
def topic(place: Place, name: str) -> str:
    place.admin(f"CREATE TOPIC {name} (body VARCHAR(100), other INT)")
    place.admin(f"INSERT INTO {name} (body) VALUES ('secret')")
    return name


def test_messages_are_not_received(place: Place, queue: str) -> None:
    polls = [
        f"SELECT * FROM STREAM {queue} LIMIT 1 NOWAIT",
        f"SELECT id FROM STREAM {queue} WHERE body LIKE 's%' LIMIT 1 NOWAIT",
    ]
    client = place.login()
    assert [client.error(sql)[0] for sql in polls] == [DENIED] * 2
    client(f"CREATE TEMPORARY TABLE {queue} ({COLUMNS})")
    assert [client.error(sql)[0] for sql in polls] == [NO_TABLE] * 2
    client("SET character_set_results = utf16")  # in which the definition looks different
    assert client.error(polls[0])[0] == NO_TABLE
    assert place.root.column(f"SELECT epoch FROM {queue}") == [0, 0]
    client.close()


def test_who_may_receive_needs_no_temporary_table_for_the_rest(place: Place, queue: str) -> None:
    """What is remembered of the rights of a poll is not taken for others."""
    place.grant("SELECT (id, epoch, time_next, other), UPDATE (epoch)", queue)
    client = place.login()
    poll = f"SELECT id FROM STREAM {queue} {{}} LIMIT 1 NOWAIT"
    assert len(client.rows(poll.format("WHERE other IS NULL"))) == 1
    assert client.error(poll.format("WHERE body LIKE 's%'"))[0] == 1143
    client(f"CREATE TEMPORARY TABLE {queue} ({COLUMNS})")
    assert client.error(poll.format("WHERE body LIKE 's%'"))[0] == NO_TABLE
    client(f"DROP TEMPORARY TABLE {queue}")
    assert len(client.rows(poll.format(""))) == 1
    client.close()


OTHERWISE_READ = [
    ("SET STATEMENT max_statement_time = 10 FOR USE {own}", "DELETE FROM {q} WHERE id = 1"),
    (
        "SET STATEMENT lock_wait_timeout = 9 FOR CREATE TEMPORARY TABLE {q} (PRIMARY KEY (id)) SELECT * FROM {own}.{q}",
        "ACK {q} 1",
    ),
    (
        "SET STATEMENT max_statement_time = 10 FOR EXECUTE IMMEDIATE CONCAT('US', 'E {own}')",
        "DELETE FROM {q} WHERE id = 1",
    ),
    ("SET STATEMENT max_statement_time = 9 /* FOR DELETE FROM {q} WHERE id = 1 # */ FOR DELETE FROM {own}.{q}",),
    ("/*!999999 DELETE FROM {here}.{q} WHERE id = 1 # */ DELETE FROM {own}.{q} WHERE id = 1",),
    ("SET STATEMENT max_statement_time = 9 FOR /*!999999 DELETE FROM {q} WHERE id = 1 # */ DELETE FROM {own}.{q}",),
    ("SET STATEMENT max_statement_time = 9 /*!999999 FOR SELECT 1 # */ FOR USE {own}", "DELETE FROM {q} WHERE id = 1"),
    ("/*M!999999 SELECT 1 # */ USE {own}", "DELETE FROM {q} WHERE id = 1"),
    ("/*!{next} SELECT 1 # */ USE {own}", "DELETE FROM {q} WHERE id = 1"),
    (
        "CREATE /*!{next} VIEW v AS SELECT 1 # */ TEMPORARY TABLE {q} (PRIMARY KEY (id)) SELECT * FROM {own}.{q}",
        "ACK {q} 1",
    ),
]


@pytest.mark.parametrize("statements", OTHERWISE_READ, ids=[texts[0] for texts in OTHERWISE_READ])
def test_what_ends_rows_of_ones_own_ends_no_messages(place: Place, queue: str, statements: tuple[str, ...]) -> None:
    """Statements that the server reads otherwise than they look: where nobody has acked, nothing more is sent."""
    if place.mysql and ("STATEMENT" in statements[0] or "M!" in statements[0]):
        pytest.skip("SET STATEMENT and /*M! are MariaDB's")
    next_ = "99999" if place.mysql else "999999"  # a version that the server is not
    place.root(f"CREATE TABLE {OWN}.{queue} ({COLUMNS})")
    place.root(f"INSERT INTO {OWN}.{queue} (id, epoch) VALUES (1, 1), (2, 0)")
    client = place.login()
    with Stream(place.gate, f"SELECT id FROM STREAM {queue} WITH (prefetch = 1, ack_wait = '1h')") as receiver:
        assert receiver.wait(1) == [(1,)]
        for text in statements:
            client(text.format(q=queue, here=HERE, own=OWN, next=next_))
        fence = f"SELECT unacked FROM queuegate.subscriptions WHERE connection_id = {receiver.id}"
        assert [place.admin.value(fence) for _ in range(10)] == [1] * 10
        assert place.root.column(f"SELECT epoch FROM {queue}") == [1, 0]
        assert place.admin(f"ACK {queue} 1") == 1
        assert receiver.wait(2) == [(1,), (2,)]
    client.close()
    place.root(f"DROP TABLE {OWN}.{queue}")


ENDS = "; DELETE FROM {here}.{q} WHERE id = 1"
CUT_OTHERWISE: dict[str, tuple[str, ...]] = {
    "a comment that is run": ("SELECT /*! '*/ " + ENDS + " # */' */",),
    "a comment that is not run": ("SELECT 1 /*!{next} /* */ " + ENDS + " # */",),
    "a control character": ("SELECT 1 --\x7f" + ENDS,),
    "a space of latin1": ("SET NAMES latin1", "SELECT 1 --\xa0" + ENDS),
    "names in double quotes": ("SET sql_mode = 'ANSI_QUOTES'", 'SELECT 1 AS "a\\", 2 AS "' + ENDS + ' #"'),
    "a backslash in a character": ("SET NAMES gbk", "SELECT '\xbf\\' = 'a' AS a, '" + ENDS + " #' AS b"),
    "a backslash that escapes nothing": (
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
        "SET @a = 1, NAMES utf8mb4; SELECT 'a\\', '" + ENDS + " #'",
    ),
}


@pytest.mark.parametrize("how", CUT_OTHERWISE)
def test_what_looks_like_several_statements_ends_no_messages(place: Place, queue: str, how: str) -> None:
    """One statement for the server, in which the proxy may see a DELETE behind a `;`."""
    several = pymysql.constants.CLIENT.MULTI_STATEMENTS if "nothing" in how else 0
    client = Sql(place.gate.connect(user=ACCOUNT, password="pw", database=HERE, client_flag=several))
    with Stream(place.gate, f"SELECT id FROM STREAM {queue} WITH (prefetch = 1, ack_wait = '1h')") as receiver:
        assert receiver.wait(1) == [(1,)]
        for text in CUT_OTHERWISE[how]:
            next_ = "99999" if place.mysql else "999999"
            cursor = client.connection.cursor()
            cursor.execute(text.format(q=queue, here=HERE, next=next_).encode("latin1"))
            while cursor.nextset():
                pass
        fence = f"SELECT unacked FROM queuegate.subscriptions WHERE connection_id = {receiver.id}"
        assert [place.admin.value(fence) for _ in range(10)] == [1] * 10
        assert place.root.column(f"SELECT epoch FROM {queue}") == [1, 0]
    client.close()


@pytest.mark.parametrize("how", ["before the queue", "renamed"])
def test_a_temporary_table_without_a_queues_name_may_get_one(place: Place, name: str, how: str) -> None:
    if how == "renamed" and place.mysql:
        pytest.skip("MariaDB's")
    client = place.login(name if how == "before the queue" else "t1")
    place.admin(f"CREATE QUEUE {name} (body VARCHAR(100), other INT)")
    place.admin(f"INSERT INTO {name} (body) VALUES ('a'), ('b')")
    with Stream(place.gate, f"SELECT id FROM STREAM {name} WITH (prefetch = 1, ack_wait = '1h')") as receiver:
        assert receiver.wait(1) == [(1,)]
        if how == "renamed":
            client(f"RENAME TABLE t1 TO {name}")
        client(f"INSERT INTO {name} (id) VALUES (1)")
        assert client(f"DELETE FROM {name} WHERE id = 1") == 1
        fence = f"SELECT unacked FROM queuegate.subscriptions WHERE connection_id = {receiver.id}"
        assert [place.admin.value(fence) for _ in range(10)] == [1] * 10
        assert place.root.column(f"SELECT epoch FROM {name}") == [1, 0]
        events = f"SELECT event, user FROM queuegate.traces WHERE queue = '{name}' AND event <> 'sent'"
        assert place.admin.rows(events) == []
    client.close()


UNSEEN: dict[str, tuple[str, tuple[str, ...]]] = {
    "a space of latin1": ("latin1", ("\xa0USE {own}",)),
    "behind a semicolon": ("latin1", ("DO 1;\xa0USE {own}",)),
    "a setting": ("latin1", ("SET\xa0STATEMENT max_statement_time = 9 FOR USE {own}",)),
    "a temporary table": ("latin1", ("CREATE\xa0TEMPORARY TABLE {q} (PRIMARY KEY (id)) SELECT * FROM {own}.{q}",)),
    "a string of gbk": ("gbk", ("SELECT '\xbf\\' = 'a' AS a; USE {own}; #'",)),
    "a name": ("utf8mb4", ("SET sql_mode = 'ANSI_QUOTES'", 'SELECT 1 AS "a\\"; USE {own}; #"')),
}


@pytest.mark.parametrize("how", UNSEEN)
def test_a_use_in_disguise_ends_no_messages(place: Place, queue: str, how: str) -> None:
    if place.mysql and how == "a setting":
        pytest.skip("SET STATEMENT is MariaDB's")
    charset, texts = UNSEEN[how]
    place.root(f"CREATE TABLE {OWN}.{queue} ({COLUMNS})")
    place.root(f"INSERT INTO {OWN}.{queue} (id, epoch) VALUES (1, 1), (2, 0)")
    several = pymysql.constants.CLIENT.MULTI_STATEMENTS
    client = Sql(place.gate.connect(user=ACCOUNT, password="pw", database=HERE, charset=charset, client_flag=several))
    with Stream(place.gate, f"SELECT id FROM STREAM {queue} WITH (prefetch = 1, ack_wait = '1h')") as receiver:
        assert receiver.wait(1) == [(1,)]
        for text in texts:
            cursor = client.connection.cursor()
            cursor.execute(text.format(q=queue, own=OWN).encode("latin1"))
            while cursor.nextset():
                pass
        assert client(f"DELETE FROM {queue} WHERE id = 1") == 1
        fence = f"SELECT unacked FROM queuegate.subscriptions WHERE connection_id = {receiver.id}"
        assert [place.admin.value(fence) for _ in range(10)] == [1] * 10
        assert place.root.column(f"SELECT epoch FROM {queue}") == [1, 0]
    client.close()
    place.root(f"DROP TABLE {OWN}.{queue}")


def test_topics_are_not_read(place: Place, topic: str) -> None:
    reads = [
        f"SELECT body FROM STREAM {topic} SINCE OFFSET 1 UNTIL OFFSET 5",
        f"SELECT body FROM STREAM {topic} WITH (mode = 'broadcast', start = 'earliest') LIMIT 1 NOWAIT",
        f"CREATE GROUP mine ON {topic}",
    ]
    client = place.login()
    assert [client.error(sql)[0] for sql in reads[:2]] == [DENIED] * 2
    client(f"CREATE TEMPORARY TABLE {topic} ({COLUMNS})")
    assert [client.error(sql)[0] for sql in reads[1:]] == [NO_TABLE] * 2
    assert client.rows(f"SELECT body FROM {topic}") == []
    client.close()


def test_groups_are_not_moved_and_their_filters_not_changed(place: Place, topic: str) -> None:
    place.admin(f"CREATE GROUP g ON {topic} START AT EARLIEST")
    fed, held = f"{topic}_group_g", f"SELECT COUNT(*) FROM {topic}_group_g"
    assert place.admin.rows(f"SELECT id FROM STREAM {topic} WITH (group = 'g') LIMIT 1 WAIT 20")
    client = place.login()
    assert client.error(f"ALTER GROUP g ON {topic} SEEK TO LATEST")[0] == DENIED
    client(f"CREATE TEMPORARY TABLE {fed} ({COLUMNS})")
    assert client.error(f"ALTER GROUP g ON {topic} SEEK TO LATEST")[0] == NO_TABLE
    assert place.admin.value(held) == 1
    client.close()
    place.grant("ALTER", fed)
    client = place.login()
    filtered = f"ALTER GROUP g ON {topic} SET (filter = 'body LIKE ''s%''')"
    assert client.error(filtered)[0] in (DENIED, 1143)
    client(f"CREATE TEMPORARY TABLE {topic} ({COLUMNS})")
    assert client.error(filtered)[0] == NO_TABLE
    client.close()


def test_what_has_happened_to_messages_is_not_shown(place: Place, queue: str) -> None:
    place.admin.rows(f"SELECT id FROM STREAM {queue} LIMIT 1 NOWAIT")
    place.admin(f"NACK {queue} 1 REASON 'the secret reason'")
    looks = [f"TRACE MESSAGE 1 ON {queue}", f"EXPLAIN DELIVERY FOR {queue} WHERE id = 1", f"SHOW CREATE QUEUE {queue}"]
    client = place.login()
    assert [client.error(sql)[0] for sql in looks] == [DENIED] * 3
    client(f"CREATE TEMPORARY TABLE {queue} ({COLUMNS})")
    assert [client.error(sql)[0] for sql in looks] == [NO_TABLE] * 3
    client.close()
    place.grant("SELECT (id)", queue)
    client = place.login(queue)
    told = client.rows(f"SELECT id, reason FROM queuegate.traces WHERE queue = '{queue}' AND reason IS NOT NULL")
    assert told == []
    assert place.admin.value(f"SELECT COUNT(*) FROM queuegate.traces WHERE queue = '{queue}' AND reason IS NOT NULL")
    client.close()


def test_a_dead_letter_queue_needs_the_right_to_add_to_it(place: Place, queue: str) -> None:
    place.grant("CREATE, ALTER, SELECT, INSERT, UPDATE", f"{queue}_mine")
    client = place.login(queue)
    made = f"CREATE QUEUE {queue}_mine (body VARCHAR(100)) WITH (dead_letter = '{queue}')"
    assert client.error(made)[0] == NO_TABLE
    client.close()
    client = place.login()
    assert client.error(made)[0] == DENIED
    client.close()


def test_nobodys_dead_letters_go_to_a_queue_of_the_default_name(place: Place, queue: str) -> None:
    """The engine keeps who has named which queue."""
    dead = f"{queue}_dead"
    place.root(f"CREATE TABLE {dead} LIKE {queue}")
    place.grant("SELECT, INSERT, UPDATE", dead)
    client = place.login(queue)
    place.root(f"ALTER TABLE {dead} COMMENT = 'vitess_message'")
    wait_until(lambda: dead in place.admin.column("SHOW QUEUES"), what="the queue that was made around the gate")
    assert client.error(f"ALTER QUEUE {queue} SET (dead_letter = DEFAULT)")[0] == NO_TABLE
    assert place.root.rows(f"SELECT * FROM queuegate_dead_letters WHERE queue_name = '{queue}'") == []
    client.close()


def test_schedules_send_only_where_their_makers_may(place: Place, queue: str) -> None:
    place.admin(f"CREATE SCHEDULE {queue}_s ON {queue} EVERY '1h' (body) VALUES ('x')")
    place.grant("SELECT, INSERT, UPDATE, DELETE", "queuegate_schedules")
    made = f"CREATE SCHEDULE {queue}_m ON {queue} EVERY '1s' (body) VALUES ('forged')"
    client = place.login()
    assert client.error(made)[0] == DENIED
    client(f"CREATE TEMPORARY TABLE {queue} ({COLUMNS})")
    assert client.error(made)[0] == NO_TABLE
    assert client.column("SELECT name FROM queuegate_schedules") == [f"{queue}_s"]
    client(f"DROP QUEUE {queue}")  # only its temporary table
    assert client.column("SELECT name FROM queuegate_schedules") == [f"{queue}_s"]
    assert place.admin.column("SHOW QUEUES LIKE '" + queue + "'") == [queue]
    client.close()


MAKES = {
    "as text": "CREATE TEMPORARY TABLE {table}",
    "or replaced": "CREATE OR REPLACE TEMPORARY TABLE {table}",
    "among others": "DO 1; CREATE /* one */ TEMPORARY TABLE {table}; DO 2",
    "prepared": "PREPARE hidden FROM 'CREATE TEMPORARY TABLE {table}'; EXECUTE hidden",
    "at once": "EXECUTE IMMEDIATE 'CREATE TEMPORARY TABLE {table}'",
    "in a block": "BEGIN NOT ATOMIC CREATE TEMPORARY TABLE {table}; END",
}


@pytest.mark.parametrize("how", MAKES)
def test_what_is_done_to_a_temporary_table_is_not_told_of_messages(place: Place, queue: str, how: str) -> None:
    """Else a receiver whose message seems to be acked would get the next one."""
    if how in ("or replaced", "at once", "in a block") and place.mysql:
        pytest.skip("MariaDB's")
    place.admin.rows(f"SELECT id FROM STREAM {queue} LIMIT 1 NOWAIT")
    several = pymysql.constants.CLIENT.MULTI_STATEMENTS
    client = Sql(place.gate.connect(user=ACCOUNT, password="pw", database=HERE, client_flag=several))
    cursor = client.connection.cursor()
    cursor.execute(MAKES[how].format(table=f"{queue} ({COLUMNS})"))
    while cursor.nextset():
        pass
    client(f"INSERT INTO {queue} (id, epoch, body) VALUES (1, 1, 'mine'), (2, 1, 'too')")
    assert client(f"ACK {queue} 1") == 1
    assert client(f"DELETE FROM {queue} WHERE id = 2") == 1
    told = f"SELECT event, user FROM queuegate.traces WHERE queue = '{queue}' AND event <> 'sent'"
    assert place.admin.rows(told) == []
    place.admin(f"ACK {queue} 1")
    assert place.admin.rows(told) == [("acked", None)]
    client.close()

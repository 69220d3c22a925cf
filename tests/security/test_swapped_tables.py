"""What stands in a table's place is not worked on with the engine's account: views of other databases, above all.

An account that owns a database, and may do next to nothing elsewhere, swaps tables for views by PREPARE and EXECUTE,
which the proxy does not read, while the engine works on them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import mysql.connector
import pytest
from servers import SERVER, Gate, MariaDb, Sql, Stream, wait_until

REJECTED, PARKED = 9223372036854775806, 9223372036854775807
OWNER, SHOP = "mallory", "vaults"
ROWS = 30


MYSQL_TOO = ["mariadb", pytest.param("mysql", marks=pytest.mark.long)]


@pytest.fixture(scope="module", params=MYSQL_TOO if SERVER == "mariadb" else [SERVER])
def server(request: pytest.FixtureRequest) -> MariaDb:
    return request.getfixturevalue(str(request.param))


class Place:
    """A gate whose engine may do everything, an attacker's database, and the vault of another that he may add to."""

    def __init__(self, server: MariaDb, folder: Any) -> None:
        self.url = server.fresh_database(OWNER)
        self.root = Sql(server.connect(database=OWNER))
        self.root(f"DROP DATABASE IF EXISTS {SHOP}")
        self.root(f"CREATE DATABASE {SHOP}")
        self.root(f"CREATE TABLE {SHOP}.vault (id BIGINT AUTO_INCREMENT PRIMARY KEY, body VARCHAR(100), note BIGINT)")
        self.fill()
        self.root(f"DROP USER IF EXISTS {OWNER}@'127.0.0.1'")
        self.root(f"CREATE USER {OWNER}@'127.0.0.1' IDENTIFIED BY 'pw'")
        self.root(f"GRANT ALL ON {OWNER}.* TO {OWNER}@'127.0.0.1'")
        self.root(f"GRANT INSERT ON {SHOP}.vault TO {OWNER}@'127.0.0.1'")
        self.gate = Gate(self.url, folder, database=OWNER).start()

    def fill(self) -> None:
        self.root(f"DELETE FROM {SHOP}.vault")
        values = ", ".join(f"({number}, 'secret {number}', 0)" for number in range(101, 101 + ROWS))
        self.root(f"INSERT INTO {SHOP}.vault (id, body, note) VALUES {values}")

    def login(self) -> Sql:
        return Sql(self.gate.connect(user=OWNER, password="pw", database=OWNER))

    def vault(self) -> list[tuple[Any, ...]]:
        return self.root.rows(f"SELECT id, body, note FROM {SHOP}.vault ORDER BY id")

    def stop(self) -> None:
        self.gate.stop()
        self.root(f"DROP USER IF EXISTS {OWNER}@'127.0.0.1'")
        self.root(f"DROP DATABASE {SHOP}")
        self.root.close()


@pytest.fixture(scope="module")
def place(server: MariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(server, tmp_path_factory.mktemp("swapped"))
    yield made
    made.stop()


def prepared(client: Sql, sql: str) -> None:
    """As the attacker sends it: the proxy hands EXECUTE on as it is."""
    text = sql.replace("\\", "\\\\").replace("'", "''")
    client(f"PREPARE hidden FROM '{text}'")
    client("EXECUTE hidden")
    client("DEALLOCATE PREPARE hidden")


def view(columns: list[str], source: str, **values: str) -> str:
    """A SELECT of all of a table's columns: NULL but for the values that are given."""
    given = {"priority": "50", "time_scheduled": "0", "epoch": "0", "time_acked": "NULL", "time_created": "0", **values}
    return "SELECT " + ", ".join(f"{given.get(name, 'NULL')} AS {name}" for name in columns) + f" FROM {source}"


def columns_of(client: Sql, table: str) -> list[str]:
    return [str(row[0]) for row in client.rows(f"SHOW COLUMNS FROM {table}")]


def taken_for(kind: str, source: str) -> dict[str, str]:
    """What the view's rows look like to the engine."""
    body = {"id": "id", "body": "body"} if source == f"{SHOP}.vault" else {"id": "1", "body": "TABLE_NAME"}
    times = {
        "rejected": {"time_next": str(REJECTED)},
        "due": {"time_next": "1"},
        "acked": {"time_next": "NULL", "time_acked": "1"},
        "leased": {"time_next": "1000000000000000001", "epoch": "1"},
    }
    return body | times[kind]


SOURCES = (f"{SHOP}.vault", "information_schema.TABLES")


def met(place: Place, table: str) -> bool:
    """Whether the engine has tried to work on what is no table, or has seen that there is no such table any more."""
    if any("doesn't exist in table" in line for line in place.gate.log.splitlines() if f"'{table}'" in line):
        return True
    client = place.login()
    known = client.column("SHOW QUEUES")
    known += client.column("SHOW TOPICS")
    client.close()
    return table not in known


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", ["rejected", "due", "acked", "leased"])
def test_a_view_in_the_place_of_a_queue(place: Place, kind: str, source: str, name: str) -> None:
    place.fill()
    q, client = name, place.login()
    client(f"CREATE QUEUE {q} (body VARCHAR(100)) WITH (purge_after = '0s', poll_interval = '1s')")
    client(f"INSERT INTO {q} (body) VALUES ('mine')")
    with Stream(place.gate, f"SELECT id, body FROM STREAM {q}", user=OWNER, password="pw", database=OWNER) as stream:
        assert stream.wait(1)[0][1] == "mine"
        client(f"REJECT {q} 1")  # makes the dead-letter queue
        listed = f"SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = '{q}_dead'"
        wait_until(lambda: client.value(listed) == 1, what="the dead-letter queue")
        wait_until(lambda: client.value(f"SELECT COUNT(*) FROM {q}_dead") == 1, what="the dead letter")
        columns, before = columns_of(client, q), place.vault()
        prepared(client, f"RENAME TABLE {q} TO {q}_old")
        prepared(client, f"CREATE SQL SECURITY INVOKER VIEW {q} AS {view(columns, source, **taken_for(kind, source))}")
        assert client.value(f"SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_NAME = '{q}'") == "VIEW"
        wait_until(lambda: met(place, q), 40, "the engine to look at the view")
        assert [row for row in stream.rows if row[1] != "mine"] == []
    assert place.vault() == before
    assert client.column(f"SELECT body FROM {q}_dead") == ["mine"]
    prepared(client, f"DROP VIEW {q}")
    client.close()


@pytest.mark.parametrize("source", SOURCES)
def test_a_view_in_the_place_of_a_topic(place: Place, source: str, name: str) -> None:
    place.fill()
    topic, client = name, place.login()
    client(f"CREATE TOPIC {topic} (body VARCHAR(100))")
    client(f"CREATE GROUP g ON {topic} WITH (poll_interval = '1s')")
    client(f"INSERT INTO {topic} (body) VALUES ('mine')")
    sql = f"SELECT id, body FROM STREAM {topic} WITH (group = 'g')"
    with Stream(place.gate, sql, user=OWNER, password="pw", database=OWNER) as stream:
        assert stream.wait(1)[0][1] == "mine"
        columns, before = columns_of(client, topic), place.vault()
        prepared(client, f"RENAME TABLE {topic} TO {topic}_old")
        values = taken_for("due", source) | {"time_created": "1"}
        text = view(columns, source, **(values if source == f"{SHOP}.vault" else values | {"id": "100"}))
        prepared(client, f"CREATE SQL SECURITY INVOKER VIEW {topic} AS {text}")
        wait_until(lambda: met(place, topic), 40, "the engine to look at the view")
        assert [row for row in stream.rows if row[1] != "mine"] == []
    assert place.vault() == before
    assert client.column(f"SELECT body FROM {topic}_group_g") == ["mine"]
    prepared(client, f"DROP VIEW {topic}")
    client.close()


def test_a_view_over_a_stored_function(place: Place, name: str) -> None:
    """It would run with the rights of whoever reads the view, which is the engine."""
    place.fill()
    q, client = name, place.login()
    client(f"CREATE QUEUE {q} (body VARCHAR(100)) WITH (poll_interval = '1s')")
    place.root(
        f"CREATE DEFINER = {OWNER}@'127.0.0.1' FUNCTION {q}_f () RETURNS INT NOT DETERMINISTIC MODIFIES SQL DATA"
        f" SQL SECURITY INVOKER BEGIN INSERT INTO {SHOP}.vault (body) VALUES (CURRENT_USER()); RETURN 1; END"
    )
    before = place.vault()
    with Stream(place.gate, f"SELECT id, body FROM STREAM {q}", user=OWNER, password="pw", database=OWNER) as stream:
        columns = columns_of(client, q)
        prepared(client, f"RENAME TABLE {q} TO {q}_old")
        values = {**taken_for("due", ""), "id": f"{q}_f()", "body": "'x'"}
        prepared(client, f"CREATE SQL SECURITY INVOKER VIEW {q} AS {view(columns, '(SELECT 1 AS one) AS t', **values)}")
        wait_until(lambda: met(place, q), 40, "the engine to look at the view")
        assert stream.rows == []
    assert place.vault() == before
    prepared(client, f"DROP VIEW {q}")
    client.close()


def test_rows_of_a_databases_table_concern_that_database(place: Place, name: str) -> None:
    """A row in one's own queuegate_groups makes no held message of another database due."""
    client, held = place.login(), f"{name}_held"
    admin = Sql(place.gate.connect())
    admin(f"USE {SHOP}")
    admin(f"CREATE QUEUE {held} (body VARCHAR(100))")
    admin(f"INSERT INTO {held} (body, time_next) VALUES ('held', {PARKED})")
    client(f"CREATE QUEUE {name} (g INT, body VARCHAR(100)) WITH (group_key = 'g', poll_interval = '1s')")
    wait_until(lambda: has_table(client, "queuegate_groups"), what="the table of groups")
    mine = f"{name}_mine"
    client(f"CREATE QUEUE {mine} (body VARCHAR(100))")
    client(f"INSERT INTO {mine} (body, time_next) VALUES ('held', {PARKED})")
    rows = [f"('{SHOP}', '{held}', '1', '{name}', '7')", f"('{OWNER}', '{mine}', '1', '{name}', '7')"]
    client(f"INSERT INTO queuegate_groups VALUES {', '.join(rows)}")
    wait_until(lambda: client.value(f"SELECT time_next FROM {mine}") != PARKED, what="one's own held message")
    assert admin.value(f"SELECT time_next FROM {held}") == PARKED
    assert client.column("SELECT follow_database FROM queuegate_groups") == [SHOP]
    admin.close()
    client.close()


def has_table(client: Sql, table: str) -> bool:
    asked = f"SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{OWNER}' AND TABLE_NAME = '{table}'"
    return bool(client.value(asked))


def test_who_names_a_dead_letter_queue_may_add_to_it(place: Place, name: str) -> None:
    admin, orders, mine, own = Sql(place.gate.connect(database=OWNER)), f"{name}_o", f"{name}_m", f"{name}_d"
    admin(f"CREATE QUEUE {orders} (body VARCHAR(100))")
    account = f"guest{OWNER}@'127.0.0.1'"
    place.root(f"DROP USER IF EXISTS {account}")
    place.root(f"CREATE USER {account} IDENTIFIED BY 'pw'")
    for table in (mine, own):
        place.root(f"GRANT CREATE, ALTER, DROP, SELECT, INSERT, UPDATE ON {OWNER}.{table} TO {account}")
    guest = Sql(place.gate.connect(user=f"guest{OWNER}", password="pw", database=OWNER))
    assert guest.error(f"CREATE QUEUE {mine} (body VARCHAR(100)) WITH (dead_letter = '{orders}')")[0] == 1142
    guest(f"CREATE QUEUE {mine} (body VARCHAR(100)) WITH (poll_interval = '1s')")
    assert guest.error(f"ALTER QUEUE {mine} SET (dead_letter = '{orders}')")[0] == 1142
    link = mysql.connector.connect(
        host="127.0.0.1", port=place.gate.port, user=f"guest{OWNER}", password="pw", database=OWNER, use_pure=True
    )
    for prepared in (
        f"ALTER QUEUE {mine} SET (dead_letter = '{orders}')",
        f"CREATE QUEUE {own} (body VARCHAR(100)) WITH (dead_letter = '{orders}')",
    ):
        with pytest.raises(mysql.connector.Error) as refused:
            link.cursor(prepared=True).execute(prepared)
        assert refused.value.errno == 1142
    guest(f"CREATE QUEUE {own} (body VARCHAR(100))")
    link.cursor(prepared=True).execute(f"ALTER QUEUE {mine} SET (dead_letter = '{own}')")  # prepared, it counts as well
    link.close()
    guest(f"INSERT INTO {mine} (body) VALUES ('dead')")
    guest(f"REJECT {mine} 1")
    wait_until(lambda: guest.column(f"SELECT body FROM {own}") == ["dead"], what="the dead letter")
    place.root(f"DROP USER {account}")
    admin.close()
    guest.close()


class Guest:
    """An account with rights on these tables alone, in a database of queues that are others'."""

    def __init__(self, place: Place, *tables: str) -> None:
        self.name = f"guest{OWNER}"
        self._place, self._account = place, f"{self.name}@'127.0.0.1'"
        place.root(f"DROP USER IF EXISTS {self._account}")
        place.root(f"CREATE USER {self._account} IDENTIFIED BY 'pw'")
        self.grant("CREATE, ALTER, DROP, SELECT, INSERT, UPDATE", *tables)
        self.admin = Sql(place.gate.connect(database=OWNER))
        self.sql = Sql(place.gate.connect(user=self.name, password="pw", database=OWNER))

    def grant(self, rights: str, *tables: str) -> None:
        for table in tables:
            self._place.root(f"GRANT {rights} ON {OWNER}.{table} TO {self._account}")

    def reject(self, queue: str, body: str) -> int:
        """Send a message and reject it; its id."""
        self.sql(f"INSERT INTO {queue} (body) VALUES ('{body}')")
        id_ = int(self.sql.value(f"SELECT MAX(id) FROM {queue}"))
        self.sql(f"REJECT {queue} {id_}")
        return id_

    def close(self) -> None:
        self.sql.close()
        self.admin.close()
        self._place.root(f"DROP USER {self._account}")


def test_a_dead_letter_queue_that_is_still_to_be_made_is_asked_for(place: Place, name: str) -> None:
    """Else it would be enough to name it before its owner makes it."""
    mine, later = f"{name}_m", f"{name}_later"
    guest = Guest(place, mine)
    assert guest.sql.error(f"CREATE QUEUE {mine} (body VARCHAR(100)) WITH (dead_letter = '{later}')")[0] == 1142
    guest.sql(f"CREATE QUEUE {mine} (body VARCHAR(100)) WITH (poll_interval = '1s')")
    assert guest.sql.error(f"ALTER QUEUE {mine} SET (dead_letter = '{later}')")[0] == 1142
    guest.grant("CREATE, INSERT", later)
    guest.sql(f"ALTER QUEUE {mine} SET (dead_letter = '{later}')")
    guest.reject(mine, "dead")
    wait_until(lambda: later in guest.admin.column("SHOW QUEUES"), what="the dead-letter queue")
    wait_until(lambda: guest.admin.column(f"SELECT body FROM {later}") == ["dead"], what="the dead letter")
    guest.close()


def test_a_queue_of_anothers_with_the_default_name_is_asked_for(place: Place, name: str) -> None:
    mine = f"{name}_m"
    guest = Guest(place, mine)
    guest.admin(f"CREATE QUEUE {mine}_dead (body VARCHAR(100))")
    assert guest.sql.error(f"CREATE QUEUE {mine} (body VARCHAR(100))")[0] == 1142
    guest.grant("INSERT", f"{mine}_dead")
    guest.sql(f"CREATE QUEUE {mine} (body VARCHAR(100)) WITH (poll_interval = '1s')")
    guest.reject(mine, "dead")
    wait_until(lambda: guest.admin.column(f"SELECT body FROM {mine}_dead") == ["dead"], what="the dead letter")
    guest.close()


def test_the_queue_of_a_group_takes_no_dead_letters(place: Place, name: str) -> None:
    """Neither by name, nor where a comment that is written by hand says so: all that is there comes from the topic."""
    topic, queue = f"{name}_t", f"{name}_q"
    client = place.login()
    client(f"CREATE TOPIC {topic} (body VARCHAR(100))")
    client(f"CREATE GROUP g ON {topic}")
    fed = f"{topic}_group_g"
    assert "belongs to another" in client.error(f"CREATE QUEUE {queue} (body TEXT) WITH (dead_letter = '{fed}')")[1]
    client(f"CREATE QUEUE {queue} (body VARCHAR(100)) WITH (poll_interval = '1s')")
    comment = str(client.value(f"SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_NAME = '{queue}'"))
    prepared(client, f"ALTER TABLE {queue} COMMENT = '{comment},dead_letter={fed}'")
    wait_until(lambda: fed in client.row(f"SHOW CREATE QUEUE {queue}")[1], 60, "the comment to be read")
    client(f"INSERT INTO {queue} (body) VALUES ('x')")
    client(f"REJECT {queue} 1")
    told = f"'{OWNER}.{fed}' is fed from its topic"
    wait_until(lambda: told in place.gate.log, 60, "the refusal")
    assert client.column(f"SELECT time_next FROM {queue}") == [REJECTED]
    assert client.value(f"SELECT COUNT(*) FROM {fed}") == 0
    client.close()


def test_a_dead_letter_queue_in_a_comment_by_hand_takes_nothing(place: Place, name: str) -> None:
    """Whoever may alter a queue may write its comment, also around the proxy. So dead letters wait, and SHOW QUEUES
    says so, until somebody names the other queue who may add to it."""
    mine, orders, made = f"{name}_m", f"{name}_o", f"{name}_made"
    guest = Guest(place, mine, f"{mine}_dead")
    guest.admin(f"CREATE QUEUE {orders} (body VARCHAR(100))")
    guest.sql(f"CREATE QUEUE {mine} (body VARCHAR(100)) WITH (poll_interval = '1s')")
    comment = str(guest.sql.value(f"SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_NAME = '{mine}'"))

    def problem(show: str = "SHOW QUEUES") -> str:
        (row,) = [row for row in guest.admin.named(show) if row["queue"] == mine]
        return str(row["problem"])

    assert problem() == "None"
    for number, target in enumerate((orders, made), 1):
        prepared(guest.sql, f"ALTER TABLE {mine} COMMENT = '{comment},dead_letter={target}'")
        wait_until(lambda target=target: f"'{target}' was named in its comment by hand" in problem(), 60, "the problem")
        assert problem("SHOW QUEUE STATUS") == problem()
        assert guest.reject(mine, "forged") == number
        waits = f"{OWNER}.{mine}: cannot move rejected messages"
        told = f"'{target}' was named in its comment"
        wait_until(
            lambda waits=waits, told=told: any(waits in x and told in x for x in place.gate.log.splitlines()), 60, "it"
        )
        assert guest.sql.column(f"SELECT time_next FROM {mine}") == [REJECTED] * number
        assert guest.sql.error(f"ALTER QUEUE {mine} SET (dead_letter = '{target}')")[0] == 1142
    assert guest.admin.value(f"SELECT COUNT(*) FROM {orders}") == 0
    assert made not in guest.admin.column("SHOW QUEUES")
    assert guest.sql.error("INSERT INTO queuegate_dead_letters VALUES ('a', 'b', 'c')")[0] == 1142
    guest.admin(f"ALTER QUEUE {mine} SET (dead_letter = '{orders}')")
    wait_until(lambda: guest.admin.value(f"SELECT COUNT(*) FROM {orders}") == 2, 90, "the dead letters")
    assert problem() == "None"
    guest.admin(f"DROP QUEUE {mine}")  # and what it named with it
    guest.sql(f"CREATE QUEUE {mine} (body VARCHAR(100)) WITH (poll_interval = '1s')")
    prepared(guest.sql, f"ALTER TABLE {mine} COMMENT = '{comment},dead_letter={orders}'")
    wait_until(lambda: "was named in its comment by hand" in problem(), 60, "the problem")
    guest.close()


def test_a_queue_of_anothers_with_the_default_name_takes_nothing(place: Place, name: str) -> None:
    """Also where the queue is made around the proxy, and by a CREATE QUEUE that its account may not do."""
    mine = f"{name}_m"
    guest = Guest(place, mine)
    guest.admin(f"CREATE QUEUE {name}_p (body VARCHAR(100)) WITH (poll_interval = '1s')")
    guest.admin(f"CREATE QUEUE {mine}_dead (body VARCHAR(100))")
    definition = str(guest.admin.row(f"SHOW CREATE TABLE {name}_p")[1])
    guest.admin(f"DROP QUEUE {name}_p")  # MySQL has the names of checks once in a database
    prepared(guest.sql, definition.replace(f"{name}_p", mine))
    wait_until(lambda: mine in guest.admin.column("SHOW QUEUES"), 60, "the queue to be found")
    assert guest.sql.error(f"CREATE QUEUE {mine}_dead (body VARCHAR(100))")[0] in (1142, 1050)
    guest.reject(mine, "forged")
    told = f"'{mine}_dead' was named in its comment by hand, or is another's"
    wait_until(lambda: told in place.gate.log, 60, "the refusal")
    assert guest.sql.column(f"SELECT time_next FROM {mine}") == [REJECTED]
    assert guest.admin.value(f"SELECT COUNT(*) FROM {mine}_dead") == 0
    guest.admin(f"ALTER QUEUE {mine} SET (dead_letter = '{mine}_dead')")
    wait_until(lambda: guest.admin.value(f"SELECT COUNT(*) FROM {mine}_dead") == 1, 90, "the dead letter")
    guest.close()


def test_what_comments_said_before_is_taken_over_once(server: MariaDb, name: str, tmp_path: Any) -> None:
    """A proxy of this version on tables of an earlier one goes on as that did; what is written later is not trusted."""
    database = f"before_{OWNER}"
    gate = Gate(server.fresh_database(database), tmp_path, database=database).start()
    root = Sql(gate.connect(database=database))
    root("CREATE QUEUE shared (body VARCHAR(100), source VARCHAR(64), source_id VARCHAR(255))")
    for queue in ("one", "two"):
        root(f"CREATE QUEUE {queue} (body VARCHAR(100)) WITH (poll_interval = '1s')")
        comment = root.value(f"SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_NAME = '{queue}'")
        if queue == "one":
            prepared(root, f"ALTER TABLE {queue} COMMENT = '{comment},dead_letter=shared'")
    root("DROP TABLE queuegate_dead_letters")
    gate.terminate()
    gate.start()
    root = Sql(gate.connect(database=database))
    prepared(root, f"ALTER TABLE two COMMENT = '{comment},dead_letter=shared'")

    def problems() -> list[bool]:
        return [row["problem"] is not None for row in root.named("SHOW QUEUES") if row["queue"] in ("one", "two")]

    wait_until(lambda: problems() == [False, True], 60, "the comment to be read")
    for queue in ("one", "two"):
        root(f"INSERT INTO {queue} (body) VALUES ('dead')")
        root(f"REJECT {queue} 1")
    wait_until(lambda: root.column("SELECT source FROM shared") == ["one"], what="the dead letter")
    gate.terminate()
    gate.start()
    root = Sql(gate.connect(database=database))
    assert problems() == [False, True]
    assert root.column("SELECT time_next FROM two") == [REJECTED]
    root.close()
    gate.stop()


def test_nothing_is_deleted_in_a_dead_letter_queue_that_is_anothers(place: Place, name: str) -> None:
    """An acked message there is its own, not a dead letter that is done with: it stays, and what comes gets another
    id."""
    mine, orders = f"{name}_m", f"{name}_o"
    guest = Guest(place, mine)
    guest.admin(f"CREATE QUEUE {orders} (body VARCHAR(100))")
    guest.admin(f"INSERT INTO {orders} (body) VALUES ('paid'), ('open')")
    guest.admin(f"ACK {orders} 1")
    guest.grant("INSERT", orders)
    guest.sql(f"CREATE QUEUE {mine} (body VARCHAR(100)) WITH (dead_letter = '{orders}', poll_interval = '1s')")
    assert [guest.reject(mine, body) for body in ("one", "two")] == [1, 2]
    bodies = {"paid", "open", "one", "two"}
    wait_until(lambda: set(guest.admin.column(f"SELECT body FROM {orders}")) == bodies, what="the dead letters")
    kept = guest.admin.rows(f"SELECT id, body, state FROM {orders} WHERE id > 0 ORDER BY id")
    assert kept == [(1, "paid", "acked"), (2, "open", "to_be_fired")]
    guest.close()


def test_a_stream_ends_when_its_account_may_not_receive_any_more(place: Place, name: str) -> None:
    admin, user = Sql(place.gate.connect(database=OWNER)), f"reader{OWNER}"
    admin(f"CREATE QUEUE {name} (body VARCHAR(100))")
    streams = []
    for number, taken in enumerate(("REVOKE SELECT, UPDATE ON {q} FROM {u}", "DROP USER {u}")):
        account = f"{user}{number}@'127.0.0.1'"
        place.root(f"DROP USER IF EXISTS {account}")
        place.root(f"CREATE USER {account} IDENTIFIED BY 'pw'")
        place.root(f"GRANT SELECT, UPDATE ON {OWNER}.{name} TO {account}")
        stream = Stream(
            place.gate, f"SELECT id FROM STREAM {name}", user=f"{user}{number}", password="pw", database=OWNER
        )
        place.root(taken.format(q=f"{OWNER}.{name}", u=account))
        streams.append(stream)
    for stream in streams:
        error = stream.wait_end(60)
        assert error is not None and error.args[0] in (1142, 1143, 1044, 1045), error
    place.root(f"DROP USER {user}0@'127.0.0.1'")
    admin.close()


def test_schedules_by_hand_cost_no_flood(place: Place, name: str) -> None:
    """2,000 rows that say to have missed everything since 1970, and 100 that are none: a bounded rate, a few lines of
    the log, and who looks at queuegate.schedules sees those of others too."""
    client, admin, q = place.login(), Sql(place.gate.connect(database=SHOP)), name
    client(f"CREATE QUEUE {q} (body VARCHAR(100))")
    admin(f"CREATE QUEUE {name}_jobs (body VARCHAR(100))")
    admin(f"CREATE SCHEDULE {name}_honest ON {name}_jobs EVERY '1s' (body) VALUES ('x')")
    client(f"CREATE SCHEDULE first ON {q} EVERY '1d' (body) VALUES ('x')")
    columns = "name, queue_name, every_ns, column_names, row_values, missed, next_tick"
    rows = ", ".join(
        f"('f{n}', '{q}', {10**9 if n < 2000 else -1}, '[\"body\"]', '[{{\"s\":\"x\"}}]', 'all', 1, 'root@%', 1, 1)"
        for n in range(2100)
    )
    lines, began = len(place.gate.log.splitlines()), time.monotonic()
    client(f"INSERT INTO queuegate_schedules ({columns}, created_by, time_created, time_changed) VALUES {rows}")
    wait_until(lambda: client.value(f"SELECT COUNT(*) FROM {q}") >= 1500, 90, "what is made up for")
    # By this proxy: one with another database in its URL does not see it, and has a rate of its own.
    made = int(client.value(f"SELECT enqueued_total FROM queuegate.queues WHERE queue = '{q}' AND db = '{OWNER}'"))
    assert 0 < made <= 1000 + (time.monotonic() - began + 1) * 100
    before = admin.value(f"SELECT COUNT(*) FROM {name}_jobs")
    wait_until(lambda: admin.value(f"SELECT COUNT(*) FROM {name}_jobs") >= before + 3, what="schedules of others")
    seen = admin.rows("SELECT schedule, db, problem FROM queuegate.schedules")
    assert (f"{name}_honest", SHOP, None) in seen and len(seen) <= 2000
    assert any("more are not shown" in str(problem) for _, _, problem in seen)
    told = [line for line in place.gate.log.splitlines()[lines:] if "schedule" in line]
    assert len(told) <= 20 + 4 * (time.monotonic() - began) / 60, told
    client("DELETE FROM queuegate_schedules")
    admin(f"DROP QUEUE {name}_jobs")
    admin.close()
    client.close()


def problems_of(client: Sql, database: str) -> list[str]:
    seen = client.rows("SELECT db, problem FROM queuegate.schedules")
    return [problem for db, problem in seen if db == database and problem]


def test_a_table_of_schedules_by_hand(place: Place, name: str) -> None:
    """With columns of other types, and without some: it stops nobody else's schedules, and what is read is bounded."""
    client, admin = place.login(), Sql(place.gate.connect(database=SHOP))
    admin(f"CREATE QUEUE {name}_jobs (body VARCHAR(100))")
    admin(f"CREATE SCHEDULE {name}_honest ON {name}_jobs EVERY '1s' (body) VALUES ('x')")
    client(f"CREATE QUEUE {name} (body VARCHAR(100))")
    client("DROP TABLE IF EXISTS queuegate_schedules")
    texts = "queue_name, cron, every_ns, time_zone, missed, paused, next_tick, last_tick, problem, created_by"
    columns = ", ".join(f"{column} VARCHAR(100)" for column in f"{texts}, time_created, time_changed".split(", "))
    client(
        f"CREATE TABLE queuegate_schedules (name VARCHAR(191) PRIMARY KEY, {columns}, column_names LONGTEXT,"
        " row_values LONGTEXT) ENGINE=InnoDB COMMENT='queuegate_schedules'"
    )
    client(
        f"INSERT INTO queuegate_schedules VALUES ('a', '{name}', NULL, 'often', 'Mars', 'all', '0', '1', 'x', NULL,"
        f" 'root', '1', '1', '[]', '[]'), ('b', '{name}', NULL, '1000000000', NULL, 'all', '0', '1', NULL, NULL,"
        f" 'root', '1', '1', '[\"body\"]', CONCAT('[{{\"s\":\"', REPEAT('x', 100000), '\"}}]'))"
    )
    for number in range(2):
        if number:
            client("ALTER TABLE queuegate_schedules DROP COLUMN missed")
        wanted = int(admin.value(f"SELECT COUNT(*) FROM {name}_jobs")) + 3
        wait_until(
            lambda wanted=wanted: admin.value(f"SELECT COUNT(*) FROM {name}_jobs") >= wanted, 60, "others' ticks"
        )
        wait_until(lambda: problems_of(admin, OWNER), 60, "the catalog to be read")
        assert (f"{name}_honest", SHOP, None) in admin.rows("SELECT schedule, db, problem FROM queuegate.schedules")
        assert client.value(f"SELECT COUNT(*) FROM {name}") == 0
    assert "failed by a defect" not in place.gate.log
    client("DROP TABLE queuegate_schedules")
    admin(f"DROP QUEUE {name}_jobs")
    admin.close()
    client.close()


@pytest.mark.parametrize("function", ["REGEXP_LIKE", "JSON_EXISTS"])
def test_a_stored_function_in_a_filter_does_not_run(place: Place, server: MariaDb, function: str, name: str) -> None:
    """Of the white list, what this server lacks is refused, whoever has made a function of that name."""
    client = place.login()
    client(f"CREATE QUEUE {name} (body VARCHAR(100))")
    mariadb = "MariaDB" in str(client.value("SELECT VERSION()"))
    sql = f"SELECT id FROM STREAM {name} WHERE {function}(body, 'x') LIMIT 1 NOWAIT"
    if mariadb == (function == "REGEXP_LIKE"):
        place.root(f"CREATE FUNCTION {OWNER}.{function} (a TEXT, b TEXT) RETURNS INT DETERMINISTIC RETURN 1")
        client(f"INSERT INTO {name} (body) VALUES ('a')")
        assert client.error(sql)[0] == 1235
        client(f"CREATE TOPIC {name}_t (body VARCHAR(100))")
        client(f"CREATE GROUP g ON {name}_t WITH (filter = '{function}(body, ''x'')')")
        client(f"INSERT INTO {name}_t (body) VALUES ('a')")
        assert client.error(f"SELECT id FROM STREAM {name}_t WITH (group = 'g') LIMIT 1 WAIT 5")[0] == 1235
        place.root(f"DROP FUNCTION {OWNER}.{function}")
    else:
        assert client.rows(sql) == []
    client.close()

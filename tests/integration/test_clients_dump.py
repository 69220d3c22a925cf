"""mariadb-dump and a restore, with queues among the tables, on both backends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from server_programs import ran, run
from servers import SERVER, Gate, MariaDb, Sql, wait_until

pytestmark = [
    pytest.mark.skipif(
        SERVER == "mysql", reason="mariadb-dump writes out MySQL's generated columns, which no server then takes"
    ),
    pytest.mark.long,
]

SCHEMA = """
CREATE TABLE customer (
  id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(80) COLLATE utf8mb4_unicode_ci NOT NULL, picture LONGBLOB, born DATE,
  rank ENUM('low','high') DEFAULT 'low', marks SET('a','b'), payload JSON, place POINT, bits BIT(9),
  amount DECIMAL(20,5),
  upper_name VARCHAR(80) AS (UPPER(name)) STORED, KEY by_name (name(10)), FULLTEXT KEY words (name)
) ENGINE=InnoDB COMMENT='it''s; -- not the end';
CREATE TABLE purchase (
  id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, customer INT NOT NULL,
  at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  CONSTRAINT to_customer FOREIGN KEY (customer) REFERENCES customer (id) ON DELETE CASCADE
);
CREATE TABLE journal (n INT, what VARCHAR(40)) PARTITION BY RANGE (n) (
  PARTITION few VALUES LESS THAN (10), PARTITION many VALUES LESS THAN MAXVALUE);
CREATE TABLE `odd ``name` (`a;b` INT, `select` TEXT);
CREATE VIEW rich AS
  SELECT c.name, COUNT(p.id) AS n FROM customer c LEFT JOIN purchase p ON p.customer = c.id GROUP BY c.name;
CREATE FUNCTION twice (n INT) RETURNS INT DETERMINISTIC RETURN n * 2;
CREATE QUEUE mail (to_customer INT, body TEXT, attachment BLOB) WITH (ack_wait = '2m', batch_size = 7);
CREATE QUEUE `odd queue` (id VARCHAR(36), n INT);
DELIMITER //
CREATE TRIGGER bought AFTER INSERT ON purchase FOR EACH ROW
BEGIN
  INSERT INTO journal VALUES (NEW.customer, 'bought; really');
  INSERT INTO mail (to_customer, body) VALUES (NEW.customer, 'thank you');
END//
CREATE PROCEDURE totals (IN low INT, OUT n INT)
BEGIN
  SELECT COUNT(*) INTO n FROM purchase WHERE id >= low; -- a comment; with a semicolon
END//
DELIMITER ;
CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 00:00:00' DISABLE DO DELETE FROM journal WHERE n < 0;
"""


@pytest.fixture
def database(mariadb: MariaDb, name: str) -> Iterator[Callable[[str], str]]:
    """Makes empty databases; dropped at the end."""
    made = []

    def make(suffix: str) -> str:
        made.append(f"{name}_{suffix}")
        mariadb.fresh_database(made[-1])
        return made[-1]

    yield make
    with mariadb.connect() as connection, connection.cursor() as cursor:
        for one in made:
            cursor.execute(f"DROP DATABASE {one}")


def fill(client: Sql) -> None:
    """Rows with every byte, NULLs and empty values; messages in every state."""
    every_byte = bytes(range(256)) * 40
    for name, picture, payload in (
        ("Ärmel 🎉", every_byte, '{"a": [1]}'),
        ("O'Brien \\ \n\t\0", b"", None),
        ("", None, "[]"),
    ):
        client(
            "INSERT INTO customer (name, picture, born, marks, payload, place, bits, amount)"
            " VALUES (%s, %s, '2000-02-29', 'a,b', %s, POINT(1, -2), b'101010101', -12345.67891)",
            name, picture, payload,
        )  # fmt: skip
    client("INSERT INTO purchase (customer) VALUES (1), (1), (2)")  # the trigger enqueues
    client("INSERT INTO `odd ``name` VALUES (NULL, 'x'), (5, NULL)")
    client("INSERT INTO mail (body, attachment) VALUES ('acked', %s), ('fired', NULL), ('due', '')", every_byte[:300])
    client("INSERT INTO mail (body, time_scheduled) VALUES ('later', 4000000000000000000)")
    client("UPDATE mail SET state = 'acked' WHERE body = 'acked'")
    client("INSERT INTO `odd queue` (id, n) VALUES ('a;b', 1), ('`', 2)")


def checksums(client: Sql, database: str) -> dict[str, object]:
    tables = client.column(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type = 'BASE TABLE'",
        database,
    )
    names = ", ".join(f"`{database}`.`{table.replace('`', '``')}`" for table in tables)
    return {table.partition(".")[2]: checksum for table, checksum in client.rows(f"CHECKSUM TABLE {names} EXTENDED")}


def without_the_moment(dump: str) -> str:
    """The lines that tell when and by whom it was made."""
    return re.sub(r"^-- (Dump completed.*|Host: .*)$", "", dump, flags=re.M)


def test_a_dump_and_its_restore(mariadb, mariadb_gate, database):
    source, copy = database("a"), database("b")
    ran("mariadb", mariadb_gate, source, feed=SCHEMA.encode())
    client = Sql(mariadb_gate.connect(database=source))
    fill(client)
    delivered = client.column("SELECT body FROM STREAM mail LIMIT 2")
    assert len(delivered) == 2
    everything = ("--routines", "--events", "--triggers", "--single-transaction", "--hex-blob")
    for options in (everything, (*everything, "--skip-extended-insert", "--skip-quick", "--order-by-primary")):
        dump = ran("mariadb-dump", mariadb_gate, *options, source)
        assert without_the_moment(dump) == without_the_moment(ran("mariadb-dump", mariadb, *options, source))
        mariadb.fresh_database(copy)
        ran("mariadb", mariadb_gate, copy, feed=dump.encode(errors="surrogateescape"))
        assert checksums(client, copy) == checksums(client, source)
        again = ran("mariadb-dump", mariadb_gate, *options, copy)
        assert without_the_moment(again).replace(copy, source) == without_the_moment(dump)
    restored = Sql(mariadb_gate.connect(database=copy))
    restored("CALL totals(2, @n)")
    assert restored.row("SELECT @n, twice(21)") == (2, 42)
    client("DELETE FROM mail")  # two queues of the same name: only the copy's messages may come
    assert sorted(restored.column("SELECT body FROM STREAM mail LIMIT 3 WAIT 20")) == ["due", "fired", "thank you"]
    restored("INSERT INTO purchase (customer) VALUES (2)")
    restored("INSERT INTO mail (body) VALUES ('by hand')")
    assert "by hand" in restored.column("SELECT body FROM STREAM mail LIMIT 2 WAIT 20")
    assert restored.column("SELECT n FROM STREAM `odd queue` LIMIT 2") == [2, 1]  # in the order of their ids
    assert restored("ACK `odd queue` 'a;b'") == 1
    described = "SHOW CREATE QUEUE mail"
    assert restored.row(described) == client.row(described)
    client.close()
    restored.close()


def test_the_embedded_backend_is_backed_up_and_restored(mariadb, tmp_path):
    with ExitStack() as closing:
        gates = []
        for name in ("a", "b"):
            folder = tmp_path / name
            folder.mkdir()
            gates.append(Gate(f"sqlite:///{folder}/queue.db", folder).start())
            closing.callback(gates[-1].stop)
        clients = [Sql(closing.enter_context(gate.connect())) for gate in gates]
        backed_up_and_restored(mariadb, gates, clients)


def backed_up_and_restored(mariadb: MariaDb, gates: list[Gate], clients: list[Sql]) -> None:
    (source, copy), (client, restored) = gates, clients
    client(
        "CREATE TABLE customer (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(80) NOT NULL, picture LONGBLOB,"
        " amount DECIMAL(12,5), born DATE, payload JSON, twice DECIMAL(12,5) AS (amount * 2) STORED, KEY (name))"
    )
    client("CREATE TABLE purchase (id INT PRIMARY KEY, customer INT, FOREIGN KEY (customer) REFERENCES customer (id))")
    client("CREATE VIEW names AS SELECT name FROM customer")
    client("CREATE QUEUE mail (to_customer INT, body TEXT, attachment BLOB) WITH (ack_wait = '2m')")
    for name, picture in (("Ärmel 🎉", bytes(range(256)) * 40), ("O'Brien \\ \n\t\0", b""), ("", None)):
        client("INSERT INTO customer (name, picture, amount, born) VALUES (%s, %s, -1.5, '2000-02-29')", name, picture)
    client("INSERT INTO purchase VALUES (1, 1), (2, 3)")
    client("INSERT INTO mail (body, attachment) VALUES ('acked', %s), ('due', NULL)", b"\x00\xff'")
    client("UPDATE mail SET state = 'acked' WHERE body = 'acked'")
    options = ("--hex-blob", "--single-transaction", "main")
    dump = ran("mariadb-dump", source, *options)
    ran("mariadb", copy, "main", feed=dump.encode())
    # Of an acked message time_next is NULL; restored, it is filled in again (see docs/embedded.md), which says nothing.
    first, second = (
        without_the_moment(ran("mariadb-dump", gate, "--ignore-table=main.mail", *options)) for gate in gates
    )
    assert first == second
    messages = (
        "SELECT id, state, to_customer, body, attachment, time_scheduled, time_created, time_acked, epoch FROM mail"
    )
    tables = ("SELECT * FROM customer", "SELECT * FROM purchase", "SELECT * FROM names", messages)
    everything = [sorted(client.rows(table), key=repr) for table in tables]
    assert [sorted(restored.rows(table), key=repr) for table in tables] == everything
    assert restored.rows("SELECT body, attachment FROM STREAM mail LIMIT 5 NOWAIT") == [("due", None)]
    mariadb.fresh_database("from_embedded")
    ran("mariadb", mariadb, "from_embedded", feed=dump.encode())  # how one outgrows the embedded backend
    with mariadb.connect(database="from_embedded") as connection:
        server = Sql(connection)
        assert [sorted(server.rows(table), key=repr) for table in tables] == everything
        server("DROP DATABASE from_embedded")


def test_a_restore_over_a_queue_has_to_be_allowed(new_gate):
    """A dump begins with DROP TABLE IF EXISTS: what was enqueued since would be gone."""
    gate = new_gate().start()
    with gate.connect() as connection:
        client = Sql(connection)
        client("CREATE QUEUE mail (body TEXT)")
        client("INSERT INTO mail (body) VALUES ('dumped')")
        dump = ran("mariadb-dump", gate, "--single-transaction", gate.database, "mail").encode()
        client("INSERT INTO mail (body) VALUES ('since then')")
        refused = run("mariadb", gate, gate.database, feed=dump)
        assert refused.returncode == 1 and b"ERROR 1347" in refused.stderr
        assert client.value("SELECT COUNT(*) FROM mail") == 2
        ran("mariadb", gate, "--init-command=SET @queuegate_allow_drop_table = 1", gate.database, feed=dump)
        assert client.rows("SELECT body FROM STREAM mail LIMIT 2 WAIT 1") == [("dumped",)]


def test_what_the_proxy_alone_writes_is_restored(mariadb, mariadb_gate, database):
    """The messages of a group, and the numbers of a topic: their column is invisible, so a dump names all of them."""
    source, copy = database("a"), database("b")
    client = Sql(mariadb_gate.connect(database=source))
    client("CREATE TOPIC orders (n INT) WITH (sequence = 'on')")
    client("CREATE GROUP g ON orders START AT EARLIEST")
    client("CREATE TOPIC plain (n INT)")
    client("INSERT INTO plain (n) VALUES (5)")
    client("CREATE TABLE zebra (n INT)")
    client("INSERT INTO zebra VALUES (7)")
    client("INSERT INTO orders (n) VALUES (1), (2), (3)")
    read = "SELECT id, n FROM STREAM orders LIMIT 9 WAIT 10 WITH (group = 'g')"
    assert sorted(client.column(read)) == [1, 2, 3]
    assert client("ACK orders 1, 2 GROUP g") == 2
    dump = ran("mariadb-dump", mariadb_gate, "--single-transaction", source).encode()
    client("INSERT INTO orders (n) VALUES (4)")
    refused = run("mariadb", mariadb_gate, copy, feed=dump)
    assert refused.returncode == 1 and b"ERROR 1235" in refused.stderr and b"allow_drop_table = 1" in refused.stderr
    numbers = "SELECT id, n, queuegate_seq FROM orders ORDER BY id"
    for target in (copy, source):
        ran("mariadb", mariadb_gate, "--init-command=SET @queuegate_allow_drop_table = 1", target, feed=dump)
        restored = Sql(mariadb_gate.connect(database=target))
        assert restored.rows(numbers) == [(1, 1, 1), (2, 2, 2), (3, 3, 3)]
        assert restored.column("SELECT n FROM zebra") + restored.column("SELECT n FROM plain") == [7, 5]
        restored("INSERT INTO orders (n) VALUES (40)")
        wait_until(lambda restored=restored: restored.column("SELECT n FROM STREAM orders SINCE OFFSET 4") == [40])
        wait_until(
            lambda restored=restored: 40 in [n for _, n in restored.rows(read)], what="the message after the restore"
        )
        assert restored.column("SELECT n FROM orders_group_g ORDER BY id") == [3, 40]
        assert restored.error("UPDATE orders SET queuegate_seq = 9")[0] == 1235
        restored.close()
    client.close()

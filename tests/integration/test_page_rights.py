"""The rights of docs/start-server.md and docs/security.md are enough: accounts that have just them do their work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

import pytest
from servers import ROOT, Gate, MariaDb, Sql, wait_until

from queuegate_worker import Worker, WorkerError

DATABASE = "page_rights"
PASSWORD = "a-long-password"
START = (ROOT / "docs/start-server.md").read_text()
SECURITY = (ROOT / "docs/security.md").read_text()
GROUPS = (ROOT / "docs/event-groups.md").read_text()
ARCHIVE = (ROOT / "docs/archive.md").read_text()
SCHEDULES = (ROOT / "docs/schedules.md").read_text()
_names = count(1)


def granted(account: str) -> str:
    """What the table of docs/security.md gives an account, by the first words of its row."""
    row = re.search(rf"^\| {re.escape(account)}[^|]*\| ([^|]+) \|$", SECURITY, re.MULTILINE)
    assert row is not None, account
    return row[1]


@pytest.fixture
def root(mariadb: MariaDb) -> Iterator[Sql]:
    """The server's administrator, on an empty database."""
    mariadb.fresh_database(DATABASE)
    client = Sql(mariadb.connect(database=DATABASE))
    yield client
    for (user,) in client.rows("SELECT User FROM mysql.user WHERE User LIKE 'page\\_%' OR User = 'queuegate'"):
        client(f"DROP USER {user}@'%'")
    client.close()


@pytest.fixture
def gate(mariadb: MariaDb, root: Sql, tmp_path) -> Iterator[Gate]:
    """A queuegate whose own account has what docs/start-server.md grants it."""
    (block,) = re.findall(r"```sql\n(CREATE USER.*?)```", START, re.DOTALL)
    for statement in block.replace("shop.", f"{DATABASE}.").split(";"):
        if statement.strip():
            root(statement.strip())
    url = mariadb.url(DATABASE).replace("root@", f"queuegate:{PASSWORD}@")
    made = Gate(url, tmp_path, database=DATABASE).start()
    yield made
    made.stop()


@pytest.fixture
def account(root: Sql, gate: Gate):
    """Makes an account with these rights on these tables, and logs it in through queuegate."""
    made: list[Sql] = []

    def make(**rights: str) -> Sql:
        user = f"page_{next(_names)}"
        root(f"CREATE USER {user}@'%' IDENTIFIED BY '{PASSWORD}'")
        for table, names in rights.items():
            root(f"GRANT {names} ON {DATABASE}.{'*' if table == 'everything' else table} TO {user}@'%'")
        made.append(Sql(gate.connect(user=user, password=PASSWORD)))
        return made[-1]

    yield make
    for client in made:
        client.close()


def grants(page: str, user: str) -> list[str]:
    """The GRANTs and REVOKEs of a page, for this account."""
    statements = re.findall(r"^((?:GRANT|REVOKE) [^;]+);", page, re.MULTILINE)
    return [statement.replace("app@'%'", f"{user}@'%'") for statement in statements]


def granted_by(page: str, client: Sql, root: Sql) -> None:
    """Give the account of this client what a page grants."""
    user = client.value("SELECT CURRENT_USER()").partition("@")[0]
    for statement in grants(page, user):
        root(statement)


def dead(client: Sql) -> list[int]:
    """The dead letters of q."""
    return client.column("SELECT id FROM q_dead") if client.rows("SHOW TABLES LIKE 'q_dead'") else []


def rights_of(*accounts: str) -> str:
    """Back-quoted rights of rows of the table, as GRANT takes them."""
    return ", ".join(right for name in accounts for right in re.findall(r"`([A-Z, ]+)`", granted(name)))


def test_the_account_of_queuegate_itself(gate, root):
    """Leases, dead letters, limits, schedules and topics: all that the engine does with its own account."""
    assert all(right in START for right in re.findall(r"`([A-Z, ]+)`", granted("queuegate itself")))
    client = Sql(gate.connect())
    client("CREATE QUEUE q (n INT) WITH (max_rate = '100/s')")
    client("INSERT INTO q (n) VALUES (1), (2)")
    assert client.column("SELECT n FROM STREAM q LIMIT 2 WAIT 10") == [1, 2]
    client("REJECT q 1 REASON 'no'")
    client("ACK q 2")
    wait_until(lambda: dead(client) == [1], what="the rejected message to move")
    client("CREATE SCHEDULE s ON q EVERY '1s' (n) VALUES (3)")
    assert client.column("SELECT n FROM STREAM q LIMIT 1 WAIT 20") == [3]
    client("DROP SCHEDULE s")
    client("CREATE TOPIC t (n INT)")
    client("CREATE GROUP g ON t")
    client("INSERT INTO t (n) VALUES (4)")
    assert client.column("SELECT n FROM STREAM t LIMIT 1 WAIT 10 WITH (group = 'g')") == [4]
    client.close()
    assert "level=error" not in gate.log


def test_without_process_the_log_says_what_topics_lack(gate, root):
    root("REVOKE PROCESS ON *.* FROM queuegate@'%'")
    gate.stop()
    gate.start()
    client, other = Sql(gate.connect()), Sql(gate.connect())
    client("CREATE TOPIC t (n INT)")
    client("CREATE GROUP g ON t")
    other("BEGIN")
    other("INSERT INTO t (n) VALUES (1)")
    client("INSERT INTO t (n) VALUES (2)")
    assert client.column("SELECT n FROM STREAM t LIMIT 1 WAIT 10 WITH (group = 'g')") == [2]

    def told() -> bool:  # a member that reads looks at what is missing, some seconds after it was seen
        assert client.rows("SELECT n FROM STREAM t LIMIT 1 NOWAIT WITH (group = 'g')") == []
        return "GRANT PROCESS ON *.* TO" in gate.log

    wait_until(told, 60, "the log to say so")
    other("COMMIT")
    assert client.column("SELECT n FROM STREAM t LIMIT 1 WAIT 10 WITH (group = 'g')") == [1]
    client.close()
    other.close()
    assert gate.log.count("GRANT PROCESS") == 1


def test_accounts_of_programs(gate, account, root):
    maker = account(everything=rights_of("makes queues", "changes options", "drops queues"))
    maker("CREATE QUEUE q (n INT) WITH (order_key = 'n')")
    maker("ALTER QUEUE q SET (max_attempts = 3)")
    sender, receiver = account(q=rights_of("sends messages")), account(q=rights_of("receives and settles"))
    sender("INSERT INTO q (n) VALUES (1), (2), (3), (4), (5)")
    assert len(receiver.rows("SELECT id FROM STREAM q LIMIT 5 WAIT 10")) == 5
    for statement in ("ACK q 1", "NACK q 2 DELAY '1h'", "REJECT q 3 REASON 'no'", "RELEASE q 4", "RENEW q 5 FOR '1m'"):
        assert receiver(statement) == 1, statement
    looker = account(q=rights_of("looks"))
    assert looker.rows("SHOW QUEUE STATUS LIKE 'q'")
    assert looker.rows("EXPLAIN DELIVERY FOR q") and looker.rows("TRACE MESSAGE 2 ON q")
    wait_until(lambda: dead(root) == [3], what="the rejected message to move")
    redriver = account(q_dead="SELECT, UPDATE, DELETE", q="INSERT")
    assert rights_of("sends dead letters again") == "SELECT, UPDATE, DELETE, INSERT"
    assert redriver("REDRIVE q_dead") == 1
    maker("DROP QUEUE q")


def test_the_account_of_the_first_pages_does_the_tutorial(gate, account):
    """Its steps that need more than sending and receiving: dead letters sent again, a schedule, groups; and the
    removal."""
    (paragraph,) = re.findall(r"^The account needs .*", START, re.MULTILINE)
    app = account(everything=", ".join(re.findall(r"`([A-Z]+)`", paragraph)))
    app("CREATE QUEUE q (n INT) WITH (max_attempts = 3)")
    app("INSERT INTO q (n) VALUES (1)")
    assert app.column("SELECT n FROM STREAM q LIMIT 1 WAIT 10") == [1]
    app("REJECT q 1")
    wait_until(lambda: dead(app) == [1], what="the rejected message to move")
    assert app("REDRIVE q_dead") == 1
    app("CREATE SCHEDULE s ON q EVERY '1h' (n) VALUES (3)")
    app("RUN SCHEDULE s")
    app("CREATE TOPIC t (n INT)")
    app("CREATE GROUP g ON t")
    app("INSERT INTO t (n) VALUES (4)")
    assert app.column("SELECT n FROM STREAM t LIMIT 1 WAIT 10 WITH (group = 'g')") == [4]
    app("ACK t 1 GROUP g")
    app("DROP GROUP g ON t")
    app("DROP QUEUE q")


def test_an_archiving_job(gate, account, root):
    """What it sends needs no more than the page says: no DELETE."""
    owner = account(everything="ALL")
    owner("CREATE QUEUE orders (n INT) WITH (archive = 1)")
    (create, record) = re.findall(r"^((?:CREATE TABLE|INSERT|REPLACE) [^;]+);", ARCHIVE, re.MULTILINE)
    owner(create)
    job = account(orders="SELECT, UPDATE", queuegate_archive="SELECT, INSERT, UPDATE")
    for until in ("1767225600000000000", "1767225600000000001"):
        job(record.replace("1767225600000000000", until))
        assert root.value("SELECT archived_until FROM queuegate_archive") == int(until)


def test_what_is_not_granted_is_refused(gate, account):
    owner = account(everything=rights_of("makes queues"))
    owner("CREATE QUEUE q (n INT)")
    sender, receiver = account(q=rights_of("sends messages")), account(q=rights_of("receives and settles"))
    assert sender.error("SELECT * FROM STREAM q NOWAIT")[0] == 1142
    assert sender.error("ACK q 1")[0] == 1142
    assert receiver.error("INSERT INTO q (n) VALUES (1)")[0] == 1142
    assert receiver.error("ALTER QUEUE q SET (prefetch = 3)")[0] == 1142


def test_rights_on_tables_that_are_still_to_be_made(gate, account, root):
    owner = account(everything="ALL")
    owner("CREATE QUEUE parts (order_id BIGINT) WITH (group_key = 'order_id')")
    owner("CREATE QUEUE orders_done (order_id BIGINT)")
    app = account(parts="SELECT, INSERT, UPDATE", orders_done="SELECT, INSERT, UPDATE")
    granted_by(GROUPS, app, root)
    assert "parts_dead" not in root.column("SHOW TABLES")
    app("INSERT INTO parts (order_id) VALUES (42), (42)")
    app("INSERT INTO orders_done (order_id) VALUES (42) AFTER GROUP 42 OF parts")
    assert len(app.rows("SELECT id FROM STREAM parts LIMIT 2 WAIT 10")) == 2
    app("REJECT parts 1 REASON 'no'")
    wait_until(lambda: "parts_dead" in root.column("SHOW TABLES"), what="the dead-letter queue")
    wait_until(lambda: root.column("SELECT id FROM parts_dead") == [1], what="the dead letter")
    assert app("ACK parts 2") == 1
    assert app("ACK parts_dead 1") == 1
    assert app.error("CREATE TABLE parts_dead_too (n INT)")[0] == 1142

    assert "queuegate_schedules" not in root.column("SHOW TABLES")
    granted_by(SCHEDULES, app, root)
    app("CREATE SCHEDULE s ON orders_done EVERY '1h' (order_id) VALUES (1)")
    app("DROP SCHEDULE s")


def test_a_group_without_the_rights_for_it_is_made_whole_or_not_at_all(account, root):
    app = account(everything="SELECT, INSERT, UPDATE, CREATE")
    app("CREATE TOPIC t (n INT)")
    error, text = app.error("CREATE GROUP g ON t")
    assert error == 1142 and "ALTER" in text
    assert root.column("SHOW TABLES LIKE 't\\_group%'") == []
    app("CREATE GROUP p ON t WITH (paused = 1)")  # as it is made, so that nothing is altered
    app = account(everything="SELECT, CREATE, ALTER")
    app("CREATE GROUP g ON t")
    assert app.error("CREATE GROUP g ON t")[0] == 1050
    root("ALTER TABLE queuegate_positions RENAME positions")
    root("CREATE TABLE queuegate_positions (other INT)")
    _, text = app.error("CREATE GROUP half ON t")
    assert "'page_rights.t_group_half' is left paused" in text


def test_a_worker_whose_ack_lacks_a_right_ends_and_its_message_stays(gate, account, root):
    owner = account(everything="ALL")
    owner("CREATE QUEUE parts (order_id BIGINT) WITH (group_key = 'order_id', max_attempts = 3)")
    owner("CREATE QUEUE parts_dead (order_id BIGINT)")
    owner("CREATE QUEUE orders_done (order_id BIGINT)")
    owner("INSERT INTO parts (order_id) VALUES (42)")
    owner("INSERT INTO orders_done (order_id) VALUES (42) AFTER GROUP 42 OF parts")
    worker = account(parts="SELECT, UPDATE", queuegate_groups="SELECT, UPDATE, DELETE")
    user = worker.value("SELECT CURRENT_USER()").partition("@")[0]
    address = f"mysql://{user}:{PASSWORD}@127.0.0.1:{gate.port}/{DATABASE}"
    with pytest.raises(WorkerError, match=r"ERROR 1142: .*parts_dead.*lacks a right"):
        Worker(address, "parts").run(lambda message, transaction: transaction.execute("DO 1"), drain=True)
    assert "nacked" not in str(root.value("SELECT failed_attempts FROM parts"))

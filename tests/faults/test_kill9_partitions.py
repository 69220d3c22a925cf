"""kill -9 of the proxy while it drops a topic's partitions: each message is read or counted as lost, none is both."""

from __future__ import annotations

import pytest
from servers import Sql, wait_until

_BATCH = 6_000


def add(server: Sql, count: int, *, commit: bool = True) -> int:
    """Messages, around the proxy. Returns how many are there to stay."""
    server("BEGIN")
    numbers = f"JSON_TABLE(CONCAT('[0', REPEAT(',0', {count - 1}), ']'), '$[*]' COLUMNS (n FOR ORDINALITY)) AS numbers"
    server(f"INSERT INTO t (body) SELECT n FROM {numbers}")
    server("COMMIT" if commit else "ROLLBACK")
    return count if commit else 0


def read(gate, group: str, limit: int) -> set[int]:
    """What a group gets, and acks."""
    client = Sql(gate.connect())
    ids = client.column(f"SELECT id FROM STREAM t LIMIT {limit} NOWAIT WITH (group = '{group}')")
    if ids:
        assert client(f"ACK t {', '.join(map(str, ids))} GROUP {group}") == len(ids)
    client.close()
    return set(ids)


def lost(server: Sql) -> dict[str, int]:
    rows = server.rows("SELECT group_table, lost FROM queuegate_positions WHERE group_table LIKE 't_group%'")
    return {table.removeprefix("t_group_"): count for table, count in rows}


def asks_for_the_table(server: Sql) -> bool:
    asked = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND INFO LIKE 'LOCK TABLES%'"
    return bool(server.value(asked))


def test_kills_while_partitions_are_dropped(new_gate, place, request):
    if place == "embedded":
        pytest.skip("the embedded backend has no partitions")
    gate = new_gate(retention_period="100ms")
    gate.start()
    server_of = request.getfixturevalue("server_here")
    server, holder = (Sql(server_of.connect(database=gate.database)) for _ in range(2))
    setup = Sql(gate.connect())
    setup("CREATE TOPIC t (body INT) WITH (retain_rows = 1000, partition = '1h')")
    for group in ("reader", "never"):
        setup(f"CREATE GROUP {group} ON t START AT EARLIEST")
    setup.close()
    written, received = 0, set[int]()
    for after_the_count in (False, True, True, True):
        holder("BEGIN")
        holder("SELECT * FROM t LIMIT 1")  # nobody gets the table
        written += add(server, _BATCH)
        add(server, 10, commit=False)
        written += add(server, _BATCH)
        got = read(gate, "reader", 300)
        assert got.isdisjoint(received)
        received |= got
        wait_until(lambda: asks_for_the_table(server), 40, "the table to be asked for")
        if after_the_count:
            before = lost(server)
            holder("ROLLBACK")
            wait_until(lambda before=before: lost(server) != before, 40, "the groups to be moved")
        gate.kill()
        holder("ROLLBACK")
        gate.start()
    written += add(server, _BATCH)
    sql = Sql(gate.connect())
    kept = "SELECT MAX(id) - MIN(id) FROM t"
    wait_until(lambda: sql.value(kept) < 40_000, 40, "the partitions to go")
    sql(f"ALTER TOPIC t SET (retain_rows = {10**9})")
    for group, has in (("reader", received), ("never", set[int]())):
        while got := read(gate, group, 5_000):
            assert got.isdisjoint(has)
            has |= got
        assert len(has) + lost(server)[group] == written, group
    assert sql.value("SELECT MIN(id) FROM t") >= 10_000
    for client in (sql, server, holder):
        client.close()

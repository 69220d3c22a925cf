"""A query that reads a queue and writes into another goes on while the proxy is restarted again and again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from servers import Sql, wait_until
from streams import insert, reading

RESTARTS = 20
PER_RESTART = 5
PATIENCE_SECONDS = 120.0


@pytest.mark.timeout(1200)
def test_twenty_restarts_end_no_query(spark, new_gate, tmp_path):
    """Half of them in order, half by kill -9; what was sent comes through, and each message is there once."""
    gate = new_gate().start()
    sql = Sql(gate.connect())
    for name in ("source", "target"):
        sql(f"CREATE QUEUE {name} (payload VARCHAR(40))")
    at = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}
    frame = reading(spark, gate)("source", leaseSeconds=60)
    writer = frame.select("payload").writeStream.format("queuegate").options(**at, queue="target")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(processingTime="100 milliseconds").start()
    sent = 0
    try:
        for turn in range(RESTARTS):
            insert(sql, "source", *range(sent, sent + PER_RESTART))
            sent += PER_RESTART
            if turn % 4 == 3:  # else it is in the middle of whatever comes first
                wait_until(there(sql, sent), PATIENCE_SECONDS, "the messages before the restart")
            sql.connection._force_close()
            gate.terminate() if turn % 2 else gate.kill()
            gate.start()
            sql = Sql(gate.connect())
            assert query.isActive, query.exception()
        complete = there(sql, sent)
        wait_until(lambda: complete() or not query.isActive, PATIENCE_SECONDS, "all messages")
        assert query.isActive, query.exception()
        assert sorted(map(int, sql.column("SELECT payload FROM target"))) == list(range(sent))
    finally:
        query.stop()
        sql.connection._force_close()


def there(sql: Sql, count: int) -> Callable[[], bool]:
    return lambda: int(sql.value("SELECT COUNT(*) FROM target")) >= count

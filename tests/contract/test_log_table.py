"""queuegate.log: the last warnings and errors. tests/contract/test_look_rights.py says for whom."""

from __future__ import annotations

from servers import wait_until


def test_a_warning_is_a_row(sql, queue):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('x')")
    sql(f"REJECT {q} 1 REASON 'bad'")
    asked = f"SELECT at, level, logger, message, details, proxy FROM queuegate.log WHERE message LIKE '%{q}%dead%'"
    row = wait_until(lambda: next(iter(sql.rows(asked)), None), what="the warning")
    at, level, logger, message, _, proxy = row
    assert len(at) == 23 and at.startswith("20") and level == "warning" and logger.startswith("queuegate")
    assert "moved a message to the dead-letter queue" in message and ":" in proxy
    assert sql.value("SELECT COUNT(*) FROM queuegate.log WHERE level NOT IN ('warning', 'error', 'critical')") == 0

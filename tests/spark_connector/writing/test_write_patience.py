"""Restarts of the proxy while micro-batches are written: planning, staging and publishing go on where they were."""

from __future__ import annotations

import threading

import pytest
from servers import Sql
from write_calls import messages, micro_batch

from spark_connector.client import pool

pytestmark = pytest.mark.long

RESTARTS = 5
PER_BATCH = 20


@pytest.mark.parametrize("routed", [False, True], ids=["one queue", "by a column"])
def test_restarts_of_the_proxy_end_no_micro_batch(new_gate, routed):
    gate = new_gate().start()
    sql = Sql(gate.connect())
    sql("CREATE QUEUE q (n BIGINT, payload VARCHAR(20))")
    sql.close()
    for number in range(RESTARTS):
        gate.kill()
        timer = threading.Timer(0.5, gate.start)
        timer.start()
        rows = messages(number * PER_BATCH, PER_BATCH)
        if routed:
            write_routed(gate, number, rows)
        else:
            micro_batch(gate, "q", number, rows)  # planned, staged and published while the proxy is away
        timer.join()
    pool.close_all()
    sql = Sql(gate.connect())
    assert sorted(sql.column("SELECT n FROM q")) == list(range(RESTARTS * PER_BATCH))
    sql.close()


def write_routed(gate, number, rows):
    import pyarrow as pa
    from write_calls import QUERY, fields

    from spark_connector.option_names import Use
    from spark_connector.options import write
    from spark_connector.writing.batch_write import StreamWrite

    at = {"host": "127.0.0.1", "port": str(gate.port), "user": "root", "database": gate.database}
    table = rows.append_column("target", pa.array(["q"] * rows.num_rows, pa.string()))
    core = StreamWrite(write({**at, "routeColumn": "target"}, Use.STREAM_WRITE), fields(table), overwrite=False)
    core.commit([core.write(table.to_batches(), QUERY)], number)

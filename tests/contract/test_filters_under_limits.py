"""Streams with a WHERE on a queue with limits: whoever fits few messages gets them as well (docs/filters.md)."""

from __future__ import annotations

import time

import pytest
from slowness import scaled

pytestmark = pytest.mark.no_proxy_accounts

MANY, FEW = 3000, 6
SECONDS = 40


@pytest.mark.parametrize(
    "options",
    [
        {"max_concurrency": 1},
        {"max_concurrency": 2},
        {"max_rate": 50},
        {"max_concurrency": 2, "order_key": "'k'"},
        {"order_key": "'k'"},
    ],
    ids=lambda options: "-".join(options),
)
def test_a_stream_that_fits_few_messages_is_served_beside_one_that_fits_many(sql, queue, stream, options):
    """The many come first in the queue, and the other stream takes every place that is free."""
    q = queue("n INT, k INT, INDEX (time_acked, k, id)", ack_wait="'1h'", max_backoff="'2h'", **options)
    for start in range(0, MANY, 1000):
        sql(f"INSERT INTO {q} (n, k) VALUES " + ", ".join(f"(1, {start + i})" for i in range(1000)))
    sql(f"INSERT INTO {q} (n, k) VALUES " + ", ".join(f"(2, {MANY + i})" for i in range(FEW)))
    many = stream(f"SELECT id FROM STREAM {q} WHERE n = 1")
    many.wait(1)
    few = stream(f"SELECT id FROM STREAM {q} WHERE n = 2")
    acked = 0
    deadline = time.monotonic() + scaled(SECONDS)
    while len(few.rows) < FEW:
        assert time.monotonic() < deadline, f"{len(few.rows)} of {FEW}, beside {len(many.rows)} of the other stream"
        out = many.more(acked)[:1] if len(many.rows) > acked else []
        acked += len(out)
        ids = [id_ for (id_,) in out] + few.ids()
        if ids:
            sql(f"ACK {q} ({', '.join(map(str, ids))})")
    assert len(many.rows) > 1
    if "order_key" not in options:
        assert len(many.rows) < MANY // 2, "the few waited until half of the many were done"

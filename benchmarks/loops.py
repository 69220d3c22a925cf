"""One connection, one small statement after the other: what the way to the database adds to each.

`SELECT 1` costs the database almost nothing, so the proxies' share is as visible as it can be. Each turn is timed
statement by statement. What a proxy adds is the difference of medians to the direct way within the same repeat.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.harness import Part, Sample, Stretch
from benchmarks.measure import percentile
from benchmarks.rivals import DIRECT, HAPROXY, QUEUEGATE, Arena, Rival
from benchmarks.wire import BareClient, query

MEDIAN = "median us"


def _timed(arena: Arena, rival: Rival, once: Callable[[], object], seconds: float) -> Sample:
    clock = time.perf_counter
    samples: list[float] = []
    for _ in range(50):
        once()
    stretch = Stretch(arena, rival)
    before = started = clock()
    deadline = started + seconds
    while before < deadline:
        once()
        after = clock()
        samples.append(after - before)
        before = after
    values = {"queries/s": len(samples) / (before - started)}
    values |= {MEDIAN: percentile(samples, 50) * 1e6, "p99 us": percentile(samples, 99) * 1e6}
    return stretch.sample(len(samples), values)


def _pymysql(arena: Arena, rival: Rival, seconds: float) -> Sample:
    connection = rival.connect()
    with connection, connection.cursor() as cursor:

        def once() -> None:
            cursor.execute("SELECT 1")
            cursor.fetchall()

        return _timed(arena, rival, once, seconds)


def _bare(arena: Arena, rival: Rival, seconds: float) -> Sample:
    client = BareClient(rival.connect())
    wanted = client.answer_bytes("SELECT 1")
    packet, sock = query("SELECT 1"), client.sock

    def once() -> None:
        sock.sendall(packet)
        # A small answer comes in one piece nearly always; the rest is read where it does not.
        if (rest := wanted - len(sock.recv(4096))) > 0:
            client.read_exactly(rest)

    try:
        return _timed(arena, rival, once, seconds)
    finally:
        client.close()


PARTS = tuple(
    Part(
        name=name,
        title=f"SELECT 1 in a loop, 1 connection, {client}",
        run=run,
        main=MEDIAN,
        rivals=(DIRECT, HAPROXY, QUEUEGATE),
    )
    for name, client, run in (("loop-pymysql", "PyMySQL", _pymysql), ("loop-bare", "bare socket", _bare))
)

"""Receivers behind two proxies, and the judgement of what they got.

The judgement. Every delivery carries its lease: the row's `time_next` as it was sent is the lease's end, by the
database's clock, and as the queue's backoff is made constant, its beginning is known exactly, too. So for each message:
- committed: every INSERT that returned, and what the table says of those of which nobody knows, is delivered;
- acked is acked: no lease begins after an ACK of that message had returned to a client (all clocks are one machine's);
- leased to one at a time: no two deliveries have the same epoch, and each lease begins no earlier than the last one
  ended. The receivers keep their streams through everything but the death of their proxy, which gives nothing back; so
  no lease ends before its time, and two that overlapped would be two receivers with one message.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pymysql
from servers import NS, Gate, Sql, Stream, in_threads, wait_until
from slowness import scaled

ACK_WAIT_NS, BACKOFF_NS = 4 * NS, NS // 100
LOST = (pymysql.err.OperationalError, pymysql.err.InterfaceError, OSError, AttributeError, AssertionError)
Q = f"""CREATE QUEUE q (n INT, KEY (n)) WITH (ack_wait = '{ACK_WAIT_NS // NS}s', min_backoff = '10ms',
        max_backoff = '10ms', poll_interval = '5s')"""


@dataclass(frozen=True)
class Delivery:
    """What a receiver got, and the lease that it was sent under."""

    id: int
    n: int
    epoch: int
    ends_ns: int
    receiver: int

    @property
    def begins_ns(self) -> int:
        return self.ends_ns - ACK_WAIT_NS - BACKOFF_NS


class Field:
    """All that the clients were promised, and what they got."""

    def __init__(self, total: int, first: str = "") -> None:
        self.total = total  # messages; each has a number of its own, from 0 on
        self.first = first  # what each client says before all else
        self.lock = threading.Lock()
        self.deliveries: list[Delivery] = []
        self.acked_ns: dict[int, int] = {}  # id -> when an ACK of it had returned
        self.over = threading.Event()

    def acked(self, ids: list[int]) -> None:
        now = time.time_ns()
        with self.lock:
            for id_ in ids:
                self.acked_ns.setdefault(id_, now)


def connected(gate: Gate, field: Field) -> Sql | None:
    """A client of that proxy, as soon as there can be one."""
    while not field.over.is_set():
        try:
            client = Sql(gate.connect(connect_timeout=2, read_timeout=20))
            if field.first:
                client(field.first)
            return client
        except LOST:
            field.over.wait(0.05)
    return None


def produce(gate: Gate, field: Field, numbers: list[int]) -> None:
    """Insert these; after an error look which of them the table has."""
    client = connected(gate, field)
    for start in range(0, len(numbers), 20):
        wanted = numbers[start : start + 20]
        while wanted and client is not None:
            try:
                client("INSERT INTO q (n) VALUES " + ", ".join(f"({n})" for n in wanted))
                wanted = []
            except LOST:
                client.connection._force_close()
                client, wanted = missing(gate, field, wanted)
    if client is not None:
        client.connection._force_close()


def missing(gate: Gate, field: Field, wanted: list[int]) -> tuple[Sql | None, list[int]]:
    while (client := connected(gate, field)) is not None:
        try:
            had = set(client.column(f"SELECT n FROM q WHERE n IN ({', '.join(map(str, wanted))}) FOR UPDATE"))
            return client, [n for n in wanted if n not in had]
        except LOST:
            client.connection._force_close()
    return None, []


def receive(gate: Gate, field: Field, number: int) -> None:
    """Keep a stream open for as long as its proxy lives; ack what comes, on another connection."""
    acks = None
    while not field.over.is_set():
        try:
            stream = Stream(gate, "SELECT id, n, epoch, time_next FROM STREAM q WITH (prefetch = 300)")
        except LOST:
            field.over.wait(0.05)
            continue
        taken = 0
        while not stream.ended.is_set() or len(stream.rows) > taken:
            rows = stream.more(taken)[:100]
            taken += len(rows)
            with field.lock:
                field.deliveries += [Delivery(*row, receiver=number) for row in rows]
            if rows:
                acks = ack(gate, field, acks, [row[0] for row in rows])
        stream.close()
    if acks is not None:
        acks.connection._force_close()


def ack(gate: Gate, field: Field, acks: Sql | None, ids: list[int]) -> Sql | None:
    """Once: what became of an ACK that failed nobody knows, and a message that was not acked has to come again."""
    if (acks := acks or connected(gate, field)) is not None:
        try:
            acks("ACK q " + ", ".join(map(str, ids)))
        except LOST:
            acks.connection._force_close()
            return None
        field.acked(ids)
    return acks


def judge(field: Field, table: dict[int, int]) -> None:
    assert sorted(table.values()) == list(range(field.total))
    by_id: dict[int, list[Delivery]] = defaultdict(list)
    for delivery in field.deliveries:
        assert table[delivery.id] == delivery.n
        by_id[delivery.id].append(delivery)
    assert table.keys() - by_id.keys() == set(), "committed and never delivered"
    late = [d for d in field.deliveries if d.begins_ns > field.acked_ns.get(d.id, d.begins_ns)]
    assert late == [], "leased anew after its ack had returned"
    for deliveries in by_id.values():
        deliveries.sort(key=lambda d: (d.epoch, d.ends_ns))
        for one, next_ in itertools.pairwise(deliveries):
            assert one.epoch < next_.epoch, ("one lease, two deliveries", one, next_)
            assert one.ends_ns <= next_.begins_ns, ("two leases at once", one, next_)
    assert any(len(deliveries) > 1 for deliveries in by_id.values()), "nothing was held by what failed"


class Clients:
    """Two producers and four receivers, spread over two proxies; they go on through everything."""

    def __init__(self, gates: Sequence[Gate], field: Field) -> None:
        self.gates, self.field = gates, field
        self._receivers = [
            threading.Thread(target=receive, args=(gates[k // 2], field, k), daemon=True) for k in range(4)
        ]
        self._producers = [
            threading.Thread(target=produce, args=(gate, field, list(range(k, field.total, 2))), daemon=True)
            for k, gate in enumerate(gates)
        ]
        for worker in (*self._receivers, *self._producers):
            worker.start()

    def reached(self, share: float) -> None:
        """Wait until so much of the messages is acked."""
        enough = self.field.total * share
        wait_until(lambda: len(self.field.acked_ns) >= enough, 90, f"{share:.0%} of the messages to be acked")

    def finish(self, check: Sql) -> None:
        """Wait until all is acked and nothing comes again, end the proxies, and judge."""
        for worker in self._producers:
            worker.join(scaled(60))
            assert not worker.is_alive(), "a producer never came to its end"
        wait_until(lambda: not check.value("SELECT COUNT(*) FROM q WHERE time_acked IS NULL"), 60, "all to be acked")
        time.sleep(2 * ACK_WAIT_NS / NS)  # what is sent again is sent when a lease has run out
        self.field.over.set()
        in_threads(lambda gate: gate.terminate(), [(gate,) for gate in self.gates])  # which ends the streams
        for worker in self._receivers:
            worker.join(scaled(20))
            assert not worker.is_alive()
        for gate in self.gates:
            assert "Traceback" not in gate.log
        judge(self.field, dict(check.rows("SELECT id, n FROM q")))

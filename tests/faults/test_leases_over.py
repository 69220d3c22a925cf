"""Leases of two seconds, with a proxy that stands still for longer: no message is with two receivers at once.

Every delivery says until when it is leased: the row's `time_next` as it was sent. What comes to a receiver after that
may be another's by then. All clocks are one machine's.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pymysql
import pytest
from pymysql.cursors import SSCursor
from servers import NS, Gate, MariaDb, Sql, Stream, wait_until
from silent_proxy import FROZEN, Two, two_proxies
from slowness import scaled

from engine.model.claim_size import FIRST_CLAIM_SIZE

ACK_WAIT_NS, STANDSTILL_SECONDS, TIMES = 2 * NS, 3.5, 3
MARGIN_NS = NS // 2  # a row is on its way for so long at most, besides what this machine keeps all waiting
LEASES = "ack_wait = '2s', min_backoff = '10ms', max_backoff = '10ms', poll_interval = '1s'"
RECEIVERS, BATCH = 3, 40


@dataclass(frozen=True)
class Delivery:
    n: int
    ends_ns: int
    got_ns: int
    receiver: int


class Jitter:
    """How late threads of this process run, at times: a row that was here in time may have been read late."""

    def __init__(self) -> None:
        self.late: list[tuple[int, int]] = []  # when, and by how much
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        before = time.time_ns()
        while not self._over.wait(0.01):
            now = time.time_ns()
            if now - before > NS // 20:
                self.late.append((now, now - before))
            before = now

    def around(self, at_ns: int) -> int:
        """The worst of the seconds about then."""
        return max((by for when, by in self.late if abs(when - at_ns) < 3 * NS), default=0)

    def __enter__(self) -> Jitter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


class Ledger:
    """Producers and receivers of both proxies, and what they saw."""

    def __init__(self, two: Two) -> None:
        self.two = two
        self.over = threading.Event()
        self.deliveries: list[Delivery] = []
        self.sent = 0

    def receive(self, gate: Gate, receiver: int) -> None:
        """Acks two of three at once; the third is left to run out, and goes to whoever is next."""
        columns = "SELECT id, n, time_next, epoch"
        with (
            contextlib.closing(Sql(gate.connect())) as acks,
            Stream(gate, f"{columns} FROM STREAM q WITH (prefetch = {BATCH})") as stream,
        ):
            taken = 0
            while not self.over.is_set():
                rows = stream.more(taken, 0.5)
                for (id_, n, ends_ns, epoch), at in zip(rows, stream.times[taken:], strict=False):
                    self.deliveries.append(Delivery(n, ends_ns, int(at * NS), receiver))
                    if n % 3 or epoch > 2:
                        acks(f"ACK q {id_}")
                    taken += 1

    def produce(self, gate: Gate) -> None:
        with contextlib.closing(Sql(gate.connect())) as client:
            while not self.over.is_set():
                first = self.sent
                client("INSERT INTO q (n) VALUES " + ", ".join(f"({n})" for n in range(first, first + BATCH)))
                self.sent += BATCH
                self.over.wait(0.1)


def overlaps(deliveries: list[Delivery], jitter: Jitter) -> list[tuple[Delivery, Delivery]]:
    """Deliveries that came after their lease was over, and the other one that the message was with by then."""
    of_message: dict[int, list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        of_message[delivery.n].append(delivery)
    return [
        (late, other)
        for those in of_message.values()
        for late in those
        for other in those
        if late.ends_ns < other.ends_ns - ACK_WAIT_NS // 2
        and late.got_ns > late.ends_ns + MARGIN_NS + jitter.around(late.got_ns)
    ]


@pytest.fixture
def two(mariadb: MariaDb, tmp_path) -> Iterator[Two]:
    with two_proxies(FROZEN, mariadb, tmp_path, "leases") as both:
        yield both.start()


@pytest.mark.parametrize("told", [False, True], ids=["found by a look", "told by the commit"])
def test_a_proxy_that_stood_still_hands_out_nothing_whose_lease_is_over(two: Two, mariadb: MariaDb, told: bool):
    ledger = Ledger(two)
    with (
        contextlib.closing(Sql(mariadb.connect(database="leases"))) as check,
        contextlib.closing(Sql(two.other.connect())) as setup,
        Jitter() as jitter,
    ):
        setup(f"CREATE QUEUE q (n INT) WITH ({LEASES})")
        threads = [
            threading.Thread(target=ledger.receive, args=(gate, number), daemon=True)
            for number, gate in enumerate((two.silent, two.other) * RECEIVERS)
        ]
        threads.append(threading.Thread(target=ledger.produce, args=(two.silent if told else two.other,), daemon=True))
        for thread in threads:
            thread.start()
        for _ in range(TIMES):
            seen = len(ledger.deliveries)
            wait_until(lambda seen=seen: len(ledger.deliveries) > seen + 2 * BATCH, 30, "deliveries")
            leased = two.cutter.hold(b"UPDATE `leases`.`q`", b"lease_token", b"COMMIT")
            assert leased.wait(scaled(30)), "the first proxy leased nothing"
            two.fall_silent()  # it has these messages, and has not heard so
            threading.Event().wait(STANDSTILL_SECONDS)
            two.go_on()
        seen = len(ledger.deliveries)
        wait_until(lambda: len(ledger.deliveries) > seen + 2 * BATCH, 30, "deliveries after the last standstill")
        ledger.over.set()
        for thread in threads:
            thread.join(scaled(20))
        check("SELECT 1")
    assert overlaps(ledger.deliveries, jitter) == []
    assert {d.receiver % 2 for d in ledger.deliveries} == {0, 1}


BODY, BODIES = 1 << 20, 24


def test_what_waits_for_a_reader_that_takes_nothing_goes_to_another_and_not_to_him(two: Two):
    """More than all buffers on the way hold. What has not left the proxy when its lease is over never does."""
    with contextlib.closing(Sql(two.other.connect())) as client:
        client(
            "CREATE QUEUE q (n INT, body LONGTEXT) WITH (ack_wait = '5s', min_backoff = '10ms', max_backoff = '10ms')"
        )
        slow = two.silent.connect(cursorclass=SSCursor, read_timeout=30)
        cursor = slow.cursor()
        cursor.execute("SELECT n, time_next, body FROM STREAM q WITH (prefetch = 100)")
        client("INSERT INTO q (n, body) VALUES " + ", ".join(f"({n}, REPEAT('x', {BODY}))" for n in range(BODIES)))
        taken = "SELECT COUNT(*) FROM q WHERE epoch > 0"
        wait_until(lambda: client.value(taken) >= FIRST_CLAIM_SIZE, 20, "the messages to be leased")
        leased = client.value(taken)
        got: set[int] = set()
        deadline = time.monotonic() + scaled(30)
        while len(got) < BODIES:
            assert time.monotonic() < deadline, f"the other got {len(got)} of {BODIES}"
            rows = client.rows("SELECT id, n FROM STREAM q LIMIT 10 WAIT 1 WITH (ack_wait = '1h')")
            got |= {n for _, n in rows}
        had = []
        with contextlib.suppress(pymysql.err.OperationalError):
            while (row := cursor.fetchone()) is not None:
                had.append(row[0])
        if cursor._result is not None:
            cursor._result.unbuffered_active = False
        slow._force_close()
        assert len(had) < leased, "what the proxy still had has gone out"
        assert len(had) == len(set(had))

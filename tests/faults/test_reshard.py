"""A drill on a Vitess of programs of its own: a primary that changes and one that dies, from two shards to four, back
and forth again, with producers, receivers and a worker. Nothing is lost, no ack is undone, and all streams stay."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable

import pytest
from rolling_clients import LOST, at_work
from servers import SERVER, Gate, Sql, Stream, private, wait_until
from sharded_clients import KEYS, Account, ShardedClients, prepared, two_gates
from vitess_cluster import SHARDED, VitessCluster

from queuegate_worker import Worker

pytestmark = [
    pytest.mark.skipif(SERVER != "vitess", reason="needs a Vitess: make test-vitess"),
    pytest.mark.timeout(1800),
]

STEP = 400
"""Messages that are handled after each change."""

TWO, FOUR = ("-80", "80-"), ("-40", "40-80", "80-c0", "c0-")


class Drill(ShardedClients):
    """Receivers ack by the name of the delivery, and go on with their stream where an ack fails."""

    def __init__(self, gates: list[Gate]) -> None:
        super().__init__(gates, pause_seconds=0.01)
        self.streams = 0
        self.deliveries: set[tuple[int, int]] = set()
        self.repeated: list[tuple[int, int]] = []

    def receive(self, first: int) -> None:
        select = "SELECT id, n, lease_token FROM STREAM q WITH (prefetch = 20)"
        while (found := self.connect(first)) is not None:
            gate, client = found
            with contextlib.suppress(*LOST), Stream(gate, select) as stream:
                with self.lock:
                    self.streams += 1
                for taken in itertools.count():
                    rows = stream.more(taken)
                    if not rows or self.stop.is_set():
                        break
                    id_, n, token = rows[0]
                    self.delivered_as(n, token)
                    try:
                        self.settle(client, n, "ACK q WHERE id = %s AND lease_token = %s", id_, token)
                    except LOST:  # the message comes again
                        client.connection._force_close()
                        self.stop.wait(0.1)
                        client = Sql(gate.connect(connect_timeout=2, read_timeout=30))
            client.connection._force_close()

    def delivered_as(self, n: int, token: int) -> None:
        """A message was received under this name of the delivery, which is new."""
        with self.lock:
            self.times.append(time.monotonic())
            if (n, token) in self.deliveries:
                self.repeated.append((n, token))
            self.deliveries.add((n, token))

    def work(self, message, transaction) -> None:
        """The worker's handler."""
        self.delivered_as(message.n, message.lease_token)
        transaction.execute("UPDATE business SET done = done + 1 WHERE k = %s", (message.n % KEYS,))

    def after(self, what: str, change: Callable[[], object]) -> None:
        """Do it, and wait until enough messages have been handled after it."""
        began = time.monotonic()
        change()
        changed = time.monotonic()
        wanted = self.handled + STEP
        wait_until(lambda: self.handled >= wanted, 120, f"{STEP} messages after {what}")
        ended = time.monotonic()
        with self.lock:
            times = [began, *(at for at in self.times if at >= began), ended]
        pause = max(after - before for before, after in itertools.pairwise(times))
        print(f"{what}: {changed - began:.1f} s, then {STEP} messages in {ended - changed:.1f} s, pause {pause:.1f} s")


@pytest.fixture(params=["buffering", "failing"])
def vitess(request):
    """Statements of clients wait in the vtgate while a primary changes, or fail."""
    with private(VitessCluster(TWO, buffer=request.param == "buffering")) as server:
        yield server


def test_primaries_and_shards_change_under_load(vitess, tmp_path):
    gates = two_gates(vitess, tmp_path)
    prepared(gates[0])
    account = Account(vitess, SHARDED)
    clients = Drill(gates)
    worker = Worker(f"mysql://root@127.0.0.1:{gates[1].port}/{SHARDED}", "q", concurrency=2)
    with at_work(clients), worker.running(clients.work):
        clients.after("the start", lambda: None)
        clients.after("a planned reparent", lambda: vitess.reparent("-80"))
        clients.after("the death of a primary", lambda: vitess.crash_primary("80-"))
        clients.after("copies of all shards", lambda: vitess.reshard("four", TWO, FOUR))
        clients.after("a switch to four shards", lambda: vitess.switch("four"))
        clients.after("a switch back to two", lambda: vitess.switch_back("four"))
        clients.after("a switch to four again", lambda: vitess.switch("four"))
        clients.after("the end of the old shards", lambda: vitess.complete("four", TWO))
        clients.enough = True
        wait_until(lambda: account.unacked() == 0, 300, "every message to be acked")
    account.check(clients)
    assert not clients.repeated, "a delivery's name came twice"
    assert clients.streams == 4, "a stream was ended"

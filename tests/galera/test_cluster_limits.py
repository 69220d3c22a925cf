"""Queues with limits, and key ranges, with proxies at two nodes of a Galera cluster.

A node does not see another one's locks, so limits may be exceeded by claims at the same moment (docs/servers.md).
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress

import pymysql
import pytest
from servers import Sql, Stream, wait_until
from slowness import scaled
from test_galera import linked

KEYS, MESSAGES = 3, 240


class Held:
    """What receivers hold, and what two of them had at the same time."""

    def __init__(self) -> None:
        self._lock, self._ids = threading.Lock(), set[int]()
        self.faults: list[str] = []

    def took(self, id_: int, epoch: int) -> None:
        with self._lock:
            if id_ in self._ids:
                self.faults.append(f"{id_} is out twice, now with epoch {epoch}")
            self._ids.add(id_)

    def gives(self, id_: int) -> None:
        with self._lock:
            self._ids.discard(id_)


def ack(client, id_):
    """As an application does, which repeats what another node's commit has undone."""
    while True:
        try:
            client(f"ACK limited {id_}")
        except pymysql.err.OperationalError as error:
            assert error.args[0] == 1213
        else:
            return


@pytest.mark.parametrize("keys", ["shared", "sticky"])
@pytest.mark.parametrize("limit", ["order_key = 'k'", "max_concurrency = 3", "max_rate = 100"])
def test_no_message_of_a_queue_with_limits_is_out_twice(cluster, gate_at, limit, keys):
    gates = [gate_at(cluster.nodes[0]), gate_at(cluster.nodes[1])]
    linked(*gates)
    setup = Sql(gates[0].connect())
    setup("DROP QUEUE IF EXISTS limited")
    setup(f"CREATE QUEUE limited (k INT NOT NULL) SHARDING KEY (k) WITH ({limit}, ack_wait = '60s')")
    setup(f"INSERT INTO limited (k) VALUES {', '.join(f'({n % KEYS})' for n in range(MESSAGES))}")
    held, acked, done = Held(), [], threading.Event()

    def receive(gate):
        client = Sql(gate.connect())
        while not done.is_set():
            rows = ()
            with suppress(pymysql.err.OperationalError):  # 1213: another node was first
                rows = client.rows(f"SELECT id, epoch FROM STREAM limited LIMIT 1 WAIT 0.2 WITH (keys = '{keys}')")
            for id_, epoch in rows:
                held.took(id_, epoch)
                client.rows("SELECT SLEEP(0.02)")  # the handler's work
                held.gives(id_)
                ack(client, id_)
                acked.append(id_)
        client.close()

    threads = [threading.Thread(target=receive, args=(gate,), daemon=True) for gate in gates for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(acked) >= MESSAGES, 120, "all messages")
    done.set()
    for thread in threads:
        thread.join(scaled(20))
    assert held.faults == [] and len(set(acked)) == len(acked), (sorted(acked), held.faults)
    setup("DROP QUEUE limited")
    setup.close()


def test_receivers_at_two_nodes_get_their_key_ranges(cluster, gate_at):
    here, there = gate_at(cluster.nodes[0]), gate_at(cluster.nodes[1])
    linked(here, there)
    client = Sql(here.connect())
    client("CREATE QUEUE ranged (k INT NOT NULL) SHARDING KEY (k)")
    streams = [
        Stream(gate, f"SELECT k FROM STREAM ranged WITH (key_range = '{half}')")
        for gate, half in ((here, "-80"), (there, "80-"))
    ]
    client(f"INSERT INTO ranged (k) VALUES {', '.join(f'({k})' for k in range(60))}")
    low = [k for k in range(60) if hashlib.md5(str(k).encode(), usedforsecurity=False).digest()[0] < 0x80]
    streams[0].wait(len(low))
    streams[1].wait(60 - len(low))
    assert sorted(streams[0].ids()) == low
    assert sorted(streams[0].ids() + streams[1].ids()) == list(range(60))
    for stream in streams:
        stream.close()
    client("DROP QUEUE ranged")
    client.close()

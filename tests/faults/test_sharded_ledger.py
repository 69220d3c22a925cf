"""A ledger over two shards of a Vitess, through two proxies, while a proxy, the vtgate with its tablets, and their
MySQL are killed: each message is acked in one transaction with a business row of its shard."""

from __future__ import annotations

import pytest
from rolling_clients import at_work
from servers import SERVER, private, wait_until
from sharded_clients import Account, ShardedClients, prepared, two_gates
from vitess_server import SHARDED, Vitess

pytestmark = [
    pytest.mark.skipif(SERVER != "vitess", reason="needs a Vitess: make test-vitess"),
    pytest.mark.timeout(1200),
]

MESSAGES = 20_000


@pytest.fixture
def vitess():
    with private(Vitess()) as server:
        yield server


def test_nothing_is_lost_and_nothing_is_done_twice(vitess, tmp_path):
    gates = two_gates(vitess, tmp_path)
    prepared(gates[0])
    account = Account(vitess, SHARDED)
    clients = ShardedClients(gates, limit=MESSAGES)
    kills = {
        MESSAGES // 5: lambda: (gates[0].kill(), gates[0].start()),
        MESSAGES * 2 // 5: lambda: (vitess.kill(), vitess.start()),
        MESSAGES * 3 // 5: lambda: (vitess.kill_mysql(), vitess.start()),
        MESSAGES * 4 // 5: lambda: (gates[1].kill(), gates[1].start()),
    }
    with at_work(clients):
        for level, kill in kills.items():
            wait_until(lambda level=level: clients.handled >= level, 300, f"{level} messages to be handled")
            kill()
        wait_until(lambda: len(clients.doubtful) >= MESSAGES, 300, "the producers")
        wait_until(lambda: account.unacked() == 0, 300, "every message to be acked")
    account.check(clients)

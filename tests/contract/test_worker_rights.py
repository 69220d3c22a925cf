"""A worker with an account that may receive and settle, and nothing else."""

from __future__ import annotations

import asyncio

import pytest
from servers import Sql, wait_until

from queuegate_worker import Reject, Release, Worker, WorkerError

USERS = [
    {"name": "root", "password": ""},
    {"name": "worker", "password": "pw", "queues": {"orders": ["receive", "settle"]}},
    {"name": "writer", "password": "pw", "queues": {"orders": ["enqueue"]}},
]


@pytest.fixture(scope="module", params=["embedded", "proxy_accounts"])
def place(request):
    """Where accounts are the proxy's."""
    return str(request.param)


@pytest.fixture(scope="module")
def limited(gate_of):
    gate = gate_of("worker_rights", USERS)
    owner = Sql(gate.connect())
    owner("CREATE QUEUE orders (n INT) WITH (min_backoff = '100ms')")
    owner.close()
    return gate


def test_receive_and_settle_are_enough(limited):
    root = Sql(limited.connect())
    root("INSERT INTO orders (n) VALUES (1), (2), (3), (4), (5), (6)")
    address = f"mysql://worker:pw@127.0.0.1:{limited.port}/{limited.database}"
    later = []

    def handle(message):
        if message.n == 2 and message.epoch == 1:
            raise ValueError("again")
        if message.n == 3:
            raise Reject("no")
        if message.n == 4 and not later:
            later.append(message.epoch)
            raise Release(delay=0.3)
        if message.n == 4:
            later.append(message.epoch)

    with Worker(address, "orders", concurrency=2).running(handle):
        wait_until(lambda: root.value("SELECT COUNT(*) FROM orders WHERE time_acked IS NULL") == 0)
    assert later == [1, 1]
    root("INSERT INTO orders (n) VALUES (7), (8)")
    wait_until(lambda: Worker(address, "orders", batch=5).run(lambda messages: None, drain=True) or True)
    assert root.value("SELECT COUNT(*) FROM orders WHERE time_acked IS NULL") == 0
    root.close()


def test_without_the_right_to_receive_it_says_so(limited):
    address = f"mysql://writer:pw@127.0.0.1:{limited.port}/{limited.database}"
    with pytest.raises(WorkerError, match=r"1142.*lacks a right"):
        Worker(address, "orders").run(print)
    with pytest.raises(WorkerError, match="1045"):
        Worker(address.replace("pw", "wrong"), "orders").run(print)


def test_a_worker_inside_a_program_says_at_once_what_has_ended_it(limited, caplog):
    address = f"mysql://writer:pw@127.0.0.1:{limited.port}/{limited.database}"

    async def program():
        with pytest.raises(WorkerError):
            await Worker(address, "orders").serve(print, signals=False)

    def said():
        return [record.getMessage() for record in caplog.records if "orders has ended: " in record.getMessage()]

    asyncio.run(program())
    assert len(said()) == 1
    with pytest.raises(WorkerError), Worker(address, "orders").running(print):
        wait_until(lambda: len(said()) == 2, what="the error, while the program goes on")

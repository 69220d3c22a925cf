"""A small share of what `make fuzz` does with rows: see random_rows."""

from __future__ import annotations

import os

import pytest
from random_rows import ROUNDS, queue_round, worker_round
from servers import Sql

SEEDS = [f"{os.environ.get('FUZZ_SEED', 'fixed')}/{number}" for number in range(6)]


@pytest.mark.parametrize("kind", ROUNDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_neighbours_are_delivered(sql, connect, name, kind, seed):
    ROUNDS[kind](seed, sql, connect(), name)


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_neighbours_are_handled_by_the_worker(sql, connect, gate, name, seed):
    address = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database}
    worker_round(seed, sql, connect(), name, address)


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_rows_of_an_account_that_may_only_enqueue(place, gate_of, name, seed):
    if place not in ("embedded", "proxy_accounts"):
        pytest.skip("accounts are the server's own here")
    users = [{"name": "root", "password": ""}, {"name": "web", "password": "", "queues": {"*": ["enqueue"]}}]
    gate = gate_of("random_rows", users)
    sql, web = Sql(gate.connect()), Sql(gate.connect(user="web"))
    queue_round(seed, sql, web, name)
    sql.close()
    web.close()

"""Every kind of id goes through look, claim, unsettled, release and purge unchanged, on both kinds of SQL."""

from __future__ import annotations

import pytest
from memory_store import Row

from engine.store.base import release_of

IDS = {
    "integer": [1, -(2**63), 2**63 - 1],
    "text": ["a", "O'Reilly", 'back\\slash "x"', "ünï", "?", "`", "%s", "0", ""],
    "binary": [b"a", b"\x00\xff'\\", b"?", bytes(range(32)), b""],
}


@pytest.mark.parametrize("kind", list(IDS))
async def test_ids_of_every_kind(open_sql, kind):
    bench = await open_sql(kind)
    try:
        ids = IDS[kind]
        await bench.add(*(Row(id_, time_next=10) for id_ in ids))
        look = await bench.store.look(bench.spec, 100)
        assert {key.id for key in look.keys} == set(ids)
        claim = await bench.store.claim(bench.spec, [key.id for key in look.keys], {0: 10**10})
        assert {message.id for message in claim.messages} == set(ids)
        standings = {message.id: (1, message.lease_until_ns, message.token) for message in claim.messages}
        assert await bench.store.unsettled(bench.spec, ids) == standings
        leases = [release_of(message) for message in claim.messages]
        assert await bench.store.release(bench.spec, leases, counted=True) == len(ids)
        await bench.ack(*ids, at_ns=1)
        assert await bench.store.purge(bench.spec, 100) == len(ids)
    finally:
        await bench.close()


async def test_an_id_of_another_case_is_found_as_the_table_spells_it(fresh_url):
    from store_benches import MySQLBench

    bench = await MySQLBench.open(fresh_url(), "VARCHAR(20) COLLATE utf8mb4_general_ci")
    try:
        await bench.add(Row("Abc"))
        assert await bench.store.unsettled(bench.spec, ["aBC"]) == {"Abc": (0, 0, 0)}
    finally:
        await bench.close()

"""Every kind of id goes through look, claim, unsettled, release and purge unchanged, on both kinds of SQL."""

from __future__ import annotations

import dataclasses

import pytest
from memory_store import Row

from embedded.compile.values.types import decimal, meta
from engine.model.errors import InvalidQueueTable
from engine.model.queue import ColumnMeta, IndexInfo, QueueName
from engine.store.base import release_of
from engine.store.catalog import TableInfo, queue_spec
from engine.store.statements.sqlite import unfit_id

COMMENT = "vitess_message,vt_ack_wait=30,vt_purge_after=60,vt_batch_size=10,vt_cache_size=100,vt_poller_interval=30"

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
        poll = await bench.store.poll(bench.spec, 100)
        assert {key.id for key in poll.keys} == set(ids)
        claim = await bench.store.claim(bench.spec, [key.id for key in poll.keys], {0: 10**10})
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


@pytest.mark.parametrize(
    ("size", "scale", "unsigned", "fits"),
    [(15, 0, False, True), (15, 15, True, True), (15, 2, False, True), (16, 0, False, False), (65, 30, True, False)],
)
def test_a_table_from_before_whose_ids_are_long_decimals_is_told_so(size, scale, unsigned, fits):
    sql_type = dataclasses.replace(decimal(size, scale), unsigned=unsigned)
    assert (unfit_id(meta(sql_type, "id")) is None) == fits
    columns = [
        meta(sql_type, "id"),
        *(ColumnMeta(name, 8) for name in ("priority", "epoch", "time_next", "time_acked")),
    ]
    found = TableInfo(
        QueueName("main", "old"),
        COMMENT,
        tuple(columns),
        (IndexInfo(("id",), True),),
        unfit=unfit_id(columns[0]),
    )
    if fits:
        assert queue_spec(found).name.table == "old"
        return
    with pytest.raises(InvalidQueueTable, match="more than 15 digits"):
        queue_spec(found)

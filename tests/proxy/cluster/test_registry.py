"""The ids that a proxy gives to its clients."""

from __future__ import annotations

from itertools import islice

from proxy.cluster.registry import FIRST_OWN_ID, ConnectionRegistry, own_ids


def test_ids_begin_anywhere_and_workers_never_share_one(monkeypatch):
    starts = set()
    for worker in range(64):
        first, *others = islice(own_ids(worker, 64), 1000)
        starts.add(first - worker * (FIRST_OWN_ID // 64))
        for number in (first, *others):
            assert number >= FIRST_OWN_ID and number < 1 << 31, "the sign bit, which some clients see"
            assert (number - FIRST_OWN_ID) // (FIRST_OWN_ID // 64) == worker
        assert len({first, *others}) == 1000
    assert len(starts) > 60
    monkeypatch.setattr("secrets.randbelow", lambda size: size - 1)
    assert list(islice(own_ids(), 3)) == [(1 << 31) - 1, 1 << 30, (1 << 30) + 1], "they go round"


def test_a_registry_without_ids_counts_from_one():
    registry = ConnectionRegistry()
    assert [registry.new_id() for _ in range(3)] == [1, 2, 3]

"""Which messages a look expects."""

from __future__ import annotations

from engine.store.known_queues import EXPECTED_MAX, MISSES_MAX, NextIds


def test_the_ids_behind_the_last_ones_are_expected() -> None:
    ids = NextIds()
    assert not ids.expected(10)
    ids.record((3, 7, 5))
    assert list(ids.expected(10)) == list(range(8, 8 + EXPECTED_MAX))
    assert list(ids.expected(2)) == [8, 9]


def test_where_others_come_nothing_is_expected_until_it_would_have_been_right() -> None:
    ids = NextIds()
    for number in range(0, 100 * (MISSES_MAX + 1), 100):
        ids.record((number,))
    assert not ids.expected(1)
    ids.record((100 * MISSES_MAX + EXPECTED_MAX,))
    assert list(ids.expected(1)) == [100 * MISSES_MAX + EXPECTED_MAX + 1]


def test_looks_in_vain_count_as_well() -> None:
    ids = NextIds()
    ids.record((1,))
    for _ in range(MISSES_MAX):
        assert list(ids.expected(1)) == [2]
        ids.record(())
    assert not ids.expected(1)


def test_texts_are_never_expected() -> None:
    ids = NextIds()
    ids.record(("a", "b"))
    assert not ids.expected(10)


def test_a_node_of_a_cluster_expects_nothing() -> None:
    ids = NextIds()
    ids.record((1,))
    ids.give_up()
    ids.record((2,))
    assert not ids.expected(10)

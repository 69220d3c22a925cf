"""Messages that a commit is known to have put off: nothing is asked, and one look when they fall due. In virtual time
over the in-memory store."""

from __future__ import annotations

import pytest
from memory_store import NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time, settle
from world import Receiver, World, world

from engine.model.commit_report import CommitReport, Postponement
from engine.model.option_values import NS_PER_SECOND as SECOND


def postponed(w: World, *ids: int, seconds: float, told_ns: int | None = None, sent_at: float | None = None) -> None:
    """A NACK that puts off these messages, committed and heard of at once."""
    sent_at = w.clock.monotonic() if sent_at is None else sent_at
    for id_ in ids:
        w.store.tables[NAME][id_].time_next = w.clock.now_ns() + int(seconds * SECOND)
    delay_ns = int(seconds * SECOND) if told_ns is None else told_ns
    w.engine.committed(
        CommitReport(touched=frozenset((NAME,)), changed={NAME: ids}, postponed={NAME: Postponement(sent_at, delay_ns)})
    )


async def received(w: World, *ids: int, **request: object) -> Receiver:
    receiver = await w.receive(**request)
    await w.commit(*map(Row, ids))
    await pass_time(2.0)
    assert receiver.ids == list(ids)
    w.store.calls.clear()
    return receiver


@in_virtual_time
async def test_nothing_is_asked_and_the_message_comes_when_it_falls_due():
    async with world() as w:
        receiver = await received(w, 1, 2)
        postponed(w, 1, seconds=5.0)
        await settle()
        assert receiver.subscription.unacked == 1
        await pass_time(4.5)
        assert receiver.ids == [1, 2] and not w.store.calls["unsettled"] and not w.store.calls["poll"]
        await pass_time(1.0)
        assert receiver.ids == [1, 2, 1] and receiver.epochs[-1] == 2
        assert w.store.calls["poll"] == 1, "one, when it fell due"


@in_virtual_time
async def test_a_receiver_whose_window_was_full_gets_another():
    async with world() as w:
        receiver = await received(w, 1, prefetch=1)
        await w.commit(Row(2))
        assert receiver.ids == [1]
        w.store.calls.clear()
        postponed(w, 1, seconds=600.0)
        await settle()
        assert receiver.ids == [1, 2] and not w.store.calls["unsettled"]


@pytest.mark.parametrize("options", [{}, {"max_attempts": 5}])
@in_virtual_time
async def test_by_the_backoff_of_the_queue_it_is_looked_for_from_its_least_on(options: dict[str, int]):
    async with world(make_spec(min_backoff_ns=4 * SECOND, max_backoff_ns=60 * SECOND, **options)) as w:
        receiver = await received(w, 1)
        postponed(w, 1, seconds=5.0, told_ns=0)
        await settle()
        assert not w.store.calls["unsettled"] + w.store.calls["poll"]
        await pass_time(3.9)
        assert not w.store.calls["poll"]
        await pass_time(1.5)
        assert receiver.ids == [1, 1]


@pytest.mark.parametrize(("attempts", "looks"), [(1, True), (2, False)])
@in_virtual_time
async def test_the_last_failure_has_dead_letters_looked_for(attempts: int, looks: bool):
    """Others do not: a failure costs no look at the table."""
    async with world(make_spec(max_attempts=attempts)) as w:
        await received(w, 1)
        await settle()
        w.store.calls.clear()
        postponed(w, 1, seconds=600.0)
        await settle()
        assert bool(w.store.calls["rejected"]) is looks
        assert not w.store.calls["unsettled"]


@in_virtual_time
async def test_a_lease_made_after_the_statement_was_sent_is_asked_about():
    """Its answer was late: the message had fallen due, and was leased again, before it came."""
    async with world() as w:
        receiver = await w.receive()
        sent_at = w.clock.monotonic()
        await pass_time(1.0)
        await w.commit(Row(1))
        lease_end = w.store.tables[NAME][1].time_next
        w.store.calls.clear()
        w.engine.committed(
            CommitReport(
                touched=frozenset((NAME,)), changed={NAME: (1,)}, postponed={NAME: Postponement(sent_at, SECOND)}
            )
        )
        await settle()
        assert w.store.calls["unsettled"] == 1 and receiver.ids == [1]
        assert w.store.tables[NAME][1].time_next == lease_end


@in_virtual_time
async def test_what_is_not_in_flight_here_is_looked_for():
    async with world() as w:
        receiver = await received(w, 1)
        w.store.add(Row(2, epoch=1))
        w.engine.committed(
            CommitReport(
                touched=frozenset((NAME,)),
                changed={NAME: (1, 2)},
                postponed={NAME: Postponement(w.clock.monotonic(), 60 * SECOND)},
            )
        )
        await settle()
        assert receiver.ids == [1, 2] and w.store.calls["unsettled"] == 1


@in_virtual_time
async def test_while_a_pass_is_under_way_the_table_is_asked():
    async with world() as w:
        receiver = await received(w, 1)
        w.store.latency = 1.0
        w.engine.committed(CommitReport(touched=frozenset((NAME,))))
        await pass_time(0.5)
        postponed(w, 1, seconds=1.0)
        w.store.latency = 0.0
        await pass_time(3.0)
        assert w.store.calls["unsettled"] == 1
        assert receiver.ids == [1, 1]


@in_virtual_time
async def test_where_its_end_lets_another_go_the_table_is_looked_at():
    async with world(make_spec(max_concurrency=1)) as w:
        receiver = await w.receive()
        await w.commit(Row(1), Row(2))
        await pass_time(2.0)
        assert receiver.ids == [1]
        postponed(w, 1, seconds=600.0)
        await pass_time(1.0)
        assert receiver.ids == [1, 2]


def renewed(w: World, id_: int, seconds: float) -> None:
    """A RENEW of this lease, committed and heard of at once."""
    row = w.store.tables[NAME][id_]
    row.time_next = w.clock.now_ns() + int(seconds * SECOND) + row.time_next % 1000
    postponement = Postponement(w.clock.monotonic(), int(seconds * SECOND))
    report = CommitReport(changed={NAME: (id_,)}, postponed={NAME: postponement}, renewed={NAME: postponement.delay_ns})
    w.engine.committed(report)


@in_virtual_time
async def test_a_lease_that_a_renewal_ends_sooner_is_over_then():
    async with world() as w:
        receiver = await received(w, 1)
        await pass_time(1.0)
        w.store.calls.clear()
        renewed(w, 1, 500.0)
        await settle()
        assert not w.store.calls["poll"], "one for longer is no reason to look"
        renewed(w, 1, 2.0)
        await pass_time(1.9)
        assert receiver.ids == [1]
        await pass_time(0.3)
        assert receiver.ids == [1, 1]


@in_virtual_time
async def test_renewals_to_an_end_that_is_sooner_once_are_looked_at_once():
    async with world() as w:
        receiver = await received(w, 1)
        for _ in range(30):
            renewed(w, 1, 20.0)
            await pass_time(1.0)
        assert w.store.calls["poll"] <= 3 and w.store.calls["unsettled"] <= 2
        await pass_time(18.0)
        assert receiver.ids == [1]
        await pass_time(2.0)
        assert receiver.ids == [1, 1]

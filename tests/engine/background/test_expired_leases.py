"""The end of a lease that no open stream holds, in the history: when it is told, and when it is not."""

from __future__ import annotations

from memory_store import NAME, Row, make_spec
from virtual_time import in_virtual_time, pass_time
from world import World, world

from engine.model.commit_report import CommitReport
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import WaitMode
from engine.model.states import is_lease_end
from engine.model.trace_event import TraceEvent

WAIT = 60.0
SPEC = make_spec(ack_wait_ns=60 * SECOND, min_backoff_ns=0, max_backoff_ns=SECOND)


def told(w: World, id_: int) -> list[tuple[str, int | None, bool]]:
    found = sorted(w.engine.traces.of(NAME, id_), key=lambda traced: traced.at_ns)
    return [(traced.what, traced.epoch, traced.sure) for traced in found]


def ends(w: World, id_: int) -> list[TraceEvent]:
    return [traced for traced in w.engine.traces.of(NAME, id_) if traced.what == "lease ended"]


async def take(w: World, count: int) -> None:
    """A result of so many messages, that has ended."""
    receiver = await w.receive(wait_mode=WaitMode.NOWAIT, limit=count, consumer="batch 7")
    await receiver.task
    await receiver.subscription.close(release=False)


@in_virtual_time
async def test_it_is_told_when_its_time_is_over_and_at_its_time():
    async with world(SPEC) as w:
        await w.commit(Row(1), Row(2), Row(3))
        await take(w, 3)
        w.ack(2)
        w.store.ack(3)  # around the proxy
        until_ns = w.store.tables[NAME][1].time_next
        assert is_lease_end(until_ns)
        await pass_time(WAIT - 5)
        assert [ends(w, id_) for id_ in (1, 2, 3)] == [[], [], []]
        await pass_time(10.0)
        (end,) = ends(w, 1)
        assert (end.at_ns, end.sure, end.receiver.consumer) == (until_ns, True, "batch 7")
        assert ends(w, 2) == ends(w, 3) == []
        await take(w, 1)
        assert told(w, 1) == [("sent", 1, True), ("lease ended", None, True), ("sent", 2, True)]
        assert len(w.manager.leases.expired_leases) == 1


@in_virtual_time
async def test_a_message_that_is_leased_again_at_once_tells_it_once():
    async with world(SPEC) as w:
        await w.commit(Row(1))
        await take(w, 1)
        stream = await w.receive()  # it waits, and gets the message the moment it falls due
        await pass_time(WAIT + 10)
        assert stream.ids == [1]
        assert told(w, 1) == [("sent", 1, True), ("lease ended", None, True), ("sent", 2, True)]


@in_virtual_time
async def test_a_renewed_lease_ends_later_and_one_that_was_given_up_does_not():
    async with world(SPEC) as w:
        await w.commit(Row(1), Row(2), Row(3))
        await take(w, 3)
        first, second, third = (w.store.tables[NAME][id_] for id_ in (1, 2, 3))
        first.time_next += 100 * SECOND
        w.engine.committed(CommitReport(changed={NAME: (1,)}))  # RENEW
        second.time_next = 0
        w.engine.committed(CommitReport(touched=frozenset((NAME,)), changed={NAME: (2,)}))  # RELEASE
        third.epoch += 1  # another proxy has leased it, of which we were told nothing
        await pass_time(WAIT + 10)
        assert [ends(w, id_) for id_ in (1, 2)] == [[], []]
        assert [end.sure for end in ends(w, 3)] == [False]
        await pass_time(100.0)
        assert [end.at_ns for end in ends(w, 1)] == [first.time_next]
        assert len(w.manager.leases.expired_leases) == 0


BOUNDED = make_spec(ack_wait_ns=60 * SECOND, min_backoff_ns=0, max_backoff_ns=SECOND, max_attempts=3)


@in_virtual_time
async def test_one_that_did_not_count_has_ended_all_the_same():
    """The next delivery has its epoch, for two were held beside each other."""
    async with world(BOUNDED) as w:
        await w.commit(Row(1), Row(2))
        await take(w, 2)
        stream = await w.receive(connection_id=7)
        await pass_time(WAIT + 10)
        assert stream.ids == [1] and stream.epochs == [1]
        assert told(w, 1) == [("sent", 1, True), ("lease ended", None, True), ("sent", 1, True)]


@in_virtual_time
async def test_one_that_did_not_count_and_is_anothers_by_now_has_perhaps_ended():
    async with world(BOUNDED) as w:
        await w.commit(Row(1), Row(2), Row(3))
        await take(w, 3)
        leased, renewed, given_up = (w.store.tables[NAME][id_] for id_ in (1, 2, 3))
        leased.lease_token += 1  # another proxy has leased it
        leased.time_next += 100 * SECOND
        renewed.time_next += 100 * SECOND
        given_up.lease_token += 1
        given_up.time_next = 0
        w.store.locked.add(3)
        first = w.store.last_receivers.of
        assert first(NAME, 1, 1, leased.lease_token - 1).consumer == "batch 7"
        assert first(NAME, 1, 1, leased.lease_token) is None
        await pass_time(WAIT + 10)
        assert [[end.sure for end in ends(w, id_)] for id_ in (1, 2, 3)] == [[False], [], []]

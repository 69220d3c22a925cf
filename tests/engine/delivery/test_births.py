"""Messages that their INSERT has leased; in virtual time over the in-memory store."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from memory_store import NAME, Row, make_spec
from test_added import Ahead, listening
from virtual_time import in_virtual_time, pass_time, settle
from world import world

from engine.delivery.births import HAND_OUT_SECONDS, OFFER_SECONDS
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.lease_token import voided
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import Condition
from engine.model.states import lease_end


def offered(w):
    birth = w.engine.queues.offer_birth(NAME)
    assert birth is not None
    return birth


def foreseen_ns(birth):
    """About when it is inserted."""
    return (birth.earliest_ns + birth.latest_ns) // 2


def row(birth, id_, **values):
    """As the database has it after the INSERT."""
    born = Row(id_, epoch=1, time_next=birth.until_ns, time_scheduled=foreseen_ns(birth), lease_token=birth.token)
    return replace(born, **values)


async def bear(w, id_, birth=None, **values):
    """A committed INSERT of a message as leased."""
    birth = birth or offered(w)
    w.store.add(row(birth, id_, **{"time_scheduled": w.store.clock.now_ns()} | values))
    w.engine.queues.born(birth, id_)
    await settle()
    return birth


@in_virtual_time
async def test_what_is_born_is_read_and_handed_out():
    async with world() as w:
        receiver = await listening(w)
        birth = await bear(w, 2, payload="hello")
        assert receiver.ids == [1, 2] and receiver.epochs == [1, 1]
        assert w.store.calls == {"born": 1}
        message = receiver.batches[-1].messages[0]
        assert message.lease_until_ns == lease_end(w.clock.now_ns() + 60 * SECOND) and message.token == birth.token
        assert receiver.batches[-1].rows == ((b"2", b"hello"),)
        assert w.counters()["enqueued"] == 2


@in_virtual_time
async def test_nothing_is_born_before_the_databases_time_is_known():
    async with world() as w:
        assert w.engine.queues.offer_birth(NAME) is None
        await w.receive()
        w.manager.leases.time._observed = None
        assert w.engine.queues.offer_birth(NAME) is None


@in_virtual_time
async def test_nothing_is_born_where_no_receiver_has_room():
    async with world() as w:
        receiver = await w.receive(prefetch=1)
        await w.commit(Row(1))
        assert receiver.ids == [1] and w.engine.queues.offer_birth(NAME) is None
        w.ack(1)
        await settle()
        offered(w)
        assert w.engine.queues.offer_birth(NAME) is None, "the place is taken"


@in_virtual_time
async def test_a_place_is_free_again_after_a_failure_and_after_a_while():
    async with world() as w:
        await w.receive(prefetch=1)
        birth = offered(w)
        assert w.engine.queues.offer_birth(NAME) is None
        w.engine.queues.unborn(birth)
        offered(w)
        assert w.engine.queues.offer_birth(NAME) is None
        await pass_time(OFFER_SECONDS + 0.1)
        offered(w)


@in_virtual_time
async def test_nothing_is_born_where_messages_wait_or_limits_or_conditions_count():
    async with world() as w:
        receiver = await w.receive(reading=False)
        await w.commit(*(Row(id_) for id_ in range(1, 300)))
        assert receiver.ids and w.engine.queues.offer_birth(NAME) is None, "others come first"
    for options in ({"max_concurrency": 5}, {"max_rate": 2}, {"paused": True}, {"max_attempts": 1}):
        async with world(make_spec(**options)) as w:
            await w.receive()
            assert w.engine.queues.offer_birth(NAME) is None, options
    async with world() as w:
        await listening(w)
        await w.receive(condition=Condition("payload == 'b'"))
        assert w.engine.queues.offer_birth(NAME) is None


@in_virtual_time
async def test_a_message_that_a_poll_has_missed_comes_before_what_is_born():
    async with world() as w:
        receiver = await listening(w)

        async def commit_two():
            await w.commit(Row(2), told=[2])
            if w.engine.queues.offer_birth(NAME) is None:
                await w.commit(Row(3), told=[3])
            else:
                await bear(w, 3)

        w.store.during["poll"] = commit_two
        w.manager.receiver_sets.plain.messages.request_poll()
        w.manager.wake()
        await settle(500)
        assert receiver.ids == [1, 2, 3]


@in_virtual_time
async def test_a_message_whose_claim_fails_comes_before_what_is_born():
    async with world() as w:
        receiver = await listening(w)

        async def commit_three():
            if w.engine.queues.offer_birth(NAME) is None:
                await w.commit(Row(3), told=[3])
            else:
                await bear(w, 3)

        w.store.during["claim_added"] = commit_three
        w.store.locked.add(2)
        w.store.add(Row(2))
        w.manager.touched([2])
        await settle(20)
        w.store.locked.clear()
        await settle(500)
        assert receiver.ids == [1, 2, 3]


@in_virtual_time
async def test_what_is_being_handed_out_has_its_place():
    async with world(make_spec(batch_size=1)) as w:
        receiver, offers = await listening(w), []

        async def offer():
            offers.append(w.engine.queues.offer_birth(NAME))
            await w.commit(Row(3), told=[3])

        w.store.during["born"] = offer
        await bear(w, 2)
        await settle(500)
        assert offers == [None], "the receiver takes one at a time"
        assert receiver.ids == [1, 2, 3] and receiver.epochs == [1, 1, 1] and not w.store.calls["release"]


@pytest.mark.parametrize("busy", [HAND_OUT_SECONDS / 2, HAND_OUT_SECONDS * 2])
@in_virtual_time
async def test_what_is_born_while_its_receiver_is_busy_is_not_overtaken(busy):
    async with world() as w:
        receiver, second, third = await listening(w), [], []

        async def bear_another():
            second.append(offered(w))
            w.store.add(row(second[0], 3))
            w.engine.queues.born(second[0], 3)
            third.append(offered(w))

        w.store.during["born"] = bear_another
        receiver.stop_reading()
        await bear(w, 2)
        w.store.latency = 0.01
        await pass_time(busy)
        receiver.go_on_reading()
        await settle()
        await bear(w, 4, third[0])
        await pass_time(1)
        assert receiver.ids == [1, 2, 3, 4]
        assert receiver.epochs == [1, 1, 1, 1]
        assert bool(w.store.calls["release"]) is (busy > HAND_OUT_SECONDS), "for a moment it waits with its lease"


@in_virtual_time
async def test_nothing_is_born_before_what_is_given_back():
    async with world() as w:
        await listening(w)
        first = await bear(w, 2)
        w.store.latency = 0.01
        w.manager.leases.on_abandoned([first.lease(2)])
        assert w.engine.queues.offer_birth(NAME) is None
        await pass_time(1)
        offered(w)


@in_virtual_time
async def test_a_receiver_that_leaves_during_the_insert_costs_no_wait():
    async with world() as w:
        receiver = await listening(w)
        birth = offered(w)
        await receiver.close()
        await bear(w, 2, birth)
        later = await w.receive()
        assert later.ids == [1, 2] and later.epochs[-1] == 1
        assert w.store.tables[NAME][2].lease_token == later.batches[-1].messages[-1].token > voided(birth.token)


@in_virtual_time
async def test_what_was_scheduled_meanwhile_is_given_back_with_its_time():
    async with world() as w:
        receiver = await listening(w)
        birth = offered(w)
        await receiver.close()
        later = w.store.clock.now_ns() + 3600 * SECOND
        await bear(w, 2, birth, time_scheduled=later)
        await settle()
        row = w.store.tables[NAME][2]
        assert (row.time_next, row.epoch) == (later, 0)


@in_virtual_time
async def test_a_receiver_that_leaves_while_it_is_read_gives_back_uncounted():
    async with world() as w:
        receiver, later = await listening(w), []

        async def leave():
            receiver.task.cancel()
            later.append(asyncio.create_task(receiver.subscription.close(release=True)))
            await settle()

        w.store.during["born"] = leave
        birth = await bear(w, 2)
        await settle()
        row = w.store.tables[NAME][2]
        assert (row.time_next, row.epoch, row.lease_token) == (foreseen_ns(birth), 0, voided(birth.token))


@in_virtual_time
async def test_what_was_acked_while_it_was_read_is_not_sent():
    async with world() as w:
        receiver = await listening(w)

        async def ack_two():
            w.ack(2)

        w.store.during["born"] = ack_two
        await bear(w, 2)
        assert receiver.ids == [1]


@in_virtual_time
async def test_a_message_that_a_trigger_has_changed_goes_the_ordinary_way():
    async with world() as w:
        receiver = await listening(w)
        await bear(w, 2, epoch=0, time_next=3)
        assert receiver.ids == [1, 2] and receiver.times[-1] == 1000.0
        await bear(w, 3, time_next=w.clock.now_ns() + 5 * SECOND)
        await pass_time(5.1)
        assert receiver.ids == [1, 2, 3]


@in_virtual_time
async def test_a_wrong_id_costs_one_lease():
    """The answer's id is not the message's: nobody knows of that lease, so it runs out."""
    async with world() as w:
        receiver = await listening(w)
        birth = offered(w)
        w.store.add(row(birth, 3))
        w.engine.queues.born(birth, 2)
        w.ack(1)
        await pass_time(62)
        assert receiver.ids == [1, 3] and receiver.epochs == [1, 2]


@in_virtual_time
async def test_a_read_that_fails_releases_the_lease():
    async with world() as w:
        receiver = await listening(w)
        for id_, error in ((2, BackendUnavailable("gone")), (3, BackendError("no", 1205))):

            async def fail(error=error):
                w.store.fail_after = error

            w.store.during["born"] = fail
            await bear(w, id_)
            w.store.fail_after = None
            await pass_time(10)
            assert receiver.ids[-1] == id_ and receiver.times[-1] < 1030, "not only when the lease has run out"


@in_virtual_time
async def test_a_clock_that_was_set_costs_a_release_and_no_more():
    for by in (100, -100):
        async with world() as w:
            receiver = await listening(w)
            w.ack(1)
            w.store.clock = Ahead(w.clock, by * SECOND)
            await bear(w, 2)
            await pass_time(3)
            assert receiver.ids == [1, 2], by
            w.store.calls.clear()
            await bear(w, 3)
            assert receiver.ids == [1, 2, 3] and w.store.calls == {"born": 1}, "by the new time"


@in_virtual_time
async def test_a_queue_that_is_paused_meanwhile_keeps_it():
    async with world() as w:
        receiver = await listening(w)
        birth = offered(w)
        w.store.serve(make_spec(paused=True))
        await w.engine.refresh_catalog()
        await bear(w, 2, birth)
        await pass_time(1)
        assert receiver.ids == [1] and w.store.tables[NAME][2].epoch == 0
        w.store.serve(make_spec())
        await w.engine.refresh_catalog()
        await pass_time(1)
        assert receiver.ids == [1, 2]


@in_virtual_time
async def test_a_stop_waits_for_an_insert_and_hands_its_message_out():
    async with world() as w:
        receiver = await listening(w)
        birth = offered(w)
        closing = asyncio.create_task(w.engine.close())
        await settle()
        assert w.engine.queues.offer_birth(NAME) is None
        await pass_time(0.5)
        assert not closing.done()
        await bear(w, 2, birth)
        await closing
        assert receiver.ids == [1, 2]


@in_virtual_time
async def test_a_stop_does_not_wait_for_ever():
    async with world() as w:
        await listening(w)
        birth = offered(w)
        closing = asyncio.create_task(w.engine.close())
        await pass_time(OFFER_SECONDS + 0.1)
        assert closing.done()
        w.engine.queues.born(birth, 2)
        w.engine.queues.unborn(birth)


@in_virtual_time
async def test_an_insert_without_an_answer_is_searched_for():
    """Whether the server is done with it when it is searched for first, or only seconds later, or never."""
    for seconds in (0, 1.5, None):
        async with world() as w:
            receiver = await listening(w)
            w.ack(1)
            birth = offered(w)
            w.engine.queues.lost(birth)
            if seconds is not None:
                await pass_time(seconds)
                w.store.add(row(birth, 2))
            await pass_time(5)
            assert receiver.ids == ([1] if seconds is None else [1, 2])
            assert receiver.epochs[-1] == 1
            await pass_time(60)
            assert w.store.calls["find_born"] <= 8


@in_virtual_time
async def test_a_search_goes_on_until_the_server_answers():
    async with world() as w:
        receiver = await listening(w)
        w.ack(1)
        birth = offered(w)
        w.store.add(row(birth, 2))
        w.store.down = BackendUnavailable("gone")
        w.engine.queues.lost(birth)
        await pass_time(30)
        w.store.down = None
        await pass_time(10)
        assert receiver.ids == [1, 2] and receiver.epochs == [1, 1]


@in_virtual_time
async def test_where_the_server_shows_it_late_no_other_is_born():
    async with world() as w:
        receiver = await listening(w)
        w.store.replicates = True
        await bear(w, 2)
        await pass_time(3)
        assert receiver.ids == [1, 2] and receiver.times[-1] < 1003
        assert w.engine.queues.offer_birth(NAME) is None


@in_virtual_time
async def test_a_message_that_turns_out_to_be_scheduled_comes_at_its_time():
    """The session's clock was set, say."""
    async with world() as w:
        receiver, at_ns = await listening(w), w.clock.now_ns() + 3600 * SECOND
        w.ack(1)
        await bear(w, 2, time_scheduled=at_ns)
        await pass_time(1)
        row = w.store.tables[NAME][2]
        assert receiver.ids == [1] and (row.time_next, row.epoch) == (at_ns, 0)
        await pass_time(3590)
        assert receiver.ids == [1]
        await pass_time(10)
        assert receiver.ids == [1, 2] and receiver.epochs[-1] == 1


@in_virtual_time
async def test_a_trigger_that_postpones_a_message_costs_no_attempt():
    """It sets time_next alone."""
    async with world(make_spec(max_attempts=2)) as w:
        receiver, at_ns = await listening(w), w.clock.now_ns() + 5 * SECOND
        w.ack(1)
        await bear(w, 2, time_next=at_ns)
        await pass_time(1)
        row = w.store.tables[NAME][2]
        assert receiver.ids == [1] and (row.time_next, row.epoch) == (at_ns, 0)
        await pass_time(5)
        assert receiver.ids == [1, 2] and receiver.epochs[-1] == 1

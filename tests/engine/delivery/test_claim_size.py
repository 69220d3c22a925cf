"""How many messages a claim has: few while their size is not known, fewer where it was too many."""

from __future__ import annotations

from memory_store import NAME, Row
from virtual_time import in_virtual_time, pass_time
from world import World, world

from engine.model.claim_size import CLAIM_BYTES_MAX, CLAIM_MAX, FIRST_CLAIM_SIZE, GROWTH, ClaimSize
from engine.model.errors import AnswerTooLarge
from engine.model.queue import Message
from engine.store.base import LeaseUnknown, Release


def messages(count: int, size: int) -> list[Message]:
    return [Message(id_, 1, 0, 0, 0, (b"x" * size,), 0) for id_ in range(count)]


def test_claims_begin_small_and_grow_as_far_as_their_rows_fit():
    size, limits = ClaimSize(), []
    for _ in range(6):
        limits.append(size.limit)
        size.leased(messages(size.limit, 100))
    assert limits == [FIRST_CLAIM_SIZE, 64, 256, CLAIM_MAX, CLAIM_MAX, CLAIM_MAX]
    size.leased(messages(1, CLAIM_BYTES_MAX // 2))
    assert size.limit == 2
    size.leased(messages(1, 2 * CLAIM_BYTES_MAX))
    assert size.limit == 1


def test_a_claim_that_failed_is_followed_by_a_smaller_one():
    size = ClaimSize()
    for _ in range(6):
        size.leased(messages(1, 100))
    for expected in (CLAIM_MAX // GROWTH, 62, 15, 3, 1, 1):
        size.failed(size.limit)
        assert size.limit == expected
    size.leased(messages(1, 100))
    assert size.limit == GROWTH


def refuse_answers_above(w: World, most: int) -> list[int]:
    """Claims of more messages than `most` fail as a connection does that gives up reading; returns their sizes."""
    sizes: list[int] = []
    claim = w.store.claim

    async def bounded(queue, ids, *more, **named):
        sizes.append(len(ids))
        if len(ids) > most:
            leases = [Release(id_, 0, w.clock.now_ns() + 10**9, 1) for id_ in ids]
            raise LeaseUnknown(AnswerTooLarge(1 << 20), leases)
        return await claim(queue, ids, *more, **named)

    w.store.claim = bounded
    return sizes


@in_virtual_time
async def test_the_first_claim_of_a_backlog_is_small():
    async with world() as w:
        sizes = refuse_answers_above(w, 10**6)
        w.store.fill(range(1, 101))
        receiver = await w.receive()
        assert receiver.ids == list(range(1, 101))
        assert sizes[0] == FIRST_CLAIM_SIZE


@in_virtual_time
async def test_rows_that_have_become_large_are_claimed_in_smaller_parts(caplog):
    """Without a pause of the queue, and without a word of trouble with the database."""
    async with world() as w:
        w.store.fill(range(1, 200))
        receiver = await w.receive()
        w.ack(*range(1, 200))
        sizes = refuse_answers_above(w, 3)
        await w.commit(*(Row(id_) for id_ in range(1001, 1061)))
        assert max(sizes) > 3
        await pass_time(0.05)
        assert sorted(receiver.ids[199:]) == list(range(1001, 1061))
        assert all(row.epoch == 1 for row in w.store.tables[NAME].values())
        assert "trouble" not in caplog.text and w.manager.leases.releases.next_attempt() is None

"""The marks in time_next, and that the conditions on them mean the same to every database."""

from __future__ import annotations

import pytest
from memory_store import Row

from engine.model import states
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.states import PARKED_NS, REJECTED_NS, is_lease_end, lease_end
from engine.store.statements.mysql import MYSQL
from engine.store.statements.sqlite import SQLITE


@pytest.mark.parametrize("until", [0, 1, 999, 1000, 1_770_000_000_123_456_789])
def test_a_lease_end_is_marked_and_less_than_a_microsecond_off(until):
    assert is_lease_end(lease_end(until))
    assert abs(lease_end(until) - until) < 1000


def test_never_is_no_lease():
    assert not is_lease_end(REJECTED_NS) and not is_lease_end(PARKED_NS)
    assert not is_lease_end(1_770_000_000_123_456_000)


async def test_messages_in_flight_are_told_from_the_others_by_their_rows(open_sql):
    bench = await open_sql("integer")
    dialect = MYSQL if bench.locks else SQLITE
    now = await bench.now_ns()
    later = now - now % 1000 + 60 * SECOND
    await bench.add(
        Row(1, epoch=1, time_next=lease_end(later)),
        Row(2, epoch=1, time_next=later),  # waits for a retry
        Row(3, epoch=0, time_next=later),
        Row(4, epoch=0, time_next=lease_end(later)),  # scheduled by somebody who counts nanoseconds
        Row(5, epoch=1, time_next=lease_end(now - SECOND)),  # ran out
        Row(6, epoch=1, time_next=REJECTED_NS),
        Row(7, epoch=1, time_next=PARKED_NS),
        Row(8, epoch=1, time_next=None),
        Row(9, epoch=2, time_next=lease_end(later), time_acked=now),
    )
    held = await bench.run(f"SELECT id FROM q WHERE {states.in_flight(dialect.now_ns, dialect.mark)}")
    kept = await bench.run(f"SELECT id FROM q WHERE {states.not_set_aside()} ORDER BY id")
    await bench.close()
    assert [row[0] for row in held] == [1]
    assert [row[0] for row in kept] == [1, 2, 3, 4, 5, 8, 9]


async def test_what_is_set_aside_is_never_due_and_harms_no_timer(bench):
    await bench.add(Row(1, epoch=1, time_next=REJECTED_NS), Row(2, epoch=1, time_next=PARKED_NS))
    poll = await bench.store.poll(bench.spec, 10)
    assert (poll.keys, poll.next_due_ns) == ((), None)
    assert (await bench.store.claim(bench.spec, [1, 2], {0: SECOND})).messages == ()

"""LastReceivers: bounded, by delivery, and it asks those who watch."""

from __future__ import annotations

from engine.model.queue import QueueName, ReceiverIdentity
from engine.store.last_receivers import LastReceivers

Q, OTHER = QueueName("d", "q"), QueueName("d", "other")
ONE, TWO = (ReceiverIdentity(connection_id=number) for number in (1, 2))


def test_who_had_a_delivery():
    last = LastReceivers()
    last.record(Q, 7, 1, ONE)
    assert last.of(Q, 7, 1) is ONE
    assert last.of(Q, 7, 2) is None
    assert last.of(OTHER, 7, 1) is None
    last.record(Q, 7, 2, TWO)
    assert last.of(Q, 7, 1) is None
    assert last.of(Q, 7, 2) is TWO


def test_a_delivery_that_did_not_count_has_the_epoch_of_the_next():
    """Which another proxy's receiver may have had."""
    last, holds = LastReceivers(), Holds()
    last.watch(Q, holds.holder)
    last.record(Q, 7, 1, ONE, token=100)
    assert last.of(Q, 7, 1, 100) is ONE
    assert last.of(Q, 7, 1, 101) is None
    assert last.of(Q, 7, 1) is ONE, "a table without tokens knows the epoch alone"
    assert last.of(Q, 9, 1, 5) is TWO
    assert last.of(Q, 9, 1, 6) is None


def test_the_oldest_give_way():
    last = LastReceivers(most=2)
    for id_ in (1, 2, 1, 3):
        last.record(Q, id_, 1, ONE)
    assert [last.of(Q, id_, 1) for id_ in (1, 2, 3)] == [ONE, None, ONE]


class Holds:
    def holder(self, id_: object, epoch: int, token: int) -> ReceiverIdentity | None:
        return TWO if (id_, epoch) == (9, 1) and token in (0, 5) else None


def test_a_holder_is_asked_while_it_is_watched():
    last, holds = LastReceivers(), Holds()
    last.watch(Q, holds.holder)
    assert last.of(Q, 9, 1) is TWO
    assert last.of(Q, 9, 2) is None
    assert last.of(OTHER, 9, 1) is None
    last.unwatch(Q, holds.holder)
    assert last.of(Q, 9, 1) is None


def test_a_holder_that_has_been_replaced_leaves_its_successor():
    last, old, new = LastReceivers(), Holds(), Holds()
    last.watch(Q, old.holder)
    last.watch(Q, new.holder)
    last.unwatch(Q, old.holder)
    assert last.of(Q, 9, 1) is TWO

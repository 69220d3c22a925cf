"""What processes tell each other of a queue, and what a client is shown of it."""

from __future__ import annotations

from memory_store import NAME, make_spec

from engine.model.explanation import MessageRow, QueueFacts, explain
from engine.model.queue import QueueStatus
from proxy.cluster.reports import status_item, status_of, summed

REFUSED = (("7", "Data too long for column 'txt'"), ("9", "a trigger refused it"))
STATUS = QueueStatus(NAME, 1, 2, 3, {"sent": 4}, (5,), 6.0, 7, 8, REFUSED, True, "error 1292")


def test_a_status_arrives_as_it_was_and_one_of_an_older_version_is_read():
    assert status_of(status_item(STATUS)) == STATUS
    assert status_of(status_item(STATUS)[:-3]).refused == ()


def test_what_several_processes_are_refused_is_said_once():
    other = QueueStatus(NAME, 0, 0, 0, {}, refused=(REFUSED[1], ("11", "a trigger refused it")))
    assert sorted(summed(STATUS, other).refused) == sorted({*STATUS.refused, *other.refused})
    assert summed(other, STATUS).failing == STATUS.failing
    assert summed(STATUS, other).refuses_all and summed(other, STATUS).refuses_all


def test_a_message_that_cannot_be_leased_is_explained():
    facts = QueueFacts(make_spec(), refused=dict(REFUSED))
    explained = explain(MessageRow("7", 10, 0, 5, None), facts)
    assert explained.state == "refused" and "Data too long for column 'txt'" in explained.text
    assert explain(MessageRow("8", 10, 0, 5, None), facts).state == "no_subscriber"

"""The ring of records: what it keeps, how it is asked, and what it leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from virtual_time import VirtualClock, in_virtual_time, pass_time

from engine.model.commit_report import Settlement
from engine.model.options import QueueOptions
from engine.model.queue import Message, QueueCatalog, QueueName, QueueSpec, ReceiverIdentity, TopicSpec
from engine.model.topic_options import TopicOptions
from engine.traces import QueueTrace, Traces

Q, OTHER = QueueName("shop", "q"), QueueName("shop", "other")
TO = ReceiverIdentity(user="shop", consumer="worker 7")


def message(id_: int | str, epoch: int = 1) -> Message:
    return Message(id_, epoch, 0, 0, 0, (b"a body",))


@in_virtual_time
async def test_what_happened_to_a_message_in_its_order() -> None:
    traces = Traces(VirtualClock())
    trace = QueueTrace(traces, Q)
    trace.sent([message(1), message(2, epoch=3)], TO)
    traces.settled([Settlement(Q, "nacked", (2,), True, "late"), Settlement(OTHER, "acked", (2,), True)])
    trace.note("lease ended", (1,), TO)
    found = [(traced.what, traced.epoch, traced.receiver, traced.reason) for traced in traces.of(Q, 2)]
    assert found == [("sent", 3, TO, ""), ("nacked", None, None, "late")]
    assert [traced.what for traced in traces.of(Q, 1)] == ["sent", "lease ended"]
    assert traces.of(Q, 3) == traces.of(OTHER, 1) == []
    newest = [(traced.queue, traced.id, traced.what) for traced in traces.newest(3)]
    assert newest == [(Q, 1, "lease ended"), (OTHER, 2, "acked"), (Q, 2, "nacked")]
    assert [(traced.id, traced.what) for traced in traces.newest(9, {OTHER})] == [(2, "acked")]


@in_virtual_time
async def test_the_oldest_goes_where_there_is_no_room() -> None:
    traces = Traces(VirtualClock(), limit=10)
    for number in range(8):
        QueueTrace(traces, Q).note("acked", (number, number + 100))
    assert [number for number in range(8) if traces.of(Q, number)] == [3, 4, 5, 6, 7]
    QueueTrace(traces, Q).note("acked", tuple(range(1000, 1100)))  # more than there is room for: kept, and alone
    assert len(traces.newest(1000)) == 100


@in_virtual_time
async def test_long_ids_and_reasons_take_more_room() -> None:
    traces = Traces(VirtualClock(), limit=100)
    for number in range(20):
        QueueTrace(traces, Q).note("nacked", (f"{number:02}" + "x" * 638,), reason="y" * 1000)
    assert len(traces.newest(1000)) == 100 // (1 + (640 + 1000) // 64)


@in_virtual_time
async def test_times_are_the_databases() -> None:
    clock = VirtualClock()
    traces = Traces(clock)
    QueueTrace(traces, Q).note("acked", (1,))
    assert traces.newest(1)[0].at_ns == clock.now_ns()  # as long as the database has said nothing
    traces.observe_time(5_000_000_000)
    await pass_time(2.0)
    QueueTrace(traces, Q).note("acked", (2,))
    assert traces.newest(1)[0].at_ns == 7_000_000_000
    traces.observe_time(6_900_000_000)  # an answer that was long on its way
    QueueTrace(traces, Q).note("acked", (3,))
    assert traces.newest(1)[0].at_ns == 7_000_001_000  # later, by what a DATETIME(6) shows
    traces.observe_time(1_000_000_000)  # the clock was set
    QueueTrace(traces, Q).note("acked", (4,))
    assert traces.newest(1)[0].at_ns == 1_000_000_000


def catalog(percent: int | None) -> QueueCatalog:
    topic = TopicSpec(QueueName("shop", "orders"), (), options=replace(TopicOptions(), trace=percent))
    group = QueueSpec(Q, QueueOptions(topic="orders", consumer_group="g"), (), ())
    plain = QueueSpec(OTHER, QueueOptions(), (), ())
    return QueueCatalog(1, {Q: group, OTHER: plain}, {}, {topic.name: topic})


@pytest.mark.parametrize(
    ("percent", "least", "most"), [(0, 0, 0), (10, 50, 150), (100, 1000, 1000), (None, 1000, 1000)]
)
@in_virtual_time
async def test_a_topic_says_of_how_many_messages_its_groups_keep_records(
    percent: int | None, least: int, most: int
) -> None:
    traces = Traces(VirtualClock())
    traces.configure(catalog(percent))
    for first in range(0, 1000, 100):
        ids = tuple(range(first, first + 100))
        QueueTrace(traces, Q).sent([message(id_, epoch=id_) for id_ in ids], TO)
        traces.settled([Settlement(Q, "acked", ids, True), Settlement(OTHER, "acked", ids, True)])
    of_group = [traced for traced in traces.newest(10_000) if traced.queue == Q]
    sent = {traced.id for traced in of_group if traced.what == "sent"}
    assert least <= len(sent) <= most
    assert sent == {traced.id for traced in of_group if traced.what == "acked"}  # of a message all, or nothing
    assert all(traced.epoch == traced.id for traced in of_group if traced.what == "sent")
    assert sum(traced.queue == OTHER for traced in traces.newest(10_000)) == 1000

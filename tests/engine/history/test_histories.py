"""The history that outlives the process: what becomes of events while the database is slow, away or refuses them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from engine_parts import Host, engine_context
from memory_store import MemoryStore
from virtual_time import VirtualClock, in_virtual_time, pass_time

from engine.history.cleaner import GONE_NS, retention_ns
from engine.history.history import History
from engine.history.writer import BATCH_MAX, BUFFER_MAX, RECENT_SECONDS, HistoryState
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.option_values import NS_PER_SECOND
from engine.model.options import QueueOptions
from engine.model.queue import QueueCatalog, QueueName, QueueSpec, TopicSpec
from engine.model.topic_options import TopicOptions

T, G = QueueName("shop", "orders"), QueueName("shop", "orders_group_g")
OTHER, PLAIN = QueueName("shop", "other"), QueueName("shop", "plain")
DENIED = BackendError("INSERT command denied to user 'queuegate'", 1142, "42000")


def catalog(
    retention_ns: int | None = 3600 * NS_PER_SECOND, rejected: dict[QueueName, str] | None = None
) -> QueueCatalog:
    topic = TopicSpec(T, (), options=TopicOptions(trace_keep_ns=retention_ns))
    group = QueueSpec(G, QueueOptions(topic="orders", consumer_group="g"), (), ())
    plain = QueueSpec(PLAIN, QueueOptions(), (), ())
    return QueueCatalog(1, {G: group, PLAIN: plain}, rejected or {}, {T: topic, OTHER: TopicSpec(OTHER, ())})


class Kept:
    """A history, what it records from, and the table."""

    def __init__(self, clock: VirtualClock) -> None:
        store = MemoryStore(clock)
        self.table = store.traces
        self.host = Host()
        context = engine_context(store, clock, self.host, work=8)
        self.traces = context.traces
        self.history = History(context, 5.0)
        self.apply(catalog())

    def apply(self, catalog: QueueCatalog) -> None:
        self.host.catalog = catalog
        self.history.apply(catalog)

    def acked(self, *ids: int, queue: QueueName = G) -> None:
        self.traces.note(queue, "acked", ids)

    @property
    def state(self) -> HistoryState:
        return dict(self.history.states())[T]

    @property
    def ids(self) -> list[object]:
        return [event.id for event in self.table.events]


@asynccontextmanager
async def kept() -> AsyncIterator[Kept]:
    made = Kept(VirtualClock())
    await made.history.open()
    try:
        yield made
    finally:
        await made.history.close()


@in_virtual_time
async def test_whether_ids_follow_is_known_before_the_first_client_is_served() -> None:
    made = Kept(VirtualClock())
    assert not made.traces.ids_follow
    await made.history.open()
    assert made.traces.ids_follow
    await made.history.close()


@in_virtual_time
async def test_what_is_kept_is_written_in_batches_soon_after() -> None:
    async with kept() as k:
        for id_ in range(BATCH_MAX + 10):
            k.acked(id_)
        k.acked(1, queue=PLAIN)
        k.acked(1, queue=OTHER)
        assert k.ids == []
        await pass_time(1.0)
        assert k.ids == list(range(BATCH_MAX + 10))
        assert [len(batch) for batch in k.table.calls] == [BATCH_MAX, 10]
        assert {event.queue for event in k.table.events} == {G}
        told = k.traces.of(G, 7) + await k.history.of(G, 7)
        assert len({(event.process, event.number) for event in told}) == 1 and len(told) == 2
        k.apply(catalog(retention_ns=None))
        k.acked(2)
        await pass_time(1.0)
        assert len(k.table.calls) == 2 and await k.history.of(G, 7) == []


@in_virtual_time
async def test_a_full_buffer_drops_and_counts_and_delays_nobody() -> None:
    async with kept() as k:
        k.table.free = asyncio.Event()
        for first in range(0, BUFFER_MAX, 100):
            k.acked(*range(first, first + 100))
        await pass_time(1.0)  # the first batch hangs in the database
        assert k.state == HistoryState()
        k.acked(*range(BUFFER_MAX, BUFFER_MAX + 30))
        k.acked(BUFFER_MAX + 30)
        assert k.state == HistoryState(31, recently=True)
        assert [event.what for event in k.traces.of(G, BUFFER_MAX + 30)] == ["acked"]  # in memory it is
        k.table.free.set()
        await pass_time(1.0)
        assert k.ids == list(range(BUFFER_MAX))
        k.acked(BUFFER_MAX + 31)
        await pass_time(1.0)
        assert k.ids[-1] == BUFFER_MAX + 31
        await pass_time(RECENT_SECONDS)
        assert k.state == HistoryState(31, recently=False)


@in_virtual_time
async def test_while_the_database_is_away_the_same_batch_waits() -> None:
    async with kept() as k:
        k.table.fails, k.table.after = BackendUnavailable("the line broke in COMMIT", 2013), True
        k.acked(1, 2)
        await pass_time(1.0)
        k.acked(3)
        await pass_time(10.0)
        k.table.fails = None
        await pass_time(70.0)
        assert k.ids == [1, 2, 3]
        assert [[event.id for event in batch] for batch in k.table.calls[:2]] == [[1, 2], [1, 2]]
        assert k.state == HistoryState()


@in_virtual_time
async def test_what_the_database_refuses_costs_the_history_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with kept() as k:
        k.table.fails = DENIED
        k.acked(1, 2)
        await pass_time(1.0)
        assert k.state == HistoryState(
            2, recently=True, problem=f"the history is not written: error {DENIED.errno}, which the log explains"
        )
        for id_ in range(10, 20):
            k.acked(id_)
            await pass_time(20.0)
        assert sum("is not written" in record.message for record in caplog.records) == 1
        assert len(k.table.calls) < 10  # ever more rarely
        k.table.fails = None
        k.acked(30)
        await pass_time(130.0)
        assert k.ids[-1] == 30 and k.state.problem == "" and k.state.dropped >= 2


@in_virtual_time
async def test_the_last_things_are_written_at_the_end() -> None:
    k = Kept(VirtualClock())
    await k.history.open()
    k.table.fails = BackendUnavailable("gone away", 2006)
    k.acked(1)
    await pass_time(1.0)  # from now on a pause
    k.acked(2)
    k.table.fails = None
    await k.history.close()
    assert k.ids == [1, 2]


@in_virtual_time
async def test_cleaning_goes_by_the_age_that_a_topic_says() -> None:
    async with kept() as k:
        k.acked(1)
        await pass_time(3000.0)
        k.acked(2)
        await pass_time(700.0)
        assert k.ids == [2]
        k.apply(catalog(retention_ns=None))
        await pass_time(61.0)
        assert k.ids == []
        await pass_time(61.0)
        k.apply(catalog())
        k.acked(3)
        await pass_time(1.0)
        k.apply(catalog(retention_ns=None))  # at once: it is cleaned all the same
        await pass_time(61.0)
        assert k.ids == []
        cleaned = len(k.table.cleaned)
        await pass_time(3600.0)
        assert len(k.table.cleaned) == cleaned  # where nothing is kept nothing is done


def test_what_may_be_deleted() -> None:
    known = catalog(retention_ns=5)
    assert [retention_ns(name, known) for name in (T, G, OTHER)] == [5, 5, 0]
    assert retention_ns(QueueName("shop", "dropped"), known) == retention_ns(PLAIN, known) == GONE_NS
    without = QueueCatalog(1, known.queues, {T: "cannot be read"}, {})
    assert retention_ns(T, without) is retention_ns(G, without) is None  # its COMMENT cannot be read: nobody knows
    assert retention_ns(G, QueueCatalog(1, known.queues)) is None  # its topic was renamed
    assert retention_ns(G, QueueCatalog(1, {}, {G: "cannot be read"}, known.topics)) is None

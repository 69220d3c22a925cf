"""Broadcast readers over a log in memory: what they get and when, how they end, and that they pass nothing over."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from memory_store import make_spec
from memory_topics import TOPIC, LogRow, make_topic
from virtual_time import VirtualClock, in_virtual_time, pass_time, settle
from world import Receiver, World, request_of, world

from engine.model import claim_size, topics
from engine.model.commit_report import CommitReport
from engine.model.errors import (
    AnswerTooLarge,
    BackendError,
    BackendUnavailable,
    EngineError,
    InvalidOption,
    LockWaitTimeout,
    QueueNotFound,
    ShuttingDown,
    StreamKilled,
    UnknownColumn,
)
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.queue import QueueName, ReceiverIdentity, Start, StartAt, SubscribeRequest, WaitMode
from engine.model.topics import SETTLE_NS, OpenTransactions
from engine.topics import broadcast
from engine.topics.broadcast import PAGE, POLL_SECONDS

EARLIEST, LATEST = StartAt(Start.EARLIEST), StartAt(Start.LATEST)


class Reader(Receiver):
    """A client that reads a topic, `id` first."""

    @property
    def ids(self) -> list[int]:
        return [int(row[0] or 0) for row in self.rows]

    @property
    def rows(self) -> list[tuple[bytes | None, ...]]:
        return [row for batch in self.batches for row in batch.rows]


@contextlib.asynccontextmanager
async def topic_world() -> AsyncIterator[World]:
    """An engine with one empty topic."""
    async with world() as w:
        w.store.serve(make_spec(), topics=[make_topic()])
        await w.engine.catalog_changed()
        yield w


async def reads(w: World, start: StartAt = EARLIEST, *, reading: bool = True, **request: Any) -> Reader:
    """A new reader; one that is not `reading` takes one batch and then stops."""
    reader = Reader(await w.engine.subscribe(request_of(TOPIC, start=start, **request)), reading)  # type: ignore[arg-type]
    w.receivers.append(reader)
    await settle()
    return reader


async def result(w: World, start: StartAt = EARLIEST, wait: float | None = None, **request: Any) -> Reader:
    """One that ends by itself, read to its end."""
    mode = WaitMode.NOWAIT if wait is None else WaitMode.WAIT
    reader = await reads(w, start, wait_mode=mode, wait_seconds=wait or 0.0, **request)
    await reader.ended.wait()
    await reader.subscription.close(release=False)
    assert w.engine.subscriptions() == []
    return reader


async def commit(w: World, *rows: LogRow) -> None:
    """A client's committed INSERT, with the proxy's word of it."""
    w.store.topics.add(*rows)
    await told(w)


async def told(w: World) -> None:
    """The proxy's word that something was committed."""
    w.engine.committed(CommitReport(touched=frozenset((TOPIC,))))
    await settle()


def later(w: World, seconds: float) -> int:
    return w.store.topics.clock.now_ns() + round(seconds * SECOND)


class ShiftedClock(VirtualClock):
    """A database's clock that differs from the proxy's."""

    def __init__(self, seconds: int) -> None:
        super().__init__()
        self._seconds = seconds

    def now_ns(self) -> int:
        return super().now_ns() + self._seconds * SECOND


# --- what is read


@in_virtual_time
async def test_every_reader_gets_every_message_in_order() -> None:
    async with topic_world() as w:
        w.store.topics.fill(range(1, 4))
        first, second = await reads(w), await reads(w)
        await commit(w, LogRow(4), LogRow(5))
        assert first.ids == second.ids == [1, 2, 3, 4, 5]
        assert w.time == 0.0


@in_virtual_time
@pytest.mark.parametrize(
    ("start", "expected"),
    [(EARLIEST, [1, 2, 3, 4]), (LATEST, [4]), (StartAt(Start.OFFSET, 3), [3, 4]), (StartAt(Start.OFFSET, 4), [4])],
)
async def test_where_a_reader_begins(start: StartAt, expected: list[int]) -> None:
    async with topic_world() as w:
        w.store.topics.fill(range(1, 4))
        reader = await reads(w, start)
        await commit(w, LogRow(4))
        assert reader.ids == expected


@in_virtual_time
async def test_a_reader_that_would_begin_beyond_the_end_is_refused() -> None:
    async with topic_world() as w:
        with pytest.raises(InvalidOption, match="beyond the topic's end"):
            await reads(w, StartAt(Start.OFFSET, 2))
        assert w.engine.subscriptions() == []


@in_virtual_time
async def test_columns_come_as_they_were_named() -> None:
    async with topic_world() as w:
        w.store.topics.add(LogRow(1, payload="a"))
        whole = await result(w)
        assert [column.name for column in whole.subscription.columns] == ["id", "payload"]
        assert whole.rows == [(b"1", b"a")]
        some = await result(w, columns=("PAYLOAD", "id", "id", "time_scheduled"))
        assert [column.name for column in some.subscription.columns] == ["PAYLOAD", "id", "id", "time_scheduled"]
        assert some.rows == [(b"a", b"1", b"1", b"0")]
        with pytest.raises(UnknownColumn, match="nothing"):
            await reads(w, columns=("id", "nothing"))


@in_virtual_time
async def test_a_reader_that_stops_reading_asks_for_nothing() -> None:
    async with topic_world() as w:
        w.store.topics.fill(range(1, 4))
        reader = await reads(w, reading=False)
        assert reader.ids == [1, 2, 3]
        asked = w.store.topics.calls["read"]
        await commit(w, LogRow(4))
        await pass_time(100)
        assert (reader.ids, w.store.topics.calls["read"]) == ([1, 2, 3], asked)
        reader.go_on_reading()
        await settle()
        assert reader.ids == [1, 2, 3, 4]


@in_virtual_time
async def test_what_is_written_around_the_proxy_is_found_in_time() -> None:
    async with topic_world() as w:
        reader = await reads(w)
        w.store.topics.fill(range(1, 3))
        await pass_time(POLL_SECONDS + 0.1)
        assert reader.ids == [1, 2]


@in_virtual_time
async def test_a_commit_while_it_reads_is_not_overlooked() -> None:
    async with topic_world() as w:
        w.store.topics.latency = 1.0
        reader = await reads(w, limit=1)  # its first look, which takes a second, finds nothing
        await pass_time(0.5)
        await commit(w, LogRow(1))
        assert (reader.ids, w.time) == ([], 1.5)
        await pass_time(1.6)
        assert (reader.ids, reader.times) == ([1], [1003.0])


@in_virtual_time
async def test_words_of_commits_that_were_missed_have_it_look() -> None:
    async with topic_world() as w:
        reader = await reads(w)
        w.store.topics.fill(range(1, 2))
        w.engine.on_remote_commits_lost()
        await settle()
        assert reader.ids == [1]


@in_virtual_time
async def test_pages_of_large_messages_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_size, "CLAIM_BYTES_MAX", 4000)
    async with topic_world() as w:
        w.store.topics.add(*(LogRow(id_, payload="x" * 1000) for id_ in range(1, 41)))
        reader = await result(w)
        assert reader.ids == list(range(1, 41))
        assert [len(batch.rows) for batch in reader.batches] == [16, *(3,) * 8]


@in_virtual_time
async def test_messages_that_became_large_are_read_in_smaller_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    async with topic_world() as w:
        sizes: list[int] = []
        read, rows = w.store.topics.read, w.store.topics.rows

        async def bounded(topic: Any, position: Any, limit: int, condition: None = None) -> Any:
            sizes.append(limit)
            if limit > 4 and position.offset >= 16:
                raise AnswerTooLarge(1 << 20)
            return await read(topic, position, limit, condition)

        async def bounded_rows(topic: Any, ids: list[int], condition: None = None) -> Any:
            if len(ids) > 4:
                raise AnswerTooLarge(1 << 20)
            return await rows(topic, ids, condition)

        monkeypatch.setattr(w.store.topics, "read", bounded)
        monkeypatch.setattr(w.store.topics, "rows", bounded_rows)
        w.store.topics.fill(range(1, 21))
        assert (await result(w)).ids == list(range(1, 21))
        assert sizes[:4] == [16, 64, 16, 4]
        reader = await reads(w, LATEST)
        await commit(w, *(LogRow(id_, later(w, 900)) for id_ in range(21, 31)))
        await pass_time(1000)
        assert sorted(reader.ids) == list(range(21, 31))


@in_virtual_time
async def test_a_message_that_cannot_be_read_by_itself_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    async with topic_world() as w:

        async def refused(topic: Any, position: Any, limit: int, condition: None = None) -> Any:
            raise AnswerTooLarge(16 << 20)

        monkeypatch.setattr(w.store.topics, "read", refused)
        w.store.topics.fill(range(1, 3))
        reader = await reads(w)
        await reader.ended.wait()
        assert isinstance(reader.error, AnswerTooLarge)


# --- how a result ends by itself


@in_virtual_time
@pytest.mark.parametrize(
    ("count", "batches"), [(0, []), (3, [3]), (80, [16, 64]), (2 * PAGE + 337, [16, 64, 256, PAGE, PAGE, 1])]
)
async def test_nowait_returns_all_that_is_there(count: int, batches: list[int]) -> None:
    async with topic_world() as w:
        w.store.topics.fill(range(1, count + 1))
        reader = await result(w)
        assert reader.ids == list(range(1, count + 1))
        assert [len(batch.rows) for batch in reader.batches] == batches
        assert (reader.error, w.time) == (None, 0.0)


@in_virtual_time
@pytest.mark.parametrize("limit", [0, 1, 3, PAGE + 1])
async def test_a_limit_is_kept_in_every_mode(limit: int) -> None:
    async with topic_world() as w:
        w.store.topics.fill(range(1, PAGE + 100))
        expected = list(range(1, limit + 1))
        assert (await result(w, limit=limit)).ids == expected
        assert (await result(w, limit=limit, wait=5.0)).ids == expected
        endless = await reads(w, limit=limit)
        assert endless.ids == expected and endless.ended.is_set()
        assert (w.time, w.engine.subscriptions()) == (0.0, [])


@in_virtual_time
async def test_an_endless_reader_ends_at_its_limit() -> None:
    async with topic_world() as w:
        reader = await reads(w, limit=3)
        await commit(w, LogRow(1), LogRow(2))
        assert not reader.ended.is_set()
        await commit(w, LogRow(3), LogRow(4))
        assert reader.ids == [1, 2, 3] and reader.ended.is_set()


@in_virtual_time
async def test_wait_ends_with_the_first_messages() -> None:
    async with topic_world() as w:
        task = asyncio.create_task(result(w, LATEST, wait=7.0))
        await pass_time(6)
        await commit(w, LogRow(1), LogRow(2))
        assert ((await task).ids, w.time) == ([1, 2], 6.0)


@in_virtual_time
async def test_wait_ends_with_nothing_when_its_time_is_over() -> None:
    async with topic_world() as w:
        reader = await result(w, wait=7.0)
        assert (reader.ids, reader.error, w.time) == ([], None, 7.0)


@in_virtual_time
async def test_what_makes_no_sense_is_refused() -> None:
    async with topic_world() as w:
        for request in ({"limit": -1}, {"wait_seconds": -1.0}, {"wait_seconds": float("nan")}):
            with pytest.raises(InvalidOption):
                await reads(w, **request)


# --- scheduled messages


@in_virtual_time
async def test_a_scheduled_message_comes_at_its_time() -> None:
    async with topic_world() as w:
        w.store.topics.add(LogRow(1, later(w, 7.5)), LogRow(2), LogRow(3, later(w, 2)))
        reader = await reads(w)
        assert reader.ids == [2]
        await pass_time(7.4)
        assert reader.ids == [2, 3]
        await pass_time(0.11)
        assert reader.ids == [2, 3, 1]
        assert [time - 1000.0 for time in reader.times] == pytest.approx([0.0, 2.0, 7.5], abs=0.01)


@in_virtual_time
@pytest.mark.parametrize("shift", [3600, -3600])
async def test_a_scheduled_message_comes_at_its_time_by_the_clock_of_the_database(shift: int) -> None:
    async with topic_world() as w:
        w.store.topics.clock = ShiftedClock(shift)
        w.store.topics.add(LogRow(1, later(w, 6)), LogRow(2))
        reader = await reads(w)
        await pass_time(5.9)
        assert reader.ids == [2]
        await pass_time(0.11)
        assert reader.ids == [2, 1]


@in_virtual_time
@pytest.mark.parametrize("wait", [None, 10.0])
async def test_what_ends_by_itself_is_not_held_by_gaps(wait: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "HOLES_MAX", 3)
    async with topic_world() as w:
        w.store.topics.transactions = None  # so that no gap is known to stay
        w.store.topics.add(*map(LogRow, range(2, 42, 2)))
        assert (await result(w, wait=wait)).ids == list(range(2, 42, 2))


@in_virtual_time
async def test_nowait_does_not_wait_for_what_is_scheduled() -> None:
    async with topic_world() as w:
        w.store.topics.add(LogRow(1, later(w, 9)), LogRow(2), LogRow(3, later(w, 9)))
        assert ((await result(w)).ids, w.time) == ([2], 0.0)


@in_virtual_time
async def test_behind_any_number_of_scheduled_messages_is_what_is_due() -> None:
    """A whole page of them, and one where only one is asked for, do not look like the topic's end."""
    async with topic_world() as w:
        w.store.topics.add(*(LogRow(id_, later(w, 900)) for id_ in range(1, PAGE + 1)), LogRow(PAGE + 1))
        for wait in (None, 5.0):
            assert (await result(w, wait=wait)).ids == [PAGE + 1]
            assert (await result(w, wait=wait, limit=1)).ids == [PAGE + 1]
        assert (await reads(w)).ids == [PAGE + 1]
        assert w.time == 0.0


@in_virtual_time
async def test_a_reader_remembers_a_bounded_number_of_scheduled_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that would wait for them ends; a NOWAIT, which does not, reads on."""
    monkeypatch.setattr(broadcast, "POSTPONED_MAX", 3)
    async with topic_world() as w:
        w.store.topics.add(*(LogRow(id_, later(w, 900)) for id_ in range(1, 4)), LogRow(4))
        reader = await reads(w)
        assert reader.ids == [4]
        await commit(w, LogRow(5, later(w, 900)), LogRow(6))
        assert reader.ended.is_set() and isinstance(reader.error, EngineError) and reader.error.errno == 1226
        await reader.subscription.close(release=False)
        assert (await result(w)).ids == [4, 6]


@in_virtual_time
async def test_wait_waits_for_what_falls_due_in_its_time() -> None:
    async with topic_world() as w:
        w.store.topics.add(LogRow(1, later(w, 2)), LogRow(2, later(w, 3)))
        reader = await result(w, wait=10.0)
        assert reader.ids == [1] and w.time == pytest.approx(2.0, abs=0.01)


@in_virtual_time
async def test_what_falls_due_counts_towards_the_limit() -> None:
    async with topic_world() as w:
        w.store.topics.add(LogRow(1, later(w, 2)), LogRow(2), LogRow(3, later(w, 2)), LogRow(4, later(w, 2)))
        reader = await reads(w, limit=3)
        await pass_time(3)
        assert reader.ids == [2, 1, 3] and reader.ended.is_set()


@in_virtual_time
async def test_a_scheduled_message_that_is_deleted_holds_up_nothing() -> None:
    async with topic_world() as w:
        w.store.topics.add(LogRow(1, later(w, 2)), LogRow(2))
        reader = await reads(w)
        del w.store.topics.logs[TOPIC][1]
        await pass_time(3)
        await commit(w, LogRow(3))
        assert reader.ids == [2, 3]


@in_virtual_time
async def test_nowait_goes_on_behind_a_deleted_message_that_fell_due() -> None:
    async with topic_world() as w:
        w.store.topics.add(LogRow(1, later(w, 2)), LogRow(2))
        reader = await reads(w, reading=False, wait_mode=WaitMode.NOWAIT)
        assert reader.ids == [2]
        del w.store.topics.logs[TOPIC][1]
        w.store.topics.fill(range(3, 5))
        await pass_time(3)
        reader.go_on_reading()
        await reader.ended.wait()
        assert reader.ids == [2, 3, 4]


# --- ids that become visible late


@in_virtual_time
async def test_what_becomes_visible_late_comes_once() -> None:
    async with topic_world() as w:
        w.store.topics.transactions = OpenTransactions(7, 7)
        w.store.topics.add(LogRow(1, visible=False), LogRow(2, visible=False), LogRow(3))
        reader = await reads(w)
        assert reader.ids == [3]
        w.store.topics.commit(2)
        await told(w)
        assert reader.ids == [3, 2]
        await pass_time(1000)
        w.store.topics.commit(1)
        await commit(w, LogRow(4))
        assert reader.ids == [3, 2, 1, 4]
        await pass_time(1000)
        assert reader.ids == [3, 2, 1, 4]


@in_virtual_time
async def test_what_nobody_will_write_any_more_is_looked_for_no_longer() -> None:
    async with topic_world() as w:
        w.store.topics.transactions = OpenTransactions(7, 7)
        w.store.topics.add(LogRow(1, visible=False), LogRow(2))
        reader = await reads(w)
        await pass_time(100)
        assert reader.subscription._cursor.position.holes  # type: ignore[attr-defined]
        w.store.topics.transactions = OpenTransactions()
        await pass_time(2 * SETTLE_NS / SECOND)
        assert not reader.subscription._cursor.position.holes  # type: ignore[attr-defined]
        w.store.topics.commit(1)
        await told(w)
        assert reader.ids == [2]


@in_virtual_time
async def test_where_ids_come_in_order_nothing_is_looked_for() -> None:
    async with topic_world() as w:
        w.store.topics.in_order = True
        w.store.topics.add(LogRow(3), LogRow(9))
        reader = await reads(w)
        assert (reader.ids, reader.subscription._cursor.position.holes) == ([3, 9], ())  # type: ignore[attr-defined]


@in_virtual_time
@pytest.mark.parametrize("limit", [2, 3, 4])
async def test_what_comes_late_does_not_go_beyond_the_limit(limit: int) -> None:
    async with topic_world() as w:
        w.store.topics.add(*(LogRow(id_, visible=False) for id_ in (1, 2, 3)), LogRow(4))
        reader = await reads(w, limit=limit)
        assert reader.ids == [4]
        w.store.topics.commit(1, 2, 3)
        await told(w)
        assert (reader.ids, reader.ended.is_set()) == ([4, 1, 2, 3][:limit], True)


@in_virtual_time
async def test_a_limit_of_a_full_batch_is_kept_though_much_comes_late() -> None:
    async with topic_world() as w:
        w.store.topics.add(*(LogRow(id_, visible=False) for id_ in range(1, 11)), LogRow(11))
        reader = await reads(w, limit=5)
        w.store.topics.commit(*range(1, 11))
        w.store.topics.fill(range(12, 20))
        await told(w)
        assert (len(reader.ids), reader.ended.is_set()) == (5, True)


@in_virtual_time
async def test_every_committed_message_comes_exactly_once_in_whatever_order() -> None:
    for seed in range(60):
        random = Random(seed)
        async with topic_world() as w:
            log, number, open_ = w.store.topics, 0, dict[int, list[int]]()
            reader, last, committed = await reads(w), 0, list[int]()
            for _ in range(40):
                if random.random() < 0.5 or not open_:
                    number += 1
                    ids = range(last + random.choice((1, 1, 2)), last + random.choice((3, 4)))
                    log.add(*(LogRow(id_, later(w, random.choice((0, 0, 0, 30))), visible=False) for id_ in ids))
                    open_[number], last = list(ids), ids[-1]
                else:
                    ended = open_.pop(random.choice(list(open_)))
                    if random.random() < 0.8:
                        log.commit(*ended)
                        committed += ended
                log.transactions = OpenTransactions(min(open_), max(open_)) if open_ else OpenTransactions()
                if random.random() < 0.5:
                    await told(w)
                if random.random() < 0.3:
                    await pass_time(random.choice((0.1, 4, 60)))
            await pass_time(100)
            assert sorted(reader.ids) == sorted(committed), f"seed {seed}"


# --- how it ends from outside


@in_virtual_time
async def test_a_reader_that_is_ended_says_why() -> None:
    async with topic_world() as w:
        reader = await reads(w)
        error = StreamKilled("killed")
        reader.subscription.end(error)
        reader.subscription.end(ShuttingDown("later"))
        await reader.ended.wait()
        assert reader.error is error and w.time == 0.0
        assert w.engine.subscriptions() == []
        with pytest.raises(StreamKilled):
            await anext(reader.subscription)


@in_virtual_time
async def test_a_reader_that_is_ended_while_it_reads_returns_nothing_more() -> None:
    async with topic_world() as w:
        w.store.topics.fill(range(1, 4))
        w.store.topics.latency = 1.0
        reader = await reads(w)
        await pass_time(0.5)
        reader.subscription.end(StreamKilled("killed"))
        await reader.ended.wait()
        assert (reader.ids, type(reader.error)) == ([], StreamKilled)


@in_virtual_time
async def test_a_reader_that_is_closed_or_finished_has_no_error() -> None:
    async with topic_world() as w:
        closed, finished = await reads(w), await reads(w)
        finished.subscription.finish()
        await closed.subscription.close(release=True)
        await closed.subscription.close(release=False)
        closed.subscription.end(StreamKilled("too late"))
        for reader in (closed, finished):
            await reader.ended.wait()
            assert reader.error is None
        assert w.engine.subscriptions() == []


@in_virtual_time
async def test_a_topic_that_is_dropped_ends_its_readers() -> None:
    async with topic_world() as w:
        reader = await reads(w)
        w.store.serve(make_spec())
        await w.engine.catalog_changed()
        await reader.ended.wait()
        assert isinstance(reader.error, QueueNotFound)
        with pytest.raises(QueueNotFound):
            await reads(w)


@in_virtual_time
async def test_readers_end_with_the_engine() -> None:
    async with topic_world() as w:
        readers = [await reads(w) for _ in range(3)]
        await w.engine.close()
        for reader in readers:
            await reader.ended.wait()
            assert isinstance(reader.error, ShuttingDown)


@in_virtual_time
async def test_what_is_no_topic_has_no_readers() -> None:
    async with topic_world() as w:
        for table in ("q", "nowhere"):
            with pytest.raises(QueueNotFound):
                await w.engine.subscribe(SubscribeRequest(QueueName("main", table), start=EARLIEST))


# --- a database that is away


@in_virtual_time
@pytest.mark.parametrize(
    "error",
    [BackendUnavailable("away"), LockWaitTimeout(), BackendError("deadlock", 1213), BackendError("read only", 1290)],
    ids=lambda error: str(error.errno),
)
async def test_an_endless_reader_goes_on_when_the_database_is_back(error: BackendError) -> None:
    """Numbers of messages are given before they are read; and on a cluster a read waits for what other nodes have
    committed, in vain where one of them is just being put out."""
    async with topic_world() as w:
        reader = await reads(w)
        w.store.topics.down = error
        await told(w)
        await pass_time(60)
        w.store.topics.fill(range(1, 4))
        w.store.topics.down = None
        await pass_time(2 * POLL_SECONDS)
        assert (reader.ids, reader.error) == ([1, 2, 3], None)


@in_virtual_time
async def test_a_scheduled_message_is_not_lost_while_the_database_is_away() -> None:
    async with topic_world() as w:
        w.store.topics.add(LogRow(1, later(w, 2)))
        reader = await reads(w)
        w.store.topics.down = BackendUnavailable("away")
        await pass_time(60)
        w.store.topics.down = None
        await pass_time(2 * POLL_SECONDS)
        assert reader.ids == [1]


@in_virtual_time
@pytest.mark.parametrize("wait", [None, 5.0])
async def test_a_result_that_ends_by_itself_ends_with_the_error(wait: float | None) -> None:
    async with topic_world() as w:
        w.store.topics.latency = 1.0
        task = asyncio.create_task(result(w, wait=wait))
        await pass_time(0.5)
        w.store.topics.down = BackendUnavailable("away")
        assert isinstance((await task).error, BackendUnavailable)


@in_virtual_time
@pytest.mark.parametrize("wait", [None, 0.0])
async def test_a_result_does_not_end_where_its_topic_was_altered(
    wait: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with topic_world() as w:
        w.store.topics.fill(range(1, 4))
        w.store.serve(make_spec(), topics=[dataclasses.replace(make_topic(), comment="queuegate_topic,retain=9s")])

        async def stale(*_: object) -> None:
            monkeypatch.undo()
            raise BackendError("Unknown column 'more' in 'SELECT'", 1054, "42S22")

        monkeypatch.setattr(w.store.topics, "read", stale)
        assert (await result(w, wait=wait)).ids == [1, 2, 3]


@in_virtual_time
async def test_what_the_database_refuses_ends_a_reader() -> None:
    async with topic_world() as w:
        reader = await reads(w)
        w.store.topics.down = BackendError("no such column", 1054, "42S22")
        await told(w)
        await reader.ended.wait()
        assert isinstance(reader.error, BackendError)
        await reader.close()
        assert w.engine.subscriptions() == []


# --- what is told of it


@in_virtual_time
async def test_its_row_of_show_subscriptions() -> None:
    async with topic_world() as w:
        await pass_time(3)
        reader = await reads(w, connection_id=7, user="app", host="h")
        await commit(w, LogRow(1), LogRow(2))
        (status,) = w.engine.subscriptions()
        assert (status.queue, status.receiver) == (TOPIC, ReceiverIdentity(7, "app", "h"))
        assert (status.mode, status.sent, status.unacked, status.waiting) == ("broadcast", 2, 0, True)
        assert status.since_ns == w.clock.now_ns()
        assert repr(reader.subscription) == "<BroadcastReader main.events waiting sent=2 offset=2>"

"""The table of kept events: what is written twice is there once, and what cannot be read is left out."""

from __future__ import annotations

import pytest

from engine.model.errors import BackendError
from engine.model.queue import QueueName, ReceiverIdentity
from engine.model.trace_event import TraceEvent
from engine.store.statements.traces import COLUMNS

_TABLE = (
    "CREATE TABLE queuegate_traces (queue_name VARCHAR(64), message_id BIGINT, process VARCHAR(32), number BIGINT,"
    " time_at BIGINT, event VARCHAR(32), certain INT, attempt BIGINT, connection_id BIGINT, user_name VARCHAR(255),"
    " host VARCHAR(255), consumer VARCHAR(255), pid BIGINT, reason VARCHAR(1000), place VARCHAR(255),"
    " PRIMARY KEY (queue_name, message_id, process, number))"
)


def event(queue: QueueName, number: int, **other: object) -> TraceEvent:
    to = ReceiverIdentity(connection_id=1 << 40, user="u" * 300, host="h", consumer="\ud800 é", pid=None)
    told = TraceEvent(queue, 7, 1_000 + number, "sent", 3, to, True, "r" * 2000, "here:1", "a" * 16, number)
    return told._replace(**other)


async def test_what_is_written_twice_is_there_once(open_sql) -> None:
    bench = await open_sql("integer")
    await bench.run(_TABLE)
    database = bench.spec.name.database
    queue, store = QueueName(database, "o'rders_group_g"), bench.store.traces
    events = [event(queue, number) for number in range(450)]
    strange = [event(queue, 900, id="text"), event(queue, 901, id=1 << 70), event(queue, 902, epoch=1 << 70)]
    for _ in range(2):
        await store.write(database, [*events, *strange])
    assert await bench.run("SELECT COUNT(*) FROM queuegate_traces") == [(451,)]
    found = await store.of(queue, 7, 1000)
    assert [one.number for one in found] == [902, *reversed(range(450))]
    assert found[0].epoch is None
    read = found[-1]
    assert (read.what, read.epoch, read.sure, read.place, read.process) == ("sent", 3, True, "here:1", "a" * 16)
    assert len(read.reason) == 1000 and read.receiver is not None
    assert (read.receiver.connection_id, read.receiver.consumer) == (1 << 40, "? é")
    assert [one.number for one in await store.newest(queue, 1_440, 5)] == [902, 449, 448, 447, 446]
    assert await store.newest(queue, 1_905, 5) == await store.of(queue, 8, 5) == []
    await bench.run(f"INSERT INTO queuegate_traces ({', '.join(COLUMNS)}) VALUES ('b', 1, 'p', 1, 5, 'e', 1"
                    + ", NULL" * 6 + ", NULL, '')")  # fmt: skip
    assert await store.queues(database) == [QueueName(database, "b"), queue]
    cleaned = [await store.clean(queue, 0, 200) for _ in range(4)]
    assert cleaned == [(200, True), (200, True), (51, False), (0, False)]
    await bench.close()


async def test_without_its_table_there_is_nothing(open_sql) -> None:
    bench = await open_sql("integer")
    queue, store = bench.spec.name, bench.store.traces
    assert await store.of(queue, 7, 10) == await store.newest(queue, 0, 10) == await store.queues(queue.database) == []
    await bench.run("CREATE TABLE queuegate_traces (queue_name VARCHAR(64), other INT)")
    with pytest.raises(BackendError):
        await store.write(queue.database, [event(queue, 1)])
    with pytest.raises(BackendError):
        await store.of(queue, 7, 10)
    await bench.close()

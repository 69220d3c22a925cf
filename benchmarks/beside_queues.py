"""What queues cost those who do not use them: point selects through a gate that streams 1,000 messages/s besides.

Three cases in turn: no messages; the same messages through another queuegate, so that machine and database have the
same work; the messages through the gate that is measured. The last by the second is what sharing a gate costs.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event

from benchmarks import sysbench
from benchmarks.harness import Outcome, Series, Special, Tell, turned
from benchmarks.rivals import QUEUEGATE, Arena, Rival
from tests.servers import Sql, Stream

QUEUES = 4
MESSAGES_PER_SECOND = 1000
INSERTS_PER_SECOND = 10  # of each queue's producer: 25 messages in one statement
THREADS, SECONDS = 8, 1.0
QUIET, ELSEWHERE, HERE = "no messages", "messages through another queuegate", "messages through the same queuegate"


@contextlib.contextmanager
def _traffic(rival: Rival) -> Iterator[None]:
    """Producers and receivers in a process of their own; it begins with the first messages acked."""
    context = multiprocessing.get_context("spawn")
    flowing, stop = context.Event(), context.Event()
    process = context.Process(target=_messages, args=(rival, flowing, stop), daemon=True)
    process.start()
    try:
        assert flowing.wait(30), "no messages flow"
        yield
        assert process.is_alive(), "the producers or receivers failed"
    finally:
        stop.set()
        process.join(30)


def _messages(rival: Rival, flowing: Event, stop: Event) -> None:
    queues = [f"beside_{n}" for n in range(QUEUES)]
    acks = [Sql(rival.connect()) for _ in queues]
    streams = []
    for queue, client in zip(queues, acks, strict=True):
        client(f"CREATE QUEUE IF NOT EXISTS {queue} (payload VARCHAR(300))")
        streams.append(Stream(rival, f"SELECT id FROM STREAM {queue}", ssl_disabled=True))
    workers = [threading.Thread(target=_produce, args=(Sql(rival.connect()), queue, stop)) for queue in queues]
    workers += [
        threading.Thread(target=_acknowledge, args=(stream, client, queue, flowing), daemon=True)
        for stream, client, queue in zip(streams, acks, queues, strict=True)
    ]
    for worker in workers:
        worker.start()
    for worker in workers[:QUEUES]:
        worker.join()
    for stream in streams:
        stream.close()


def _produce(client: Sql, queue: str, stop: Event) -> None:
    rows = MESSAGES_PER_SECOND // QUEUES // INSERTS_PER_SECOND
    insert = f"INSERT INTO {queue} (payload) VALUES " + ", ".join(["('" + "x" * 200 + "')"] * rows)
    due = time.monotonic()
    while not stop.wait(max(0.0, due - time.monotonic())):
        client(insert)
        due += 1 / INSERTS_PER_SECOND


def _acknowledge(stream: Stream, client: Sql, queue: str, flowing: Event) -> None:
    taken = 0
    while rows := stream.more(taken):
        taken += len(rows)
        client(f"ACK {queue} " + ", ".join(str(row[0]) for row in rows))
        flowing.set()


def _measure(arena: Arena, repeats: int, tell: Tell) -> Outcome:
    sysbench.prepare(arena)
    measured = arena.named(QUEUEGATE)[0]
    _, other = arena.new_gate()
    series = {case: Series(case) for case in (QUIET, ELSEWHERE, HERE)}
    carriers = {QUIET: None, ELSEWHERE: other, HERE: measured}
    for repeat in range(repeats):
        tell(f"beside queues: {repeat + 1} of {repeats}")
        for case in turned(list(series), repeat):
            series[case].add(_turn(arena, measured, carriers[case]))
    title = f"Point selects, {THREADS} connections, beside {QUEUES} queues with {MESSAGES_PER_SECOND:,} messages/s"
    return Outcome("beside-queues", title, "queries/s", list(series.values()), (QUIET, ELSEWHERE))


def _turn(arena: Arena, measured: Rival, carrier: Rival | None) -> dict[str, float]:
    with contextlib.ExitStack() as stack:
        if carrier is not None:
            stack.enter_context(_traffic(carrier))
        sample = sysbench.run(
            arena, measured, "oltp_point_select", THREADS, SECONDS, *sysbench.TABLE_OPTIONS, "--db-ps-mode=disable"
        )
    return dict(sample.values)


PARTS = (Special("beside-queues", "Point selects beside queues", _measure, needs="sysbench"),)

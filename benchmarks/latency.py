"""From commit to delivery: single messages at random moments to a waiting receiver, poll_interval 30 s.

Two clocks are reported. `commit` starts when the INSERT returned to the producer, `send` when the producer sent it, so
that `send` includes the commit itself with its flush. The same is done with a hand-written poller in the same run.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from benchmarks.measure import Measurement, spread
from benchmarks.places import Place
from benchmarks.pollers import INTERVAL_SECONDS, Arrivals, Insert, Poller
from tests.servers import NS, Sql, Stream, wait_until

PAUSE_SECONDS = (0.005, 0.025)  # between messages: far below what either side can take, and in step with nothing
WARM_UP = 20
SCHEDULE_AHEAD_SECONDS = 2.0
SCHEDULE_STEP_SECONDS = 0.02


def deliver(place: Place, messages: int) -> list[Measurement]:
    """queuegate beside the poller."""
    poller = Poller(place)
    poller.start()
    try:
        insert, close = poller.inserter()
        polled = _measure(insert, lambda: poller.arrivals, messages)
        close()
    finally:
        poller.stop()
    interval = f"{INTERVAL_SECONDS * 1000:.0f} ms"
    kind = "SKIP LOCKED" if place.server is not None else "BEGIN IMMEDIATE"
    return [
        Measurement("queuegate", place.backend, place.durability, 1, messages, through_gate(place, messages)),
        Measurement(f"{kind} poller, {interval}", place.backend, place.durability, 1, messages, polled),
    ]


def through_gate(place: Place, messages: int) -> dict[str, float]:
    """Of queuegate alone: medians and more of both clocks."""
    producer, acks = Sql(place.gate.connect()), Sql(place.gate.connect())
    producer("CREATE QUEUE latency (n INT) WITH (poll_interval = '30s')")
    receiver = Receiver(place, acks)
    try:
        return _measure(
            lambda n: producer("INSERT INTO latency (n) VALUES (%s)", n) and None, receiver.arrivals, messages
        )
    finally:
        receiver.close()
        producer("DROP QUEUE latency")
        producer.close()
        acks.close()


class Receiver:
    """Receives and acks each message, as a worker would."""

    def __init__(self, place: Place, acks: Sql) -> None:
        self._arrivals: Arrivals = {}
        self._stream = Stream(place.gate, "SELECT id, n FROM STREAM latency")
        self._acks = acks
        self._offset = time.time() - time.monotonic()
        self._thread = threading.Thread(target=self._ack, daemon=True)
        self._thread.start()

    def arrivals(self) -> Arrivals:
        """When each message was received."""
        return self._arrivals

    def _ack(self) -> None:
        taken = 0
        while rows := self._stream.more(taken):
            for index, (_, n) in enumerate(rows, taken):
                self._arrivals[n] = self._stream.times[index] - self._offset
            taken += len(rows)
            self._acks("ACK latency " + ", ".join(str(row[0]) for row in rows))

    def close(self) -> None:
        self._stream.close()
        self._thread.join(10)


def _measure(insert: Insert, arrivals: Callable[[], Arrivals], messages: int) -> dict[str, float]:
    chance = random.Random(1)
    sent: dict[int, float] = {}
    committed: dict[int, float] = {}
    for n in range(messages + WARM_UP):
        time.sleep(chance.uniform(*PAUSE_SECONDS))
        sent[n] = time.monotonic()
        insert(n)
        committed[n] = time.monotonic()
    wait_until(lambda: len(arrivals()) == messages + WARM_UP, 30, "the last messages")
    came = arrivals()
    after_commit = [max(0.0, came[n] - committed[n]) for n in range(WARM_UP, messages + WARM_UP)]
    after_send = [came[n] - sent[n] for n in range(WARM_UP, messages + WARM_UP)]
    return {**spread(after_commit, "commit ms"), **spread(after_send, "send ms")}


def schedule(place: Place, messages: int) -> list[Measurement]:
    """How late scheduled messages are, by the wall clock that set their time."""
    client = Sql(place.gate.connect())
    client("CREATE QUEUE scheduled (due BIGINT)")
    receiver = Stream(place.gate, "SELECT due FROM STREAM scheduled")
    first = time.time_ns() + int(SCHEDULE_AHEAD_SECONDS * NS)
    for n in range(messages):
        due = first + int(n * SCHEDULE_STEP_SECONDS * NS)
        client("INSERT INTO scheduled (due, time_scheduled) VALUES (%s, %s)", due, due)
    receiver.wait(messages, 60 + messages * SCHEDULE_STEP_SECONDS)
    late = [at - row[0] / NS for row, at in zip(receiver.rows, receiver.times, strict=True)]
    receiver.close()
    client("DROP QUEUE scheduled")
    client.close()
    return [Measurement("scheduled 2 s ahead", place.backend, place.durability, 1, messages, spread(late, "late ms"))]

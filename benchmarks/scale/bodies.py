"""Large bodies: messages from one producer to one receiver, and the memory that the proxy needs for them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.harness import Outcome
from benchmarks.measure import latencies
from benchmarks.processes import peak_bytes, reset_peak
from benchmarks.queues.base import BATCH
from benchmarks.scale.amounts import MILLION, Amounts, Columns, Course, in_turn
from benchmarks.scale.clients import PACE_SECONDS, ScaleQueue
from benchmarks.scale.sites import Ground, both
from benchmarks.topics import crew
from benchmarks.topics.reading import converse

NAME = "scale-bodies"
TITLE = (
    f"Bodies: one producer, one message a commit, and one receiver that acks up to {BATCH} at once; ms: a lone message"
)
MESSAGES, MEGABYTES, PEAK = "messages/s", "MB/s", "proxy peak MB"
FEWEST = 10
_WARM_UP = 3
_open: list[Any] = []  # a receiver that is closed would read its endless result to its end


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyQueue(ScaleQueue):
    """A queue of messages of that many bytes."""

    size: int

    def fill(self, messages: int) -> None:
        """Make it anew, empty."""
        assert messages == 0
        self.run(
            f"DROP QUEUE IF EXISTS {self.table}",
            f"CREATE QUEUE {self.table} (payload LONGTEXT) WITH (ack_wait = '10m')",
        )

    def sender(self, messages: int = 1) -> Callable[[], object]:
        cursor, sql = self.connect().cursor(), f"INSERT INTO {self.table} (payload) VALUES ('{'x' * self.size}')"
        return lambda: cursor.execute(sql)


def exchange(queue: BodyQueue, receives: bool, messages: int) -> Generator[None, None, None]:
    """The producer, or the receiver (crew.Work)."""
    if not receives:
        send = queue.sender()
        yield
        for _ in range(messages):
            send()
        return
    receiver = queue.receiver(BATCH)
    _open.append(receiver)
    left = messages - next(receiver)
    yield
    while left > 0:
        left -= next(receiver)


def measure(course: Course) -> Outcome:
    """On both backends."""
    with both(course.facts) as grounds:
        cases = {
            f"{ground.name}, {size_name(size)}": partial(_case, course.amounts, ground, size)
            for ground in grounds
            for size in course.amounts.bodies
        }
        return in_turn(course, NAME, TITLE, MEGABYTES, cases)


def size_name(size: int) -> str:
    """1 KB is 1,000 bytes."""
    return f"{size // MILLION:,} MB" if size >= MILLION else f"{size // 1000:,} KB"


def amount(size: int, of_all: int, most: int) -> int:
    """How many messages of that size, for so many bytes of all."""
    return min(most, max(FEWEST, of_all // size))


def _case(amounts: Amounts, ground: Ground, size: int, repeat: int) -> Columns:
    with ground.site() as site:
        way = site.queue()
        queue = BodyQueue(
            port=way.port, proxy_pid=way.proxy_pid, pid=way.pid, database_port=way.database_port, size=size
        )
        queue.fill(0)
        reset_peak(site.proxy_pids[0])
        messages = amount(size, amounts.body_bytes, amounts.bodies_most)
        done = crew.run(queue, exchange, [(False, messages), (True, messages)])
        found = done.columns(messages)
        peak = peak_bytes(site.proxy_pids[0]) / 1e6
        job = ("", amount(size, amounts.body_bytes, amounts.lone), PACE_SECONDS, _WARM_UP)
        (took,) = crew.run(queue, converse, [job]).results
        return {MEGABYTES: found[MESSAGES] * size / 1e6, **site.costs(found), **latencies(took), PEAK: peak}

"""What the clients of a benchmark do: insert for a time, receive and ack, or insert one by one at random moments.

Each runs in a process of its own, with a connection of its own. Messages have numbers, by which they are recognised.
"""

from __future__ import annotations

import random
import string
import time
from array import array
from dataclasses import dataclass

from queuegate.cli.bench.figures import ClientResult, Load
from queuegate.cli.connecting import Link
from queuegate.cli.names import QueueRef
from rewriter.text.literals import string_literal

EMPTY_SECONDS = 1.0
"""How long a consumer waits for something due. After so long in vain the queue is empty: a
commit is reported at once."""

_OF_ONE_PRODUCER = 1 << 32
"""Numbers for each producer: more than one can send in the longest time that may be asked for."""


@dataclass(frozen=True, slots=True)
class Producer:
    """Inserts batches as fast as it can. `number`: which of the producers it is."""

    queue: QueueRef
    load: Load
    number: int

    def run(self, link: Link) -> ClientResult:
        """For the time of the part. Raises ConsoleError."""
        body = _body(self.load.size, self.number)
        numbers = array("q")
        began, used = time.monotonic(), time.process_time()
        now, next_number = began, self.number * _OF_ONE_PRODUCER
        while now < began + self.load.seconds:
            batch = range(next_number, next_number + self.load.batch)
            link.change(_insert(self.queue, batch, body))
            now, next_number = time.monotonic(), batch.stop
            numbers.extend(batch)
        return ClientResult(numbers, began, now, _busy(used, began))


@dataclass(frozen=True, slots=True)
class Consumer:
    """Receives and acks batches. `seconds`: at most so long. It ends sooner where nothing arrives any more, unless it
    `stays`."""

    queue: QueueRef
    load: Load
    seconds: float
    stays: bool = False

    def run(self, link: Link) -> ClientResult:
        """Raises ConsoleError."""
        receive = f"SELECT id, n, body FROM STREAM {self.queue.sql} LIMIT {self.load.batch} WAIT {EMPTY_SECONDS}"
        numbers, times = array("q"), array("d")
        began = time.monotonic()
        used, last, empty = time.process_time(), began, False
        while not empty and time.monotonic() < began + self.seconds:
            rows = link.tuples(receive)
            arrived = time.monotonic()
            if rows:
                link.change(f"ACK {self.queue.sql} {', '.join(str(int(row[0])) for row in rows)}")
                last = time.monotonic()
                numbers.extend(int(row[1]) for row in rows)
                times.extend([arrived] * len(rows))
            empty = not rows and not self.stays
        waited = empty or (self.stays and time.monotonic() - last >= EMPTY_SECONDS)
        return ClientResult(numbers, began, last, _busy(used, began), done=times, waited_in_vain=waited)


@dataclass(frozen=True, slots=True)
class Sender:
    """Inserts messages one by one at random moments: its share of the rate on average, in step with nothing."""

    queue: QueueRef
    load: Load
    number: int

    def run(self, link: Link) -> ClientResult:
        """For the time of the part. Raises ConsoleError."""
        body = _body(self.load.size, self.number)
        chance = random.Random(self.number)
        each = self.load.rate / self.load.producers
        numbers, sent, done = array("q"), array("d"), array("d")
        began, used = time.monotonic(), time.process_time()
        next_number = self.number * _OF_ONE_PRODUCER
        due = began + chance.expovariate(each)
        while due < began + self.load.seconds:
            time.sleep(max(0.0, due - time.monotonic()))
            before = time.monotonic()
            if before >= began + self.load.seconds:
                break  # the rate is more than this client reaches
            link.change(_insert(self.queue, range(next_number, next_number + 1), body))
            numbers.append(next_number)
            sent.append(before)
            done.append(time.monotonic())
            next_number += 1
            due += chance.expovariate(each)
        return ClientResult(numbers, began, began + self.load.seconds, _busy(used, began), sent, done)


Client = Producer | Consumer | Sender


def _insert(queue: QueueRef, numbers: range, body: str) -> str:
    return f"INSERT INTO {queue.sql} (n, body) VALUES " + ", ".join(f"({number}, {body})" for number in numbers)


def _body(size: int, seed: int) -> str:
    """A literal of so many letters, in no order, so that no one packs it small."""
    return string_literal("".join(random.Random(seed).choices(string.ascii_letters, k=size)))


def _busy(used_before: float, began: float) -> float:
    elapsed = time.monotonic() - began
    return (time.process_time() - used_before) / elapsed if elapsed > 0 else 0.0

"""The SQL that a worker sends. Pure: texts with `%s`, and their values, which PyMySQL binds.

All but the polls name a message by its id and its lease token, so they concern one delivery. If the message has been
given back, or another receiver has it, the token differs, and the statement changes nothing. If the queue's table has
no tokens, the epoch is used instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from queuegate_worker.errors import WorkerError
from queuegate_worker.message import Message
from queuegate_worker.mysql_client import driver

Statement = tuple[str, tuple[Any, ...]]

KEYS = ("shared", "sticky", "exclusive")
"""How a worker's keys are chosen, as the stream option of that name."""

SHARED_KEYS = KEYS[0]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_AT_ONCE_MAX = 500  # ids in one statement: some 10 KB of text
_ACK_WAIT = re.compile(r"\back_wait = '?([0-9.]+(?:ms|s|m|h|d)?)'?")


def quoted(name: str) -> str:
    """A quoted name for SQL with placeholders, from `queue` or `database.queue`; a part with a point is in back-quotes.

    Raises WorkerError.
    """
    return ".".join(map(back_quoted, name_parts(name)))


def name_parts(name: str) -> list[str]:
    """The database, if it is named, and the queue. Raises WorkerError."""
    try:
        return driver.name_parts(name)
    except (TypeError, ValueError):
        raise WorkerError(f"{name!r} is no name of a queue; it is `queue` or `database.queue`") from None


def back_quoted(name: str) -> str:
    """One name for SQL with placeholders."""
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"


def duration(seconds: float) -> str:
    """A duration as an SQL value: whole milliseconds, rounded up."""
    return f"{math.ceil(seconds * 1000)}ms"


@dataclass(frozen=True, slots=True)
class Statements:
    """Of one queue. `ack_wait`: seconds, None for the queue's own. `lease`: the stream option of that name.
    `has_tokens`: whether its table has lease tokens. `key_range` and `keys`: the options of its streams of these
    names."""

    queue: str
    consumer: str
    prefetch: int
    lease: str = "connection"
    ack_wait: float | None = None
    has_tokens: bool = False
    key_range: str | None = None
    keys: str = SHARED_KEYS

    @property
    def create(self) -> Statement:
        """Returns the queue's options."""
        return f"SHOW CREATE QUEUE {quoted(self.queue)}", ()

    @property
    def columns(self) -> Statement:
        """Returns the columns of a stream, and receives nothing."""
        options, values = self._of_ring()
        within = f" WITH ({', '.join(options)})" if options else ""
        return f"SELECT * FROM STREAM {quoted(self.queue)} LIMIT 0{within}", tuple(values)

    @property
    def probe_tokens(self) -> Statement:
        """Receives nothing; fails if the queue's table has no lease tokens."""
        return f"SELECT lease_token FROM STREAM {quoted(self.queue)} LIMIT 0", ()

    def poll(self, columns: Sequence[str], limit: int, wait_seconds: float) -> Statement:
        """Receive up to `limit` messages, as soon as anything is due. Without wait: messages that are due now."""
        # `prefetch` counts all unsettled messages of this connection. It is larger than all slots, so that it does not
        # end a poll early: LIMIT is the bound.
        options, values = ["lease = %s", "prefetch = %s", "consumer = %s"], [self.lease, self.prefetch, self.consumer]
        if self.ack_wait is not None:
            options.append("ack_wait = %s")
            values.append(duration(self.ack_wait))
        of_ring, ring_values = self._of_ring()
        options, values = [*options, *of_ring], [*values, *ring_values]
        named = ", ".join(back_quoted(name) for name in columns)
        waiting = ["WAIT %s", duration(wait_seconds)] if wait_seconds else ["NOWAIT"]
        within = f"LIMIT %s {waiting[0]} WITH ({', '.join(options)})"
        return f"SELECT {named} FROM STREAM {quoted(self.queue)} {within}", (limit, *waiting[1:], *values)

    def ack(self, messages: Sequence[Message]) -> Iterator[Statement]:
        """Ack them."""
        return self._verb("ACK", messages)

    def nack(self, messages: Sequence[Message], reason: str, delay: float | None) -> Iterator[Statement]:
        """They failed, and come again after `delay` seconds, or after the queue's backoff."""
        later = (" REASON %s", (reason,)) if delay is None else (" DELAY %s REASON %s", (duration(delay), reason))
        return self._verb("NACK", messages, *later)

    def reject(self, messages: Sequence[Message], reason: str) -> Iterator[Statement]:
        """They go to the dead-letter queue."""
        return self._verb("REJECT", messages, " REASON %s", (reason,))

    def release(self, messages: Sequence[Message]) -> Iterator[Statement]:
        """They are given back, and the delivery does not count."""
        return self._verb("RELEASE", messages)

    def release_later(self, message: Message, delay: float) -> Statement:
        """It is given back, is due in `delay` seconds by the database's clock, and the delivery does not count."""
        column, number = message.delivery
        due = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + %s) * 1000"
        text = f"UPDATE {quoted(self.queue)} SET time_next = {due}, epoch = %s WHERE id = %s AND {column} = %s"
        return text, (round(delay * 1_000_000), message.epoch - 1, message.id, number)

    def renew(self, messages: Sequence[Message], seconds: float) -> Iterator[Statement]:
        """Their leases end that long from now."""
        return self._verb("RENEW", messages, " FOR %s", (duration(seconds),))

    def acked(self, message: Message) -> Statement:
        """Returns one row if this delivery of the message was acked."""
        column, number = message.delivery
        where = f"id = %s AND {column} = %s AND time_acked IS NOT NULL"
        return f"SELECT id FROM {quoted(self.queue)} WHERE {where}", (message.id, number)

    def _of_ring(self) -> tuple[list[str], list[str]]:
        """The options of its streams that choose messages by their place on the ring, and their values."""
        chosen = {"key_range": self.key_range, "keys": None if self.keys == SHARED_KEYS else self.keys}
        values = {name: value for name, value in chosen.items() if value is not None}
        return [f"{name} = %s" for name in values], list(values.values())

    def _verb(
        self, verb: str, messages: Sequence[Message], clauses: str = "", values: tuple[Any, ...] = ()
    ) -> Iterator[Statement]:
        """One statement for each token; most messages of one poll have the same one. With a list of ids the database
        locks only these rows."""
        by_delivery: dict[tuple[str, int], list[Any]] = {}
        for message in messages:
            by_delivery.setdefault(message.delivery, []).append(message.id)
        for (column, number), all_ids in by_delivery.items():
            for start in range(0, len(all_ids), _AT_ONCE_MAX):
                ids = all_ids[start : start + _AT_ONCE_MAX]
                where = "id = %s" if len(ids) == 1 else f"id IN ({', '.join(['%s'] * len(ids))})"
                text = f"{verb} {quoted(self.queue)} WHERE {where} AND {column} = %s{clauses}"
                yield text, (*ids, number, *values)


def ack_wait_of(create_queue: str) -> float | None:
    """The queue's `ack_wait` in seconds, from the output of SHOW CREATE QUEUE; None if it is not there."""
    match = _ACK_WAIT.search(create_queue.rpartition(") WITH (")[2])
    return seconds_of(match[1]) if match else None


def seconds_of(text: str) -> float:
    """A number of seconds, or a duration such as 500ms, 30s or 1h. Raises ValueError."""
    number, unit = re.fullmatch(r"(.*?)(ms|s|m|h|d)?", text, re.DOTALL).groups()  # type: ignore[union-attr]
    return float(number) * _UNITS[unit or "s"]

"""What a handler gets: one delivery of a message."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from queuegate_worker.errors import LeaseLost


class Cursor(Protocol):
    """The part of a DB-API cursor that an ack needs whose placeholders are `%s`."""

    @property
    def rowcount(self) -> int:
        """Rows that the last statement changed."""

    def execute(self, query: str, args: Any = ...) -> Any:
        """Run a statement."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What a handler has done with its message by a cursor of its own: `verb` is ACK, NACK or REJECT."""

    verb: str
    reason: str = ""


class Lease:
    """The state of one delivery, shared by worker and heartbeat. Its methods may be called from any thread."""

    def __init__(self, since: float = 0.0) -> None:
        self.since = since  # when it was last confirmed, by the monotonic clock
        self.settled_by_handler: Settled | None = None
        self.settling = False  # its row is locked by the handler's transaction: a renewal would wait for that
        self._lock = threading.Lock()
        self._lost = False
        self._on_lost: Callable[[], None] | None = None

    @property
    def lost(self) -> bool:
        """Whether the lease is known to be lost."""
        return self._lost

    def mark_lost(self) -> bool:
        """Mark it as lost and call the callback; whether it was not marked before."""
        with self._lock:
            is_new, self._lost = not self._lost, True
            callback = self._on_lost if is_new else None
        if callback is not None:
            callback()
        return is_new

    def watch(self, on_lost: Callable[[], None] | None) -> None:
        """Have `on_lost` called when the lease is lost, at once if it already is; None: no callback."""
        with self._lock:
            self._on_lost = on_lost
            already_lost = self._lost
        if already_lost and on_lost is not None:
            on_lost()


@dataclass(frozen=True, slots=True)
class Message:
    """One delivery. The queue's own columns are `message["payload"]` or `message.payload`.

    `epoch` is the number of the attempt, from 1 on; `lease_token` is identifies this delivery, 0 if the queue's
    table has no tokens. In a test, create one by `Message("orders", 7, 1, {"payload": "x"})`.
    """

    queue: str
    id: Any
    epoch: int
    columns: Mapping[str, Any] = field(default_factory=dict)
    lease: Lease = field(default_factory=Lease, repr=False, compare=False)
    ack_statement: str = field(default="", repr=False, compare=False)
    lease_token: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and name != "columns":
            try:
                return self.columns[name]
            except KeyError:
                pass
        raise AttributeError(f"the message has no column {name!r}")

    @property
    def delivery(self) -> tuple[str, int]:
        """The column that identifies this delivery of the message, and its value."""
        return ("lease_token", self.lease_token) if self.lease_token else ("epoch", self.epoch)

    @property
    def lost(self) -> bool:
        """Whether its lease is known to be lost: a long handler checks it and stops, because another receiver has the
        message."""
        return self.lease.lost

    def ack(self, cursor: Cursor) -> None:
        """Ack it with a cursor of your own, in your own transaction; the worker then sends no ack. Raises LeaseLost."""
        self._settle(cursor, Settled("ACK"))

    def nack(self, cursor: Cursor, reason: str) -> None:
        """As `ack`, but it failed: it comes again after the queue's backoff. Return from the handler after it."""
        self._settle(cursor, Settled("NACK", reason))

    def reject(self, cursor: Cursor, reason: str) -> None:
        """As `ack`, but it can never be handled: it goes to the dead letters. Return from the handler after it."""
        self._settle(cursor, Settled("REJECT", reason))

    def _settle(self, cursor: Cursor, settled: Settled) -> None:
        self.lease.settling = True
        values: tuple[Any, ...] = (self.id, self.delivery[1])
        statement = self.ack_statement
        if settled.verb != "ACK":
            statement = f"{settled.verb}{statement.removeprefix('ACK')} REASON %s"
            values = (*values, settled.reason)
        cursor.execute(statement, values)
        if cursor.rowcount != 1:
            raise LeaseLost(f"message {self.id!r} of {self.queue} is no longer held by this worker: roll back")
        self.lease.settled_by_handler = settled

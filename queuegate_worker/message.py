"""What a handler gets: one delivery of a message."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from queuegate_worker.errors import LeaseLost


class Cursor(Protocol):
    """What an ack needs of a DB-API cursor whose placeholders are `%s`."""

    @property
    def rowcount(self) -> int:
        """Rows that the last statement changed."""

    def execute(self, query: str, args: Any = ...) -> Any:
        """Run a statement."""


class Lease:
    """What worker and heartbeat know of one delivery. Its methods may be called from any thread."""

    def __init__(self, since: float = 0.0) -> None:
        self.since = since  # when it was last known to stand, by the monotonic clock
        self.acked_by_handler = False
        self.settling = False  # its row is locked by the handler's transaction: a renewal would wait for that
        self._lock = threading.Lock()
        self._lost = False
        self._when_lost: Callable[[], None] | None = None

    @property
    def lost(self) -> bool:
        """Whether the message is known to be somebody else's."""
        return self._lost

    def lose(self) -> bool:
        """Note that it is lost, and tell who watches; whether that is news."""
        with self._lock:
            news, self._lost = not self._lost, True
            tell = self._when_lost if news else None
        if tell is not None:
            tell()
        return news

    def watch(self, when_lost: Callable[[], None] | None) -> None:
        """Have `when_lost` called as it is lost, or at once where it is already; None: no more."""
        with self._lock:
            self._when_lost = when_lost
            late = self._lost
        if late and when_lost is not None:
            when_lost()


@dataclass(frozen=True, slots=True)
class Message:
    """One delivery. The queue's own columns are `message["payload"]` or `message.payload`.

    `epoch` is the number of the attempt, from 1 on; `lease_token` is this delivery's own name, 0 where the queue's
    table has none. For a test, `Message("orders", 7, 1, {"payload": "x"})` is one.
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
        """The column that tells this delivery from others of the message, and its value there."""
        return ("lease_token", self.lease_token) if self.lease_token else ("epoch", self.epoch)

    @property
    def lost(self) -> bool:
        """Whether its lease is known to be lost: a long handler looks at it and gives up, for another has it."""
        return self.lease.lost

    def ack(self, cursor: Cursor) -> None:
        """Ack it by a cursor of your own, in your own transaction; the worker then sends no ack. Raises LeaseLost."""
        self.lease.settling = True
        cursor.execute(self.ack_statement, (self.id, self.delivery[1]))
        if cursor.rowcount != 1:
            raise LeaseLost(f"message {self.id!r} of {self.queue} is no longer held by this worker: roll back")
        self.lease.acked_by_handler = True

"""MessageStore: what the engine asks of a database, in the engine's words. Implemented by sql_store.

Every method is one transaction or one read. A method that raises BackendUnavailable leaves the outcome unknown;
the caller must then treat a claim as not made and a settlement as not counted, and look at the table again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.model import Message, MessageId, MessageKey, QueueCatalog, QueueSpec


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at a queue found: due messages in delivery order, and when to look next.

    `more`: further messages are due than were asked for. `next_due_ns`: when the first message not yet due falls due,
    None when none waits. `now_ns`: the database's time of the look.
    """

    now_ns: int
    keys: tuple[MessageKey, ...]
    next_due_ns: int | None
    more: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim leased. Keys asked for and missing here were settled, rescheduled, leased elsewhere or locked."""

    now_ns: int
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """A lease to hand back: undone only where the row still holds exactly this lease."""

    id: MessageId
    due_ns: int
    lease_until_ns: int
    epoch: int


class MessageStore(Protocol):
    """The database as the engine sees it."""

    async def load_catalog(self, previous: QueueCatalog) -> QueueCatalog:
        """Every table that carries the queue mark, read afresh; `previous` itself when nothing has changed."""
        ...

    async def look(self, queue: QueueSpec, limit: int) -> Look:
        """Up to `limit` due, unacked messages in delivery order. Reads committed rows only, locks nothing."""
        ...

    async def claim(self, queue: QueueSpec, ids: Sequence[MessageId], delays_ns: Mapping[int, int]) -> Claim:
        """Lease those of `ids` that are still due and unacked: epoch + 1, time_next = now + delay of their epoch.

        `delays_ns` maps an epoch before the lease to its delay; its largest key stands for all above it. Rows locked by
        another transaction are passed over, not waited for. The leases are committed when this returns.
        """
        ...

    async def unsettled(self, queue: QueueSpec, ids: Sequence[MessageId]) -> set[MessageId]:
        """Those of `ids` that exist and are not acked."""
        ...

    async def release(self, queue: QueueSpec, leases: Sequence[Release], *, counted: bool) -> int:
        """Make leased messages due again at once, first in line. Not `counted` also takes the epoch back by one."""
        ...

    async def purge(self, queue: QueueSpec, limit: int) -> int:
        """Delete up to `limit` messages acked longer than purge_after ago; returns how many went."""
        ...

    async def close(self) -> None:
        """Release every connection. May be called twice."""
        ...

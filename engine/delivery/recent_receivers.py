"""RecentReceivers: how many clients receive from a queue, also between two results. Pure; time is an argument.

A worker that polls has no open stream while it handles its messages. It still counts as a receiver: it has a lease, or
has polled a moment ago.
"""

from __future__ import annotations

from collections.abc import Iterable

RECENT_SECONDS = 60.0
"""For so long after its last result a connection counts as a receiver. An idle worker polls every 30 s."""

CONNECTIONS_MAX = 10_000
"""Connections that are stored, those whose results ended last: 1 MB."""


class RecentReceivers:
    """See the module. For one queue; by the ids of connections."""

    def __init__(self) -> None:
        self._ended: dict[int, float] = {}  # in the order of the times

    def ended(self, connection_id: int, now: float) -> None:
        """A result of that connection has ended, and the connection goes on."""
        self._ended.pop(connection_id, None)
        self._ended[connection_id] = now
        if len(self._ended) > CONNECTIONS_MAX:
            del self._ended[next(iter(self._ended))]

    def gone(self, connection_id: int) -> None:
        """The connection has ended."""
        self._ended.pop(connection_id, None)

    def count(self, active: Iterable[int], now: float) -> int:
        """How many receive now. `active`: connections that have a stream open, or a message."""
        for connection_id, ended in list(self._ended.items()):
            if ended > now - RECENT_SECONDS:
                break
            del self._ended[connection_id]
        return len(self._ended.keys() | set(active))

"""The messages in flight: received and not settled. The heartbeat renews their leases. Used by all threads."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from queuegate_worker.message import Message


class InFlight:
    """Messages from their receipt until they are settled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: dict[int, Message] = {}

    def add(self, messages: Iterable[Message]) -> None:
        """Add received messages."""
        with self._lock:
            self._messages.update((id(message), message) for message in messages)

    def remove(self, messages: Iterable[Message]) -> None:
        """Remove messages that are settled or lost."""
        with self._lock:
            for message in messages:
                self._messages.pop(id(message), None)

    def __contains__(self, message: Message) -> bool:
        with self._lock:
            return id(message) in self._messages

    def __len__(self) -> int:
        with self._lock:
            return len(self._messages)

    def due(self, before: float) -> list[Message]:
        """Those whose lease was last confirmed before that time, without those that are lost or being settled."""
        with self._lock:
            return [m for m in self._messages.values() if m.lease.since < before and not (m.lost or m.lease.settling)]

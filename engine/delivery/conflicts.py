"""Conflicts: ids that a claim did not get, each excluded from the cache until its own doubling pause is over. Pure.

A row locked by a client's open transaction stays due, so without this every poll would return it again at once. An id
that was settled or leased elsewhere does no harm here: the next poll after its pause does not return it, and it is
removed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from engine.model.queue import MessageId

FIRST_PAUSE_SECONDS = 0.02  # about one short transaction
MAX_PAUSE_SECONDS = 1.0  # a message locked for long is late by at most this once the lock is gone
CONFLICTS_MAX = 10_000  # ten claims of locked rows; beyond it the oldest is removed, which costs a wasted claim
_OFFERED = 0.0  # the `until` of an id whose pause is over and that may be claimed again


class Conflicts:
    """See the module. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._entries: dict[MessageId, tuple[float, float]] = {}  # id -> (until, length of the last pause)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, id_: MessageId, now: float) -> None:
        """A claim at `now` did not get it."""
        _, last = self._entries.pop(id_, (0.0, 0.0))
        pause = min(last * 2, MAX_PAUSE_SECONDS) or FIRST_PAUSE_SECONDS
        if len(self._entries) >= CONFLICTS_MAX:
            del self._entries[next(iter(self._entries))]
        self._entries[id_] = (now + pause, pause)

    def remove(self, ids: Iterable[MessageId]) -> None:
        """These were claimed or settled."""
        if self._entries:
            for id_ in ids:
                self._entries.pop(id_, None)

    def blocks(self, id_: MessageId, now: float) -> bool:
        entry = self._entries.get(id_)
        return entry is not None and entry[0] > now

    def blocked(self, now: float) -> frozenset[MessageId]:
        """All that `blocks` is true of."""
        return frozenset(id_ for id_, (until, _) in self._entries.items() if until > now)

    def end_pauses(self) -> None:
        """A commit was reported, so locks may be gone. A pause that must be made again still doubles."""
        if self._entries:
            self._entries = {id_: (_OFFERED, pause) for id_, (_, pause) in self._entries.items()}

    def __contains__(self, id_: object) -> bool:
        return id_ in self._entries

    def polled(self, offered: Container[MessageId], now: float) -> None:
        """A poll at `now` returned these: of the ids whose pause was over, remove those that it did not return.

        A poll in pages reports all of them together, and the time at which it began: if an id were removed too early,
        its next pause would begin short again.
        """
        entries = {}
        for id_, (until, pause) in self._entries.items():
            if until > now:
                entries[id_] = (until, pause)
            elif id_ in offered:
                entries[id_] = (_OFFERED, pause)
        self._entries = entries

    def next_retry(self) -> float | None:
        """When the first of the current pauses ends."""
        return min((until for until, _ in self._entries.values() if until != _OFFERED), default=None)

    def clear(self) -> None:
        self._entries.clear()

"""Conflicts: ids that a claim did not get, each kept out of the cache until its own doubling pause is over. Pure.

A row locked by a client's open transaction stays due, so without this every look would offer it again at once. An id
that was settled or leased elsewhere does no harm here: the next look after its pause does not offer it, and it is
forgotten.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from engine.model.queue import MessageId

FIRST_PAUSE_SECONDS = 0.02  # about one short transaction
MOST_PAUSE_SECONDS = 1.0  # a message locked for long is late by at most this once the lock is gone
CONFLICTS_MAX = 10_000  # ten claims of locked rows; beyond it the oldest is forgotten, which costs a wasted claim
_OFFERED = 0.0  # the `until` of an id whose pause is over and that may be claimed again


class Conflicts:
    """See the module. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._entries: dict[MessageId, tuple[float, float]] = {}  # id -> (until, length of the last pause)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, id_: MessageId, now: float) -> None:
        """It was asked for at `now` and not given."""
        _, last = self._entries.pop(id_, (0.0, 0.0))
        pause = min(last * 2, MOST_PAUSE_SECONDS) or FIRST_PAUSE_SECONDS
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
        """A commit was heard, so locks may be gone. A pause that must be made again still doubles."""
        if self._entries:
            self._entries = {id_: (_OFFERED, pause) for id_, (_, pause) in self._entries.items()}

    def __contains__(self, id_: object) -> bool:
        return id_ in self._entries

    def looked(self, offered: Container[MessageId], now: float) -> None:
        """A look at `now` offered these: of the ids whose pause was over, forget those it no longer offers.

        What looks in pages tells of all of them together, and when it began: forgotten too early, a pause would begin
        short again.
        """
        entries = {}
        for id_, (until, pause) in self._entries.items():
            if until > now:
                entries[id_] = (until, pause)
            elif id_ in offered:
                entries[id_] = (_OFFERED, pause)
        self._entries = entries

    def next_retry(self) -> float | None:
        """When the first pause ends that is still being made."""
        return min((until for until, _ in self._entries.values() if until != _OFFERED), default=None)

    def clear(self) -> None:
        self._entries.clear()

"""Conflicts: ids that a claim did not get, each excluded from the cache until its own doubling pause is over. Pure.

A row locked by a client's open transaction stays due, so without this every poll would return it again at once. An id
that was settled or leased elsewhere does no harm here: the next poll after its pause does not return it, and it is
removed.

Where many rows are locked their pauses are longer, so that the claims that try them again leave time for what is behind
them: at most RETRIES_PER_SECOND claims. Where there are more than are stored, the receiver set rests (`rests_until`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from types import MappingProxyType

from engine.model.queue import MessageId

FIRST_PAUSE_SECONDS = 0.02  # about one short transaction
MAX_PAUSE_SECONDS = 1.0  # a message locked for long is late by at most this once the lock is gone, if few are locked
MANY_PAUSE_SECONDS = 30.0  # the same if many are
RETRIES_PER_SECOND = 100  # claims; each takes about 3 ms
CONFLICTS_MAX = 30_000  # 7 MB; a poll returns all of them again, in 60 ms
_FEW_SECONDS = 0.1  # locked rows that can all be tried in this time are tried after each commit
_OFFERED = 0.0  # the `until` of an id whose pause is over and that may be claimed again

NONE_REFUSED: Mapping[MessageId, float] = MappingProxyType({})


class Conflicts:
    """See the module. Times are monotonic seconds. `rests_until`: no claim is made before. `refused`: messages that the
    database refuses to lease, and until when each is not tried again, whatever is committed; of the whole queue."""

    def __init__(self, refused: Mapping[MessageId, float] = NONE_REFUSED) -> None:
        self._refused = refused
        self._entries: dict[MessageId, tuple[float, float]] = {}  # id -> (until, length of the last pause)
        self._first: float | None = None  # when the first pause ends; an earlier time where `_stale`
        self._stale = False
        self._claim_size = 1.0  # how many ids a claim does not get, where it gets none
        self._spread = 0.0  # for how long the claims that try all again are spread
        self._ended_at = float("-inf")
        self.rests_until = 0.0
        self.set_aside(refused)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, ids: Sequence[MessageId], now: float) -> None:
        """A claim that ended at `now` did not get these."""
        self._claim_size = max(len(ids), 0.9 * self._claim_size)
        claims = len(self._entries) / self._claim_size
        self._spread = min(claims / RETRIES_PER_SECOND, MANY_PAUSE_SECONDS)
        for id_ in ids:
            until, last = self._entries.pop(id_, (_OFFERED, 0.0))
            self._stale = self._stale or until != _OFFERED
            if len(self._entries) >= CONFLICTS_MAX:
                self.rests_until = now + MAX_PAUSE_SECONDS
                continue
            pause = min(last * 2, MAX_PAUSE_SECONDS) or FIRST_PAUSE_SECONDS
            until = now + max(pause, self._spread)
            self._entries[id_] = (until, pause)
            self._first = until if self._first is None else min(self._first, until)

    def set_aside(self, ids: Iterable[MessageId]) -> None:
        """The database refuses these, if they are among `refused`."""
        self._entries.update((id_, (self._refused[id_], MAX_PAUSE_SECONDS)) for id_ in ids if id_ in self._refused)
        self._stale = True

    def retry_refused(self) -> None:
        """Some of those that the database refuses are to be tried again sooner."""
        self.set_aside(self._refused.keys() & self._entries.keys())

    def remove(self, ids: Iterable[MessageId]) -> None:
        """These were claimed or settled."""
        if self._entries:
            for id_ in ids:
                if self._entries.pop(id_, None) is not None:
                    self._stale = True

    def blocks(self, id_: MessageId, now: float) -> bool:
        entry = self._entries.get(id_)
        return entry is not None and entry[0] > now

    def blocked(self, now: float) -> frozenset[MessageId]:
        """All that `blocks` is true of."""
        return frozenset(id_ for id_, (until, _) in self._entries.items() if until > now)

    def end_pauses(self, now: float) -> None:
        """A commit was reported, so locks may be gone. A pause that must be made again still doubles. Many are not
        tried again after each commit."""
        if self._entries and (self._spread <= _FEW_SECONDS or now >= self._ended_at + self._spread):
            self._entries = {id_: (_OFFERED, pause) for id_, (_, pause) in self._entries.items()}
            self._first, self._stale, self._ended_at = None, False, now
            self.set_aside(self._refused)

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
        self._entries, self._stale = entries, True

    def next_retry(self) -> float | None:
        """When the first of the current pauses ends; of many, when a part of them has ended, for a poll returns all."""
        if self._stale:
            self._first = min((until for until, _ in self._entries.values() if until != _OFFERED), default=None)
            self._stale = False
        if self._first is None or self._spread <= _FEW_SECONDS:
            return self._first
        return self._first + self._spread / 4

    def clear(self) -> None:
        self._entries.clear()
        self._first, self._stale, self._spread, self.rests_until = None, False, 0.0, 0.0
        self.set_aside(self._refused)

"""Refusals: messages of one queue that the database refuses to lease, each by itself. No await here.

A lease is an UPDATE. The server computes stored generated columns again then, checks CHECKs and runs triggers, and one
of these may refuse a row that an INSERT in another mode, or before them, has let pass. A claim of several messages
fails as a whole, so the claims become smaller until such a message is alone (ClaimSize). It is set aside here, and the
others are delivered.

It is tried again after a pause that doubles. Where many are refused one after the other and none is leased in between,
it is not the messages: all deliveries of the queue pause, as in any other trouble with the database.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from engine.clock import Clock
from engine.model.errors import BackendError
from engine.model.identity import id_text
from engine.model.queue import MessageId, QueueName

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 60.0, 600.0
IN_A_ROW_MAX = 100
REFUSED_MAX = 1000  # messages that are stored here

SHOWN_MAX = 10  # ids, which may have a thousand bytes each
_TEXT_MAX = 200  # characters of an error
_LOGGED_MAX = 10  # messages that are refused at the same time
_STALE_SECONDS = 60.0  # after its pause a message that waits is tried again; one that is not has ended


class Refusals:
    """See the module. `until`: when each is tried again, in monotonic seconds."""

    def __init__(self, queue: QueueName, clock: Clock, logger: logging.Logger) -> None:
        self._queue, self._clock, self._logger = queue, clock, logger
        self.until: dict[MessageId, float] = {}
        self._known: dict[MessageId, tuple[float, str]] = {}  # the length of the last pause, and the error
        self._in_a_row = 0

    def refuse(self, id_: MessageId, error: BackendError) -> bool:
        """The database refuses to lease this one alone; whether the others are to be tried at once. It is in `until`
        from now on, if there is room."""
        self._drop_stale()
        known = self._known.get(id_)
        if known is None:
            self._in_a_row += 1
            if len(self._known) >= REFUSED_MAX:
                return False
            if len(self._known) < _LOGGED_MAX:
                text = "%s: message %r cannot be leased and is set aside; the others are delivered: %s"
                self._logger.error(text, self._queue, id_, error)
        pause = FIRST_PAUSE_SECONDS if known is None else min(2 * known[0], MAX_PAUSE_SECONDS)
        self._known[id_] = pause, str(error)
        self.until[id_] = self._clock.monotonic() + pause
        return known is not None or self._in_a_row <= IN_A_ROW_MAX

    def leased(self, ids: Iterable[MessageId]) -> None:
        """These were leased, so the database leases some."""
        self._in_a_row = 0
        self.end(ids)

    def end(self, ids: Iterable[MessageId]) -> None:
        """These are not refused any more, or have ended."""
        for id_ in ids:
            if self._known.pop(id_, None) is not None:
                del self.until[id_]

    def clear(self) -> None:
        """The queue has changed: perhaps none is refused now."""
        self._in_a_row = 0
        self._known.clear()
        self.until.clear()

    def shown(self) -> tuple[tuple[str, str], ...]:
        """The first of them, as text, each with the database's error; without values of the row."""
        if not self._known:
            return ()
        self._drop_stale()
        return tuple((id_text(id_), self._known[id_][1][:_TEXT_MAX]) for id_ in list(self._known)[:SHOWN_MAX])

    def _drop_stale(self) -> None:
        oldest = self._clock.monotonic() - _STALE_SECONDS
        stale = [id_ for id_, until in self.until.items() if until < oldest]
        for id_ in stale:
            del self._known[id_], self.until[id_]

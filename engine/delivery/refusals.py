"""Refusals: messages of one queue that the database refuses to lease, each by itself. No await here.

A lease is an UPDATE. The server computes stored generated columns again then, checks CHECKs and runs triggers, and one
of these may refuse a row that an INSERT in another mode, or before them, has let pass. A claim of several messages
fails as a whole, so the claims become smaller until such a message is alone (ClaimSize). It is set aside here, and the
others are delivered.

It is tried again after a pause that doubles. But several that are refused one after the other with the same error may
be without a fault: a trigger fails for a while. So one of them, the probe, is tried again every few seconds, and as
soon as any message is leased all of the row are tried again, each once. Where many are refused one after the other,
perhaps it is not the messages. A few of those behind are tried still, in a binary search for one that can be leased;
then all deliveries of the queue pause, as in any other trouble with the database, until one is leased.

So it is where a trigger waits for what another transaction has locked. That takes seconds, so a few such are many, and
each is tried again every half minute.

Of a bounded number the error is known. Beyond it a message is only set aside, for half a minute each time.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from engine.clock import Clock
from engine.delivery.conflicts import CONFLICTS_MAX, MANY_PAUSE_SECONDS
from engine.model.errors import BackendError
from engine.model.identity import id_text
from engine.model.queue import MessageId, QueueName

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 60.0, 600.0
SEVERAL = 3  # refused in a row
PROBE_SECONDS = 5.0
IN_A_ROW_MAX = 100
REFUSED_MAX = 1000  # messages of which the error is known

SHOWN_MAX = 10  # ids, which may have a thousand bytes each
_TEXT_MAX = 200  # characters of an error
_LOGGED_MAX = 10  # messages that are refused at the same time
_STALE_SECONDS = 60.0  # after its pause a message that waits is tried again; one that is not has ended


@dataclass(slots=True)
class _Refused:
    """A message that is set aside: the length of its last pause, and the error. `retried`: it was tried again because a
    row ended with a lease."""

    pause: float
    error: str
    retried: bool = False


@dataclass(slots=True)
class _Row:
    """What was refused since the last lease. `new`: messages of which it was not known. `ids`: the last of them, with
    the same error; `probe` is one of these."""

    new: int = 0
    error: str = ""
    ids: set[MessageId] = field(default_factory=set)
    probe: MessageId | None = None

    def add(self, id_: MessageId, error: str) -> None:
        if error != self.error:
            self.error, self.ids, self.probe = error, set(), None
        self.ids.add(id_)
        if self.probe not in self.ids and len(self.ids) >= SEVERAL:
            self.probe = id_


class Refusals:
    """See the module. `until`: when each is tried again, in monotonic seconds."""

    def __init__(self, queue: QueueName, clock: Clock, logger: logging.Logger) -> None:
        self._queue, self._clock, self._logger = queue, clock, logger
        self.until: dict[MessageId, float] = {}
        self._known: dict[MessageId, _Refused] = {}
        self._row = _Row()

    def refuse(self, id_: MessageId, error: BackendError) -> bool:
        """The database refuses to lease this one alone; whether the others are to be tried at once. It is in `until`
        from now on, if there is room."""
        self._drop_stale()
        known, locked = self._known.get(id_), error.of_rows
        if locked:
            self._row.new += IN_A_ROW_MAX // SEVERAL
        if known is None:
            self._row.new += not locked
            if len(self._known) >= REFUSED_MAX:
                self.skip((id_,), MANY_PAUSE_SECONDS)
                return id_ in self.until and not self.trouble
            if len(self._known) < _LOGGED_MAX:
                text = "%s: message %r cannot be leased and is set aside: %s"
                self._logger.error(text, self._queue, id_, error)
        pause = FIRST_PAUSE_SECONDS if known is None else min(2 * known.pause, MAX_PAUSE_SECONDS)
        pause = MANY_PAUSE_SECONDS if locked else pause
        self._known[id_] = _Refused(pause, str(error), locked or (known is not None and known.retried))
        self._row.add(id_, str(error))
        probes = id_ == self._row.probe and not locked
        self.until[id_] = self._clock.monotonic() + (PROBE_SECONDS if probes else pause)
        return not self.trouble or (known is not None and not locked)

    def skip(self, ids: Sequence[MessageId], seconds: float = PROBE_SECONDS) -> None:
        """These are tried later, as far as there is room for them."""
        until = self._clock.monotonic() + seconds
        self.until.update((id_, until) for id_ in ids[: max(CONFLICTS_MAX - len(self.until), 0)])

    @property
    def trouble(self) -> bool:
        """It is not the messages, and none has been leased since."""
        return self._row.new > IN_A_ROW_MAX and bool(self.until)

    def leased(self, ids: Collection[MessageId]) -> bool:
        """These were leased, so the database leases some. Whether others are to be tried again because of that."""
        if not ids or not self.until:
            return False
        row, self._row = self._row, _Row()
        self.end(ids)
        again = [id_ for id_ in row.ids if id_ in self._known and not self._known[id_].retried]
        if len(row.ids) < SEVERAL or not again:
            return False
        now = self._clock.monotonic()
        for id_ in again:
            self._known[id_] = _Refused(FIRST_PAUSE_SECONDS / 2, self._known[id_].error, retried=True)
            self.until[id_] = now
        return True

    def end(self, ids: Iterable[MessageId]) -> None:
        """These are not refused any more, or have ended."""
        for id_ in ids:
            if self.until.pop(id_, None) is not None:
                self._known.pop(id_, None)
                self._row.ids.discard(id_)

    def clear(self) -> None:
        """The queue has changed: perhaps none is refused now."""
        self._row = _Row()
        self._known.clear()
        self.until.clear()

    def shown(self) -> tuple[tuple[str, str], ...]:
        """The first of them, as text, each with the database's error; without values of the row."""
        if not self._known:
            return ()
        self._drop_stale()
        return tuple((id_text(id_), self._known[id_].error[:_TEXT_MAX]) for id_ in list(self._known)[:SHOWN_MAX])

    def _drop_stale(self) -> None:
        oldest = self._clock.monotonic() - _STALE_SECONDS
        stale = [id_ for id_, until in self.until.items() if until < oldest]
        self.end(stale)

"""QueueCommits: what committed transactions did to messages of a queue, applied to all that is known of it here.

Invariant: what a commit ended is not handed out any more, wherever it waits: in a cache, in a claim that runs, or in
flight. Where it is not known which messages a commit ended, all that is known counts as uncertain, and the table is
read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.delivery.context import DeliveryHost, QueueContext
from engine.delivery.passes import PassTimes
from engine.delivery.queue_leases import QueueLeases
from engine.delivery.receiver_sets import ReceiverSets
from engine.model.commit_report import Postponement
from engine.model.identity import IdKind, all_normalised, id_kind
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import MessageId, QueueSpec


class QueueCommits:
    """See the module."""

    def __init__(
        self,
        queue: QueueSpec,
        context: QueueContext,
        leases: QueueLeases,
        sets: ReceiverSets,
        host: DeliveryHost,
        times: PassTimes,
    ) -> None:
        self._metrics, self._leases, self._sets, self._host, self._times = context.metrics, leases, sets, host, times
        self.reconfigure(queue)

    def reconfigure(self, queue: QueueSpec) -> None:
        """The queue's options or columns changed."""
        self._queue = queue
        self._kind = id_kind(next(column for column in queue.columns if column.name.lower() == "id"))

    def _known(self, ids: Iterable[MessageId]) -> list[MessageId]:
        """Those that can be ids of this queue."""
        return [id_ for id_ in all_normalised(self._kind, ids) if id_ is not None]

    def settled(self, ids: Sequence[MessageId], *, here: bool = True) -> None:
        """A commit ended these messages; `here`: by a client of this engine, not of a neighbour."""
        known = self._known(ids)
        idle_awaited = self._sets.waits_for_idle_receiver
        waited = sum([receiver_set.settled(known) for receiver_set in self._sets])
        freed = self._leases.settled(known)
        hits = waited + freed.leases
        self._metrics.settled_seen += hits
        # With the column's collation 'A' and 'a' may be the same message: only the table knows.
        unsure = len(known) < len(ids) or (hits < len(known) and self._kind is not IdKind.INTEGER)
        if unsure and here:
            self.uncertain()
        elif self._sets.subscriptions and (
            waited or (hits and freed.window) or idle_awaited or freed.alone or self._queue.options.waits_for_settlement
        ):
            self._host.wake()

    def changed(self, ids: Sequence[MessageId], *, renewed: bool, here: bool = True, until_known: bool = True) -> None:
        """A commit renewed the leases of these messages, or else perhaps gave them up; `here` as in `settled`. Not
        `until_known`: they may end sooner now."""
        at_once = not (renewed and until_known)
        in_flight = self._leases.changed(self._known(ids), renewed=renewed, at_once=at_once)
        if here and in_flight < len(ids) and self._kind is not IdKind.INTEGER:
            self.uncertain()
        if not renewed and self._queue.options.on_failure == "skip":
            self.overdue()  # the next of its key may go, which fell due before
        if at_once and (in_flight or not renewed):
            self._host.wake()

    def ends_sooner(self, ids: Sequence[MessageId], reported: Postponement) -> bool | None:
        """Whether a lease of these, which a commit has renewed, now ends before it would have ended; from now on its
        earlier end is the known one. None: not all of them are leased by this engine."""
        known, in_flight = self._known(ids), self._leases.in_flight
        end = reported.sent_at + reported.delay_ns / NS_PER_SECOND
        sooner = in_flight.shorten(known, end)
        return sooner if len(known) == len(ids) and all(id_ in in_flight for id_ in known) else None

    def overdue(self) -> None:
        """A commit lets messages be delivered that fell due before it. The caller also calls `touched`."""
        for receiver_set in self._sets:
            receiver_set.messages.request_poll()

    def may_be_spent(self, ids: Iterable[MessageId]) -> bool:
        """Whether one of these, whose leases a commit has ended, may have no attempts left, and so be set aside."""
        return bool(self._queue.options.max_attempts) and self._leases.may_be_spent(self._queue, self._known(ids))

    def postponed(self, ids: Sequence[MessageId], reported: Postponement) -> bool:
        """A commit postponed all these messages. False, and nothing is done, where the table has to be read: the caller
        then calls `changed` and `touched`. That is so while a pass may claim one of them."""
        known = self._known(ids)
        if self._times.began is not None or len(known) < len(ids) or self._queue.options.waits_for_settlement:
            return False
        frees = self._leases.may_free(known) or self._sets.waits_for_idle_receiver
        if (due := self._leases.postponed(self._queue, known, reported)) is None:
            return False
        self._host.note_due(due)
        if frees:
            self._host.wake()
        else:
            self._times.wake_before(due)
        return True

    def uncertain(self) -> None:
        """A commit may have ended some messages."""
        for receiver_set in self._sets:
            receiver_set.uncertain()
        self._leases.uncertain()
        self._host.wake()

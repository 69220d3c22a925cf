"""Settlement: acks, rejections and renewed leases of one connection's deliveries. Any thread may settle.

Raises AMQP's errors.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from amqp.exceptions import ChannelError, NotFound

from queuegate_celery.connection import SqlConnection
from queuegate_celery.messages import Delivery, Incoming, Unreadable, delivery_of, incoming
from queuegate_celery.mysql_client.packets import Row
from queuegate_celery.settings import Address, Settings
from queuegate_celery.sql import escaped, quoted
from queuegate_celery.unsettled import UNSENT_ACKS, Deliveries, Unsettled, conditions

logger = logging.getLogger(__name__)


class Settlement:
    """See the module. `unsettled`: the deliveries, by tag."""

    def __init__(self, db: SqlConnection, address: Address, settings: Settings) -> None:
        self._db, self._address, self._settings = db, address, settings
        self.unsettled = Unsettled()
        self._lock = threading.RLock()  # no lease is renewed between the decision to settle and the statement

    def send_acks(self) -> None:
        """Sends the acks of this connection, and those left by ended connections of this process."""
        unsent = UNSENT_ACKS.take(self._address)
        if not unsent and not self.unsettled.has_acks:
            return
        with self._lock:
            acks = self.unsettled.take_acks()
            for table, ids in unsent.items():
                acks.setdefault(table, []).extend(ids)
            try:
                self._settle("ACK", acks)
            except Exception:
                UNSENT_ACKS.add(self._address, acks)
                raise

    def release(self, ids: Deliveries) -> None:
        """Gives them back: due at once, and the delivery does not count."""
        with self._lock:
            self._settle("RELEASE", ids)

    def requeue(self, tags: Iterable[int]) -> None:
        """Requeues: a failed attempt, which comes again after the queue's backoff, so that a task that kills its worker
        each time loops neither at full speed nor endlessly. With count_requeues=False the same as `release`."""
        with self._lock:
            ids = self.unsettled.settle(tags)
            if self._settings.count_requeues:
                self._settle("NACK", ids, " REASON 'requeued by the consumer'")
            else:
                self._settle("RELEASE", ids)

    def reject(self, tags: Iterable[int], reason: str = "rejected by the consumer") -> None:
        """Moves them to the dead letters."""
        with self._lock:
            self._settle("REJECT", self.unsettled.settle(tags), self._db.mogrify(" REASON %s", (reason,)))

    def renew(self) -> None:
        """Renews all leases, for their full length from now."""
        with self._lock:
            self._settle("RENEW", self.unsettled.all(), f" FOR '{self._settings.lease_seconds:d}s'")

    def readable(self, table: str, rows: Iterable[Row]) -> list[Incoming]:
        """The readable messages. The others go to the dead letters, with the reason."""
        messages: list[Incoming] = []
        for row in rows:
            try:
                messages.append(incoming(row))
            except Unreadable as error:
                logger.error("message %d of %s is set aside: %s", error.id, table, error.reason)
                self._reject_unreadable(table, delivery_of(row), error)
        return messages

    def _reject_unreadable(self, table: str, delivery: Delivery, error: Unreadable) -> None:
        with self._lock:
            try:
                for condition in conditions([delivery]):
                    self._db.execute(f"REJECT {escaped(table)} WHERE {condition} REASON %s", (error.reason,))
            except NotFound:
                pass  # the queue was dropped
            except ChannelError as refused:  # a dead-letter queue has no dead letters
                logger.error("message %d of %s stays, and comes again: %s", error.id, table, refused)

    def ack_now(self, deliveries: Deliveries) -> None:
        """Acks what is not handed to a consumer that acks."""
        with self._lock:
            self._settle("ACK", deliveries)

    def _settle(self, verb: str, deliveries: Deliveries, tail: str = "") -> None:
        for table, each in deliveries.items():
            try:
                for condition in conditions(each):
                    self._db.execute(f"{verb} {quoted(table)} WHERE {condition}{tail}")
            except NotFound:
                pass  # the queue was dropped, and its messages with it

"""Settlement: acks, rejections and renewed leases of one connection's deliveries. Any thread may settle.

Raises AMQP's errors.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial

from amqp.exceptions import ChannelError, NotFound

from queuegate_celery.connection import SqlConnection
from queuegate_celery.errors import RETRY_SECONDS, Unavailable
from queuegate_celery.messages import Incoming, Unreadable, delivery_of, incoming
from queuegate_celery.mysql_client.driver import quoted
from queuegate_celery.mysql_client.packets import Row
from queuegate_celery.settings import Address, Settings
from queuegate_celery.unsettled import UNSENT_ACKS, Deliveries, Unsettled, conditions

logger = logging.getLogger(__name__)

_LATER = "1h"


class Settlement:
    """See the module. `unsettled`: the deliveries, by tag.

    While the database is unavailable nothing is raised: acks and other settlements are sent again after a pause.
    """

    def __init__(
        self, db: SqlConnection, address: Address, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._db, self._address, self._settings, self._clock = db, address, settings, clock
        self.unsettled = Unsettled()
        self._put_off: list[Callable[[], None]] = []
        self._retry_at = 0.0  # 0: nothing has failed
        self._lock = threading.RLock()  # no lease is renewed between the decision to settle and the statement

    def send_acks(self, *, pauses: bool = True) -> bool:
        """Sends the acks of this connection, those left by ended connections of this process, and the settlements that
        were put off. False: the database is unavailable, and they are to be sent again after RETRY_SECONDS, or before
        that with pauses=False."""
        if pauses and self._clock() < self._retry_at:
            return False
        unsent = UNSENT_ACKS.take(self._address)
        if not unsent and not self.unsettled.has_acks and not self._put_off:
            return True
        with self._lock:
            acks, is_sent = self.unsettled.take_acks(), False
            for table, ids in unsent.items():
                acks.setdefault(table, []).extend(ids)
            try:
                is_sent = self._attempt(partial(self._settle, "ACK", acks))
            finally:
                if not is_sent:
                    UNSENT_ACKS.add(self._address, acks)
            put_off, self._put_off = self._put_off, []
            for settle in put_off:
                self._settle_or_put_off(settle)
            is_sent = is_sent and not self._put_off
            if is_sent:
                self._retry_at = 0.0
            return is_sent

    def is_settled(self, consumer: object) -> bool:
        """Whether it has no unsettled deliveries, and no settlement waits to be sent."""
        with self._lock:
            return not (self.unsettled.count(consumer) or self.unsettled.has_acks or self._retry_at)

    def release(self, ids: Deliveries) -> None:
        """Gives them back: due at once, and the delivery does not count."""
        with self._lock:
            self._settle_or_put_off(partial(self._settle, "RELEASE", ids))

    def requeue(self, tags: Iterable[int]) -> None:
        """Requeues: a failed attempt, which comes again after the queue's backoff, so that a task that kills its worker
        each time loops neither at full speed nor endlessly. With count_requeues=False the same as `release`."""
        with self._lock:
            ids = self.unsettled.settle(tags)
            if self._settings.count_requeues:
                self._settle_or_put_off(partial(self._settle, "NACK", ids, " REASON 'requeued by the consumer'"))
            else:
                self.release(ids)

    def reject(self, tags: Iterable[int], reason: str = "rejected by the consumer") -> None:
        """Moves them to the dead letters."""
        with self._lock:
            self._settle_or_put_off(partial(self._dead_letter, self.unsettled.settle(tags), reason))

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
                with self._lock:
                    settle = partial(self._dead_letter, {table: [delivery_of(row)]}, error.reason)
                    self._settle_or_put_off(settle)
        return messages

    def ack_now(self, deliveries: Deliveries) -> None:
        """Acks what is not handed to a consumer that acks."""
        UNSENT_ACKS.add(self._address, deliveries)
        self.send_acks()

    def _settle_or_put_off(self, settle: Callable[[], None]) -> None:
        if not self._attempt(settle):
            self._put_off.append(settle)

    def _attempt(self, settle: Callable[[], None]) -> bool:
        """False: the database is unavailable."""
        try:
            settle()
        except Unavailable as error:
            if not self._retry_at:
                logger.warning("acks and other settlements are sent again each second: %s", error)
            self._retry_at = self._clock() + RETRY_SECONDS
            return False
        return True

    def _dead_letter(self, deliveries: Deliveries, reason: str) -> None:
        """Where messages have no dead letters, such as in a dead-letter queue, they come again later."""
        tail = self._db.mogrify(" REASON %s", (reason,))
        for table, each in deliveries.items():
            try:
                self._settle("REJECT", {table: each}, tail)
            except ChannelError as error:
                logger.error("%d rejected messages of %s come again in %s: %s", len(each), table, _LATER, error)
                self._settle("NACK", {table: each}, f" DELAY '{_LATER}'{tail}")

    def _settle(self, verb: str, deliveries: Deliveries, tail: str = "") -> None:
        for table, each in deliveries.items():
            try:
                for condition in conditions(each):
                    self._db.execute(f"{verb} {quoted(table)} WHERE {condition}{tail}")
            except NotFound:
                pass  # the queue was dropped, and its messages with it

"""Queues created, counted, emptied and dropped."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from amqp.exceptions import AccessRefused, NotFound, PreconditionFailed

from queuegate_celery.connection import SqlConnection
from queuegate_celery.messages import COLUMNS, DEFINITIONS
from queuegate_celery.mysql_client.driver import escaped, quoted
from queuegate_celery.settings import QUEUE_OPTIONS, Settings

logger = logging.getLogger(__name__)

COUNT_MAX = 100_000
"""The count is exact up to here: a queue is counted each time it is declared."""

# The end of a lease ends with 001 or 003; what a dead receiver had ends with 002, and waits. The function MOD, because
# sql_mode ORACLE has no such operator.
_LEASED = "MOD(time_next, 1000) IN (1, 3) AND time_next > UNIX_TIMESTAMP() * 1000000000"
_SET_ASIDE = (1 << 63) - 2  # rejected; the next number: parked
_WAITING = f"time_acked IS NULL AND (time_next IS NULL OR time_next < {_SET_ASIDE} AND NOT ({_LEASED}))"
_IGNORED = frozenset({"x-max-priority", "x-queue-type", "x-queue-mode", "x-queue-version"})
"""Arguments of RabbitMQ that have no effect: a queue is like that anyway."""

_REFUSED: Mapping[str, str] = {
    "x-message-ttl": "give each task `expires`",
    "x-expires": "drop the queue when it is not needed",
    "x-max-length": "a queue has no bound",
    "x-max-length-bytes": "a queue has no bound",
    "x-overflow": "a queue has no bound",
    "x-dead-letter-exchange": "dead letters go to the queue's own dead-letter queue; ALTER QUEUE ... SET (dead_letter)",
    "x-dead-letter-routing-key": "see x-dead-letter-exchange",
    "x-single-active-consumer": "ALTER QUEUE ... SET (order_key = '*')",
}


class Queues:
    """The queues of one database."""

    def __init__(self, db: SqlConnection, settings: Settings) -> None:
        self._db, self._settings = db, settings
        self._tokens: dict[str, bool] = {}

    def table(self, queue: str) -> str:
        """The name of a queue's table."""
        return self._settings.queue_prefix + queue

    def declare(self, queue: str, arguments: Mapping[str, Any], passive: bool) -> int:
        """Creates it if it is missing; returns how many messages wait. Raises NotFound with `passive` if it is
        missing."""
        table, options = self.table(queue), self.options(queue, arguments)
        try:
            self._check(table)
        except NotFound:
            if passive:
                raise
            self._create(table, options)
            self._check(table)
        except AccessRefused:
            return 0  # an account that may only enqueue; its INSERT fails if the queue does not exist
        return self.count(queue)

    def options(self, queue: str, arguments: Mapping[str, Any]) -> dict[str, object]:
        """The WITH options of a new queue. Raises PreconditionFailed for an unsupported argument."""
        lease = self._settings.lease_seconds
        options: dict[str, object] = {**QUEUE_OPTIONS, "ack_wait": f"{lease}s", **self._settings.queue_options}
        for name, value in arguments.items():
            if name in _REFUSED:
                raise PreconditionFailed(f"queue {queue!r}: argument {name} is not supported; {_REFUSED[name]}")
            if name == "x-delivery-limit":
                options["max_attempts"] = _whole(queue, name, value)
            elif name not in _IGNORED:
                if name.startswith("x-"):
                    raise PreconditionFailed(f"queue {queue!r}: argument {name} is not known")
                options[name] = value
        return options

    def count(self, queue: str) -> int:
        """How many messages wait, scheduled ones included; COUNT_MAX: that many or more."""
        waiting = f"SELECT 1 AS one FROM {quoted(self.table(queue))} WHERE {_WAITING} LIMIT {COUNT_MAX}"
        return int(self._db.rows(f"SELECT COUNT(*) FROM ({waiting}) AS waiting")[0][0])

    def purge(self, queue: str) -> int:
        """Deletes waiting messages; returns how many. Messages leased by workers stay."""
        return self._db.execute(f"DELETE FROM {quoted(self.table(queue))} WHERE {_WAITING}")

    def drop(self, queue: str) -> None:
        self._db.execute(f"DROP QUEUE IF EXISTS {quoted(self.table(queue))}")

    def in_use(self, queue: str) -> bool:
        """Whether it has receivers. One whose prefetch is used up does not poll, and has messages."""
        leased = f"SELECT 1 AS one FROM {quoted(self.table(queue))} WHERE time_acked IS NULL AND {_LEASED} LIMIT 1"
        rows = self._db.rows("SHOW SUBSCRIPTIONS")
        return any(row[0] == self.table(queue) for row in rows) or bool(self._db.rows(leased))

    def _check(self, table: str) -> None:
        """Opens a stream of no messages: checks that it exists, is a queue, and has the columns of Celery's
        messages."""
        self._db.rows(f"SELECT {', '.join(('id', *COLUMNS))} FROM STREAM {quoted(table)} LIMIT 0")

    def has_tokens(self, table: str) -> bool:
        """Whether its deliveries have lease tokens: an older table may lack the column. Queried once."""
        if table not in self._tokens:
            try:
                self._db.rows(f"SELECT lease_token FROM STREAM {quoted(table)} LIMIT 0")
                self._tokens[table] = True
            except PreconditionFailed:
                self._tokens[table] = False
        return self._tokens[table]

    def _create(self, table: str, options: Mapping[str, object]) -> None:
        assignments = ", ".join(f"{_name(name)} = %s" for name in options)
        self._db.execute(
            f"CREATE QUEUE IF NOT EXISTS {escaped(table)} ({DEFINITIONS}) WITH ({assignments})", tuple(options.values())
        )
        logger.info("queue %s was created", table)


def _whole(queue: str, name: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise PreconditionFailed(f"queue {queue!r}: argument {name} is {value!r}: give a whole number") from error


def _name(option: str) -> str:
    """Checks that an option's name is a plain word, so that no other text gets into a statement."""
    if not (option.isascii() and option.replace("_", "a").isalnum()):
        raise PreconditionFailed(f"{option!r} is no option of a queue")
    return option

"""Queues created, counted, emptied and dropped."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from amqp.exceptions import AccessRefused, NotFound, PreconditionFailed

from queuegate_celery.line import Line
from queuegate_celery.messages import COLUMNS, DEFINITIONS
from queuegate_celery.settings import QUEUE_OPTIONS, Settings
from queuegate_celery.sql import placed, quoted

logger = logging.getLogger(__name__)

COUNT_MAX = 100_000
"""Counted exactly up to here: a queue is counted each time it is declared."""

_WAITING = "time_acked IS NULL AND time_next MOD 1000 = 0"  # a lease ends in 001, what is set aside in 806 or 807
_TAKEN = frozenset({"x-max-priority", "x-queue-type", "x-queue-mode", "x-queue-version"})
"""Arguments of RabbitMQ that ask for what a queue is anyway."""

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
    """Those of one database."""

    def __init__(self, line: Line, settings: Settings) -> None:
        self._line, self._settings = line, settings
        self._tokens: dict[str, bool] = {}

    def table(self, queue: str) -> str:
        """The name of a queue's table."""
        return self._settings.queue_prefix + queue

    def declare(self, queue: str, arguments: Mapping[str, Any], passive: bool) -> int:
        """Makes it where it is missing; how many messages wait there. Raises NotFound for one that is to be there."""
        table, options = self.table(queue), self.options(queue, arguments)
        try:
            self._look(table)
        except NotFound:
            if passive:
                raise
            self._create(table, options)
            self._look(table)
        except AccessRefused:
            return 0  # an account that may only enqueue; it finds out by the INSERT whether the queue is there
        return self.count(queue)

    def options(self, queue: str, arguments: Mapping[str, Any]) -> dict[str, object]:
        """What a new queue is made WITH. Raises PreconditionFailed for an argument that cannot be had."""
        lease = self._settings.lease_seconds
        options: dict[str, object] = {**QUEUE_OPTIONS, "ack_wait": f"{lease}s", **self._settings.queue_options}
        for name, value in arguments.items():
            if name in _REFUSED:
                raise PreconditionFailed(f"queue {queue!r}: argument {name} is not supported; {_REFUSED[name]}")
            if name == "x-delivery-limit":
                options["max_attempts"] = int(value)
            elif name not in _TAKEN:
                if name.startswith("x-"):
                    raise PreconditionFailed(f"queue {queue!r}: argument {name} is not known")
                options[name] = value
        return options

    def count(self, queue: str) -> int:
        """How many messages wait, scheduled ones included; COUNT_MAX means that or more."""
        waiting = f"SELECT 1 AS one FROM {quoted(self.table(queue))} WHERE {_WAITING} LIMIT {COUNT_MAX}"
        return int(self._line.rows(f"SELECT COUNT(*) FROM ({waiting}) AS waiting")[0][0])

    def purge(self, queue: str) -> int:
        """Deletes the messages that wait; how many they were. What workers hold stays theirs."""
        return self._line.execute(f"DELETE FROM {quoted(self.table(queue))} WHERE {_WAITING}")

    def drop(self, queue: str) -> None:
        self._line.execute(f"DROP QUEUE IF EXISTS {quoted(self.table(queue))}")

    def used(self, queue: str) -> bool:
        """Whether somebody receives from it."""
        return any(row[0] == self.table(queue) for row in self._line.rows("SHOW SUBSCRIPTIONS"))

    def _look(self, table: str) -> None:
        """A stream of no messages: the queue is there, is one, and has our columns."""
        self._line.rows(f"SELECT {', '.join(('id', *COLUMNS))} FROM STREAM {quoted(table)} LIMIT 0")

    def has_tokens(self, table: str) -> bool:
        """Whether its deliveries have lease tokens: an older table may lack the column. Asked once."""
        if table not in self._tokens:
            try:
                self._line.rows(f"SELECT lease_token FROM STREAM {quoted(table)} LIMIT 0")
                self._tokens[table] = True
            except PreconditionFailed:
                self._tokens[table] = False
        return self._tokens[table]

    def _create(self, table: str, options: Mapping[str, object]) -> None:
        given = ", ".join(f"{_name(name)} = %s" for name in options)
        self._line.execute(
            f"CREATE QUEUE IF NOT EXISTS {placed(table)} ({DEFINITIONS}) WITH ({given})", tuple(options.values())
        )
        logger.info("queue %s was created", table)


def _name(option: str) -> str:
    """Options are words; anything else would be a text of somebody's in a statement."""
    if not (option.isascii() and option.replace("_", "a").isalnum()):
        raise PreconditionFailed(f"{option!r} is no option of a queue")
    return option

"""Exchanges, which are nothing but their bindings: rows of a table, so that all processes agree.

A binding of a queue that stays leads to the queue's name. Queues that are exclusive or deleted by themselves (remote
control, replies, events, Broadcast) have no table: what is published to their exchange is inserted into one topic, and
each of them is a stream of it in broadcast mode. So that nothing is written for an exchange that nobody listens to,
listeners keep a row with an empty queue fresh.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from amqp.exceptions import NotFound, PreconditionFailed

from queuegate_celery.line import Line
from queuegate_celery.messages import DEFINITIONS
from queuegate_celery.routing import KINDS, matches
from queuegate_celery.sources import BROADCASTS
from queuegate_celery.sql import quoted

BINDINGS = "queuegate_celery_bindings"
LISTENING_SECONDS = 300
"""How long a listener's row counts; they make it anew each minute."""

_NAME = "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {quoted(BINDINGS)} (exchange {_NAME}, routing_key {_NAME}, queue {_NAME}, "
    f"kind {_NAME}, seen BIGINT NOT NULL, PRIMARY KEY (exchange, routing_key, queue))"
)
# Nobody reads what is older: listeners begin with what comes next.
_CREATE_TOPIC = f"CREATE TOPIC IF NOT EXISTS {quoted(BROADCASTS)} ({DEFINITIONS}) WITH (retain = '10m')"


@dataclass(frozen=True)
class Routes:
    """Where a message goes."""

    queues: tuple[str, ...]
    broadcast: bool

    @property
    def nowhere(self) -> bool:
        return not self.queues and not self.broadcast


class Exchanges:
    """Those of one database, over one connection."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._kinds: dict[str, str] = {}  # as they were declared over this connection
        self._made = False

    def declare(self, exchange: str, kind: str, passive: bool) -> None:
        """Keeps the type for the bindings to come. Raises NotFound, and PreconditionFailed for an unknown type."""
        if passive:
            if not self._rows("SELECT kind FROM {} WHERE exchange = %s LIMIT 1", exchange):
                raise NotFound(f"nothing is bound to exchange {exchange!r}")
            return
        if kind not in KINDS:
            raise PreconditionFailed(
                f"exchange {exchange!r}: type {kind!r} is not supported, only {', '.join(sorted(KINDS))}"
            )
        self._kinds[exchange] = kind

    def bind(self, exchange: str, routing_key: str, queue: str) -> None:
        """Raises PreconditionFailed where the exchange has another type."""
        kind = self.kind(exchange)
        if not self._rows(
            "SELECT 1 FROM {} WHERE exchange = %s AND routing_key = %s AND queue = %s AND kind = %s",
            exchange, routing_key, queue, kind,
        ):  # fmt: skip
            self._write(exchange, routing_key, queue, kind)

    def listen(self, exchange: str) -> None:
        """Says that a queue without a table is bound to it, from now on."""
        self._write(exchange, "", "", self.kind(exchange))

    def make_topic(self) -> None:
        """The topic of broadcasts, where it is missing."""
        try:
            self._line.rows(f"SELECT id FROM {quoted(BROADCASTS)} LIMIT 1")
        except NotFound:
            self._line.execute(_CREATE_TOPIC)

    def unbind(self, exchange: str, routing_key: str, queue: str) -> None:
        self._change(
            "DELETE FROM {} WHERE exchange = %s AND routing_key = %s AND queue = %s", exchange, routing_key, queue
        )

    def forget_queue(self, queue: str) -> None:
        """All bindings that lead to it."""
        self._change("DELETE FROM {} WHERE queue = %s", queue)

    def delete(self, exchange: str) -> None:
        self._kinds.pop(exchange, None)
        self._change("DELETE FROM {} WHERE exchange = %s", exchange)

    def routes(self, exchange: str, routing_key: str) -> Routes:
        """Where a message that is published now goes. The table is asked each time: a binding holds at once."""
        queues, broadcast = set[str](), False
        for key, queue, kind, fresh in self._rows(
            "SELECT routing_key, queue, kind, seen > UNIX_TIMESTAMP() - %s FROM {} WHERE exchange = %s",
            LISTENING_SECONDS, exchange,
        ):  # fmt: skip
            if not queue:
                broadcast = broadcast or bool(fresh)
            elif matches(kind, key, routing_key):
                queues.add(queue)
        return Routes(tuple(sorted(queues)), broadcast)

    def bindings(self) -> Iterable[tuple[str, str, str]]:
        """Queue, exchange and routing key of each."""
        rows = self._rows("SELECT queue, exchange, routing_key FROM {} WHERE queue <> ''")
        return ((str(queue), str(exchange), str(key)) for queue, exchange, key in rows)

    def kind(self, exchange: str) -> str:
        """Its type, as this connection or the bindings say. Raises PreconditionFailed where they differ."""
        known = self._rows("SELECT kind FROM {} WHERE exchange = %s LIMIT 1", exchange)
        declared = self._kinds.get(exchange)
        if known and declared not in (None, known[0][0]):
            raise PreconditionFailed(
                f"exchange {exchange!r} has type {known[0][0]!r}, not {declared!r}: delete its rows of {BINDINGS} to "
                "begin anew"
            )
        return declared or (str(known[0][0]) if known else "direct")

    def _write(self, *values: str) -> None:
        sql = "INSERT INTO {} VALUES (%s, %s, %s, %s, UNIX_TIMESTAMP()) ON DUPLICATE KEY UPDATE seen = UNIX_TIMESTAMP()"
        try:
            self._line.execute(sql.format(quoted(BINDINGS)), values)
        except NotFound:
            self._line.execute(_CREATE)
            self._line.execute(sql.format(quoted(BINDINGS)), values)

    def _rows(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        """None where there is no table yet: then nothing is bound."""
        try:
            return self._line.rows(sql.format(quoted(BINDINGS)), args)
        except NotFound:
            return []

    def _change(self, sql: str, *args: object) -> None:
        try:
            self._line.execute(sql.format(quoted(BINDINGS)), args)
        except NotFound:
            pass  # nothing was ever bound

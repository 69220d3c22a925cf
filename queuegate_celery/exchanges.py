"""Exchanges. They consist only of their bindings: rows of a table, so that all processes agree.

A binding of a permanent queue contains the queue's name. Exclusive and auto-delete queues (remote control, replies,
events, Broadcast) have no table: messages for their exchange are inserted into one topic, and each of them is a stream
of it in broadcast mode. Nothing is written for an exchange without listeners: each listener regularly updates a row
with an empty queue name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from amqp.exceptions import NotFound, PreconditionFailed

from queuegate_celery.connection import SqlConnection
from queuegate_celery.messages import DEFINITIONS
from queuegate_celery.mysql_client.driver import quoted
from queuegate_celery.sources import BROADCASTS

# Which bindings of an exchange match a routing key, by the rules of AMQP 0-9-1. Pure.

KINDS = frozenset({"direct", "topic", "fanout"})


def matches(kind: str, binding_key: str, routing_key: str) -> bool:
    """Whether the binding matches a message with that routing key. `kind` is one of KINDS."""
    match kind:
        case "direct":
            return binding_key == routing_key
        case "fanout":
            return True
        case "topic":
            return _topic(binding_key, routing_key)
    raise ValueError(f"exchanges of type {kind!r} are not supported")


@lru_cache(maxsize=4096)  # applications have few keys; the size is bounded for programs that generate them
def _topic(binding_key: str, routing_key: str) -> bool:
    return _words_match(binding_key.split("."), routing_key.split(".") if routing_key else [])


def _words_match(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """`*` matches exactly one word, `#` any number of words.

    Row by row through the pattern, so that `#.#.#` costs the product of both lengths and no more.
    """
    reached = {0}  # how many words the pattern so far can match
    for part in pattern:
        if part == "#":
            reached = set(range(min(reached), len(words) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(words) and part in ("*", words[at])}
        if not reached:
            return False
    return len(words) in reached


BINDINGS = "queuegate_celery_bindings"
LISTENING_SECONDS = 300
"""How long a listener's row is valid; it is updated each minute."""

_NAME = "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {quoted(BINDINGS)} (exchange {_NAME}, routing_key {_NAME}, queue {_NAME}, "
    f"kind {_NAME}, seen BIGINT NOT NULL, PRIMARY KEY (exchange, routing_key, queue)) ENGINE=InnoDB"
)
# Older messages are not needed: listeners start with the next message.
_CREATE_TOPIC = f"CREATE TOPIC IF NOT EXISTS {quoted(BROADCASTS)} ({DEFINITIONS}) WITH (retain = '10m')"


@dataclass(frozen=True)
class Routes:
    """The destinations of a message."""

    queues: tuple[str, ...]
    broadcast: bool

    @property
    def unroutable(self) -> bool:
        return not self.queues and not self.broadcast


class Exchanges:
    """The exchanges of one database, over one connection."""

    def __init__(self, db: SqlConnection) -> None:
        self._db = db
        self._kinds: dict[str, str] = {}  # as declared over this connection

    def declare(self, exchange: str, kind: str, passive: bool) -> None:
        """Stores the type for later bindings. Raises NotFound, and PreconditionFailed for an unknown type."""
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
        """Raises PreconditionFailed if the exchange has another type."""
        kind = self.kind(exchange)
        if not self._rows(
            "SELECT 1 FROM {} WHERE exchange = %s AND routing_key = %s AND queue = %s AND kind = %s",
            exchange, routing_key, queue, kind,
        ):  # fmt: skip
            self._write(exchange, routing_key, queue, kind)

    def register_listener(self, exchange: str) -> None:
        """Records that a queue without a table is bound to it, from now on."""
        self._write(exchange, "", "", self.kind(exchange))

    def make_topic(self) -> None:
        """Creates the topic of broadcasts if it is missing."""
        try:
            self._db.rows(f"SELECT id FROM {quoted(BROADCASTS)} LIMIT 1")
        except NotFound:
            self._db.execute(_CREATE_TOPIC)

    def unbind(self, exchange: str, routing_key: str, queue: str) -> None:
        self._change(
            "DELETE FROM {} WHERE exchange = %s AND routing_key = %s AND queue = %s", exchange, routing_key, queue
        )

    def forget_queue(self, queue: str) -> None:
        """Deletes all bindings to it."""
        self._change("DELETE FROM {} WHERE queue = %s", queue)

    def delete(self, exchange: str) -> None:
        self._kinds.pop(exchange, None)
        self._change("DELETE FROM {} WHERE exchange = %s", exchange)

    def routes(self, exchange: str, routing_key: str) -> Routes:
        """The destinations of a message that is published now. Read from the table each time: a binding is effective at
        once."""
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
        """Its type, from this connection or from the bindings. Raises PreconditionFailed if they differ."""
        rows = self._rows("SELECT kind FROM {} WHERE exchange = %s LIMIT 1", exchange)
        declared = self._kinds.get(exchange)
        if rows and declared not in (None, rows[0][0]):
            raise PreconditionFailed(
                f"exchange {exchange!r} has type {rows[0][0]!r}, not {declared!r}: delete its rows of {BINDINGS} to "
                "begin anew"
            )
        return declared or (str(rows[0][0]) if rows else "direct")

    def _write(self, *values: str) -> None:
        sql = "INSERT INTO {} VALUES (%s, %s, %s, %s, UNIX_TIMESTAMP()) ON DUPLICATE KEY UPDATE seen = UNIX_TIMESTAMP()"
        try:
            self._db.execute(sql.format(quoted(BINDINGS)), values)
        except NotFound:
            self._db.execute(_CREATE)
            self._db.execute(sql.format(quoted(BINDINGS)), values)

    def _rows(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        """No rows if the table does not exist yet: then nothing is bound."""
        try:
            return self._db.rows(sql.format(quoted(BINDINGS)), args)
        except NotFound:
            return []

    def _change(self, sql: str, *args: object) -> None:
        try:
            self._db.execute(sql.format(quoted(BINDINGS)), args)
        except NotFound:
            pass  # nothing was ever bound

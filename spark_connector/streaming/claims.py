"""Claims: the messages that a query has leased and not acked yet, in a table of the queue's database.

Claims are numbered: (group, seq) identifies a claim, (group, seq, place) a message of it. A micro-batch is the claims
between two numbers, so its offsets stay small and it can be read again after a restart, in parts, by any process.
Each function here is one step of a transaction of its caller, or one statement. States of a claimed message:

    owned   it is not acked and was not leased since: its epoch and its lease_token (if the queue has that column) are
            those of the claim
    taken   another receiver has leased it since, because the lease had expired or was given up
    ended   another client has acked, rejected or deleted it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pymysql
from pymysql.converters import escape_string

from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue
from spark_connector.client.table_names import companion_table
from spark_connector.errors import ConnectorError, QueueError
from spark_connector.mysql_client.driver import escaped, quoted
from spark_connector.streaming.due import DueMessage

REJECTED_NS = (1 << 63) - 2  # time_next of a rejected message until the proxy has moved it (docs/dead-letters.md)
RETENTION_SECONDS = 7 * 86400.0
"""Older claims are of queries that are not restarted any more; their leases expired long ago."""

_STEP_NS, _LEASE_MARK, _BATCH_LEASE_MARK = 1000, 1, 3  # the marks of leases in time_next (docs/sql.md)
_MARK = f"MOD(q.time_next, {_STEP_NS})"
_PREFIX = "queuegate_spark_claims_"
_ROWS = 5000  # of one statement: more would not be faster; far below max_allowed_packet

_COLUMN = """
SELECT COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s AND COLUMN_NAME = 'id'"""
_HAS_TOKENS = """
SELECT COUNT(*) FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s AND COLUMN_NAME = 'token'"""
_TOKEN_DEFINED = "token BIGINT NOT NULL DEFAULT 0"
_DUPLICATE_COLUMN = 1060
_DENIED = (1044, 1142)
_CREATED = "time_created"
# DROP and CREATE reuse ids: what was created after the claim is another message, not a claimed one.
_SAME = f" AND COALESCE(q.{_CREATED}, 0) <= c.time_claimed"
_TOKEN = "lease_token"
_TOKEN_MAX = (1 << 53) - 1
_NEXT_TOKEN = f"LEAST(q.{_TOKEN}, {_TOKEN_MAX}) + 1"
_SAME_DELIVERY = f" AND (c.token = 0 OR q.{_TOKEN} = c.token)"
"""An epoch may be reused, a token is not. Claims older than the column have none."""
_BETWEEN = "c.grp = %s AND c.seq > %s AND c.seq <= %s"
_OPEN = f"q.time_acked IS NULL AND (q.time_next IS NULL OR q.time_next <> {REJECTED_NS})"
_ENDED = f"q.id IS NULL OR q.time_acked IS NOT NULL OR q.time_next = {REJECTED_NS}"
_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_BIGINT_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class Run:
    """Consecutive messages of one claim: places `first` up to `end`, exclusive."""

    seq: int
    first: int
    end: int


@dataclass(frozen=True)
class ClaimStates:
    """The states of claimed messages, by id."""

    owned: tuple[Any, ...]
    taken: tuple[Any, ...]
    ended: tuple[Any, ...]

    @property
    def lost(self) -> tuple[Any, ...]:
        return (*self.taken, *self.ended)


class Claims:
    """The claims of one group on one queue."""

    def __init__(self, queue: Queue, group: str) -> None:
        self.queue, self.group = queue, group
        self.table = quoted(table_name(queue.name))
        self.escaped = escaped(table_name(queue.name))
        self._messages = escaped(queue.name)
        # STRAIGHT_JOIN reads the claims first, then the messages by their key, even in a small table: a full scan would
        # wait for locks on any of its rows.
        same = _SAME if queue.has(_CREATED) else ""
        by_id = f"{self._messages} AS q FORCE INDEX ({escaped(queue.id_key)}) ON q.id = c.id{same}"
        self._both = f"{self.escaped} AS c STRAIGHT_JOIN {by_id}"
        self._all = f"{self.escaped} AS c LEFT JOIN {by_id}"
        self.highest = highest_epoch(queue)
        self._has_tokens = queue.has(_TOKEN)
        self._same = _SAME_DELIVERY if self._has_tokens else ""
        self._is_owned = f"q.epoch = c.epoch AND {_OPEN}{self._same}"
        self._owned = f"FROM {self._both} WHERE {self._is_owned} AND {_BETWEEN}"
        # A new token makes the previous delivery invalid: its receiver cannot settle the message any more.
        self._leases = f"q.epoch = c.epoch, q.{_TOKEN} = c.token" if self._has_tokens else "q.epoch = c.epoch"

    def last(self, client: Client, after: int) -> int | None:
        """The number of the newest claim after that one, or None."""
        newest = client.value(f"SELECT MAX(seq) FROM {self.escaped} WHERE grp = %s AND seq > %s", (self.group, after))
        return None if newest is None else int(newest)

    def leased(self, due: DueMessage, time_us: int) -> DueMessage:
        """A due message as a claim at that time (the database's clock) leases it."""
        token = next_token(due.token, time_us) if self._has_tokens else 0
        return due._replace(epoch=next_epoch(due.epoch, self.highest), token=token)

    def record(self, client: Client, seq: int, messages: Sequence[DueMessage], now: int) -> None:
        """Record these messages, as leased by this claim, as claim `seq`.

        A message created by a client whose clock is ahead counts as claimed at its creation time, so that it is not
        mistaken for a later message.
        """
        group = literal(self.group)
        for start in range(0, len(messages), _ROWS):
            rows = (
                f"({group}, {seq}, {place}, {literal(m.id)}, {m.epoch}, {m.token}, {max(now, m.created_ns)})"
                for place, m in enumerate(messages[start : start + _ROWS], start)
            )
            client.execute(
                f"INSERT INTO {self.table} (grp, seq, place, id, epoch, token, time_claimed) VALUES {', '.join(rows)}"
            )

    def lease(self, client: Client, seq: int, until: int) -> int:
        """Lease the messages of a claim, which this transaction has locked; returns how many. `until`: ns."""
        return client.execute(
            f"UPDATE {self._both} SET q.time_next = %s, {self._leases} WHERE c.grp = %s AND c.seq = %s",
            (lease_end(until), self.group, seq),
        )

    def count_all(self, client: Client, seq: int) -> int:
        """Mark the leases of a claim, which the proxy has made for several messages at once, so that each counts as a
        delivery; returns how many were changed.

        The epoch of an uncounted lease is reused after it expires, but the epoch must identify the owner of a claim.
        """
        return client.execute(
            f"UPDATE {self._both} SET q.time_next = q.time_next - {_BATCH_LEASE_MARK - _LEASE_MARK}"
            f" WHERE c.grp = %s AND c.seq = %s AND {self._is_owned} AND {_MARK} = {_BATCH_LEASE_MARK}",
            (self.group, seq),
        )

    def renew(self, client: Client, now: int, lease: int) -> int:
        """Renew the leases of owned messages to `lease` ns from now, if a third has passed; returns how many."""
        until = lease_end(now + lease)
        return client.execute(
            f"UPDATE {self._both} SET q.time_next = %s WHERE c.grp = %s AND {self._is_owned}"
            f" AND {_MARK} IN ({_LEASE_MARK}, {_BATCH_LEASE_MARK}) AND q.time_next < %s",
            (until, self.group, until - lease // 3),
        )

    def spent(self, client: Client, after: int, upto: int, attempts: int) -> list[Any]:
        """The owned messages of the claims after `after` up to `upto` that were delivered so often already. Locks
        them."""
        sql = f"SELECT c.id {self._owned} AND c.epoch >= %s FOR UPDATE"
        return [row[0] for row in client.rows(sql, (self.group, after, upto, min(attempts, self.highest)))]

    def deliver_again(self, client: Client, after: int, upto: int, until: int) -> int:
        """Count one more delivery of the owned messages of these claims, and lease them again; returns how many."""
        between = (self.group, after, upto)
        highest = self.highest
        more = f"CASE WHEN c.epoch < {highest} THEN c.epoch + 1 ELSE {highest} END"
        token, own = (f", c.token = {_NEXT_TOKEN}", f" AND c.token = {_NEXT_TOKEN}") if self._has_tokens else ("", "")
        client.execute(
            f"UPDATE {self._both} SET c.epoch = {more}{token} WHERE {self._is_owned} AND {_BETWEEN}", between
        )
        return client.execute(
            f"UPDATE {self._both} SET q.time_next = %s, {self._leases}"
            f" WHERE (q.epoch = c.epoch - 1 OR (c.epoch = {highest} AND q.epoch >= {highest}))"
            f"{own} AND {_OPEN} AND {_BETWEEN}",
            (lease_end(until), *between),
        )

    def states(self, client: Client, upto: int, *, lock: bool) -> ClaimStates:
        """The states of the claims up to that one. `lock`: they stay so until the transaction ends; more expensive."""
        states = f"CASE WHEN {_ENDED} THEN 2 WHEN COALESCE(q.epoch, 0) = c.epoch{self._same} THEN 0 ELSE 1 END"
        rows = client.rows(
            f"SELECT c.id, {states} FROM {self._all} WHERE c.grp = %s AND c.seq <= %s{' FOR UPDATE' if lock else ''}",
            (self.group, upto),
        )
        by = {kind: tuple(id_ for id_, state in rows if state == kind) for kind in (0, 1, 2)}
        return ClaimStates(by[0], by[1], by[2])

    def ack(self, client: Client, ids: Sequence[Any]) -> int:
        """Ack messages, whoever has leased them; returns how many were not ended before."""
        texts = (f"ACK {self.queue.quoted} {names}" for names in _lists(ids))
        return sum(client.execute(text) for text in texts)

    def reject(self, client: Client, ids: Sequence[Any], reason: str) -> int:
        """Reject messages: they go to the dead-letter queue."""
        texts = (f"REJECT {self.queue.quoted} {names} REASON {literal(reason)}" for names in _lists(ids))
        return sum(client.execute(text) for text in texts)

    def release(self, client: Client, ids: Sequence[Any]) -> int:
        """Release leased messages: due at once, and the delivery does not count."""
        texts = (f"RELEASE {self.queue.quoted} {names}" for names in _lists(ids))
        return sum(client.execute(text) for text in texts)

    def forget(self, client: Client, upto: int) -> int:
        """Delete the claims up to that one."""
        return client.execute(f"DELETE FROM {self.escaped} WHERE grp = %s AND seq <= %s", (self.group, upto))

    def runs(self, client: Client, after: int, upto: int) -> list[Run]:
        """The claims after `after` up to `upto`, each as one run."""
        rows = client.rows(
            f"SELECT seq, MIN(place), MAX(place) FROM {self.escaped} WHERE grp = %s AND seq > %s AND seq <= %s"
            " GROUP BY seq ORDER BY seq",
            (self.group, after, upto),
        )
        return [Run(int(seq), int(first), int(last) + 1) for seq, first, last in rows]

    def count(self, client: Client) -> int:
        """How many messages the group has claimed."""
        return int(client.value(f"SELECT COUNT(*) FROM {self.escaped} WHERE grp = %s", (self.group,)))

    def select(self, columns: str) -> str:
        """A SELECT of `columns` (arrow.select_list) and the place of messages of a claim, in its order.

        Values: group, seq, the place after which it starts, the last place.

        Includes acked messages: a repeated micro-batch has the same rows. Only rejected messages are left out; in this
        way a message that crashes every job is removed.
        """
        return (
            f"SELECT {columns}, c.place FROM {self._both}"
            " WHERE c.grp = %s AND c.seq = %s AND c.place > %s AND c.place <= %s"
            f" AND (q.time_acked IS NOT NULL OR q.time_next IS NULL OR q.time_next <> {REJECTED_NS}) ORDER BY c.place"
        )


def highest_epoch(queue: Queue) -> int:
    """The maximum of a queue's epochs, as in the proxy's own delivery: that of their type, or of BIGINT, the type in
    the claims table."""
    column = queue.column("epoch")
    bits = _BITS.get(column.base, 64)
    return int(min((1 << bits) - 1 if "unsigned" in column.type.lower() else (1 << (bits - 1)) - 1, _BIGINT_MAX))


def next_epoch(epoch: int, highest: int) -> int:
    """The epoch of a message's next delivery. A negative one counts as 0."""
    return min(max(epoch, 0) + 1, highest)


def next_token(token: int, time_us: int) -> int:
    """The token of a message's next delivery, computed as in the engine (docs/adr/0016-lease-tokens.md): the last one
    plus 1, or the database's time (us), whichever is greater."""
    return token + 1 if time_us <= token < _TOKEN_MAX else time_us


def prepare(client: Client, queue: Queue) -> None:
    """Create the claims table if it is missing. Raises QueueError if the existing one does not fit this queue."""
    name = table_name(queue.name)
    wanted, existing = _id_type(client, queue.name), _id_type(client, name)
    if wanted is None:
        raise QueueError(f"queue {queue.name} is gone")
    if existing is None:  # an account without the right to create tables can use an existing one
        client.execute(
            f"CREATE TABLE IF NOT EXISTS {quoted(name)} (grp VARCHAR(200) NOT NULL, seq BIGINT NOT NULL,"
            f" place INT NOT NULL, id {wanted} NOT NULL, epoch BIGINT NOT NULL, {_TOKEN_DEFINED},"
            " time_claimed BIGINT NOT NULL, PRIMARY KEY (grp, seq, place)) ENGINE=InnoDB"
        )
        existing = _id_type(client, name)
    if existing != wanted:
        raise QueueError(
            f"table {name} was made for another type of id than queue {queue.name} has now ({wanted}): stop the"
            f" queries that read the queue, then DROP TABLE {name}"
        )
    _add_tokens(client, name)


def _add_tokens(client: Client, name: str) -> None:
    """Add the column `token` to a table of an earlier version; its claims stay."""
    if client.value(_HAS_TOKENS, (name,)):
        return
    try:
        client.execute(f"ALTER TABLE {quoted(name)} ADD COLUMN {_TOKEN_DEFINED}")
    except pymysql.err.MySQLError as error:
        if error.args[0] in _DENIED:
            raise QueueError(
                f"table {name} lacks the column token, and this account may not add it:"
                f" ALTER TABLE {name} ADD COLUMN {_TOKEN_DEFINED}"
            ) from error
        if error.args[0] != _DUPLICATE_COLUMN:  # another query has just done so
            raise


def clean(client: Client, queue: Queue, before: int) -> int:
    """Delete claims of any group made before that time (ns); returns how many."""
    table = escaped(table_name(queue.name))
    old = client.rows(f"SELECT grp, seq FROM {table} WHERE place = 0 AND time_claimed < %s", (before,))
    return sum(client.execute(f"DELETE FROM {table} WHERE grp = %s AND seq = %s", one) for one in old)


def table_name(queue: str) -> str:
    """The name of the table for claims on a queue."""
    return companion_table(_PREFIX, queue)


def cut(runs: Sequence[Run], parts: int) -> list[tuple[Run, ...]]:
    """The runs divided into at most so many parts of equal size, in order, none of them empty."""
    total = sum(run.end - run.first for run in runs)
    parts = min(parts, total)
    bounds = [total * part // parts for part in range(parts + 1)] if parts else []
    return [tuple(_between(runs, low, high)) for low, high in pairwise(bounds)]


def _between(runs: Sequence[Run], low: int, high: int) -> Iterator[Run]:
    """The part of the concatenated runs between two positions."""
    at = 0
    for run in runs:
        first, end = run.first + max(0, low - at), run.first + min(run.end - run.first, high - at)
        if first < end:
            yield Run(run.seq, first, end)
        at += run.end - run.first


def lease_end(until: int) -> int:
    """A time (ns) with the mark of a lease, less than a microsecond off."""
    return until - until % _STEP_NS + _LEASE_MARK


def literal(value: Any) -> str:
    """An id or a text as SQL. Raises ConnectorError for a value that cannot be a message's key."""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return f"'{escape_string(value)}'"
    if isinstance(value, Decimal):
        return f"'{value:f}'"
    if value is None:
        raise ConnectorError("a message without an id (NULL) cannot be claimed")
    return f"'{value}'"  # dates and times


def _lists(ids: Sequence[Any]) -> Iterable[str]:
    for start in range(0, len(ids), _ROWS):
        yield ", ".join(map(literal, ids[start : start + _ROWS]))


def _id_type(client: Client, table: str) -> str | None:
    """The declaration of a column of the same type; None if the table does not exist."""
    row = client.row(_COLUMN, (table,))
    if row is None:
        return None
    declared, charset, collation = row
    text = f" CHARACTER SET {charset} COLLATE {collation}" if charset and collation else ""
    return f"{declared}{text}"

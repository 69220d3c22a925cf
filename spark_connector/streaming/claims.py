"""Claims: which messages a query has leased and not acked yet, in a table beside the queue.

A claim is numbered: (group, seq) names the messages of one, (group, seq, place) a message. A micro-batch is the claims
between two numbers, so its offsets stay small and it can be read again after a restart, in parts, by any process.
Each function here is one step of a transaction that its caller opened, or one statement.

    held    the message is not acked, and nobody has leased it since: its epoch, and the name of its delivery
            (lease_token, where the queue has it), are those of the claim
    taken   somebody else has leased it since, because our lease had run out or was given up
    ended   somebody else has acked, rejected or deleted it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pymysql
from pymysql.converters import escape_string

from spark_connector.client.connection import Client, placed, quoted
from spark_connector.client.queue import Queue
from spark_connector.client.table_names import beside
from spark_connector.errors import ConnectorError, QueueError
from spark_connector.streaming.due import Found

SET_ASIDE_NS = (1 << 63) - 2  # time_next of a rejected message until the proxy has moved it (docs/dead-letters.md)
KEPT_SECONDS = 7 * 86400.0
"""Claims this old are of a query that nobody restarts; their leases have run out long ago."""

_STEP_NS, _LEASE_MARK, _BESIDE_MARK = 1000, 1, 3  # the marks of leases in time_next (docs/sql.md)
_MARK = f"MOD(q.time_next, {_STEP_NS})"
_PREFIX = "queuegate_spark_claims_"
_ROWS = 5000  # of one statement: as fast as more, and far below max_allowed_packet

_COLUMN = """
SELECT COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s AND COLUMN_NAME = 'id'"""
_HAS_TOKENS = """
SELECT COUNT(*) FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s AND COLUMN_NAME = 'token'"""
_TOKEN_DEFINED = "token BIGINT NOT NULL DEFAULT 0"
_DUPLICATE_COLUMN = 1060
_DENIED = (1044, 1142)
_MADE = "time_created"
# DROP and CREATE give ids anew: what was made after the claim is another message, never seen.
_SAME = f" AND COALESCE(q.{_MADE}, 0) <= c.time_claimed"
_TOKEN = "lease_token"
_TOKEN_MAX = (1 << 53) - 1
_NEXT_TOKEN = f"LEAST(q.{_TOKEN}, {_TOKEN_MAX}) + 1"
_SAME_DELIVERY = f" AND (c.token = 0 OR q.{_TOKEN} = c.token)"
"""An epoch may come again, a token does not. Claims of before the column was there have none."""
_BETWEEN = "c.grp = %s AND c.seq > %s AND c.seq <= %s"
_OPEN = f"q.time_acked IS NULL AND (q.time_next IS NULL OR q.time_next <> {SET_ASIDE_NS})"
_ENDED = f"q.id IS NULL OR q.time_acked IS NOT NULL OR q.time_next = {SET_ASIDE_NS}"
_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_BIGINT_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class Run:
    """Messages of one claim that follow each other: places `first` up to `end`, that one left out."""

    seq: int
    first: int
    end: int


@dataclass(frozen=True)
class ClaimStanding:
    """What has become of claimed messages, by id."""

    held: tuple[Any, ...]
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
        self.placed = self._claims = placed(table_name(queue.name))
        self._messages = placed(queue.name)
        # The claims first and the messages by their key, however few there are: a database that reads a small table
        # whole would wait for whoever has locked any row of it.
        same = _SAME if queue.has(_MADE) else ""
        by_id = f"{self._messages} AS q FORCE INDEX ({placed(queue.id_key)}) ON q.id = c.id{same}"
        self._both = f"{self._claims} AS c STRAIGHT_JOIN {by_id}"
        self._all = f"{self._claims} AS c LEFT JOIN {by_id}"
        self.highest = highest_epoch(queue)
        self._named = queue.has(_TOKEN)
        self._same = _SAME_DELIVERY if self._named else ""
        self._is_held = f"q.epoch = c.epoch AND {_OPEN}{self._same}"
        self._held = f"FROM {self._both} WHERE {self._is_held} AND {_BETWEEN}"
        # Whoever had the message before has nothing to say: the name of that delivery is void.
        self._leases = f"q.epoch = c.epoch, q.{_TOKEN} = c.token" if self._named else "q.epoch = c.epoch"

    def last(self, client: Client, after: int) -> int | None:
        """The number of the newest claim beyond that one."""
        found = client.value(f"SELECT MAX(seq) FROM {self._claims} WHERE grp = %s AND seq > %s", (self.group, after))
        return None if found is None else int(found)

    def leased(self, due: Found, time_us: int) -> Found:
        """What a claim of that time, by the database's clock, makes of a message that is due."""
        token = next_token(due.token, time_us) if self._named else 0
        return due._replace(epoch=next_epoch(due.epoch, self.highest), token=token)

    def record(self, client: Client, seq: int, found: Sequence[Found], now: int) -> None:
        """Write down that these messages, as this claim leases them, are claim `seq`.

        One whose maker's clock is ahead counts as claimed when it was made: so none is taken for one of a later time.
        """
        group = literal(self.group)
        for start in range(0, len(found), _ROWS):
            rows = (
                f"({group}, {seq}, {place}, {literal(each.id)}, {each.epoch}, {each.token}, {max(now, each.made)})"
                for place, each in enumerate(found[start : start + _ROWS], start)
            )
            client.execute(
                f"INSERT INTO {self.table} (grp, seq, place, id, epoch, token, time_claimed) VALUES {', '.join(rows)}"
            )

    def lease(self, client: Client, seq: int, until: int) -> int:
        """Lease the messages of a claim, which are locked by this transaction; returns how many. `until`: ns."""
        return client.execute(
            f"UPDATE {self._both} SET q.time_next = %s, {self._leases} WHERE c.grp = %s AND c.seq = %s",
            (lease_end(until), self.group, seq),
        )

    def count_all(self, client: Client, seq: int) -> int:
        """Have the leases of a claim count as deliveries, which the proxy has made of several messages; returns how
        many did not.

        One that runs out uncounted leaves its epoch to the next, and by the epoch a claim knows whether it is held.
        """
        return client.execute(
            f"UPDATE {self._both} SET q.time_next = q.time_next - {_BESIDE_MARK - _LEASE_MARK}"
            f" WHERE c.grp = %s AND c.seq = %s AND {self._is_held} AND {_MARK} = {_BESIDE_MARK}",
            (self.group, seq),
        )

    def renew(self, client: Client, now: int, lease: int) -> int:
        """Hold on to what is held, for `lease` ns from now, where a third of that has gone; returns how many."""
        until = lease_end(now + lease)
        return client.execute(
            f"UPDATE {self._both} SET q.time_next = %s WHERE c.grp = %s AND {self._is_held}"
            f" AND {_MARK} IN ({_LEASE_MARK}, {_BESIDE_MARK}) AND q.time_next < %s",
            (until, self.group, until - lease // 3),
        )

    def spent(self, client: Client, after: int, upto: int, attempts: int) -> list[Any]:
        """What is held of the claims beyond `after` up to `upto`, and was delivered so often already. Locks it."""
        sql = f"SELECT c.id {self._held} AND c.epoch >= %s FOR UPDATE"
        return [row[0] for row in client.rows(sql, (self.group, after, upto, min(attempts, self.highest)))]

    def deliver_again(self, client: Client, after: int, upto: int, until: int) -> int:
        """Count one more delivery of what is held of these claims, and lease it anew; returns how many."""
        between = (self.group, after, upto)
        highest = self.highest
        more = f"CASE WHEN c.epoch < {highest} THEN c.epoch + 1 ELSE {highest} END"
        token, own = (f", c.token = {_NEXT_TOKEN}", f" AND c.token = {_NEXT_TOKEN}") if self._named else ("", "")
        client.execute(f"UPDATE {self._both} SET c.epoch = {more}{token} WHERE {self._is_held} AND {_BETWEEN}", between)
        return client.execute(
            f"UPDATE {self._both} SET q.time_next = %s, {self._leases}"
            f" WHERE (q.epoch = c.epoch - 1 OR (c.epoch = {highest} AND q.epoch >= {highest}))"
            f"{own} AND {_OPEN} AND {_BETWEEN}",
            (lease_end(until), *between),
        )

    def standing(self, client: Client, upto: int, *, lock: bool) -> ClaimStanding:
        """What has become of the claims up to that one. `lock`: it stays so until the transaction ends; costs more."""
        standing = f"CASE WHEN {_ENDED} THEN 2 WHEN COALESCE(q.epoch, 0) = c.epoch{self._same} THEN 0 ELSE 1 END"
        rows = client.rows(
            f"SELECT c.id, {standing} FROM {self._all} WHERE c.grp = %s AND c.seq <= %s{' FOR UPDATE' if lock else ''}",
            (self.group, upto),
        )
        by = {kind: tuple(id_ for id_, found in rows if found == kind) for kind in (0, 1, 2)}
        return ClaimStanding(by[0], by[1], by[2])

    def ack(self, client: Client, ids: Sequence[Any]) -> int:
        """End messages, whoever holds them; returns how many were not ended before."""
        texts = (f"ACK {self.queue.quoted} {names}" for names in _lists(ids))
        return sum(client.execute(text) for text in texts)

    def reject(self, client: Client, ids: Sequence[Any], reason: str) -> int:
        """Set messages aside for the dead-letter queue."""
        texts = (f"REJECT {self.queue.quoted} {names} REASON {literal(reason)}" for names in _lists(ids))
        return sum(client.execute(text) for text in texts)

    def give_back(self, client: Client, ids: Sequence[Any]) -> int:
        """Release leased messages: due at once, and the delivery does not count."""
        texts = (f"RELEASE {self.queue.quoted} {names}" for names in _lists(ids))
        return sum(client.execute(text) for text in texts)

    def forget(self, client: Client, upto: int) -> int:
        """Delete the claims up to that one."""
        return client.execute(f"DELETE FROM {self._claims} WHERE grp = %s AND seq <= %s", (self.group, upto))

    def runs(self, client: Client, after: int, upto: int) -> list[Run]:
        """The claims beyond `after` up to `upto`, each whole."""
        rows = client.rows(
            f"SELECT seq, MIN(place), MAX(place) FROM {self._claims} WHERE grp = %s AND seq > %s AND seq <= %s"
            " GROUP BY seq ORDER BY seq",
            (self.group, after, upto),
        )
        return [Run(int(seq), int(first), int(last) + 1) for seq, first, last in rows]

    def count(self, client: Client) -> int:
        """How many messages the group has claimed."""
        return int(client.value(f"SELECT COUNT(*) FROM {self._claims} WHERE grp = %s", (self.group,)))

    def select(self, columns: str) -> str:
        """Reads `columns` (arrow.select_list) and the place of messages of a claim, in its order.

        Values: group, seq, the place after which it begins, the last place.

        Acked ones too: a micro-batch that is repeated has the same rows. Only what was rejected meanwhile is left out,
        which is how a message that no job survives is got rid of.
        """
        return (
            f"SELECT {columns}, c.place FROM {self._both}"
            " WHERE c.grp = %s AND c.seq = %s AND c.place > %s AND c.place <= %s"
            f" AND (q.time_acked IS NOT NULL OR q.time_next IS NULL OR q.time_next <> {SET_ASIDE_NS}) ORDER BY c.place"
        )


def highest_epoch(queue: Queue) -> int:
    """Where the epochs of a queue stay, as leases of the proxy's own delivery leave them: at the end of their type, or
    of a BIGINT, which is what a claim keeps."""
    column = queue.column("epoch")
    bits = _BITS.get(column.base, 64)
    return int(min((1 << bits) - 1 if "unsigned" in column.type.lower() else (1 << (bits - 1)) - 1, _BIGINT_MAX))


def next_epoch(epoch: int, highest: int) -> int:
    """Of a message that is delivered once more. A negative one counts as 0."""
    return min(max(epoch, 0) + 1, highest)


def next_token(token: int, time_us: int) -> int:
    """The name of the next delivery of a message, as the engine makes it (docs/adr/0016-lease-tokens.md): one more than
    that of the last, or the database's time (us), whichever is greater."""
    return token + 1 if time_us <= token < _TOKEN_MAX else time_us


def prepare(client: Client, queue: Queue) -> None:
    """Make the table of claims where there is none. Raises QueueError where it is of no use for this queue."""
    name = table_name(queue.name)
    wanted, found = _id_type(client, queue.name), _id_type(client, name)
    if wanted is None:
        raise QueueError(f"queue {queue.name} is gone")
    if found is None:  # whoever may not create tables can have it made by somebody else
        client.execute(
            f"CREATE TABLE IF NOT EXISTS {quoted(name)} (grp VARCHAR(200) NOT NULL, seq BIGINT NOT NULL,"
            f" place INT NOT NULL, id {wanted} NOT NULL, epoch BIGINT NOT NULL, {_TOKEN_DEFINED},"
            " time_claimed BIGINT NOT NULL, PRIMARY KEY (grp, seq, place))"
        )
        found = _id_type(client, name)
    if found != wanted:
        raise QueueError(
            f"table {name} was made for another type of id than queue {queue.name} has now ({wanted}): stop the"
            f" queries that read the queue, then DROP TABLE {name}"
        )
    _add_tokens(client, name)


def _add_tokens(client: Client, name: str) -> None:
    """A table that an earlier version has made keeps its claims."""
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
    """Forget claims made before that time (ns), whoever made them; returns how many."""
    table = placed(table_name(queue.name))
    old = client.rows(f"SELECT grp, seq FROM {table} WHERE place = 0 AND time_claimed < %s", (before,))
    return sum(client.execute(f"DELETE FROM {table} WHERE grp = %s AND seq = %s", one) for one in old)


def table_name(queue: str) -> str:
    """Of the claims on a queue."""
    return beside(_PREFIX, queue)


def cut(runs: Sequence[Run], parts: int) -> list[tuple[Run, ...]]:
    """The runs as at most so many parts of equal size, in order, none of them empty."""
    total = sum(run.end - run.first for run in runs)
    parts = min(parts, total)
    bounds = [total * part // parts for part in range(parts + 1)] if parts else []
    return [tuple(_between(runs, low, high)) for low, high in pairwise(bounds)]


def _between(runs: Sequence[Run], low: int, high: int) -> Iterator[Run]:
    """What of the runs, laid end to end, lies between two places."""
    at = 0
    for run in runs:
        first, end = run.first + max(0, low - at), run.first + min(run.end - run.first, high - at)
        if first < end:
            yield Run(run.seq, first, end)
        at += run.end - run.first


def lease_end(until: int) -> int:
    """A time (ns) as a lease writes it, less than a microsecond off."""
    return until - until % _STEP_NS + _LEASE_MARK


def literal(value: Any) -> str:
    """An id or a text as SQL. Raises ConnectorError for what cannot be the key of a message."""
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
    """As a column of the same type is declared; None where there is no such table."""
    row = client.row(_COLUMN, (table,))
    if row is None:
        return None
    declared, charset, collation = row
    text = f" CHARACTER SET {charset} COLLATE {collation}" if charset and collation else ""
    return f"{declared}{text}"

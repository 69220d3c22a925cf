"""TraceLog: TraceStore in SQL, one implementation for every dialect.

The table is made when something is written for the first time; where it is not there, there is nothing in it. What it
holds may have been written by anybody who may write to the database: what cannot be read is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.backend.base import StoreConnection, StorePool
from engine.model.errors import BackendError
from engine.model.queue import MessageId, QueueName, SubscribeRequest
from engine.model.traced import Traced
from engine.store.base import CleanedTraces
from engine.store.statements.dialect import Dialect
from engine.store.statements.traces import INSERTED_MAX, TraceStatements, create_traces
from engine.store.topic_log import Define

_NO_SUCH_TABLE, _DUPLICATE = 1146, 1062
_BIGINT_MAX = (1 << 63) - 1
_EVENT, _NAME, _REASON = 32, 255, 1000  # characters of a column


class TraceLog:
    """See the module. `define` makes the table, in MySQL's words."""

    def __init__(self, pool: StorePool, dialect: Dialect, define: Define) -> None:
        self._pool, self._dialect, self._define = pool, dialect, define

    async def write(self, database: str, events: Sequence[Traced]) -> None:
        """Write events of messages of that database's topics, all or none. Events that are there already stay.

        Raises:
            BackendError: nothing was written, unless it says that this is unknown.
        """
        try:
            await self._write(database, events)
        except BackendError as error:
            if error.errno != _NO_SUCH_TABLE:
                raise
            await self._define(create_traces(database))
            await self._write(database, events)

    async def _write(self, database: str, events: Sequence[Traced]) -> None:
        statements = TraceStatements(self._dialect, database)
        rows = [_row(event) for event in events if isinstance(event.id, int) and abs(event.id) <= _BIGINT_MAX]

        def work(connection: StoreConnection) -> None:
            connection.query(statements.proof)
            for start in range(0, len(rows), INSERTED_MAX):
                some = rows[start : start + INSERTED_MAX]
                connection.execute(statements.insert(len(some)), [value for row in some for value in row])

        try:
            await self._pool.write(work)
        except BackendError as error:
            # Nobody else numbers events as we do: the COMMIT whose answer was lost has held.
            if error.errno != _DUPLICATE:
                raise

    async def of(self, queue: QueueName, id_: MessageId, limit: int) -> list[Traced]:
        """What happened last to a message, up to so much of it. Raises BackendError."""
        sql = TraceStatements(self._dialect, queue.database).of
        return await self._read(queue.database, sql, (queue.table, id_, limit))

    async def newest(self, queue: QueueName, since_ns: int, limit: int) -> list[Traced]:
        """What happened last to messages of a queue, and since a time. Raises BackendError."""
        sql = TraceStatements(self._dialect, queue.database).newest
        return await self._read(queue.database, sql, (queue.table, since_ns, limit))

    async def _read(self, database: str, sql: str, params: Sequence[Any]) -> list[Traced]:
        try:
            rows = await self._pool.read(lambda connection: connection.query(sql, params))
        except BackendError as error:
            if error.errno == _NO_SUCH_TABLE:
                return []
            raise
        found = [_event(database, row) for row in rows]
        return [event for event in found if event is not None]

    async def queues(self, database: str) -> list[QueueName]:
        """The queues and topics of which there is something, perhaps gone by now. Raises BackendError."""
        sql, found = TraceStatements(self._dialect, database).next_queue, list[QueueName]()

        def work(connection: StoreConnection) -> None:
            last: Any = ""
            while (last := connection.query(sql, (last,))[0][0]) is not None:
                found.append(QueueName(database, str(last)))

        try:
            await self._pool.read(work)
        except BackendError as error:
            if error.errno != _NO_SUCH_TABLE:
                raise
        return found

    async def clean(self, queue: QueueName, older_ns: int, limit: int) -> CleanedTraces:
        """Delete a queue's events that are older than so much, about `limit` of them. Raises BackendError."""
        statements = TraceStatements(self._dialect, queue.database)

        def work(connection: StoreConnection) -> CleanedTraces:
            old = connection.query(statements.old, (queue.table, older_ns, limit))
            if not old:
                return CleanedTraces(0, False)
            deleted = connection.execute(statements.delete, (queue.table, int(old[-1][0])))
            return CleanedTraces(deleted, len(old) == limit)

        return await self._pool.write(work)

    async def ids_follow(self) -> bool:
        """Whether the rows of one INSERT get ids that follow one another. Raises BackendError."""
        if not self._dialect.lock:
            return True
        ((step,),) = await self._pool.read(lambda connection: connection.query("SELECT @@auto_increment_increment"))
        return int(step) == 1


def _row(event: Traced) -> tuple[Any, ...]:
    """As the table has it. A value that is too long for its column would have the whole batch refused."""
    to = event.receiver
    who: tuple[Any, ...] = (None,) * 5
    if to is not None:
        names = (_cut(to.user, _NAME), _cut(to.host, _NAME), _cut(to.consumer, _NAME))
        who = (_number(to.connection_id), *names, _number(to.pid))
    what = (event.at_ns, _cut(event.what, _EVENT), int(event.sure), _number(event.epoch))
    reason = _cut(event.reason, _REASON) or None
    return (event.queue.table, event.id, event.process, event.number, *what, *who, reason, _cut(event.place, _NAME))


def _cut(text: str, most: int) -> str:
    """Text as every column takes it: without halves of characters."""
    return text[:most].encode("utf-8", "replace").decode()


def _number(value: int | None) -> int | None:
    return value if value is not None and abs(value) <= _BIGINT_MAX else None


def _event(database: str, row: Sequence[Any]) -> Traced | None:
    """The inverse of `_row`; None where it is none."""
    table, id_, process, number, at_ns, what, certain, epoch, connection_id, user, host, consumer, pid, *rest = row
    reason, place = rest
    try:
        queue, to = QueueName(database, str(table)), None
        if connection_id is not None:
            name = "" if consumer is None else str(consumer)
            to = SubscribeRequest(
                queue,
                connection_id=int(connection_id),
                user="" if user is None else str(user),
                host="" if host is None else str(host),
                consumer=name,
                pid=None if pid is None else int(pid),
            )
        attempt = None if epoch is None else int(epoch)
        told = (int(at_ns), str(what), attempt, to, bool(certain), "" if reason is None else str(reason))
        return Traced(queue, int(id_), *told, str(place), str(process), int(number))
    except (TypeError, ValueError):
        return None

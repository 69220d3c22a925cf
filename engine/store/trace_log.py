"""TraceLog: TraceStore in SQL, one implementation for every dialect.

The table is created with the first write; a missing table counts as empty. Its rows may come from any account that may
write to the database: rows that cannot be read are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.backend.base import StoreConnection, StorePool
from engine.model.errors import BackendError, MissingTableAllowed
from engine.model.queue import MessageId, QueueName, ReceiverIdentity
from engine.model.trace_event import TraceEvent
from engine.store.base import CleanupResult
from engine.store.statements.dialect import Dialect
from engine.store.statements.traces import INSERTED_MAX, TraceStatements, create_traces
from engine.store.topic_state import Define

_DUPLICATE = 1062
_BIGINT_MAX = (1 << 63) - 1
_EVENT, _NAME, _REASON = 32, 255, 1000  # characters of a column


class TraceLog:
    """See the module. `define` creates the table, in MySQL's syntax."""

    def __init__(self, pool: StorePool, dialect: Dialect, define: Define) -> None:
        self._pool, self._dialect, self._define = pool, dialect, define

    async def write(self, database: str, events: Sequence[TraceEvent]) -> None:
        with MissingTableAllowed():
            await self._write(database, events)
            return
        await self._define(create_traces(database))
        await self._write(database, events)

    async def _write(self, database: str, events: Sequence[TraceEvent]) -> None:
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
            # No other process uses these numbers: the COMMIT whose answer was lost has succeeded.
            if error.errno != _DUPLICATE:
                raise

    async def of(self, queue: QueueName, id_: MessageId, limit: int) -> list[TraceEvent]:
        sql = TraceStatements(self._dialect, queue.database).of
        return await self._read(queue.database, sql, (queue.table, id_, limit))

    async def newest(self, queue: QueueName, since_ns: int, limit: int) -> list[TraceEvent]:
        sql = TraceStatements(self._dialect, queue.database).newest
        return await self._read(queue.database, sql, (queue.table, since_ns, limit))

    async def _read(self, database: str, sql: str, params: Sequence[Any]) -> list[TraceEvent]:
        rows: list[tuple[Any, ...]] = []
        with MissingTableAllowed():
            rows = await self._pool.read(lambda connection: connection.query(sql, params))
        events = [_event(database, row) for row in rows]
        return [event for event in events if event is not None]

    async def queues(self, database: str) -> list[QueueName]:
        sql, names = TraceStatements(self._dialect, database).next_queue, list[QueueName]()

        def work(connection: StoreConnection) -> None:
            last: Any = ""
            while (last := connection.query(sql, (last,))[0][0]) is not None:
                names.append(QueueName(database, str(last)))

        with MissingTableAllowed():
            await self._pool.read(work)
        return names

    async def clean(self, queue: QueueName, older_ns: int, limit: int) -> CleanupResult:
        statements = TraceStatements(self._dialect, queue.database)

        def work(connection: StoreConnection) -> CleanupResult:
            old = connection.query(statements.old, (queue.table, older_ns, limit))
            if not old:
                return CleanupResult(0, False)
            deleted = connection.execute(statements.delete, (queue.table, int(old[-1][0])))
            return CleanupResult(deleted, len(old) == limit)

        return await self._pool.write(work)

    async def ids_follow(self) -> bool:
        if not self._dialect.lock:
            return True
        ((step,),) = await self._pool.read(lambda connection: connection.query("SELECT @@auto_increment_increment"))
        return int(step) == 1


def _row(event: TraceEvent) -> tuple[Any, ...]:
    """The row of an event. Values are cut, for one that is too long would make the whole batch fail."""
    to = event.receiver
    receiver_values: tuple[Any, ...] = (None,) * 5
    if to is not None:
        names = (_cut(to.user, _NAME), _cut(to.host, _NAME), _cut(to.consumer, _NAME))
        receiver_values = (_number(to.connection_id), *names, _number(to.pid))
    what = (event.at_ns, _cut(event.what, _EVENT), int(event.sure), _number(event.epoch))
    reason = _cut(event.reason, _REASON) or None
    return (
        event.queue.table,
        event.id,
        event.process,
        event.number,
        *what,
        *receiver_values,
        reason,
        _cut(event.place, _NAME),
    )


def _cut(text: str, most: int) -> str:
    """Text as every column takes it: without halves of characters."""
    return text[:most].encode("utf-8", "replace").decode()


def _number(value: int | None) -> int | None:
    return value if value is not None and abs(value) <= _BIGINT_MAX else None


def _event(database: str, row: Sequence[Any]) -> TraceEvent | None:
    """The inverse of `_row`; None where the row is invalid."""
    table, id_, process, number, at_ns, what, certain, epoch, connection_id, user, host, consumer, pid, *rest = row
    reason, place = rest
    try:
        queue, to = QueueName(database, str(table)), None
        if connection_id is not None:
            name = "" if consumer is None else str(consumer)
            to = ReceiverIdentity(
                connection_id=int(connection_id),
                user="" if user is None else str(user),
                host="" if host is None else str(host),
                consumer=name,
                pid=None if pid is None else int(pid),
            )
        attempt = None if epoch is None else int(epoch)
        details = (int(at_ns), str(what), attempt, to, bool(certain), "" if reason is None else str(reason))
        return TraceEvent(queue, int(id_), *details, str(place), str(process), int(number))
    except (TypeError, ValueError):
        return None

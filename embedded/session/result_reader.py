"""Results read from SQLite in batches: a small one by one task of the thread, a large one as the client reads it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from embedded.compile.functions.context import CallContext
from embedded.database.connection import SqliteConnection, SqliteWorker
from embedded.database.errors import SqliteInterrupted
from embedded.database.sqlite import SqliteDatabase
from embedded.session.results import Row, RowDecoder

FIRST_BATCH = 256  # rows fetched with the statement itself; most results end here
NEXT_BATCH = 1024  # rows per task of the thread afterwards: a few hundred kB of ordinary rows
BATCH_BYTES = 1 << 20  # per task of the thread; buffered several times for a client that stopped reading
BUFFERED_ROWS_MAX = 100_000  # rows of a result buffered when its connection is needed for the next statement
BUFFERED_BYTES_MAX = 128 << 20  # of their texts and blobs


@dataclass(eq=False, slots=True)
class Stream:
    """One open result. It owns its worker unless that is pinned by a transaction (`release` None)."""

    database: SqliteDatabase
    worker: SqliteWorker
    decode: RowDecoder
    release: Callable[[SqliteWorker], None] | None
    context: CallContext
    killed: bool = False
    finished: bool = False
    total: int = 0
    _cursor: Any = None
    _ready: list[list[Row]] = field(default_factory=list)

    async def open(self, sql: str, params: Sequence[Any]) -> None:
        """Run the query and fetch its first rows."""

        def start(connection: SqliteConnection) -> tuple[Any, list[Row], bool]:
            connection.context = self.context
            cursor = connection.execute(sql, params)
            try:
                rows, last = _fetched(connection, cursor, FIRST_BATCH)
                return cursor, self.decode(rows), last
            except BaseException:
                cursor.close()
                raise

        try:
            self._cursor, rows, last = await self.database.run(self.worker, start)
        except BaseException:
            self._release_worker()
            raise
        await self._received(rows, last)

    async def batches(self) -> AsyncGenerator[list[Row], None]:
        """The rows, batch by batch."""
        try:
            while True:
                if self.killed:
                    raise SqliteInterrupted()
                if self._ready:
                    yield self._ready.pop(0)
                elif self.finished:
                    return
                else:
                    await self._fetch()
        finally:
            await self.close()

    async def buffer(self) -> None:
        """Buffer the remaining rows, because the connection is needed."""
        size = 0
        while not self.finished:
            before = len(self._ready)
            await self._fetch()
            size += sum(_size(row) for batch in self._ready[before:] for row in batch)
            if size > BUFFERED_BYTES_MAX or sum(map(len, self._ready)) > BUFFERED_ROWS_MAX:
                self.killed = True
                await self.close()

    def kill(self) -> None:
        """End the result with 1317."""
        self.killed = True
        self.context.kill()
        if not self.finished:
            self.worker.interrupt()

    async def close(self) -> None:
        """Release the connection. May be called twice."""
        if self.finished:
            return
        self.finished = True
        cursor, self._cursor = self._cursor, None
        try:
            await self.database.run(self.worker, lambda _: cursor.close() if cursor is not None else None)
        finally:
            self._release_worker()

    async def _fetch(self) -> None:
        cursor = self._cursor

        def fetch(connection: SqliteConnection) -> tuple[list[Row], bool]:
            connection.context = self.context
            rows, last = _fetched(connection, cursor, NEXT_BATCH)
            return self.decode(rows), last

        try:
            rows, last = await self.database.run(self.worker, fetch)
        except BaseException:
            await self.close()
            raise
        await self._received(rows, last)

    async def _received(self, rows: list[Row], last: bool) -> None:
        self.total += len(rows)
        if rows:
            self._ready.append(rows)
        if last:
            await self.close()

    def _release_worker(self) -> None:
        self.finished = True
        release, self.release = self.release, None
        if release is not None:
            release(self.worker)


def _fetched(connection: SqliteConnection, cursor: Any, most: int) -> tuple[list[Any], bool]:
    """At most so many rows, fewer where they are large; and whether they are the last."""
    rows: list[Any] = []
    size = 0
    for row in connection.rows(cursor):
        rows.append(row)
        size += _size(row)
        if len(rows) >= most or size >= BATCH_BYTES:
            return rows, False
    return rows, True


def _size(row: Sequence[Any]) -> int:
    return 1 + sum(len(value) for value in row if isinstance(value, str | bytes))

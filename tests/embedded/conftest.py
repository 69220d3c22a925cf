"""Sessions on an embedded database in a temporary file, without a server around them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from embedded.database.sqlite import SqliteDatabase
from embedded.session.results import OkResult, RowsResult
from embedded.session.session import EmbeddedSession
from embedded.session.state import Identity

LOCK_WAIT = 0.3  # seconds that a write waits in these tests before 1205


class Client:
    """A session with the shortcuts that tests want."""

    def __init__(self, session: EmbeddedSession) -> None:
        self.session = session

    async def __call__(self, sql: str, *params: Any) -> OkResult:
        result = await self.session.execute(sql, list(params) or None)
        assert isinstance(result, OkResult), "rows where none were expected"
        return result

    async def result(self, sql: str, *params: Any) -> RowsResult:
        result = await self.session.execute(sql, list(params) or None)
        assert isinstance(result, RowsResult)
        return result

    async def rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        result = await self.result(sql, *params)
        return [row async for batch in result.batches for row in batch]

    async def value(self, sql: str, *params: Any) -> Any:
        ((value,),) = await self.rows(sql, *params)
        return value

    async def error(self, sql: str, *params: Any) -> tuple[int, str]:
        """Number and text of the error that the statement must end in."""
        try:
            result = await self.session.execute(sql, list(params) or None)
            if isinstance(result, RowsResult):
                async for _ in result.batches:
                    pass
        except Exception as error:
            return int(getattr(error, "errno", 0)), str(getattr(error, "message", error))
        raise AssertionError(f"was not refused: {sql}")

    async def errno(self, sql: str, *params: Any) -> int:
        return (await self.error(sql, *params))[0]


@pytest.fixture
async def database(tmp_path) -> AsyncIterator[SqliteDatabase]:
    opened = await SqliteDatabase.open(str(tmp_path / "test.db"), lock_wait_seconds=LOCK_WAIT)
    yield opened
    await opened.close()


@pytest.fixture
async def connect(database) -> AsyncIterator[Callable[..., Client]]:
    """Makes sessions; they are closed before the database is."""
    opened: list[EmbeddedSession] = []

    def make(*, found_rows: bool = False, processes: Sequence[Any] = ()) -> Client:
        session = EmbeddedSession(
            database,
            Identity(len(opened) + 1, "root", "127.0.0.1:5000", "8.0.40-test"),
            lambda: processes,
            found_rows=found_rows,
        )
        opened.append(session)
        return Client(session)

    yield make
    for session in opened:
        await session.close()


@pytest.fixture
def client(connect) -> Client:
    return connect()

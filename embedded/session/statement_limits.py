"""How long a statement may run, and what ends it: the client's own settings, a hint, and the configuration's bound.

MySQL's max_execution_time (milliseconds, as a variable or as a hint) is for SELECT; MariaDB's max_statement_time
(seconds) and `limits.statement_time` are for every statement. The least of them holds, with its own error.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import TracebackType

from embedded.database.errors import SqliteInterrupted
from embedded.session.results import OkResult, Row, RowsResult
from engine.model.errors import BackendError

_HINTS = re.compile(r"[\s(]*SELECT\s*/\*\+(.{0,2000}?)\*/", re.I | re.S)
_MILLISECONDS = re.compile(r"\bMAX_EXECUTION_TIME\s*\(\s*(\d{1,10})\s*\)", re.I)
_AGAIN_SECONDS = 0.05  # an interrupt between two steps of a statement is lost

_SELECT_OVER = (3024, "Query execution was interrupted, maximum statement execution time exceeded")
_STATEMENT_OVER = (1969, "Query execution was interrupted (max_statement_time exceeded)")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of an account in the configuration, in seconds; 0: no limit. `statement`: for one statement.
    `idle_transaction`: idle in a transaction that blocks all other writers."""

    statement: float = 0.0
    idle_transaction: float = 0.0


UNBOUNDED = Bounds()


def hinted_milliseconds(sql: str) -> int | None:
    """The value of the hint MAX_EXECUTION_TIME of a SELECT."""
    hints = _HINTS.match(sql)
    hint = _MILLISECONDS.search(hints[1]) if hints is not None else None
    return int(hint[1]) if hint is not None else None


@dataclass(eq=False, slots=True)
class TimeLimit:
    """The time of one statement, rows included. A context around its start; `over_rows` holds it over the rows.

    `stop` ends what the session runs, which is this statement until its rows are read.
    """

    seconds: float
    stop: Callable[[], None]
    errno: int = 0
    message: str = ""
    expired: bool = False
    _rows: _TimedRows | None = None
    _timer: asyncio.TimerHandle | None = field(default=None)

    @classmethod
    def of(
        cls, sql: str, *, select: bool, milliseconds: int, seconds: float, bounds: Bounds, stop: Callable[[], None]
    ) -> TimeLimit:
        """The least of the limits that hold for this statement."""
        limits: list[tuple[float, tuple[int, str]]] = []
        if select:
            hinted = hinted_milliseconds(sql)
            limits.append(((milliseconds if hinted is None else hinted) / 1000, _SELECT_OVER))
        limits.append((seconds, _STATEMENT_OVER))
        named = f"{_SELECT_OVER[1]} (limits.statement_time, {bounds.statement:g} s)"
        limits.append((bounds.statement, (_SELECT_OVER[0], named)))
        least, (errno, message) = min((limit for limit in limits if limit[0] > 0), default=(0.0, (0, "")))
        return cls(least, stop, errno, message)

    def __enter__(self) -> TimeLimit:
        if self.seconds:
            self._timer = asyncio.get_running_loop().call_later(self.seconds, self._fire)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._rows is None:
            self.cancel()
        if self.expired and isinstance(error, SqliteInterrupted):
            raise self.error from None

    @property
    def error(self) -> BackendError:
        return BackendError(self.message, self.errno, "HY000" if self.errno == _SELECT_OVER[0] else "70100")

    def over_rows(self, result: RowsResult | OkResult) -> RowsResult | OkResult:
        """The result, whose rows are to come in the same time."""
        if not self.seconds or not isinstance(result, RowsResult):
            return result
        self._rows = _TimedRows(self, result)
        return replace(result, batches=self._rows)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self) -> None:
        self.expired = True
        if self._rows is None:
            self.stop()
        elif self._rows.reading:
            self._rows.result.stop()
        else:
            return  # nothing of it runs: a client that reads on gets the timeout
        self._timer = asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._fire)


@dataclass(eq=False, slots=True)
class _TimedRows:
    """Rows that come within the limit, or end in its error. Between two reads the session may run other statements,
    which the limit does not concern."""

    limit: TimeLimit
    result: RowsResult
    reading: bool = False

    def __aiter__(self) -> _TimedRows:
        return self

    async def __anext__(self) -> list[Row]:
        if self.limit.expired:
            self.result.stop()
        self.reading = True
        try:
            return await anext(self.result.batches)
        except BaseException as error:
            self.limit.cancel()
            if self.limit.expired and isinstance(error, SqliteInterrupted):
                raise self.limit.error from None
            raise
        finally:
            self.reading = False

    async def aclose(self) -> None:
        """Also where nothing has been read."""
        self.limit.cancel()
        await self.result.close()

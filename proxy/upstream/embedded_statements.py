"""EmbeddedStatements: the prepared statements of one client of the embedded backend, and their cursors.

Invariant: an open result belongs to exactly one cursor, and is closed with it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from embedded.session.session import OkResult, RowsResult
from mysql_wire import replies, requests
from mysql_wire.errors import MalformedPacket, ProxyError
from mysql_wire.outcome import Outcome
from mysql_wire.prepared_parameters import PreparedParameters
from mysql_wire.status_flags import CURSOR_EXISTS, LAST_ROW_SENT
from proxy.upstream.embedded_answers import EmbeddedAnswers

STATEMENTS_MAX = 16_382  # MySQL's own default for max_prepared_stmt_count, there for all sessions together
LONG_DATA_MAX_BYTES = 64 << 20  # as much as the largest packet we take

Values = tuple[object, ...]


@dataclass(slots=True)
class _Rows:
    """An open result behind a cursor: rows fetched from the database but not yet asked for."""

    result: RowsResult
    waiting: deque[Values] = field(default_factory=deque)
    ended: bool = False

    async def take(self, count: int) -> list[Values]:
        """Up to `count` rows; fewer only at the end, which is known only by looking one row further."""
        while len(self.waiting) <= count and not self.ended:
            try:
                self.waiting.extend(await anext(self.result.batches))
            except StopAsyncIteration:
                self.ended = True
        return [self.waiting.popleft() for _ in range(min(count, len(self.waiting)))]


@dataclass(slots=True)
class _Statement:
    """A prepared statement of this session."""

    sql: str
    parameters: PreparedParameters
    cursor: _Rows | None = None

    async def close_cursor(self) -> None:
        cursor, self.cursor = self.cursor, None
        if cursor is not None:
            await cursor.result.close()


class EmbeddedStatements:
    """See the module. Each command takes the packet's body, and whether an answer without rows is to be buffered."""

    def __init__(self, answers: EmbeddedAnswers) -> None:
        self._answers = answers
        self._statements: dict[int, _Statement] = {}
        self._last = 0

    async def prepare(self, body: bytes, buffered: bool) -> Outcome:
        """COM_STMT_PREPARE."""
        if len(self._statements) >= STATEMENTS_MAX:
            raise ProxyError(1461, f"Can't create more than max_prepared_stmt_count statements ({STATEMENTS_MAX})")
        answers = self._answers
        sql = await answers.read(body)
        if len(await answers.statements(body)) > 1:
            raise ProxyError(1064, "You have an error in your SQL syntax: a prepared statement is one statement")
        info = await answers.session.prepare(sql)
        number = self._last = self._last % 0x7FFFFFFF + 1  # upper half: statements the proxy itself answers
        self._statements[number] = _Statement(sql, PreparedParameters(info.parameter_count, LONG_DATA_MAX_BYTES))
        answers.writer.status = answers.status
        text = answers.session.text
        await answers.writer.prepared(number, info.parameter_count, text.described(info.columns), encoding=text.writes)
        return Outcome(status=answers.status, statement_id=number)

    async def execute(self, body: bytes, buffered: bool) -> Outcome:
        """COM_STMT_EXECUTE."""
        answers, statement = self._answers, self._statement(body, "mysqld_stmt_execute")
        await statement.close_cursor()
        request = statement.parameters.execution(body, answers.writer.capabilities, answers.session.text.reads)
        result = await answers.session.execute(statement.sql, request.values)
        if isinstance(result, OkResult) or not request.cursor:
            return await answers.write(result, buffered=buffered, binary=True)
        answers.writer.status = answers.status
        statement.cursor = _Rows(result)
        answers.header(result.columns, flags=CURSOR_EXISTS)
        await answers.writer.flush()
        return Outcome(status=answers.status)

    async def fetch(self, body: bytes, buffered: bool) -> Outcome:
        """COM_STMT_FETCH."""
        number, count = requests.parse_fetch(body)
        statement = self._statement(body, "mysqld_stmt_fetch")
        if statement.cursor is None:
            raise ProxyError(1421, f"The statement ({number}) has no open cursor")
        cursor, writer = statement.cursor, self._answers.writer
        rows = await cursor.take(count)
        codec = self._answers.session.text.writes
        writer.rows([replies.binary_row_from_values(row, cursor.result.columns, codec) for row in rows])
        last = cursor.ended and not cursor.waiting
        await writer.end_of_rows(flags=LAST_ROW_SENT if last else CURSOR_EXISTS)
        if last:
            await statement.close_cursor()
        return Outcome(status=self._answers.status)

    async def reset(self, body: bytes, buffered: bool) -> Outcome:
        """COM_STMT_RESET."""
        statement = self._statement(body, "mysqld_stmt_reset")
        statement.parameters.forget()
        await statement.close_cursor()
        return await self._answers.done()

    async def close(self, body: bytes, buffered: bool) -> Outcome:
        """COM_STMT_CLOSE, which has no answer."""
        statement = self._statements.pop(int.from_bytes(body[:4], "little"), None)
        if statement is not None:
            await statement.close_cursor()
        return Outcome(status=self._answers.status)

    async def add_long_data(self, body: bytes, buffered: bool) -> Outcome:
        """COM_STMT_SEND_LONG_DATA. No answer is ever sent; a fault shows at execution, as in MySQL."""
        try:
            statement_id, parameter, piece = requests.parse_long_data(body)
        except MalformedPacket:
            return Outcome(status=self._answers.status)
        statement = self._statements.get(statement_id)
        if statement is not None:
            statement.parameters.add(parameter, piece)
        return Outcome(status=self._answers.status)

    async def close_all(self) -> None:
        """The session ends, or begins again."""
        for statement in self._statements.values():
            await statement.close_cursor()
        self._statements.clear()

    def _statement(self, body: bytes, command: str) -> _Statement:
        number = int.from_bytes(body[:4], "little")
        statement = self._statements.get(number)
        if statement is None:
            raise ProxyError(1243, f"Unknown prepared statement handler ({number}) given to {command}")
        return statement

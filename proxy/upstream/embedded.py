"""EmbeddedUpstream: the commands of one client, answered by the embedded backend instead of a MySQL server.

The counterpart of RelayUpstream: same interface, but here the answer is made, not relayed. Lives here: commands to
session calls, results to packets, prepared statements and their cursors. Never here: SQL knowledge.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from mysql_mimic.types import Commands

from embedded.session.client_watch import ClientWatch
from embedded.session.session import EmbeddedSession, OkResult, RowsResult
from engine.model.errors import EngineError
from engine.model.queue import ColumnMeta, quoted
from proxy.errors import MalformedPacket, ProxyError
from proxy.transport.answer_writer import AnswerWriter
from proxy.transport.client_output import FLUSH_BYTES
from proxy.upstream.large_command import LargeCommand
from proxy.wire import replies, requests
from proxy.wire.flags import BACKSLASH_IN_CHARACTERS
from proxy.wire.outcome import Collected, Outcome
from proxy.wire.prepared_parameters import PreparedParameters
from proxy.wire.status_flags import (
    ANSI_QUOTES,
    AUTOCOMMIT,
    CURSOR_EXISTS,
    IN_TRANSACTION,
    LAST_ROW_SENT,
    NO_BACKSLASH_ESCAPES,
)
from rewriter.errors import RewriteError
from rewriter.scan.scanner import split_statements

STATEMENTS_MAX = 16_382  # MySQL's own default for max_prepared_stmt_count, there for all sessions together
LONG_DATA_MAX_BYTES = 64 << 20  # as much as the largest packet we take
_DECODE_STRIDE = 1 << 20  # bytes decoded in one call
_COLLECT_ROWS_MAX = 100_000  # SHOW statements that the proxy edits; beyond it something is wrong

Values = tuple[object, ...]
AnswerError = (EngineError, RewriteError, ProxyError)


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


class EmbeddedUpstream:
    """See the module."""

    def __init__(self, session: EmbeddedSession, writer: AnswerWriter) -> None:
        self.session = session
        self._writer = writer
        self._statements: dict[int, _Statement] = {}
        self._last_statement = 0
        self._buffered: list[tuple[OkResult, bool]] = []  # with whether more results follow
        self._closed = False
        self._handlers: dict[int, Callable[[bytes, bool], Awaitable[Outcome]]] = {
            Commands.COM_QUERY: self._query,
            Commands.COM_INIT_DB: self._init_db,
            Commands.COM_PING: self._ping,
            Commands.COM_STATISTICS: self._statistics,
            Commands.COM_SET_OPTION: self._set_option,
            Commands.COM_RESET_CONNECTION: self._reset,
            Commands.COM_FIELD_LIST: self._field_list,
            Commands.COM_STMT_PREPARE: self._prepare,
            Commands.COM_STMT_EXECUTE: self._execute,
            Commands.COM_STMT_FETCH: self._fetch,
            Commands.COM_STMT_RESET: self._reset_statement,
            Commands.COM_STMT_CLOSE: self._close_statement,
            Commands.COM_STMT_SEND_LONG_DATA: self._long_data,
        }

    @property
    def status(self) -> int:
        """The protocol's status flags."""
        session, lexical = self.session, self.session.lexical
        of_transaction = IN_TRANSACTION * session.in_transaction | AUTOCOMMIT * session.autocommit
        of_modes = NO_BACKSLASH_ESCAPES * lexical.no_backslash_escapes | ANSI_QUOTES * lexical.ansi_quotes
        return of_transaction | of_modes

    @property
    def alive(self) -> bool:
        return not self._closed

    @property
    def connection_required(self) -> bool:
        return False

    async def pass_on(self, large: LargeCommand, *, buffered: bool = False) -> Outcome:
        """See Upstream."""
        return await self.command(await large.whole(), buffered=buffered)

    async def command(self, payload: bytes, *, more: bool = False, buffered: bool = False) -> Outcome:
        """See Upstream."""
        handler = self._handlers.get(payload[0])
        try:
            if handler is None:
                raise ProxyError(1047, f"Unknown command {payload[0]:#04x}")
            self._writer.more = more
            with self._watched():
                return await handler(payload[1:], buffered)
        except AnswerError as error:
            return await self._fail(error)
        finally:
            self._writer.more = False

    async def _fail(self, error: EngineError | RewriteError | ProxyError) -> Outcome:
        await self.deliver()
        self._writer.status = self.status
        await self._writer.error(error.errno, error.sqlstate, error.message)
        return Outcome.of(error, self.status)

    def recode(self, encoding: str) -> None:
        """See Upstream. The session here has executed it."""

    async def deliver(self) -> None:
        """Write what is buffered."""
        buffered, self._buffered = self._buffered, []
        more = self._writer.more
        for result, self._writer.more in buffered:
            await self._write_ok(result)
        self._writer.more = more

    async def collect(self, sql: str) -> Collected | Outcome:
        """See Upstream."""
        try:
            with self._watched():
                result = await self.session.execute(sql)
        except AnswerError as error:
            return Outcome.of(error, self.status)
        if isinstance(result, OkResult):
            return Outcome(
                status=self.status,
                affected_rows=result.affected_rows,
                last_insert_id=result.last_insert_id,
                warnings=result.warnings,
                info=result.info,
            )
        rows = [row async for batch in result.batches for row in batch]
        if len(rows) > _COLLECT_ROWS_MAX:
            return Outcome(1105, f"more than {_COLLECT_ROWS_MAX} rows", "HY000", status=self.status)
        columns, codec = result.columns, self.session.text.writes
        texts = (tuple(replies.text_from_value(v, c, codec) for v, c in zip(row, columns, strict=True)) for row in rows)
        return Collected(columns, tuple(texts))

    def _watched(self) -> ClientWatch:
        return ClientWatch(self._writer.client.wait_disconnected, self.session.interrupt)

    async def replace_session(self, session: EmbeddedSession) -> None:
        """COM_CHANGE_USER: nothing of the old session stays."""
        await self._close_statements()
        await self.session.close()
        self.session = session

    def interrupt(self) -> None:
        """KILL QUERY: the running statement fails with 1317."""
        self.session.interrupt()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._close_statements()
            await self.session.close()

    # --- text protocol

    async def _query(self, body: bytes, buffered: bool) -> Outcome:
        texts = await self.session.offload(len(body), lambda: self._split(body))
        if not texts:
            raise ProxyError(1065, "Query was empty")
        if len(texts) > 1 and not self._writer.capabilities & replies.MULTI_STATEMENTS:
            raise ProxyError(1064, "You have an error in your SQL syntax: more than one statement in one command")
        more_after = self._writer.more
        outcome = Outcome(status=self.status)
        for number, text in enumerate(texts, 1):
            self._writer.more = more_after or number < len(texts)
            outcome = await self._run(await self._read(text), buffered)
        return outcome

    def _split(self, text: bytes) -> list[bytes]:
        """The statements of a text, each where the client ended it: by characters where bytes are ambiguous. Each is
        read when its turn comes, for one before it may be SET NAMES."""
        escapes, codec = not self.status & NO_BACKSLASH_ESCAPES, self.session.text.reads
        if codec not in BACKSLASH_IN_CHARACTERS:
            return split_statements(text, backslash_escapes=escapes)
        pieces = split_statements(self._decode(text).encode("utf-8", "surrogatepass"), backslash_escapes=escapes)
        return [piece.decode("utf-8", "surrogatepass").encode(codec, "surrogateescape") for piece in pieces]

    async def _run(self, sql: str, buffered: bool) -> Outcome:
        result = await self.session.execute(sql)
        self._writer.status = self.status
        if isinstance(result, RowsResult):
            await self.deliver()  # results keep their order
            await self._write_rows(result)
            return Outcome(status=self.status)
        if buffered:
            self._buffered.append((result, self._writer.more))
        else:
            await self._write_ok(result)
        return self._outcome(result)

    def _outcome(self, result: OkResult) -> Outcome:
        return Outcome(status=self.status, affected_rows=result.affected_rows, last_insert_id=result.last_insert_id)

    async def _write_ok(self, result: OkResult) -> None:
        self._writer.status = self.status
        await self._writer.ok(
            affected_rows=result.affected_rows,
            last_insert_id=result.last_insert_id,
            warnings=result.warnings,
            info=result.info,
        )

    def _header(self, columns: Sequence[ColumnMeta], *, flags: int = 0) -> None:
        text = self.session.text
        self._writer.header(text.described(columns), flags=flags, encoding=text.writes)

    async def _write_rows(self, result: RowsResult, *, binary: bool = False) -> None:
        columns, codec = result.columns, self.session.text.writes

        def encode(row: Sequence[object]) -> bytes:
            if binary:
                return replies.binary_row_from_values(row, columns, codec)
            return replies.text_row([replies.text_from_value(v, c, codec) for v, c in zip(row, columns, strict=True)])

        self._header(columns)
        try:
            async for batch in result.batches:
                portion: list[bytes] = []
                size = 0
                for row in batch:
                    portion.append(encode(row))
                    size += len(portion[-1])
                    if size >= FLUSH_BYTES:  # a batch of large rows is not encoded ahead of what the client takes
                        self._writer.rows(portion)
                        await self._writer.flush()
                        portion, size = [], 0
                self._writer.rows(portion)
                await self._writer.flush()
        finally:
            await result.close()  # also where the client is gone in the middle
        self._writer.status = self.status
        await self._writer.end_of_rows(warnings=result.warnings)

    async def _read(self, text: bytes) -> str:
        """As `_decode`; a long text is decoded in a thread, where no client waits for it."""
        return await self.session.offload(len(text), lambda: self._decode(text))

    def _decode(self, text: bytes) -> str:
        """Bytes that are no characters are carried as surrogates: inside a string literal they are a blob's."""
        encoding = self.session.text.reads
        if len(text) <= _DECODE_STRIDE:
            return text.decode(encoding, "surrogateescape")
        decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
        pieces = [text[start : start + _DECODE_STRIDE] for start in range(0, len(text), _DECODE_STRIDE)]
        return "".join([decoder.decode(piece) for piece in pieces] + [decoder.decode(b"", True)])

    # --- simple commands

    async def _done(self) -> Outcome:
        self._writer.status = self.status
        await self._writer.ok()
        return Outcome(status=self.status)

    async def _init_db(self, body: bytes, buffered: bool) -> Outcome:
        await self.session.use(self._decode(body))
        return await self._done()

    async def _ping(self, body: bytes, buffered: bool) -> Outcome:
        return await self._done()

    async def _statistics(self, body: bytes, buffered: bool) -> Outcome:
        await self._writer.client.write(self.session.statistics().encode("ascii"))
        return Outcome(status=self.status)

    async def _set_option(self, body: bytes, buffered: bool) -> Outcome:
        option = int.from_bytes(body[:2], "little")
        if len(body) != 2 or option > 1:
            raise ProxyError(1047, "Unknown command: COM_SET_OPTION takes 0 (multi-statements on) or 1 (off)")
        self._writer.status = self.status
        await self._writer.end_of_rows()
        return Outcome(status=self.status)

    async def _reset(self, body: bytes, buffered: bool) -> Outcome:
        await self._close_statements()
        await self.session.reset()
        return await self._done()

    async def _field_list(self, body: bytes, buffered: bool) -> Outcome:
        table, _wildcard = requests.parse_field_list(body)
        result = await self.session.execute(f"SELECT * FROM {quoted(self._decode(table))} LIMIT 0")
        assert isinstance(result, RowsResult)
        async for _ in result.batches:
            pass
        text, flags = self.session.text, self._writer.capabilities
        columns = text.described(result.columns)
        self._writer.rows([replies.column_definition(c, flags, text.writes) + b"\xfb" for c in columns])
        await self._writer.end_of_rows()
        return Outcome(status=self.status)

    # --- prepared statements

    async def _prepare(self, body: bytes, buffered: bool) -> Outcome:
        if len(self._statements) >= STATEMENTS_MAX:
            raise ProxyError(1461, f"Can't create more than max_prepared_stmt_count statements ({STATEMENTS_MAX})")
        sql = await self._read(body)
        statements = await self.session.offload(len(body), lambda: self._split(body))
        if not statements:
            raise ProxyError(1065, "Query was empty")
        if len(statements) > 1:
            raise ProxyError(1064, "You have an error in your SQL syntax: a prepared statement is one statement")
        info = await self.session.prepare(sql)
        self._last_statement = self._last_statement % 0x7FFFFFFF + 1  # upper half: statements the proxy itself answers
        self._statements[self._last_statement] = _Statement(
            sql, PreparedParameters(info.parameter_count, LONG_DATA_MAX_BYTES)
        )
        self._writer.status = self.status
        text = self.session.text
        await self._writer.prepared(
            self._last_statement, info.parameter_count, text.described(info.columns), encoding=text.writes
        )
        return Outcome(status=self.status, statement_id=self._last_statement)

    def _statement(self, body: bytes, command: str) -> _Statement:
        number = int.from_bytes(body[:4], "little")
        statement = self._statements.get(number)
        if statement is None:
            raise ProxyError(1243, f"Unknown prepared statement handler ({number}) given to {command}")
        return statement

    async def _execute(self, body: bytes, buffered: bool) -> Outcome:
        statement = self._statement(body, "mysqld_stmt_execute")
        await self._close_cursor(statement)
        request = statement.parameters.execution(body, self._writer.capabilities, self.session.text.reads)
        result = await self.session.execute(statement.sql, request.values)
        self._writer.status = self.status
        if isinstance(result, OkResult):
            if buffered:
                self._buffered.append((result, False))
            else:
                await self._write_ok(result)
            return self._outcome(result)
        if request.cursor:
            statement.cursor = _Rows(result)
            self._header(result.columns, flags=CURSOR_EXISTS)
            await self._writer.flush()
        else:
            await self._write_rows(result, binary=True)
        return Outcome(status=self.status)

    async def _fetch(self, body: bytes, buffered: bool) -> Outcome:
        number, count = requests.parse_fetch(body)
        statement = self._statement(body, "mysqld_stmt_fetch")
        if statement.cursor is None:
            raise ProxyError(1421, f"The statement ({number}) has no open cursor")
        cursor = statement.cursor
        rows = await cursor.take(count)
        codec = self.session.text.writes
        self._writer.rows([replies.binary_row_from_values(row, cursor.result.columns, codec) for row in rows])
        last = cursor.ended and not cursor.waiting
        await self._writer.end_of_rows(flags=LAST_ROW_SENT if last else CURSOR_EXISTS)
        if last:
            await self._close_cursor(statement)
        return Outcome(status=self.status)

    async def _reset_statement(self, body: bytes, buffered: bool) -> Outcome:
        statement = self._statement(body, "mysqld_stmt_reset")
        statement.parameters.forget()
        await self._close_cursor(statement)
        return await self._done()

    async def _close_statement(self, body: bytes, buffered: bool) -> Outcome:
        statement = self._statements.pop(int.from_bytes(body[:4], "little"), None)
        if statement is not None:
            await self._close_cursor(statement)
        return Outcome(status=self.status)  # no answer is sent to this command

    async def _long_data(self, body: bytes, buffered: bool) -> Outcome:
        """No answer is ever sent; a fault shows at execution, as in MySQL."""
        try:
            statement_id, parameter, piece = requests.parse_long_data(body)
        except MalformedPacket:
            return Outcome(status=self.status)
        statement = self._statements.get(statement_id)
        if statement is not None:
            statement.parameters.add(parameter, piece)
        return Outcome(status=self.status)

    async def _close_cursor(self, statement: _Statement) -> None:
        cursor, statement.cursor = statement.cursor, None
        if cursor is not None:
            await cursor.result.close()

    async def _close_statements(self) -> None:
        for statement in self._statements.values():
            await self._close_cursor(statement)
        self._statements.clear()

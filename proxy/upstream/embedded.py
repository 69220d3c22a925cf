"""EmbeddedUpstream: the commands of one client, answered by the embedded backend instead of a MySQL server.

The counterpart of RelayUpstream: same interface, but here the answer is made, not relayed. Lives here: commands to
session calls. Never here: packets of results (`embedded_answers`), SQL knowledge.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mysql_mimic.types import Commands

from embedded.session.client_watch import ClientWatch
from embedded.session.session import EmbeddedSession, OkResult, RowsResult
from engine.model.errors import EngineError
from engine.model.queue import quoted
from mysql_wire import replies, requests
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import Collected, Outcome
from proxy.transport.answer_writer import AnswerWriter
from proxy.upstream.embedded_answers import EmbeddedAnswers
from proxy.upstream.embedded_statements import EmbeddedStatements
from proxy.upstream.large_command import LargeCommand
from rewriter.errors import RewriteError

_COLLECT_ROWS_MAX = 100_000  # SHOW statements that the proxy edits; beyond it something is wrong

_ANSWERED_ERRORS = (EngineError, RewriteError, ProxyError)


class EmbeddedUpstream:
    """See the module."""

    def __init__(self, session: EmbeddedSession, writer: AnswerWriter) -> None:
        self._writer = writer
        self._answers = EmbeddedAnswers(session, writer)
        self._statements = statements = EmbeddedStatements(self._answers)
        self._closed = False
        self._handlers: dict[int, Callable[[bytes, bool], Awaitable[Outcome]]] = {
            Commands.COM_QUERY: self._query,
            Commands.COM_INIT_DB: self._init_db,
            Commands.COM_PING: self._ping,
            Commands.COM_STATISTICS: self._statistics,
            Commands.COM_SET_OPTION: self._set_option,
            Commands.COM_RESET_CONNECTION: self._reset,
            Commands.COM_FIELD_LIST: self._field_list,
            Commands.COM_STMT_PREPARE: statements.prepare,
            Commands.COM_STMT_EXECUTE: statements.execute,
            Commands.COM_STMT_FETCH: statements.fetch,
            Commands.COM_STMT_RESET: statements.reset,
            Commands.COM_STMT_CLOSE: statements.close,
            Commands.COM_STMT_SEND_LONG_DATA: statements.add_long_data,
        }

    @property
    def session(self) -> EmbeddedSession:
        """The client's session in the embedded database."""
        return self._answers.session

    @property
    def status(self) -> int:
        return self._answers.status

    @property
    def alive(self) -> bool:
        return not self._closed

    @property
    def connection_required(self) -> bool:
        return False

    async def pass_on(self, large: LargeCommand, *, buffered: bool = False) -> Outcome:
        return await self.command(await large.whole(), buffered=buffered)

    async def command(
        self,
        payload: bytes,
        *,
        more: bool = False,
        buffered: bool = False,
        repeatable: bool = False,
        plain: bytes | None = None,
    ) -> Outcome:
        handler = self._handlers.get(payload[0])
        try:
            if handler is None:
                raise ProxyError(1047, f"Unknown command {payload[0]:#04x}")
            self._writer.more = more
            with self._watched():
                return await handler(payload[1:], buffered)
        except _ANSWERED_ERRORS as error:
            return await self._answers.fail(error)
        finally:
            self._writer.more = False

    def recode(self, encoding: str) -> None:
        """See Upstream. The session here has executed it."""

    async def deliver(self) -> None:
        await self._answers.deliver()

    async def collect(self, sql: str) -> Collected | Outcome:
        try:
            with self._watched():
                result = await self.session.execute(sql)
        except _ANSWERED_ERRORS as error:
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
        columns = result.columns
        texts = (tuple(replies.text_from_value(v, c) for v, c in zip(row, columns, strict=True)) for row in rows)
        return Collected(columns, tuple(texts))

    def _watched(self) -> ClientWatch:
        return ClientWatch(self._writer.client.disconnected, self.session.interrupt)

    async def replace_session(self, session: EmbeddedSession) -> None:
        """COM_CHANGE_USER: nothing of the old session stays."""
        await self._statements.close_all()
        await self.session.close()
        self._answers.session = session

    def interrupt(self) -> None:
        """KILL QUERY: the running statement fails with 1317."""
        self.session.interrupt()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._statements.close_all()
            await self.session.close()

    # --- commands

    async def _query(self, body: bytes, buffered: bool) -> Outcome:
        answers = self._answers
        texts = await answers.statements(body)
        if len(texts) > 1 and not self._writer.capabilities & replies.MULTI_STATEMENTS:
            raise ProxyError(1064, "You have an error in your SQL syntax: more than one statement in one command")
        more_after = self._writer.more
        outcome = Outcome(status=self.status)
        for number, text in enumerate(texts, 1):
            self._writer.more = more_after or number < len(texts)
            result = await answers.session.execute(await answers.read(text))
            outcome = await answers.write(result, buffered=buffered)
        return outcome

    async def _init_db(self, body: bytes, buffered: bool) -> Outcome:
        await self.session.use(self._answers.decode(body))
        return await self._answers.done()

    async def _ping(self, body: bytes, buffered: bool) -> Outcome:
        return await self._answers.done()

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
        await self._statements.close_all()
        await self.session.reset()
        return await self._answers.done()

    async def _field_list(self, body: bytes, buffered: bool) -> Outcome:
        table, _wildcard = requests.parse_field_list(body)
        result = await self.session.execute(f"SELECT * FROM {quoted(self._answers.decode(table))} LIMIT 0")
        assert isinstance(result, RowsResult)
        async for _ in result.batches:
            pass
        text, flags = self.session.text, self._writer.capabilities
        columns = text.described(result.columns)
        self._writer.rows([replies.column_definition(c, flags, text.writes) + b"\xfb" for c in columns])
        await self._writer.end_of_rows()
        return Outcome(status=self.status)

"""AnswerWriter: the proxy's own answers to a client, in packets. Everything not relayed is written here.

Honours the client's capabilities for the form of an answer (DEPRECATE_EOF, SESSION_TRACK ...). Its only state of the
session are the status flags, which the connection updates: `status` is that of the last answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.queue import ColumnMeta, TextValue
from mysql_wire import replies
from mysql_wire.row_form import RowForm
from mysql_wire.status_flags import AUTOCOMMIT, CURSOR_EXISTS, MORE_RESULTS
from proxy.transport.client_socket import ClientSocket

_OF_THE_SESSION = 0x1 | AUTOCOMMIT | 0x200 | 0x2000 | 0x8000  # and in transaction, its kind, two of sql_mode
"""The status flags that describe the session. All others describe one answer: a cursor that the server has opened for
one statement must not be announced in our answer to the next one."""


class AnswerWriter:
    """Writes answers to one client. `more` is set while further results of the same command follow."""

    def __init__(self, client: ClientSocket, capabilities: int) -> None:
        self.client = client
        self.capabilities = capabilities
        self.status = AUTOCOMMIT
        self.more = False

    def _status(self, flags: int = 0) -> int:
        return self.status & _OF_THE_SESSION | flags | (MORE_RESULTS if self.more else 0)

    async def flush(self) -> None:
        """Wait until the socket has taken what was written."""
        await self.client.drain()

    async def ok(self, *, affected_rows: int = 0, last_insert_id: int = 0, warnings: int = 0, info: str = "") -> None:
        """An OK packet."""
        packet = replies.ok_packet(
            self.capabilities,
            affected_rows=affected_rows,
            last_insert_id=last_insert_id,
            status=self._status(),
            warnings=warnings,
            info=info,
        )
        await self.client.write(packet)

    async def error(self, errno: int, sqlstate: str, message: str) -> None:
        """An ERR packet; it ends the whole answer, whatever was to follow."""
        await self.client.write(replies.err_packet(self.capabilities, errno, sqlstate, message))

    def header(self, columns: Sequence[ColumnMeta], *, flags: int = 0, encoding: str = "utf-8") -> None:
        """Column count and definitions, names in `encoding`. `flags` CURSOR_EXISTS: rows do not follow, but wait."""
        packets = [replies.column_count(len(columns), self.capabilities)]
        packets += [replies.column_definition(column, self.capabilities, encoding) for column in columns]
        if flags & CURSOR_EXISTS or not replies.deprecates_eof(self.capabilities):
            # With DEPRECATE_EOF a cursor's header still ends with a packet: it carries the cursor flag.
            packets.append(replies.end_packet(self.capabilities, status=self._status(flags)))
        self.client.write_many(packets)

    def rows(self, encoded: Sequence[bytes]) -> None:
        """Rows already encoded for the protocol in use."""
        self.client.write_many(encoded)

    async def end_of_rows(self, *, warnings: int = 0, flags: int = 0) -> None:
        """The end of a result set."""
        await self.client.write(replies.end_packet(self.capabilities, status=self._status(flags), warnings=warnings))

    async def result(
        self,
        columns: Sequence[ColumnMeta],
        rows: Sequence[Sequence[TextValue]],
        charset: str | None = None,
        *,
        binary: bool = False,
    ) -> None:
        """A whole small result, given in UTF-8. `charset`: see RowForm."""
        form = RowForm(columns, charset, binary=binary)
        self.header(form.columns, encoding=form.encoding)
        self.rows([form(row) for row in rows])
        await self.end_of_rows()

    async def prepared(
        self, statement_id: int, parameters: int, columns: Sequence[ColumnMeta], *, encoding: str = "utf-8"
    ) -> None:
        """The answer to COM_STMT_PREPARE."""
        packets = [replies.prepare_ok(statement_id, self.capabilities, columns=len(columns), parameters=parameters)]
        for definitions in ([replies.PARAMETER] * parameters, columns):
            packets += [replies.column_definition(column, self.capabilities, encoding) for column in definitions]
            if definitions and not replies.deprecates_eof(self.capabilities):
                packets.append(replies.end_packet(self.capabilities, status=self._status()))
        self.client.write_many(packets)
        await self.client.drain()

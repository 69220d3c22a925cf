"""EmbeddedAnswers: results of the embedded session to the client's packets, and the client's bytes to its SQL.

Invariant: results reach the client in the order in which their statements ran; what is buffered goes before rows and
before an error.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from embedded.session.session import EmbeddedSession, OkResult, RowsResult
from engine.model.errors import ClientError
from engine.model.queue import ColumnMeta
from mysql_wire import replies
from mysql_wire.errors import ProxyError
from mysql_wire.flags import BACKSLASH_IN_CHARACTERS
from mysql_wire.outcome import Outcome
from mysql_wire.status_flags import ANSI_QUOTES, AUTOCOMMIT, IN_TRANSACTION, NO_BACKSLASH_ESCAPES
from proxy.transport.answer_writer import AnswerWriter
from proxy.transport.client_output import FLUSH_BYTES
from rewriter.scan.scanner import split_statements

_DECODE_STRIDE = 1 << 20  # bytes decoded in one call


class EmbeddedAnswers:
    """See the module. `session` is the client's current one: COM_CHANGE_USER replaces it."""

    def __init__(self, session: EmbeddedSession, writer: AnswerWriter) -> None:
        self.session = session
        self.writer = writer
        self._buffered: list[tuple[OkResult, bool]] = []  # with whether more results follow

    @property
    def status(self) -> int:
        """The protocol's status flags."""
        session, lexical = self.session, self.session.lexical
        of_transaction = IN_TRANSACTION * session.in_transaction | AUTOCOMMIT * session.autocommit
        of_modes = NO_BACKSLASH_ESCAPES * lexical.no_backslash_escapes | ANSI_QUOTES * lexical.ansi_quotes
        return of_transaction | of_modes

    # --- results to packets

    async def write(self, result: OkResult | RowsResult, *, buffered: bool, binary: bool = False) -> Outcome:
        """Answer a statement. `buffered`: without rows it waits until `deliver`."""
        status = self.writer.status = self.status
        if isinstance(result, RowsResult):
            await self.deliver()  # results keep their order
            await self._write_rows(result, binary=binary)
            return Outcome(status=self.writer.status)
        if buffered:
            self._buffered.append((result, self.writer.more))
        else:
            await self._write_ok(result)
        return Outcome(status=status, affected_rows=result.affected_rows, last_insert_id=result.last_insert_id)

    async def deliver(self) -> None:
        """Write what is buffered."""
        if not self._buffered:
            return
        buffered, self._buffered = self._buffered, []
        more, self.writer.status = self.writer.more, self.status
        for result, self.writer.more in buffered:
            await self._write_ok(result)
        self.writer.more = more

    async def fail(self, error: ClientError | ProxyError) -> Outcome:
        """Answer with an error."""
        await self.deliver()
        status = self.writer.status = self.status
        await self.writer.error(error.errno, error.sqlstate, error.message)
        return Outcome.of(error, status)

    async def done(self) -> Outcome:
        """Answer a command that has no result."""
        status = self.writer.status = self.status
        await self.writer.ok()
        return Outcome(status=status)

    def header(self, columns: Sequence[ColumnMeta], *, flags: int = 0) -> None:
        """The columns of rows that follow, or wait behind a cursor."""
        text = self.session.text
        self.writer.header(text.described(columns), flags=flags, encoding=text.writes)

    async def _write_ok(self, result: OkResult) -> None:
        await self.writer.ok(
            affected_rows=result.affected_rows,
            last_insert_id=result.last_insert_id,
            warnings=result.warnings,
            info=result.info,
        )

    async def _write_rows(self, result: RowsResult, *, binary: bool) -> None:
        columns, codec = result.columns, self.session.text.writes

        def encode(row: Sequence[object]) -> bytes:
            if binary:
                return replies.binary_row_from_values(row, columns, codec)
            return replies.text_row([replies.text_from_value(v, c, codec) for v, c in zip(row, columns, strict=True)])

        self.header(columns)
        try:
            async for batch in result.batches:
                portion: list[bytes] = []
                size = 0
                for row in batch:
                    portion.append(encode(row))
                    size += len(portion[-1])
                    if size >= FLUSH_BYTES:  # a batch of large rows is not encoded ahead of what the client takes
                        self.writer.rows(portion)
                        await self.writer.flush()
                        portion, size = [], 0
                self.writer.rows(portion)
                await self.writer.flush()
        finally:
            await result.close()  # also where the client is gone in the middle
        self.writer.status = self.status
        await self.writer.end_of_rows(warnings=result.warnings)

    # --- bytes to SQL

    async def statements(self, text: bytes) -> list[bytes]:
        """The statements of a text, each where the client ended it: by characters where bytes are ambiguous. Each is
        read when its turn comes, for one before it may be SET NAMES.

        Raises:
            ProxyError: 1065, there is none.
        """
        texts = await self.session.offload(len(text), lambda: self._split(text))
        if not texts:
            raise ProxyError(1065, "Query was empty")
        return texts

    def _split(self, text: bytes) -> list[bytes]:
        escapes, codec = not self.session.lexical.no_backslash_escapes, self.session.text.reads
        if codec not in BACKSLASH_IN_CHARACTERS:
            return split_statements(text, backslash_escapes=escapes)
        pieces = split_statements(self.decode(text).encode("utf-8", "surrogatepass"), backslash_escapes=escapes)
        return [piece.decode("utf-8", "surrogatepass").encode(codec, "surrogateescape") for piece in pieces]

    async def read(self, text: bytes) -> str:
        """As `decode`; a long text is decoded in a thread, where no client waits for it."""
        return await self.session.offload(len(text), lambda: self.decode(text))

    def decode(self, text: bytes) -> str:
        """Bytes that are no characters are carried as surrogates: inside a string literal they are a blob's."""
        encoding = self.session.text.reads
        if len(text) <= _DECODE_STRIDE:
            return text.decode(encoding, "surrogateescape")
        decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
        pieces = [text[start : start + _DECODE_STRIDE] for start in range(0, len(text), _DECODE_STRIDE)]
        return "".join([decoder.decode(piece) for piece in pieces] + [decoder.decode(b"", True)])

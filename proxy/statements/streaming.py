"""A subscription sent to a client as a result set that does not end.

Rules: the column list goes out at once, also on an empty queue. A batch is written and flushed, and only when the
socket has taken it does the subscription get asked for the next one: so a reader that stops reading holds one batch and
delays nobody. The socket is watched meanwhile: a client that goes, or says goodbye, ends the stream, and others get at
once what it had not acked. Leases of a result that ended by itself (LIMIT, WAIT, NOWAIT) stand.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

from engine.engine import OpenStream
from engine.model.errors import EngineError
from engine.model.queue import Batch, ColumnMeta
from proxy.transport.answer_writer import AnswerWriter
from proxy.transport.client_socket import ClientSocket
from proxy.wire.row_form import RowForm


class ClientGone(EngineError):
    """The client went away in mid-stream; nobody is left to read this."""


@contextlib.asynccontextmanager
async def watching(client: ClientSocket, subscription: OpenStream) -> AsyncIterator[None]:
    """End the subscription as soon as its client is gone."""

    async def watch() -> None:
        await client.wait_gone()
        subscription.end(ClientGone("client gone"))
        await client.wait_stuck()  # a batch that was given in the same moment is still to be written
        client.abort()  # it will not read the rest, and others wait for its messages

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()


async def stream_rows(subscription: OpenStream, writer: AnswerWriter, form: RowForm) -> None:
    """Send the whole result set: header, rows as they come, and the end.

    Raises:
        ClientGone, ConnectionError: nobody listens any more; the messages have been given back.
    """
    give_back = True
    try:
        writer.header(form.columns, encoding=form.encoding)
        await writer.flush()
        async with watching(writer.client, subscription):
            async for batch in subscription:
                writer.rows([form(row) for row in batch.rows])
                await writer.flush()
        await writer.end_of_rows()
        give_back = False
    finally:
        await subscription.close(give_back=give_back)


class SubscriptionCursor:
    """A stream behind a server-side cursor: COM_STMT_FETCH takes what is there, and waits only for the first row.

    So acks can travel on the same connection, between fetches. At most one batch is leased ahead of the client.
    """

    def __init__(self, subscription: OpenStream, form: RowForm) -> None:
        self.subscription = subscription
        self._form = form
        self._rows: deque[bytes] = deque()
        self._ended = False

    @property
    def columns(self) -> tuple[ColumnMeta, ...]:
        """The columns of every row."""
        return self._form.columns

    async def fetch(self, count: int, client: ClientSocket) -> tuple[list[bytes], bool]:
        """Up to `count` encoded rows, at least one unless the stream has ended; and whether it has."""
        if not self._rows and not self._ended:
            async with watching(client, self.subscription):
                await self._next_batch()
        rows = [self._rows.popleft() for _ in range(min(count, len(self._rows)))]
        return rows, self._ended and not self._rows

    async def _next_batch(self) -> None:
        try:
            batch: Batch = await anext(self.subscription)
        except StopAsyncIteration:
            self._ended = True
            return
        self._rows.extend(self._form(row) for row in batch.rows)

    async def close(self) -> None:
        """Close the stream. What was lent to a cursor closed early goes back; a stream that ended keeps its leases."""
        await self.subscription.close(give_back=not self._ended or bool(self._rows))

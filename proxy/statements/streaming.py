"""A subscription sent to a client as a result set that does not end.

Rules: the column list goes out at once, also on an empty queue; that of a result with an end waits a moment for the
first rows, and its last rows go with the end: one packet on the network for a poll that finds a message. A batch is
written and flushed, and only when the socket has taken it does the subscription get asked for the next one: so a reader
that stops reading occupies one batch and delays no other. Before rows go to the socket their leases must not be over:
others may have the messages otherwise, or have settled them. Rows without time left that wait here are released; rows
that wait in the socket's own buffer cannot be taken back, so the connection ends when their time is over. The socket is
watched meanwhile: a client that disconnects, or sends COM_QUIT, ends the stream, and others get at once what it had not
acked. Leases of a result with an end (LIMIT, WAIT, NOWAIT) stay.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection, Sequence

from engine.engine import OpenStream, Subscription
from engine.model.errors import BackendError, EngineError, is_transient
from engine.model.queue import Batch, ColumnMeta, Message, MessageId, WaitMode
from mysql_wire.packets import HEADER_BYTES, PAYLOAD_MAX
from mysql_wire.row_form import RowForm
from proxy.statements.stream_watch import RightsChecks
from proxy.transport import tcp
from proxy.transport.answer_writer import AnswerWriter
from proxy.transport.client_output import FLUSH_BYTES
from proxy.transport.client_socket import ClientSocket

log = logging.getLogger(__name__)

_AWAY_SECONDS = 1.0  # until the next try while the database is away
_HEADER_SECONDS = 0.02  # for so long the column list of a result with an end waits for rows
_TOGETHER_BYTES = 16 * 1024  # rows that wait for the end of their result: as much as any socket takes at once


class ClientDisconnected(EngineError):
    """The client disconnected in mid-stream; the error has no reader."""


class ClientWatch:
    """Ends a subscription as soon as its client has disconnected."""

    __slots__ = ("_abort", "_client", "_disconnected", "_subscription")

    def __init__(self, client: ClientSocket, subscription: OpenStream) -> None:
        self._client, self._subscription = client, subscription
        self._disconnected: asyncio.Future[None] | None = None
        self._abort: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self._disconnected = self._client.disconnected()
        self._disconnected.add_done_callback(self._end)  # most results end before: a task for each would cost more

    def __exit__(self, *_: object) -> None:
        disconnected, self._disconnected = self._disconnected, None
        if disconnected is not None:
            disconnected.remove_done_callback(self._end)
            disconnected.cancel()
        if self._abort is not None:
            self._abort.cancel()

    def _end(self, _: asyncio.Future[None]) -> None:
        if self._disconnected is not None:
            self._subscription.end(ClientDisconnected("client gone"))
            self._abort = asyncio.create_task(self._abort_stuck())

    async def _abort_stuck(self) -> None:
        await self._client.wait_stuck()  # a batch of the same moment is still to be written
        self._client.abort()  # it will not read the rest, and others wait for its messages


async def stream_rows(subscription: OpenStream, writer: AnswerWriter, form: RowForm) -> None:
    """Send the whole result set: header, rows as they come, and the end.

    Raises:
        ClientDisconnected, ConnectionError: the client is gone; the messages have been released.
    """
    release, unread = True, UnreadRows(writer.client)
    if isinstance(subscription, Subscription):
        subscription.unread = unread
    try:
        writer.header(form.columns, encoding=form.encoding)
        if subscription.request.wait_mode is WaitMode.ENDLESS and subscription.request.limit is None:
            await writer.flush()
        await _send_all(subscription, writer, form, unread)
        unread.forget()  # other bytes follow
        await writer.end_of_rows()
        release = False
    finally:
        await subscription.close(release=release)
        unread.forget()


async def _send_all(subscription: OpenStream, writer: AnswerWriter, form: RowForm, unread: UnreadRows) -> None:
    """All rows. What is written before them goes out in a moment, if nothing else has it go out sooner."""
    client = writer.client
    push = asyncio.get_running_loop().call_later(_HEADER_SECONDS, client.push)
    client.set_unbuffered(True)
    try:
        with ClientWatch(client, subscription):
            async for batch in subscription:
                await _send(batch, subscription, writer, form, unread)
    finally:
        client.set_unbuffered(False)
        push.cancel()


class UnreadRows:
    """The rows of a stream that have certainly not reached the client: those that wait to be written (`rest`), and
    those that end in what was never sent. After rows nothing else is written as long as it is called. See
    Subscription.unread."""

    def __init__(self, client: ClientSocket) -> None:
        self._client = client
        self._rows: list[tuple[MessageId, int]] = []  # with the bytes of their packets
        self.rest: Sequence[Message] = ()

    def written(self, messages: Sequence[Message], encoded: Sequence[bytes]) -> None:
        """These rows are about to be written."""
        if self._rows and not self._client.never_sent:
            self._rows.clear()
        sizes = [len(row) + HEADER_BYTES * (1 + len(row) // PAYLOAD_MAX) for row in encoded]
        self._rows += zip([message.id for message in messages], sizes, strict=False)

    def forget(self) -> None:
        """Other bytes are written behind the rows."""
        self._rows.clear()
        self.rest = ()

    def __call__(self, *, cut: bool) -> Collection[MessageId]:
        """Those rows. `cut`: and see to it that the client does not read them any more."""
        left, unread = self._client.never_sent if self._rows else 0, [message.id for message in self.rest]
        for id_, size in reversed(self._rows):
            if left <= 0:
                break
            unread.append(id_)
            left -= size
        if unread and cut:
            tcp.discard_unsent(self._client.socket)
            self._client.abort()
        return unread


async def _send(
    batch: Batch, subscription: OpenStream, writer: AnswerWriter, form: RowForm, unread: UnreadRows
) -> None:
    """The rows of a batch, in portions: what follows one waits here until the client has taken it."""
    unread.rest = batch.messages
    await _ready(batch, subscription, form)
    while batch.rows:
        encoded: list[bytes] = []
        size = 0
        for row in batch.rows:
            encoded.append(form(row))
            size += len(encoded[-1])
            if size >= FLUSH_BYTES:
                break
        portion, batch = batch.part(0, len(encoded)), batch.part(len(encoded))
        over = subscription.drop_expired(portion)
        unexpired = [at for at in range(len(encoded)) if at not in over] if over else range(len(encoded))
        rows, unread.rest = [encoded[at] for at in unexpired], batch.messages
        unread.written([portion.messages[at] for at in unexpired] if portion.messages else (), rows)
        writer.rows(rows)
        if not batch.rows and size < _TOGETHER_BYTES and _is_complete(subscription):
            return  # the end follows at once
        writer.client.push()
        if writer.client.stuck:
            await _wait_drained(writer, subscription.seconds_left(portion))
        await writer.flush()


def _is_complete(subscription: OpenStream) -> bool:
    """Whether its LIMIT is reached."""
    return isinstance(subscription, Subscription) and subscription.remaining == 0


async def _ready(batch: Batch, subscription: OpenStream, form: RowForm) -> None:
    """See RowForm.ready; a database that is away for a moment ends no stream."""
    while True:
        try:
            return await form.ready(batch.rows)
        except BackendError as error:
            if not is_transient(error) or subscription.seconds_left(batch) <= 0:
                raise
            await asyncio.sleep(_AWAY_SECONDS)


async def _wait_drained(writer: AnswerWriter, seconds: float) -> None:
    """Wait until the client has taken what was written; where it has not when the first of these leases ends, its
    connection does."""
    try:
        async with asyncio.timeout(None if seconds == math.inf else max(seconds, 0.0)):
            await writer.flush()
    except TimeoutError:
        log.warning("a receiver has not taken what was sent to it, and the leases are over; its connection ends")
        writer.client.abort()


class SubscriptionCursor:
    """A stream behind a server-side cursor: COM_STMT_FETCH takes what is there, and waits only for the first row.

    So acks can travel on the same connection, between fetches. At most one batch is leased ahead of the client.
    """

    def __init__(self, subscription: OpenStream, form: RowForm) -> None:
        self.subscription = subscription
        self.rights_checks = RightsChecks()
        self._form = form
        self._rest = Batch((), ())
        self._ended = False
        if isinstance(subscription, Subscription):
            subscription.unread = self._unread

    @property
    def columns(self) -> tuple[ColumnMeta, ...]:
        """The columns of every row."""
        return self._form.columns

    async def fetch(self, count: int, client: ClientSocket) -> tuple[list[bytes], bool]:
        """Up to `count` encoded rows, at least one unless the stream has ended; and whether it has."""
        rows: list[bytes] = []
        while not rows:
            if not self._rest.rows and not self._ended:
                with ClientWatch(client, self.subscription):
                    await self._next_batch()
            if not self._rest.rows:
                break
            portion, self._rest = self._rest.part(0, count), self._rest.part(count)
            over = self.subscription.drop_expired(portion)
            rows = [self._form(row) for at, row in enumerate(portion.rows) if at not in over]
        return rows, self._ended and not self._rest.rows

    async def _next_batch(self) -> None:
        try:
            batch = await anext(self.subscription)
            await _ready(batch, self.subscription, self._form)
            self._rest = batch
        except StopAsyncIteration:
            self._ended = True

    def _unread(self, *, cut: bool) -> Collection[MessageId]:
        """The rows that were not fetched; `cut`: they are not to be fetched any more."""
        unread = [message.id for message in self._rest.messages]
        if cut:
            self._rest = Batch((), ())
        return unread

    async def close(self) -> None:
        """Close the stream. Messages of a cursor that is closed early are released; a stream that has ended keeps its
        leases."""
        await self.subscription.close(release=not self._ended or bool(self._rest.rows))

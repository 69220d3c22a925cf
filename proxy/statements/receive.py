"""SELECT ... FROM STREAM carried out for one client, from its plan to the last row.

The engine is asked for a subscription only after the account's rights and the stream's WHERE have been judged.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal

from engine.backend.environment import LOCK_SECONDS_MAX, LOCK_SECONDS_MIN
from engine.delivery.subscription import Subscription
from engine.engine import Engine, OpenStream
from engine.model.errors import BackendError, InvalidOption
from engine.model.key_range import Keys
from engine.model.queue import ColumnMeta, QueueName, SubscribeRequest, WaitMode, quoted
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import Outcome
from mysql_wire.row_form import ClientZone, RowForm, is_moment
from proxy.rights.account_rights import Right
from proxy.session.guard import check_right
from proxy.session.session import BackendTraits, ClientSession
from proxy.statements.database_commands import DatabaseCommands
from proxy.statements.stream_condition import ask
from proxy.statements.stream_watch import RightsChecks, StreamWatch
from proxy.statements.streaming import SubscriptionCursor, stream_rows
from proxy.statements.topics import TopicStatements, reading
from proxy.upstream.base import accepted, check_own_table, collected, results_charset
from rewriter.errors import UnsupportedSql
from rewriter.plan import Subscribe
from rewriter.plans.subscribe import by_connection

LIMIT_MAX = (1 << 63) - 1

LEASED_MAX = 100_000
"""Messages that an account with limited rights takes in one result, or has unacked in one stream: five times what a
micro-batch of Spark has by default. It prevents one statement from leasing the whole backlog of a queue for hours."""

_LOCK_NOTICED_SECONDS = 0.5  # so long takes no question about a table that no one has locked


class StreamStatement:
    """See the module. For one session."""

    def __init__(
        self, session: ClientSession, engine: Engine, traits: BackendTraits, database: DatabaseCommands
    ) -> None:
        self._session = session
        self._engine = engine
        self._traits = traits
        self._database = database

    async def run(self, plan: Subscribe) -> Outcome:
        """Answer a stream that was written as text."""
        if plan.parameters:
            raise ProxyError(1064, "You have an error in your SQL syntax: ? is for prepared statements")
        await self.send(await self.subscribe(plan), binary=False)
        return Outcome()

    async def subscribe(self, plan: Subscribe, values: Sequence[object] = ()) -> OpenStream:
        """Open a subscription for this client, if its account may receive. `values` are those of the plan's `?`."""
        identity, traits, began = self._session.identity, self._traits, asyncio.get_running_loop().time()
        request = _bound(plan, values)
        by_connection = request.by_connection
        request = replace(
            request,
            receiver=identity.receiver(request.receiver.consumer),
            by_connection=await self._leased_by_connection() if by_connection is None else by_connection,
        )
        check_right(self._session, request.queue, Right.RECEIVE)
        if self._session.rights is not None:
            request = _limited(request)
        if traits.check_stream is not None:
            traits.check_stream(self._session)
        if request.start is not None:
            start = await TopicStatements(self._session, self._engine).start(request.start, plan.moment)
            request = replace(request, start=start)
        if traits.accounts:
            await self._check_rights(request, _lock_seconds(request), remembered=True)
        if plan.filter is not None:
            where_values = [value for name, value in zip(plan.parameters, values, strict=True) if name == "where"]
            async with self._at_a_shard(request.queue):
                condition = await traits.condition(
                    self._session, request.queue, plan.filter, where_values, _lock_seconds(request)
                )
                if traits.accounts:  # the columns in it may be others
                    await self._check_own_table(request.queue, ("", *plan.filter.parts))
            key_range = None if request.condition is None else request.condition.key_range
            request = replace(request, condition=condition if key_range is None else condition.within(key_range))
        waited = asyncio.get_running_loop().time() - began
        if request.wait_mode is WaitMode.WAIT and waited >= _LOCK_NOTICED_SECONDS:
            request = replace(request, wait_seconds=max(request.wait_seconds - waited, 0.0))
        subscription = await self._engine.subscribe(request)
        self._session.settings.consumer = request.receiver.consumer
        of_connection = request.by_connection or request.keys is not Keys.SHARED
        if of_connection and isinstance(subscription, Subscription):
            self._session.retain(subscription)
        return subscription

    async def _leased_by_connection(self) -> bool:
        """The session's variable. It is read where a SET has named it. Raises InvalidOption."""
        if self._session.settings.lease is None:
            (value,) = (await collected(self._session.upstream, "SELECT @queuegate_lease")).row(1)
            self._session.settings.lease = "time" if value is None else value.decode("utf-8", "replace")
        return by_connection(self._session.settings.lease)

    async def _check_rights(
        self, request: SubscribeRequest, lock_seconds: int | None, *, remembered: bool = False
    ) -> None:
        """Receiving changes rows, so it needs UPDATE on the table, and SELECT on the columns; a topic is only read. The
        database is asked, or it has been a short time ago where that is enough (`remembered`)."""
        queue, spec = request.queue, self._engine.catalog.get(request.queue)
        names, now = request.columns or (() if spec is None else spec.message_columns), self._now
        if remembered and self._session.settings.streams.may_receive(queue, names, self._engine.catalog, now):
            return
        what = "SELECT 1 FROM {}" if request.start is not None else "UPDATE {} SET epoch = epoch"
        sql = f"{what.format(queue.sql)} WHERE {reading(names)}"
        async with self._at_a_shard(queue):
            # First: on another table the rest may fail anyhow.
            await check_own_table(self._session.upstream, queue, at_shard=spec is not None and bool(spec.shards))
            await ask(self._session, sql, lock_seconds)
        self._session.settings.streams.receives(queue, names, self._engine.catalog, now)

    async def _check_own_table(self, queue: QueueName, condition: tuple[str, ...]) -> None:
        """That the database accepts a condition shows rights to its columns, if it is on the queue's table."""
        memory, now = self._session.settings.streams, self._now
        if not memory.may_receive(queue, condition, self._engine.catalog, now):
            spec = self._engine.catalog.get(queue)
            await check_own_table(self._session.upstream, queue, at_shard=spec is not None and bool(spec.shards))
            memory.receives(queue, condition, self._engine.catalog, now)

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    @asynccontextmanager
    async def _at_a_shard(self, name: QueueName) -> AsyncIterator[None]:
        """What is asked within of a queue over several shards is asked of one, and no transaction is left there: its
        messages may be in another. Raises UnsupportedSql, BackendError."""
        session, spec = self._session, self._engine.catalog.get(name)
        if spec is None or not spec.shards:
            yield
            return
        if session.in_transaction:
            raise UnsupportedSql(
                f"'{name.table}' is over several shards, and a transaction is limited to one: end it before SELECT ..."
                " FROM STREAM, and begin the next one with the message"
            )
        async with self._database.at_shard(name.database, self._engine.queues.placement.answering(spec)):
            yield
        if session.in_transaction:  # without autocommit
            await accepted(session.upstream, "ROLLBACK")

    async def send(self, subscription: OpenStream, *, binary: bool) -> None:
        """Send a subscription to its end as a text or binary result set."""
        session = self._session
        session.subscription = subscription
        try:
            form = await self._form(subscription.columns, binary=binary)
            async with self._watched(subscription, RightsChecks()):
                await stream_rows(subscription, session.writer, form)
        finally:
            session.subscription = None
            await subscription.close(release=True)  # nothing is left to close where the stream has ended

    async def fetch(self, cursor: SubscriptionCursor, count: int) -> tuple[list[bytes], bool]:
        """Rows from behind a cursor; see SubscriptionCursor.fetch."""
        session, rights_checks = self._session, cursor.rights_checks
        session.subscription = subscription = cursor.subscription
        try:
            if asyncio.get_running_loop().time() >= rights_checks.due_at:
                error = await rights_checks.again(subscription, lambda: self._judge(subscription.request))
                if error is not None:
                    raise error
            async with self._watched(subscription, rights_checks):
                return await cursor.fetch(count, session.writer.client)
        finally:
            session.subscription = None

    def _watched(self, subscription: OpenStream, rights_checks: RightsChecks) -> StreamWatch:
        return StreamWatch(
            subscription, self._session.upstream, lambda: self._judge(subscription.request), rights_checks
        )

    async def _judge(self, request: SubscribeRequest) -> None:
        """As at the beginning. Rights on a whole database are cached by the server until the session uses it again."""
        try:
            check_right(self._session, request.queue, Right.RECEIVE)
        except ProxyError as error:
            text = f"the account has no right to receive of {request.queue} now"
            raise BackendError(text, 1142, "42000") from error
        # A stream outlives its session's own connection, and then no check is possible.
        if not self._traits.accounts or not self._session.upstream.alive:
            return
        if self._session.database == request.queue.database:
            await accepted(self._session.upstream, f"USE {quoted(request.queue.database)}")
        await self._check_rights(request, LOCK_SECONDS_MIN)

    async def cursor(self, plan: Subscribe, values: Sequence[object]) -> SubscriptionCursor:
        """Open a subscription behind a server-side cursor. No one is left with one that cannot be sent."""
        subscription = await self.subscribe(plan, values)
        try:
            return SubscriptionCursor(subscription, await self._form(subscription.columns, binary=True))
        except BaseException:
            await subscription.close(release=True)
            raise

    async def _form(self, columns: tuple[ColumnMeta, ...], *, binary: bool) -> RowForm:
        """The form in which the client wants its rows. Only the database knows the charset and the time zone."""
        charset = await self._results_charset() if any(column.is_text for column in columns) else None
        zone = await self._zone() if any(map(is_moment, columns)) else None
        return RowForm(columns, charset, binary=binary, zone=zone)

    async def _zone(self) -> ClientZone:
        (name,) = (await collected(self._session.upstream, "SELECT @@time_zone")).row(1)
        return self._engine.zone("SYSTEM" if name is None else name.decode("utf-8", "replace"))

    async def _results_charset(self) -> str | None:
        """None: nothing is to be converted."""
        memory, now = self._session.settings.streams, asyncio.get_running_loop().time()
        if (known := memory.charset(now)) is not None:
            return known[0]
        charset = await results_charset(self._session.upstream)
        memory.set_charset(charset, now)
        return charset


def _limited(request: SubscribeRequest) -> SubscribeRequest:
    """What an account with limited rights gets. A prefetch says "at most", so it may be less; a LIMIT that gives less
    means that no more is due. Raises InvalidOption."""
    if request.limit is not None and request.limit > LEASED_MAX and request.wait_mode is not WaitMode.ENDLESS:
        raise InvalidOption(f"LIMIT {request.limit}: your account may take at most {LEASED_MAX} messages in one result")
    if request.prefetch is not None and request.prefetch > LEASED_MAX:
        return replace(request, prefetch=LEASED_MAX)
    return request


def _lock_seconds(request: SubscribeRequest) -> int | None:
    """How long a query on the queue's table waits for another session's lock on it; None: for as long as the
    client's session would. A result with an end must not wait longer than its own time limit."""
    if request.wait_mode is WaitMode.ENDLESS:
        return None
    return min(max(math.ceil(request.wait_seconds), LOCK_SECONDS_MIN), LOCK_SECONDS_MAX)


def _bound(plan: Subscribe, values: Sequence[object]) -> SubscribeRequest:
    """The request with the values of its `?` put in."""
    request = plan.request
    for name, value in zip(plan.parameters, values, strict=True):
        if name == "where":
            continue
        number = _number(name, value)
        if name != "limit":
            request = replace(request, wait_mode=WaitMode.WAIT, wait_seconds=float(number))
        elif number == int(number):
            request = replace(request, limit=int(number))
        else:
            raise ProxyError(1210, "Incorrect arguments to LIMIT: a whole number is needed")
    return request


def _number(name: str, value: object) -> Decimal:
    """The `?` of LIMIT or WAIT. Some drivers send every number as a DOUBLE, so their users send strings."""
    try:
        number = Decimal(value.decode("ascii", "replace") if isinstance(value, bytes) else str(value))
    except ArithmeticError:
        number = Decimal(-1)
    if not number.is_finite() or not 0 <= number <= LIMIT_MAX:
        raise ProxyError(1210, f"Incorrect arguments to {name.upper()}: a number, 0 or more, is needed")
    return number

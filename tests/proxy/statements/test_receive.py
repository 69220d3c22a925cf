"""StreamStatement: what becomes of a subscription that cannot be sent."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from mysql_mimic.types import ColumnType

from engine.model.errors import BackendError
from engine.model.queue import ColumnMeta, QueueName, SubscribeRequest
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import Collected, Outcome
from mysql_wire.status_flags import AUTOCOMMIT
from proxy.session.session import Identity, StatementSettings
from proxy.statements.database_commands import DatabaseCommands
from proxy.statements.receive import StreamStatement
from rewriter.plan import Subscribe

Q = QueueName("d", "q")


class Subscription:
    """One of the engine's, of a queue with a text: its charset is to be asked for."""

    columns = (ColumnMeta("body", ColumnType.VARCHAR),)

    def __init__(self) -> None:
        self.closed: list[bool] = []
        self.request, self.ended = SubscribeRequest(Q), list[Exception]()

    def end(self, error: Exception) -> None:
        self.ended.append(error)

    async def close(self, *, release: bool) -> None:
        self.closed.append(release)


def stream_statement(
    subscription: Subscription, answer: Collected | Outcome
) -> tuple[StreamStatement, list[SubscribeRequest]]:
    """What the client's line answers is `answer`; and what the engine was asked for."""
    asked: list[SubscribeRequest] = []

    async def subscribe(request: SubscribeRequest) -> Subscription:
        asked.append(request)
        return subscription

    async def collect(sql: str) -> Collected | Outcome:
        return answer

    identity = Identity(connection_id=7, user="u", host="h", capabilities=0)
    upstream = SimpleNamespace(collect=collect)
    session: Any = SimpleNamespace(identity=identity, rights=None, upstream=upstream, settings=StatementSettings())
    engine: Any = SimpleNamespace(subscribe=subscribe)
    traits: Any = SimpleNamespace(accounts=False, check_stream=None)
    return StreamStatement(session, engine, traits, DatabaseCommands(session, engine, None)), asked


@pytest.mark.parametrize("how", ["cursor", "send"])
async def test_a_subscription_is_closed_where_the_line_is_lost_before_its_first_row(how):
    """Else the engine would lease messages to it for ever, and nobody would read them."""
    subscription = Subscription()
    subject, _ = stream_statement(subscription, Outcome(2013, "Lost connection", "HY000"))
    with pytest.raises(BackendError, match="Lost connection"):
        if how == "cursor":
            await subject.cursor(Subscribe(SubscribeRequest(Q)), ())
        else:
            await subject.run(Subscribe(SubscribeRequest(Q)))
    assert subscription.closed == [True]


async def test_a_cursor_has_the_charset_that_the_line_tells():
    subscription = Subscription()
    subject, asked = stream_statement(subscription, Collected((), ((b"latin1",),)))
    cursor = await subject.cursor(Subscribe(SubscribeRequest(Q), ("limit", "wait")), (3.0, b"1.5"))
    assert [(column.name, column.charset) for column in cursor.columns] == [("body", 8)]  # latin1_swedish_ci
    assert subscription.closed == []
    (request,) = asked
    assert (request.limit, request.wait_seconds) == (3, 1.5)
    assert (request.receiver.connection_id, request.receiver.user) == (7, "u")


@pytest.mark.parametrize("values", [(0.5,), (-1,), (b"x",), ("inf",), (1 << 63,)])
async def test_a_limit_that_is_none_opens_nothing(values):
    subject, asked = stream_statement(Subscription(), Collected((), ()))
    with pytest.raises(ProxyError) as refused:
        await subject.subscribe(Subscribe(SubscribeRequest(Q), ("limit",)), values)
    assert refused.value.errno == 1210
    assert asked == []


async def test_short_fetches_do_not_outlive_the_right_to_receive(monkeypatch):
    """A fetch that is over at once is asked as one that waits: the time goes on from one to the next."""
    now, answers = [0.0], list[Collected | Outcome]()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0], raising=False)
    subscription = Subscription()
    subject, _ = stream_statement(subscription, Collected((), ((b"utf8mb4",),)))
    cursor = await subject.cursor(Subscribe(SubscribeRequest(Q)), ())

    async def fetched(count: int, client: object) -> tuple[list[bytes], bool]:
        return [b"row"], False

    async def collect(sql: str) -> Collected | Outcome:
        if sql.startswith("SHOW CREATE TABLE"):
            return Collected((), ((b"q", b"CREATE TABLE `q` (id BIGINT)"),))
        answers.append(may)
        return may

    monkeypatch.setattr(cursor, "fetch", fetched)
    subject._traits.accounts = True
    subject._engine.catalog = {}
    subject._session.database = None
    subject._session.backend = SimpleNamespace(pins=lambda: SimpleNamespace(waiting=lambda sql, seconds: sql))
    subject._session.writer = SimpleNamespace(client=None)
    subject._session.upstream = SimpleNamespace(
        collect=collect, alive=True, connection_required=False, status=AUTOCOMMIT
    )
    may: Collected | Outcome = Outcome()
    for second in range(0, 90, 7):
        now[0] = float(second)
        assert await subject.fetch(cursor, 1) == ([b"row"], False)
    assert len(answers) == 2  # each half a minute, and no more often
    may = Outcome(1142, "UPDATE command denied", "42000")
    now[0] = 100.0
    with pytest.raises(BackendError, match="UPDATE command denied"):
        await subject.fetch(cursor, 1)
    assert [type(error) for error in subscription.ended] == [BackendError]

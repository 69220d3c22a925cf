"""A simulated proxy: the real engine on a process of its own, and the sessions of its clients.

A session is what proxy/statements/executor.py makes of a statement, without packets: the real planner's plan, run in
the client's own transaction, the real TransactionScope, and the word to the engine. A stream is what
proxy/statements/streaming.py does.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

from sim_database import EPOCH_NS, is_alive
from sim_faults import Faults, Trouble
from sim_loop import START, ProcessLoop, passing
from sim_pool import GATE_SECONDS, SimPool, SimTopicLog

from engine.delivery.births import Birth
from engine.engine import Engine, EngineOptions, OpenStream, Subscription
from engine.model.assignment import Member
from engine.model.commit_report import CommitReport, Settlement
from engine.model.errors import BackendError, BackendUnavailable, EngineError, LockWaitTimeout, ShuttingDown
from engine.model.key_range import KeyRange, Keys
from engine.model.queue import Batch, Condition, Message, QueueName, QueueSpec, ReceiverIdentity, StartAt
from engine.store.base import Claim, PollAndClaim, PollResult, ScanResult
from engine.store.sql_store import SqlMessageStore
from engine.store.topic_log import no_conditions
from proxy.session.transaction_scope import TransactionScope, report_single
from proxy.statements.stream_condition import filter_sql
from rewriter.plan import (
    CreateConsumerGroup,
    Effects,
    Execute,
    Passthrough,
    Plan,
    PlanContext,
    SeekConsumerGroup,
    Subscribe,
)
from rewriter.planner import Planner

if TYPE_CHECKING:
    from sim_world import World

_OPEN_AGAIN_SECONDS = 0.5  # a proxy that cannot reach its database as it starts is started again
_FIRST_ID = re.compile(r"INSERT INTO q \(.*?\) VALUES \((\d+),")
_BORN = re.compile(
    r"(INSERT INTO q \(.*)\) VALUES \((\d+)(, \d+, sim_now\(\), )sim_now\(\)(?: \+ 0)?, 0(, sim_now\(\), '\w+', \d+)\)"
)
_PLANS_MAX = 5000
_WRONG_IDS = 0.1  # of the INSERTs: as where a trigger adds rows, or ids do not follow one another
_CONTEXT = PlanContext(database="main", now_sql="sim_now()")


class ClientGone(EngineError):
    """As in proxy/statements/streaming.py."""


class SimClock:
    """The clock of a process: its loop's, and a wall clock that agrees with the database's."""

    def __init__(self, loop: ProcessLoop) -> None:
        self._loop = loop

    def now_ns(self) -> int:
        return EPOCH_NS + int((self._loop.time() - START) * 1e9)

    def monotonic(self) -> float:
        return self._loop.time()

    def boottime(self) -> float:
        return self.monotonic()


class SimStore(SqlMessageStore):
    """The real store; the claims hear what the engine learns and what it asks for."""

    def __init__(self, proxy: SimProxy, pool: SimPool, *args: Any, logger: logging.Logger) -> None:
        super().__init__(pool, *args, logger=logger)
        self._proxy = proxy
        self.topics = self._group_feed.topics = SimTopicLog(
            proxy.world.database, pool, *args, no_conditions, logger=logger
        )

    async def poll(self, *args: Any, **options: Any) -> PollResult:
        look = await super().poll(*args, **options)
        self._looked(args[0], look)
        return look

    def _looked(self, queue: QueueSpec, look: PollResult) -> None:
        ids = [key.id for key in look.keys]
        self._proxy.world.claims.of(queue.name).looked(self._proxy.actor, ids)  # type: ignore[arg-type]

    async def scan(self, *args: Any, **options: Any) -> ScanResult:
        scanned = await super().scan(*args, **options)
        self._looked(args[0], scanned.poll)
        return scanned

    async def claim(self, queue: QueueSpec, ids: Sequence[Any], *args: Any, **options: Any) -> Claim:
        self._proxy.world.claims.of(queue.name).claims(self._proxy.actor, ids)
        return await super().claim(queue, ids, *args, **options)

    async def poll_and_claim(self, *args: Any, **options: Any) -> PollAndClaim:
        found = await super().poll_and_claim(*args, **options)
        self._looked(args[0], found.poll)
        return found


class _Words:
    """The engine's Neighbours: the other proxies of the world, over lines that delay and lose."""

    def __init__(self, proxy: SimProxy) -> None:
        self._proxy = proxy

    def committed(self, report: CommitReport) -> None:
        self._proxy.world.tell_neighbours(self._proxy, report)

    def members_changed(self, queue: QueueName, members: Sequence[Member]) -> None:
        self._proxy.world.tell_of_members(self._proxy, queue)

    @property
    def leads(self) -> bool:
        return self._proxy.world.leads(self._proxy)

    async def catalog_changed(self, named: Collection[QueueName] | None = None) -> None:
        self._proxy.world.tell_of_catalog(self._proxy)


class _Log(logging.Handler):
    """What the engine logs goes into the history; an error is a defect."""

    def __init__(self, proxy: SimProxy) -> None:
        super().__init__(logging.INFO)
        self._proxy = proxy

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info is not None:
            text += f": {record.exc_info[1]!r}"
        self._proxy.world.logged(self._proxy.actor, record.levelno, text)


class SimProxy:
    """One life of one proxy."""

    def __init__(self, world: World, name: str, life: int) -> None:
        self.world, self.name, self.actor = world, name, f"{name}/{life}"
        self.loop = ProcessLoop(world.timeline, lambda text: world.claims.fail("no fault goes unheard", text))
        random = Random(f"{world.scenario.seed}/{self.actor}")
        self.random = random
        self.faults = Faults(Random(f"{world.scenario.seed}/{self.actor}/faults"), world.rates, world.scenario.latency)
        logger = logging.Logger(self.actor, logging.INFO)
        logger.addHandler(_Log(self))
        self.pool = SimPool(
            self.actor,
            self.loop,
            world.timeline,
            world.database,
            self.faults,
            lambda: world.database_up,
            lambda: world.called(self.actor),
        )
        self.engine = Engine(
            SimStore(self, self.pool, world.database.dialect, world.define, logger=logger),
            clock=SimClock(self.loop),
            jitter=lambda: 2 / 3 + random.random() * 2 / 3,
            logger=logger,
            neighbours=_Words(self),
            options=EngineOptions(make_dead_letters=world.make_dead_letters, name=self.actor),
        )
        self.serving = False
        self.ending = False
        self.loses_session: Callable[[], None] = lambda: None
        """Ends the session in which it fell silent."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.sessions: dict[Session, None] = {}
        self.spawn(self._open())

    @property
    def usable(self) -> bool:
        """Takes new clients."""
        return self.serving and not self.ending and not self.loop.dead

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _open(self) -> None:
        while True:
            try:
                await self.engine.open()
            except BackendError as error:
                self.world.claims.note(self.actor, f"cannot open: {error.message}")
                await passing(_OPEN_AGAIN_SECONDS)
            else:
                self.serving = True
                self.world.claims.note(self.actor, "serves")
                self.world.link(self)
                return

    def shut_down(self, over: Callable[[], None]) -> None:
        """As SIGTERM."""

        async def close() -> None:
            await self.engine.close(grace_seconds=3.0)
            self.world.timeline.after(0.0, over)

        self.ending = True
        self.world.claims.note(self.actor, "shuts down")
        self.spawn(close())

    def hear(self, report: CommitReport) -> None:
        """A neighbour's word arrives."""
        if self.serving and not self.loop.dead:
            self._note_told(report)
            self.engine.on_remote_commit(report)

    def hear_members(self, other: SimProxy, queue: QueueName) -> None:
        """Of another proxy, as they are now; one whose process has ended has none."""
        if self.serving and not self.loop.dead:
            members = () if other.loop.dead else other.engine.queues.members.here.get(queue, ())
            self.engine.queues.members.reported(other.actor, {queue: members}, all_queues=False)

    def committed(self, report: CommitReport) -> None:
        """A client's transaction on this proxy is committed."""
        self._note_told(report)
        self.engine.committed(report)

    def enqueued(self, name: QueueName, first_id: int, count: int) -> None:
        """As `committed`, of one statement that added messages."""
        self.engine.enqueued(name, first_id, count)

    def settled(self, settlement: Settlement, count: int) -> None:
        """As `committed`, of one statement that ended messages."""
        self._note_told(CommitReport(settled={settlement.queue: settlement.ids}))
        self.engine.settled(settlement, count)

    def _note_told(self, report: CommitReport) -> None:
        for queue, ids in report.settled.items():
            rows = self.world.database.tables[queue.table]
            # A NACK that rejects may have come too late to change anything, and is told of all the same.
            ids = [id_ for id_ in ids if id_ not in rows or not is_alive(rows[id_])]  # type: ignore[index,assignment]
            self.world.claims.of(queue).told(self.actor, ids)  # type: ignore[arg-type]


_BY_KEY = re.compile(r"^DELETE (\S+) FROM \1 FORCE INDEX \(PRIMARY\)")  # in SQLite's words: without the hint


def moment_ns(text: str) -> int:
    """A time that a client wrote, as a session in UTC reads it."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000_000


def _start_of(plan: SeekConsumerGroup | CreateConsumerGroup) -> StartAt:
    return replace(plan.start, value=moment_ns(plan.moment)) if plan.moment else plan.start


class PlanBook:
    """Plans by text, for a table's shape and the options of all queues: nothing else of a simulation is in them."""

    def __init__(self) -> None:
        self.plans: dict[tuple[str, tuple[str, ...], str], Plan] = {}

    def plan(self, shape: str, engine: Engine, sql: str) -> Plan:
        key = (shape, tuple(queue.comment for queue in engine.catalog), sql)
        plan = self.plans.get(key)
        if plan is None:
            if len(self.plans) >= _PLANS_MAX:
                self.plans.clear()
            plan = self.plans[key] = Planner(engine.catalog).plan(sql, _CONTEXT)
        return plan


PLANS = PlanBook()


def _leased(sql: str, birth: Birth) -> str:
    """An INSERT of one message, with its lease."""
    found = _BORN.fullmatch(sql)
    assert found is not None
    columns, id_, before, after = found.groups()
    return f"{columns}, lease_token) VALUES ({id_}{before}{birth.until_ns}, 1{after}, {birth.token})"


@dataclass(frozen=True)
class _Reports:
    """A session's reports to the engine of its proxy, of which some are lost."""

    session: Session

    def committed(self, report: CommitReport) -> None:
        if not self._lost():
            self.session.proxy.committed(report)

    def enqueued(self, name: QueueName, first_id: int, count: int) -> None:
        if not self._lost():
            self.session.proxy.enqueued(name, first_id, count)

    def settled(self, settlement: Settlement, count: int) -> None:
        if not self._lost():
            self.session.proxy.settled(settlement, count)

    def born(self, birth: Birth, id_: int) -> None:
        if not self._lost():
            self.session.proxy.engine.queues.born(birth, id_)

    def _lost(self) -> bool:
        proxy = self.session.proxy
        lost: bool = proxy.random.random() < proxy.world.rates.get("word_lost", 0.0)
        if lost:
            proxy.world.claims.note(proxy.actor, f"a word of {self.session.name} is lost")
        return lost


@dataclass(eq=False)
class Session:
    """A client's session at a proxy. Runs on the proxy's loop; `name` is the client's."""

    proxy: SimProxy
    name: str
    broken: bool = False
    sent_at: float = 0.0

    def __post_init__(self) -> None:
        self.scope = TransactionScope()
        self.transaction = self.proxy.world.database.transaction(self.name)
        self.proxy.sessions[self] = None
        self._with_keys: list[Subscription] = []
        self.connection_id = self.proxy.world.next_connection()

    def plan(self, sql: str) -> Plan:
        return PLANS.plan(self.proxy.world.scenario.plans, self.proxy.engine, sql)

    async def execute(self, sql: str, targets: str | None) -> int:
        """One statement; of a seek, how many messages it dropped. Raises BackendError; after BackendUnavailable the
        session is of no more use."""
        if self.broken:
            raise BackendUnavailable("the session's line to the database is gone")
        if sql.startswith("CREATE GROUP"):
            return await self._begin(sql)
        plan = self.plan(sql)
        if isinstance(plan, SeekConsumerGroup):
            return await self._seek(plan)
        assert isinstance(plan, Execute | Passthrough), plan
        text = _BY_KEY.sub(r"DELETE FROM \1", plan.sql) if isinstance(plan, Execute) else sql
        self.sent_at, self.transaction.affected = self.proxy.loop.time(), 0
        birth = self._birth(text, plan.effects)
        if birth is not None:
            text = _leased(text, birth)
        try:
            in_transaction = await self._run(text, targets)
        except BackendError as error:
            if isinstance(error, BackendUnavailable):
                self.broken = True
            if birth is not None:
                queues = self.proxy.engine.queues
                (queues.lost if self.broken else queues.unborn)(birth)
            self._tell(plan.effects, ok=False, in_transaction=self.transaction.open)
            raise
        if birth is not None:
            _Reports(self).born(birth, int(_BORN.fullmatch(sql)[2]))  # type: ignore[index]
            return 0
        added, first_id = self._added(sql)
        affected = added or self.transaction.affected
        self._tell(plan.effects, ok=True, in_transaction=in_transaction, affected=affected, first_id=first_id)
        return 0

    def _birth(self, text: str, effects: Effects) -> Birth | None:
        """As proxy/statements/births.py."""
        queue = effects.only_adds
        if queue is None or self.transaction.open or not self.scope.empty or _BORN.fullmatch(text) is None:
            return None
        birth = self.proxy.engine.queues.offer_birth(queue)
        if birth is not None:
            self.proxy.world.claims.of(queue).births[birth.until_ns, birth.token] = self.proxy.actor
        return birth

    async def _seek(self, plan: SeekConsumerGroup) -> int:
        """As proxy/statements/topics.py."""
        engine = self.proxy.engine
        sought = await engine.topics.seek(engine.catalog.queues[plan.group], _start_of(plan))
        concerned = frozenset((plan.group,))
        engine.committed(CommitReport(touched=concerned, uncertain=concerned))
        return sought.dropped

    async def _begin(self, sql: str) -> int:
        """The same; the group's queue is there, and paused."""
        engine = self.proxy.engine
        plan = Planner(replace(engine.catalog, queues={})).plan(sql, _CONTEXT)
        assert isinstance(plan, CreateConsumerGroup), plan
        topics, start = engine.topics, _start_of(plan)
        await topics.check_start(plan.topic, start)
        await topics.begin(plan.group, plan.topic, start)
        return 0

    def _added(self, sql: str) -> tuple[int, int]:
        """How many messages an INSERT has added, and the first id, which now and then is a wrong one."""
        found = _FIRST_ID.match(sql)
        if found is None:
            return 0, 0
        shift = self.proxy.random.choice((-2, -1, 1)) if self.proxy.random.random() < _WRONG_IDS else 0
        return sql.count("), (") + 1, max(int(found[1]) + shift, 0)

    def _tell(self, effects: Effects, *, ok: bool, in_transaction: bool, affected: int = 0, first_id: int = 0) -> None:
        """As proxy/statements/executor.py."""
        alone = ok and not in_transaction and effects.transaction is None and self.scope.empty
        if alone and report_single(_Reports(self), effects, affected, first_id):
            return
        report = self.scope.record(
            effects,
            effects.transaction,
            ok=ok,
            in_transaction=in_transaction,
            affected=affected,
            first_id=first_id,
            sent_at=self.sent_at,
        )
        if report is not None:
            _Reports(self).committed(report)

    async def _run(self, sql: str, targets: str | None) -> bool:
        """Returns whether a transaction is open after it, as the server's status flags say."""
        fate = self.proxy.faults.draw()
        answer: asyncio.Future[bool] = self.proxy.loop.create_future()
        timeline = self.proxy.world.timeline

        def reply(error: BackendError | None) -> None:
            open_ = self.transaction.open
            timeline.after(fate.reply, lambda: _deliver(self.proxy, answer, open_, error))

        def arrive() -> None:
            if not self.proxy.world.database_up or fate.trouble in (Trouble.LOST, Trouble.BROKEN):
                self.transaction.close()
            if self.transaction.closed:
                reply(BackendUnavailable("the simulated connection is lost"))
            elif fate.trouble is Trouble.DEADLOCK:
                self.transaction.rollback()
                reply(fate.error)
            elif fate.trouble in (Trouble.LOCKED, Trouble.READ_ONLY):
                reply(fate.error)
            else:
                self._do(sql, targets, done)

        def done(error: BackendError | None) -> None:
            if fate.trouble is Trouble.FORGOTTEN:
                self.transaction.close()
            reply(error or fate.error)

        timeline.after(fate.request, arrive)
        return await answer

    def _do(self, sql: str, targets: str | None, reply: Callable[[BackendError | None], None]) -> None:
        match sql:
            case "BEGIN":
                self.transaction.open = True
                reply(None)
            case "COMMIT":
                self.transaction.commit()
                reply(None)
            case "ROLLBACK":
                self.transaction.rollback()
                reply(None)
            case _:
                self._statement(sql, targets, reply)

    def _statement(self, sql: str, targets: str | None, reply: Callable[[BackendError | None], None]) -> None:
        def attempt() -> bool:
            if self.transaction.closed:  # while it waited
                reply(BackendUnavailable("the simulated connection is lost"))
                return True
            return self.transaction.try_statement(sql, targets, reply)

        self.proxy.world.database.when_free(attempt, lambda: reply(LockWaitTimeout()), GATE_SECONDS / 2)

    def hang_up(self) -> None:
        """The client is gone, as the proxy has just noticed."""
        self.broken = True
        for subscription in self._with_keys:
            self.proxy.spawn(subscription.connection_ended())
        report = self.scope.abandon()
        self.proxy.sessions.pop(self, None)
        if report is not None and self.proxy.serving:
            self.proxy.committed(report)

    async def stream(self, sql: str, line: Line) -> None:
        """A stream until it ends; see proxy/statements/streaming.py."""
        plan = self.plan(sql)
        assert isinstance(plan, Subscribe), plan
        request = replace(plan.request, receiver=ReceiverIdentity(self.connection_id, self.name))
        if request.start is not None and plan.moment:
            request = replace(request, start=replace(request.start, value=moment_ns(plan.moment)))
        if plan.filter is not None:
            condition = Condition(filter_sql(plan.filter.parts, ()), (), plan.filter.text)
            key_range = None if request.condition is None else request.condition.key_range
            request = replace(request, condition=condition if key_range is None else condition.within(key_range))
        subscription = await self.proxy.engine.subscribe(request)
        if isinstance(subscription, Subscription) and request.keys is not Keys.SHARED:
            self._with_keys.append(subscription)
        self._watch(subscription, line)
        rest = _Rest()
        if isinstance(subscription, Subscription):
            subscription.unread = rest.unread
        release = True
        try:
            async for batch in subscription:
                for at in range(len(batch.rows)):
                    row, rest.messages = batch.part(at, at + 1), batch.messages[at + 1 :]
                    if not subscription.drop_expired(row):
                        self._sent(plan.request.queue, line, row)
                        line.send(row)
                    await line.drained()
                    if rest.cut:
                        raise ShuttingDown("Server shutdown in progress")
            release = False
        except ShuttingDown:
            raise
        except BaseException:
            self._ended(subscription)
            raise
        finally:
            await subscription.close(release=release)

    def _ended(self, subscription: OpenStream) -> None:
        if isinstance(subscription, Subscription):
            self.proxy.world.claims.of(subscription.request.queue).ended(self.connection_id)

    def _sent(self, queue: QueueName, line: Line, batch: Batch) -> None:
        """Rows go into the socket."""
        for message in batch.messages:
            self.proxy.world.claims.of(queue).sent(self.proxy.actor, line.name, message)

    def _handed(self, queue: QueueName, line: Line, messages: Sequence[Message]) -> None:
        proxy = self.proxy
        paused, claims = proxy.engine.catalog.queues[queue].options.paused, proxy.world.claims.of(queue)
        connection = self.connection_id
        claims.handed(proxy.actor, line.name, messages, connection=connection, paused=paused, below=line.below)
        if line.key_range is not None:
            claims.in_range(line.name, messages, line.key_range)

    def _watch(self, subscription: OpenStream, line: Line) -> None:
        """Tell the claims of each hand-out, in the moment in which it is decided."""
        if isinstance(subscription, Subscription):
            self._watch_leases(subscription, line)
        line.opened()
        line.on_gone = lambda: subscription.end(ClientGone("client gone"))
        if line.gone:
            line.on_gone()

    def _watch_leases(self, subscription: Subscription, line: Line) -> None:
        deliver, queue = subscription.deliver, subscription.request.queue

        def told(messages: Sequence[Message], ends: Sequence[float] = ()) -> None:
            self._handed(queue, line, messages)
            deliver(messages, ends)

        subscription.deliver = told  # type: ignore[method-assign]


@dataclass(eq=False)
class _Rest:
    """What of a batch has not gone into the socket; `cut`: nor will it. As UnreadRows in
    proxy/statements/streaming.py."""

    messages: Sequence[Message] = ()
    cut: bool = False

    def unread(self, *, cut: bool) -> list[Any]:
        self.cut = self.cut or (cut and bool(self.messages))
        return [message.id for message in self.messages]


class Line:
    """What lies between a stream and its client. `receive` is called with each batch, at the client; `below` is what
    the stream's filter says of n. `opened` and `sent` are called at the proxy."""

    def __init__(
        self,
        proxy: SimProxy,
        name: str,
        receive: Callable[[Batch], None],
        delay: Callable[[], float],
        below: int | None,
    ) -> None:
        self._proxy, self.name, self._receive, self._delay, self.below = proxy, name, receive, delay, below
        self.key_range: KeyRange | None = None
        self._arrival = 0.0
        self.reading = asyncio.Event()
        self.reading.set()
        self.gone = False
        self.on_gone: Callable[[], None] = lambda: None
        self.opened: Callable[[], None] = lambda: None
        self.sent: Callable[[Batch], None] = lambda batch: None

    def send(self, batch: Batch) -> None:
        """In order, as on a socket."""
        self.sent(batch)
        timeline = self._proxy.world.timeline
        self._arrival = max(self._arrival + 1e-6, timeline.now + self._delay())
        timeline.at(self._arrival, lambda: self._receive(batch))

    async def drained(self) -> None:
        await self.reading.wait()

    def hang_up(self) -> None:
        """The proxy notices that its client is gone."""
        if not self.gone and not self._proxy.loop.dead:
            self.gone = True
            self.reading.set()
            self.on_gone()


def _deliver(proxy: SimProxy, answer: asyncio.Future[bool], open_: bool, error: BackendError | None) -> None:
    if proxy.loop.dead or answer.done():
        return
    if error is None:
        answer.set_result(open_)
    else:
        answer.set_exception(error)

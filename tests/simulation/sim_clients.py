"""Simulated clients: producers, receivers, and one that keeps rows locked. Each has its own seed and its own temper.

All clients live on one loop that is never killed. What they ask of a proxy travels there and back; when the proxy dies,
or the client hangs up, the connection is gone and with it what was not committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any
from zlib import crc32

from sim_loop import passing
from sim_proxy import Line, Session, SimProxy

from engine.model.errors import BackendError, EngineError
from engine.model.key_range import KeyRange, read_key_range
from engine.model.queue import Batch, Message

if TYPE_CHECKING:
    from sim_world import World


_COLUMNS = "id, priority, time_scheduled, time_next, epoch, time_created, k, n"


class Gone(Exception):
    """The connection to the proxy is lost."""


class Refused(Exception):
    """The proxy answered with an error."""


class Connection:
    """A client's connection to one life of a proxy."""

    def __init__(self, world: World, name: str, random: Random, proxy: SimProxy) -> None:
        self._world, self.name, self._random, self._proxy = world, name, random, proxy
        self._session = Session(proxy, name)
        self._lines: list[Line] = []
        self._pending: set[asyncio.Future[Any]] = set()
        self.gone = False
        world.connections[self] = None

    @property
    def proxy(self) -> SimProxy:
        return self._proxy

    async def execute(self, sql: str, targets: str | None = None) -> int:
        """Raises Gone, after which it is not known whether it was done, or Refused."""
        answer: int = await self._ask(lambda: self._session.execute(sql, targets))
        return answer

    def stream(self, receive: Callable[[Batch], None], below: int | None) -> Line:
        """A line for a stream to come; `below` is what its filter says of n."""
        line = Line(self._proxy, self.name, receive, self._delay, below)
        self._lines.append(line)
        return line

    async def run_stream(self, sql: str, line: Line) -> None:
        """Until the stream ends. Raises Gone, or Refused for a stream that ends with an error."""
        await self._ask(lambda: self._session.stream(sql, line))

    def hang_up(self, *, noticed_after: float) -> None:
        """Go away; the proxy notices later."""
        if self.gone:
            return
        self._lost()
        database_notices = self._random.random() * 0.3
        self._world.timeline.after(noticed_after, lambda: self._noticed(database_notices))

    def _noticed(self, database_notices: float) -> None:
        self._world.timeline.after(database_notices, self._session.transaction.close)
        self._proxy.loop.call_soon(self._end_streams)

    def _end_streams(self) -> None:
        """On the proxy's loop."""
        for line in self._lines:
            line.hang_up()
        self._session.hang_up()

    def proxy_died(self) -> None:
        """The proxy is dead: its lines to the database break, and the client sees it."""
        self._world.timeline.after(self._random.random() * 0.5, self._session.transaction.close)
        self._world.timeline.after(self._random.random() * 0.2, self._lost)

    def _lost(self) -> None:
        self.gone = True
        self._world.connections.pop(self, None)
        for future in self._pending:
            if not future.done():
                future.set_exception(Gone())

    async def _ask(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        if self.gone:
            raise Gone
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending.add(answer)
        self._world.timeline.after(self._delay(), lambda: self._arrive(work, answer))
        try:
            return await answer
        finally:
            self._pending.discard(answer)

    def _arrive(self, work: Callable[[], Coroutine[Any, Any, Any]], answer: asyncio.Future[Any]) -> None:
        if not self._proxy.loop.dead:
            self._proxy.spawn(self._serve(work, answer))

    async def _serve(self, work: Callable[[], Coroutine[Any, Any, Any]], answer: asyncio.Future[Any]) -> None:
        """On the proxy's loop."""
        result, error = None, None
        try:
            result = await work()
        except EngineError as refused:
            error = Refused(refused.message)
        except Exception as defect:
            if not self._proxy.loop.dead:
                self._world.claims.fail("no defect is met", repr(defect))
        self._world.timeline.after(self._delay(), lambda: _settle(answer, result, error))

    def _delay(self) -> float:
        return self._random.random() * self._world.scenario.latency


def _settle(answer: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


class Client:
    """What all clients have in common. `live` is called when the world starts. `at`: the one proxy that it goes to."""

    at: SimProxy | None = None

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.random = Random(f"{world.scenario.seed}/{name}")

    async def live(self) -> None:
        raise NotImplementedError

    async def connect(self) -> Connection:
        """To any proxy that serves, or to its own; waits for one."""
        if self.at is not None:
            return Connection(self.world, self.name, self.random, self.at)
        while not (usable := [proxy for proxy in self.world.proxies if proxy.usable]):
            await passing(0.1 + self.random.random() * 0.2)
        return Connection(self.world, self.name, self.random, self.random.choice(usable))

    async def pause(self, most: float) -> None:
        await passing(self.random.random() * most)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability


class Producer(Client):
    """Inserts messages: alone, in transactions, scheduled, with priorities and keys; reschedules and deletes a few."""

    def __init__(self, world: World, name: str, messages: int) -> None:
        super().__init__(world, name)
        self.messages = messages
        self._mine: list[int] = []

    async def live(self) -> None:
        await self.pause(self.world.scenario.chaos_seconds / 4)
        while self.messages > 0:
            connection = await self.connect()
            try:
                await self._produce(connection)
            except (Gone, Refused):
                await self.pause(1.0)
            finally:
                connection.hang_up(noticed_after=self.random.random() * 0.1)

    async def _produce(self, connection: Connection) -> None:
        while self.messages > 0:
            await self.pause(self.world.scenario.chaos_seconds / 6)
            if self.chance(0.4):
                await self._transaction(connection)
            elif self._mine and self.chance(0.6 if self.world.scenario.filters else 0.25):
                await self._change(connection)
            else:
                await connection.execute(self._insert(1))

    async def _transaction(self, connection: Connection) -> None:
        await connection.execute("BEGIN")
        if self._mine and self.chance(0.3):
            await self._change(connection)
        for _ in range(self.random.randint(1, 3)):
            await connection.execute(self._insert(self.random.randint(1, 3)))
            if self.chance(0.2):
                await self.pause(3.0)
        await connection.execute("ROLLBACK" if self.chance(0.2) else "COMMIT")

    def _insert(self, count: int) -> str:
        self.messages -= count
        rows = ", ".join(self._row() for _ in range(count))
        return f"INSERT INTO q ({_COLUMNS}) VALUES {rows}"

    def insert_at(self, due: str, number: int = 0) -> str:
        """One message with a key of its own, due then."""
        key = f"late{self.world.database.next_id}"
        return f"INSERT INTO q ({_COLUMNS}) VALUES {self._message(due, 50, key, number)}"

    def _row(self) -> str:
        random = self.random
        priority = random.choice((50, 50, 50, 10, 90, 0))
        seconds = random.choice((0, 0, 0, 0, random.randint(1, 8), random.randint(5, 40)))
        due = f"sim_now() + {seconds}000000000" if seconds else random.choice(("sim_now()", "sim_now()", "NULL"))
        return self._message(due, priority, random.choice("ABC"), random.randint(0, 3))

    def _message(self, due: str, priority: int, key: str, number: int) -> str:
        id_ = self.world.database.next_id
        self.world.database.next_id += 1
        self._mine.append(id_)
        return f"({id_}, {priority}, sim_now(), {due}, 0, sim_now(), '{key}', {number})"

    async def _change(self, connection: Connection) -> None:
        id_ = self.random.choice(self._mine)
        target = f"id = {id_}"
        seconds = self.random.choice((0, 0, 3, 20))
        change = self.random.choice(
            (
                f"UPDATE q SET time_next = sim_now() + {seconds}000000000 WHERE {target} AND time_acked IS NULL",
                f"UPDATE q SET n = {self.random.randint(0, 3)} WHERE {target}",
                f"RETRY q NOW WHERE {target}",
                f"UPDATE q SET priority = {self.random.choice((5, 50, 99))} WHERE {target}",
                f"DELETE FROM q WHERE {target}",
            )
        )
        if self.world.scenario.filters and self.chance(0.6):
            change = f"UPDATE q SET n = {self.random.randint(0, 3)} WHERE {target}"
        await connection.execute(change, target)


@dataclass(frozen=True, slots=True)
class Temper:
    """What a receiver does with a message, by weight, and with its stream."""

    late: float = 0.0
    never: float = 0.0
    hangs_up: float = 0.0
    half_open: float = 0.0
    stalls: float = 0.0
    in_transactions: float = 0.0
    by_condition: float = 0.0
    nacks: float = 0.0
    releases: float = 0.0
    renews: float = 0.0
    rejects: float = 0.0

    @classmethod
    def draw(cls, random: Random) -> Temper:
        """Mostly of good nature, each with a weakness or two."""
        weak = {name: random.random() * 0.4 for name in cls.__slots__ if random.random() < 0.25}
        return cls(**weak)


def _some_range(who: str) -> str:
    """Keys are A, B and C, at 7fc5, 9d5e and 0d61. Empty for the whole ring; drawn apart."""
    return Random(f"range of {who}").choice(("-80", "80-", "-40,90-a0", "-,-80", "40-c0", ""))


@dataclass(eq=False)
class _Inbox:
    """What has arrived of a stream."""

    batches: asyncio.Queue[Batch] = field(default_factory=asyncio.Queue)


class Receiver(Client):
    """Receives by one kind of stream, and settles what it gets over connections of its own."""

    verbs = "q"
    """What its verbs name."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.temper = Temper.draw(self.random)
        self.below: int | None = None
        self.key_range: KeyRange | None = None
        self.statement = self._statement()
        self._settling: set[asyncio.Task[None]] = set()

    def _statement(self) -> str:
        random = self.random
        bounds = random.choice(
            ("", "", "", f" LIMIT {random.randint(1, 5)} WAIT {random.randint(1, 20)}", " LIMIT 3", " LIMIT 4 NOWAIT")
        )
        if self.world.scenario.filters and random.random() < 0.6:
            self.below = random.randint(1, 3)
        options = []
        if random.random() < 0.4:
            options.append(f"prefetch = {random.randint(1, 4)}")
        if random.random() < 0.2:
            options.append(f"ack_wait = {random.randint(1, 6)}")
        if self.below is None and (keys := self.own_keys()):
            options.append(f"keys = '{keys}'")
        elif self.world.scenario.ranges and (ranged := _some_range(f"{self.world.scenario.seed} {self.name}")):
            self.key_range = read_key_range("key_range", ranged)
            options.append(f"key_range = '{ranged}'")
        where = "" if self.below is None else f" WHERE n < {self.below}"
        return self.stream_of(f"{where}{bounds}", options)

    def own_keys(self) -> str:
        """The option `keys` of its stream; empty for shared ones. Drawn apart."""
        if not self.world.scenario.ranges:
            return ""
        random = Random(f"keys of {self.world.scenario.seed} {self.name}")
        return random.choice(("sticky", "sticky", "exclusive", "", "", "", ""))

    def stream_of(self, clauses: str, options: Sequence[str]) -> str:
        """The statement of its stream."""
        return f"SELECT * FROM STREAM q{clauses}" + (f" WITH ({', '.join(options)})" if options else "")

    async def live(self) -> None:
        await self.pause(self.world.scenario.chaos_seconds / 3)
        while True:
            connection = await self.connect()
            try:
                await self._receive(connection)
            except (Gone, Refused):
                await self.pause(1.0)
            finally:
                connection.hang_up(noticed_after=self._notice())
            await self.pause(3.0)

    def _notice(self) -> float:
        """A closed socket is seen at once, a dead network only after a while."""
        return 1.0 + self.random.random() * 9 if self.chance(self.temper.half_open) else self.random.random() * 0.05

    async def _receive(self, connection: Connection) -> None:
        inbox = _Inbox()
        line = connection.stream(inbox.batches.put_nowait, self.below)
        line.key_range = self.key_range
        stream = asyncio.create_task(connection.run_stream(self.statement, line))
        try:
            while not stream.done() or not inbox.batches.empty():
                getting = asyncio.create_task(inbox.batches.get())
                await asyncio.wait((getting, stream), return_when=asyncio.FIRST_COMPLETED)
                if not getting.done():
                    getting.cancel()
                    continue
                if self.chance(self.temper.stalls):
                    await self._stall(line)
                self.settle(getting.result())
                if self.chance(self.temper.hangs_up * 0.5):
                    return
            await stream
        finally:
            stream.cancel()

    async def _stall(self, line: Line) -> None:
        line.reading.clear()
        await self.pause(15.0)
        self.world.timeline.after(0.0, line.reading.set)

    def settle(self, batch: Batch) -> None:
        """Begin to work on what came."""
        if self.chance(0.5):
            self._spawn(self._work(batch.messages))
        else:
            for message in batch.messages:
                self._spawn(self._work([message]))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _work(self, messages: Sequence[Message]) -> None:
        temper, at = self.temper, self.random.random()
        if at < temper.never:
            return
        if at < temper.never + temper.late:
            await self._dawdle(messages[0].lease_until_ns)
        else:
            await self.pause(0.8)
        connection = await self.connect()
        try:
            await self._settle(connection, messages)
        except (Gone, Refused):
            pass
        finally:
            connection.hang_up(noticed_after=self.random.random() * 0.05)

    async def _settle(self, connection: Connection, messages: Sequence[Message]) -> None:
        temper, ids = self.temper, _ids(messages)
        targets = f"id IN ({ids})"
        if self.chance(temper.renews):
            await connection.execute(f"RENEW {self.verbs} {ids} FOR {self.random.randint(1, 5)}", targets)
            await self.pause(4.0)
        if self.chance(temper.nacks):
            delay = self.random.choice(("", " DELAY 1", " DELAY 6 REASON 'later'"))
            await connection.execute(f"NACK {self.verbs} {ids}{delay}", targets)
        elif self.chance(temper.releases):
            await connection.execute(f"RELEASE {self.verbs} {ids}", targets)
        elif self.chance(temper.rejects):
            await connection.execute(f"REJECT {self.verbs} {ids} REASON 'bad'", targets)
        else:
            await self._ack(connection, messages)

    async def _dawdle(self, lease_until_ns: int) -> None:
        """Too long; often until just when the lease runs out, which is when others ask for the message."""
        left = (lease_until_ns - self.world.database.now_ns()) / 1e9
        if left > 0 and self.chance(0.6):
            await passing(left)
            await self.pause(4 * self.world.scenario.latency)
        else:
            await self.pause(25.0)

    async def _ack(self, connection: Connection, messages: Sequence[Message]) -> None:
        ids = _ids(messages)
        targets = f"id IN ({ids})"
        sql, token = f"ACK {self.verbs} {ids}", None
        if self.chance(self.temper.by_condition):
            targets = f"({targets} OR id = 0)"  # what the planner cannot read off the text
            sql = f"ACK {self.verbs} WHERE {targets}"
        elif self._acks_by_token(messages):
            token = messages[0].token
            targets = f"{targets} AND lease_token = {token}"
            sql = f"ACK {self.verbs} WHERE {targets}"
        self.world.claims.acks(self.name, [message.id for message in messages], token)
        if not self.chance(self.temper.in_transactions):
            await connection.execute(sql, targets)
            return
        await connection.execute("BEGIN")
        await connection.execute(sql, targets)
        await self.pause(self.random.choice((0.1, 6.0)))
        await connection.execute("ROLLBACK" if self.chance(0.15) else "COMMIT")

    def _acks_by_token(self, messages: Sequence[Message]) -> bool:
        """Every other time, where one statement can name all. Not drawn: what else happens stays as it was."""
        alike = len({message.token for message in messages}) == 1
        return alike and bool(crc32(f"{self.name} {_ids(messages)}".encode()) % 2)


def _ids(messages: Sequence[Message]) -> str:
    return ", ".join(str(message.id) for message in messages)


class Locker(Client):
    """Keeps rows locked for a while, as a careless transaction does."""

    def __init__(self, world: World, name: str, table: str = "q") -> None:
        super().__init__(world, name)
        self._table = table

    async def live(self) -> None:
        while True:
            await self.pause(self.world.scenario.chaos_seconds / 3)
            connection = await self.connect()
            try:
                await connection.execute("BEGIN")
                low = self.random.randint(1, max(1, self.world.database.next_id))
                target = f"id BETWEEN {low} AND {low + self.random.randint(0, 4)}"
                await connection.execute(f"UPDATE {self._table} SET priority = priority WHERE {target}", target)
                await self.pause(8.0)
                await connection.execute("COMMIT")
            except (Gone, Refused):
                pass
            finally:
                connection.hang_up(noticed_after=self._notice())

    def _notice(self) -> float:
        return self.random.random() * 4.0


class Drain(Receiver):
    """The receiver at the end: takes everything, and acks it at once, again and again until it holds. Or it puts off
    everything, by two seconds."""

    def __init__(self, world: World, name: str, below: int | None = None, at: SimProxy | None = None) -> None:
        super().__init__(world, name)
        self.at = at
        self.temper, self.below, self.key_range, self.puts_off = Temper(), below, None, False
        options = ["prefetch = 1000"]
        if below is None and (keys := self.own_keys()):
            options.append(f"keys = '{keys}'")
        self.statement = self.stream_of("" if below is None else f" WHERE n < {below}", options)

    async def live(self) -> None:
        while True:
            connection = await self.connect()
            try:
                await self._receive(connection)
            except (Gone, Refused):
                await self.pause(0.5)
            finally:
                connection.hang_up(noticed_after=0.01)

    async def _work(self, messages: Sequence[Message]) -> None:
        connection = await self.connect()
        try:
            ids = _ids(messages)
            sql = f"NACK {self.verbs} {ids} DELAY 2" if self.puts_off else f"ACK {self.verbs} {ids}"
            await connection.execute(sql, f"id IN ({ids})")
        except (Gone, Refused, BackendError):
            pass
        finally:
            connection.hang_up(noticed_after=0.01)


class Quitter(Drain):
    """Takes messages, acks none, and hangs up when it is told to."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._connection: Connection | None = None

    async def live(self) -> None:
        self._connection = await self.connect()
        try:
            await self._receive(self._connection)
        except (Gone, Refused):
            pass

    def settle(self, batch: Batch) -> None:
        """Not this one."""

    def quit(self) -> None:
        assert self._connection is not None
        self._connection.hang_up(noticed_after=0.0)

"""Simulated clients of a topic: publishers, members of groups, broadcast readers, and who makes and moves groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING

from sim_clients import Client, Connection, Drain, Gone, Quitter, Receiver, Refused
from sim_topic_database import TOPIC

from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Batch, Start, StartAt

if TYPE_CHECKING:
    from sim_topic_world import TopicWorld


class Publisher(Client):
    """Inserts messages, alone and in transactions, some of which write elsewhere first, stay open for long, are rolled
    back, or end with their connection."""

    world: TopicWorld

    def __init__(self, world: TopicWorld, name: str, messages: int) -> None:
        super().__init__(world, name)
        self.messages = messages

    async def live(self) -> None:
        await self.pause(self.world.scenario.chaos_seconds / 4)
        while self.messages > 0:
            connection = await self.connect()
            try:
                await self._publish(connection)
            except (Gone, Refused):
                await self.pause(1.0)
            finally:
                connection.hang_up(noticed_after=self.random.random() * 0.1)

    async def _publish(self, connection: Connection) -> None:
        while self.messages > 0:
            await self.pause(self.world.scenario.chaos_seconds / 6)
            if self.chance(0.6):
                await self._transaction(connection)
            else:
                await connection.execute(self._insert(self.random.choice((1, 1, 3))))
            if self.chance(0.1):
                return

    async def _transaction(self, connection: Connection) -> None:
        await connection.execute("BEGIN")
        if self.chance(0.3):
            await connection.execute("INSERT INTO other (v) VALUES (1)")
            await self.pause(self.world.scenario.longest / 4)
        for _ in range(self.random.randint(1, 3)):
            await connection.execute(self._insert(self.random.randint(1, 2)))
            if self.chance(0.5):
                await self.pause(self.world.scenario.longest / 3)
        await connection.execute("ROLLBACK" if self.chance(0.25) else "COMMIT")

    def _insert(self, count: int) -> str:
        self.messages -= count
        return published([self._delay() for _ in range(count)], self.random)

    def _delay(self) -> int:
        return self.random.choice((0, 0, 0, 0, 0, self.random.randint(1, 20)))


def published(delays: Sequence[int], random: Random) -> str:
    """An INSERT of messages that are due after so many seconds."""
    rows = (
        f"(sim_now() + {delay * NS_PER_SECOND}, '{random.choice('ABC')}', {random.randint(0, 3)})" for delay in delays
    )
    return f"INSERT INTO {TOPIC} (time_scheduled, k, n) VALUES {', '.join(rows)}"


class _OfGroup(Receiver):
    """What members of a group have in common. The name begins with the group's."""

    def __init__(self, world: TopicWorld, name: str) -> None:
        self.group = name.partition(".")[0]
        self.verbs = f"{TOPIC} GROUP {self.group}"
        super().__init__(world, name)

    def stream_of(self, clauses: str, options: Sequence[str]) -> str:
        named = [f"group = '{self.group}'", *options]
        return f"SELECT * FROM STREAM {TOPIC}{clauses} WITH ({', '.join(named)})"


class Member(_OfGroup):
    """A receiver with its weaknesses."""


class GroupDrain(_OfGroup, Drain):
    """Takes everything, and acks it at once."""


class GroupQuitter(_OfGroup, Quitter):
    """Takes messages, acks none, and hangs up when it is told to."""


def moment(now_ns: int) -> str:
    """A time as a client writes it."""
    return datetime.fromtimestamp(now_ns // NS_PER_SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S")


def whole_second(now_ns: int) -> int:
    """The time that `moment` tells."""
    return now_ns - now_ns % NS_PER_SECOND


class Mover(Client):
    """Makes a group, or moves it, by one statement. Until it is done, or once."""

    world: TopicWorld

    def __init__(self, world: TopicWorld, name: str, group: str, start: StartAt, *, makes: bool) -> None:
        super().__init__(world, name)
        self._group, self._start, self._makes = group, start, makes

    @property
    def _statement(self) -> str:
        if self._makes:
            return f"CREATE GROUP {self._group} ON {TOPIC} START AT {self._beginning}"
        return f"ALTER GROUP {self._group} ON {TOPIC} SEEK TO {self._beginning}"

    @property
    def _beginning(self) -> str:
        match self._start.start:
            case Start.OFFSET:
                return f"OFFSET {self._start.value}"
            case Start.TIMESTAMP:
                return f"TIMESTAMP '{moment(self._start.value)}'"
            case _:
                return self._start.start.name

    async def live(self) -> None:
        while True:
            connection = await self.connect()
            try:
                dropped = await connection.execute(self._statement)
            except Refused as refused:
                self.world.claims.note(self.name, f"is refused: {refused}")
            except Gone:
                pass
            else:
                self._check(dropped)
                return
            finally:
                connection.hang_up(noticed_after=self.random.random() * 0.05)
            if not self._makes:
                return
            await self.pause(1.0)
            if self._start.start is Start.OFFSET:
                self._start = StartAt(Start.EARLIEST)  # it may lie beyond the end

    def _check(self, dropped: int) -> None:
        claims = self.world.groups[self._group]
        if self._makes:
            self.world.begun(self._group)
        elif not claims.dropped[dropped]:
            claims.fail("a seek says what it dropped", f"{dropped}, and no seek dropped so many")


class Listener(Client):
    """Reads every message, by one broadcast after the other."""

    world: TopicWorld

    async def live(self) -> None:
        await self.pause(self.world.scenario.chaos_seconds / 4)
        while True:
            connection = await self.connect()
            try:
                await self._listen(connection)
            except (Gone, Refused):
                await self.pause(1.0)
            finally:
                connection.hang_up(noticed_after=self.random.random() * 0.05)
            await self.pause(2.0)

    async def _listen(self, connection: Connection) -> None:
        world, random = self.world, self.random
        start = world.some_start(random)
        limit = random.choice((None, None, None, random.randint(1, 6)))
        wait = random.choice(("", "", "", " NOWAIT", f" WAIT {random.randint(1, 15)}"))
        heard = world.listens(self.name, start, limit, ends=bool(wait))
        batches: asyncio.Queue[Batch] = asyncio.Queue()
        line = connection.stream(batches.put_nowait, None)
        line.opened = lambda: heard.open(world.database.log)
        line.sent = lambda batch: heard.sends(batch.rows, world.database.now_ns())
        limited = "" if limit is None else f" LIMIT {limit}"
        sql = f"SELECT * FROM STREAM {TOPIC}{limited}{wait} WITH (mode = 'broadcast', start = '{_spelled(start)}')"
        stalling = asyncio.create_task(self._stall(line.reading))
        try:
            await connection.run_stream(sql, line)
            heard.ends_well()
        finally:
            heard.ended = True
            stalling.cancel()

    async def _stall(self, reading: asyncio.Event) -> None:
        """Stop reading for a while, now and then."""
        while self.chance(0.3):
            await self.pause(10.0)
            if self.world.calm:
                return
            reading.clear()
            await self.pause(10.0)
            self.world.timeline.after(0.0, reading.set)


def _spelled(start: StartAt) -> str:
    match start.start:
        case Start.OFFSET:
            return str(start.value)
        case Start.TIMESTAMP:
            return moment(start.value)
        case _:
            return start.start.value

"""A world with a topic: publishers, groups with members, broadcast readers; then calm, and the last claims.

By then every group has to have been sent, and to have acked, each message from its beginning on, or from where it was
moved to; and every broadcast that is open has to have had each message from its own beginning on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from math import ceil
from random import Random
from unittest.mock import patch

from sim_claims import Violation
from sim_clients import Client, Locker
from sim_database import Row, is_alive
from sim_loop import ProcessLoop
from sim_template import template
from sim_topic_claims import Beginning, GroupClaims, Heard, TopicClaims
from sim_topic_clients import GroupDrain, GroupQuitter, Listener, Member, Mover, Publisher, published, whole_second
from sim_topic_database import TOPIC, TopicDatabase
from sim_topic_scenario import COMPACT_AGAIN_SECONDS, GAP_WAIT_SECONDS, TopicScenario
from sim_world import World

from engine.model import topics
from engine.model.option_values import NS_PER_SECOND
from engine.model.options import QueueOptions
from engine.model.queue import Start, StartAt
from engine.store.operations import feed
from engine.store.statements import topics as topic_statements
from engine.topics import compaction
from rewriter.plan import Execute

_STEP_SECONDS = 0.1  # between two looks at whether something has come about
_HOLE_SECONDS = 20.0  # two comparisons with the open transactions, each five seconds after what it needs
_LISTENS_SECONDS = 20.0  # a broadcast looks every five seconds, and tries again after one where it could not
_WHERE = {
    "HOLES_MAX": [topics],
    "SETTLED_IDS": [topics],
    "LATE_MAX": [topic_statements, feed],
    "GAP_WAIT_NS": [topics],
    "WALK_AGAIN_SECONDS": [compaction],
}


class TopicWorld(World):
    """See the module. `run` once."""

    scenario: TopicScenario
    database: TopicDatabase
    claims: TopicClaims

    def __init__(self, scenario: TopicScenario) -> None:
        self.groups: dict[str, GroupClaims] = {}
        self._unbegun = {name for name, group in scenario.groups.items() if not group.begun}
        self._heard: list[Heard] = []
        super().__init__(scenario)
        self.staying = scenario.listeners
        self._listening = ProcessLoop(
            self.timeline, lambda text: self.claims.fail("the simulation itself is sound", text)
        )

    # --- what is simulated

    def first_options(self) -> dict[str, QueueOptions]:
        return {group.table: replace(group.options, paused=not group.begun) for group in self.scenario.groups.values()}

    def make_database(self, comments: Mapping[str, str]) -> TopicDatabase:
        told = self.scenario
        database = TopicDatabase(
            self.timeline,
            template(told.shape),
            comments,
            row_locks=told.row_locks,
            tick_ns=told.tick_ns,
            random=Random(f"{told.seed}/database"),
            shown=told.shown,
        )
        database.slow_inserts = told.slow_inserts
        return database

    def make_claims(self) -> TopicClaims:
        tables = {name: group.table for name, group in self.scenario.groups.items()}
        claims = self.claims_on(TopicClaims, next(iter(tables.values())))
        self.groups = {name: self.claims_on(GroupClaims, table) for name, table in tables.items()}
        after = self.scenario.compact_after
        compact_after_ns = None if after is None else after * NS_PER_SECOND
        claims.begin({tables[name]: group for name, group in self.groups.items()}, compact_after_ns)
        for name, group in self.groups.items():
            group.name = name
            group.waiting = lambda table=tables[name]: self.database.tables[table].keys()  # type: ignore[misc]
            if name not in self._unbegun:
                self.database.begin_group(tables[name])
                group.begins(StartAt(Start.EARLIEST), {})
        self.database.published = claims.published
        self.database.moved = lambda table, *change: claims.groups[table].moved(*change)
        return claims

    def first_clients(self) -> list[Client]:
        told = self.scenario
        for name in sorted(self._unbegun):
            start = self.some_start(self.random)
            self.timeline.after(
                self.random.random() * told.chaos_seconds, lambda name=name, start=start: self._make(name, start)
            )
        for name in told.listeners:
            self._tasks.append(self._listening.create_task(Listener(self, name).live()))
        clients: list[Client] = [Publisher(self, name, count) for name, count in told.producers.items()]
        clients += [Member(self, name) for name in told.receivers]
        return clients + [Locker(self, name, told.groups[name.partition(".")[0]].table) for name in told.lockers]

    def run(self) -> Violation | None:
        with _bounds(self.scenario):
            return super().run()

    def _dispose(self) -> None:
        if not self._listening.dead:
            self._listening.kill()
        self._listening.dispose()
        super()._dispose()

    # --- groups and streams

    def some_start(self, random: Random) -> StartAt:
        """Anywhere in the topic, or at a time since it began."""
        highest = self.database.highest_id
        match random.choice((Start.EARLIEST, Start.LATEST, Start.OFFSET, Start.TIMESTAMP)):
            case Start.OFFSET:
                return StartAt(Start.OFFSET, random.randint(1, highest + 1))
            case Start.TIMESTAMP:
                ago = int(random.random() ** 2 * 30 * NS_PER_SECOND)
                return StartAt(Start.TIMESTAMP, whole_second(self.database.now_ns() - ago))
            case start:
                return StartAt(start)

    def _make(self, name: str, start: StartAt) -> None:
        if not self.calm:
            self._start_client(Mover(self, f"{name}.maker", name, start, makes=True))

    def begun(self, name: str) -> None:
        """A group was made: it is paused no longer."""
        self._unbegun.discard(name)
        table = self.scenario.groups[name].table
        self._alter(table, replace(self.options_of[table], paused=False))
        self.tell_of_catalog()  # as CREATE GROUP does at its end

    def _alter(self, table: str, options: QueueOptions) -> None:
        unbegun = {self.scenario.groups[name].table for name in self._unbegun}
        super()._alter(table, replace(options, paused=True) if table in unbegun else options)

    def listens(self, name: str, start: StartAt, limit: int | None, *, ends: bool) -> Heard:
        """A broadcast is asked for."""
        log = self.database.log
        heard = Heard(name, self.claims, start, Beginning.at(start, log), limit, ends)
        now_ns = self.database.now_ns()
        if not self._few_holes:  # else they may hold it for longer than it waits
            heard.at_first = tuple(row for row in log.values() if row.scheduled_ns <= now_ns)
        self._heard = [one for one in self._heard if not one.ended]
        self._heard.append(heard)
        return heard

    @property
    def _few_holes(self) -> bool:
        return "HOLES_MAX" in self.scenario.bounds

    @property
    def _open_broadcasts(self) -> list[Heard]:
        """Those that go on and on."""
        return [one for one in self._heard if one.opened and not one.ended and not one.ends and one.limit is None]

    # --- events

    def _event_seek(self) -> None:
        begun = sorted(self.groups.keys() - self._unbegun)
        if not self.calm and begun:
            name = self.random.choice(begun)
            self._start_client(Mover(self, f"{name}.mover", name, self.some_start(self.random), makes=False))

    def _event_monitor(self) -> None:
        """Somebody watches the server's transactions, from now on or from just after the engine has."""
        seconds = 4.0 + self.random.random() * 8.0
        if self.random.random() < 0.5:
            self.database.monitored(seconds)
        else:
            self.database.monitor_comes = seconds

    def _event_outage(self) -> None:
        super()._event_outage()
        self.database.crashed(elsewhere=False)

    def _event_failover(self) -> None:
        super()._event_outage()
        self.database.crashed(elsewhere=self.scenario.row_locks)

    def _event_delete(self) -> None:
        """Somebody deletes old messages, whether they were read or not."""
        last = self.random.randint(0, max(1, self.database.highest_id // 2))
        self._start_client(_Janitor(self, "janitor", last))

    def _event_replay(self) -> None:
        """What ends by itself is what the topic holds."""
        usable = [proxy for proxy in self.proxies if proxy.usable]
        if usable:
            self._replay(self.random.randint(1, 5), self.random.randint(1, max(1, self.database.highest_id)))

    def _replay(self, first: int, last: int) -> None:
        from sim_proxy import PLANS

        proxy = next(proxy for proxy in self.proxies if proxy.usable)
        sql = f"SELECT * FROM STREAM {TOPIC} SINCE OFFSET {first} UNTIL OFFSET {last}"
        plan = PLANS.plan(self.scenario.plans, proxy.engine, sql)
        assert isinstance(plan, Execute)
        now_ns = self.database.now_ns()
        held = [
            (row.id, row.key, row.number)
            for row in self.database.log.values()
            if first <= row.id <= last and row.scheduled_ns <= now_ns
        ]
        got = self.database.select(plan.sql)
        if got != sorted(held):
            self.claims.fail("a replay is what the topic holds", f"{sql}: {got} of {held}")

    # --- the last claims

    def _end_chaos(self) -> None:
        self.database.slow_inserts = False
        super()._end_chaos()
        self.database.monitored_until = self.database.monitor_comes = 0.0

    def last_claims(self) -> None:
        for name in sorted(self._unbegun):
            self._start_client(Mover(self, f"{name}.maker", name, StartAt(Start.EARLIEST), makes=True))
        for name in self.groups:
            self._start_client(GroupDrain(self, f"{name}.drain"))
        self._drained()
        self._buried()
        self._heard_all()
        self._holes_closed()
        self._compacted()
        self._prompt()
        self._sought_again()
        self._hand_over()
        self._replay(1, self.database.highest_id)

    def _until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Let time pass until something holds, but no longer than so."""
        deadline = self.timeline.now + seconds
        while not holds() and self.timeline.now < deadline:
            self._pass(_STEP_SECONDS)
        return holds()

    def _unsettled(self, name: str) -> list[Row]:
        return [row for row in self.database.tables[self.scenario.groups[name].table].values() if is_alive(row)]

    def _is_done(self, name: str) -> bool:
        return not self._unsettled(name) and not self.groups[name].missing() and name not in self._unbegun

    def _drained(self) -> None:
        self._until(lambda: all(map(self._is_done, self.groups)), max(map(self._patience_with, self.groups)))
        for name, group in self.groups.items():
            if missing := group.missing():
                group.fail("what is committed is fed to every group", f"not fed: {sorted(missing)}")
            if left := self._unsettled(name):
                group.fail("what is committed is delivered until it is acked", f"left after the drain: {left}")

    def _patience_with(self, name: str) -> float:
        """By when a group has to be done: the last due time, scans, one lease that was lost, and where few holes are
        kept the time until some are given up."""
        now_ns, table, group = self.database.now_ns(), self.scenario.groups[name].table, self.groups[name]
        options = self.options_of[table]
        due = [max(0, (row.time_next or 0) - now_ns) for row in self._unsettled(name)]
        due += [max(0, self.database.log[id_].scheduled_ns - now_ns) for id_ in group.missing()]
        lease_ns = options.ack_wait_ns + max(options.max_backoff_ns, options.effective_min_backoff_ns)
        seconds = (max(due, default=0) + 2 * options.poll_interval_ns + lease_ns) / NS_PER_SECOND
        return seconds + 5.0 + self._held(options) + (1 + len(due)) * self._prompt_with(options)

    def _held(self, options: QueueOptions) -> float:
        """How long too many holes may hold a reader: it keeps so many, waits for them, and goes on to the next."""
        if not self._few_holes:
            return 0.0
        ids = [0, *sorted(self.database.log)]
        gaps = sum(id_ > before + 1 for before, id_ in pairwise(ids))
        return max(1, ceil(gaps / self.scenario.bounds["HOLES_MAX"])) * self._hole_patience(options)

    def _hole_patience(self, options: QueueOptions) -> float:
        asked = _HOLE_SECONDS if self.scenario.shown else GAP_WAIT_SECONDS
        return 4 * options.poll_interval_ns / NS_PER_SECOND + asked

    def _buried(self) -> None:
        """What is rejected is moved, and what was moved stays."""
        for name, group in self.groups.items():
            table = self.scenario.groups[name].table
            seconds = self.options_of[table].poll_interval_ns / NS_PER_SECOND + 60.0
            if not self._until(lambda table=table: not self.database.tables[table], seconds):  # type: ignore[misc]
                group.fail("what is rejected is moved", f"still here: {self.database.tables[table]}")
            if lost := (group.buried | group.dead_before) - self.database.dead(table):
                group.fail("dead letters stay until somebody ends them", f"gone: {lost}")

    def _heard_all(self) -> None:
        held = max(map(self._held, self.options_of.values()))
        self._until(lambda: not any(self._unheard()), _LISTENS_SECONDS + held)
        for heard, missing in self._unheard():
            self.claims.fail("a broadcast is of every message", f"{heard.listener} has not got {missing}")

    def _unheard(self) -> Iterator[tuple[Heard, set[int]]]:
        now_ns = self.database.now_ns()
        due = [row for row in self.database.log.values() if row.scheduled_ns <= now_ns - NS_PER_SECOND]
        for heard in self._open_broadcasts:
            if missing := heard.missing(due):
                yield heard, missing

    def _holes_closed(self) -> None:
        for name, group in self.groups.items():
            table = self.scenario.groups[name].table
            seconds = self._hole_patience(self.options_of[table])
            if not self._until(lambda table=table: self.database.holes(table) == "[]", seconds):  # type: ignore[misc]
                group.fail("a hole that nobody will fill is given up", self.database.holes(table))

    def _compacted(self) -> None:
        if self.scenario.compact_after is None:
            return
        # Without the list, what was asked for before has its wait first, and then what was written meanwhile.
        asked = _HOLE_SECONDS if self.scenario.shown else 2 * GAP_WAIT_SECONDS
        seconds = self.scenario.compact_after + asked + 3 * COMPACT_AGAIN_SECONDS
        if not self._until(lambda: not self.claims.superfluous(), seconds):
            self.claims.fail("only the newest message of a key stays", f"left: {sorted(self.claims.superfluous())}")

    # --- about time

    def _prompt_with(self, options: QueueOptions) -> float:
        return 1.5 + (0.0 if options.max_rate is None else 3.0 / float(options.max_rate))

    @property
    def _prompt_seconds(self) -> float:
        return max(map(self._prompt_with, self.options_of.values()))

    def _publish(self, delays: list[int]) -> set[int]:
        """A client commits messages, which are due after so many seconds; returns their ids."""
        known = set(self.database.log)
        publisher = Publisher(self, "late publisher", 0)

        async def publish() -> None:
            connection = await publisher.connect()
            for delay in delays:
                await connection.execute(published([delay], publisher.random))

        self._tasks.append(self._clients.create_task(publish()))
        self._pass(0.3)
        return set(self.database.log) - known

    def _prompt(self) -> None:
        """What is committed reaches every group and every broadcast at once; what is scheduled, at its time."""
        for delays, claim in (
            ([0, 0], "what is committed wakes its receivers"),
            ([2], "what is scheduled goes out at its time"),
        ):
            listening = self._open_broadcasts  # who begins later has had no time yet
            ids = self._publish(delays)
            self._pass(max(delays))
            self._pass(self._prompt_seconds)
            for name, group in self.groups.items():
                if late := (ids & self.database.log.keys()) - group.leased_ids:
                    self.claims.fail(claim, f"group {name} is still without {late}: {self._unsettled(name)}")
            for heard in () if self._few_holes else [one for one in listening if not one.ended]:
                if late := heard.missing(row for row in self.database.log.values() if row.id in ids):
                    self.claims.fail(claim, f"{heard.listener} is still without {late}")

    def _sought_again(self) -> None:
        """A seek beside members that run."""
        name = self.random.choice(list(self.groups))
        group, moved = self.groups[name], self.claims.counts["moved"]
        start = StartAt(Start.OFFSET, self.random.randint(1, 4)) if self.random.random() < 0.5 else None
        mover = Mover(self, f"{name}.mover", name, start or StartAt(Start.EARLIEST), makes=False)
        self._start_client(mover)
        self._publish([0, 1])
        if not self._until(lambda: self.claims.counts["moved"] > moved, 5.0):
            group.fail("a seek beside members that run is done", "it was not")
        self._drained()

    def _hand_over(self) -> None:
        """What a member that is gone had not acked goes to the next at once."""
        self._stop_clients()
        self._pass(1.0)
        quitters = [GroupQuitter(self, f"{name}.quitter") for name in self.groups]
        for quitter in quitters:
            self._start_client(quitter)
        self._pass(0.5)
        self._publish([0, 0])
        self._pass(self._prompt_seconds)
        before = {name: dict(group.leased_as) for name, group in self.groups.items()}
        for name in self.groups:
            self._start_client(GroupDrain(self, f"{name}.heir"))
        self._pass(0.5)
        for quitter in quitters:
            quitter.quit()
        self._pass(2 * self._prompt_seconds)
        for name, group in self.groups.items():
            left = [row for row in self._unsettled(name) if before[name].get(row.id) == group.leased_as.get(row.id)]
            if left:
                group.fail("what a receiver leaves behind goes to the next", f"still waiting: {left}")


class _Janitor(Client):
    """Deletes the messages of a topic up to an offset."""

    def __init__(self, world: TopicWorld, name: str, last: int) -> None:
        super().__init__(world, name)
        self._last = last

    async def live(self) -> None:
        connection = await self.connect()
        with contextlib.suppress(Exception):
            await connection.execute(f"DELETE FROM {TOPIC} WHERE id <= {self._last}")
        connection.hang_up(noticed_after=0.01)


@contextlib.contextmanager
def _bounds(scenario: TopicScenario) -> Iterator[None]:
    """With bounds that a few messages and a minute reach."""
    gap_wait_ns = int(GAP_WAIT_SECONDS * NS_PER_SECOND)
    bounds = {**scenario.bounds, "GAP_WAIT_NS": gap_wait_ns, "WALK_AGAIN_SECONDS": COMPACT_AGAIN_SECONDS}
    with contextlib.ExitStack() as stack:
        for name, value in bounds.items():
            for module in _WHERE[name]:
                stack.enter_context(patch.object(module, name, value))
        yield

"""A world: one database, some proxies, some clients, and what goes wrong between them; then calm, and the last claims.

First chaos: faults, kills, outages, clients with weaknesses. Then calm: all that ends, every proxy runs, and a receiver
that acks takes what is left. By then everything committed has to be delivered and settled within a bound that follows
from the queue's options, and what is committed from now on has to arrive without waiting for any scan.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from random import Random
from typing import TypeVar

from sim_claims import Claims, Violation
from sim_clients import Client, Connection, Drain, Locker, Producer, Quitter, Receiver
from sim_database import Row, SimDatabase
from sim_faults import STUCK_SECONDS_MAX
from sim_loop import BusyLoop, ProcessLoop, Timeline, passing
from sim_proxy import SimProxy
from sim_scenario import Scenario, retuned
from sim_template import definition, table_definition, template

from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.option_values import NS_PER_SECOND
from engine.model.options import QueueOptions, to_comment
from engine.model.queue import QUEUE_MARK, QueueName, QueueSpec
from engine.model.states import REJECTED_NS
from rewriter.plans.dead_letter_table import dead_letter_table

C = TypeVar("C", bound=Claims)

RESTART_SECONDS = 1.5  # at most, until a dead proxy is back
SILENCE_SECONDS = 7.0  # from when a proxy stands still until the others end their links to it
FENCED_SECONDS = 15.0  # from when a proxy falls silent in a transaction until others have what it held
PROMPT_SECONDS = 1.5  # from a commit to its receiver, where nothing goes wrong
_TRUE_IN_TROUBLE = ("deliveries are stalled", "cannot move rejected messages", "stays set aside")  # logged as errors
_WORD_SECONDS = 0.003


class World:
    """See the module. `run` once."""

    staying: Container[str] = ()
    """Clients that stay when the chaos is over."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.random = Random(f"{scenario.seed}/world")
        self.timeline = Timeline(Random(f"{scenario.seed}/timeline"))
        self.rates = dict(scenario.rates)
        self.options_of = self.first_options()
        self.database_up = True
        self.calm = self.quiet = self._pausing = False
        self.database = self.make_database({name: to_comment(options) for name, options in self.options_of.items()})
        self.claims = self.make_claims()
        self.database.observer = lambda table, actor, before, after: self.claims.of(QueueName("main", table)).changed(
            actor, before, after
        )
        self.connections: dict[Connection, None] = {}
        self._clients = ProcessLoop(
            self.timeline, lambda text: self.claims.fail("the simulation itself is sound", text)
        )
        self._lives: dict[str, int] = {}
        self._connections = 0
        self.proxies: list[SimProxy] = []
        self._graveyard: list[SimProxy] = []
        self._tasks: list[asyncio.Task[None]] = []

    # --- what is simulated

    def first_options(self) -> dict[str, QueueOptions]:
        """The queues, by their tables."""
        return {"q": self.scenario.options}

    def make_database(self, comments: Mapping[str, str]) -> SimDatabase:
        told = self.scenario
        return SimDatabase(
            self.timeline, template(told.shape), comments, row_locks=told.row_locks, tick_ns=told.tick_ns
        )

    def claims_on(self, kind: type[C], table: str) -> C:
        """Claims on one queue."""
        return kind(
            lambda: self.timeline.now,
            self.database.now_ns,
            lambda: self.options_of[table],
            lambda: self.database.dead(table),
        )

    def make_claims(self) -> Claims:
        return self.claims_on(Claims, "q")

    @property
    def options(self) -> QueueOptions:
        """Of the queue, where there is only one."""
        return self.options_of["q"]

    def first_clients(self) -> list[Client]:
        """Who is there from the beginning on."""
        clients: list[Client] = [Producer(self, name, count) for name, count in self.scenario.producers.items()]
        clients += [Receiver(self, name) for name in self.scenario.receivers]
        return clients + [Locker(self, name) for name in self.scenario.lockers]

    # --- the course of things

    def run(self) -> Violation | None:
        """What was violated, if anything."""
        try:
            self._chaos()
            self._end_chaos()
            self.last_claims()
        except Violation:
            pass  # the claims have it
        except BusyLoop as busy:
            self.claims.violation = self.claims.violation or Violation("no busy loop", str(busy))
        finally:
            self._dispose()
        return self.claims.violation

    def last_claims(self) -> None:
        """What has to hold once nothing goes wrong any more."""
        self._drain()
        self._bury()
        self._prompt()
        self._put_off()
        self._fence()
        self._hand_over()

    def _pass(self, seconds: float) -> None:
        self.timeline.run(self.timeline.now + seconds, lambda: self.claims.violation is not None)
        if self.claims.violation is not None:
            raise self.claims.violation

    def _chaos(self) -> None:
        for number in range(self.scenario.proxies):
            self.start_proxy(f"proxy{number}")
        for client in self.first_clients():
            self._start_client(client)
        for event, count in self.scenario.events.items():
            for _ in range(count):
                when = self.random.random() * self.scenario.chaos_seconds
                self.timeline.after(when, getattr(self, f"_event_{event}"))
        self._pass(self.scenario.chaos_seconds)

    def _start_client(self, client: Client) -> None:
        self._tasks.append(self._clients.create_task(client.live()))

    def _stop_clients(self) -> None:
        """Every client drops what it does, in the order in which it was begun."""
        for task in list(self._clients.tasks()):
            task.cancel()

    def _end_chaos(self) -> None:
        self.calm = True
        self.claims.note("world", "faults end, clients leave")
        self.rates.clear()
        for proxy in self.proxies:
            proxy.pool.falls_silent = None
        self._stop_clients()
        self._pass(1.0)
        for connection in list(self.connections):
            if connection.name not in self.staying:
                connection.hang_up(noticed_after=0.0)
        # Calls that are stuck come back, half-open connections are noticed, proxies are up again.
        self._pass(STUCK_SECONDS_MAX * 2 if "stuck" in self.scenario.rates else 12.0)
        self.database_up = True
        for session in [session for proxy in self.proxies for session in proxy.sessions]:
            session.transaction.close()
        for proxy in self.proxies:
            proxy.spawn(_refresh(proxy))
        self.quiet = True
        self.claims.calm_down()

    def _drain(self) -> None:
        self._drainer = Drain(self, "drain")
        self._start_client(self._drainer)
        deadline = self.timeline.now + self._patience()
        stop = lambda: self.claims.violation is not None or self._all_settled()  # noqa: E731
        self.timeline.run(deadline, stop)
        if self.claims.violation is not None:
            raise self.claims.violation
        left = [row for row in self.database.rows.values() if _waits(row)]
        if left:
            self.claims.fail("what is committed is delivered until it is acked", f"left after the drain: {left}")
        # A lease whose answer was lost is an attempt all the same: what is in the dead-letter queue is not lost.
        ended = self.claims.acked_at.keys() | self.claims.buried
        lost = self.claims.committed - self.claims.delivered.keys() - ended
        if lost:
            self.claims.fail("what is committed is delivered", f"never delivered: {sorted(lost)}")

    def _patience(self) -> float:
        """By when everything has to be settled: the last due time, one scan, one lease that was lost with its reply."""
        now_ns = self.database.now_ns()
        waits = [max(0, (row.time_next or 0) - now_ns) for row in self.database.rows.values() if _waits(row)]
        lease_ns = self.options.ack_wait_ns + max(self.options.max_backoff_ns, self.options.effective_min_backoff_ns)
        seconds = (max(waits, default=0) + self.options.poll_interval_ns + lease_ns) / NS_PER_SECOND
        return seconds + 5.0 + len(waits) * self._prompt_seconds

    @property
    def _prompt_seconds(self) -> float:
        """From a commit to its receiver, where nothing goes wrong but a rate may hold."""
        return PROMPT_SECONDS + (0.0 if self.options.max_rate is None else 3.0 / float(self.options.max_rate))

    def _all_settled(self) -> bool:
        return not any(_waits(row) for row in self.database.rows.values())

    def _bury(self) -> None:
        """What is rejected goes to the dead-letter queue, at the latest after a look for lost words."""
        rejected = lambda: [row for row in self.database.rows.values() if row.time_next == REJECTED_NS]  # noqa: E731
        deadline = self.timeline.now + self.options.poll_interval_ns / NS_PER_SECOND + 60.0
        self.timeline.run(deadline, lambda: self.claims.violation is not None or not rejected())
        if self.claims.violation is None and rejected():
            self.claims.fail("what is rejected is moved", f"still here: {rejected()}")
        if self.claims.buried - self.database.dead("q"):
            self.claims.fail("dead letters stay until somebody ends them", f"gone: {self.claims.buried}")

    # --- the last claims, about time: nothing goes wrong any more

    def _prompt(self) -> None:
        """What is committed arrives at once, whichever proxy heard of it; what is scheduled, at its time."""
        first = self._commit(["0", "0"])
        self._pass(0.3)
        self._expect(first, "what is committed wakes its receivers")
        first = self._commit(["2000000000"])
        self._pass(0.3)
        self._pass(2.0)
        self._expect(first, "what is scheduled goes out at its time")

    def _put_off(self) -> None:
        """What a receiver puts off goes out again when it falls due."""
        self._drainer.puts_off = True
        first = self._commit(["0"])
        self._pass(self._prompt_seconds)
        self._drainer.puts_off = False
        self._pass(2.3 + self._prompt_seconds)
        latest_ns = self.database.now_ns() - int(self._prompt_seconds * NS_PER_SECOND)
        rows = [row for id_, row in self.database.rows.items() if id_ >= first and _waits(row)]
        if late := [row for row in rows if (row.time_next or 0) < latest_ns]:
            self.claims.fail("what is put off goes out at its time", f"still waiting: {late}")

    def _fence(self) -> None:
        """What a proxy that falls silent in the middle of a transaction was about to do, another does."""
        if len(self.proxies) < 2 or not self.scenario.row_locks:
            return
        self._stop_clients()
        self._pass(1.0)
        self.quiet = False
        silent, other = self.proxies[:2]
        for proxy in (silent, other):
            self._start_client(Drain(self, f"drain at {proxy.name}", at=proxy))
        self._pass(0.5)
        self._fall_silent(silent, 60.0)
        first = self.database.next_id
        for _ in range(5):
            self._commit(["0"], at=other)
            self._pass(self._prompt_seconds / 3)
            if silent.loop.still:
                break
        if silent.loop.still:
            self.claims.counts["fenced"] += 1
            self._commit(["0", "0"], at=other)
            self._pass(FENCED_SECONDS + self._held_seconds() + self._prompt_seconds)
            rows = [row for id_, row in self.database.rows.items() if id_ >= first and row.time_acked is None]
            if late := [row for row in rows if self.claims.waits(row)]:
                self.claims.fail("a silent proxy holds up nobody for long", f"still waiting: {late}")
            self._goes_on(silent)
        silent.pool.falls_silent = None
        self._pass(2.0)
        self.quiet = True

    def _held_seconds(self) -> float:
        """How long others have to wait for what a silent proxy has leased, where that counts."""
        options = self.options
        if options.max_concurrency is None and options.order_key is None:
            return 0.0
        return (options.ack_wait_ns + options.max_backoff_ns * 4 / 3) / NS_PER_SECOND

    def _hand_over(self) -> None:
        """What a receiver that is gone had not acked goes to the next at once."""
        self._stop_clients()
        self._pass(1.0)
        quitter = Quitter(self, "quitter")
        self._start_client(quitter)
        self._pass(0.5)
        first = self._commit(["0"] if self.options.order_key == "*" else ["0", "0"])
        self._pass(self._prompt_seconds)
        self._expect(first, "what is committed wakes its receivers")
        before = {id_: self.claims.leased_as.get(id_) for id_ in self.database.rows if id_ >= first}
        self._start_client(Drain(self, "heir"))
        self._pass(0.5)
        quitter.quit()
        self._pass(self._prompt_seconds)
        for id_, token in before.items():
            row = self.database.rows.get(id_)
            if row is not None and _waits(row) and self.claims.leased_as.get(id_) == token:
                self.claims.fail("what a receiver leaves behind goes to the next", f"still waiting: {row}")

    def _commit(self, delays_ns: list[str], at: SimProxy | None = None) -> int:
        """A client commits messages, each for itself, due after these delays; returns the first id. `at`: through which
        proxy."""
        producer = Producer(self, "late producer", 0)
        producer.at = at
        first = self.database.next_id

        async def produce() -> None:
            connection = await producer.connect()
            for delay in delays_ns:
                await connection.execute(producer.insert_at(f"sim_now() + {delay}"))

        self._tasks.append(self._clients.create_task(produce()))
        return first

    def _expect(self, first: int, claim: str) -> None:
        """Of the messages since `first`, all that are due have been leased, with the time it may take."""
        self._pass(self._prompt_seconds)
        latest_ns = self.database.now_ns() - int(self._prompt_seconds * NS_PER_SECOND)
        rows = [row for id_, row in self.database.rows.items() if id_ >= first and row.time_acked is None]
        due = [row for row in rows if (row.time_next or 0) < latest_ns or row.epoch > 0]
        late = [row for row in due if self.claims.waits(row)]
        if late:
            self.claims.fail(claim, f"still waiting: {late}")

    def _dispose(self) -> None:
        loops = [*(proxy.loop for proxy in [*self._graveyard, *self.proxies]), self._clients]
        for loop in loops:
            if not loop.dead:
                loop.kill()
        for loop in loops:
            loop.dispose()
        self.database.close()

    # --- proxies

    def next_connection(self) -> int:
        """The number of a client's next connection to any proxy."""
        self._connections += 1
        return self._connections

    def start_proxy(self, name: str) -> None:
        self._lives[name] = self._lives.get(name, 0) + 1
        self.proxies.append(SimProxy(self, name, self._lives[name]))

    def _remove(self, proxy: SimProxy) -> None:
        """It is dead; another life begins soon."""
        proxy.loop.kill()
        self.proxies.remove(proxy)
        self._graveyard.append(proxy)
        self.claims.gone(proxy.actor)
        self.timeline.after(self.random.random() * 0.5, proxy.loses_session)
        self.timeline.after(0.2, lambda: self._unlink(proxy))
        for connection in [c for c in self.connections if c.proxy is proxy]:
            connection.proxy_died()
        for session in proxy.sessions:
            self.timeline.after(self.random.random() * 0.5, session.transaction.close)
        self.timeline.after(self.random.random() * RESTART_SECONDS, lambda: self.start_proxy(proxy.name))

    def _event_kill(self) -> None:
        if self.calm or not self.proxies:
            return
        proxy = self.random.choice(self.proxies)
        self.claims.note(proxy.actor, "is killed")
        self._remove(proxy)

    def _event_standstill(self) -> None:
        if self.calm or not self.proxies:
            return
        proxy = self.random.choice(self.proxies)
        if proxy.loop.still:
            return
        seconds = 0.3 + self.random.random() * 10.0
        if self.random.random() < 0.5:
            self._fall_silent(proxy, seconds)
        else:
            self._stand_still(proxy, seconds)

    def _stand_still(self, proxy: SimProxy, seconds: float) -> None:
        self.claims.note(proxy.actor, "stands still")
        proxy.loop.still = True
        self.timeline.after(seconds, lambda: self._goes_on(proxy))
        if seconds > SILENCE_SECONDS:
            self.timeline.after(SILENCE_SECONDS, lambda: self._unlink(proxy) if proxy.loop.still else None)

    def _fall_silent(self, proxy: SimProxy, seconds: float) -> None:
        """It stands still in the middle of its next transaction."""

        def falls(ends: Callable[[], None]) -> None:
            self._stand_still(proxy, seconds)
            proxy.loses_session = ends

        proxy.pool.falls_silent = falls

    def _goes_on(self, proxy: SimProxy) -> None:
        if proxy.loop.still:
            self.claims.note(proxy.actor, "goes on")
            proxy.loop.still = False
            proxy.loses_session()
            self.link(proxy)

    def _event_shutdown(self) -> None:
        usable = [proxy for proxy in self.proxies if proxy.usable]
        if self.calm or not usable:
            return
        proxy = self.random.choice(usable)
        proxy.shut_down(lambda: self._remove(proxy) if not proxy.loop.dead else None)

    def _event_outage(self) -> None:
        self.database_up = False
        self.claims.note("database", "is down")
        for silent in list(self.database.silent):
            silent.end()
        for session in [session for proxy in self.proxies for session in proxy.sessions]:
            session.transaction.close()
        self.timeline.after(self.random.random() * 6.0, self._outage_over)

    def _outage_over(self) -> None:
        self.database_up = True
        self.claims.note("database", "is up again")

    def _event_retune(self) -> None:
        table = self._some_queue()
        self._alter(table, retuned(self.options_of[table], self.random))

    def _some_queue(self) -> str:
        tables = list(self.options_of)
        return tables[0] if len(tables) == 1 else self.random.choice(tables)

    def _event_pause(self) -> None:
        """Now, or in the middle of what an engine does next."""
        if self.random.random() < 0.3:
            self._pause()
        else:
            self._pausing = True

    def called(self, actor: str) -> None:
        """An engine calls the database."""
        self.claims.called(actor)
        if self._pausing:
            self._pausing = False
            self.timeline.after(self.random.random() * 3 * self.scenario.latency, self._pause)

    def _pause(self) -> None:
        if self.calm:
            return
        table = self._some_queue()
        self._alter(table, replace(self.options_of[table], paused=True))
        seconds = self.random.choice((0.3, 2.0, 10.0))
        self.timeline.after(self.random.random() * seconds, lambda: self._resume(table))

    def _resume(self, table: str) -> None:
        self._alter(table, replace(self.options_of[table], paused=False))

    def _alter(self, table: str, options: QueueOptions) -> None:
        """ALTER QUEUE by somebody, through a proxy, or around all of them."""
        self.options_of[table] = options
        self.database.set_comment(to_comment(options), table)
        self.claims.note("world", f"{table}: options {options}")
        usable = [proxy for proxy in self.proxies if proxy.usable]
        if usable and self.random.random() < 0.7:
            proxy = self.random.choice(usable)
            proxy.spawn(_refresh(proxy))
            self.tell_of_catalog(proxy)

    # --- words

    def tell_neighbours(self, proxy: SimProxy, report: CommitReport) -> None:
        for other in self.proxies:
            if other is not proxy and not self._lost("neighbour_lost"):
                delay = self.random.random() * (2.0 if self._lost("neighbour_slow") else _WORD_SECONDS)
                self.timeline.after(delay, lambda other=other: other.hear(report))  # type: ignore[misc]

    def tell_of_members(self, proxy: SimProxy, queue: QueueName) -> None:
        """A link repeats what it lost, in order: so this arrives, some time or other."""
        for other in self.proxies:
            if other is not proxy:
                delay = self.random.random() * (2.0 if self._lost("neighbour_slow") else _WORD_SECONDS)
                self.timeline.after(delay, lambda other=other: other.hear_members(proxy, queue))  # type: ignore[misc]

    def link(self, proxy: SimProxy) -> None:
        """A proxy is new: it and the others tell each other all their members."""
        for other in self.proxies:
            for queue in proxy.engine.catalog.queues if other is not proxy else ():
                proxy.hear_members(other, queue)
                other.hear_members(proxy, queue)

    def _unlink(self, proxy: SimProxy) -> None:
        for other in self.proxies:
            if other.serving and not other.loop.dead:
                other.engine.queues.members.gone(proxy.actor)

    def leads(self, proxy: SimProxy) -> bool:
        """As the proxies see it: mostly one, sometimes none or two."""
        return proxy is self.proxies[0] or self._lost("neighbour_lost")

    async def define(self, sql: str) -> None:
        """A table of the engine's own."""
        self.database.define(definition(self.scenario.shape, sql))

    async def make_dead_letters(self, queue: QueueSpec, name: QueueName) -> None:
        """The table of the dead-letter queue, as proxy/statements/dead_letters.py makes it; its options are written
        by hand."""
        await passing(self.scenario.latency)
        if not self.database_up:
            raise BackendUnavailable("the simulated database is down")
        if self.database.has(name.table):
            raise BackendError(f"Table '{name.table}' already exists", 1050, "42S01")
        sql = dead_letter_table(table_definition(self.scenario.shape, queue.name.table), queue, name)
        head, comment = sql.removesuffix("'").split(" COMMENT='")
        self.database.define(definition(self.scenario.shape, f"{head} COMMENT='{QUEUE_MARK}'"))
        self.database.set_comment(comment, name.table)

    def tell_of_catalog(self, proxy: SimProxy | None = None) -> None:
        """The proxies read the tables again, all but one that does so by itself."""
        for other in self.proxies:
            if other is not proxy and other.serving and not other.loop.dead:
                other.spawn(_refresh(other))

    def _lost(self, rate: str) -> bool:
        return rate in self.rates and self.random.random() < self.rates[rate]

    def logged(self, actor: str, level: int, text: str) -> None:
        self.claims.note(actor, f"logs: {text}")
        if level >= logging.ERROR and (self.quiet or not any(words in text for words in _TRUE_IN_TROUBLE)):
            self.claims.fail("no defect is met", f"{actor}: {text}")


async def _refresh(proxy: SimProxy) -> None:
    with contextlib.suppress(BackendError):
        await proxy.engine.refresh_catalog()


def _waits(row: Row) -> bool:
    """Whether it has yet to be delivered and acked. What is rejected has not."""
    return row.time_acked is None and row.time_next != REJECTED_NS

"""Scheduler: sends the messages of all schedules of a database server, each tick once.

Rules
- A tick is one transaction of the engine's account: a guarded UPDATE of the schedule's row, and the INSERT of its
  message. Correctness depends only on that guard, however many try at the same time.
- Of the connected proxies the leader sends. The others wait BACKUP_SECONDS longer, read the table once, and send what
  is still due: so a leader that was killed delays a tick by two seconds.
- The next tick of each schedule is in memory. The table is read after a reported change (a client's commit), at the
  engine's periodic poll, and at ticks; never between.
- Schedules that are due together are sent in one transaction, which waits for no lock. If that fails, one by one, and
  each waits its turn for a lock, some seconds: a schedule whose message the database refuses, or whose unique key a
  client's open transaction holds, delays no other for long. Its problem is stored in its row and logged once, and its
  tick is retried after a pause that doubles, up to a minute.
- A message whose unique key is taken is not sent: it waits already. Its tick is done.
- Any rows may be written to the table. Missed ticks are made up for at a bounded rate in each database, after those in
  time, and the log has a few lines a minute about them, and about schedules that fail.
- Times are the database's. A tick waits until the database's clock has reached it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from engine.clock import DatabaseTime
from engine.context import EngineContext
from engine.model.backoff import DoublingDelay
from engine.model.commit_report import CommitReport
from engine.model.errors import LOCKED, NO_SUCH_TABLE, BackendError, EngineError, is_transient
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import QueueName, QueueSpec, TopicSpec
from engine.model.schedules import (
    LATE_NS,
    InvalidSchedule,
    Schedule,
    ScheduleName,
    Unreadable,
    values_text,
)
from engine.schedules.bounds import LogRateLimiter, TokenBucket
from engine.schedules.ticks import due, insertion
from engine.service import Service
from engine.store.schedule_store import Step, WaitingSchedule

BACKUP_SECONDS = 2.0
"""How much later than the leader the others send: longer than a tick takes on a busy database."""

TOGETHER_MAX = 50
"""Schedules in one transaction: short locks, and a thousand that tick at once take some ten commits."""

INSERT_MAX_BYTES = 1024 * 1024
"""Of the messages of one schedule in one transaction; the next ones follow in the next."""

MADE_UP_AT_ONCE, MADE_UP_PER_SECOND = 1000, 100
"""Messages for missed ticks, of all schedules of a database: as many as one schedule makes up for, and then a stream
that costs a database little. What is left waits."""

MADE_UP_IN_TURN = 100
"""Of one schedule, before the next one that has missed ticks has its turn."""

TURN_SECONDS = 5.0
"""After so long with statements that wait for locks, those that are due by now have their turn, failed ones last."""

_MORE_ROOM_SECONDS = 1.0
_LOGGED_MAX = 5  # lines of the log in a minute, for each database and kind; the others are counted
_LOG_SECONDS = 60.0
_SOON = 0.001  # the shortest wait: the database's clock has steps of a millisecond


@dataclass(slots=True)
class _Waiting:
    """A schedule in memory. `pause` and `retry_at`: after its tick failed, or its row was locked. `logged_problem`: its
    problem as logged. `made_up_at`: when it last made up for a missed tick; the longest wait is first."""

    next_ns: int
    troubled: bool
    pause: DoublingDelay = field(default_factory=lambda: DoublingDelay(0.25, 60.0))
    retry_at: float = float("-inf")
    logged_problem: str = ""
    made_up_at: float = float("-inf")

    @property
    def tried(self) -> bool:
        """Whether its tick was postponed, or has failed."""
        return self.retry_at != float("-inf")

    def late(self, now_ns: int) -> bool:
        """Whether its tick was missed."""
        return self.next_ns <= now_ns - LATE_NS

    def left_to_leader(self, now_ns: int) -> bool:
        """Whether only the leader sends it. What waits for the leader's bucket must not be sent by the others."""
        return self.troubled or self.late(now_ns)


@dataclass(slots=True)
class _Database:
    """The schedules of one database. `stale`: its table must be read. `logged_problem`: its problem as logged.
    `bucket`: for messages of missed ticks; it is as good as empty until `late_at`."""

    time: DatabaseTime
    bucket: TokenBucket
    missed: LogRateLimiter
    failed: LogRateLimiter
    late_at: float = float("-inf")
    stale: bool = True
    schedules: dict[str, _Waiting] = field(default_factory=dict)
    pause: DoublingDelay = field(default_factory=lambda: DoublingDelay(1.0, 30.0))
    retry_at: float = float("-inf")
    logged_problem: str = ""


class Scheduler(Service):
    """See the module."""

    def __init__(self, context: EngineContext) -> None:
        super().__init__("scheduler", context.logger)
        self._context = context
        self._databases: dict[str, _Database] = {}
        self._buckets: dict[str, TokenBucket] = {}
        """Also of databases that have no schedules for now: who drops the table and makes it again gets no new one."""
        self._wakeup = asyncio.Event()

    # --- notifications

    def changed(self, database: str) -> None:
        """Schedules of that database may have been created, changed or dropped."""
        if (known := self._databases.get(database)) is None:
            new = TokenBucket(MADE_UP_AT_ONCE, MADE_UP_PER_SECOND, self._now)
            bucket = self._buckets.setdefault(database, new)
            logs = (LogRateLimiter(_LOGGED_MAX, _LOG_SECONDS), LogRateLimiter(_LOGGED_MAX, _LOG_SECONDS))
            known = self._databases[database] = _Database(DatabaseTime(self._context.clock), bucket, *logs)
        known.stale = True
        self._wakeup.set()

    def reload(self, databases: Iterable[str]) -> None:
        """The periodic poll: only these databases have schedules."""
        known = set(databases)
        for gone in self._databases.keys() - known:
            if not self._databases[gone].stale:
                del self._databases[gone]
        for name in [
            name for name in self._buckets.keys() - self._databases.keys() if self._buckets[name].full(self._now)
        ]:
            del self._buckets[name]
        for database in known:
            self.changed(database)

    def overdue(self) -> dict[str, float]:
        """By database, for how many seconds the longest waiting tick is due; 0 where none is.

        A database whose clock is not known yet is left out, and so is what is left to the leader: when it sends that,
        the others do not read the table.
        """
        seconds, leads = dict[str, float](), self._context.host.leads
        for name, database in self._databases.items():
            if (now_ns := database.time.now_ns()) is not None:
                own = (each for each in database.schedules.values() if leads or not each.left_to_leader(now_ns))
                first_ns = min((waiting.next_ns for waiting in own), default=now_ns)
                seconds[name] = max(now_ns - first_ns, 0) / NS_PER_SECOND
        return seconds

    # --- one pass

    async def run_once(self) -> float | None:
        """Read stale tables, and send what is due. Returns the seconds until the next run; None: nothing waits."""
        for name, database in list(self._databases.items()):
            if database.stale and self._now >= database.retry_at:
                await self._read(name, database)
            await self._send_due(name, database)
        waits = [wait for database in self._databases.values() if (wait := self._wait(database)) is not None]
        return max(_SOON, min(waits)) if waits else None

    @property
    def _now(self) -> float:
        return self._context.clock.monotonic()

    async def _read(self, name: str, database: _Database) -> None:
        context = self._context
        database.stale = False
        try:
            read = await context.work.run(context.store.schedules.waiting(name))
        except BackendError as error:
            self._unread(name, database, error)
            return
        database.time.observe_time(read.now_ns)
        database.pause.reset()
        before = database.schedules
        database.schedules = {key: _merged(before.get(key), row) for key, row in read.schedules.items()}

    def _unread(self, name: str, database: _Database, error: BackendError) -> None:
        if error.errno == NO_SUCH_TABLE:
            database.schedules.clear()
            return
        database.stale, database.retry_at = True, self._now + database.pause.take()
        if not is_transient(error) and database.logged_problem != str(error):
            database.logged_problem = str(error)
            self._logger.error("the schedules of database '%s' cannot be read, so they do not tick: %s", name, error)

    async def _send_due(self, name: str, database: _Database) -> None:
        leads = self._context.host.leads
        names = self._due(database, leads)
        if names and not leads:
            await self._read(name, database)
            names = self._due(database, leads)
        began = self._now
        for start in range(0, len(names), TOGETHER_MAX):
            # Those of a table that is dropped meanwhile are forgotten, also where it is there again for the next part.
            part = [each for each in names[start : start + TOGETHER_MAX] if each in database.schedules]
            if self._stopping.is_set():
                return
            if part and (not self._free(database, part) or self._now - began > TURN_SECONDS):
                break
            if part:
                await self._send(name, database, part)
        self._log_suppressed(name, database)

    def _free(self, database: _Database, part: Sequence[str]) -> bool:
        """Whether any of them can be sent now; late ones must wait for the bucket."""
        now_ns = database.time.now_ns() or 0
        return self._now >= database.late_at or not all(database.schedules[name].late(now_ns) for name in part)

    def _log_suppressed(self, name: str, database: _Database) -> None:
        """Log the number of suppressed lines."""
        if count := database.missed.take_suppressed(self._now):
            self._logger.warning("schedules of database '%s': ticks were missed %d times more", name, count)
        if count := database.failed.take_suppressed(self._now):
            text = "schedules of database '%s': the messages of %d more cannot be sent; queuegate.schedules says why"
            self._logger.error(text, name, count)

    def _due(self, database: _Database, leads: bool) -> list[str]:
        """The names of the schedules due for this proxy, by due time; missed and failed ones last."""
        now_ns = database.time.now_ns()
        if now_ns is None:
            return []
        now, limit_ns = self._now, now_ns - self._later_ns(leads)
        candidates = [
            (
                bool(waiting.logged_problem),
                waiting.late(now_ns),
                waiting.made_up_at,
                waiting.retry_at,
                waiting.next_ns,
                name,
            )
            for name, waiting in database.schedules.items()
            if waiting.next_ns <= limit_ns and waiting.retry_at <= now and (leads or not waiting.left_to_leader(now_ns))
            if now >= database.late_at or not waiting.late(now_ns)
        ]
        return [name for *_, name in sorted(candidates)]

    def _later_ns(self, leads: bool) -> int:
        return 0 if leads else int(BACKUP_SECONDS * NS_PER_SECOND)

    async def _send(self, name: str, database: _Database, names: Sequence[str]) -> None:
        """Send these, in one transaction if that is possible."""
        context = self._context
        try:
            read = await context.work.run(context.store.schedules.due(name, names))
        except BackendError as error:
            self._postpone(database, names)
            self._unread(name, database, error)
            return
        database.time.observe_time(read.now_ns)
        gone = set(names)
        steps: list[Step] = []
        for schedule in read.schedules:
            if schedule.name.name not in gone:
                continue  # the table was created manually, and compares names in another way
            gone.discard(schedule.name.name)
            step = await self._step(database, schedule, read.now_ns)
            steps += [] if step is None else [step]
            await asyncio.sleep(0)  # clients have their turn: up to a thousand ticks of a schedule were computed
        if gone:  # advanced by another, paused, dropped, or not due yet by the database's clock
            self._postpone(database, gone)
        if steps:
            await self._take(name, database, steps)

    async def _step(self, database: _Database, schedule: Schedule | Unreadable, now_ns: int) -> Step | None:
        if isinstance(schedule, Unreadable):
            await self._failed(database, schedule.name, InvalidSchedule(schedule.reason))
            return None
        late = schedule.next_ns <= now_ns - LATE_NS
        if late and self._now < database.late_at:
            return None
        free = min(database.bucket.available(self._now), MADE_UP_IN_TURN) if late else MADE_UP_AT_ONCE
        if free < MADE_UP_IN_TURN:
            # The others wait also where a few more are free when this one is computed: else that would never end.
            database.late_at = self._now + _MORE_ROOM_SECONDS
        if not free:
            return None
        try:
            ticks = due(schedule.rule, schedule.missed, schedule.next_ns, now_ns)
            room = max(1, min(free, INSERT_MAX_BYTES // (len(values_text(schedule.values)) + 100)))
            sent, remaining = ticks.ticks[:room], ticks.ticks[room:]
            next_ns = remaining[0] if remaining else ticks.next_ns
            target = self._target(schedule.queue) if sent else None
            messages = None if target is None else insertion(schedule, target, sent, now_ns)
        except EngineError as error:
            await self._failed(database, schedule.name, error)
            return None
        if late:
            database.bucket.take(len(sent))
            database.schedules[schedule.name.name].made_up_at = self._now
        return Step(schedule, next_ns, sent[-1] if sent else None, messages, target, ticks.missed)

    def _target(self, name: QueueName) -> QueueSpec | TopicSpec:
        catalog = self._context.host.catalog
        target = catalog.queues.get(name) or catalog.topics.get(name)
        if target is None:
            raise InvalidSchedule(f"'{name}' does not exist, or is no queue and no topic", NO_SUCH_TABLE)
        if isinstance(target, QueueSpec) and target.options.topic is not None:
            raise InvalidSchedule(f"'{name}' is fed from its topic", 1235)
        return target

    async def _take(self, name: str, database: _Database, steps: Sequence[Step]) -> None:
        context = self._context
        try:
            advanced = await context.work.run(context.store.schedules.step(name, steps))
        except BackendError as error:
            locked = error.errno in LOCKED
            if len(steps) > 1 and (locked or not is_transient(error)):
                await self._take_one_by_one(name, database, steps)
            elif not database.schedules[steps[0].schedule.name.name].tried if locked else is_transient(error):
                self._postpone(database, [step.schedule.name.name for step in steps])
            else:
                await self._failed(database, steps[0].schedule.name, error)
            return
        database.logged_problem = ""
        done = [step for step in steps if step.schedule.name.name in advanced]
        for step in done:
            self._advanced(database, step, advanced[step.schedule.name.name])
        left = {step.schedule.name.name for step in steps} - advanced.keys()
        if left:  # another was faster, or a client has them locked
            self._postpone(database, left)
        self._report_sent((step.schedule.queue, advanced[step.schedule.name.name]) for step in done)

    async def _take_one_by_one(self, name: str, database: _Database, steps: Sequence[Step]) -> None:
        began = self._now
        for step in steps:
            if self._now - began <= TURN_SECONDS:  # the others are still due
                await self._take(name, database, (step,))

    def _advanced(self, database: _Database, step: Step, sent: int) -> None:
        waiting = database.schedules[step.schedule.name.name]
        if step.missed and database.missed.allow(self._now):
            text = "schedule %s: at least %d ticks were missed; missed = '%s', so %d messages were sent now"
            self._logger.warning(text, step.schedule.name, step.missed, step.schedule.missed.value, sent)
        if waiting.logged_problem:
            self._logger.info("schedule %s: its messages are sent again", step.schedule.name)
        waiting.next_ns, waiting.troubled, waiting.logged_problem = step.next_ns, False, ""
        waiting.retry_at = float("-inf")
        waiting.pause.reset()

    def _report_sent(self, sent: Iterable[tuple[QueueName, int]]) -> None:
        counts: dict[QueueName, int] = {}
        for queue, count in sent:
            if count:
                counts[queue] = counts.get(queue, 0) + count
        if counts:
            counted = tuple((queue, "enqueued", count) for queue, count in counts.items())
            self._context.host.committed(CommitReport(touched=frozenset(counts), counted=counted))

    def _postpone(self, database: _Database, names: Iterable[str]) -> None:
        """Try these again later, with the rows of that time."""
        for name in names:
            waiting = database.schedules[name]
            waiting.retry_at = self._now + waiting.pause.take()
        database.stale = True

    async def _failed(self, database: _Database, name: ScheduleName, error: EngineError) -> None:
        """A schedule's tick cannot be sent: log it once, and try again later."""
        waiting, problem = database.schedules[name.name], str(error)
        waiting.retry_at, waiting.troubled = self._now + waiting.pause.take(), True
        if waiting.logged_problem == problem:
            return
        waiting.logged_problem = problem
        if database.failed.allow(self._now):
            self._logger.error("schedule %s: its message cannot be sent, it is tried again: %s", name, error)
        try:
            await self._context.work.run(self._context.store.schedules.note(name, problem))
        except BackendError:
            waiting.logged_problem = ""  # the database is unreachable, or the table missing: the next try logs it

    def _wait(self, database: _Database) -> float | None:
        """Seconds until the next work for a database."""
        now, waits = self._now, list[float]()
        waits += [wait for log in (database.missed, database.failed) if (wait := log.wait(self._now)) is not None]
        if database.stale:
            waits.append(database.retry_at - now)
        now_ns, leads = database.time.now_ns(), self._context.host.leads
        if now_ns is not None:
            later = self._later_ns(leads)
            waits += [
                max(
                    (waiting.next_ns + later - now_ns) / NS_PER_SECOND,
                    waiting.retry_at - now,
                    database.late_at - now if waiting.late(now_ns) else 0.0,
                )
                for waiting in database.schedules.values()
                if leads or not waiting.left_to_leader(now_ns)
            ]
        return min(waits, default=None)

    # --- the service

    def _wake(self) -> None:
        self._wakeup.set()

    async def _run(self) -> None:
        while not self._stopping.is_set():
            self._wakeup.clear()
            seconds = await self.run_once()
            await self._is_set_within(self._wakeup, seconds)


def _merged(before: _Waiting | None, row: WaitingSchedule) -> _Waiting:
    """A schedule as it was read. The record of failures stays while it waits for the same tick."""
    if before is None:
        return _Waiting(row.next_ns, row.troubled)
    if before.next_ns != row.next_ns:
        return _Waiting(row.next_ns, row.troubled, logged_problem=before.logged_problem if row.troubled else "")
    before.troubled = row.troubled
    return before

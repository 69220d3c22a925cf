"""The simulated database with a topic: ids that are taken in one order and become visible in another, and the server's
list of open transactions.

With row locks an INSERT takes its ids at once, its transaction's number a little later, and is visible at its commit,
as in InnoDB; what is rolled back leaves a gap for ever. Numbers and ids that a crash or a failover may give out again
are given out again. The list of open transactions is a copy that is not renewed while somebody asks for it more often
than ten times a second. Without row locks a transaction that writes has the database to itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from sim_database import ClientTransaction, Rows, SilentTransaction, SimDatabase, StoreView
from sim_faults import Trouble
from sim_loop import Timeline

from engine.backend.base import SqlValue
from engine.model.errors import BackendError, BackendUnavailable, LockWaitTimeout
from engine.model.queue import StartAt

T = TypeVar("T")

TOPIC = "t"
LIST_KEPT_SECONDS = 0.1  # the copy is renewed once nobody has asked for it for so long
SLOW_INSERT_SECONDS = 1.8  # from an id to its transaction's number, and from there to the commit: less than 5 s
_READER = 1 << 48  # beyond it are the numbers of transactions that have written nothing
_WHOLE_TABLE = re.compile(r"DELETE FROM `main`\.`(\w+)`$")
_INSERT = re.compile(rf"INSERT INTO {TOPIC} \((.*?)\) VALUES \((.*)\)$")


@dataclass(frozen=True, slots=True)
class LogRow:
    """A message as it is in the topic."""

    id: int
    created_ns: int
    scheduled_ns: int
    key: str
    number: int


Log = Mapping[int, LogRow]


class TopicView(StoreView):
    """The engine's connection, to which the list of open transactions is shown, or not."""

    _database: TopicDatabase

    def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        if "INNODB_TRX" in sql:
            self._database.show_transactions(f"{sql} {params!r}")
        return super().query(sql, params)

    def execute(self, sql: str, params: Sequence[SqlValue] = ()) -> int:
        whole = _WHOLE_TABLE.match(sql)
        if whole is not None and any(table == whole[1] for table, _ in self._database.locks):
            raise LockWaitTimeout()  # it would wait for them, and this is how that ends
        return super().execute(sql, params)


class TopicDatabase(SimDatabase):
    """See the module. `shown`: the engine's account may see the open transactions."""

    view_type = TopicView

    def __init__(
        self,
        timeline: Timeline,
        template: bytes,
        comments: Mapping[str, str],
        *,
        row_locks: bool,
        tick_ns: int,
        random: Random,
        shown: bool,
    ) -> None:
        super().__init__(timeline, template, comments, row_locks=row_locks, tick_ns=tick_ns)
        self._random, self._shown = random, shown
        self.log: Log = {}
        self.published: Callable[[str, Log, Log], None] = lambda actor, before, after: None
        self.moved: Callable[[str, str, StartAt, Rows, Rows], None] = lambda table, actor, start, before, after: None
        self.numbers: dict[TopicTransaction, int] = {}
        self.inserting: dict[TopicTransaction, None] = {}
        self.newest = 1000
        self.highest_id = 0
        self.slow_inserts = False
        self.monitored_until = 0.0
        self.monitor_comes = 0.0
        self._moves: dict[str, StartAt] = {}
        self._copy: list[tuple[str, int, str]] = []
        self._asked_at = 0.0
        self._threads: dict[str, int] = {}
        self._own_thread = 0
        self._raw.execute("ATTACH ':memory:' AS information_schema")
        self._raw.execute("CREATE TABLE information_schema.INNODB_TRX (trx_id, trx_mysql_thread_id, trx_query)")
        self._raw.create_function("CONNECTION_ID", 0, lambda: self._own_thread)
        self._raw.create_function("LOCATE", 2, lambda part, text: str(text).find(str(part)) + 1)
        self._changes = self._raw.total_changes

    # --- groups

    def begin_group(self, table: str) -> None:
        """A group that was made before everything else begins with the first message."""
        self._raw.execute(
            "INSERT INTO queuegate_positions (group_table, position, highest, holes) VALUES (?, 0, 0, '[]')", (table,)
        )

    def holes(self, table: str) -> str:
        """What a group still waits for."""
        sql = "SELECT holes FROM queuegate_positions WHERE group_table = ?"
        return "".join(row[0] for row in self._raw.execute(sql, (table,)))

    def moves(self, table: str, start: StartAt) -> None:
        self._moves[table] = start

    def write(self, actor: str, work: Callable[[Any], T], trouble: Trouble = Trouble.NONE) -> T:
        self._moves.clear()
        self._own_thread = self._threads.setdefault(actor, 100 + len(self._threads))
        return super().write(actor, work, trouble)

    def fall_silent(self, work: Callable[[Any], object]) -> SilentTransaction:
        try:
            return super().fall_silent(work)
        finally:
            self._moves.clear()  # it has not been committed

    def observe(self, actor: str) -> None:
        if self.committed:
            for table, start in self._moves.items():
                self._see_move(table, actor, start)
        self._moves.clear()
        if self._raw.total_changes != self._changes:
            sql = f"SELECT id, time_created, time_scheduled, k, n FROM main.{TOPIC}"
            before, self.log = self.log, {row[0]: LogRow(*row) for row in self._raw.execute(sql)}
            if before != self.log:
                self.highest_id = max(self.highest_id, *self.log) if self.log else self.highest_id
                self.published(actor, before, self.log)
        super().observe(actor)

    def _see_move(self, table: str, actor: str, start: StartAt) -> None:
        before = self.tables[table]
        self.tables[table] = self._rows_of(table)
        self.moved(table, actor, start, before, self.tables[table])

    # --- ids and numbers

    def transaction(self, name: str) -> TopicTransaction:
        return TopicTransaction(self, name)

    def take_ids(self, count: int) -> range:
        ids = range(self.next_id, self.next_id + count)
        self.next_id += count
        return ids

    def slowness(self) -> float:
        """How long a step of an INSERT takes: hardly anything, mostly."""
        if not self.slow_inserts or self._random.random() < 0.6:
            return 0.0
        return self._random.random() * SLOW_INSERT_SECONDS

    def give_number(self, transaction: TopicTransaction) -> None:
        """At its first write; numbers are given in order."""
        if transaction not in self.numbers:
            self.newest += self._random.randint(1, 3)
            self.numbers[transaction] = self.newest

    def crashed(self, *, elsewhere: bool) -> None:
        """It starts again; or another server takes its place, which has its own numbers. Ids that nobody committed
        are given again."""
        for transaction in [*self.numbers, *self.inserting]:
            transaction.close()
        self.newest = self._random.randint(1, 2 * self.newest) if elsewhere else self.newest + 512
        if self._random.random() < 0.7:
            self.next_id = self.highest_id + 1
        self._copy, self._asked_at, self.monitored_until = [], 0.0, 0.0

    # --- the list of open transactions

    def monitored(self, seconds: float) -> None:
        """Somebody asks for the list all the time, so that the copy of this moment stays."""
        self._renew(())
        self.monitored_until = self._timeline.now + seconds

    def show_transactions(self, query: str) -> None:
        """Fill the table that shows them, from the copy, which is renewed if nobody has asked for a while."""
        if not self._shown:
            raise BackendError("Access denied; you need the PROCESS privilege for this operation", 1227, "42000")
        now = self._timeline.now
        if now - self._asked_at >= LIST_KEPT_SECONDS and now >= self.monitored_until:
            self.newest += 1
            self._renew(((str(self.newest), self._own_thread, query),))
        self._asked_at = now
        if self.monitor_comes:
            self.monitored_until, self.monitor_comes = now + self.monitor_comes, 0.0
        self._raw.execute("DELETE FROM information_schema.INNODB_TRX")
        self._raw.executemany("INSERT INTO information_schema.INNODB_TRX VALUES (?, ?, ?)", self._copy)

    def _renew(self, own: Sequence[tuple[str, int, str]]) -> None:
        readers = [("0", 7, ""), (str(_READER + 17), 8, "SELECT 1")]
        open_ = [(str(number), 1, "COMMIT") for number in self.numbers.values()]
        self._copy = [*readers, *open_, *own]


@dataclass(eq=False)
class TopicTransaction(ClientTransaction):
    """What one client's connection has open. Its INSERTs into the topic name no ids; here they get them."""

    database: TopicDatabase
    _first_id: int | None = None

    def try_statement(self, sql: str, targets: str | None, done: Callable[[BackendError | None], None]) -> bool:
        found = _INSERT.match(sql)
        if found is None:
            if self.database.row_locks and self.open and sql.startswith(("INSERT", "UPDATE", "DELETE")):
                self.database.give_number(self)
            return super().try_statement(sql, targets, done)
        if not self._can(sql, None):
            return False
        rows = found[2].split("), (")
        if self._first_id is None:
            self._first_id = self.database.next_id
            self.database.inserting[self] = None
        ids, now_ns = self.database.take_ids(len(rows)), self.database.now_ns()
        values = ", ".join(f"({id_}, sim_now(), {row})" for id_, row in zip(ids, rows, strict=True))
        text = f"INSERT INTO {TOPIC} (id, time_created, {found[1]}) VALUES {values}"
        if not self.database.row_locks:
            self._insert(text, now_ns, done)
        else:
            self._after(lambda: self._insert(text, now_ns, done), done)
        return True

    def _after(self, action: Callable[[], None], done: Callable[[BackendError | None], None]) -> None:
        """Once the next step is due, unless the connection is gone by then."""
        seconds = self.database.slowness()
        if seconds == 0.0:
            action()
            return

        def due() -> None:
            if self.closed:
                done(BackendUnavailable("the simulated connection is lost"))
            else:
                action()

        self.database._timeline.after(seconds, due)

    def _insert(self, text: str, now_ns: int, done: Callable[[BackendError | None], None]) -> None:
        self._done.append((text, now_ns))
        if not self.database.row_locks:
            self._end_statement(done)
            return
        self.database.give_number(self)
        if self.open:
            done(None)
        else:
            self._after(lambda: self._end_statement(done), done)

    def _end_statement(self, done: Callable[[BackendError | None], None]) -> None:
        if not self.open:
            self.commit()
        done(None)

    def commit(self) -> int:
        self._first_id = None
        return super().commit()

    def rollback(self) -> None:
        self.database.numbers.pop(self, None)
        self.database.inserting.pop(self, None)
        if self._first_id is not None and not self.database.row_locks:
            self.database.next_id = self._first_id  # as SQLite does
        self._first_id = None
        super().rollback()

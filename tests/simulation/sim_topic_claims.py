"""What has to hold of a topic and its readers, judged from rows and from what was handed out.

A group's queue is a queue: what holds for queues (sim_claims) holds for it. Besides it is fed: with what is committed
in the topic, each message once from one move of the group (its beginning, or a seek) to the next, and with nothing that
the move leaves out. What has to have been fed in the end is `missing`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from sim_claims import Claims
from sim_database import Row, Rows, is_alive
from sim_topic_database import Log, LogRow

from engine.model.options import UNTIL_CONSUMED
from engine.model.queue import QueueName, Start, StartAt
from engine.model.states import is_lease_end
from engine.model.topics import FED_PRIORITY


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a reader begins: at messages from `first` on. Of those before it, some count all the same: at the end and
    at a time, those that were not visible yet (`visible` are those that were)."""

    start: StartAt
    first: int
    visible: frozenset[int]

    @classmethod
    def at(cls, start: StartAt, log: Log) -> Beginning:
        visible = frozenset(log)
        end = max(visible, default=0) + 1
        match start.start:
            case Start.EARLIEST:
                first = 1
            case Start.LATEST:
                first = end
            case Start.OFFSET:
                first = start.value
            case Start.TIMESTAMP:
                first = min((row.id for row in log.values() if row.created_ns >= start.value), default=end)
        return cls(start, first, visible)

    def needs(self, row: LogRow) -> bool:
        """Whether the reader has to get a message."""
        if row.id >= self.first:
            return True
        return self.allows(row.id) and (self.start.start is Start.LATEST or row.created_ns >= self.start.value)

    def allows(self, id_: int) -> bool:
        """Whether the reader may get a message."""
        if id_ >= self.first:
            return True
        return self.start.start in (Start.LATEST, Start.TIMESTAMP) and id_ not in self.visible


class TopicClaims(Claims):
    """On the whole world: the topic, its groups and its broadcasts."""

    log: dict[int, LogRow]
    late: set[int]
    groups: dict[str, GroupClaims]
    gone_ids: set[int]
    compact_after_ns: int | None

    def begin(self, groups: dict[str, GroupClaims], compact_after_ns: int | None) -> None:
        self.groups, self.compact_after_ns = groups, compact_after_ns
        self.log, self.late, self.gone_ids = {}, set(), set()
        for group in groups.values():
            group.whole = self
            group.history, group.counts, group.named = self.history, self.counts, self.named

    def of(self, queue: QueueName) -> Claims:
        return self.groups[queue.table]

    def calm_down(self) -> None:
        self.quiet = True
        for group in self.groups.values():
            group.quiet = True

    def gone(self, actor: str) -> None:
        super().gone(actor)
        for group in self.groups.values():
            group.gone(actor)

    def published(self, actor: str, before: Log, after: Log) -> None:
        """The topic has changed."""
        fresh = sorted(after.keys() - before.keys())
        if actor.startswith("proxy"):
            self._compacted(actor, before, after)
        for id_ in fresh:
            if id_ in self.log:
                self.fail("the simulation itself is sound", f"message {id_} is committed twice")
            if any(other > id_ for other in self.log):
                self.late.add(id_)
                self.counts["late"] += 1
            self.log[id_] = after[id_]
        self.committed.update(fresh)
        self.gone_ids |= before.keys() - after.keys()
        if fresh:
            self.note(actor, f"publishes {fresh}")
        self._happened()

    def _compacted(self, actor: str, before: Log, after: Log) -> None:
        """The engine has changed the topic."""
        now_ns, gone = self.now_ns(), before.keys() - after.keys()
        if self.compact_after_ns is None or dict(after) != {id_: before[id_] for id_ in before if id_ in after}:
            self.fail("the engine leaves the topic as it is", f"{actor}: {before} to {after}")
            return
        self.note(actor, f"compacts {sorted(gone)}")
        self.counts["compacted"] += len(gone)
        for row in (before[id_] for id_ in sorted(gone)):
            newer = [one for one in after.values() if one.id > row.id and one.key == row.key]
            if not any(one.scheduled_ns <= now_ns for one in newer) or row.scheduled_ns > now_ns:
                self.fail("the newest message of a key stays", f"{actor} deleted {row}, left is {list(after.values())}")
            if row.created_ns > now_ns - self.compact_after_ns:
                self.fail("what is young is not compacted", f"{actor} deleted {row} at {now_ns}")
            for group in self.groups.values():
                if group.options().retain == UNTIL_CONSUMED and group.needs(row):
                    group.fail("what a group is to be kept is not compacted", f"{actor} deleted {row}")

    def superfluous(self) -> set[int]:
        """Messages that are to be compacted, and are not."""
        left: dict[str, list[int]] = {}
        for row in self.log.values():
            if row.id not in self.gone_ids and row.scheduled_ns <= self.now_ns():
                left.setdefault(row.key, []).append(row.id)
        return {id_ for ids in left.values() for id_ in sorted(ids)[:-1]}


@dataclass(eq=False)
class GroupClaims(Claims):
    """On one group. `fed` and `leased_ids`: of messages, since the group was last moved. `rejected_then`: those that it
    had then and that were rejected; they stay in its queue until they are dead letters, and may be fed again after
    that."""

    name: str = ""
    beginning: Beginning | None = None
    fed: set[int] = field(default_factory=set)
    leased_ids: set[int] = field(default_factory=set)
    rejected_then: frozenset[int] = frozenset()
    dead_before: set[int] = field(default_factory=set)
    dropped: Counter[int] = field(default_factory=Counter)
    waiting: Callable[[], Collection[int]] = tuple
    whole: TopicClaims = field(init=False)

    def fail(self, claim: str, text: str) -> None:
        self.whole.fail(claim, f"group {self.name}: {text}")

    def note(self, actor: str, text: str) -> None:
        super().note(actor, f"{self.name}: {text}")

    def _happened(self) -> None:
        self.whole._happened()

    # --- its place

    def begins(self, start: StartAt, log: Log) -> None:
        """It reads from there on: everything before is forgotten."""
        self.beginning = Beginning.at(start, log)
        self.fed.clear()
        self.leased_ids.clear()
        self.acked_at.clear()
        self.dead_before |= self.buried
        self.buried.clear()

    def moved(self, actor: str, start: StartAt, before: Rows, after: Rows) -> None:
        """Its beginning was written, or it was moved by a seek."""
        self.note(actor, f"{start.start.value} {start.value or ''}, drops {sorted(before)}")
        if any(map(is_alive, after.values())):
            self.fail("a seek drops what the group has", f"{actor} left {list(after.values())}")
        self.begins(start, self.whole_log())
        self.rejected_then = frozenset(after)
        self.dropped[len(before) - len(after)] += 1
        self.counts["moved"] += 1
        self._happened()

    def whole_log(self) -> Log:
        """The topic as it is now."""
        whole = self.whole
        return {id_: row for id_, row in whole.log.items() if id_ not in whole.gone_ids}

    def missing(self) -> set[int]:
        """What it has not been fed, though it has to be."""
        return {row.id for row in self.whole_log().values() if self._is_to_be_fed(row)}

    def _is_to_be_fed(self, row: LogRow) -> bool:
        known = row.id in self.fed or row.id in self.rejected_then
        return not known and self.beginning is not None and self.beginning.needs(row)

    def needs(self, row: LogRow) -> bool:
        """Whether it has not done with a message that it has to get."""
        return row.id in self.waiting() or self._is_to_be_fed(row)

    # --- its queue

    def _engine_changed(self, actor: str, old: Row | None, new: Row | None) -> None:
        if old is None:
            assert new is not None
            self._fed_one(actor, new)
        else:
            super()._engine_changed(actor, old, new)

    def _fed_one(self, actor: str, new: Row) -> None:
        message, now_ns = self.whole.log.get(new.id), self.now_ns()
        if message is None or new.id in self.whole.gone_ids:
            self.fail("only what is in the topic is fed", f"{actor} inserted {new}")
            return
        if self.beginning is None or not self.beginning.allows(new.id):
            self.fail("nothing is fed from before a group's beginning", f"{actor} inserted {new}")
        if new.id in self.fed:
            self.fail("a message is fed once", f"{actor} inserted {new} again")
        if (new.key, new.number, new.priority) != (message.key, message.number, FED_PRIORITY):
            self.fail("a message is fed as it is", f"{actor} inserted {new} for {message}")
        self.fed.add(new.id)
        for told in self._told.values():
            told.pop(new.id, None)
        self.counts["fed"] += 1
        due_ns = max(message.scheduled_ns, 0)
        if new.epoch == 1 and new.time_next is not None and is_lease_end(new.time_next):
            self._leased(actor, Row(new.id, 0, due_ns, None, new.priority, new.key, new.number), new)
        elif new.epoch != 0 or new.time_acked is not None:
            self.fail("a message is fed as it is", f"{actor} inserted {new}")
        elif (new.time_next or 0) != due_ns if due_ns > now_ns else (new.time_next or 0) > now_ns:
            self.fail("a message is fed with its time", f"{actor} inserted {new} for {message}")

    def _leased(self, actor: str, old: Row, new: Row) -> None:
        super()._leased(actor, old, new)
        self.leased_ids.add(new.id)

    def changed(self, actor: str, before: Rows, after: Rows) -> None:
        client = not actor.startswith("proxy")
        if client and not actor.startswith(f"{self.name}."):
            self.fail("nobody changes what is another group's", f"{actor}: {before} to {after}")
        super().changed(actor, before, after)

    def _client_changed(self, old: Row | None, new: Row | None) -> None:
        if old is None:
            self.fail("only the engine feeds a group", f"inserted {new}")
            return
        if new is None and old.id not in self.leased_ids | self.rejected_then:
            self.fail("an ack ends only what was delivered", f"deleted {old}")
        super()._client_changed(old, new)


@dataclass(eq=False)
class Heard:
    """One broadcast stream. What it has to get follows from what was visible as it was `asked` for, and as it was
    `opened`: it begins at a moment in between."""

    listener: str
    whole: TopicClaims
    start: StartAt
    asked: Beginning
    limit: int | None
    ends: bool
    opened: Beginning | None = None
    ended: bool = False
    at_first: tuple[LogRow, ...] = ()
    got: list[int] = field(default_factory=list)

    def open(self, log: Log) -> None:
        self.opened = Beginning.at(self.start, log)

    def sends(self, rows: Sequence[Sequence[bytes | None]], now_ns: int) -> None:
        """The proxy sends it these rows: id, k, n."""
        whole = self.whole
        ids = [int(row[0] or 0) for row in rows]
        what = f"{self.listener} is sent {ids} after {self.got}"
        if ids != sorted(ids):
            whole.fail("a batch of a broadcast is in order", what)
        for id_, row in zip(ids, rows, strict=True):
            message = whole.log.get(id_)
            if message is None or (message.key.encode(), str(message.number).encode()) != (row[1], row[2]):
                whole.fail("a broadcast is of what the topic holds", f"{what}: {row} for {message}")
                return
            if message.scheduled_ns > now_ns:
                whole.fail("what is scheduled is not sent before its time", what)
            if id_ in self.got:
                whole.fail("a broadcast sends a message once", what)
            if not self.asked.allows(id_) and not (self.opened is not None and self.opened.allows(id_)):
                whole.fail("a broadcast begins where it is told to", f"{what}, beginning at {self.start}")
            if any(other > id_ for other in self.got) and not self._may_be_late(message):
                whole.fail("a broadcast is in order but for what comes late", what)
        self.got += ids
        if self.limit is not None and len(self.got) > self.limit:
            whole.fail("a broadcast ends at its limit", what)
        whole.counts["broadcast"] += len(ids)
        whole.note(self.listener, f"is sent {ids}")

    def _may_be_late(self, message: LogRow) -> bool:
        return message.id in self.whole.late or message.scheduled_ns > message.created_ns

    def missing(self, log: Iterable[LogRow]) -> set[int]:
        """What it has not got of these, though it has to."""
        asked, opened = self.asked, self.opened
        if opened is None:
            return set()
        rows = [row for row in log if row.id not in self.got and asked.needs(row) and opened.needs(row)]
        if self.start.start is Start.TIMESTAMP:  # where none is of that time, it depends on the moment what is before
            rows = [row for row in rows if row.created_ns >= self.start.value]
        return {row.id for row in rows}

    def ends_well(self) -> None:
        """It has come to its own end: at its limit, or when there was nothing more."""
        whole = self.whole
        there = [row for row in self.at_first if row.id not in whole.gone_ids]
        if (self.limit is None or len(self.got) < self.limit) and (missing := self.missing(there)):
            whole.fail("a broadcast that ends has had all", f"{self.listener} has not got {missing}")

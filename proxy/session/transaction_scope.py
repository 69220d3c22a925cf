"""TransactionScope: what a client's open transaction has done to queues, reported to the engine once it is committed.

Lives here: the bookkeeping between a statement and its commit. Never here: I/O, or a guess. The server's own status
flags say whether a transaction is open; this never counts BEGINs. A rollback is reported, too, as "poll again": rows
the transaction had locked were passed over by the sender meanwhile. Only COMMIT itself, or a statement that is a
transaction of its own, proves that acks hold: what else ends a transaction (DDL, a procedure, EXECUTE of a prepared
ROLLBACK) may have undone them, and then the table is queried. An error carries no status flags: a deadlock's victim has
lost its transaction, a DDL that failed has committed it; so the queues are polled, and nothing is certain after it.

Affected rows are counted only where the commit is certain too: after ROLLBACK TO it is not known which of them remain.

The report may be lost (the process may die right after the commit): the poller repairs that, so nothing here needs
to be durable. It may also be too generous: the lease is guarded in the table, so it costs only a needless poll.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from engine.model.commit_report import ADDED_MAX, CommitReport, Postponement, Settlement
from engine.model.queue import MessageId, QueueName
from engine.model.trace_event import ENQUEUED, RELEASED, RENEWED
from rewriter.plan import NO_EFFECTS, Effects, TransactionVerb

_NAMED_MAX = 10_000  # ids remembered per transaction; beyond it asking the table is cheaper than remembering
_COMMITS = (TransactionVerb.BEGIN, TransactionVerb.COMMIT, TransactionVerb.AUTOCOMMIT)
_WINDING = (TransactionVerb.ROLLBACK_TO, TransactionVerb.OPAQUE)
_ENDING = (TransactionVerb.BEGIN, TransactionVerb.COMMIT, TransactionVerb.ROLLBACK)  # and may leave another one open


class CommitListener(Protocol):
    """What is told of commits: the engine."""

    def enqueued(self, name: QueueName, first_id: int, count: int) -> None:
        """One statement has added `count` messages to a queue or topic; `first_id` as in `report_single`."""
        ...

    def settled(self, settlement: Settlement, count: int) -> None:
        """One statement has ended these messages of a queue; `count`: how many there were."""
        ...

    def committed(self, report: CommitReport) -> None:
        """A transaction has done all that."""
        ...


def report_single(listener: CommitListener, effects: Effects, affected: int, first_id: int) -> bool:
    """Report a statement that succeeded as a transaction of its own, where it does only one thing, as most do. False:
    it does more, so `TransactionScope.record` makes a report of it. `first_id`: the first that the database gave to a
    row that it added; 0: none, or not known."""
    if (queue := effects.only_adds) is not None:
        listener.enqueued(queue, first_id, affected)
        return True
    ids = effects.only_settles
    if not ids or len(ids) > _NAMED_MAX or effects.if_all not in (0, affected):
        return False
    assert effects.tally is not None
    listener.settled(Settlement(*effects.tally, ids, affected >= len(set(ids)), effects.reason), affected)
    return True


class TransactionScope:
    """Collects the effects of one client's statements until its transaction ends."""

    empty: bool
    """Nothing to report: statements that end transactions need no poll. Cached, for it is read at every statement."""

    def __init__(self) -> None:
        self._doubtful = False  # a part of what was noted may have been undone
        self._forget()

    def __repr__(self) -> str:
        return (
            f"<TransactionScope touched={len(self._touched)} named={self._named_count} "
            f"uncertain={len(self._uncertain)}>"
        )

    def record(
        self,
        effects: Effects = NO_EFFECTS,
        verb: TransactionVerb | None = None,
        *,
        ok: bool,
        in_transaction: bool,
        affected: int = 0,
        first_id: int = 0,
        enqueued: Settlement | None = None,
        sent_at: float | None = None,
    ) -> CommitReport | None:
        """Record an answered statement; returns the report for the engine, if one is due. `first_id`: the first that
        the database gave to a row that it added. `enqueued`: messages that it added to a topic, where that is reported.
        `sent_at`: a moment before it went to the database, on the monotonic clock.

        A statement that failed and left no transaction open (a deadlock, a connection lost in mid-commit) has an
        unknown outcome: the report then requests a poll and a query of the table, and never contains "settled".
        """
        alone = self.empty
        if effects.if_all:
            effects = _certain(effects, sure=ok and affected == effects.if_all and not effects.several)
        if ok or effects.several:  # of several statements, those before the one that failed have taken effect
            self._add(effects, _ids_added(effects, affected, first_id) if ok else ())
            if ok and affected and effects.tally is not None:
                self._counted[effects.tally] = self._counted.get(effects.tally, 0) + affected
                if effects.tally[1] == RENEWED and effects.delay_ns:
                    queue = effects.tally[0]
                    self._renewed[queue] = min(effects.delay_ns, self._renewed.get(queue, effects.delay_ns))
                self._trace(*effects.tally, effects, affected)
            if ok and enqueued is not None and self._enqueued + len(enqueued.ids) <= _NAMED_MAX:
                self._enqueued += len(enqueued.ids)
                self._traced.append(enqueued)
        self._doubtful |= not ok or verb in _WINDING
        if self.empty:
            self._doubtful = False
            return None
        # COMMIT AND CHAIN and BEGIN end a transaction and leave one open: the flags alone do not show that.
        if in_transaction and not (ok and verb in _ENDING):
            if ok and verb is TransactionVerb.OPAQUE:  # it may have committed, and begun another transaction
                return CommitReport(touched=self._queues(), uncertain=self._perhaps_ended())
            return None if ok else CommitReport(touched=self._queues())
        if verb is TransactionVerb.ROLLBACK and ok and not self._doubtful:
            return self._rolled_back()
        certain = not self._doubtful and (alone or verb in _COMMITS)
        return self._take(
            certain=certain, postponed=_postponed(effects, affected, sent_at) if alone and certain else {}
        )

    def abandon(self) -> CommitReport | None:
        """The session ended with its transaction open: the database rolls it back and frees the rows it had locked."""
        return None if self.empty else self._rolled_back()

    def _add(self, effects: Effects, added: Sequence[int]) -> None:
        for queue in effects.touched:
            before = self._touched.get(queue, ())
            if before is None or not added or len(before) + len(added) > ADDED_MAX:
                self._touched[queue] = None
            else:
                self._touched[queue] = (*before, *added)
        self._uncertain |= effects.uncertain
        self._rejected |= effects.rejected
        self._remember(self._settled, effects.settled)
        self._remember(self._changed, effects.changed)
        self.empty = not self._queues()

    def _trace(self, queue: QueueName, what: str, effects: Effects, affected: int) -> None:
        """Record what was done to which messages, up to the bound."""
        for ids in _named(queue, effects):
            if self._named_count <= _NAMED_MAX and len(self._traced) < _NAMED_MAX:
                self._traced.append(_settlement(queue, what, ids, effects, affected))

    def _remember(
        self, before: dict[QueueName, list[MessageId]], named: tuple[tuple[QueueName, tuple[MessageId, ...]], ...]
    ) -> None:
        for queue, ids in named:
            if self._named_count + len(ids) > _NAMED_MAX:
                self._uncertain.add(queue)
                continue
            before.setdefault(queue, []).extend(ids)
            self._named_count += len(ids)

    def _queues(self) -> frozenset[QueueName]:
        return frozenset(self._touched.keys() | self._rejected | self._perhaps_ended())

    def _perhaps_ended(self) -> frozenset[QueueName]:
        return frozenset(self._uncertain | self._settled.keys() | self._changed.keys())

    def _take(self, *, certain: bool, postponed: Mapping[QueueName, Postponement]) -> CommitReport:
        report = CommitReport(
            counted=tuple((*tally, rows) for tally, rows in self._counted.items()) if certain else (),
            touched=frozenset(self._touched) if certain else self._queues(),
            settled={queue: tuple(ids) for queue, ids in self._settled.items()} if certain else {},
            uncertain=frozenset(self._uncertain) if certain else self._perhaps_ended(),
            changed={queue: tuple(ids) for queue, ids in self._changed.items()} if certain else {},
            rejected=frozenset(self._rejected),
            traced=tuple(self._traced) if certain else (),
            added={queue: ids for queue, ids in self._touched.items() if ids} if certain else {},
            postponed=postponed,
            renewed=self._renewed if certain else {},
            overdue=frozenset(queue for queue, what in self._counted if what == RELEASED),
        )
        self._forget()
        return report

    def _rolled_back(self) -> CommitReport:
        report = CommitReport(touched=self._queues())
        self._forget()
        return report

    def _forget(self) -> None:
        # With the ids of the messages added, if they are few and nothing else was done that is to be looked for.
        self._touched: dict[QueueName, tuple[int, ...] | None] = {}
        self._counted: dict[tuple[QueueName, str], int] = {}
        self._traced: list[Settlement] = []
        self._enqueued = 0  # messages whose being enqueued is remembered
        self._renewed: dict[QueueName, int] = {}
        self._settled: dict[QueueName, list[MessageId]] = {}
        self._named_count = 0
        self._uncertain: set[QueueName] = set()
        self._changed: dict[QueueName, list[MessageId]] = {}
        self._rejected: set[QueueName] = set()
        self.empty = True
        self._doubtful = False


def _certain(effects: Effects, *, sure: bool) -> Effects:
    """The effects of a statement that has been answered. Not `sure`: some of the messages that it names may not be
    what it would have made of them."""
    if sure:
        return effects
    named = frozenset(queue for queue, _ in (*effects.settled, *effects.changed))
    return replace(effects, settled=(), changed=(), uncertain=effects.uncertain | named)


def doubted(effects: Effects) -> Effects:
    """The effects of a statement, where the table that it names may be another than the queue's: nothing is certain."""
    return effects if effects is NO_EFFECTS else replace(_certain(effects, sure=False), tally=None, numbered=False)


def _postponed(effects: Effects, affected: int, sent_at: float | None) -> Mapping[QueueName, Postponement]:
    """Until when the messages that a statement names wait, where it has put off all of them."""
    delay_ns = effects.delay_ns
    if delay_ns is None or sent_at is None or effects.uncertain or len(effects.changed) != 1:
        return {}
    ((queue, ids),) = effects.changed
    return {queue: Postponement(sent_at, delay_ns)} if affected == len(set(ids)) else {}


def _ids_added(effects: Effects, affected: int, first_id: int) -> Sequence[int]:
    """The ids of the messages that a statement has probably added, where it does nothing else and they are few."""
    tally = effects.tally
    if not first_id or tally is None or tally[1] != ENQUEUED or not 0 < affected <= ADDED_MAX:
        return ()
    if effects.uncertain or effects.several or effects.touched != {tally[0]}:
        return ()
    return range(first_id, first_id + affected)


def _named(queue: QueueName, effects: Effects) -> list[tuple[MessageId, ...]]:
    """The messages of a queue that a statement names."""
    return [ids for name, ids in (*effects.settled, *effects.changed) if name == queue]


def _settlement(queue: QueueName, what: str, ids: tuple[MessageId, ...], effects: Effects, affected: int) -> Settlement:
    return Settlement(queue, what, ids, affected >= len(set(ids)), effects.reason)

"""Claim, release and purge in SQL. Each runs in a thread inside one transaction that its caller opened and commits.

All three first select what they may change, locking it where others write too and passing over what is locked; then
they change exactly that. So none of them ever waits for a client's transaction. A claim is two round trips: what it may
lease; then the lease, the rows as they are after it, and the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from engine.backend.base import Statement, StoreConnection
from engine.model.attempts import EXPIRED, RECEIVER_GONE, failure
from engine.model.epochs import highest_epoch, last_epoch, next_epoch
from engine.model.errors import INTERRUPTED, BackendError, BackendUnavailable
from engine.model.identity import from_text, id_kind
from engine.model.lease_token import NO_TOKEN, TOKEN_COLUMN, LeaseTimes, grown
from engine.model.queue import Message, MessageId, QueueSpec, SubscribeRequest, TextValue
from engine.model.states import is_lease_end, lease_end, not_a_lease_end
from engine.store.base import Claim, ForeseenLease, LeaseStanding, LeaseUnknown, Release, holds
from engine.store.gate import check_mark
from engine.store.operations import failed_attempts
from engine.store.operations.due_messages import INTEGER, id_column, not_null, number
from engine.store.statements.queue import QueueStatements

_RELEASE_CHUNK = 200  # ids in one UPDATE: its CASE is searched row by row, so the cost grows with the square


@dataclass(frozen=True, slots=True)
class Terms:
    """Of a lease. `delays_ns`: until its end, by the epoch that a message had before; the largest stands for all above
    it. `times`: what its token is made of. `had`: who had that delivery of a message, where it is known."""

    delays_ns: Mapping[int, int]
    times: LeaseTimes
    had: Callable[[MessageId, int], SubscribeRequest | None] = lambda id_, epoch: None


class LockedRow(NamedTuple):
    """A row that this transaction may lease, as it was before."""

    id: MessageId
    priority: int
    epoch: int
    due_ns: int
    token: int


@dataclass(frozen=True, slots=True)
class Locked:
    """What a transaction has locked to lease it, and the database's time then; None where nothing was locked."""

    now_ns: int | None
    rows: Sequence[LockedRow]

    @property
    def ids(self) -> Set[MessageId]:
        """Those that may be leased."""
        return {row.id for row in self.rows}


def locking(statements: QueueStatements, queue: QueueSpec, ids: Sequence[MessageId]) -> Statement:
    """The statement that locks those of `ids` that may be leased; `locked` reads its rows."""
    return Statement(statements.claimable(len(ids)), ids, (INTEGER, id_column(queue), *(INTEGER,) * 4))


def locked(queue: QueueSpec, rows: Sequence[tuple[TextValue, ...]]) -> Locked:
    """See `locking`."""
    kind = id_kind(id_column(queue))
    now_ns = int(not_null(rows[0][0])) if rows else None
    return Locked(
        now_ns,
        [LockedRow(from_text(kind, not_null(row[1])), *(int(not_null(value)) for value in row[2:])) for row in rows],
    )


def claim(
    connection: StoreConnection,
    statements: QueueStatements,
    queue: QueueSpec,
    ids: Sequence[MessageId],
    terms: Terms,
    *,
    commits: bool = True,
) -> Claim:
    """MessageStore.claim of a queue without limits. Not `commits`: more follows in the transaction."""
    (answer,) = connection.run((locking(statements, queue, ids),))
    return claim_locked(connection, statements, queue, locked(queue, answer.rows), terms, commits=commits)


def claim_locked(
    connection: StoreConnection,
    statements: QueueStatements,
    queue: QueueSpec,
    locked: Locked,
    terms: Terms,
    *,
    commits: bool = True,
) -> Claim:
    """Lease what this transaction has locked."""
    if locked.now_ns is None:
        return Claim(int(connection.query(statements.now)[0][0]), ())
    now_ns, rows, delays_ns = locked.now_ns, locked.rows, terms.delays_ns
    failed_attempts.note(connection, statements, queue, _expired(queue, rows, terms))
    spent = _spent(queue, rows)
    if spent:
        connection.execute(statements.set_aside(len(spent)), spent)
        rows = [row for row in rows if row.id not in spent]
    if not rows:
        return Claim(now_ns, (), rejected=tuple(spent))
    last, highest = max(delays_ns), highest_epoch(queue)
    until_ns = {e: lease_end(now_ns + delays_ns[min(max(e, 0), last)]) for e in {row.epoch for row in rows}}
    time_us = terms.times.next(now_ns)
    tokens = {row.id: grown(row.token, time_us) if queue.has_tokens else NO_TOKEN for row in rows}
    try:
        values = _lease(connection, statements, queue, [row.id for row in rows], _Written(until_ns, time_us), commits)
    except BackendUnavailable as error:
        leases = [
            Release(row.id, row.due_ns, until_ns[row.epoch], next_epoch(row.epoch, highest), tokens[row.id])
            for row in rows
        ]
        raise LeaseUnknown(error, leases) from error
    messages = (
        Message(
            row.id,
            next_epoch(row.epoch, highest),
            row.priority,
            row.due_ns,
            until_ns[row.epoch],
            values[row.id],
            tokens[row.id],
        )
        for row in rows
        if row.id in values
    )
    return Claim(now_ns, tuple(messages), rejected=tuple(spent))


def claim_added(
    connection: StoreConnection,
    statements: QueueStatements,
    queue: QueueSpec,
    ids: Sequence[MessageId],
    foreseen: ForeseenLease,
    time_us: int,
) -> Claim | None:
    """MessageStore.claim_added, in one round trip.

    The end of the lease is written as the caller has foreseen it, for what the database makes of its own time would
    have to be asked for first; the statement holds it against that time. As no other lease has this end, the rows that
    have it afterwards are those that were leased here, unless they have ended since. `time_us`: what their tokens are
    made of.
    """
    if connection.replicates:  # ids do not follow one another there, and each statement is a round trip
        return None
    until_ns, among = foreseen.until_ns, (foreseen.earliest_ns, foreseen.latest_ns, *ids)
    written = (until_ns, *statements.token_times(time_us), *among)
    asked = [Statement(connection.without_waiting + statements.lease_added(len(ids)), written)]
    lock = "" if connection.without_waiting else statements.lock_added(len(ids))
    if lock:
        asked.insert(0, Statement(lock, among, (id_column(queue),)))
    asked.append(Statement(statements.leased_until(len(ids)), (*ids, until_ns), (INTEGER, *queue.columns)))
    try:
        *_, leased, read = connection.run(asked, last=True, alone=not lock)
    except BackendError as error:
        if not isinstance(error, BackendUnavailable) and error.errno not in INTERRUPTED:
            raise
        due_ns = foreseen.earliest_ns  # about when they were enqueued
        raise LeaseUnknown(error, [Release(id_, due_ns, until_ns, 1) for id_ in ids]) from error
    if not read.rows or leased.affected < len(read.rows):  # more: by chance another lease has the same end
        return None
    names = [column.name.lower() for column in queue.columns]
    token = names.index(TOKEN_COLUMN) if queue.has_tokens else None
    kind, key, priority, due = id_kind(id_column(queue)), *map(names.index, ("id", "priority", "time_scheduled"))
    messages = (
        Message(
            from_text(kind, not_null(row[key])),
            1,
            number(row[priority]) or 0,
            int(not_null(row[due])),
            until_ns,
            row,
            NO_TOKEN if token is None else int(not_null(row[token])),
        )
        for row in (row[1:] for row in read.rows)
    )
    return Claim(int(not_null(read.rows[0][0])), tuple(messages))


def _expired(queue: QueueSpec, rows: Sequence[LockedRow], terms: Terms) -> dict[MessageId, str]:
    """Those whose last lease has run out, and what is to be kept of that."""
    if not queue.attempts_kept:
        return {}
    return {
        row.id: failure(row.epoch, row.due_ns, EXPIRED, terms.had(row.id, row.epoch))
        for row in rows
        if row.epoch > 0 and is_lease_end(row.due_ns)
    }


def _spent(queue: QueueSpec, rows: Sequence[LockedRow]) -> list[MessageId]:
    """Those that were delivered as often as they may be."""
    last = last_epoch(queue, queue.options.attempts_max)
    return [row.id for row in rows if row.epoch >= last] if last else []


@dataclass(frozen=True, slots=True)
class _Written:
    """What a lease writes: until when, by the epoch that a row had, and what its token is made of."""

    until_ns: Mapping[int, int]
    time_us: int


def _lease(
    connection: StoreConnection,
    statements: QueueStatements,
    queue: QueueSpec,
    ids: Sequence[MessageId],
    written: _Written,
    commits: bool,
) -> dict[MessageId, tuple[TextValue, ...]]:
    """Mark locked rows leased; returns them as they then are."""
    cases = [value for pair in written.until_ns.items() for value in pair]
    values = (*cases, *statements.token_times(written.time_us), *ids)
    lease = Statement(statements.lease(len(written.until_ns), len(ids)), values)
    leased, read = connection.run((lease, Statement(statements.rows(len(ids)), ids, queue.columns)), last=commits)
    assert leased.affected == len(ids), f"leased {leased.affected} of {len(ids)} locked rows"
    id_ = id_column(queue)
    kind, position = id_kind(id_), queue.columns.index(id_)
    return {from_text(kind, not_null(row[position])): row for row in read.rows}


def release(
    connection: StoreConnection,
    statements: QueueStatements,
    queue: QueueSpec,
    leases: Sequence[Release],
    epochs_taken_back: int,
    gone: SubscribeRequest | None = None,
) -> int:
    """MessageStore.release. `gone`: the receiver whose end is a failure of these messages."""
    chunks = (leases[start : start + _RELEASE_CHUNK] for start in range(0, len(leases), _RELEASE_CHUNK))
    return sum(_release_chunk(connection, statements, queue, chunk, epochs_taken_back, gone) for chunk in chunks)


def _release_chunk(
    connection: StoreConnection,
    statements: QueueStatements,
    queue: QueueSpec,
    leases: Sequence[Release],
    epochs_taken_back: int,
    gone: SubscribeRequest | None,
) -> int:
    id_ = id_column(queue)
    kind = id_kind(id_)
    wanted = {lease.id: lease for lease in leases}
    asked = [*([] if gone is None else [Statement(statements.now, (), (INTEGER,))])]
    asked.append(Statement(statements.releasable(len(wanted)), list(wanted), (id_, *(INTEGER,) * 3)))
    *moment, answer = connection.run(asked)
    rows = {from_text(kind, not_null(row[0])): standing_of(row) for row in answer.rows}
    same = [lease for id_, lease in wanted.items() if id_ in rows and holds(lease, rows[id_])]
    if not same:
        return 0
    if gone is not None:
        at_ns = int(not_null(moment[0].rows[0][0]))
        failed = {lease.id: failure(lease.epoch, at_ns, RECEIVER_GONE, gone) for lease in same}
        failed_attempts.note(connection, statements, queue, failed)
    # A due time that is an earlier lease's end would look as if this lease had run out.
    cases = [value for lease in same for value in (lease.id, not_a_lease_end(lease.due_ns))]
    params = (*cases, epochs_taken_back, *(lease.id for lease in same))
    return connection.execute(statements.release(len(same)), params)


def standing_of(row: Sequence[TextValue]) -> LeaseStanding:
    """How a message stands, of a row of the statements `releasable` and `unsettled`."""
    return LeaseStanding(number(row[1]) or 0, number(row[2]), number(row[3]) or NO_TOKEN)


def purge(connection: StoreConnection, statements: QueueStatements, queue: QueueSpec, limit: int) -> int:
    """MessageStore.purge."""
    id_ = id_column(queue)
    if queue.options.archive:
        params = (queue.options.purge_after_ns, queue.name.table, limit)
        rows = connection.query_text(statements.purgeable_archived, params, (id_,))
    else:
        rows = connection.query_text(statements.purgeable, (queue.options.purge_after_ns, limit), (id_,))
    ids = [from_text(id_kind(id_), not_null(row[0])) for row in rows]
    return delete_acked(connection, statements, ids)


def delete_acked(connection: StoreConnection, statements: QueueStatements, ids: Sequence[MessageId]) -> int:
    """Delete messages that this transaction has locked."""
    if not ids:
        return 0
    check_mark(connection, statements.table)
    return connection.execute(statements.purge(len(ids)), ids)

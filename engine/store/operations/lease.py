"""Claim, release and purge in SQL. Each runs in a thread inside one transaction that its caller opened and commits.

All three first select the rows that they may change, lock them where other sessions write too, and skip locked ones;
then they change exactly these. So none of them ever waits for a client's transaction. A claim is two round trips: the
rows that it may lease; then the lease, the rows after it, and the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.backend.base import Answer, Statement, StoreConnection
from engine.model.attempts import EXPIRED, RECEIVER_GONE, failure, with_failure
from engine.model.errors import INTERRUPTED, LOCKED, BackendError, BackendUnavailable, is_refusal
from engine.model.identity import from_text, highest_epoch, id_kind, is_spent, last_epoch, next_epoch
from engine.model.lease_token import NO_TOKEN, TOKEN_COLUMN, LeaseTimes, next_token
from engine.model.queue import ATTEMPTS_COLUMN, Message, MessageId, QueueSpec, ReceiverIdentity, TextValue
from engine.model.states import REJECTED_NS, due_again, goes_alone, is_alongside, is_lease_end, lease_end
from engine.store.base import Claim, ForeseenLease, LeaseState, LeaseUnknown, Release, Stuck, lease_is_current
from engine.store.gate import check_mark
from engine.store.operations.due_messages import INTEGER, id_column, not_null, number
from engine.store.sharing import UNMARKED, Sharing
from engine.store.statements.queue import QueueStatements

CLAIM_ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""Of the rows of several messages that are claimed together: memory must not grow with them. One that is larger is
claimed alone."""

_WITHOUT_WAITING = 50  # changes after a wait in vain, which takes LOCK_WAIT_SECONDS each time

_RELEASE_CHUNK = 200  # ids in one UPDATE: its CASE is searched row by row, so the cost grows with the square


class LockWaits:
    """Whether the changes of a queue's rows, which are locked before, wait for what its triggers need and others have
    locked: not the next ones after that was in vain, where the server knows such statements. A lost update is a
    wait more or less. The changes are made within it, `with lock_waits`."""

    def __init__(self) -> None:
        self._without = 0

    def prefix(self, connection: StoreConnection) -> str:
        """What precedes an UPDATE."""
        if not self._without:
            return ""
        self._without -= 1
        return connection.without_waiting

    def __enter__(self) -> None:
        """Rows are changed."""

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, BackendError) and error.errno in LOCKED:
            error.of_rows, self._without = True, _WITHOUT_WAITING


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a lease. `delays_ns`: until its end, by the epoch that a message had before; the largest key applies
    to all above it. `times`: the source of its token. `last_receiver`: of a delivery, by the message's id, epoch and
    token, where known. `sharing`: how the receivers will share the messages. `alongside`: whether the receiver of a
    delivery, named by its token or else the end of its lease, is known to have had other messages too. `lock_waits`: of
    the queue."""

    delays_ns: Mapping[int, int]
    times: LeaseTimes
    last_receiver: Callable[[MessageId, int, int], ReceiverIdentity | None] = lambda id_, epoch, token: None
    sharing: Sharing = UNMARKED
    alongside: Callable[[MessageId, int, int], bool] = lambda id_, epoch, name: False
    lock_waits: LockWaits = field(default_factory=LockWaits)


class LockedRow(NamedTuple):
    """A row that this transaction may lease, as before the lease. `uncounted`: its last delivery does not count as an
    attempt, and its epoch stays."""

    id: MessageId
    priority: int
    epoch: int
    due_ns: int
    token: int
    uncounted: bool = False

    @property
    def attempts(self) -> int:
        """How many deliveries of it have counted."""
        return self.epoch - self.uncounted


@dataclass(frozen=True, slots=True)
class Locked:
    """The rows that a transaction has locked to lease them, and the database's time; None where nothing was locked."""

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
    leasable = []
    for row in rows:
        priority, epoch, due_ns, token = (int(not_null(value)) for value in row[2:6])
        leasable.append(LockedRow(from_text(kind, not_null(row[1])), priority, epoch, due_ns, token))
    return Locked(now_ns, leasable)


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
    now_ns, rows, delays_ns = locked.now_ns, _claimable(locked.rows, terms), terms.delays_ns
    prefix, spent = terms.lock_waits.prefix(connection), _spent(queue, rows)
    with terms.lock_waits:
        note_failures(connection, statements, queue, _expired(queue, rows, terms), prefix)
        if spent:
            connection.execute(prefix + statements.set_aside(len(spent)), spent)
            rows = [row for row in rows if row.id not in spent]
    if not rows:
        return Claim(now_ns, (), rejected=tuple(spent))
    last, highest = max(delays_ns), highest_epoch(queue)
    time_us, alone = terms.times.next(now_ns), terms.sharing.leased_alone([row.id for row in rows])
    tokens = {row.id: next_token(row.token, time_us) if queue.has_tokens else NO_TOKEN for row in rows}
    ends = {
        row.id: lease_end(now_ns + delays_ns[min(max(row.attempts, 0), last)], alongside=row.id not in alone)
        for row in rows
    }
    epochs = {row.id: row.epoch if row.uncounted else next_epoch(row.epoch, highest) for row in rows}
    try:
        with terms.lock_waits:
            values = _lease(connection, statements, queue, rows, _LeaseValues(ends, time_us, prefix), commits)
    except BackendUnavailable as error:
        leases = [Release(row.id, row.due_ns, ends[row.id], epochs[row.id], tokens[row.id]) for row in rows]
        raise LeaseUnknown(error, leases) from error
    messages = (
        Message(row.id, epochs[row.id], row.priority, row.due_ns, ends[row.id], values[row.id], tokens[row.id])
        for row in rows
        if row.id in values
    )
    return Claim(now_ns, tuple(messages), rejected=tuple(spent))


def answer_max(ids: Sequence[MessageId]) -> int:
    """How many bytes the rows of these may have, see Statement."""
    return CLAIM_ANSWER_BYTES_MAX if len(ids) > 1 else 0


def _claimable(rows: Sequence[LockedRow], terms: Terms) -> Sequence[LockedRow]:
    """The rows that this claim is for, with what is known of their last deliveries."""
    sharing = terms.sharing
    if not sharing.marks:
        return rows
    return [
        row._replace(uncounted=row.epoch > 0 and _was_alongside(row, terms)) if goes_alone(row.due_ns) else row
        for row in rows
        if sharing.alone or not goes_alone(row.due_ns)
    ]


def _was_alongside(row: LockedRow, terms: Terms) -> bool:
    """Whether its lease expired while its receiver had other messages too."""
    if not is_lease_end(row.due_ns):
        return False
    return is_alongside(row.due_ns) or terms.alongside(row.id, row.epoch, row.token or row.due_ns)


def claim_added(
    connection: StoreConnection,
    statements: QueueStatements,
    queue: QueueSpec,
    ids: Sequence[MessageId],
    foreseen: ForeseenLease,
    time_us: int,
) -> list[Answer] | None:
    """MessageStore.claim_added, in one round trip: the answers, of which `FirstDeliveries.leased` makes the claim."""
    if connection.replicates:  # ids do not follow one another there, and each statement is a round trip
        return None
    among, waits_not = (foreseen.earliest_ns, foreseen.latest_ns, *ids), connection.without_waiting
    batch = leasing_added(statements, queue, ids, foreseen, time_us, waits_not)
    lock = "" if waits_not else statements.added.lock(len(ids))
    if lock:
        batch.insert(0, Statement(lock, among, (id_column(queue),)))
    try:
        return connection.run(batch, last=True, alone=not lock)
    except BackendError as error:
        check_not_made(error, ids, foreseen)
        raise


def leasing_added(
    statements: QueueStatements,
    queue: QueueSpec,
    ids: Sequence[MessageId],
    foreseen: ForeseenLease,
    time_us: int,
    without_waiting: str,
) -> list[Statement]:
    """The lease of those of `ids` that are as an INSERT left them, and what reads them after it.

    The end of the lease is the caller's estimate, because reading the database's time would take another round trip;
    the statement checks the estimate against that time. No other lease has this end. So the rows that have it
    afterwards are those leased here, unless they have been settled since. `time_us`: the source of their tokens.
    `without_waiting`: see StoreConnection; where it is empty, the rows have been locked.
    """
    until_ns, added = foreseen.until_ns, statements.added
    written = (until_ns, *statements.token_times(time_us), foreseen.earliest_ns, foreseen.latest_ns, *ids)
    return [
        Statement(without_waiting + added.lease(len(ids)), written),
        Statement(added.leased_until(len(ids)), (*ids, until_ns), (INTEGER, *queue.columns), answer_max(ids)),
    ]


def check_not_made(error: BackendError, ids: Sequence[MessageId], foreseen: ForeseenLease) -> None:
    """Raises LeaseUnknown where `leasing_added` has failed with this error, and what it has leased holds, or may."""
    if isinstance(error, BackendUnavailable) or error.errno in INTERRUPTED or error.committed:
        due_ns = foreseen.earliest_ns  # about when they were enqueued
        raise LeaseUnknown(error, [Release(id_, due_ns, foreseen.until_ns, 1) for id_ in ids]) from error


def reading_born(statements: QueueStatements, queue: QueueSpec, leases: Sequence[Release]) -> Statement:
    """What reads messages that were born with these leases, after the database's time."""
    ids = [lease.id for lease in leases]
    return Statement(statements.added.born(len(ids)), ids, (INTEGER, *queue.columns))


class FirstDeliveries:
    """Reads the first deliveries of a queue's messages from whole rows that follow the database's time; `queue`: one
    whose messages can be leased without a poll."""

    def __init__(self, queue: QueueSpec) -> None:
        names = [column.name.lower() for column in queue.columns]
        self._kind = id_kind(id_column(queue))
        self._positions = tuple(map(names.index, ("id", "epoch", "priority", "time_scheduled", "time_next")))
        self._token = names.index(TOKEN_COLUMN) if queue.has_tokens else None

    def leased(self, answers: Sequence[Answer]) -> Claim | None:
        """What was claimed by the answers to `leasing_added`, which are the last of these; None where it is nothing."""
        *_, leased, read = answers
        if not read.rows or leased.affected < len(read.rows):  # more: by chance another lease has the same end
            return None
        return Claim(int(not_null(read.rows[0][0])), tuple(map(self._message, read.rows)))

    def born(self, leases: Sequence[Release], rows: Sequence[tuple[TextValue, ...]]) -> Claim:
        """Of rows that `reading_born` brings, at least one, those that were inserted with these leases."""
        now_ns, wanted = int(not_null(rows[0][0])), {(lease.epoch, lease.token) for lease in leases}
        messages = map(self._message, rows)
        return Claim(now_ns, tuple(message for message in messages if (message.epoch, message.token) in wanted))

    def _message(self, timed: tuple[TextValue, ...]) -> Message:
        row, token = timed[1:], self._token
        id_, epoch, priority, due, until = [row[at] for at in self._positions]
        return Message(
            from_text(self._kind, not_null(id_)),
            int(epoch or 0),
            int(priority or 0),
            int(not_null(due)),
            int(until or 0),
            row,
            NO_TOKEN if token is None else int(not_null(row[token])),
        )


def _expired(queue: QueueSpec, rows: Sequence[LockedRow], terms: Terms) -> dict[MessageId, str]:
    """The rows whose last lease has expired, with the failed attempt to store for each."""
    if not queue.attempts_stored:
        return {}
    return {
        row.id: failure(row.epoch, row.due_ns, EXPIRED, terms.last_receiver(row.id, row.epoch, row.token))
        for row in rows
        if row.epoch > 0 and is_lease_end(row.due_ns) and not row.uncounted
    }


def _spent(queue: QueueSpec, rows: Sequence[LockedRow]) -> list[MessageId]:
    """The rows that have used up their deliveries."""
    last = last_epoch(queue, queue.options.attempts_max)
    return [row.id for row in rows if row.attempts >= last] if last else []


@dataclass(frozen=True, slots=True)
class _LeaseValues:
    """The values that leases write: their ends, and the source of their tokens. `prefix`: see LockWaits."""

    ends: Mapping[MessageId, int]
    time_us: int
    prefix: str


def _lease(
    connection: StoreConnection,
    statements: QueueStatements,
    queue: QueueSpec,
    rows: Sequence[LockedRow],
    written: _LeaseValues,
    commits: bool,
) -> dict[MessageId, tuple[TextValue, ...]]:
    """Lease locked rows; returns them as they are then.

    Leases of one epoch have one end, so mostly one statement is enough. Where some rows count and others do not, or
    some are leased alone, it is one statement for each kind.
    """
    kinds: dict[tuple[bool, bool], list[LockedRow]] = {}
    for row in rows:
        kinds.setdefault((row.uncounted, is_alongside(written.ends[row.id])), []).append(row)
    batch = []
    for (uncounted, _), some in kinds.items():
        until_ns = {row.epoch: written.ends[row.id] for row in some}
        cases = [value for pair in until_ns.items() for value in pair]
        sql = written.prefix + statements.lease(len(until_ns), len(some), counted=not uncounted)
        batch.append(Statement(sql, (*cases, *statements.token_times(written.time_us), *(row.id for row in some))))
    ids = [row.id for row in rows]
    reading = Statement(statements.rows(len(ids)), ids, queue.columns, answer_max(ids))
    *leased, read = connection.run((*batch, reading), last=commits)
    count = sum(answer.affected for answer in leased)
    assert count == len(ids), f"leased {count} of {len(ids)} locked rows"
    id_ = id_column(queue)
    kind, position = id_kind(id_), queue.columns.index(id_)
    return {from_text(kind, not_null(row[position])): row for row in read.rows}


@dataclass(frozen=True, slots=True)
class ReleaseTerms:
    """How messages are made due again, see MessageStore.release. `gone`: the receiver whose end is a failed attempt of
    these messages."""

    counted: bool
    alone: bool = False
    gone: ReceiverIdentity | None = None
    lock_waits: LockWaits = field(default_factory=LockWaits)


def release(
    connection: StoreConnection,
    statements: QueueStatements,
    queue: QueueSpec,
    leases: Sequence[Release],
    how: ReleaseTerms,
) -> int:
    """MessageStore.release."""
    chunks = (leases[start : start + _RELEASE_CHUNK] for start in range(0, len(leases), _RELEASE_CHUNK))
    with how.lock_waits:
        return sum([_release_chunk(connection, statements, queue, chunk, how) for chunk in chunks])


def _release_chunk(
    connection: StoreConnection,
    statements: QueueStatements,
    queue: QueueSpec,
    leases: Sequence[Release],
    how: ReleaseTerms,
) -> int:
    gone, id_ = how.gone, id_column(queue)
    kind = id_kind(id_)
    wanted = {lease.id: lease for lease in leases}
    batch = [*([] if gone is None else [Statement(statements.now, (), (INTEGER,))])]
    batch.append(Statement(statements.releasable(len(wanted)), list(wanted), (id_, *(INTEGER,) * 3)))
    *moment, answer = connection.run(batch)
    rows = {from_text(kind, not_null(row[0])): lease_state_of(row) for row in answer.rows}
    same = [lease for id_, lease in wanted.items() if id_ in rows and lease_is_current(lease, rows[id_])]
    if not same:
        return 0
    prefix = how.lock_waits.prefix(connection)
    if gone is not None:
        at_ns = int(not_null(moment[0].rows[0][0]))
        failed = {lease.id: failure(lease.epoch, at_ns, RECEIVER_GONE, gone) for lease in same}
        note_failures(connection, statements, queue, failed, prefix)
    due_ns = {lease.id: _due_after(queue, lease, how) for lease in same}
    params = (*(value for pair in due_ns.items() for value in pair), 0 if how.counted else 1, *due_ns)
    sql = statements.release(len(same), as_scheduled=None in due_ns.values())
    return connection.execute(prefix + sql, params)


def _due_after(queue: QueueSpec, lease: Release, how: ReleaseTerms) -> int | None:
    """What time_next is after the release; None: time_scheduled."""
    if how.counted and is_spent(queue, lease.epoch):
        return REJECTED_NS
    if lease.due_ns is None:
        return None
    # A due time that is an earlier lease's end would look as if this lease had run out.
    return due_again(lease.due_ns, alone=queue.options.tries_alone and (how.alone or goes_alone(lease.due_ns)))


def lease_state_of(row: Sequence[TextValue]) -> LeaseState:
    """A message's state, from a row of the statements `releasable` and `unsettled`."""
    return LeaseState(number(row[1]) or 0, number(row[2]), number(row[3]) or NO_TOKEN)


def purge(
    connection: StoreConnection,
    statements: QueueStatements,
    queue: QueueSpec,
    limit: int,
    stuck: Stuck | None = None,
) -> int:
    """MessageStore.purge."""
    id_, most = id_column(queue), limit + len(stuck or ())
    if queue.options.archive:
        params = (queue.options.purge_after_ns, queue.name.table, most)
        rows = connection.query_text(statements.purgeable_archived, params, (id_,))
    else:
        rows = connection.query_text(statements.purgeable, (queue.options.purge_after_ns, most), (id_,))
    ids = [from_text(id_kind(id_), not_null(row[0])) for row in rows]
    return delete_acked(connection, statements, ids, limit, stuck)


def delete_acked(
    connection: StoreConnection,
    statements: QueueStatements,
    ids: Sequence[MessageId],
    limit: int,
    stuck: Stuck | None,
) -> int:
    """Delete up to `limit` of these messages, which this transaction has locked. `stuck`: see MessageStore.purge."""
    ids = [id_ for id_ in ids if id_ not in (stuck or ())][:limit]
    if not ids:
        return 0
    check_mark(connection, statements.table)
    return _deleted(connection, statements, ids, stuck)


def _deleted(
    connection: StoreConnection, statements: QueueStatements, ids: Sequence[MessageId], stuck: Stuck | None
) -> int:
    """A statement that fails because of a row has done nothing; then the halves are deleted."""
    try:
        return connection.execute(statements.purge(len(ids)), ids)
    except BackendError as error:
        if stuck is None or not is_refusal(error):
            raise
        if len(ids) == 1:
            stuck[ids[0]] = error.message
            return 0
    half = len(ids) // 2
    return sum(_deleted(connection, statements, part, stuck) for part in (ids[:half], ids[half:]))


# Failed attempts of messages that this transaction has locked, added to the record in their rows.
#
# A NACK records its attempt itself, in one UPDATE (rewriter.plans.failed_attempts). This is for failures without a
# report: an expired lease, a receiver whose connection has ended. Blocking; runs in a thread.

_CHARACTERS_AT_ONCE = 200_000
"""In one UPDATE, so that it stays below the least max_allowed_packet that servers are run with (1 MiB)."""

_MESSAGES_AT_ONCE = 200  # its CASE is searched row by row, so the cost grows with the square


def note_failures(
    connection: StoreConnection,
    statements: QueueStatements,
    queue: QueueSpec,
    failed: Mapping[MessageId, str],
    prefix: str,
) -> None:
    """Add to each message the object of its failure (engine.model.attempts.failure). `prefix`: see LockWaits."""
    most = queue.attempts_stored
    if not failed or not most:
        return
    id_, stored = id_column(queue), queue.column(ATTEMPTS_COLUMN)
    assert stored is not None
    kind = id_kind(id_)
    rows = connection.query_text(statements.failed_attempts(len(failed)), list(failed), (id_, stored))
    before = {
        from_text(kind, not_null(row[0])): None if row[1] is None else row[1].decode("utf-8", "replace") for row in rows
    }
    texts = {id_: with_failure(text, failed[id_], most) for id_, text in before.items()}
    for part in _parts(texts):
        cases = [value for pair in part.items() for value in pair]
        connection.execute(prefix + statements.note_failed(len(part)), (*cases, *part))


def _parts(texts: Mapping[MessageId, str]) -> Iterator[dict[MessageId, str]]:
    """As many as one statement takes, each time."""
    part: dict[MessageId, str] = {}
    characters = 0
    for id_, text in texts.items():
        if part and (characters + len(text) > _CHARACTERS_AT_ONCE or len(part) >= _MESSAGES_AT_ONCE):
            yield part
            part, characters = {}, 0
        part[id_] = text
        characters += len(text)
    if part:
        yield part

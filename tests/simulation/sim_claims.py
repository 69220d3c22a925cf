"""The claims: what must hold of every history, judged from the rows alone and from what was handed to whom.

Nothing here believes the engine. Every change of the queue's table is seen as two sets of rows; each change that the
engine's account makes has to be one of those it may make, on rows that allow it.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from sim_database import Row, Rows

from engine.model.key_range import KeyRange
from engine.model.option_values import NS_PER_SECOND
from engine.model.options import QueueOptions
from engine.model.queue import Message, QueueName
from engine.model.states import REJECTED_NS, goes_alone, is_alongside, is_lease_end

HISTORY_EVENTS = 400
CALLS_PER_SECOND_MAX = 150  # of one engine towards the database, in a second in which nothing happens
CALLS_PER_EVENT = 12  # and so many more for each thing that does
RATE_SLACK_SECONDS = 0.02  # a slow rate may run ahead so far
_BELIEVED_NS = 2 * NS_PER_SECOND  # so long a proxy may take a lease to stand that has run out
_CLOCK_STEP_NS = 1_000_000  # of the embedded backend
TURNS_SECONDS = 0.02  # an answer has arrived, and has not yet gone through all the tasks that wait for it


def slot_of(key: str) -> int:
    """The first two bytes of Vitess's keyspace id of a key."""
    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest()[:2], "big")


class Violation(AssertionError):
    """A claim does not hold. `claim` names it, for comparing runs."""

    def __init__(self, claim: str, text: str) -> None:
        super().__init__(f"{claim}: {text}")
        self.claim = claim


@dataclass(eq=False, slots=True)
class Lease:
    """One lease of a message in the table, and what became of it. `alone`: what was leased was to be handed out alone.
    `joined`: its receiver has held others beside it. `read`: it went into its receiver's socket."""

    id: int
    holder: str
    at_ns: int
    until_ns: int
    number: int | None
    token: int
    alone: bool = False
    handed_to: str | None = None
    receiver: int = 0
    joined: bool = False
    read: bool = False
    renewed: bool = False


@dataclass(slots=True)
class Traffic:
    """What an engine asked of the database in one second, and what happened there."""

    second: int = -1
    calls: int = 0
    events: int = 0


@dataclass(eq=False)
class Claims:
    """See the module. Actors are named `proxy1/2`: the second life of the first proxy; others are clients."""

    now: Callable[[], float]
    now_ns: Callable[[], int]
    options: Callable[[], QueueOptions]
    dead: Callable[[], set[int]]
    history: deque[tuple[float, str, str]] = field(default_factory=lambda: deque(maxlen=HISTORY_EVENTS))
    leases: dict[tuple[int, int, int], Lease] = field(default_factory=dict)
    acked_at: dict[int, float] = field(default_factory=dict)
    delivered: Counter[int] = field(default_factory=Counter)
    committed: set[int] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    violation: Violation | None = None
    quiet: bool = False
    buried: set[int] = field(default_factory=set)
    tokens: dict[int, int] = field(default_factory=dict)
    """The greatest that a message of an id has had."""
    born: set[int] = field(default_factory=set)
    """Messages that were inserted as leased."""
    births: dict[tuple[int, int], str] = field(default_factory=dict)
    """Which proxy has a client insert a message with this lease: its end, and its token."""
    named: dict[str, dict[int, set[int] | None]] = field(default_factory=dict)
    """By which tokens a client has acked a message; None: by its id alone."""
    leased_as: dict[int, int] = field(default_factory=dict)
    """The token of the last lease of a message."""
    _rows: Rows = field(default_factory=dict)
    _held: dict[int, list[Lease]] = field(default_factory=dict)
    """What receivers were handed, by their connection."""
    _gone: set[int] = field(default_factory=set)
    """Connections whose stream has ended, by its client or with an error, but not because its proxy stops."""
    _revived: set[int] = field(default_factory=set)
    _leased_at: deque[float] = field(default_factory=lambda: deque(maxlen=60))
    _told: dict[str, dict[int, float]] = field(default_factory=dict)
    _seen: dict[str, dict[int, float]] = field(default_factory=dict)
    _traffic: dict[str, Traffic] = field(default_factory=dict)

    def of(self, queue: QueueName) -> Claims:
        """The claims on one queue."""
        return self

    def calm_down(self) -> None:
        """Nothing goes wrong from now on."""
        self.quiet = True

    def note(self, actor: str, text: str) -> None:
        """For the history that is printed when a claim fails."""
        self.history.append((self.now(), actor, text))

    def fail(self, claim: str, text: str) -> None:
        violation = Violation(claim, text)
        if self.violation is None:
            self.violation = violation  # whatever the code under test makes of the exception
            self.note("CLAIM", str(violation))
        raise violation

    # --- the table

    def changed(self, actor: str, before: Rows, after: Rows) -> None:
        """The observer of the database."""
        engine, self._rows = actor.startswith("proxy"), after
        for id_ in sorted(before.keys() | after.keys()):
            old, new = before.get(id_), after.get(id_)
            if old == new:
                continue
            self.note(actor, _difference(id_, old, new, self.now_ns()))
            if engine:
                self._engine_changed(actor, old, new)
                if new is not None and self._is_new_lease(old, new):
                    self._limits_hold(before, after, new)
            else:
                self._acked_by_name(actor, old, new)
                self._client_changed(old, new)
            if new is not None:
                self.tokens[id_] = max(self.tokens.get(id_, 0), new.token)
        self._happened()

    def _acked_by_name(self, actor: str, old: Row | None, new: Row | None) -> None:
        if old is None or old.time_acked is not None or (new is not None and new.time_acked is None):
            return
        tokens = self.named.get(actor, {}).get(old.id)
        if tokens is not None and old.token not in tokens:
            self.fail("an ack by its token ends only that delivery", f"{actor}, of {tokens}, ended {old}")

    def acks(self, actor: str, ids: Iterable[int], token: int | None) -> None:
        """A client is about to ack these, by their token or without."""
        named = self.named.setdefault(actor, {})
        for id_ in ids:
            tokens = named.setdefault(id_, set())
            if token is None or tokens is None:
                named[id_] = None
            else:
                tokens.add(token)

    def _client_changed(self, old: Row | None, new: Row | None) -> None:
        if old is None:
            assert new is not None
            self.committed.add(new.id)
            if new.epoch:
                self._born(new)
        elif new is None or new.time_acked is not None:
            self.acked_at.setdefault(old.id, self.now())
        elif old.time_next == REJECTED_NS and new.time_next != REJECTED_NS:
            self._revived.add(new.id)  # by an UPDATE, before it was moved: it is no longer settled
        elif new.epoch == old.epoch and new.time_next is not None and is_lease_end(new.time_next):
            self._renewed(old, new)

    def _born(self, new: Row) -> None:
        """A message that was inserted as leased."""
        now_ns, end_ns = self.now_ns(), new.time_next or 0
        holder = self.births.pop((end_ns, new.token), None)
        if holder is None or new.epoch != 1 or not is_lease_end(end_ns):
            self.fail("a message is born with the lease that was offered", f"{new}")
            return
        if is_alongside(end_ns) and not self.options().tries_alone:
            self.fail("company matters only where attempts are bounded", f"{new} was inserted")
        self._leased_until(holder, new, now_ns, alone=False)
        self.born.add(new.id)
        self.counts["born"] += 1

    def waits(self, row: Row) -> bool:
        """Whether no receiver has ever been given it: of those that are leased, those that were born so."""
        return row.epoch == 0 or (row.id in self.born and not self.delivered[row.id])

    def _renewed(self, old: Row, new: Row) -> None:
        lease = self.leases.get((old.id, old.epoch, old.time_next or 0))
        if lease is not None:
            assert new.time_next is not None
            lease.until_ns, lease.renewed = new.time_next, True
            self.leases[new.id, new.epoch, new.time_next] = lease

    @staticmethod
    def _is_new_lease(old: Row | None, new: Row) -> bool:
        """No engine renews a lease: another end is another lease. Its epoch may be that of the one before."""
        ended = new.time_next is not None and is_lease_end(new.time_next)
        return ended and (old is None or old.time_next != new.time_next)

    def _engine_changed(self, actor: str, old: Row | None, new: Row | None) -> None:
        if old is None:
            self.fail("the engine only changes what is there", f"{actor} inserted {new}")
        elif new is None:
            self._purged(actor, old)
        elif self._is_new_lease(old, new):
            self._leased(actor, old, new)
        elif new.time_next == REJECTED_NS and new.epoch == old.epoch:
            self._set_aside(actor, old, new)
        elif new.epoch in (old.epoch, old.epoch - 1) and new.time_acked is None and old.time_acked is None:
            self._given_back(actor, old, new)
        else:
            self.fail("the engine's changes are explained", f"{actor} changed {old} to {new}")

    def _leased(self, actor: str, old: Row, new: Row) -> None:
        now_ns = self.now_ns()
        if old.time_acked is not None or old.id in self.acked_at:
            self.fail("never leased after its ack committed", f"{actor} leased {old}")
        if old.time_next is not None and old.time_next > now_ns:
            self.fail("never leased while a lease stands or before it is due", f"{actor} leased {old} at {now_ns}")
        most = self.options().attempts_max
        if most and new.epoch > most:
            self.fail("delivered at most max_attempts times", f"{actor} leased {old}")
        self._counts_one(actor, old, new)
        if new.time_next is not None and new.time_next <= now_ns:
            self.fail("a lease ends in the future", f"{actor} leased {new} at {now_ns}")
        alone = self.options().tries_alone and old.time_next is not None and goes_alone(old.time_next)
        self._leased_until(actor, new, now_ns, alone=alone)

    def _leased_until(self, actor: str, new: Row, now_ns: int, *, alone: bool) -> None:
        assert new.time_next is not None
        if new.token <= self.tokens.get(new.id, 0):
            self.fail("each delivery has a greater token", f"{actor} leased {new}, after {self.tokens[new.id]}")
        lease = Lease(new.id, actor, now_ns, new.time_next, new.number, new.token, alone)
        self.leases[new.id, new.epoch, new.time_next] = lease
        self.leased_as[new.id] = new.token
        self.counts["leases"] += 1

    def _counts_one(self, actor: str, old: Row, new: Row) -> None:
        """The epoch counts this delivery. That before it counts no more if its receiver held others besides."""
        beside = self._ran_out_beside(old)
        if is_alongside(new.time_next or 0) and not self.options().tries_alone:
            self.fail("company matters only where attempts are bounded", f"{actor} made {new} of {old}")
        if self.options().tries_alone and goes_alone(old.time_next or 0) and is_alongside(new.time_next or 0):
            self.fail("what goes alone is leased alone", f"{actor} made {new} of {old}")
        counts = (True, False) if beside is None else (not beside,)  # None: its proxy may know of others, or not
        if new.epoch - old.epoch not in counts:
            self.fail("a delivery counts unless it was beside others", f"{actor} made {new} of {old}")
        self.counts["uncounted"] += new.epoch == old.epoch

    def _ran_out_beside(self, old: Row) -> bool | None:
        """Whether a lease has run out whose message was beside others; None: only since its receiver got more."""
        if old.epoch == 0 or old.time_next is None or not self.options().tries_alone:
            return False
        if is_alongside(old.time_next):
            return True
        lease = self.leases.get((old.id, old.epoch, old.time_next))
        return None if lease is not None and lease.joined else False

    def _limits_hold(self, before: Rows, after: Rows, leased: Row) -> None:
        """Of a lease just made: what the queue's limits and its order say."""
        options, now_ns = self.options(), self.now_ns()
        in_flight = [row for row in after.values() if _in_flight(row, now_ns)]
        if options.max_concurrency is not None and len(in_flight) > options.max_concurrency:
            self.fail("max_concurrency holds", f"in flight after {leased}: {in_flight}")
        if options.max_rate is not None:
            self._rate_holds(float(options.max_rate), leased)
        if options.order_key is not None:
            self._order_holds(options, before, in_flight, leased)

    def _rate_holds(self, rate: float, leased: Row) -> None:
        """In any time t at most rate * t + burst; the burst is a tenth of a second's, at least one."""
        now = self.now_ns() / NS_PER_SECOND
        self._leased_at.append(now)
        burst = max(1.0, rate * 0.1) + rate * RATE_SLACK_SECONDS
        for back, at in enumerate(reversed(self._leased_at), 1):
            if back > rate * (now - at) + burst + 1e-4:
                self.fail("max_rate holds", f"{back} within {now - at:.4f} s, as {leased} is leased")

    def _order_holds(self, options: QueueOptions, before: Rows, in_flight: Sequence[Row], leased: Row) -> None:
        if leased.key is None and options.order_key != "*":
            return
        others = [row for row in in_flight if row.id != leased.id and _same_key(options, row, leased)]
        if others:
            self.fail("one at a time of a key", f"in flight beside {leased}: {others}")
        now_ns = self.now_ns()
        for row in before.values():
            if row.id < leased.id and row.time_acked is None and _same_key(options, row, leased):
                passed = options.on_failure == "skip" and row.epoch > 0 and (row.time_next or 0) > now_ns
                if not passed:
                    self.fail("messages of a key go out in the order of their ids", f"{leased} before {row}")

    def _given_back(self, actor: str, old: Row, new: Row) -> None:
        lease = self.leases.get((old.id, old.epoch, old.time_next or 0))
        if lease is None or lease.holder != actor:
            self.fail("only one's own lease is given back, as it was made", f"{actor} changed {old} to {new}")
        if new.token <= old.token:
            self.fail("what is given back has another token", f"{actor} changed {old} to {new}")
        if new.time_next is not None and new.time_next > self.now_ns():
            self.fail("what is given back is due at once", f"{actor} changed {old} to {new}")
        assert lease is not None
        if lease.read and lease.receiver not in self._gone:
            self.fail("what a receiver holds is given back only once it is gone", f"{actor} changed {old} to {new}")
        if not lease.read and new.epoch == old.epoch:
            self.fail("what was never sent does not count", f"{actor} changed {old} to {new}")
        if lease.alone and not goes_alone(new.time_next or 0):
            self.fail("what is to go out alone stays so", f"{actor} changed {old} to {new}")
        self.counts["given back"] += 1
        self.counts["to go alone"] += goes_alone(new.time_next or 0)

    def _set_aside(self, actor: str, old: Row, new: Row) -> None:
        """By a claim, which finds it due; or by the end of the receiver that had it, where that is an attempt."""
        most = self.options().attempts_max
        due = old.time_next is None or old.time_next <= self.now_ns()
        lease = self.leases.get((old.id, old.epoch, old.time_next or 0))
        ended = lease is not None and lease.holder == actor and new.token > old.token
        # A receiver that is gone may have settled, by then, what it held beside this one.
        attempts = old.epoch if ended else old.epoch - (self._ran_out_beside(old) is True)
        if not most or attempts < most or not (due or ended) or old.time_acked is not None:
            self.fail("only what failed too often is set aside", f"{actor} set {old} aside")
        self.counts["set aside"] += 1

    def _purged(self, actor: str, old: Row) -> None:
        if old.time_acked is None and old.time_next == REJECTED_NS:
            if old.id not in self.dead() or old.id in self.buried:
                self.fail("what is rejected is in the dead-letter queue, once", f"{actor} deleted {old}")
            self.buried.add(old.id)
            self.counts["buried"] += 1
        elif old.time_acked is None:
            self.fail("nothing unacked is deleted", f"{actor} deleted {old}")
        elif old.time_acked > self.now_ns() - self.options().purge_after_ns:
            self.fail("nothing is purged early", f"{actor} deleted {old}")
        self.counts["purged"] += 1

    # --- hand-outs

    def handed(
        self,
        actor: str,
        receiver: str,
        messages: Sequence[Message],
        *,
        connection: int,
        paused: bool,
        below: int | None,
    ) -> None:
        """An engine gives a receiver its batch. `paused`: what it knows of the queue. `below`: the stream's filter."""
        if paused:
            self.fail("a paused queue delivers nothing", f"{actor} gave {receiver} {messages}")
        for message in messages:
            self._handed_one(actor, receiver, message, below)
        self._holds(connection, messages)
        keys = [(message.priority, message.due_ns, message.id) for message in messages]
        if self.quiet and keys != sorted(keys):  # before, rows change between the look and the claim  # type: ignore[type-var]
            self.fail("a batch is in delivery order", f"{actor} gave {receiver} {keys}")
        self.note(actor, f"gives {receiver} " + ", ".join(f"{m.id} (epoch {m.epoch})" for m in messages))
        self._happened()

    def in_range(self, receiver: str, messages: Sequence[Message], key_range: KeyRange) -> None:
        """A receiver of that part of the ring is given these. Nobody changes a message's key."""
        for message in messages:
            row = self._rows.get(message.id)  # type: ignore[call-overload]
            if row is not None and not key_range.covers(slot_of(row.key)):
                self.fail("a stream gets only what is in its key range", f"{receiver}, {key_range}: {row}")

    def _holds(self, connection: int, messages: Sequence[Message]) -> None:
        """A receiver is handed these; what it acked before may still be thought to be its own."""
        held = [lease for lease in self._held.get(connection, ()) if lease.until_ns > self.now_ns() - _BELIEVED_NS]
        fresh = [self.leases[message.id, message.epoch, message.lease_until_ns] for message in messages]  # type: ignore[index]
        for lease in fresh:
            lease.receiver = connection
        held += fresh
        for lease in held if len(held) > 1 else ():
            lease.joined = True
        self._held[connection] = held
        together = [lease for lease in held if lease in fresh or self._stands(lease)]
        if len(together) > 1 and any(lease.alone for lease in together):
            self.fail("what is to go out alone goes alone", f"{connection} holds {together}")

    def _stands(self, lease: Lease) -> bool:
        """Whether the row is as the lease made it, and its time is not over. Its proxy may not know of a renewal, and
        sees the end of a lease up to a millisecond before a clock that counts these."""
        row = self._rows.get(lease.id)
        untouched = row is not None and row.token == lease.token and row.time_next == lease.until_ns
        end_ns = lease.until_ns - lease.until_ns % 1000  # the mark is none of its time
        return untouched and not lease.renewed and end_ns > self.now_ns() + _CLOCK_STEP_NS

    def ended(self, connection: int) -> None:
        """A stream has ended, and its proxy does not stop."""
        self._gone.add(connection)

    def sent(self, actor: str, receiver: str, message: Message) -> None:
        """A row goes into a receiver's socket."""
        assert isinstance(message.id, int)
        lease = self.leases.get((message.id, message.epoch, message.lease_until_ns))
        until_ns = message.lease_until_ns if lease is None else lease.until_ns
        if lease is not None:
            lease.read = True
        if until_ns <= self.now_ns():
            late = (self.now_ns() - until_ns) / NS_PER_SECOND
            self.fail("nothing is sent whose lease is over", f"{actor} sent {message} to {receiver}, {late:.3f} s late")

    def _handed_one(self, actor: str, receiver: str, message: Message, below: int | None) -> None:
        assert isinstance(message.id, int)
        lease = self.leases.get((message.id, message.epoch, message.lease_until_ns))
        what = f"{actor} gave {receiver} message {message.id}, epoch {message.epoch}, until {message.lease_until_ns}"
        if lease is None or lease.holder != actor:
            self.fail("never sent without a lease", what)
            return
        if message.token != lease.token:
            self.fail("a receiver is told the token of its lease", f"{what}; {message.token} for {lease.token}")
        if lease.handed_to is not None:
            self.fail("a lease is handed to one receiver, once", f"{what}; {lease.handed_to} has it")
        if below is not None and (lease.number is None or lease.number >= below):
            self.fail("a stream gets only what its filter is true of", f"{what}; n is {lease.number}")
        told = self._told.get(actor, {}).get(message.id)
        if told is not None and message.id not in self._revived:
            self.fail("never sent once its ack was heard of", f"{what}; told at {told:.4f}")
        lease.handed_to = receiver
        self.delivered[message.id] += 1
        self.counts["handed"] += 1
        self.counts["redelivered"] += message.epoch > 1

    # --- what an engine was told, and what it remembers

    def told(self, actor: str, ids: Iterable[int]) -> None:
        """The engine is told, now, that these are settled."""
        known = self._told.setdefault(actor, {})
        for id_ in ids:
            known.setdefault(id_, self.now())

    def looked(self, actor: str, ids: Iterable[int]) -> None:
        """The answer to a look is there."""
        self._seen.setdefault(actor, {}).update(dict.fromkeys(ids, self.now()))

    def claims(self, actor: str, ids: Iterable[int]) -> None:
        """The engine asks for leases of these, which it remembers.

        What it is told between the taking of keys and the call is too late for the call; what becomes of the answer is
        another claim's.
        """
        told, seen = self._told.get(actor, {}), self._seen.get(actor, {})
        for id_ in ids:
            if id_ in told and seen.get(id_, 0.0) + TURNS_SECONDS < told[id_] < self.now() - TURNS_SECONDS:
                self.fail("what was acked is forgotten", f"{actor} claims {id_}, told at {told[id_]:.4f}")

    # --- how busy it is

    def called(self, actor: str) -> None:
        """An engine calls the database."""
        traffic = self._traffic_of(actor)
        traffic.calls += 1
        self.counts["calls"] += 1
        if traffic.calls > CALLS_PER_SECOND_MAX + CALLS_PER_EVENT * traffic.events:
            self.fail("no busy loop", f"{actor}: {traffic.calls} calls within a second, {traffic.events} events")

    def _happened(self) -> None:
        for actor in self._traffic:
            self._traffic_of(actor).events += 1

    def _traffic_of(self, actor: str) -> Traffic:
        traffic = self._traffic.setdefault(actor, Traffic())
        if traffic.second != int(self.now()):
            traffic.second, traffic.calls, traffic.events = int(self.now()), 0, 0
        return traffic

    def gone(self, actor: str) -> None:
        """A life of a proxy is over: nothing it knew matters any more."""
        for memory in (self._told, self._seen, self._traffic):
            memory.pop(actor, None)


def _in_flight(row: Row, now_ns: int) -> bool:
    if row.time_acked is not None or row.epoch == 0 or row.time_next is None:
        return False
    return row.time_next > now_ns and is_lease_end(row.time_next)


def _same_key(options: QueueOptions, one: Row, other: Row) -> bool:
    return options.order_key == "*" or one.key == other.key


def _difference(id_: int, old: Row | None, new: Row | None, now_ns: int) -> str:
    if new is None:
        return f"message {id_} deleted"
    words = [f"message {id_}{' inserted' if old is None else ''}:"]
    if old is None or old.epoch != new.epoch:
        words.append(f"epoch {new.epoch}")
    if new.time_acked is not None:
        words.append("acked")
    elif old is None or old.time_next != new.time_next:
        words.append("due now" if new.time_next is None else f"next in {(new.time_next - now_ns) / 1e9:.4f} s")
        words.append("(leased)" if new.time_next is not None and is_lease_end(new.time_next) else "")
    return " ".join(words)

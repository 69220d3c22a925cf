"""Bugs planted on purpose, as patches of the code under test: the simulation has to find each of them.

Each is a mistake that somebody could make. None is in a part that only the simulation uses.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from sim_proxy import PLANS
from sim_scenario import Scenario
from sim_topic_scenario import TopicScenario

from engine.backend import sessions
from engine.backend.base import Statement
from engine.database_work import DatabaseWork
from engine.delivery import cache as delivery_cache
from engine.delivery import conflicts, sender
from engine.delivery.born_messages import BornMessages
from engine.delivery.cache import MessageCache
from engine.delivery.in_flight import InFlight
from engine.delivery.known_messages import KnownMessages
from engine.delivery.message_manager import MessageManager
from engine.delivery.poller import Poller
from engine.delivery.queue_leases import QueueLeases
from engine.delivery.receiver_sets import ReceiverSets
from engine.delivery.rechecker import Rechecker
from engine.delivery.sender import Sender
from engine.delivery.subscription import Subscription
from engine.engine import Engine
from engine.model import topics
from engine.model.errors import EngineError
from engine.model.lease_token import GROWN, VOID, LeaseTimes
from engine.model.options import UNTIL_CONSUMED
from engine.model.queue import MessageId, QueueName, QueueSpec
from engine.model.topics import GroupPosition, Hole, Settled, group_table
from engine.reports import CommitReports
from engine.sticky_members import StickyMembers
from engine.store import topic_log
from engine.store.base import Claim, Release
from engine.store.claims import Claims
from engine.store.operations import compaction, feed, limits, order
from engine.store.operations import lease as sql_lease
from engine.store.operations.take import TakeRequest
from engine.store.statements.queue import QueueStatements
from engine.store.statements.topics import FeedStatements
from engine.store.topic_log import TopicLog
from rewriter.plans import plan_statement

Plant = Callable[[], Any]


def lease_after_send() -> Any:
    """The batch is handed out first, and leased as soon as that is done."""
    claiming = Claims._claiming

    def unleased(self: Claims, *args: Any, **options: Any) -> Callable[[Any], Claim]:
        real = claiming(self, *args, **options)
        pool, loop = self._pool, asyncio.get_running_loop()

        def look_only(connection: Any) -> Claim:
            connection.execute("SAVEPOINT planted")
            claim = real(connection)
            connection.execute("ROLLBACK TO planted")
            loop.call_soon(lambda: loop.create_task(pool.write(real)))
            return claim

        return look_only

    return patch.object(Claims, "_claiming", unleased)


def cache_keeps_acked() -> Any:
    """An acked message stays in memory."""
    return patch.object(MessageCache, "discard", lambda self, ids: 0)


def claim_keeps_acked() -> Any:
    """What is acked while it is being claimed is handed out all the same."""
    return patch.object(Sender, "settled", lambda self, ids: 0)


def _claimable_without(condition: str) -> Any:
    made = QueueStatements.__init__

    def init(self: QueueStatements, *args: Any) -> None:
        made(self, *args)
        changed = self._claimable.replace(condition, "1 = 1")
        assert changed != self._claimable, "nothing was planted"
        self._claimable = changed

    return patch.object(QueueStatements, "__init__", init)


def claim_ignores_acks() -> Any:
    """The claim trusts the memory as to what is acked."""
    return _claimable_without("+time_acked IS NULL")


def claim_ignores_leases() -> Any:
    """The claim trusts the memory as to what is due."""
    return _claimable_without("(time_next IS NULL OR time_next <= sim_now())")


def gives_back_renewed_leases() -> Any:
    """A lease is given back whatever has become of it meanwhile."""
    chunk = sql_lease._release_chunk

    def careless(connection: Any, statements: Any, queue: Any, leases: Sequence[Any], *args: Any) -> int:
        view = _SameLease(connection, {lease.id: lease for lease in leases})
        return chunk(view, statements, queue, leases, *args)

    return patch.object(sql_lease, "_release_chunk", careless)


class _SameLease:
    """A connection that says of every row that it still holds the lease asked for."""

    def __init__(self, connection: Any, leases: Mapping[Any, Any]) -> None:
        self._connection, self._leases = connection, leases

    def run(self, statements: Sequence[Any]) -> list[Any]:
        *before, answer = self._connection.run(statements)
        return [*before, replace(answer, rows=self._as_held(answer.rows))]

    def query_text(self, sql: str, params: Any, columns: Any) -> Any:
        return self._connection.query_text(sql, params, columns)

    def _as_held(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[bytes, ...]]:
        wanted = [self._leases[int(row[0])] for row in rows]
        return [
            (row[0], *(str(n).encode() for n in (lease.epoch, lease.lease_until_ns, lease.token)))
            for row, lease in zip(rows, wanted, strict=True)
        ]

    def execute(self, sql: str, params: Any = ()) -> int:
        count: int = self._connection.execute(sql, params)
        return count


def the_token_stays() -> Any:
    """A message keeps the name of its first delivery."""
    lease = QueueStatements.lease

    def careless(self: QueueStatements, *args: Any, **options: Any) -> str:
        return lease(self, *args, **options).replace(
            GROWN, "CASE WHEN lease_token > 0 THEN lease_token ELSE ? + 0 * ? END"
        )

    return patch.object(QueueStatements, "lease", careless)


def what_is_taken_has_one_token() -> Any:
    """What is fed and leased at once has the same name each time."""

    class Standing(LeaseTimes):
        def next(self, now_ns: int) -> int:
            return 5

    return patch.object(topic_log, "TakeRequest", lambda *args: replace(TakeRequest(*args), times=Standing()))


def births_are_not_heard_of() -> Any:
    """What was inserted as leased waits until its lease runs out."""
    return patch.object(BornMessages, "born", lambda self, birth, id_: self.withdraw(birth))


def slots_are_not_looked_at() -> Any:
    """What a commit adds is for the receivers of any key range."""

    def place(sets: ReceiverSets, ids: Sequence[int], slots: Mapping[MessageId, int]) -> None:
        for receiver_set in sets.filtered.values():
            if receiver_set.expects(ids):
                return

    return patch.object(ReceiverSets, "place", place)


def those_that_are_gone_keep_their_keys() -> Any:
    """A receiver with keys of its own that has ended is still a member."""
    return patch.object(StickyMembers, "leave", lambda self, queue, member: None)


def a_give_back_keeps_the_token() -> Any:
    """Who had a message that was given back may still settle it."""
    release = QueueStatements.release
    return patch.object(
        QueueStatements, "release", lambda self, count, **how: release(self, count, **how).replace(VOID, "lease_token")
    )


def tokens_are_not_looked_at() -> Any:
    """Any ack of a message ends it, whichever delivery it names."""
    real = plan_statement.ack_as_update

    def believing(statement: Any, spec: QueueSpec, now_sql: str) -> Any:
        condition = re.sub(r" AND lease_token = \d+", "", statement.condition)
        return real(replace(statement, condition=condition), spec, now_sql)

    return patch.object(plan_statement, "ack_as_update", believing)


def purges_early() -> Any:
    """Everything acked is deleted at once."""
    made = QueueStatements.__init__

    def init(self: QueueStatements, *args: Any) -> None:
        made(self, *args)
        changed = self.purgeable.replace("- ?", "+ ?")
        assert changed != self.purgeable, "nothing was planted"
        self.purgeable = changed

    return patch.object(QueueStatements, "__init__", init)


def commit_wakes_nobody() -> Any:
    """A commit is heard of, and nothing is done."""
    return patch.object(MessageManager, "touched", lambda self, added=(): None)


def wrong_ids_are_believed() -> Any:
    """What the ids of an INSERT have left out is not looked for."""
    return patch.object(KnownMessages, "poll_for_added", lambda self: self.added.take())


def put_off_for_ever() -> Any:
    """What a commit has put off is not looked for when it falls due."""
    postponed = Rechecker.postponed
    return patch.object(Rechecker, "postponed", lambda *args: None if postponed(*args) is None else float("inf"))


def neighbours_are_not_heard() -> Any:
    """The word of another proxy is dropped."""
    return patch.object(Engine, "on_remote_commit", lambda self, report: None)


def no_timer_for_what_falls_due() -> Any:
    """What is scheduled waits for the safety scan."""
    finish = Poller.finish

    def forgetful(self: Poller, *args: Any, **options: Any) -> Any:
        looked = finish(self, *args, **options)
        self._due_at = None
        return looked

    return patch.object(Poller, "finish", forgetful)


def leases_of_the_gone_run_out() -> Any:
    """What a receiver leaves behind is not given back."""
    return patch.object(InFlight, "drop_holder", lambda self, holder: [])


def no_pause_after_conflicts() -> Any:
    """What could not be claimed is tried again at once."""
    return patch.multiple(conflicts, FIRST_PAUSE_SECONDS=1e-6, MAX_PAUSE_SECONDS=1e-6)


def late_answers_are_believed() -> Any:
    """A lease is measured from when it was heard of."""
    real = DatabaseWork.run_timed

    async def hopeful(self: DatabaseWork, call: Any, *abandoned: Any) -> Any:
        result, _ = await real(self, call, *abandoned)
        return result, self._boottime()

    return patch.object(DatabaseWork, "run_timed", hopeful)


def what_waits_is_not_looked_at() -> Any:
    """What was handed out goes to the socket whenever that may be."""
    return patch.object(Subscription, "drop_expired", lambda self, batch: ())


def pause_comes_too_late() -> Any:
    """What was being claimed as the queue was paused is handed out."""
    return patch.object(sender, "_changed", lambda claimed, now: now.columns != claimed.columns)


def unacked_is_purged() -> Any:
    """The purge deletes by the age of a message, acked or not."""
    made = QueueStatements.__init__

    def init(self: QueueStatements, *args: Any) -> None:
        made(self, *args)
        self.purgeable = self.purgeable.replace("time_acked", "time_created")

    def purge(self: QueueStatements, count: int) -> str:
        return self.table.delete(f"id IN ({', '.join('?' * count)})")

    return patch.multiple(QueueStatements, __init__=init, purge=purge)


def places_are_not_counted() -> Any:
    """As if each claim of a queue with max_concurrency began with nothing in flight, as a new proxy's memory does."""
    return patch.object(limits._Claiming, "_free_slots", lambda self: self._queue.options.max_concurrency)


def rate_is_not_kept() -> Any:
    """What a claim has let pass is forgotten with it."""
    return patch.object(limits._Claiming, "_charge", lambda self, count: None)


def order_is_not_asked_for() -> Any:
    """Whatever is due may go, whatever is before it or in flight of its key."""
    return patch.object(order.KeyOrder, "_free", lambda self, ids: [one for one in self._positions(ids) if one.due])


def company_counts() -> Any:
    """A lease that ran out is an attempt, whatever its receiver held besides."""
    return patch.object(sql_lease, "_was_alongside", lambda row, terms: False)


def what_goes_alone_goes_in_company() -> Any:
    """Nobody asks of what is due whether a crash made it so. It is leased as all else is."""
    planted = ExitStack()
    planted.enter_context(patch.object(delivery_cache, "goes_alone", lambda due_ns: False))
    planted.enter_context(patch.object(sql_lease, "_claimable", lambda rows, terms: rows))
    return planted


def a_stop_gives_back_what_is_held() -> Any:
    """A proxy that stops makes all that its receivers hold due at once."""

    def hasty(self: QueueLeases, subscriptions: Sequence[Subscription], error: EngineError) -> list[Release]:
        leases: list[Release] = []
        for subscription in subscriptions:
            leases += self.rechecker.drop_holder(subscription)
            subscription.end(error)
        return leases

    return patch.object(QueueLeases, "end_all", hasty)


def silence_is_not_bounded() -> Any:
    """Sessions of the engine have the server's own bounds: hours."""
    real = sessions._pins

    def longer(*args: Any) -> Iterator[sessions.Pin]:
        return (pin for pin in real(*args) if not pin.sql.startswith("SET SESSION wait_timeout"))

    return patch.object(sessions, "_pins", longer)


# --- topics


def holes_are_not_kept() -> Any:
    """The offset passes what is missing, which is forgotten."""
    real = GroupPosition.fed

    def forgetful(self: GroupPosition, fresh: Any, late: Any, *, complete: int = 0) -> GroupPosition:
        return real(self, fresh, late, complete=topics.IN_ORDER)

    return patch.object(GroupPosition, "fed", forgetful)


def holes_are_given_up_by_age() -> Any:
    """A hole is given up after some seconds, whoever has a transaction open."""

    def hasty(holes: Iterable[Hole], now_ns: int, transactions: Any) -> tuple[Hole, ...]:
        return tuple(hole for hole in holes if hole.seen_ns > now_ns - topics.SETTLE_NS)

    return patch.object(feed, "still_awaited", hasty)


def holes_are_compared_at_once() -> Any:
    """A hole is compared with the open transactions before the one that took the id has its number."""
    return patch.object(topics, "SETTLE_NS", 0)


def the_end_is_the_last_id() -> Any:
    """A group that begins at the end does not know of transactions that are open."""
    real = feed.position_at

    def hasty(*args: Any) -> GroupPosition:
        return replace(real(*args), holes=())

    return patch.object(feed, "position_at", hasty)


def a_broadcast_forgets_holes() -> Any:
    """A broadcast reads on, and nothing that comes late."""
    read = TopicLog.read

    async def forgetful(self: TopicLog, *args: Any) -> Any:
        page = await read(self, *args)
        return replace(page, position=replace(page.position, holes=()))

    return patch.object(TopicLog, "read", forgetful)


def acks_of_another_group() -> Any:
    """The ack of a member goes to the first group of the topic."""
    real = plan_statement.ack_as_update

    def confused(statement: Any, spec: QueueSpec, now_sql: str) -> Any:
        first = group_table(QueueName("main", "t"), "g0")
        return real(statement, replace(spec, name=first), now_sql)

    return patch.object(plan_statement, "ack_as_update", confused)


def nothing_is_marked_as_sought() -> Any:
    """What a seek brings back can be acked before it was delivered."""

    def careless(real: Callable[..., str]) -> Callable[..., str]:
        return lambda *args: real(*args).replace("t.id <= ? THEN 1", "t.id <= ? THEN 0")

    return patch.multiple(
        FeedStatements, copy=careless(FeedStatements.copy), copy_leased=careless(FeedStatements.copy_leased)
    )


def a_seek_drops_nothing() -> Any:
    """What the group has in its queue stays there."""
    made = FeedStatements.__init__

    def init(self: FeedStatements, *args: Any) -> None:
        made(self, *args)
        self.empty = self.group_table.delete("1 = 0")

    return patch.object(FeedStatements, "__init__", init)


def commit_wakes_no_reader() -> Any:
    """A commit in a topic is heard of, and nothing is done."""
    return patch.object(CommitReports, "_touched_topic", lambda self, name: None)


def everything_is_settled_at_once() -> Any:
    """Nobody is thought to write an id below the last one, and messages near the end are as good as old ones."""

    def hasty(self: Settled, last: int, now_ns: int, compared_ns: int, transactions: Any) -> Settled:
        return Settled(last, now_ns)

    def believing(self: Settled, rows: Iterable[tuple[int, int]], last: int) -> int:
        return max((id_ for id_, _ in rows if id_ <= self.offset + 1), default=0)

    return patch.multiple(Settled, further=hasty, complete=believing)


def the_newest_is_compacted() -> Any:
    """Of a key with several messages the newest goes, and the oldest stays."""

    def confused(rows: Iterable[tuple[int, int | None]]) -> dict[int, int]:
        return {id_: oldest for id_, oldest in rows if oldest is not None and id_ != oldest}

    return patch.object(compaction, "superseded", confused)


def compaction_asks_no_group() -> Any:
    """What a group is to be kept is compacted."""
    return patch.object(compaction, "first_retained", lambda *args: compaction.NO_BOUND)


def compaction_has_no_lag() -> Any:
    """What was written just now is compacted."""
    return patch.object(compaction, "_last_old", lambda *args: compaction.NO_BOUND)


def feeds_in_two_transactions(later: str) -> Plant:
    """The position and the rows are written in two transactions; those statements are in the later one that begin
    so."""

    def plant() -> Any:
        def split(real: Any) -> Any:
            async def feed(self: TopicLog, *args: Any, **options: Any) -> Any:
                other = copy(self)
                other._pool = _SplitPool(self._pool, later)  # type: ignore[assignment]
                return await real(other, *args, **options)

            return feed

        return patch.multiple(TopicLog, feed=split(TopicLog.feed), take=split(TopicLog.take))

    return plant


@dataclass
class _SplitPool:
    """A pool that postpones some statements of each transaction to another one."""

    pool: Any
    later: str

    async def read(self, work: Any) -> Any:
        return await self.pool.read(work)

    async def write(self, work: Any) -> Any:
        loop, pool = asyncio.get_running_loop(), self.pool

        def first(connection: Any) -> Any:
            some = _Postponing(connection, self.later)
            result = work(some)
            if some.postponed:
                loop.call_soon(lambda: loop.create_task(pool.write(lambda other: other.run(some.postponed))))
            return result

        return await pool.write(first)


class _Postponing:
    """A connection that keeps some statements for later."""

    def __init__(self, connection: Any, later: str) -> None:
        self._connection, self._later = connection, later
        self.postponed: list[Statement] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def run(self, statements: Sequence[Statement], *, last: bool = False) -> Any:
        self.postponed += [one for one in statements if one.sql.startswith(self._later)]
        return self._connection.run([one for one in statements if not one.sql.startswith(self._later)], last=last)


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug: its patch, the claim that it violates, which scenarios can show it, and of which kind they are."""

    plant: Plant
    claim: str
    able: Callable[[Scenario], bool] = lambda told: True
    kind: str = "queues"
    first: int = 1
    """The seed to begin with: of a rare bug one that has shown it, so that it need not be looked for in every run."""


def _of_topics(
    plant: Plant, claim: str, able: Callable[[TopicScenario], bool] = lambda told: True, first: int = 1
) -> Bug:
    return Bug(plant, claim, lambda told: isinstance(told, TopicScenario) and able(told), "topics", first)


_FED = "what is committed is fed to every group"


def _shown(told: TopicScenario) -> bool:
    return told.row_locks and told.shown


def _seeks(told: TopicScenario) -> bool:
    return "seek" in told.events


def _tries_alone(told: Scenario) -> bool:
    return told.options.tries_alone


def _compacts(told: TopicScenario) -> bool:
    return told.compact_after is not None


PLANTED: Mapping[str, Bug] = {
    "lease after send": Bug(lease_after_send, "never sent without a lease"),
    "an acked message stays in memory": Bug(cache_keeps_acked, "what was acked is forgotten"),
    "acked while being claimed": Bug(claim_keeps_acked, "never sent once its ack was heard of", first=856),
    "claim ignores acks": Bug(claim_ignores_acks, "never leased after its ack committed"),
    "claim ignores leases": Bug(claim_ignores_leases, "never leased while a lease stands or before it is due"),
    "give back of a lease that is another's": Bug(
        gives_back_renewed_leases, "only one's own lease is given back, as it was made"
    ),
    "a token that stays": Bug(the_token_stays, "each delivery has a greater token"),
    "a give back that keeps the token": Bug(a_give_back_keeps_the_token, "what is given back has another token"),
    "any ack is believed": Bug(tokens_are_not_looked_at, "an ack by its token ends only that delivery"),
    "one token for what is taken": _of_topics(what_is_taken_has_one_token, "each delivery has a greater token", _seeks),
    "company counts": Bug(company_counts, "a delivery counts unless it was beside others", _tries_alone),
    "alone in company": Bug(what_goes_alone_goes_in_company, "what is to go out alone goes alone", _tries_alone),
    "a stop that gives back what is held": Bug(
        a_stop_gives_back_what_is_held,
        "what a receiver holds is given back only once it is gone",
        lambda told: "shutdown" in told.events,
    ),
    "silence without a bound": Bug(
        silence_is_not_bounded,
        "a silent proxy holds up nobody for long",
        lambda told: told.row_locks and told.proxies > 1,
    ),
    "early purge": Bug(purges_early, "nothing is purged early"),
    "purge of the unacked": Bug(unacked_is_purged, "nothing unacked is deleted"),
    "no wake-up": Bug(commit_wakes_nobody, "what is committed wakes its receivers"),
    "a birth that nobody hears of": Bug(births_are_not_heard_of, "what is committed wakes its receivers"),
    "a slot that is not looked at": Bug(
        slots_are_not_looked_at, "a stream gets only what is in its key range", lambda told: told.ranges
    ),
    "keys of one that is gone": Bug(
        those_that_are_gone_keep_their_keys, "what is committed wakes its receivers", lambda told: told.ranges
    ),
    "wrong ids believed": Bug(wrong_ids_are_believed, "what is committed wakes its receivers", first=668),
    "put off for ever": Bug(put_off_for_ever, "what is put off goes out at its time"),
    "deaf neighbours": Bug(neighbours_are_not_heard, "what is committed wakes its receivers"),
    "no timer": Bug(no_timer_for_what_falls_due, "what is scheduled goes out at its time"),
    "no give back": Bug(leases_of_the_gone_run_out, "what a receiver leaves behind goes to the next"),
    "paused while being claimed": Bug(
        pause_comes_too_late, "a paused queue delivers nothing", lambda told: "pause" in told.events
    ),
    "a claim answered late": Bug(late_answers_are_believed, "nothing is sent whose lease is over"),
    "a buffer that is not looked at": Bug(
        what_waits_is_not_looked_at, "nothing is sent whose lease is over", first=307
    ),
    "no pause after conflicts": Bug(
        no_pause_after_conflicts, "no busy loop", lambda told: bool(told.lockers), first=853
    ),
    "limits not counted in the table": Bug(
        places_are_not_counted, "max_concurrency holds", lambda told: told.options.max_concurrency is not None
    ),
    "a rate that is not kept": Bug(rate_is_not_kept, "max_rate holds", lambda told: told.options.max_rate is not None),
    "order not kept": Bug(
        order_is_not_asked_for, "one at a time of a key", lambda told: told.options.order_key is not None
    ),
    "a hole is not kept": _of_topics(holes_are_not_kept, _FED, lambda told: told.row_locks),
    "a hole given up by its age": _of_topics(holes_are_given_up_by_age, _FED, _shown, first=46),
    "a hole compared at once": _of_topics(
        holes_are_compared_at_once, _FED, lambda told: _shown(told) and told.slow_inserts, first=198
    ),
    "an end without open transactions": _of_topics(the_end_is_the_last_id, _FED, lambda told: told.row_locks, first=54),
    "a broadcast without holes": _of_topics(a_broadcast_forgets_holes, "a broadcast is of every message"),
    "ack of another group": _of_topics(
        acks_of_another_group, "nobody changes what is another group's", lambda told: len(told.groups) > 1
    ),
    "an ack of before a seek": _of_topics(
        nothing_is_marked_as_sought, "an ack ends only what was delivered", _seeks, first=5040
    ),
    "a seek that drops nothing": _of_topics(a_seek_drops_nothing, "a seek drops what the group has", _seeks),
    "no wake-up of a topic's readers": _of_topics(commit_wakes_no_reader, "what is committed wakes its receivers"),
    "ids that are settled at once": _of_topics(
        everything_is_settled_at_once,
        _FED,
        lambda told: told.row_locks and _compacts(told),
        first=131,
    ),
    "compaction of the newest": _of_topics(the_newest_is_compacted, "the newest message of a key stays", _compacts),
    "compaction without a lag": _of_topics(
        compaction_has_no_lag, "what is young is not compacted", lambda told: (told.compact_after or 0) > 1
    ),
    "compaction of what a group is to be kept": _of_topics(
        compaction_asks_no_group,
        "what a group is to be kept is not compacted",
        lambda told: any(group.options.retain == UNTIL_CONSUMED for group in told.groups.values()),
    ),
    "a feeding whose rows come later": _of_topics(feeds_in_two_transactions("INSERT INTO `main`.`t_group"), _FED),
    "a feeding whose position comes later": _of_topics(
        feeds_in_two_transactions("UPDATE `main`.`queuegate_positions`"), "a message is fed once", first=20
    ),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """With this bug in the code, and in the plans that are made meanwhile."""
    with PLANTED[name].plant(), patch.object(PLANS, "plans", {}):
        yield

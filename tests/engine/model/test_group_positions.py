"""How far a consumer group has read: what is fed moves it, what is missing is kept, and no id is ever lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from engine.model import topics
from engine.model.queue import QueueName
from engine.model.topics import (
    GAP_WAIT_NS,
    HOLES_MAX,
    IN_ORDER,
    NOTHING_SETTLED,
    SETTLE_NS,
    SETTLED_IDS,
    Entry,
    GroupPosition,
    Hole,
    OpenTransactions,
    Place,
    Settled,
    entries,
    group_table,
    is_group_name,
    may_be_group_of,
    read_holes,
    still_awaited,
    to_check,
)

SECOND = 1_000_000_000
NOW = 1_770_000_000 * SECOND
NOBODY = OpenTransactions()


def of_now(*ids: int) -> list[Entry]:
    return [Entry(id_, NOW) for id_ in ids]


# --- names


@pytest.mark.parametrize("topic", ["orders", "o" * 60, "a_group_b"])
def test_a_groups_queue_is_known_by_its_name(topic: str) -> None:
    name = QueueName("shop", topic)
    for group in ("billing", "x_group_y"):
        queue = group_table(name, group)
        assert may_be_group_of(name, queue)
        assert not may_be_group_of(QueueName("other", topic), queue)
        assert not may_be_group_of(QueueName("shop", f"{topic[:-1]}!"), queue)
    assert not may_be_group_of(name, name)


@pytest.mark.parametrize("name", ["a", "_", "0", "billing", "Billing_2", "a" * 20])
def test_names_of_groups(name: str) -> None:
    assert is_group_name(name)


@pytest.mark.parametrize("name", ["", "a" * 21, "a-b", "a b", "a.b", "ä", "٣", "a\n", "a`", "²"])
def test_what_is_no_name_of_a_group(name: str) -> None:
    assert not is_group_name(name)


def test_the_queue_of_a_group_lies_beside_its_topic() -> None:
    assert group_table(QueueName("shop", "orders"), "billing") == QueueName("shop", "orders_group_billing")


def test_every_group_of_a_topic_with_a_long_name_has_a_queue_of_its_own() -> None:
    for table in ("t" * 64, "größe" * 12):
        tables = [group_table(QueueName("shop", table), group).table for group in ("a", "b", "g" * 20)]
        assert len(set(tables)) == 3
        assert all(len(name) <= 64 for name in tables)
    other = group_table(QueueName("shop", "t" * 63 + "u"), "a")
    assert other != group_table(QueueName("shop", "t" * 64), "a")


# --- what is fed


def test_what_follows_without_a_gap_leaves_no_hole() -> None:
    assert GroupPosition(4, 4).fed(of_now(5, 6, 7), ()) == GroupPosition(7, 7)


def test_what_is_missing_is_a_hole() -> None:
    fed = GroupPosition(0, 0).fed([Entry(3, NOW), Entry(4, NOW), Entry(9, NOW + 1)], ())
    assert fed == GroupPosition(9, 9, (Hole(1, 2, NOW), Hole(5, 8, NOW + 1)))


def test_where_ids_come_in_order_nothing_is_missing() -> None:
    assert GroupPosition(0, 0).fed(of_now(3, 9), (), complete=IN_ORDER) == GroupPosition(9, 9)


def test_nothing_fed_changes_nothing() -> None:
    position = GroupPosition(4, 8, (Hole(1, 2, NOW, 7),))
    assert position.fed((), ()) == position


def test_the_highest_offset_stays_after_a_seek_back() -> None:
    assert GroupPosition(2, 9).fed(of_now(3), ()) == GroupPosition(3, 9)
    assert GroupPosition(8, 9).fed(of_now(9, 10), ()) == GroupPosition(10, 10)


@pytest.mark.parametrize(
    ("late", "left"),
    [
        ([], [(3, 6)]),
        ([3], [(4, 6)]),
        ([6], [(3, 5)]),
        ([4], [(3, 3), (5, 6)]),
        ([3, 6], [(4, 5)]),
        ([6, 4, 3], [(5, 5)]),
        ([3, 4, 5, 6], []),
        ([2, 7, 9], [(3, 6)]),
    ],
)
def test_a_hole_is_without_what_came_late(late: list[int], left: list[tuple[int, int]]) -> None:
    fed = GroupPosition(10, 10, (Hole(3, 6, NOW, 7),)).fed((), late)
    assert fed == GroupPosition(10, 10, tuple(Hole(first, last, NOW, 7) for first, last in left))


def test_late_ids_of_several_holes_and_new_ones_at_once() -> None:
    position = GroupPosition(9, 9, (Hole(1, 3, 1), Hole(6, 6, 2, 5)))
    assert position.fed(of_now(12), [2, 6]) == GroupPosition(12, 12, (Hole(1, 1, 1), Hole(3, 3, 1), Hole(10, 11, NOW)))


def test_there_is_room_for_so_many_holes() -> None:
    """And for whatever follows without a gap."""
    gaps = of_now(*range(2, 2 * HOLES_MAX + 4, 2))
    assert len(gaps) == HOLES_MAX + 1
    assert GroupPosition(0, 0).room(gaps) == HOLES_MAX
    assert GroupPosition(0, 0).room(gaps[:7]) == 7
    full = GroupPosition(0, 0).fed(gaps[:HOLES_MAX], ())
    assert len(full.holes) == HOLES_MAX
    follows = [full.offset + 1, full.offset + 2, full.offset + 4]
    assert full.room(of_now(*follows)) == 2
    assert full.fed((), [1]).room(of_now(*follows)) == 3
    assert full.room(()) == 0


# --- as it is kept


def test_holes_are_read_as_they_were_written() -> None:
    holes = (Hole(1, 2, NOW), Hole(5, 1 << 62, NOW + 1, (1 << 48) - 1))
    position = GroupPosition(1 << 62, 1 << 62, holes)
    assert position.holes_text == f"[[1,2,{NOW},0],[5,{1 << 62},{NOW + 1},{(1 << 48) - 1}]]"
    assert read_holes(position.holes_text) == holes
    assert read_holes(GroupPosition(0, 0).holes_text) == read_holes("") == ()


# --- which holes are kept


def test_messages_near_the_end_are_of_now_whatever_they_say() -> None:
    last = SETTLED_IDS + 10
    rows = [(9, NOW - 7), (10, NOW - 7), (last, NOW - 7)]
    assert entries(rows, last, NOW) == [Entry(9, NOW - 7), Entry(10, NOW), Entry(last, NOW)]


def test_no_message_is_of_later_than_now() -> None:
    assert entries([(1, NOW + 7)], SETTLED_IDS + 2, NOW) == [Entry(1, NOW)]
    assert entries([], 0, NOW) == []


def test_a_hole_is_unsettled_until_it_is_old_and_compared() -> None:
    assert not to_check([], 0, NOW)
    assert not to_check([Hole(1, 1, NOW - SETTLE_NS + 1)], NOW, NOW)
    assert to_check([Hole(1, 1, NOW - SETTLE_NS)], NOW, NOW)
    assert not to_check([Hole(1, 1, NOW - SETTLE_NS, 7)], NOW, NOW)
    assert not to_check([Hole(1, 1, NOW - SETTLE_NS, 7)], NOW - SETTLE_NS + 1, NOW)
    assert to_check([Hole(1, 1, NOW - SETTLE_NS, 7)], NOW - SETTLE_NS, NOW)
    assert to_check([Hole(1, 1, NOW), Hole(3, 3, NOW - SETTLE_NS)], NOW, NOW)


def test_a_young_hole_is_kept_though_nobody_is_seen_to_write() -> None:
    young = Hole(1, 1, NOW - SETTLE_NS + 1)
    assert still_awaited([young], NOW, NOBODY) == (young,)


def test_an_old_hole_is_given_up_where_nobody_writes() -> None:
    assert still_awaited([Hole(1, 1, NOW - SETTLE_NS)], NOW, NOBODY) == ()


def test_a_list_that_is_older_than_the_hole_closes_nothing():
    """Another proxy has marked it with the numbers of a newer list."""
    marked = Hole(1, 1, NOW, 9)
    for transactions in (NOBODY, OpenTransactions(20, 30)):
        assert still_awaited([marked], NOW - 1, transactions) == (marked,)
        assert still_awaited([marked], NOW + SETTLE_NS - 1, transactions) == (marked,)
        assert still_awaited([marked], NOW + SETTLE_NS, transactions) == ()


def test_an_old_hole_waits_for_those_who_wrote_then() -> None:
    hole = Hole(1, 1, NOW - SETTLE_NS)
    (marked,) = still_awaited([hole], NOW, OpenTransactions(5, 9))
    assert marked == replace(hole, newest=9)
    assert still_awaited([marked], NOW, OpenTransactions(5, 20)) == (marked,)
    assert still_awaited([marked], NOW, OpenTransactions(9, 20)) == (marked,)
    assert still_awaited([marked], NOW, OpenTransactions(10, 20)) == ()
    assert still_awaited([marked], NOW, NOBODY) == ()


def test_a_mark_of_another_server_is_made_anew() -> None:
    """After a failover: the numbers of the server that came in its place are smaller."""
    marked = Hole(1, 1, NOW - SETTLE_NS, 1_000_000)
    (anew,) = still_awaited([marked], NOW, OpenTransactions(5, 9))
    assert anew == replace(marked, newest=9)
    assert still_awaited([anew], NOW, OpenTransactions(10, 20)) == ()


def test_where_transactions_are_not_shown_age_decides() -> None:
    old, young = Hole(1, 1, NOW - GAP_WAIT_NS), Hole(3, 3, NOW - GAP_WAIT_NS + 1)
    assert still_awaited([old, young], NOW, None) == (young,)


def test_where_transactions_are_not_shown_no_message_is_of_before() -> None:
    """No end of the topic is given then. Somebody has taken id 1 and goes on, and what follows says it is old."""
    imported = [(id_, NOW - 1000 * GAP_WAIT_NS) for id_ in range(2, SETTLED_IDS + 100)]
    fed = GroupPosition(0, 0).fed(entries(imported, 0, NOW), ())
    assert still_awaited(fed.holes, NOW, None) == fed.holes == (Hole(1, 1, NOW),)


# --- which ids are settled


def test_ids_are_settled_once_those_who_wrote_then_have_ended() -> None:
    asked = NOTHING_SETTLED.further(90, NOW, NOW, OpenTransactions(5, 9))
    assert asked == Settled(0, 0, Hole(1, 90, NOW))
    old = NOW + SETTLE_NS
    marked = asked.further(95, old, old, OpenTransactions(5, 9))
    assert marked == Settled(0, 0, Hole(1, 90, NOW, 9), old)
    assert marked.further(99, old, old, OpenTransactions(9, 30)) == marked
    settled = marked.further(99, old + 1, old, OpenTransactions(10, 30))
    assert settled == Settled(90, NOW, Hole(91, 99, old + 1))
    assert NOTHING_SETTLED.further(0, NOW, NOW, NOBODY) == NOTHING_SETTLED


def test_when_it_is_found_out_whether_more_is_settled() -> None:
    asked = Settled(0, 0, Hole(1, 90, NOW))
    assert not NOTHING_SETTLED.to_compare(90, NOW + SETTLE_NS)
    assert not replace(asked, compared_ns=NOW).to_compare(90, NOW + SETTLE_NS - 1)
    assert asked.to_compare(90, NOW + SETTLE_NS)
    marked = Settled(0, 0, Hole(1, 90, NOW, 9), NOW + SETTLE_NS)
    assert not marked.to_compare(90, NOW + 2 * SETTLE_NS - 1)
    assert marked.to_compare(90, NOW + 2 * SETTLE_NS)


def test_what_is_settled_is_forgotten_where_the_topic_ends_before_it() -> None:
    settled = Settled(90, NOW, Hole(91, 99, NOW))
    assert settled.further(98, NOW, NOW, NOBODY) == NOTHING_SETTLED
    assert Settled(90, NOW).further(89, NOW, NOW, NOBODY) == NOTHING_SETTLED


def test_gaps_before_old_messages_of_what_is_settled_are_no_holes() -> None:
    settled, last = Settled(90, NOW), 100 + SETTLED_IDS
    rows = [(10, NOW - 1), (20, NOW + 1), (80, NOW), (95, NOW)]
    assert settled.complete(rows, last) == 80
    assert settled.complete(rows, 80 + SETTLED_IDS) == 10, "near the end a message is not as old as it says"
    assert settled.complete([(20, NOW + 1)], last) == 0, "it may be of a new topic of this name"
    assert NOTHING_SETTLED.complete(rows, last) == 0
    fresh = [Entry(id_, seen) for id_, seen in rows]
    assert GroupPosition(0, 0).fed(fresh, (), complete=80).holes == (Hole(81, 94, NOW),)
    assert GroupPosition(0, 0).room(fresh, complete=80) == 4


# --- all of it: whatever commits is read, once


@dataclass
class Transaction:
    """One that is open. `number`: its own, given when it first writes or somewhat later; `numbered_ns`: by when."""

    ids: list[int] = field(default_factory=list)
    number: int = 0
    began_ns: int = 0
    numbered_ns: int = 0


@dataclass
class Log:
    """A topic's table, those who write to it, and the database's time."""

    random: Random
    now_ns: int = NOW
    rows: dict[int, int] = field(default_factory=dict)
    """What is committed: ids, and when they were taken."""

    open: list[Transaction] = field(default_factory=list)
    taken: dict[int, int] = field(default_factory=dict)
    last_id: int = 0
    last_number: int = 0

    def act(self) -> None:
        """Somebody does something."""
        chance = self.random.random()
        if chance < 0.35 or not self.open:
            self.insert()
        elif chance < 0.7:
            self.end(self.random.choice(self.open))
        elif chance < 0.8:
            self.last_id += self.random.choice((1, 2, 30, 3000))  # taken by who inserts nothing then
        else:
            self.pass_time(self.random.choice((1, SECOND // 10, SECOND, 4 * SECOND, 60 * SECOND, 600 * SECOND)))

    def insert(self) -> None:
        begun = self.open and self.random.random() < 0.4
        one = self.random.choice(self.open) if begun else Transaction(began_ns=self.now_ns)
        if not begun:
            self.open.append(one)
        for _ in range(self.random.choice((1, 1, 2, 5))):
            self.last_id += self.random.choice((1, 1, 1, 2))
            one.ids.append(self.last_id)
            self.taken[self.last_id] = self.now_ns
        one.numbered_ns = one.numbered_ns or self.now_ns + self.random.choice((0, 1, SECOND, SETTLE_NS - 1))
        self.number(one, self.now_ns)

    def number(self, one: Transaction, now_ns: int) -> None:
        if not one.number and one.numbered_ns <= now_ns:
            self.last_number += self.random.randint(1, 3)  # others write to other tables
            one.number = self.last_number

    def end(self, one: Transaction) -> None:
        """By a commit, or not."""
        self.number(one, one.numbered_ns)
        self.open.remove(one)
        if self.random.random() < 0.8:
            self.rows |= {id_: self.taken[id_] for id_ in one.ids}

    def pass_time(self, nanoseconds: int) -> None:
        """No transaction is open for as long as a hole is kept where transactions are not shown."""
        self.now_ns += nanoseconds
        for one in list(self.open):
            self.number(one, self.now_ns)
            if self.now_ns - one.began_ns > GAP_WAIT_NS - 600 * SECOND:
                self.end(one)

    def transactions(self) -> OpenTransactions:
        """Those that are open, and that of who asks."""
        self.last_number += 1
        numbers = [one.number for one in self.open if one.number]
        return OpenTransactions(min(numbers, default=self.last_number), self.last_number)


@dataclass
class Reader:
    """What feeds a group does, with others at work between its steps. `shown`: it sees the open transactions."""

    log: Log
    shown: bool
    meanwhile: Callable[[], None]
    position: GroupPosition = field(default_factory=lambda: GroupPosition(0, 0))
    read: list[int] = field(default_factory=list)
    checked_ns: int = 0
    settled: Settled = NOTHING_SETTLED
    spared: int = 0

    def feed(self, limit: int) -> None:
        settled = self.settled
        beyond = sorted(id_ for id_ in self.log.rows if id_ > self.position.offset)[:limit]
        rows = [(id_, self.log.rows[id_]) for id_ in beyond]
        self.meanwhile()
        now_ns, last = self.log.now_ns, max(self.log.rows, default=0)
        self.meanwhile()
        late = self._visible()
        fresh = entries(rows, last if self.shown else 0, now_ns)
        complete = settled.complete(rows, last)
        self.spared += self.position.room(fresh, complete=complete) - self.position.room(fresh)
        fresh = fresh[: self.position.room(fresh, complete=complete)]
        self.read += [*late, *(entry.id for entry in fresh)]
        fed = self.position.fed(fresh, late, complete=complete)
        fresh_holes = len(fed.holes) - len(self.position.fed((), late).holes)
        assert fresh_holes <= max(0, topics.HOLES_MAX - len(self.position.holes))
        self.position = replace(fed, holes=read_holes(fed.holes_text))
        if to_check(self.position.holes, self.checked_ns, now_ns):
            self._close_holes()

    def _close_holes(self) -> None:
        now_ns, holes = self.log.now_ns, self.position.holes
        self.meanwhile()
        known = self.log.transactions() if self.shown else None
        self.meanwhile()
        self.settled = self.settled.further(max(self.log.rows, default=0), self.log.now_ns, now_ns, known)
        self.meanwhile()
        left = still_awaited(holes, now_ns, known)
        if len(left) == len(holes) or not self._visible():  # else somebody has just made them visible
            self.position = replace(self.position, holes=left)
        self.checked_ns = now_ns

    def _visible(self) -> list[int]:
        holes = self.position.holes
        return [id_ for hole in holes for id_ in sorted(self.log.rows) if hole.first <= id_ <= hole.last]


def played(seed: int) -> tuple[Log, Reader]:
    """A log and its reader after a while, when all have ended and the reader has found nothing more."""
    random = Random(seed)
    log = Log(random)

    def meanwhile() -> None:
        while random.random() < 0.25:
            log.act()

    reader = Reader(log, random.random() < 0.8, meanwhile)
    limit = random.choice((1, 2, 10, 1000))
    for _ in range(random.randint(5, 40)):
        if random.random() < 0.6:
            log.act()
        else:
            reader.feed(limit)
    for one in list(log.open):
        log.end(one)
    reader.meanwhile = lambda: None
    while True:
        log.pass_time(2 * GAP_WAIT_NS)
        before = reader.position
        reader.feed(limit)
        if reader.position == before:
            return log, reader


@pytest.mark.parametrize(("bound", "trusted"), [(HOLES_MAX, SETTLED_IDS), (3, SETTLED_IDS), (2, 2)])
def test_every_message_is_read_exactly_once(bound: int, trusted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "HOLES_MAX", bound)
    monkeypatch.setattr(topics, "SETTLED_IDS", trusted)
    late = spared = 0
    for seed in range(3000):
        log, reader = played(seed)
        assert sorted(reader.read) == sorted(log.rows), f"seed {seed}"
        assert reader.position.offset == max(log.rows, default=0), f"seed {seed}"
        late += reader.read != sorted(reader.read)
        spared += reader.spared
    assert late > 500, "hardly any id came late"
    assert spared > 50 or trusted == SETTLED_IDS, "hardly a hole was spared"


def test_where_a_message_stands() -> None:
    position = GroupPosition(9, 9, (Hole(3, 4, 0), Hole(7, 7, 0)))
    places = {id_: position.place_of(id_) for id_ in range(2, 11)}
    assert [id_ for id_, place in places.items() if place is Place.AWAITED] == [3, 4, 7]
    assert [id_ for id_, place in places.items() if place is Place.UNREAD] == [10]

"""What one account's filtered streams may cost others, in virtual time."""

from __future__ import annotations

from collections import Counter

from memory_store import MemoryStore, Row, make_spec
from virtual_time import VirtualClock, in_virtual_time, pass_time
from world import World, world

from engine.delivery.filter_shares import ACCOUNTS_MAX, POLLS_SECONDS, SHARE, FilterShares, ReceiverSetShare
from engine.delivery.receivers import PassResult, ReceiverSet
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Condition

LOOK_SECONDS = 0.001
CONDITIONS = 20
SECONDS = 5.0
ACKED_LATER = 30


class Busy(MemoryStore):
    """A scan takes a millisecond; what the scans of each condition took is noted."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.scans: dict[str, int] = {}

    async def scan(self, queue, condition, page):
        scanned = await super().scan(queue, condition, page)
        self.scans[condition.text] = self.scans.get(condition.text, 0) + 1
        await pass_time(LOOK_SECONDS)
        return scanned


def vain(number: int) -> Condition:
    """True of no message."""
    return Condition(f"id == {-1 - number}", text=f"vain {number}")


async def commits(w: World, seconds: float, first: int = 1) -> int:
    """A message each 10 ms, acked 0.3 s later. The id of the next."""
    until, id_ = w.clock.monotonic() + seconds, first
    while w.clock.monotonic() < until:
        w.committed_at[id_] = w.clock.monotonic()
        await w.commit(Row(id_, time_next=w.clock.now_ns()))
        await pass_time(0.01)
        w.ack(*range(max(1, id_ - ACKED_LATER), id_ - ACKED_LATER + 1))
        id_ += 1
    return id_


@in_virtual_time
async def test_conditions_in_vain_take_a_bounded_part_of_the_time_and_all_have_their_turn():
    store = Busy(VirtualClock())
    async with world(
        make_spec(poll_interval_ns=3600 * NS_PER_SECOND), store=store, sole_account=lambda user: False
    ) as w:
        victim = await w.receive(user="victim")
        for number in range(CONDITIONS):
            await w.receive(user="attacker", condition=vain(number))
        store.scans.clear()
        sent = await commits(w, SECONDS)
        assert victim.ids == list(range(1, sent))
        spent = sum(store.scans.values()) * LOOK_SECONDS
        assert spent <= POLLS_SECONDS + SECONDS * SHARE + CONDITIONS * LOOK_SECONDS
        assert spent >= SECONDS * SHARE / 2, "the share is there to be used"
        assert max(store.scans.values()) - min(store.scans.values()) <= 1


@in_virtual_time
async def test_a_pass_does_nothing_for_conditions_in_debt(monkeypatch):
    """Each commit leads to passes, and a receiver set that had its step in each cost more than the looks that it
    waits for."""
    store, steps = Busy(VirtualClock()), Counter[str]()
    step = ReceiverSet.step

    async def counted(receiver_set: ReceiverSet, result: PassResult) -> None:
        steps["" if receiver_set.condition is None else receiver_set.condition.text] += 1
        await step(receiver_set, result)

    monkeypatch.setattr(ReceiverSet, "step", counted)
    async with world(
        make_spec(poll_interval_ns=3600 * NS_PER_SECOND), store=store, sole_account=lambda user: False
    ) as w:
        await w.receive(user="victim")
        for number in range(CONDITIONS):
            await w.receive(user="attacker", condition=vain(number))
        sent = await commits(w, SECONDS)  # what has been saved up is spent
        steps.clear(), store.scans.clear()
        await commits(w, SECONDS, sent)
        assert steps.pop("") >= sent - 1
        assert sum(store.scans.values()) > 0
        assert sum(steps.values()) <= 4 * sum(store.scans.values())


@in_virtual_time
async def test_a_commit_is_not_told_to_each_condition_in_debt(monkeypatch):
    """They want a look already. An account with many conditions must not make each commit dearer."""
    store, told = Busy(VirtualClock()), Counter[bool]()
    touched = ReceiverSet.touched

    def counted(receiver_set: ReceiverSet) -> bool:
        told[receiver_set.condition is not None] += 1
        return touched(receiver_set)

    monkeypatch.setattr(ReceiverSet, "touched", counted)
    async with world(
        make_spec(poll_interval_ns=3600 * NS_PER_SECOND), store=store, sole_account=lambda user: False
    ) as w:
        victim = await w.receive(user="victim")
        for number in range(CONDITIONS):
            await w.receive(user="attacker", condition=vain(number))
        sent = await commits(w, SECONDS)  # what has been saved up is spent
        told.clear(), store.scans.clear()
        sent = await commits(w, SECONDS, sent)
        assert victim.ids == list(range(1, sent))
        assert sum(store.scans.values()) > 0
        assert 0 < told[True] <= told[False] * CONDITIONS / 3


@in_virtual_time
async def test_in_any_second_an_account_takes_a_tenth_and_one_turn_at_most():
    """Also after a rest, in which it saves up."""
    clock = VirtualClock()
    shares = FilterShares(clock, lambda user: False)
    conditions = [ReceiverSetShare(shares, clock) for _ in range(CONDITIONS)]
    for one in conditions:
        one.join("attacker")
    looks: list[float] = []
    for _ in range(3):
        until = clock.monotonic() + SECONDS
        while clock.monotonic() < until:
            await look_in_vain(conditions, clock, looks)
            await pass_time(0.01)
        await pass_time(10.0)
    taken = [LOOK_SECONDS * sum(at <= other < at + 1.0 for other in looks) for at in looks]
    assert SHARE <= max(taken) <= 0.1 + CONDITIONS * LOOK_SECONDS


async def look_in_vain(conditions: list[ReceiverSetShare], clock: VirtualClock, looks: list[float]) -> None:
    """A pass: all that may look do."""
    now = clock.monotonic()
    turns = [one for one in conditions if one.ready_at(False, now) <= now]
    for one in turns:
        one.begin_turn(False)
    for one in turns:
        await pass_time(LOOK_SECONDS)
        one.charge(False, LOOK_SECONDS)
        looks.append(clock.monotonic())
    for one in turns:
        one.end_turn()


@in_virtual_time
async def test_nobody_waits_while_no_other_account_is_connected():
    store = Busy(VirtualClock())
    async with world(make_spec(), store=store) as w:
        for number in range(CONDITIONS):
            await w.receive(user="only", condition=vain(number))
        store.scans.clear()
        sent = await commits(w, 2.0)
        assert min(store.scans.values()) >= sent / 4, "a look for about every second commit: they take time themselves"


@in_virtual_time
async def test_an_honest_condition_is_served_soon_beside_an_attacker():
    store = Busy(VirtualClock())
    async with world(make_spec(prefetch=1000), store=store, sole_account=lambda user: False) as w:
        for number in range(CONDITIONS):
            await w.receive(user="attacker", condition=vain(number))
        honest = await w.receive(user="honest", condition=Condition("id % 7 == 0", text="seventh"))
        last = await commits(w, SECONDS)
        await pass_time(1.0)
        assert honest.ids == list(range(7, last, 7))
        arrived = {m.id: at for batch, at in zip(honest.batches, honest.times, strict=True) for m in batch.messages}
        assert max(arrived[id_] - w.committed_at[id_] for id_ in honest.ids) < 0.5


@in_virtual_time
async def test_a_condition_of_two_accounts_waits_for_neither_alone():
    clock = VirtualClock()
    shares = FilterShares(clock, lambda user: False)
    shares.charge("attacker", False, 1.0)
    assert shares.ready_at("attacker", False, clock.monotonic()) > 0
    assert shares.ready_at("honest", False, clock.monotonic()) == 0
    assert shares.ready_at("attacker", True, clock.monotonic()) == 0, "what leads through a backlog is counted apart"
    await pass_time(1.0 / SHARE)
    assert shares.ready_at("attacker", False, clock.monotonic()) == 0


@in_virtual_time
async def test_no_more_accounts_are_kept_than_the_bound_and_no_debt_is_forgotten():
    clock = VirtualClock()
    shares = FilterShares(clock, lambda user: False)
    shares.charge("attacker", False, 1.0)
    shares.charge("fullest", False, POLLS_SECONDS / 8)
    for number in range(ACCOUNTS_MAX + 20):
        shares.charge(f"user {number}", False, POLLS_SECONDS / 2)
        assert len(shares._accounts) <= ACCOUNTS_MAX
    assert shares.ready_at("attacker", False, clock.monotonic()) > 0
    assert "fullest" not in shares._accounts


@in_virtual_time
async def test_of_accounts_that_are_all_in_debt_the_one_that_owes_least_is_forgotten():
    shares = FilterShares(VirtualClock(), lambda user: False)
    shares.charge("least", False, POLLS_SECONDS * 1.5)
    for number in range(ACCOUNTS_MAX):
        shares.charge(f"user {number}", False, POLLS_SECONDS * 2)
    assert len(shares._accounts) == ACCOUNTS_MAX
    assert "least" not in shares._accounts

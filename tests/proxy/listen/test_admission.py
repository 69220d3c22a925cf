"""Admission: who comes in and who does not, with a clock of our own and several workers in one process."""

from __future__ import annotations

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slowness import scaled

from mysql_wire.errors import ProxyError
from proxy.config import Limits
from proxy.listen import admission
from proxy.listen.admission import Admission, FailedLogins, source_of
from proxy.listen.shared_counts import Count, SharedCounts


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def limits(**changes: int) -> Limits:
    """Only clients that have not logged in are limited, unless there are changes."""
    return Limits(**{"connection_errors": 0, "login_failures": 0, "unauthenticated_per_address": 100, **changes})


def workers(count: int, clock: Clock, **changes: int) -> list[Admission]:
    """Admissions that share their tallies and hear of each other's logins, as workers do."""
    settings = limits(**changes)
    tallies = SharedCounts(count, settings.max_connections if settings.max_user_connections else 0)
    everybody: list[Admission] = []

    def announce(number: int):
        def tell(source: str, good: bool) -> None:
            for other, one in enumerate(everybody):
                if other != number:
                    one.on_remote_login(source, good)

        return tell

    for number in range(count):
        everybody.append(Admission(settings, tallies.of(number), clock, announce(number)))
    return everybody


def refused(call) -> int:
    with pytest.raises(ProxyError) as caught:
        call()
    return caught.value.errno


def test_connections_are_counted_over_all_workers(clock):
    one, two = workers(2, clock, max_connections=3)
    visits = [one.admit_connection("10.0.0.1"), two.admit_connection("10.0.0.2"), two.admit_connection("10.0.0.3")]
    assert refused(lambda: one.admit_connection("10.0.0.4")) == 1040
    assert refused(lambda: two.admit_connection("10.0.0.4")) == 1040
    visits[1].leave()
    visits[1].leave()
    one.admit_connection("10.0.0.4")
    assert refused(lambda: two.admit_connection("10.0.0.5")) == 1040


async def test_logins_under_way_have_a_bound_and_the_others_wait_for_their_turn(clock):
    one, two = workers(2, clock, unauthenticated_connections=2)
    first, second, third, fourth = (
        one.admit_connection("a"),
        two.admit_connection("a"),
        one.admit_connection("a"),
        one.admit_connection("a"),
    )
    await first.turn()
    await second.turn()
    waiting = [slot.turn() for slot in (third, fourth)]
    await asyncio.wait(waiting, timeout=0.01)
    assert not any(task.done() for task in waiting)
    first.admit("app")
    first.logged_in()
    await waiting[0]
    assert not waiting[1].done() and one.tally.total(Count.LOGGING_IN) == 2
    second.leave()  # at the other worker: nobody tells this one
    async with asyncio.timeout(scaled(10)):
        await waiting[1]
    for slot in (first, third, fourth):
        slot.leave()
    assert one.tally.total(Count.LOGGING_IN) == one.tally.total(Count.CONNECTIONS) == 0


async def test_who_goes_while_waiting_takes_no_turn(clock):
    (one,) = workers(1, clock, unauthenticated_connections=1)
    first, second, third = one.admit_connection("a"), one.admit_connection("a"), one.admit_connection("a")
    await first.turn()
    gone, waiting = second.turn(), third.turn()
    await asyncio.wait((gone, waiting), timeout=0.01)
    gone.cancel()
    second.leave()
    first.leave()
    async with asyncio.timeout(scaled(10)):
        await waiting
    assert one.tally.total(Count.LOGGING_IN) == 1


def test_a_users_connections_are_counted_over_all_workers_and_by_change_user(clock):
    one, two = workers(2, clock, max_user_connections=2)
    first, second, third = one.admit_connection("h"), two.admit_connection("h"), two.admit_connection("h")
    first.admit("app")
    second.admit("app")
    assert refused(lambda: third.admit("app")) == 1203
    third.admit("other")
    assert refused(lambda: third.admit("app")) == 1203  # and it is still `other`
    first.admit("someone")
    third.admit("app")
    assert refused(lambda: first.admit("app")) == 1203
    second.leave()
    first.admit("app")
    first.admit("app")  # COM_CHANGE_USER to oneself takes no second place
    for slot in (first, third):
        slot.leave()
    fresh = [two.admit_connection("h"), one.admit_connection("h")]
    for slot in fresh:
        slot.admit("app")


def test_a_worker_that_died_counts_no_more(clock):
    tallies = SharedCounts(2, 10)
    settings = limits(max_connections=2, unauthenticated_connections=2, max_user_connections=1)
    dead, alive = (Admission(settings, tallies.of(n), clock) for n in (0, 1))
    for _ in range(2):
        dead.admit_connection("h")
    assert refused(lambda: alive.admit_connection("h")) == 1040
    tallies.clear(0)
    alive.admit_connection("h").admit("app")


def test_the_message_names_the_user_as_mysql_does(clock):
    (one,) = workers(1, clock, max_user_connections=1)
    one.admit_connection("h").admit("app")
    with pytest.raises(ProxyError) as caught:
        one.admit_connection("h").admit("app")
    assert caught.value.sqlstate == "42000"
    assert caught.value.message == "User app already has more than 'max_user_connections' active connections"


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans(), st.integers(0, 2)), max_size=200))
def test_user_tallies_agree_with_a_plain_count(steps):
    """Eight names over three columns, in tables small enough for names to get in each other's way."""
    tallies = SharedCounts(3, 8)
    views = [tallies.of(n) for n in range(3)]
    counts: dict[tuple[str, int], int] = {}
    for name, coming, worker in steps:
        if coming:
            total = sum(count for (known, _), count in counts.items() if known == name)
            assert views[worker].acquire_user(name, 4) == (total < 4)
            if total < 4:
                counts[name, worker] = counts.get((name, worker), 0) + 1
        elif counts.get((name, worker)):
            views[worker].release_user(name)
            counts[name, worker] -= 1


def test_an_address_that_fails_too_often_is_blocked_until_time_refills_it(clock):
    (one,) = workers(1, clock, login_failures=3)
    for _ in range(3):
        fail(one, "10.0.0.1")
    with pytest.raises(ProxyError) as caught:
        one.admit_connection("10.0.0.1")
    assert (caught.value.errno, caught.value.sqlstate) == (1129, "HY000")
    assert "10.0.0.1" in caught.value.message
    assert "20 s" in caught.value.message  # three a minute
    assert caught.value.fatal
    assert one.tally.connections == 0
    one.admit_connection("10.0.0.2").leave()
    clock.now += 20
    fail(one, "10.0.0.1")
    assert refused(lambda: one.admit_connection("10.0.0.1")) == 1129
    clock.now += 60
    for _ in range(3):
        fail(one, "10.0.0.1")
    assert refused(lambda: one.admit_connection("10.0.0.1")) == 1129


def fail(one: Admission, host: str, errno: int = 1045) -> None:
    slot = one.admit_connection(host)
    slot.failed(errno)
    slot.leave()


def test_a_good_login_refills(clock):
    one, two = workers(2, clock, login_failures=3)
    for _ in range(2):
        fail(one, "10.0.0.1")
    one.admit_connection("10.0.0.1").admit("app")
    for _ in range(3):
        fail(two, "10.0.0.1")
    assert refused(lambda: one.admit_connection("10.0.0.1")) == 1129


def test_other_workers_count_the_same_failures(clock):
    one, two = workers(2, clock, login_failures=4)
    for _ in range(2):
        fail(one, "10.0.0.1")
        fail(two, "10.0.0.1")
    assert refused(lambda: one.admit_connection("10.0.0.1")) == 1129
    assert refused(lambda: two.admit_connection("10.0.0.1")) == 1129


def test_errors_that_are_no_wrong_password_do_not_count(clock):
    (one,) = workers(1, clock, login_failures=1)
    for errno in (1043, 1049, 1105, 1203, 2013):
        fail(one, "10.0.0.1", errno)
    one.admit_connection("10.0.0.1")


def test_off_means_off(clock):
    (one,) = workers(1, clock)
    for _ in range(1000):
        fail(one, "10.0.0.1")
    assert len(one.failures) == 0


def test_a_change_of_user_is_checked_too(clock):
    (one,) = workers(1, clock, login_failures=1)
    slot = one.admit_connection("10.0.0.1")
    slot.admit("app")
    slot.check()
    slot.failed(1045)
    assert refused(slot.check) == 1129


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("localhost", "localhost"),
    ],
)
def test_of_ipv6_the_network_counts(host, source):
    assert source_of(host) == source


def test_many_addresses_take_bounded_memory(clock, monkeypatch):
    monkeypatch.setattr(admission, "ADDRESSES_MAX", 10)
    failures = FailedLogins(1, clock)
    failures.add("first")
    for number in range(9):
        failures.add(f"h{number}")
    failures.add("first")  # the latest again
    failures.add("another")
    assert len(failures) == 10
    assert failures.blocked_for("first") > 0
    assert failures.blocked_for("h0") == 0


def test_refusals_are_logged_once_a_minute_and_counted(clock, caplog):
    (one,) = workers(1, clock, max_connections=1, unauthenticated_connections=1)
    one.admit_connection("h")
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            assert refused(lambda: one.admit_connection("10.0.0.9")) == 1040
        assert len(caplog.records) == 1
        clock.now += 61
        assert refused(lambda: one.admit_connection("10.0.0.9")) == 1040
    assert [record.before for record in caplog.records] == [0, 4]
    assert "limits.max_connections" in caplog.text


def test_who_has_the_fewest_is_seen_only_among_those_present():
    tallies = SharedCounts(3)
    one, two, three = (tallies.of(n) for n in range(3))
    assert one.fewest_elsewhere() is None
    two.set_present(True)
    three.set_present(True)
    two.acquire(Count.CONNECTIONS, 10)
    assert one.fewest_elsewhere() == 0
    three.set_present(False)
    assert one.fewest_elsewhere() == 1
    tallies.clear(1)
    assert one.fewest_elsewhere() is None


def test_what_is_counted_since_the_start_outlives_a_worker(clock):
    tallies = SharedCounts(2, 10)
    settings = limits(max_connections=1, unauthenticated_connections=2, max_user_connections=1)
    dead, alive = (Admission(settings, tallies.of(n), clock) for n in (0, 1))
    slot = dead.admit_connection("h")
    slot.failed(1045)
    slot.failed(1049)  # an unknown database is no failed login
    assert refused(lambda: dead.admit_connection("h")) == 1040
    tallies.clear(0)
    tallies.died(0)
    alive.admit_connection("h").failed(1698)
    counts = {what: alive.tally.total(what) for what in (Count.LOGIN_FAILURES, Count.REFUSED, Count.DEATHS)}
    assert counts == {Count.LOGIN_FAILURES: 2, Count.REFUSED: 1, Count.DEATHS: 1}
    assert alive.tally.total(Count.CONNECTIONS) == 1

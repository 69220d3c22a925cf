"""A proxy that falls silent in the middle of transactions, with their locks: others go on, nothing comes twice.

Each transaction of the engine of more than one packet is caught in two moments: as it has taken its first locks, and as
the server has committed it and the proxy has not heard. Many of them are caught at once, each of another queue, because
the wait is the same for all: until the server has ended the sessions. `make test-silence` catches each alone.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pymysql
import pytest
from engine_transactions import COMPACTION, DELIVERIES, DUTIES, KEPT, PARTITION, PROXIES, Case
from servers import MariaDb, Sql, Stream, wait_until
from silent_proxy import CUT_OFF, FROZEN, Two, two_proxies
from slowness import scaled

pytestmark = pytest.mark.long

SECONDS = 15.0
"""Until the other proxy has delivered: the server ends the silent one's sessions after ten."""

DUTY_SECONDS = 30.0  # for what has no hurry, and is another's once the link is given up

FIRST_LOCKS, COMMITTED = "first locks", "committed"

ALL = os.environ.get("QUEUEGATE_TEST_SILENCE") == "all"


def together(cases: Sequence[Case]) -> list[tuple[Case, ...]]:
    """Those that are caught at once. Not the proxy's own row: as soon as it is old, the other proxy leads, and what was
    not caught yet, or stood still for too long, is done by the other."""
    if ALL:
        return [(case,) for case in cases]
    return [tuple(case for case in cases if case is not PROXIES), *((case,) for case in cases if case is PROXIES)]


def name_of(cases: tuple[Case, ...]) -> str:
    return cases[0].name if len(cases) == 1 else "all"


@pytest.fixture
def two(request, mariadb: MariaDb, tmp_path) -> Iterator[Two]:
    with two_proxies(request.param, mariadb, tmp_path, "silent") as both:
        # Each transaction needs a place at the database, as long as it is caught.
        yield both.start(retention_period="500ms", limits={"database_work": 40})


@dataclass
class Caught:
    """The transactions that stand still, by their cases."""

    two: Two
    cases: Sequence[Case]
    moment: str

    def arm(self) -> None:
        self.events = {case.name: self._hold(case) for case in self.cases}

    def _hold(self, case: Case) -> threading.Event:
        commits = self.moment == COMMITTED and case.commits
        return self.two.cutter.hold(*case.caught, without=case.without, commits=commits)

    def wait(self) -> None:
        """Until all stand still. The proxy gives up a statement that is not answered, and tries again. What was
        committed it need not do again: that was caught, too."""

        def all_stand() -> bool:
            for case in self.cases if self.moment == FIRST_LOCKS else ():
                if self.two.cutter.lost(self.events[case.name]):
                    self.events[case.name] = self._hold(case)
            return all(event.is_set() for event in self.events.values())

        try:
            wait_until(all_stand, 60, "the transactions to be caught")
        except AssertionError:
            raise AssertionError(
                f"not caught: {[n for n, event in self.events.items() if not event.is_set()]}"
            ) from None


def run(two: Two, cases: Sequence[Case], moment: str) -> None:
    with contextlib.ExitStack() as stack:
        around = stack.enter_context(contextlib.closing(Sql(two.mariadb.connect(database=two.database))))
        client = stack.enter_context(contextlib.closing(Sql(two.other.connect())))
        for case in cases:
            for sql in case.made:
                client(sql)
        wait_until(lambda: _knows(two, cases), 20, "the first proxy to know all of them")
        holding = [stack.enter_context(_holding(two, case)) for case in cases if case.hangs_up]
        caught = Caught(two, cases, moment)
        caught.arm()
        for stream in holding:
            stream.close()
        for case in cases:
            for sql in case.then:
                client(sql)
            for sql in case.around:
                around(sql)
        early = {
            case.name: stack.enter_context(Stream(two.silent, case.stream("")))
            for case in cases
            if case.source and case.silent_receives
        }
        seeking = [_seek(two) for case in cases if case.name == "seek"]
        caught.wait()
        two.fall_silent()
        heirs = {case.name: stack.enter_context(Stream(two.other, case.stream(KEPT))) for case in cases if case.source}
        for case in cases:
            if case.source:
                heirs[case.name].wait(len(case.want), SECONDS)
        for case in cases:
            wait_until(lambda case=case: case.done(around), DUTY_SECONDS, f"{case.name} to be done")
        went_on = time.time()
        two.go_on()
        wait_until(two.serves, 40, "the silent proxy to serve again")
        for thread in seeking:
            thread.join(scaled(30))
            assert not thread.is_alive()
        for case in cases:
            if case.source:
                values = [row[0] for row in heirs[case.name].rows]
                assert sorted(values) == sorted(case.want), (case.name, values)
                # What the heir has is with it for an hour.
                stray = [] if case.name not in early else [at for at in early[case.name].times if at >= went_on]
                assert not stray, (case.name, "two have one message", early[case.name].rows)
            assert case.done(around), case.name
        for opened in (*heirs.values(), *early.values()):
            opened.close()
        goes_on(two, client, cases, stack)


def goes_on(two: Two, client: Sql, cases: Sequence[Case], stack: contextlib.ExitStack) -> None:
    """What comes afterwards is delivered by the one that was silent, in every queue."""
    table = {case.name: case.source.partition(".")[0] for case in cases if case.silent_receives and case.source}
    streams = {
        case.name: stack.enter_context(Stream(two.silent, case.stream(KEPT))) for case in cases if case.name in table
    }
    for name in table.values():
        client(f"INSERT INTO {name} (n) VALUES (4), (5), (6)")
    for name, stream in streams.items():
        wait_until(
            lambda stream=stream: {4, 5, 6} <= {row[0] for row in list(stream.rows)},
            SECONDS,
            f"{name} to go on",
        )


def _knows(two: Two, cases: Sequence[Case]) -> bool:
    with contextlib.closing(Sql(two.silent.connect())) as client:
        known = {*client.column("SHOW QUEUES"), *client.column("SHOW TOPICS")}
    return all(case.source.partition(".")[0] in {"", *known} for case in cases)


def _holding(two: Two, case: Case) -> Stream:
    """A receiver of the one that falls silent, that has them all."""
    stream = Stream(two.silent, case.stream(""))
    stream.wait(len(case.want))
    return stream


def _seek(two: Two) -> threading.Thread:
    """Said to the proxy that falls silent; what becomes of it is not known then."""

    def seek() -> None:
        with contextlib.suppress(pymysql.err.MySQLError, OSError):
            client = Sql(two.silent.connect(read_timeout=scaled(60)))
            client("ALTER GROUP g ON seek_t SEEK TO EARLIEST")

    thread = threading.Thread(target=seek, daemon=True)
    thread.start()
    return thread


EVERY = [(mode, moment) for mode in (FROZEN, CUT_OFF) for moment in (FIRST_LOCKS, COMMITTED)]
DUTY_FAULTS = EVERY if ALL else [(FROZEN, FIRST_LOCKS), (CUT_OFF, COMMITTED)]
LONG_FAULTS = EVERY if ALL else [(FROZEN, FIRST_LOCKS)]
faults = functools.partial(pytest.mark.parametrize, ("two", "moment"), indirect=("two",))


@faults(EVERY)
@pytest.mark.parametrize("cases", together(DELIVERIES), ids=name_of)
def test_a_proxy_that_falls_silent_in_a_transaction_stops_nobody(
    two: Two, cases: tuple[Case, ...], moment: str
) -> None:
    run(two, cases, moment)


@faults(DUTY_FAULTS)
@pytest.mark.parametrize("cases", together(DUTIES), ids=name_of)
def test_what_a_silent_proxy_had_begun_besides_is_done_by_another(
    two: Two, cases: tuple[Case, ...], moment: str
) -> None:
    run(two, cases, moment)


@faults(LONG_FAULTS)
@pytest.mark.parametrize("case", [COMPACTION, PARTITION], ids=lambda case: case.name)
def test_a_topic_that_a_silent_proxy_was_tidying_goes_on(two: Two, case: Case, moment: str) -> None:
    run(two, (case,), moment)

"""What one of several proxies does for all goes on, once each time, whoever believes that he leads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from engine_transactions import DUTIES, Case
from servers import Gate, MariaDb, Sql, free_port, wait_until
from silent_proxy import FROZEN, Two, two_proxies

PERIOD = {"retention_period": "500ms"}
BESIDES = [case for case in DUTIES if case.name != "proxies"]


def make(client: Sql, cases: list[Case]) -> None:
    for case in cases:
        for sql in case.made:
            client(sql)


def everything_is_done(around: Sql, other: Gate, seconds: float) -> None:
    for case in BESIDES:
        wait_until(lambda case=case: case.done(around), seconds, f"{case.name} to be done")
    with contextlib.closing(Sql(other.connect())) as client:
        got = client.column("SELECT n FROM STREAM follow_q LIMIT 2 WAIT 20")
    assert sorted(got) == [1, 2]


def everything_is_still_done(around: Sql) -> None:
    for case in BESIDES:
        wait_until(lambda case=case: case.done(around), 10, f"{case.name} to be as it was")


@pytest.fixture
def linked(mariadb: MariaDb, tmp_path) -> Iterator[Two]:
    with two_proxies(FROZEN, mariadb, tmp_path, "leads") as both:
        yield both.start(**PERIOD)


def test_a_leader_that_sees_its_peers_but_not_the_database_is_followed_by_another(linked: Two, mariadb: MariaDb):
    with (
        contextlib.closing(Sql(mariadb.connect(database="leads"))) as around,
        contextlib.closing(Sql(linked.other.connect())) as client,
    ):
        make(client, BESIDES)
        linked.cutter.go_dark()
        # As if its row had not been renewed for a minute.
        around("UPDATE queuegate_proxies SET time_seen = time_seen - 60000000000 WHERE number = 1")
        for case in BESIDES:
            for sql in case.around:
                around(sql)
        everything_is_done(around, linked.other, 30)
        assert "link to another proxy is gone" not in linked.other.log
        linked.cutter.come_back()
        wait_until(linked.serves, 40, "the first proxy to serve again")
        everything_is_still_done(around)


@pytest.mark.parametrize("seen", [True, False], ids=["see each other in the table only", "know nothing of each other"])
def test_two_that_lead_at_once_do_nothing_twice(mariadb: MariaDb, tmp_path, seen: bool):
    """Each sees the database, and no peer. Neither ends the sessions of the other."""
    url = mariadb.fresh_database("both_lead")
    gates = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        peers = {"listen": f"127.0.0.1:{free_port()}", "advertise": f"127.0.0.1:{free_port()}"} if seen else False
        gates.append(Gate(url, tmp_path / name, database="both_lead", workers=1, peers=peers, **PERIOD).start())
    try:
        with (
            contextlib.closing(Sql(mariadb.connect(database="both_lead"))) as around,
            contextlib.closing(Sql(gates[1].connect())) as client,
        ):
            make(client, BESIDES)
            for case in BESIDES:
                for sql in case.around:
                    around(sql)
            if seen:
                beat = "SELECT MIN(time_seen) FROM queuegate_proxies"
                first = around.value(beat)
                wait_until(lambda: around.value(beat) > first, 30, "both to look at the table once more")
            everything_is_done(around, gates[0], 30)
            wait_until(lambda: around.value("SELECT COUNT(*) FROM tick_q") > 3, 30, "some ticks")
            everything_is_still_done(around)
            assert not any("linked to another proxy" in gate.log for gate in gates)
            assert not any("its sessions at the database were ended" in gate.log for gate in gates)
            client("INSERT INTO dead_q (n) VALUES (9)")  # at the one, for a receiver of the other
            with contextlib.closing(Sql(gates[0].connect())) as receiver:
                assert receiver.rows("SELECT n FROM STREAM dead_q LIMIT 1 WAIT 30") == [(9,)]
    finally:
        for gate in gates:
            gate.stop()

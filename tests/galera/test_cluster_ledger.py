"""A topic on a cluster of three, through two proxies on two nodes, with the ledger of tests/faults: producers, three
groups of two members, three broadcast readers; a proxy is killed, then the node behind the other, which comes back.
Everybody has exactly what the topic holds, by numbers from 1 on, each given once."""

from __future__ import annotations

import contextlib
import os

import pytest
from faults.test_topic_ledger import assert_at_rest, judge, wait_for_all, wait_for_messages, write_last
from faults.topic_clients import AWAY, SETUP, WITH_THE_OTHERS, Clients, Proxy
from faults.topic_ledger import Heard
from servers import Sql, Stream, wait_until

SEED = os.environ.get("QUEUEGATE_LEDGER_SEED", "13")
MESSAGES = 1500  # known to be committed between two faults
SECONDS = 300.0
DATABASE = "ledger"


@pytest.mark.timeout(900)
def test_every_reader_of_a_topic_gets_exactly_what_it_holds(cluster, gate_at):
    first, second, third = cluster.nodes
    first.fresh_database(DATABASE)
    proxies = [Proxy(gate_at(first, DATABASE)), Proxy(gate_at(second, DATABASE))]
    setup = Sql(proxies[0].gate.connect())
    for statement in SETUP:
        setup(statement)
    setup.close()
    clients = Clients(proxies, 3 * MESSAGES, SEED, cluster=True)
    try:
        wait_for_messages(clients, MESSAGES)
        proxies[0].kill()
        wait_for_messages(clients, clients.written + MESSAGES // 4)
        proxies[0].gate.start()
        wait_for_messages(clients, 2 * MESSAGES)
        second.kill()
        wait_for_messages(clients, clients.written + MESSAGES // 4)
        second.recover()
        second.join()
        clients.finish_writing(SECONDS)
        check = Sql(third.connect(database=DATABASE))
        check(WITH_THE_OTHERS)
        wait_for_all(check, clients)
        write_last(clients, proxies[1].gate)
        wait_for_all(check, clients)
        assert_at_rest(check, proxies[1].gate)
    finally:
        clients.stop()
    judge(check, clients)
    offsets = dict(check.rows("SELECT id, queuegate_seq FROM events"))
    assert sorted(offsets.values()) == list(range(1, len(offsets) + 1))
    scheduled = {n for one in clients.transactions for n in one.scheduled}
    for stream in (stream for reader in clients.readers for stream in reader.streams):
        assert all(one.offset == offsets[one.id] for one in stream), "a number that was given anew"
        assert_in_order([one for one in stream if one.n not in scheduled])
    check.close()
    for node in cluster.nodes:
        with node.connect(database=DATABASE) as connection:
            told = Sql(connection)
            told(WITH_THE_OTHERS)
            assert dict(told.rows("SELECT id, queuegate_seq FROM events")) == offsets
    assert_no_defects(proxies)


def assert_in_order(stream: list[Heard]) -> None:
    """Nothing comes late: a reader goes by the numbers alone."""
    offsets = [one.offset for one in stream]
    assert offsets == sorted(offsets)


def assert_no_defects(proxies: list[Proxy]) -> None:
    for proxy in proxies:
        assert "Traceback" not in proxy.gate.log


def test_what_a_node_that_was_away_commits_is_not_passed_over(cluster, gate_at):
    """A transaction is open on a node that is stopped, is put out of the cluster, and comes back. What becomes of it is
    the cluster's; if it is committed, after others were numbered, every reader has it."""
    first, _, third = cluster.nodes
    gate = gate_at(first)
    client = Sql(gate.connect())
    client("CREATE TOPIC late (n INT)")
    client("CREATE GROUP g ON late")
    away = third.connect(database="main", autocommit=False)
    Sql(away)("INSERT INTO late (n) VALUES (0)")
    with (
        Stream(gate, "SELECT n FROM STREAM late WITH (group = 'g', prefetch = 500)") as member,
        Stream(gate, "SELECT n FROM STREAM late WITH (mode = 'broadcast')") as everybody,
    ):
        third.pause()
        try:
            members = (
                "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'wsrep_cluster_size'"
            )
            wait_until(lambda: client.value(members) == "2", 60, "the others to put it out")
            for n in range(1, 101):
                client("INSERT INTO late (n) VALUES (%s)", n)
            for stream in (member, everybody):
                stream.wait(100, 30)
        finally:
            third.resume()
        wait_until(third.is_synced, 90, "it to be back")
        with contextlib.suppress(*AWAY):
            away.commit()
        client(WITH_THE_OTHERS)
        client("INSERT INTO late (n) VALUES (101)")
        there = client.column("SELECT n FROM late")
        print("the transaction of the node that was away", "holds" if 0 in there else "does not hold")
        for stream in (member, everybody):
            assert sorted(n for (n,) in stream.wait(len(there), 30)) == sorted(there)
        assert [n for (n,) in everybody.rows] == client.column("SELECT n FROM late ORDER BY queuegate_seq")
    client("DROP GROUP g ON late")
    client("DROP TOPIC late")
    client.close()
    away._force_close()

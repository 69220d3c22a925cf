"""Proxies on the nodes of a Galera cluster: one receiver for each lease, nothing lost, nothing late."""

from __future__ import annotations

import time

import pytest
from faults.leases import Clients, Field, Q
from servers import Gate, Sql, Stream, wait_until
from slowness import scaled


def linked(*gates):
    for gate in gates:
        wait_until(lambda gate=gate: "linked to another proxy" in gate.log, 30, "the proxies to find each other")


@pytest.mark.timeout(600)
def test_nothing_is_lost_nor_leased_twice_while_a_proxy_and_a_node_are_killed(cluster, gate_at):
    first, second, third = cluster.nodes
    gates = [gate_at(first), gate_at(second)]
    linked(*gates)
    setup = Sql(gates[0].connect())
    setup("DROP QUEUE IF EXISTS q")
    setup(Q)
    setup.close()
    clients = Clients(gates, Field(20_000, "SET SESSION wsrep_sync_wait = 1"))
    clients.reached(0.3)
    gates[0].kill()
    gates[0].start()
    clients.reached(0.5)
    second.kill()
    second.recover()
    second.join()
    check = Sql(third.connect(database="main"))
    check("SET SESSION wsrep_sync_wait = 1")
    clients.finish(check)
    check.close()
    for node in (first, second):
        with node.connect(database="main") as connection:
            client = Sql(connection)
            client("SET SESSION wsrep_sync_wait = 1")
            assert client.value("SELECT COUNT(*) FROM q WHERE time_acked IS NOT NULL") == 20_000


def test_a_message_reaches_a_receiver_at_another_node_at_once(cluster, gate_at):
    """The proxy there hears of it before its node has it, and must not look in vain: its next poll is a minute away."""
    here, there = gate_at(cluster.nodes[0]), gate_at(cluster.nodes[1])
    linked(here, there)
    client = Sql(here.connect())
    client("CREATE QUEUE beyond (n INT) WITH (ack_wait = '1h', max_backoff = '2h', poll_interval = '60s')")
    waited = []
    with Stream(there, "SELECT id, n FROM STREAM beyond") as stream:
        for n in range(300):
            begun = time.monotonic()
            client("INSERT INTO beyond (n) VALUES (%s)", n)
            stream.wait(n + 1, 30)
            waited.append(time.monotonic() - begun)
    assert max(waited) < scaled(5), sorted(waited)[-5:]
    client("DROP QUEUE beyond")
    client.close()


@pytest.mark.parametrize("stalled", [False, True], ids=["at_once", "once_its_node_commits_again"])
def test_what_a_lost_receiver_held_goes_to_a_receiver_at_another_node(cluster, gate_at, stalled):
    """One proxy tells the other when its node has committed it, and not before: the next poll is a minute away."""
    here, there = gate_at(cluster.nodes[0]), gate_at(cluster.nodes[1])
    linked(here, there)
    client, node = Sql(here.connect()), Sql(cluster.nodes[1].connect())
    client("CREATE QUEUE handed (n INT) WITH (ack_wait = '1h', max_backoff = '2h', poll_interval = '60s')")
    holder = Stream(there, "SELECT id FROM STREAM handed WITH (prefetch = 2)")
    client("INSERT INTO handed (n) VALUES (1), (2)")
    held = [id_ for (id_,) in holder.wait(2)]
    with Stream(here, "SELECT id, epoch FROM STREAM handed") as heir:
        client("INSERT INTO handed (n) VALUES (3)")
        heir.wait(1)
        if stalled:
            node("FLUSH TABLES WITH READ LOCK")
        holder.close()
        if stalled:
            waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'Waiting for backup lock'"
            wait_until(lambda: node.value(waiting), what="the proxy there to give the messages back")
            assert len(heir.rows) == 1
            node("UNLOCK TABLES")
        assert sorted(heir.wait(3, 10)[1:]) == [(id_, 2) for id_ in held]
    client("DROP QUEUE handed")
    client.close()
    node.close()


def test_a_claim_that_loses_to_another_node_claims_nothing(cluster, gate_at):
    """Two proxies, one message at a time, receivers at both: each is had once."""
    gates = [gate_at(cluster.nodes[0]), gate_at(cluster.nodes[1])]
    linked(*gates)
    client = Sql(gates[0].connect())
    client("CREATE QUEUE raced (n INT) WITH (ack_wait = '1h', max_backoff = '2h', poll_interval = '1s')")
    with Stream(gates[0], "SELECT id FROM STREAM raced") as one, Stream(gates[1], "SELECT id FROM STREAM raced") as two:
        for n in range(300):
            client("INSERT INTO raced (n) VALUES (%s)", n)
        wait_until(lambda: len({*one.ids(), *two.ids()}) >= 300, 60, "all messages")
        assert len({*one.ids(), *two.ids()}) == len(one.rows) + len(two.rows) == 300
        assert one.rows and two.rows, "both take part"
    assert client.column("SELECT DISTINCT epoch FROM raced") == [1]
    client("DROP QUEUE raced")
    client.close()


def test_a_topic_without_numbers_is_not_read_in_order(cluster, gate_at):
    """Nor where the session says that ids follow each other. The error says how to give it numbers."""
    client = Sql(gate_at(cluster.nodes[0]).connect())
    client("SET SESSION auto_increment_increment = 1")
    client("CREATE TOPIC written (n INT) WITH (retain = '1h', sequence = 'off')")
    client("INSERT INTO written (n) VALUES (1), (2)")
    begins = "CREATE GROUP readers ON written START AT EARLIEST"
    for statement in (
        begins,
        "SELECT * FROM STREAM written WITH (mode = 'broadcast', start = 'earliest')",
        "SELECT * FROM STREAM written LIMIT 1 WITH (mode = 'broadcast', start = 'latest')",
    ):
        errno, text = client.error(statement)
        assert (errno, "SET (sequence = 'on')" in text) == (1235, True), (statement, text)
    client("SET SESSION auto_increment_increment = 3")
    assert "SET (sequence = 'on')" in client.error(begins)[1]
    assert client.column("SELECT n FROM STREAM written SINCE EARLIEST") == [1, 2]
    assert client.rows("SHOW GROUPS ON written") == []
    client("ALTER TOPIC written SET (sequence = 'on')")
    client(begins)
    assert client.column("SELECT n FROM STREAM written WITH (group = 'readers') NOWAIT") == [1, 2]
    client("DROP GROUP readers ON written")
    client("DROP TOPIC written")
    client.close()


def test_a_restored_group_is_not_fed_where_its_topic_has_no_numbers(cluster, gate_at, tmp_path):
    """Its definition is taken from the embedded backend, as from another server's dump."""
    client = Sql(gate_at(cluster.nodes[0]).connect())
    client("CREATE TOPIC dumped (n INT) WITH (retain = '1h', sequence = 'off')")
    other = Gate(f"sqlite:///{tmp_path}/queue.db", tmp_path).start()
    try:
        source = Sql(other.connect())
        source("CREATE TOPIC dumped (n INT) WITH (retain = '1h')")
        source("CREATE GROUP readers ON dumped START AT EARLIEST")
        ((_, definition, *_),) = source.rows("SHOW CREATE TABLE dumped_group_readers")
        source.close()
    finally:
        other.stop()
    client(definition)
    client("INSERT INTO dumped (n) VALUES (1)")
    assert client.error("ALTER GROUP readers ON dumped SEEK TO EARLIEST")[0] == 1235
    assert "Galera cluster" in str(client.rows("SHOW GROUPS ON dumped"))
    assert client.error("SELECT * FROM STREAM dumped LIMIT 1 WAIT 5 WITH (group = 'readers')")[0] == 1235
    assert "DROP GROUP them first: readers" in client.error("ALTER TOPIC dumped SET (sequence = 'on')")[1]
    client("DROP GROUP readers ON dumped")
    client("DROP TOPIC dumped")
    client.close()


def test_topics_have_no_partitions_on_a_cluster(cluster, gate_at):
    """LOCK TABLES of one node holds no transaction of another, so nothing is known to be settled."""
    client = Sql(gate_at(cluster.nodes[0]).connect())
    client("CREATE TOPIC whole (n INT) WITH (retain = '7d')")
    for statement in (
        "CREATE TOPIC parts (n INT) WITH (retain = '7d', partition = '1d')",
        "ALTER TOPIC whole SET (partition = '1d')",
    ):
        errno, text = client.error(statement)
        assert errno == 1235
        assert "Galera" in text
    assert {"whole", "parts"} & set(client.column("SHOW TOPICS")) == {"whole"}
    client("DROP TOPIC whole")
    client.close()


def test_a_message_of_a_topic_reaches_readers_at_another_node_at_once(cluster, gate_at):
    """Of two proxies one numbers it, and the other must not wait for its next look, which is a minute away."""
    here, there = gate_at(cluster.nodes[0]), gate_at(cluster.nodes[1])
    linked(here, there)
    client = Sql(here.connect())
    client("CREATE TOPIC beyond (n INT)")
    client("CREATE GROUP g ON beyond WITH (ack_wait = '1h', max_backoff = '2h', poll_interval = '60s')")
    waited = []
    reading = "SELECT n FROM STREAM beyond WITH (mode = 'broadcast')"
    with (
        Stream(there, "SELECT n FROM STREAM beyond WITH (group = 'g')") as member,
        Stream(there, reading) as one,
        Stream(here, reading) as two,
    ):
        for n in range(200):
            begun = time.monotonic()
            client("INSERT INTO beyond (n) VALUES (%s)", n)
            for stream in (member, one, two):
                stream.wait(n + 1, 30)
            waited.append(time.monotonic() - begun)
    assert max(waited) < scaled(4), sorted(waited)[-5:]
    print("until three readers have a message:", sorted(waited)[100], "at most", max(waited))
    client("DROP GROUP g ON beyond")
    client("DROP TOPIC beyond")
    client.close()

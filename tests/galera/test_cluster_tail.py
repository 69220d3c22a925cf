"""Spark's mode=tail on a Galera cluster: by the numbers of a topic's messages, whichever node they are read from."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import write_calls
from servers import Sql, wait_until
from spark_stand_in import Checkpoint, Query, make_source, read

from spark_connector.errors import QueueError

TAIL = {"mode": "tail", "startingOffsets": "earliest"}
TASK_IS_THERE = (
    "SELECT COUNT(*) FROM information_schema.processlist"
    " WHERE (info LIKE '%queuegate_seq > 1 %' OR info LIKE '%STRAIGHT_JOIN%'"
    " OR info LIKE 'UPDATE `queuegate_spark_checkpoints%') AND id <> CONNECTION_ID()"
)
COMMITTER_WAITS = (
    "SELECT COUNT(*) FROM information_schema.processlist"
    " WHERE (info LIKE 'START TRANSACTION%' OR info LIKE 'INSERT INTO `queuegate_spark_log`%')"
)


def test_messages_of_all_nodes_come_once_in_one_order_and_late_ones_late(cluster, gate_at):
    here, there = gate_at(cluster.nodes[0]), gate_at(cluster.nodes[1])
    one, other = Sql(here.connect()), Sql(there.connect())
    one("CREATE TOPIC tailed (payload VARCHAR(20))")
    one("SET SESSION wsrep_sync_wait = 1")
    slow = there.connect(autocommit=False)
    Sql(slow)("INSERT INTO tailed (payload) VALUES ('slow')")
    queries = [Query(make_source(gate, "tailed", **TAIL), Checkpoint()) for gate in (here, there)]
    for n in range(20):
        (one, other)[n % 2](f"INSERT INTO tailed (payload) VALUES ('{n}')")
        queries[n // 2 % 2].batch()  # reads and numbers what is there, at either node
    slow.commit()
    other("INSERT INTO tailed (payload) VALUES ('last')")
    for query in queries:
        wait_until(lambda query=query: query.batch() is not None and len(query.out) >= 22, 60, "all messages")
        assert not query.plan()
    numbers = one.column("SELECT queuegate_seq FROM tailed ORDER BY queuegate_seq")
    order = one.column("SELECT payload FROM tailed ORDER BY queuegate_seq")
    assert numbers == list(range(1, 23))
    assert [payload for _, payload in queries[0].out] == [payload for _, payload in queries[1].out] == order
    assert order.index("slow") >= 20  # its transaction began first
    for query in queries:
        query.kill()
    one("DROP TOPIC tailed")
    for connection in (one, other):
        connection.close()
    slow.close()


@pytest.mark.parametrize("options", [TAIL, {"mode": "queue"}], ids=lambda options: options["mode"])
def test_a_task_at_a_node_that_is_behind_reads_all_of_its_micro_batch(cluster, gate_at, options):
    here, there = gate_at(cluster.nodes[0]), gate_at(cluster.nodes[1])
    client, node = Sql(here.connect()), Sql(cluster.nodes[1].connect(database="main"))
    kind = "TOPIC" if options is TAIL else "QUEUE"
    client(f"CREATE {kind} behind (payload VARCHAR(20))")
    client("INSERT INTO behind (payload) VALUES ('first')")
    query, task = Query(make_source(here, "behind", **options), Checkpoint()), make_source(there, "behind", **options)
    wait_until(query.batch, what="the first message, with which all tables are made")
    node("FLUSH TABLES WITH READ LOCK")  # from now on it applies nothing
    try:
        client("INSERT INTO behind (payload) VALUES ('a'), ('b')")
        wait_until(query.plan, what="the micro-batch")
        parts = query.parts()
        assert node.value("SELECT COUNT(*) FROM behind") == 1
        with ThreadPoolExecutor(1) as tasks:
            reading = tasks.submit(lambda: [row for part in parts for row in read(task, part)])
            try:
                wait_until(lambda: reading.done() or node.value(TASK_IS_THERE), 30, "the task to read")
            finally:
                node("UNLOCK TABLES")  # the task would wait for ever
            assert [payload for _, payload in reading.result(60)] == ["a", "b"]
    finally:
        node.close()
    query.kill()
    task.stop()
    client(f"DROP {kind} behind")
    client.close()


def test_a_write_is_published_whole_at_a_node_that_is_behind(cluster, gate_at):
    here, there = gate_at(cluster.nodes[0]), gate_at(cluster.nodes[1])
    client, node = Sql(here.connect()), Sql(cluster.nodes[1].connect(database="main"))
    client("CREATE QUEUE whole (n BIGINT, payload VARCHAR(20))")
    client("CREATE TABLE large (n BIGINT PRIMARY KEY) ENGINE=InnoDB")
    rows = write_calls.messages(0, 3)
    tasks, committer = (write_calls.batch(gate, "whole", rows, txnAppId="a", txnVersion=0) for gate in (here, there))
    node("FLUSH TABLES WITH READ LOCK")  # from now on it applies nothing
    try:
        client("INSERT INTO large SELECT seq FROM seq_1_to_400000")  # it is behind for a while after that, too
        staged = [write_calls.task(tasks, rows) for _ in range(20)]
        with ThreadPoolExecutor(1) as threads:
            publishing = threads.submit(committer.commit, staged)
            try:
                wait_until(lambda: publishing.done() or node.value(COMMITTER_WAITS), 30, "the committer")
            finally:
                node("UNLOCK TABLES")
            publishing.result(60)
    finally:
        node.close()
    assert client.value("SELECT COUNT(*) FROM whole") == 60
    client("DROP QUEUE whole")
    client("DROP TABLE large")
    client.close()


def test_what_has_no_numbers_is_refused(cluster, gate_at):
    gate = gate_at(cluster.nodes[0])
    client = Sql(gate.connect())
    client("CREATE TOPIC unnumbered (payload VARCHAR(20)) WITH (sequence = 'off')")
    client("CREATE QUEUE queued (payload VARCHAR(20))")
    with pytest.raises(QueueError, match=r"ALTER TOPIC unnumbered SET \(sequence = 'on'\)"):
        make_source(gate, "unnumbered", **TAIL).initial_offset()
    with pytest.raises(QueueError, match="read the queue with mode=queue"):
        make_source(gate, "queued", **TAIL).initial_offset()
    client("ALTER TOPIC unnumbered SET (sequence = 'on')")
    client("INSERT INTO unnumbered (payload) VALUES ('a')")
    query = Query(make_source(gate, "unnumbered", **TAIL), Checkpoint())
    assert [payload for _, payload in query.batch()] == ["a"]
    query.kill()
    client("DROP TOPIC unnumbered")
    client("DROP QUEUE queued")
    client.close()

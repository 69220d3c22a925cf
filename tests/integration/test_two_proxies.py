"""Several proxies in front of one database: nothing is handed out twice, and each takes over from the other."""

from __future__ import annotations

from contextlib import closing

import mysql.connector
import pytest
from servers import Gate, Sql, Stream, free_port, in_threads, wait_until

from console.sampler import read_counters
from engine.model.queue import QueueName

pytestmark = pytest.mark.long


@pytest.fixture
def pair(mariadb, tmp_path):
    """Two gates on one database with one queue; its safety scan comes too late for any test."""
    url = mariadb.fresh_database("shared")
    gates = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        gate = Gate(url, tmp_path / name, database="shared").start()
        if not gates:
            client = Sql(gate.connect())
            client("CREATE QUEUE q (n INT) WITH (poll_interval = '1h', ack_wait = '1h', max_backoff = '2h')")
            client.close()
        gates.append(gate)
    wait_until(
        lambda: all("linked to another proxy" in gate.log for gate in gates), what="the proxies to find each other"
    )
    yield gates
    for gate in gates:
        gate.stop()


def test_each_message_goes_to_one_receiver_of_all_proxies(pair):
    total = 3000
    streams = [Stream(gate, "SELECT id, n FROM STREAM q WITH (prefetch = 5000)") for gate in pair for _ in range(2)]

    def produce(gate: Gate, first: int) -> None:
        client = Sql(gate.connect())
        for n in range(first, total, 40):
            client("INSERT INTO q (n) VALUES " + ", ".join(f"({k})" for k in range(n, min(n + 20, total))))
        client.close()

    in_threads(produce, [(pair[0], 0), (pair[1], 20)])
    wait_until(lambda: sum(len(stream.rows) for stream in streams) >= total, 60, "all messages")
    got = [row[1] for stream in streams for row in stream.rows]
    assert sorted(got) == list(range(total))
    check = Sql(pair[0].connect())
    assert check.rows("SELECT epoch, COUNT(*) FROM q GROUP BY epoch") == [(1, total)]
    check.close()
    for stream in streams:
        stream.close()


def test_an_ack_through_the_other_proxy_counts(pair):
    one, other = (Sql(gate.connect()) for gate in pair)
    one("INSERT INTO q (n) VALUES (1)")
    assert one.column("SELECT id FROM STREAM q LIMIT 1 WAIT 5") == [1]
    assert other("ACK q 1") == 1
    assert one("ACK q 1") == 0
    one.close()
    other.close()


def test_a_queue_that_is_made_again_has_its_new_columns_at_the_other_proxy(pair):
    one, other = (Sql(gate.connect()) for gate in pair)
    for columns in ("a INT", "b INT", "a INT, b INT"):
        one("CREATE QUEUE again (" + columns + ")")
        other("INSERT INTO again (id) VALUES (1)")
        assert other.rows("SELECT * FROM STREAM again LIMIT 1 WAIT 5") == [(1, *(None for _ in columns.split(",")))]
        one("DROP QUEUE again")
    one.close()
    other.close()


def test_a_new_queue_has_only_its_own_definition_read(pair):
    """Else each CREATE QUEUE would take as long as there are queues, at every proxy."""
    one = Sql(pair[0].connect())
    for number in range(30):
        one(f"CREATE QUEUE many_{number} (n INT)")

    def definitions_read() -> int:
        return int(one.rows("SHOW GLOBAL STATUS LIKE 'Com_show_create_table'")[0][1])

    fewest: dict[str, int] = {}
    statements = "CREATE QUEUE last (n INT)", "ALTER QUEUE last SET (ack_wait = '5s')", "DROP QUEUE last"
    for sql in statements * 3:  # beside one of them, all may be read for another reason
        before = definitions_read()
        one(sql)
        fewest[sql] = min(definitions_read() - before, fewest.get(sql, 1000))
    assert max(fewest.values()) <= 6, fewest
    one.close()


def test_messages_of_a_stopped_proxy_stay_with_who_has_them(pair):
    """Their receiver goes on, and acks through the other; what it gives up goes to others at once."""
    first, second = pair
    receiver = Stream(first, "SELECT n FROM STREAM q")
    client = Sql(second.connect())
    client("INSERT INTO q (n) VALUES (1), (2)")
    receiver.wait(2)
    assert first.terminate() == 0
    receiver.close()
    heir = Stream(second, "SELECT n FROM STREAM q")
    client("INSERT INTO q (n) VALUES (3)")
    assert heir.wait(1) == [(3,)]
    assert client("ACK q 1") == 1
    assert client("RELEASE q 2") == 1
    assert sorted(heir.wait(2)) == [(2,), (3,)]
    heir.close()
    client.close()


@pytest.mark.parametrize("prepared", [False, True])
def test_a_queue_made_through_one_proxy_is_known_to_the_other(pair, prepared):
    one, other = Sql(pair[0].connect()), connector(pair[1])
    with closing(other), other.cursor(prepared=prepared) as cursor:
        one("CREATE QUEUE fresh (n INT)")
        one("INSERT INTO fresh (n) VALUES (5)")
        cursor.execute("SELECT n FROM STREAM fresh LIMIT 1 WAIT 5")
        assert cursor.fetchall() == [(5,)]
        cursor.execute("SELECT 1")
        cursor.fetchall()
    one.close()


def test_what_one_commits_a_receiver_of_the_other_has_at_once(pair):
    receiver = Stream(pair[1], "SELECT n FROM STREAM q")
    client = Sql(pair[0].connect())
    for n in range(20):
        client("INSERT INTO q (n) VALUES (%s)", n)
        assert receiver.wait(n + 1, 5)[n] == (n,)
    receiver.close()
    client.close()


def test_an_ack_at_one_makes_room_at_the_other(pair):
    receiver = Stream(pair[1], "SELECT id FROM STREAM q WITH (prefetch = 1)")
    client = Sql(pair[0].connect())
    client("INSERT INTO q (n) VALUES (1), (2)")
    (first,) = receiver.wait(1)[0]
    client("ACK q %s", first)
    assert len(receiver.wait(2, 5)) == 2
    receiver.close()
    client.close()


@pytest.mark.parametrize("query", ["QUERY ", ""])
def test_a_stream_at_one_is_listed_and_killed_at_the_other(pair, query):
    receiver = Stream(pair[1], "SELECT n FROM STREAM q")
    client = Sql(pair[0].connect())
    wait_until(
        lambda: any(row[0] == receiver.id and "STREAM" in str(row[7]) for row in client.rows("SHOW PROCESSLIST")),
        what="the stream in the other's list",
    )
    assert [row[:2] for row in client.rows("SHOW QUEUES") if row[1] == "q" or row[0] == "q"]
    client(f"KILL {query}{receiver.id}")
    assert receiver.wait_end(5) is not None
    receiver.close()
    client.close()


def test_with_accounts_of_their_own_an_id_of_one_is_nobodys_at_the_other(mariadb, tmp_path):
    """A client that a balancer sends to the other proxy, such as a worker that stops, ends nobody's statement there."""
    gates = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        users = [{"name": "app", "password": "x"}]
        gates.append(
            Gate(mariadb.fresh_database(name), tmp_path / name, database=name, auth="proxy", users=users).start()
        )
    login = {"user": "app", "password": "x"}
    worker, victim, stopping = (Sql(gates[number].connect(**login)) for number in (0, 1, 1))
    assert worker.connection.thread_id() != victim.connection.thread_id()
    assert stopping.error(f"KILL QUERY {worker.connection.thread_id()}")[0] == 1094
    assert worker.value("SELECT 1") == victim.value("SELECT 1") == 1
    for client in (worker, victim, stopping):
        client.close()
    for gate in gates:
        gate.stop()


def test_a_queue_made_and_dropped_at_one_is_so_at_the_other_when_it_returns(pair):
    one, other = (Sql(gate.connect()) for gate in pair)
    for _ in range(5):
        one("CREATE QUEUE fleeting (n INT)")
        other("INSERT INTO fleeting (n) VALUES (1)")  # known as a queue: so its receivers hear of it
        assert one.rows("SELECT n FROM STREAM fleeting LIMIT 1 WAIT 5") == [(1,)]
        other("DROP QUEUE fleeting")
    one.close()
    other.close()


def test_proxies_that_shall_not_know_each_other(mariadb, tmp_path):
    gate = Gate(mariadb.fresh_database("alone"), tmp_path, database="alone", peers=False).start()
    client = Sql(gate.connect())
    assert client.rows("SHOW TABLES") == [("queuegate_dead_letters",)]
    client.close()
    gate.stop()


def connector(gate: Gate):
    return mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, use_pure=True
    )


def test_the_last_acks_of_groups_through_two_proxies_at_once(pair):
    """Each proxy acks one of the two messages of every order; what follows is sent once, and at once."""
    orders = 40
    setup = Sql(pair[0].connect())
    setup("CREATE QUEUE parts (order_id BIGINT) WITH (group_key = 'order_id', poll_interval = '1h')")
    setup("CREATE QUEUE ready (order_id BIGINT) WITH (poll_interval = '1h')")
    receivers = [Stream(gate, "SELECT order_id FROM STREAM ready") for gate in pair]
    for order in range(orders):
        setup("BEGIN")
        setup(f"INSERT INTO parts (order_id) VALUES ({order}), ({order})")
        setup(f"INSERT INTO ready (order_id) VALUES ({order}) AFTER GROUP {order} OF parts")
        setup("COMMIT")

    def ack(gate: Gate, place: int) -> None:
        client = Sql(gate.connect())
        for order in range(orders):
            client(f"ACK parts {2 * order + place + 1}")
        client.close()

    in_threads(ack, [(pair[0], 0), (pair[1], 1)])
    wait_until(
        lambda: sum(len(receiver.rows) for receiver in receivers) >= orders, what="what follows, long before a scan"
    )
    assert sorted(row[0] for receiver in receivers for row in receiver.rows) == list(range(orders))
    assert setup.value("SELECT COUNT(*) FROM queuegate_groups") == 0
    setup.close()
    for receiver in receivers:
        receiver.close()


def test_proxies_with_several_workers_each(mariadb, tmp_path):
    """Each process of one is linked to each of the other, and to none of its own."""
    url = mariadb.fresh_database("shared_workers")
    gates = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        gates.append(Gate(url, tmp_path / name, database="shared_workers", workers=2).start())
    wait_until(lambda: all(gate.log.count("linked to another proxy") == 4 for gate in gates), what="two links for each")
    client = Sql(gates[0].connect())
    client("CREATE QUEUE q (n INT) WITH (poll_interval = '1h', ack_wait = '1h', max_backoff = '2h')")
    receivers = [Stream(gate, "SELECT n FROM STREAM q WITH (prefetch = 1)") for gate in gates for _ in range(4)]
    client("INSERT INTO q (n) VALUES " + ", ".join(f"({n})" for n in range(8)))
    wait_until(lambda: sum(len(receiver.rows) for receiver in receivers) == 8, 10, "one message for each")
    assert [len(receiver.rows) for receiver in receivers] == [1] * 8
    assert sorted(receiver.rows[0][0] for receiver in receivers) == list(range(8))
    assert "no answer from" not in gates[0].log
    for receiver in receivers:
        receiver.close()
    client.close()
    for gate in gates:
        gate.stop()


def test_consumers_of_all_proxies_are_shown(pair):
    one = Sql(pair[0].connect())
    one("CREATE TOPIC log (n INT)")
    one("CREATE GROUP g ON log")
    streams = [Stream(gate, f"SELECT n FROM STREAM log WITH (consumer = 'at {n}')") for n, gate in enumerate(pair)]
    asked = "SELECT consumer, group_name FROM queuegate.consumers ORDER BY consumer"
    for gate in pair:
        client = Sql(gate.connect())
        wait_until(lambda client=client: client.rows(asked) == [("at 0", "g"), ("at 1", "g")], what="both consumers")
        client.close()
    for stream in streams:
        stream.close()
    one.close()


def test_the_counters_of_one_proxy_tell_what_all_of_them_count(mariadb, tmp_path):
    url = mariadb.fresh_database("counted")
    gates, places = [], []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        places.append(f"127.0.0.1:{free_port()}")
        gates.append(Gate(url, tmp_path / name, database="counted", admin={"listen": places[-1]}).start())
    wait_until(lambda: all("linked to another proxy" in gate.log for gate in gates), what="the link")
    one, other = (Sql(gate.connect()) for gate in gates)
    one("CREATE QUEUE q (n INT)")
    one("INSERT INTO q (n) VALUES (1), (2)")
    wait_until(lambda: "q" in other.column("SHOW QUEUES"), what="the queue at the other proxy")
    other("INSERT INTO q (n) VALUES (3)")
    one.close()
    other.close()

    def enqueued(place):  # a proxy of other tests may serve the same server: it counts, too, for other databases
        samples = read_counters(f"http://{place}/counters")
        of_the_queue = (sample.counters.get(QueueName("counted", "q")) for sample in samples.processes.values())
        return sorted(values[0] for values in of_the_queue if values), samples.missing

    wait_until(lambda: all(enqueued(place) == ([1, 2], 0) for place in places), what="both proxies' counters")
    gates[1].kill()
    wait_until(lambda: enqueued(places[0]) == ([2], 1), what="the other proxy to be missed")
    gates[0].stop()

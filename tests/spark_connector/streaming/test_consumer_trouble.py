"""What a streaming query survives: a killed proxy, lost answers, broken connections; and what it costs while idle."""

from __future__ import annotations

import math
import threading
import time

import pymysql
import pytest
from servers import Gate, Sql, Stream, wait_until
from slowness import scaled
from spark_stand_in import Checkpoint, Query, make_source

from spark_connector.client.reconnecting import ReconnectingClient
from spark_connector.errors import ConnectionFailed, ConnectorError
from spark_connector.options import Address
from spark_connector.streaming.consumer import Heartbeat


@pytest.fixture
def own(new_gate):
    """A gate to be killed, with a queue of 40 messages, and the way to ask it afterwards."""
    gate = new_gate().start()
    sql = Sql(gate.connect())
    sql("CREATE QUEUE q (payload VARCHAR(20))")
    sql(f"INSERT INTO q (payload) VALUES {', '.join(f'({n!r})' for n in map(str, range(40)))}")
    sql.close()
    return gate


def restart_soon(gate: Gate) -> threading.Timer:
    gate.kill()
    timer = threading.Timer(0.5, gate.start)
    timer.start()
    return timer


def state(gate: Gate) -> dict[str, int]:
    sql = Sql(gate.connect())
    found = sql.rows("SELECT state, COUNT(*) FROM q GROUP BY state")
    sql.close()
    return {str(name): int(count) for name, count in found}


def test_a_proxy_that_is_killed_and_started_again_ends_no_query(own):
    query = Query(make_source(own, "q"), Checkpoint(), limit=10)
    came = [query.batch()]
    for moment in (query.plan, query.run):
        timer = restart_soon(own)
        if moment == query.run:
            came.append(query.run())
            query.finish()
        else:
            assert query.plan()
        timer.join()
    timer = restart_soon(own)
    query.drain()  # the ack first of all
    timer.join()
    assert sorted(int(payload) for rows in (*came[1:], query.out) for _, payload in rows) == list(range(40))
    assert state(own) == {"acked": 40}
    query.kill()


def test_a_database_that_is_killed_and_started_again_ends_no_query(own_mariadb, tmp_path):
    gate = Gate(own_mariadb.url(), tmp_path).start()
    sql = Sql(gate.connect())
    sql("CREATE QUEUE q (payload VARCHAR(20))")
    sql(f"INSERT INTO q (payload) VALUES {', '.join(f'({n!r})' for n in map(str, range(30)))}")
    query = Query(make_source(gate, "q"), Checkpoint(), limit=10)
    assert len(query.batch()) == 10
    own_mariadb.kill()
    timer = threading.Timer(0.5, own_mariadb.start)
    timer.start()
    assert len(query.drain()) == 30
    timer.join()
    assert state(gate) == {"acked": 30}
    query.kill()
    sql.connection._force_close()
    gate.stop()


@pytest.mark.parametrize("holds", [True, False], ids=["it was committed", "it was not"])
def test_a_commit_without_an_answer_neither_loses_nor_doubles(begin, sql, queue, monkeypatch, holds):
    name = queue()
    sql(f"INSERT INTO {name} (payload) VALUES ('a'), ('b'), ('c')")
    query = begin(name, limit=2)
    lost = LostAnswers(monkeypatch, holds)
    for _ in range(3):
        lost.next_commit()
        query.batch()
    assert lost.count == 3
    assert [payload for _, payload in query.out] == ["a", "b", "c"]
    assert not query.plan()
    assert sql.value(f"SELECT COUNT(*) FROM {name} WHERE state = 'acked' AND epoch = 1") == 3


class LostAnswers:
    """The line breaks at a COMMIT, behind it or before it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, holds: bool) -> None:
        self.count, self._passed = 0, math.inf  # commits before the one
        commit = pymysql.connections.Connection.commit

        def breaking(connection: pymysql.Connection) -> None:
            self._passed -= 1
            if self._passed == -1:
                self.count += 1
                if holds:
                    commit(connection)
                connection._force_close()
                raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")
            commit(connection)

        monkeypatch.setattr(pymysql.connections.Connection, "commit", breaking)

    def next_commit(self, after: int = 0) -> None:
        self._passed = after


@pytest.mark.parametrize("holds", [True, False], ids=["it was committed", "it was not"])
@pytest.mark.parametrize("after", [0, 1], ids=["of the start", "of the delivery"])
def test_a_repeated_micro_batch_is_delivered_once_where_an_answer_is_lost(begin, sql, queue, monkeypatch, holds, after):
    """A second time would be one more attempt, and the last one would end in the dead-letter queue."""
    name = queue(max_attempts=2)
    sql(f"INSERT INTO {name} (payload) VALUES ('a'), ('b')")
    first = begin(name)
    assert first.plan()
    first.run()
    first.kill()
    again = begin(name, first.checkpoint)
    assert again.plan()
    lost = LostAnswers(monkeypatch, holds)
    lost.next_commit(after)
    assert len(again.run()) == 2 and lost.count == 1
    assert sql.column(f"SELECT DISTINCT epoch FROM {name}") == [2]
    again.finish()
    assert not again.plan()
    assert sql.value(f"SELECT COUNT(*) FROM {name} WHERE state = 'acked'") == 2


def test_a_receiver_beside_the_query_gets_the_rest(begin, gate, sql, queue):
    """Each message goes to the query or to the receiver, and all of them are acked in the end."""
    name = queue()
    with Stream(gate, f"SELECT id FROM STREAM {name} WITH (prefetch = 7, ack_wait = '5m')") as other:
        query = begin(name, limit=10, pollTimeoutMs=50)
        for first in range(0, 200, 20):
            sql(f"INSERT INTO {name} (payload) VALUES {', '.join(f'({n})' for n in range(first, first + 20))}")
            query.batch()
            for id_ in other.ids():
                sql(f"ACK {name} {id_}")
        deadline = time.monotonic() + scaled(30)
        while sql.value(f"SELECT COUNT(*) FROM {name} WHERE time_acked IS NULL") and time.monotonic() < deadline:
            query.batch()
            for id_ in other.ids():
                sql(f"ACK {name} {id_}")
        mine, others = {id_ for id_, _ in query.out}, set(other.ids())
    assert not mine & others
    assert len(mine) + len(others) == 200
    assert len(query.out) == len(mine)


def test_a_message_that_comes_while_the_query_waits_is_taken_at_once(begin, gate, queue):
    name = queue()
    query = begin(name, pollTimeoutMs=20_000)
    assert query.source.initial_offset()

    def insert() -> None:
        client = Sql(gate.connect())
        client(f"INSERT INTO {name} (payload) VALUES ('x')")
        client.close()

    timer = threading.Timer(0.3, insert)
    timer.start()
    began = time.monotonic()
    assert len(query.batch()) == 1
    assert time.monotonic() - began < scaled(15)
    timer.join()


# --- the line


def refused_address() -> Address:
    return Address("127.0.0.1", 1, "root", "", "main", connect_timeout=1)


def test_a_proxy_that_stays_away_is_one_error_in_time():
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    line = ReconnectingClient(refused_address(), clock=lambda: now[0], sleep=sleep)
    with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:1"):
        line.run(lambda client: client.value("SELECT 1"))
    assert 25 < now[0] <= 30


def test_an_error_that_does_not_pass_is_told_at_once(gate):
    slept: list[float] = []
    line = ReconnectingClient(Address("127.0.0.1", gate.port, "root", "", gate.database), sleep=slept.append)
    with pytest.raises(ConnectorError, match="1146"):
        line.run(lambda client: client.value("SELECT 1 FROM no_such_table"))
    assert slept == []
    assert line.run(lambda client: client.value("SELECT 1")) == 1
    line.close()


def test_an_account_that_is_refused_is_not_tried_again(gate):
    slept: list[float] = []
    line = ReconnectingClient(Address("127.0.0.1", gate.port, "nobody", "wrong", gate.database), sleep=slept.append)
    with pytest.raises(ConnectionFailed, match="nobody"):
        line.run(lambda client: client.value("SELECT 1"))
    assert slept == []


# --- the heartbeat


def test_a_heartbeat_beats_at_once_and_again_and_outlives_errors():
    beats = threading.Semaphore(0)

    def beat() -> None:
        beats.release()
        raise ConnectorError("the proxy is away")

    heartbeat = Heartbeat(beat, 0.01)
    heartbeat.start()
    assert all(beats.acquire(timeout=10) for _ in range(3))
    heartbeat.stop()


def test_a_heartbeat_ends_with_the_process_that_wanted_it():
    parent = [7]
    beats: list[int] = []
    heartbeat = Heartbeat(lambda: beats.append(1), 0.01, parent=lambda: parent[0])
    heartbeat.start()
    wait_until(lambda: beats, what="a beat")
    parent[0] = 1
    wait_until(lambda: not heartbeat._thread.is_alive(), what="its end")

"""Limits, order and ALTER QUEUE with two proxies on one database, linked and not, one of them killed in the middle."""

from __future__ import annotations

import contextlib
import itertools
import re
import threading

import pymysql
import pytest
from servers import Gate, Sql, Stream, wait_until
from slowness import scaled

pytestmark = pytest.mark.long

_numbers = itertools.count(1)


@pytest.fixture
def proxies(mariadb, tmp_path):
    """Makes two gates on one empty database; keyword arguments are configuration keys."""
    gates: list[Gate] = []

    def make(**config):
        database = f"limits_{next(_numbers)}"
        url = mariadb.fresh_database(database)
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            gates.append(Gate(url, tmp_path / name, database=database, **config).start())
        if config.get("peers", True):
            linked = lambda: all("linked to another proxy" in gate.log for gate in gates)  # noqa: E731
            wait_until(linked, what="the proxies to find each other")
        return gates

    yield make
    for gate in gates:
        gate.stop()


@pytest.mark.parametrize("peers", [True, False])
def test_a_place_freed_through_the_other_proxy_is_used(proxies, peers):
    first, second = proxies(peers=peers)
    one, other = Sql(first.connect()), Sql(second.connect())
    one("CREATE QUEUE q (n INT) WITH (max_concurrency = 1, poll_interval = '10m')")
    wait_until(lambda: "q" in other.column("SHOW QUEUES") or other.rows("SELECT * FROM STREAM q NOWAIT") == [])
    receiver = Stream(first, "SELECT id FROM STREAM q")
    one("INSERT INTO q (n) VALUES (1), (2), (3)")
    for id_ in (1, 2, 3):
        receiver.wait(id_)
        assert other(f"ACK q {id_}") == 1
    wait_until(lambda: one.value("SELECT COUNT(*) FROM q WHERE time_acked IS NULL") == 0)
    receiver.close()
    one.close()
    other.close()


def test_the_next_of_a_key_comes_when_the_other_proxy_acks(proxies):
    first, second = proxies()
    one, other = Sql(first.connect()), Sql(second.connect())
    one("CREATE QUEUE q (k INT) WITH (order_key = 'k', poll_interval = '10m')")
    streams = [Stream(gate, "SELECT id FROM STREAM q") for gate in (first, second)]
    one("INSERT INTO q (k) VALUES " + ", ".join("(7)" for _ in range(20)))
    got = lambda: [id_ for stream in streams for id_ in stream.ids()]  # noqa: E731
    for id_ in range(1, 21):
        wait_until(lambda id_=id_: id_ in got(), what=f"message {id_}")
        assert sorted(got()) == list(range(1, id_ + 1))
        (one if id_ % 2 else other)(f"ACK q {id_}")
    for closing in (*streams, one, other):
        closing.close()


def test_a_pause_holds_at_the_other_proxy_at_once(proxies):
    first, second = proxies()
    one, other = Sql(first.connect()), Sql(second.connect())
    one("CREATE QUEUE q (n INT) WITH (poll_interval = '10m')")
    receiver = Stream(second, "SELECT n FROM STREAM q")
    one("INSERT INTO q (n) VALUES (1)")
    receiver.wait(1)
    one("ALTER QUEUE q PAUSE")
    other("INSERT INTO q (n) VALUES (2)")
    assert other.rows("SELECT n FROM STREAM q LIMIT 1 WAIT 0.3") == []
    assert receiver.rows == [(1,)]
    one("ALTER QUEUE q RESUME")
    receiver.wait(2)
    for closing in (receiver, one, other):
        closing.close()


def test_a_rate_holds_over_both(proxies):
    gates = proxies()
    client = Sql(gates[0].connect())
    client("CREATE QUEUE q (n INT) WITH (max_rate = 40)")
    streams = [Stream(gate, "SELECT id FROM STREAM q") for gate in gates for _ in range(2)]
    client("INSERT INTO q (n) VALUES " + ", ".join(f"({n})" for n in range(100)))
    wait_until(lambda: sum(len(stream.rows) for stream in streams) >= 100, 60, "all messages")
    times = sorted(moment for stream in streams for moment in stream.times)
    assert len(times) == 100
    assert times[-1] - times[0] >= 95 / 40 - 0.2
    for closing in (*streams, client):
        closing.close()


def test_a_table_changed_around_the_proxies_is_noticed(proxies, mariadb):
    """By the periodic look, or by the next statement that fails on it."""
    first, _ = proxies()
    one = Sql(first.connect())
    one("CREATE QUEUE q (n INT) WITH (poll_interval = '1s')")
    receiver = Stream(first, "SELECT n FROM STREAM q")
    around = Sql(mariadb.connect(database=first.database, autocommit=True))
    around("ALTER TABLE q ADD COLUMN extra INT FIRST")
    one("INSERT INTO q (n) VALUES (1)")
    assert receiver.wait(1) == [(1,)]
    around("ALTER TABLE q COMMENT 'vitess_message,vt_ack_wait=30,vt_purge_after=9,vt_batch_size=9,vt_cache_size=9,"
           "vt_poller_interval=1,paused=1'")  # fmt: skip
    wait_until(lambda: "paused" in (one.row("SHOW QUEUES LIKE 'q'")[-1] or ""), 30, "the pause to be seen")
    around("DROP TABLE q")
    error = receiver.wait_end(30)
    assert isinstance(error, pymysql.err.MySQLError) and error.args[0] == 1146
    for closing in (receiver, one, around):
        closing.close()


class Out:
    """What receivers hold, and the rules that it breaks."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.lock = threading.Lock()
        self.held: dict[int, int] = {}
        self.faults: list[str] = []
        self.order: dict[int, list[int]] = {}

    def took(self, id_: int, key: int) -> None:
        with self.lock:
            if key in self.held.values():
                self.faults.append(f"{id_} while another of key {key} is out: {self.held}")
            self.held[id_] = key
            if len(self.held) > self.places:
                self.faults.append(f"{len(self.held)} are out")
            self.order.setdefault(key, []).append(id_)

    def gives(self, id_: int) -> None:
        with self.lock:
            self.held.pop(id_, None)


@pytest.mark.parametrize("sharing", ["shared", "sticky", "exclusive"])
def test_order_and_places_hold_while_a_proxy_is_killed(proxies, sharing):
    """Four receivers at two proxies; one proxy is killed in the middle and started again. Nothing out of order, nothing
    beyond, nothing lost, nothing acked delivered again."""
    gates = proxies()
    total, keys, places = 400, 17, 6
    client = Sql(gates[0].connect())
    ring = "" if sharing == "shared" else ", sharding_key = 'k'"
    client(
        "CREATE QUEUE q (k INT NOT NULL) WITH (order_key = 'k', max_concurrency = 6, ack_wait = '2s', min_backoff = 0,"
        f" poll_interval = '500ms'{ring})"
    )
    client("INSERT INTO q (k) VALUES " + ", ".join(f"({n % keys})" for n in range(total)))
    read = f"SELECT id, k FROM STREAM q LIMIT 2 WAIT 0.2 WITH (keys = '{sharing}')"
    out, acked, again = Out(places), set(), []
    killed, done = threading.Event(), threading.Event()

    def receive(gate: Gate) -> None:
        while not done.is_set():
            mine: list[int] = []
            with contextlib.suppress(pymysql.err.Error, OSError):
                worker = Sql(gate.connect(connect_timeout=2))
                while not done.is_set():
                    for id_, key in worker.rows(read):
                        if id_ in acked:
                            again.append(id_)
                        out.took(id_, key)
                        mine.append(id_)
                    for id_ in list(mine):
                        out.gives(id_)
                        mine.remove(id_)
                        worker(f"ACK q {id_}")
                        acked.add(id_)
                    if len(acked) > total // 3 and gate is gates[1]:
                        killed.set()
                worker.close()
            for id_ in mine:
                out.gives(id_)

    threads = [threading.Thread(target=receive, args=(gate,), daemon=True) for gate in gates for _ in range(2)]
    for thread in threads:
        thread.start()
    assert killed.wait(60)
    gates[1].kill()
    gates[1].start()
    left = "SELECT COUNT(*) FROM q WHERE time_acked IS NULL"  # an ack may hold whose answer was lost
    wait_until(lambda: client.value(left) == 0, 90, "all to be acked")
    done.set()
    for thread in threads:
        thread.join(scaled(20))
    assert not any(thread.is_alive() for thread in threads)
    assert not out.faults, out.faults[:5]
    assert not again and len(acked) > total - 10
    for ids in out.order.values():
        assert list(dict.fromkeys(ids)) == sorted(set(ids)), "a key out of order"
    client.close()


def test_without_the_right_to_its_table_a_queue_is_not_delivered_and_the_log_says_so(mariadb, tmp_path, request):
    database = f"limits_{next(_numbers)}"
    url = mariadb.fresh_database(database)
    admin = Sql(mariadb.connect(autocommit=True))
    admin("CREATE USER IF NOT EXISTS limited_engine@'%' IDENTIFIED BY 'secret'")
    admin("CREATE USER IF NOT EXISTS limited_engine@localhost IDENTIFIED BY 'secret'")
    for host in ("'%'", "localhost"):
        admin(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO limited_engine@{host}")
    gate = Gate(url.replace("//root@", "//limited_engine:secret@"), tmp_path, database=database, peers=False).start()
    request.addfinalizer(gate.stop)
    client = Sql(gate.connect())
    client("CREATE QUEUE q (n INT) WITH (max_concurrency = 1)")
    client("INSERT INTO q (n) VALUES (1), (2)")
    receiver = Stream(gate, "SELECT n FROM STREAM q")
    denied = re.compile("CREATE command denied.*queuegate_limits")
    wait_until(lambda: denied.search(gate.log), what="the log to say what is missing")
    assert receiver.rows == [] and not receiver.ended.is_set()
    for host in ("'%'", "localhost"):
        admin(f"GRANT CREATE ON {database}.queuegate_limits TO limited_engine@{host}")  # holds at once
    assert receiver.wait(1, 60) == [(1,)]
    for closing in (receiver, client, admin):
        closing.close()

"""Sticky and exclusive keys with two proxies on one database: the parts of one that is killed, stands still or has
several workers."""

from __future__ import annotations

import itertools
import os
import signal

import pytest
from servers import Gate, Sql, Stream, wait_until

from engine.model.key_range import SLOTS, shown_key_range

pytestmark = pytest.mark.long

_numbers = itertools.count(1)
USERS = range(80)
_SLOT = "CONV(LEFT(MD5(user_id), 4), 16, 10)"


@pytest.fixture
def proxies(mariadb, tmp_path):
    """Makes two gates on one empty database, of which the second has that many workers."""
    gates: list[Gate] = []

    def make(workers=1):
        database = f"sticky_{next(_numbers)}"
        url = mariadb.fresh_database(database)
        for name, count in (("a", 1), ("b", workers)):
            (tmp_path / name).mkdir()
            gates.append(Gate(url, tmp_path / name, database=database, workers=count).start())
        wait_until(lambda: all("linked to another proxy" in gate.log for gate in gates), what="the links")
        return gates

    yield make
    for gate in gates:
        gate.stop()


def shown(sql):
    """The key range of each receiver, by its name, as that proxy knows them."""
    return {row[13]: shown_key_range(row[-2] or "") for row in sql.rows("SHOW SUBSCRIPTIONS")}


def divided(sql, names):
    """The same once these have the whole ring, and nothing twice."""

    def done():
        ranges = shown(sql)
        length = sum(span.last - span.first + 1 for one in ranges.values() for span in one.spans)
        return ranges.keys() == set(names) and length == SLOTS

    wait_until(done, what=f"the ring to be divided between {names}")
    return shown(sql)


def own(sql, key_range):
    """The users of a key range."""
    slots = sql.rows(f"SELECT DISTINCT user_id, {_SLOT} FROM q")
    return sorted(user for user, slot in slots if key_range.covers(int(slot)))


def receivers(gate, keys, *names, **options):
    texts = [f"keys = '{keys}'", *(f"{name} = {value}" for name, value in options.items())]
    read = f"SELECT user_id FROM STREAM q WITH ({', '.join(texts)}, consumer = '%s')"
    return {name: Stream(gate, read % name) for name in names}


def enqueue(sql):
    sql(f"INSERT INTO q (user_id) VALUES {', '.join(f'({user})' for user in USERS)}")


@pytest.mark.parametrize("workers", [1, 2])
def test_the_receivers_of_all_proxies_divide_the_ring(proxies, workers):
    one, other = proxies(workers)
    sql, at_other = Sql(one.connect()), Sql(other.connect())
    sql("CREATE QUEUE q (user_id INT NOT NULL) SHARDING KEY (user_id) WITH (sticky_wait = '1h', poll_interval = '1h')")
    streams = receivers(one, "sticky", "a1", "a2")
    wait_until(lambda: "q" in at_other.column("SHOW QUEUES"), what="the queue at the other proxy")
    streams |= receivers(other, "sticky", "b1", "b2", "b3")
    ranges = divided(sql, streams)
    assert divided(at_other, streams) == ranges
    enqueue(at_other)
    for name, stream in streams.items():
        wanted = own(sql, ranges[name])
        stream.wait(len(wanted))
        assert sorted(stream.ids()) == wanted != []
    for name in ("a2", "b3"):
        streams.pop(name).close()
    divided(sql, streams)
    for closing in (*streams.values(), sql, at_other):
        closing.close()


@pytest.mark.parametrize("keys", ["sticky", "exclusive"])
def test_the_parts_of_a_proxy_that_is_killed_go_to_the_others(proxies, keys):
    one, other = proxies()
    sql = Sql(one.connect())
    sql("CREATE QUEUE q (user_id INT NOT NULL) SHARDING KEY (user_id) WITH (sticky_wait = '1h', poll_interval = '1h')")
    streams = receivers(one, keys, "stays")
    streams |= receivers(other, keys, "killed")
    divided(sql, streams)
    other.kill()
    divided(sql, ["stays"])
    enqueue(sql)
    assert sorted(user for (user,) in streams["stays"].wait(len(USERS))) == list(USERS)
    other.start()
    streams["back"] = receivers(other, keys, "back")["back"]
    divided(sql, ["stays", "back"])
    for closing in (*streams.values(), sql):
        closing.close()


def test_what_belongs_to_a_proxy_that_stands_still_goes_to_others(proxies):
    one, other = proxies()
    sql = Sql(one.connect())
    sql("CREATE QUEUE q (user_id INT NOT NULL) SHARDING KEY (user_id) WITH (sticky_wait = '200ms')")
    streams = receivers(one, "sticky", "runs")
    streams |= receivers(other, "sticky", "stands still")
    ranges = divided(sql, streams)
    assert other.process is not None
    os.kill(other.process.pid, signal.SIGSTOP)
    try:
        enqueue(sql)
        streams["runs"].wait(len(own(sql, ranges["runs"])))
        assert sorted(user for (user,) in streams["runs"].wait(len(USERS))) == list(USERS)
    finally:
        os.kill(other.process.pid, signal.SIGCONT)
    for closing in (*streams.values(), sql):
        closing.close()

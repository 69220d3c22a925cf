"""The pool of blocking connections: transactions, broken and idle connections, bounds, closing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from engine.backend.pool import IDLE_SECONDS_UNTRIED, PING_SECONDS, SPARE_SECONDS, TRIES_MAX, ThreadPool
from engine.model.errors import BackendError, BackendUnavailable


class FakeConnection:
    """Notes what is done to it; fails as told."""

    def __init__(self, server):
        self.server = server
        self.log = []
        self.closed = False
        self.place = f"{len(server.connections)}@here"
        server.connections.append(self)

    def begin(self):
        self._do("begin")

    def commit(self):
        self._do("commit")

    def rollback(self):
        self._do("rollback")

    def ping(self):
        self._do("ping")

    def end_lost(self, other):
        assert other.closed
        self.server.ended.append(other)
        if "end_lost" in self.server.failing:
            raise self.server.failing["end_lost"]

    def close(self):
        self.closed = True

    def _do(self, what):
        assert not self.closed
        self.log.append(what)
        if what in self.server.failing:
            raise self.server.failing[what]


class Server:
    def __init__(self):
        self.connections = []
        self.failing = {}
        self.ended = []
        self.time = 0.0

    def connect(self):
        if "connect" in self.failing:
            raise self.failing["connect"]
        return FakeConnection(self)


GONE = BackendUnavailable("gone")


@pytest.fixture
def server():
    return Server()


@pytest.fixture
async def pool(server) -> AsyncIterator[ThreadPool]:
    pool = ThreadPool(server.connect, size=2, monotonic=lambda: server.time)
    yield pool
    await pool.close()


def fail(error):
    def work(connection):
        raise error

    return work


async def test_reads_run_outside_a_transaction_and_writes_inside_one(pool, server):
    assert await pool.read(lambda connection: 5) == 5
    assert await pool.write(lambda connection: 6) == 6
    assert [connection.log for connection in server.connections] == [["begin", "commit"]], "one connection, used again"


async def test_a_read_and_a_write_of_what_was_read_are_one_hop_on_one_connection(pool, server):
    threads = []

    def note(value):
        threads.append(threading.get_ident())
        return value

    def then(found):
        assert server.connections[0].log == [], "read outside the transaction"
        return lambda connection: note(found + 1)

    assert await pool.read_then_write(lambda connection: note(5), then) == (5, 6)
    assert len(set(threads)) == 1 and [c.log for c in server.connections] == [["begin", "commit"]]
    assert await pool.read_then_write(lambda connection: note(5), lambda found: None) == (5, None)
    assert server.connections[0].log == ["begin", "commit"], "nothing to write, no transaction"
    with pytest.raises(BackendError):
        await pool.read_then_write(lambda connection: 5, lambda found: fail(BackendError("no")))
    assert server.connections[0].log[2:] == ["begin", "rollback"]


async def test_an_error_rolls_back_and_keeps_the_connection(pool, server):
    with pytest.raises(BackendError):
        await pool.write(fail(BackendError("no")))
    await pool.read(lambda connection: None)
    assert [connection.log for connection in server.connections] == [["begin", "rollback"]]


async def test_a_commit_that_is_refused_is_rolled_back(pool, server):
    server.failing["commit"] = BackendError("a backup begins", 1205)
    with pytest.raises(BackendError, match="backup"):
        await pool.write(lambda connection: 5)
    server.failing.clear()
    await pool.write(lambda connection: 6)
    assert [one.log for one in server.connections] == [["begin", "commit", "rollback", "begin", "commit"]]


async def test_a_defect_rolls_back_and_drops_the_connection(pool, server):
    with pytest.raises(ZeroDivisionError):
        await pool.write(fail(ZeroDivisionError()))
    await pool.read(lambda connection: None)
    assert [connection.closed for connection in server.connections] == [True, False]


@pytest.mark.parametrize("where", ["begin", "work", "commit"])
async def test_a_broken_connection_is_dropped_with_all_idle_ones(pool, server, where):
    both = threading.Barrier(2)
    await asyncio.gather(*(pool.read(lambda connection: both.wait(10)) for _ in range(2)))
    assert len(server.connections) == 2
    server.failing[where] = GONE
    with pytest.raises(BackendUnavailable):
        await pool.write(fail(GONE) if where == "work" else lambda connection: None)
    server.failing.clear()
    await pool.write(lambda connection: None)
    assert [connection.closed for connection in server.connections] == [True, True, False]


async def test_a_connection_idle_for_long_is_tried_first(pool, server):
    await pool.read(lambda connection: None)
    server.time += IDLE_SECONDS_UNTRIED
    await pool.read(lambda connection: None)
    assert server.connections[0].log == ["ping"]
    server.time += IDLE_SECONDS_UNTRIED
    server.failing["ping"] = GONE
    await pool.read(lambda connection: None)
    assert server.connections[0].closed and len(server.connections) == 2


async def kept_awake(pool):
    """What the pool's timer does."""
    await asyncio.wrap_future(pool._executor.submit(pool._ping_idle))


async def test_idle_connections_are_kept_awake_and_need_not_be_tried(pool, server):
    await pool.read(lambda connection: None)
    for _ in range(10):
        server.time += PING_SECONDS
        await kept_awake(pool)
    await pool.read(lambda connection: None)
    assert server.connections[0].log == ["ping"] * 10, "none more before its use"
    server.failing["ping"] = GONE
    server.time += PING_SECONDS
    await kept_awake(pool)
    assert server.connections[0].closed and pool.sessions == ()


async def test_a_look_at_idle_connections_follows_another_as_long_as_there_are_any(server, monkeypatch):
    monkeypatch.setattr("engine.backend.pool.PING_SECONDS", 0.001)
    pool, pinged = ThreadPool(server.connect, size=2), asyncio.Event()
    loop, counts = asyncio.get_running_loop(), []

    def ping(connection):
        counts.append(connection)
        if len(counts) == 3:
            loop.call_soon_threadsafe(pinged.set)

    monkeypatch.setattr(FakeConnection, "ping", ping)
    await pool.read(lambda connection: None)
    await asyncio.wait_for(pinged.wait(), 60)
    await pool.close()


async def test_connections_that_are_in_use_at_a_look_are_pinged_afterwards(server, monkeypatch):
    monkeypatch.setattr("engine.backend.pool.PING_SECONDS", 0.001)
    pool, pinged, loop = ThreadPool(server.connect, size=2), asyncio.Event(), asyncio.get_running_loop()
    monkeypatch.setattr(FakeConnection, "ping", lambda _: loop.call_soon_threadsafe(pinged.set))
    looked, look = asyncio.Event(), pool._start_ping

    def start_ping(loop):
        look(loop)
        looked.set()

    monkeypatch.setattr(pool, "_start_ping", start_ping)
    leave = threading.Event()
    used = asyncio.create_task(pool.read(lambda connection: leave.wait(60)))
    await asyncio.wait_for(looked.wait(), 60)
    leave.set()
    await used
    await asyncio.wait_for(pinged.wait(), 60)
    await pool.close()


async def test_after_a_burst_all_but_one_connection_go_and_the_one_used_last_stays_first(pool, server):
    pair = threading.Barrier(2)
    await asyncio.gather(*(pool.read(lambda connection: pair.wait(10)) for _ in range(2)))
    assert pool.sessions == ("0@here", "1@here")
    used = []
    while server.time < SPARE_SECONDS:
        server.time += PING_SECONDS
        await kept_awake(pool)
        await pool.read(used.append)
    assert len(set(used)) == 1, "what is kept awake does not come before what is used"
    server.time += PING_SECONDS
    await kept_awake(pool)
    assert [connection.closed for connection in server.connections] == [c is not used[0] for c in server.connections]
    server.time += 2 * SPARE_SECONDS
    await kept_awake(pool)
    assert len(pool.sessions) == 1 and not used[0].closed


async def test_never_more_connections_than_its_size(pool, server):
    running, most, lock = 0, 0, threading.Lock()
    pair = threading.Barrier(2)

    def work(connection):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pair.wait(10)
        with lock:
            running -= 1

    await asyncio.gather(*(pool.read(work) for _ in range(10)))
    assert most == 2 and len(server.connections) == 2


async def test_work_goes_on_when_its_caller_is_cancelled(pool, server):
    started, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work(connection):
        started.set()
        go_on.wait(10)
        ended.set()

    task = asyncio.create_task(pool.write(work))
    await asyncio.to_thread(started.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    assert await asyncio.to_thread(ended.wait, 10)
    await pool.close()
    assert server.connections[0].log == ["begin", "commit"] and server.connections[0].closed


async def test_close_twice_and_nothing_after_it(pool, server):
    await pool.read(lambda connection: None)
    await pool.close()
    await pool.close()
    assert all(connection.closed for connection in server.connections)
    with pytest.raises(BackendUnavailable):
        await pool.read(lambda connection: None)


async def test_a_failure_to_connect_is_told_and_tried_again_next_time(pool, server):
    server.failing["connect"] = GONE
    with pytest.raises(BackendUnavailable):
        await pool.read(lambda connection: None)
    server.failing.clear()
    assert await pool.read(lambda connection: 1) == 1


async def test_a_read_on_a_connection_cut_while_idle_is_made_again_on_a_new_one(pool, server):
    await pool.read(lambda connection: None)

    def work(connection):
        if connection is server.connections[0]:
            raise GONE
        return 7

    assert await pool.read(work) == 7
    assert [connection.closed for connection in server.connections] == [True, False]


async def test_of_a_read_and_a_write_only_the_read_is_made_again(pool, server):
    await pool.read(lambda connection: None)
    reads, writes = [], []

    def read(connection):
        reads.append(server.connections.index(connection))
        if len(reads) == 1:
            raise GONE
        return 1

    def write(connection):
        writes.append(server.connections.index(connection))
        raise GONE

    with pytest.raises(BackendUnavailable):
        await pool.read_then_write(read, lambda found: write)
    assert (reads, writes) == ([0, 1], [1])
    with pytest.raises(BackendUnavailable):
        await pool.read_then_write(read, lambda found: write)
    assert (reads, writes) == ([0, 1, 2], [1, 2]), "a write that may have been made is not made again"


@pytest.mark.parametrize("seconds", [0.0, 60.0])
async def test_a_read_is_not_made_again_on_a_new_connection_or_after_a_long_wait(pool, server, seconds):
    calls = 0

    def work(connection):
        nonlocal calls
        calls += 1
        server.time += seconds
        raise GONE

    if seconds:
        await pool.read(lambda connection: None)
    with pytest.raises(BackendUnavailable):
        await pool.read(work)
    assert calls == 1


@pytest.mark.parametrize("errno", [1213, 1020, 3101], ids=["deadlock", "changed row", "conflict in a group"])
async def test_a_transaction_that_lost_a_deadlock_is_made_again(pool, server, errno):
    tries = []

    def work(connection):
        tries.append(connection)
        if len(tries) < 3:
            raise BackendError("Deadlock found", errno, "40001")
        return "done"

    assert await pool.write(work) == "done"
    assert [connection.log for connection in server.connections] == [["begin", "rollback"] * 2 + ["begin", "commit"]]


async def test_who_loses_every_deadlock_gives_up(pool, server):
    with pytest.raises(BackendError) as refused:
        await pool.write(fail(BackendError("Deadlock found", 1213, "40001")))
    assert refused.value.errno == 1213
    assert server.connections[0].log == ["begin", "rollback"] * TRIES_MAX


@pytest.mark.parametrize("errno", [1205, 1062, 1290])
async def test_nothing_else_is_made_again(pool, server, errno):
    with pytest.raises(BackendError):
        await pool.write(fail(BackendError("no", errno)))
    assert server.connections[0].log == ["begin", "rollback"]


async def test_connections_to_a_server_that_became_a_replica_are_discarded(pool, server):
    with pytest.raises(BackendError):
        await pool.write(fail(BackendError("read-only", 1290)))
    assert server.connections[0].closed
    await pool.write(lambda connection: None)
    assert len(server.connections) == 2


async def test_a_connection_that_was_lost_is_ended_at_the_server_by_the_next(pool, server):
    with pytest.raises(BackendUnavailable):
        await pool.write(fail(GONE))
    assert server.ended == []
    await pool.write(lambda connection: None)
    await pool.write(lambda connection: None)
    assert server.ended == [server.connections[0]]


async def test_a_new_connection_that_is_lost_at_once_is_not_used(pool, server):
    with pytest.raises(BackendUnavailable):
        await pool.write(fail(GONE))
    server.failing["end_lost"] = BackendUnavailable("gone, too")
    with pytest.raises(BackendUnavailable, match="gone, too"):
        await pool.write(lambda connection: None)
    assert [each.closed for each in server.connections] == [True, True] and server.connections[1].log == []

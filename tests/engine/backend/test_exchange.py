"""Statements that the event loop waits for: what comes in pieces, late, never; errors, and connections that end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from engine.backend.base import Answer, Statement
from engine.backend.pool import CUT_SECONDS, IDLE_SECONDS_UNTRIED, ThreadPool
from engine.model.errors import BackendError, BackendUnavailable

ONE = (Statement("SELECT 1"),)
IN_THREAD = [Answer([(b"thread",)], 1)]


class Connection:
    """One whose server writes answers to the other end of a socket: a line each, `!` before an error."""

    def __init__(self, server: Server) -> None:
        self.server, self.closed, self.sent = server, False, 0
        self.here, self.there = socket.socketpair()
        self.here.setblocking(False)
        self.place = "here"
        server.connections.append(self)

    def exchange(self, statements):
        assert not self.closed
        if self.server.only_threads:
            return None
        if self.server.refuses is not None:
            raise self.server.refuses
        self.sent += 1
        return Exchange(self)

    def run(self, statements):
        return IN_THREAD

    def ping(self) -> None: ...

    def end_lost(self, other) -> None:
        assert other.closed

    def close(self) -> None:
        self.closed = True
        self.here.close()
        self.there.close()


class Exchange:
    seconds = 60.0

    def __init__(self, connection: Connection) -> None:
        self._connection, self._read = connection, b""
        self.socket = connection.here.fileno()
        self.seconds = connection.server.seconds

    def receive(self):
        try:
            data = self._connection.here.recv(100)
        except BlockingIOError:
            return None
        if not data:
            raise BackendUnavailable("gone")
        self._connection.server.received += 1
        self._read += data
        if not self._read.endswith(b"\n"):
            return None
        if self._read.startswith(b"!"):
            raise BackendError(self._read[1:-1].decode())
        return [Answer([(self._read[:-1],)], 1)]

    def expired(self):
        self._connection.server.expired += 1
        return BackendUnavailable("timed out")


class Server:
    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.only_threads, self.refuses, self.seconds, self.time = False, None, 60.0, 0.0
        self.received = self.expired = 0

    def connect(self) -> Connection:
        return Connection(self)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def pool(server) -> AsyncIterator[ThreadPool]:
    """With one idle connection."""
    pool = ThreadPool(server.connect, size=2, monotonic=lambda: server.time)
    await pool.read(lambda connection: None)
    yield pool
    await pool.close()
    for connection in server.connections:
        connection.close()


async def asked(pool, server) -> asyncio.Task[list[Answer]]:
    task = asyncio.create_task(pool.ask(ONE))
    while not any(connection.sent for connection in server.connections):
        await asyncio.sleep(0)
    return task


async def test_an_answer_in_pieces(pool, server):
    for count in (1, 2):
        task = asyncio.create_task(pool.ask(ONE))
        await asyncio.sleep(0)
        for piece in (b"a", b"b", b"c\n"):
            assert not task.done()
            received = server.received
            server.connections[0].there.send(piece)
            while server.received == received:
                await asyncio.sleep(0)
        assert await task == [Answer([(b"abc",)], 1)]
        assert server.connections[0].sent == count, "one connection, used again"
    assert len(server.connections) == 1


async def test_two_at_once_and_the_second_goes_to_a_thread(pool, server):
    task = await asked(pool, server)
    assert await pool.ask(ONE) == IN_THREAD, "no other connection is idle"
    server.connections[0].there.send(b"a\n")
    assert await task == [Answer([(b"a",)], 1)]
    assert len(server.connections) == 2


async def test_an_error_leaves_the_connection_as_it_is(pool, server):
    task = await asked(pool, server)
    server.connections[0].there.send(b"!no such table\n")
    with pytest.raises(BackendError, match="no such table"):
        await task
    server.connections[0].there.send(b"b\n")
    assert await pool.ask(ONE) == [Answer([(b"b",)], 1)]


async def test_a_connection_that_was_closed_while_idle_is_no_outage(pool, server):
    server.connections[0].there.close()
    assert await pool.ask(ONE) == IN_THREAD
    assert server.connections[0].closed and len(server.connections) == 2


async def test_one_that_is_lost_after_a_while_is(pool, server):
    task = await asked(pool, server)
    server.time += CUT_SECONDS + 1
    server.connections[0].there.close()
    with pytest.raises(BackendUnavailable):
        await task
    assert server.connections[0].closed


async def test_what_may_have_been_written_is_not_written_again(pool, server):
    server.connections[0].there.close()
    with pytest.raises(BackendUnavailable):
        await pool.write_alone(ONE)
    assert server.connections[0].closed and len(server.connections) == 1


async def test_no_answer_in_time(pool, server):
    server.seconds = 0.05
    task = await asked(pool, server)
    server.time += CUT_SECONDS + 1
    with pytest.raises(BackendUnavailable, match="timed out"):
        await task
    assert server.connections[0].closed and server.expired == 1


async def test_a_process_that_stood_still_finds_the_answer_that_came_in_time(pool, server):
    server.seconds = 0.05
    task = await asked(pool, server)
    await asyncio.sleep(0)
    server.connections[0].there.send(b"a\n")
    until = asyncio.get_running_loop().time() + 0.2  # longer than it waits for answers
    while asyncio.get_running_loop().time() < until:
        pass
    assert await task == [Answer([(b"a",)], 1)]
    assert server.expired == 0


async def test_what_is_cancelled_leaves_no_half_read_answer_behind(pool, server):
    task = await asked(pool, server)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.connections[0].closed
    assert await pool.ask(ONE) == IN_THREAD


async def test_what_a_connection_cannot_do_so_is_done_in_a_thread(pool, server):
    server.only_threads = True
    assert await pool.ask(ONE) == IN_THREAD
    server.only_threads = False
    server.time += IDLE_SECONDS_UNTRIED
    assert await pool.ask(ONE) == IN_THREAD, "tested first, which takes a round trip"
    assert len(server.connections) == 1


async def test_a_defect_is_not_waited_for(pool, server):
    server.refuses = ZeroDivisionError("a defect")
    with pytest.raises(ZeroDivisionError):
        await pool.ask(ONE)
    assert server.connections[0].closed


async def test_a_closed_pool_asks_nothing(pool, server):
    await pool.close()
    with pytest.raises(BackendUnavailable):
        await pool.ask(ONE)

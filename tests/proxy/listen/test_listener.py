"""Listening: one port for every address of a name, clients dealt out by number, and an accept that fails."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest
from slowness import scaled

from proxy.listen import listener
from proxy.listen.listener import Acceptor, bind
from proxy.listen.shared_counts import Count, SharedCounts
from proxy.transport.addresses import Address


@pytest.fixture
def bound():
    sockets = bind(Address("127.0.0.1", 0))
    yield sockets
    for sock in sockets:
        sock.close()


class Accepted(asyncio.Protocol):
    """Counts itself in, as the server's admission does."""

    def __init__(self, tally, number: int, log: list[int]) -> None:
        self.tally, self.number, self.log = tally, number, log

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.tally.acquire(Count.CONNECTIONS, 1 << 20)
        self.log.append(self.number)
        transport.close()


def acceptor(sockets, tallies: SharedCounts, number: int, log: list[int]) -> Acceptor:
    tally = tallies.of(number)
    tally.set_present(True)
    return Acceptor(sockets, lambda: Accepted(tally, number, log), tally)


async def connect(sockets) -> socket.socket:
    client = socket.socket()
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, sockets[0].getsockname())
    return client


async def until(condition) -> None:
    async with asyncio.timeout(scaled(10)):
        while not condition():
            await asyncio.sleep(0)


def test_every_address_of_a_name_has_the_same_port():
    sockets = bind(Address("localhost", 0))
    assert len({sock.getsockname()[1] for sock in sockets}) == 1
    for sock in sockets:
        sock.close()


def test_a_taken_port_is_named(bound):
    port = bound[0].getsockname()[1]
    with pytest.raises(OSError, match=rf"127.0.0.1 port {port}: address already in use") as refused:
        bind(Address("127.0.0.1", port))
    assert refused.value.errno == errno.EADDRINUSE


def test_every_address_of_the_machine():
    """Each protocol has its own sockets: the address of a client is shown as what it is."""
    sockets = bind(Address("::", 0))
    families = [sock.family for sock in sockets]
    assert families in ([socket.AF_INET6, socket.AF_INET], [socket.AF_INET]), "the machine may have no IPv6"
    for sock, host in zip(sockets, ("::1", "127.0.0.1")[-len(sockets) :], strict=True):
        with socket.create_connection((host, sock.getsockname()[1])):
            client, peer = sock.accept()
            client.close()
            assert peer[0] == host
        sock.close()


def test_a_mistake_is_of_its_key(bound):
    with pytest.raises(
        OSError, match=r"^\[Errno -\d+\] admin.listen: the host 'no.such.invalid' cannot be looked up: "
    ):
        bind(Address("no.such.invalid", 1), "admin.listen")
    with pytest.raises(OSError, match=r"admin.listen: cannot listen on .* choose another$"):
        bind(Address(*bound[0].getsockname()), "admin.listen")


def test_an_address_that_is_not_ours_is_named():
    with pytest.raises(OSError, match=r"192.0.2.1.*cannot assign"):
        bind(Address("192.0.2.1", 0))


async def test_two_take_turns_by_number(bound):
    tallies, log = SharedCounts(2), []
    other = [sock.dup() for sock in bound]  # one loop watches a descriptor for one of them only
    both = [acceptor(sockets, tallies, number, log) for number, sockets in enumerate((bound, other))]
    clients = []
    for turn in range(8):
        clients.append(await connect(bound))
        await until(lambda turn=turn: len(log) == turn + 1)
    assert log.count(0) == log.count(1) == 4
    for one in both:
        one.close()
    for sock in (*clients, *other):
        sock.close()


async def test_who_has_more_takes_it_all_the_same_if_nobody_else_does(bound):
    """The other worker counts as present, but does not come to accept."""
    tallies, log = SharedCounts(2), []
    tallies.of(1).set_present(True)
    one = acceptor(bound, tallies, 0, log)
    clients = [await connect(bound) for _ in range(5)]
    await until(lambda: len(log) == 5)
    one.close()
    for client in clients:
        client.close()


async def test_no_descriptors_left_is_a_pause_and_not_an_end(bound, monkeypatch, caplog):
    monkeypatch.setattr(listener, "_EXHAUSTED_SECONDS", 0.01)
    tallies, log = SharedCounts(1), []

    class Exhausted:
        """A listening socket whose accept fails twice."""

        left = 2

        def fileno(self) -> int:
            return bound[0].fileno()

        def accept(self):
            if self.left:
                self.left -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return bound[0].accept()

    one = acceptor([Exhausted()], tallies, 0, log)
    client = await connect(bound)
    await until(lambda: log == [0])
    assert caplog.text.count("cannot accept a client: Too many open files") == 2
    one.close()
    client.close()


async def test_shunned_sockets_that_come_singly_are_gathered(bound, monkeypatch):
    monkeypatch.setattr(listener, "DROP_PAUSE_SECONDS", 3600.0)
    tallies = SharedCounts(1)
    one = Acceptor(bound, lambda: Accepted(tallies.of(0), 0, []), tallies.of(0), lambda host: True)
    first = await connect(bound)
    await until(lambda: hung_up(first))
    second = await connect(bound)
    for _ in range(100):
        await asyncio.sleep(0)
    assert not hung_up(second), "it waits until the pause is over"
    one.close()
    first.close()
    second.close()


def hung_up(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


async def test_closed_means_closed(bound):
    tallies, log = SharedCounts(1), []
    one = acceptor(bound, tallies, 0, log)
    one.close()
    one.close()
    client = await connect(bound)  # the kernel still lets it wait
    for _ in range(100):
        await asyncio.sleep(0)
    assert log == []
    client.close()

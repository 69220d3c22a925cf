"""Listening: sockets bound to an address, and clients accepted from them.

Several workers accept from the same sockets, which the supervisor bound. A worker with more clients than another
leaves a new one to that for a moment (`DEFER_SECONDS`), so connections are spread evenly by number; a worker that is
busy or stuck delays no one for longer, because the others then take the client after all.

Sockets of a blocked address are closed at once, and in bunches with pauses, which cost a few hundredths of the
time.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import secrets
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy.listen.shared_counts import WorkerCounts
from proxy.transport.addresses import Address

log = logging.getLogger(__name__)

BACKLOG = (
    1024  # connections that the kernel queues until they are accepted: as many as one worker logs in within a second
)
DEFER_SECONDS = 0.001  # one idle worker's time to be woken and to accept, several times over
DROPS_MAX, DROP_PAUSE_SECONDS = 16, 0.004  # so many sockets closed, some 15 us each; then such a pause
_SLACK = 16  # one more client in so many is no imbalance; without it a burst would be taken turn by turn
_UNUSABLE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # the machine has no such address
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_EXHAUSTED_SECONDS = 1.0  # as asyncio does: others may close something meanwhile


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """The role of a process: alone, or one of several workers that are linked to each other."""

    sockets: Sequence[socket.socket]
    tally: WorkerCounts
    worker: int = 0
    links: Sequence[socket.socket] = ()
    """Where each of the workers listens for the others."""
    supervisor: socket.socket | None = None
    """This worker's end of its connection to the supervisor: it writes a byte when it is ready, and never reads one."""
    proxy: str = field(default_factory=lambda: secrets.token_hex(16))
    """The same for all workers of one proxy, and for no one else."""
    admin: Sequence[socket.socket] = ()
    """Where the admin port listens, if it does."""


def bind(address: Address, key: str = "listen") -> list[socket.socket]:
    """Listening sockets for every address of that name, all on one port. `::` is every address of the machine, as for
    MySQL: IPv4's have a socket of their own, so that such clients are seen by their addresses. `key`: where the
    configuration has the address.

    Raises:
        OSError: the name is not known, or the port is taken.
    """
    sockets: list[socket.socket] = []
    unusable: OSError | None = None
    with contextlib.ExitStack() as on_failure:
        port = address.port
        for family, _, _, _, (host, *rest) in _candidates(address, key):
            try:
                bound = on_failure.enter_context(_bind(family, (str(host), port, *rest[1:]), key))
            except OSError as error:
                if error.errno not in _UNUSABLE:
                    raise
                unusable = error  # `localhost` may resolve to an IPv6 address that this machine does not have
                continue
            port = bound.getsockname()[1]
            sockets.append(bound)
        if not sockets:
            raise unusable or OSError(errno.EADDRNOTAVAIL, f"{key}: nothing to listen on at {address}")
        on_failure.pop_all()
    return sockets


def _candidates(address: Address, key: str) -> Iterable[tuple[Any, ...]]:
    results: list[tuple[Any, ...]] = []
    for host in ("::", "0.0.0.0") if address.host == "::" else (address.host,):
        try:
            results += socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except OSError as error:
            text = f"{key}: the host '{host}' cannot be looked up: {(error.strerror or str(error)).lower()}"
            raise OSError(error.errno, text) from None
    return dict.fromkeys(results)


def _bind(family: int, where: tuple[object, ...], key: str) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(where)
        bound.listen(BACKLOG)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        host, port = where[:2]
        text = f"{key}: cannot listen on {host} port {port}: {(error.strerror or str(error)).lower()}"
        if error.errno == errno.EADDRINUSE:
            text += "; another program has it, choose another"
            text += " with --listen HOST:PORT" if key == "listen" else ""
        raise OSError(error.errno, text) from None
    return bound


class Acceptor:
    """Accepts clients, alone or alongside other workers. The sockets stay their owner's; `close` only stops
    accepting."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        new_protocol: Callable[[], asyncio.BaseProtocol],
        tally: WorkerCounts,
        drops_silently: Callable[[str], bool] = lambda host: False,
    ) -> None:
        self.sockets = tuple(sockets)
        self._new_protocol = new_protocol
        self._tally = tally
        self._drops_silently = drops_silently
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[socket.socket, asyncio.TimerHandle] = {}
        self._connecting: set[asyncio.Task[object]] = set()
        self._closed = False
        for listening in self.sockets:
            self._watch(listening)

    def close(self) -> None:
        """Accept no more. May be called twice."""
        if not self._closed:
            self._closed = True
            for listening in self.sockets:
                self._loop.remove_reader(listening)
            for timer in self._waiting.values():
                timer.cancel()

    def _watch(self, listening: socket.socket) -> None:
        self._waiting.pop(listening, None)
        self._loop.add_reader(listening, self._readable, listening)

    def _readable(self, listening: socket.socket) -> None:
        fewest = self._tally.fewest_elsewhere()
        if fewest is not None and self._tally.connections > fewest + fewest // _SLACK:
            self._pause(listening, DEFER_SECONDS)
        else:
            self._accept(listening)

    def _pause(self, listening: socket.socket, seconds: float) -> None:
        self._loop.remove_reader(listening)
        self._waiting[listening] = self._loop.call_later(seconds, self._after_pause, listening)

    def _after_pause(self, listening: socket.socket) -> None:
        self._watch(listening)
        self._accept(listening)

    def _accept(self, listening: socket.socket) -> None:
        """One client, if it still waits: then the others have their turn, and the counts are read again.

        After sockets of blocked addresses there is a pause, however few they were: those that come singly would each
        wake the loop.
        """
        for closed in range(DROPS_MAX):
            accepted = self._next(listening)
            if accepted is None:
                if closed and listening not in self._waiting:  # else it waits for longer, for descriptors
                    self._pause(listening, DROP_PAUSE_SECONDS)
                return
            client, address = accepted
            if not (isinstance(address, tuple) and self._drops_silently(str(address[0]))):
                client.setblocking(False)
                task: asyncio.Task[object] = self._loop.create_task(self._connect(client))
                self._connecting.add(task)
                task.add_done_callback(self._connecting.discard)
                return
            client.close()
        self._pause(listening, DROP_PAUSE_SECONDS)

    def _next(self, listening: socket.socket) -> tuple[socket.socket, object] | None:
        try:
            return listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return None  # another worker was faster, or the client gave up
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            log.error("cannot accept a client: %s", error.strerror, extra={"errno": error.errno})
            self._pause(listening, _EXHAUSTED_SECONDS)
            return None

    async def _connect(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._new_protocol, accepted)
        except OSError:
            accepted.close()  # it was closed before anything was sent

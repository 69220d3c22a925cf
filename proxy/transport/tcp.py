"""Socket options of every connection, to clients and to the database.

A peer that vanishes without closing (power cut, unplugged cable, a firewall that forgets) is noticed within half a
minute, so that a dead receiver's messages go to another one: where nothing is to be sent by keepalive, else by the
sweeper. The kernel's own bound for that, TCP_USER_TIMEOUT, is not for clients: it also ends a connection whose peer is
alive and has read nothing for so long.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from engine.backend.url import BackendUrl

# Idle 15 s, then 3 probes 5 s apart: a silent peer is given up after 30 s; a busy one costs no probes at all.
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
UNBUFFERED = 0
"""High-water mark of a transport that writes at once as long as the kernel takes everything. With a higher one uvloop
collects what is written until the end of its turn, which is latency for every statement that is passed on."""

TLS_WRITE_BYTES = 64 * 1024  # four of TLS's records
_SERVER_SILENCE_MS = 600_000
"""The same bound for the database while something waits to be acknowledged by it. It may well read nothing for minutes:
a LOAD DATA that waits for a lock does."""


def _available(*options: tuple[str, int]) -> Sequence[tuple[int, int, int]]:
    """Those of TCP's that this system has: on others than Linux they are named differently, or absent."""
    return [(socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in options if hasattr(socket, name)]


_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *_available(*_KEEPALIVE),
)
_SERVER_OPTIONS = (*_OPTIONS, *_available(("TCP_USER_TIMEOUT", _SERVER_SILENCE_MS)))
_INHERITED = sys.platform.startswith("linux")


def tune(transport: asyncio.BaseTransport) -> None:
    """Set the options on a TCP socket; other kinds (unix sockets, test transports) have none of them."""
    _set_options(transport, _OPTIONS)


def tune_listening(listening: socket.socket) -> None:
    """Set them on a socket that listens."""
    if listening.family in (socket.AF_INET, socket.AF_INET6):
        for level, option, value in _OPTIONS:
            listening.setsockopt(level, option, value)


def tune_accepted(transport: asyncio.BaseTransport) -> None:
    """Set them on a client's connection, where it has not inherited them from the socket that listens."""
    if not _INHERITED:
        tune(transport)


def _set_options(transport: asyncio.BaseTransport, options: Sequence[tuple[int, int, int]]) -> None:
    sock: Any = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    # uvloop's own object would make a socket again for every option.
    shared = socket.socket(sock.family, sock.type, sock.proto, sock.fileno())
    try:
        for level, option, value in options:
            shared.setsockopt(level, option, value)
    finally:
        shared.detach()


def own_address(url: BackendUrl) -> str:
    """This machine's address on the route to the database. Blocks while the name is looked up; raises OSError."""
    if url.socket is not None:
        return "127.0.0.1"
    family, kind, protocol, _, where = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(where)  # which sends nothing over UDP: it only chooses the way
        return str(probe.getsockname()[0])


def end_with_reset(sock: Any) -> None:
    """Have the other end see a reset when this socket is closed, instead of an orderly end."""
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def discard_unsent(sock: Any) -> None:
    """Have the kernel throw away what it has not sent, once this socket is closed: no one shall read it any more."""
    if sock is not None and sock.fileno() >= 0:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def tune_to_server(transport: asyncio.BaseTransport) -> None:
    """The same on a connection to the database, which the sweeper does not check."""
    _set_options(transport, _SERVER_OPTIONS)


def is_local(transport: asyncio.BaseTransport | None) -> bool:
    """Whether it is a unix socket, which does not leave the machine and shows each end the other's user."""
    sock: Any = None if transport is None else transport.get_extra_info("socket")
    return sock is not None and sock.family not in (socket.AF_INET, socket.AF_INET6)


def is_loopback(transport: asyncio.BaseTransport | None) -> bool:
    """Whether the other end of a TCP connection is this machine."""
    peer = None if transport is None else transport.get_extra_info("peername")
    return isinstance(peer, (tuple, list)) and bool(peer) and _loops_back(peer[0])


@lru_cache(maxsize=1024)
def _loops_back(host: str) -> bool:
    """Reading an address takes longer than all other checks of a login."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def by_records(write: Callable[[Any], None]) -> Callable[[Any], None]:
    """A TLS transport's `write` that hands over much in portions: its buffer keeps the size of the largest write."""

    def portions(data: bytes | bytearray) -> None:
        if len(data) <= TLS_WRITE_BYTES:
            write(data)
            return
        view = memoryview(data)
        for start in range(0, len(data), TLS_WRITE_BYTES):
            write(view[start : start + TLS_WRITE_BYTES])

    return portions


def feed(protocol: Any, data: bytes) -> None:
    """Give bytes to a BufferedProtocol as its transport would."""
    view = memoryview(data)
    while view:
        space = protocol.get_buffer(len(view))
        size = min(len(space), len(view))
        space[:size] = view[:size]
        protocol.buffer_updated(size)
        view = view[size:]


def close_once(transport: asyncio.Transport) -> None:
    """Close, unless it has been. asyncio's TLS transport, closed twice, cannot be aborted before Python 3.11.5."""
    if not transport.is_closing():
        transport.close()

"""Socket options of every connection, to clients and to the database.

A peer that vanishes without a word (power cut, unplugged cable, a firewall that forgets) is noticed within half a
minute, so that a dead receiver's messages go to another one.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

# Idle 15 s, then 3 probes 5 s apart: a silent peer is given up after 30 s; a busy one costs no probes at all.
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
_USER_TIMEOUT_MS = 30_000  # the same bound while data waits to be acknowledged, where keepalive does not look


def tune(transport: asyncio.BaseTransport) -> None:
    """Set the options on a TCP socket; other kinds (unix sockets, test transports) have none of them."""
    sock: Any = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (*_KEEPALIVE, ("TCP_USER_TIMEOUT", _USER_TIMEOUT_MS)):
        # Named differently, or absent, on systems other than Linux.
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

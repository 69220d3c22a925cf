"""What the kernel knows of a connection that is not being read: whether the peer hung up, is silent, or has vanished.

It costs the connection itself nothing, for it is asked only now and then (proxy.listen.sweeper). Where it has no
answer, on systems other than Linux, the result is the one that leaves the connection open.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from typing import Any

# The beginning of Linux's struct tcp_info, which never changes: state; repetitions and probes that nothing answered;
# milliseconds since data was sent, and received.
_TCP_INFO = struct.Struct("=BxBB40xI4xI")
_OPEN = frozenset((1, 2, 3))  # established, or on the way there; in every other state the peer, or we, ended it
_SIOCOUTQNSD = 0x894B  # linux/sockios.h: what of the send queue was not sent
_LINUX = hasattr(socket, "TCP_INFO") and hasattr(socket, "TCP_USER_TIMEOUT")


def hung_up(sock: Any) -> bool:
    """Whether the peer will send no more."""
    info = _tcp_info(sock)
    return info is not None and info[0] not in _OPEN


def silent_seconds(sock: Any) -> float:
    """How long nothing has been sent to the peer, nor received from it; 0 where that is not known."""
    info = _tcp_info(sock)
    return 0.0 if info is None else min(info[3], info[4]) / 1000


def unanswered(sock: Any) -> int:
    """How often in a row the peer's machine was sent something again, or asked, and gave no sign. The kernel's patience
    doubles each time, from a fifth of a second on. The machine of a peer that only does not read does give signs."""
    info = _tcp_info(sock)
    return 0 if info is None else max(info[1], info[2])


def unacknowledged(sock: Any) -> int:
    """Bytes that were written and have not reached the peer's machine."""
    if sock is None or sock.fileno() < 0:
        return 0
    try:
        return int.from_bytes(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)), "little")
    except OSError:
        return 0


def never_sent(sock: Any) -> int:
    """Bytes that were written and have never left this machine, for the peer's has no room for them: no one has read
    them. What was sent and is not acknowledged may have been read."""
    if not _LINUX or sock is None or sock.fileno() < 0 or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return 0
    try:
        return int.from_bytes(fcntl.ioctl(sock.fileno(), _SIOCOUTQNSD, bytes(4)), "little")
    except OSError:
        return 0


def _tcp_info(sock: Any) -> tuple[int, int, int, int, int] | None:
    if not _LINUX or sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        return _TCP_INFO.unpack(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size))
    except (OSError, struct.error):
        return None  # closed meanwhile

"""How often a process has written to a port: the data segments that its TCP connections have sent, by the kernel.

The kernel tells them by sock_diag(7) (INET_DIAG_INFO is tcp_info with its tcpi_data_segs_out), which costs the process
that is observed nothing. On the loopback interface a segment holds nearly 64 KB: what a program writes in one call is
one segment, unless it is longer than that.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY, _REQUEST_DUMP = 20, 0x301  # SOCK_DIAG_BY_FAMILY; NLM_F_REQUEST | NLM_F_DUMP
_ERROR, _DONE = 2, 3  # NLMSG_ERROR, NLMSG_DONE
_ESTABLISHED = 1 << 1
_INFO = 2  # INET_DIAG_INFO
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.pack("=BBBxI48x", socket.AF_INET, socket.IPPROTO_TCP, 1 << (_INFO - 1), _ESTABLISHED)
_PORT, _INODE, _ATTRIBUTES = 6, 68, 72  # where they are in inet_diag_msg: the remote port, the socket's number
_DATA_SEGMENTS_OUT = 156  # in tcp_info

Writes = Mapping[int, int]
"""By socket: its number (inode), and how often it was written to."""


def writes(pid: int, port: int) -> Writes:
    """Of all connections that a process has to this port now. Raises OSError where the kernel does not tell."""
    own = _sockets(pid)
    return {inode: count for inode, remote, count in _connections() if remote == port and inode in own}


def added(before: Writes, after: Writes) -> int:
    """Writes in between. Those of a connection that has been closed meanwhile are not among them."""
    return sum(count - before.get(inode, 0) for inode, count in after.items())


def _sockets(pid: int) -> set[int]:
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:
            continue  # it has just been closed
        if target.startswith("socket:["):
            found.add(int(target[8:-1]))
    return found


def _connections() -> Iterator[tuple[int, int, int]]:
    """Number, remote port and data segments sent of every established TCP connection over IPv4."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:
        kernel.send(_HEADER.pack(_HEADER.size + len(_REQUEST), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + _REQUEST)
        while True:
            data = kernel.recv(1 << 18)
            for kind, body in _messages(data):
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("=i", body)[0], "the kernel does not tell of TCP connections")
                if kind == _DONE:
                    return
                (remote,), (inode,) = struct.unpack_from(">H", body, _PORT), struct.unpack_from("=I", body, _INODE)
                if (info := _attribute(body, _INFO)) is not None and len(info) >= _DATA_SEGMENTS_OUT + 4:
                    yield inode, remote, struct.unpack_from("=I", info, _DATA_SEGMENTS_OUT)[0]


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        yield kind, data[at + _HEADER.size : at + length]
        at += _aligned(length)


def _attribute(body: bytes, wanted: int) -> bytes | None:
    at = _ATTRIBUTES
    while at < len(body):
        length, kind = struct.unpack_from("=HH", body, at)
        if kind == wanted:
            return body[at + 4 : at + length]
        at += _aligned(length)
    return None


def _aligned(length: int) -> int:
    return (length + 3) & ~3

"""The PROXY protocol's header, which gives a database behind the proxy the client's address.

Version 1, a line of text: every server that knows the protocol reads it, and so does a human in a packet capture. It
goes out before anything else, in clear text even where TLS follows.
"""

from __future__ import annotations

import ipaddress
from typing import Any

_UNKNOWN = b"PROXY UNKNOWN\r\n"  # the receiver takes the sender's own address


def proxy_header(source: tuple[Any, ...], destination: tuple[Any, ...]) -> bytes:
    """The header for a client at `source` that connected to `destination`, both as sockets name them."""
    if len(source) < 2 or len(destination) < 2:
        return _UNKNOWN
    try:
        own, client = _address(destination[0]), _address(source[0])
    except ValueError:
        return _UNKNOWN
    if own.version != client.version:
        return _UNKNOWN
    return f"PROXY TCP{client.version} {client} {own} {source[1]} {destination[1]}\r\n".encode()


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Without a zone, and IPv4 as IPv4 also where a socket of IPv6 took it."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address

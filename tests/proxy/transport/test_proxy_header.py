"""The PROXY header, for every kind of address that a socket may name."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.transport.proxy_header import proxy_header

UNKNOWN = b"PROXY UNKNOWN\r\n"


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        (("192.0.2.1", 40000), ("10.0.0.7", 3307), b"PROXY TCP4 192.0.2.1 10.0.0.7 40000 3307\r\n"),
        (("2001:db8::1", 1, 0, 0), ("::1", 2, 0, 0), b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n"),
        (("fe80::1%eth0", 1, 0, 3), ("fe80::2%eth0", 2, 0, 3), b"PROXY TCP6 fe80::1 fe80::2 1 2\r\n"),
        (("::ffff:192.0.2.1", 1, 0, 0), ("::ffff:10.0.0.7", 2, 0, 0), b"PROXY TCP4 192.0.2.1 10.0.0.7 1 2\r\n"),
        (("192.0.2.1", 1), ("::1", 2, 0, 0), UNKNOWN),
        ((), (), UNKNOWN),
        (("/run/client.sock", 1), ("/run/gate.sock", 2), UNKNOWN),
    ],
)
def test_header(source: tuple[Any, ...], destination: tuple[Any, ...], expected: bytes) -> None:
    header = proxy_header(source, destination)
    assert header == expected
    assert len(header) <= 107  # the most that a receiver has to take

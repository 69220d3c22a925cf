"""What a request passes before its page: whose address it has, who it is, and what its input may be."""

from __future__ import annotations

from typing import Any

import pytest

from console.guard import Guard
from console.hosts import Hosts


async def address_behind_a_proxy(*lines: bytes) -> str:
    """The address that a page sees, where these are the lines of X-Forwarded-For."""
    seen: list[str] = []

    async def page(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["client"][0])

    guard = Guard(page, Hosts(frozenset({"c"})), lambda scope: False, encrypted=True, behind_proxy=True)
    headers = [(b"host", b"c"), *((b"x-forwarded-for", line) for line in lines)]
    unused: Any = None
    await guard({"type": "http", "headers": headers, "client": ("127.0.0.1", 1)}, unused, unused)
    return seen[0]


@pytest.mark.parametrize(
    "lines", [(b"192.0.2.7",), (b"6.6.6.6, 192.0.2.7",), (b"6.6.6.6", b"192.0.2.7"), (b"6.6.6.6", b"7.7.7.7,192.0.2.7")]
)
async def test_the_last_address_is_that_of_the_client_however_the_proxy_adds_it(lines):
    assert await address_behind_a_proxy(*lines) == "192.0.2.7"


async def test_without_a_line_it_is_that_of_the_connection():
    assert await address_behind_a_proxy() == "127.0.0.1"

"""Names are asked for once in a while, by whoever comes first; trouble with them is not remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from proxy.errors import BackendLost
from proxy.transport import addresses
from proxy.transport.addresses import Addresses
from proxy.transport.backend_socket import connect_backend


class NameServer:
    """Answers when told to; counts what it was asked."""

    def __init__(self, *answers: Sequence[str] | OSError) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []
        self.awake = asyncio.Event()
        self.awake.set()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        await self.awake.wait()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "fe80::1%eth0"])
async def test_an_address_is_not_looked_up(host: str) -> None:
    server = NameServer(["192.0.2.1"])
    assert await Addresses(server).of(host, 3306) == (host,)
    assert server.asked == []


async def test_those_who_come_together_ask_once() -> None:
    server = NameServer(["192.0.2.1", "2001:db8::1"])
    server.awake.clear()
    book = Addresses(server)
    waiting = [asyncio.create_task(book.of("db.example", 3306)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # one that gives up takes nobody with it
    await asyncio.sleep(0)
    server.awake.set()
    assert await waiting[1] == await waiting[2] == ["192.0.2.1", "2001:db8::1"]
    assert waiting[0].cancelled()
    await book.of("db.example", 3306)
    assert server.asked == [("db.example", 3306)]


async def test_asked_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    server = NameServer(["192.0.2.1"], ["192.0.2.2"])
    book = Addresses(server)
    monkeypatch.setattr(addresses, "CACHE_SECONDS", 0.0)
    assert await book.of("db.example", 3306) == ["192.0.2.1"]
    assert await book.of("db.example", 3306) == ["192.0.2.2"]


async def test_asked_again_when_it_led_nowhere() -> None:
    server = NameServer(["192.0.2.1"], ["192.0.2.2"])
    book = Addresses(server)
    await book.of("db.example", 3306)
    book.forget("db.example", 3306)
    assert await book.of("db.example", 3306) == ["192.0.2.2"]


async def test_trouble_is_not_remembered() -> None:
    server = NameServer(OSError("no answer"), ["192.0.2.2"])
    book = Addresses(server)
    with pytest.raises(OSError, match="no answer"):
        await book.of("db.example", 3306)
    assert await book.of("db.example", 3306) == ["192.0.2.2"]


async def test_names_are_bounded() -> None:
    server = NameServer(["192.0.2.1"])
    book = Addresses(server)
    for number in range(addresses.NAMES_MAX * 3):
        await book.of(f"db{number}.example", 3306)
    assert len(book._cache) <= addresses.NAMES_MAX


async def test_a_line_takes_the_address_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """127.0.0.2 has no listener, as a name's IPv6 address often has none; a name that leads nowhere is asked again."""
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    names = NameServer(["127.0.0.2"], ["127.0.0.2", "127.0.0.1"])
    monkeypatch.setattr("proxy.transport.backend_socket._addresses", Addresses(names))
    with pytest.raises(BackendLost, match=r"db\.example"):
        await connect_backend("db.example", port)
    link = await connect_backend("db.example", port)
    assert len(names.asked) == 2
    link.abort()
    server.close()
    await server.wait_closed()

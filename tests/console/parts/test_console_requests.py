"""What a request passes before its page: whose address it has, who it is, and what its input may be."""

from __future__ import annotations

import asyncio
import base64
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from console import entry
from console.bounded_http import REQUEST_SECONDS, UNAUTHENTICATED_SECONDS, BoundedHttp
from console.database import AccountRefused
from console.entry import Entry, LoginRefused, Unauthorized
from console.guard import Guard
from console.hosts import Hosts
from console.refused_logins import LoginLimits, RefusedLogins
from console.sessions import Sessions


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


# --- programs


class Logins:
    """The logins at the proxy: how many there were, and until when they wait."""

    def __init__(self) -> None:
        self.count = 0
        self.answer = asyncio.Event()

    def __call__(self, connector: object, account: str, password: bytes) -> Any:
        async def log_in() -> None:
            self.count += 1
            await self.answer.wait()
            if password != b"right":
                raise AccountRefused("no", 1045)

        return SimpleNamespace(log_in=log_in, close=lambda: None)


@pytest.fixture
def logins(monkeypatch):
    made = Logins()
    monkeypatch.setattr(entry, "AccountConnections", made)
    return made


@pytest.fixture
def door():
    unused: Any = None
    hosts, refused = Hosts(frozenset({"c"})), RefusedLogins("x", lambda: 0.0)
    return Entry(Sessions(lambda: 0.0), LoginLimits(100, lambda: 0.0), unused, hosts, False, 1, refused)


def request(authorization: str | None = "right", *, address: str = "10.0.0.1", cookie: str = "") -> Request:
    """Of a program with that password; with a space it is the whole header."""
    headers = [(b"cookie", cookie.encode())]
    if authorization is not None:
        plain = base64.b64encode(f"ann:{authorization}".encode()).decode()
        headers.append(
            (b"authorization", authorization.encode() if " " in authorization else f"Basic {plain}".encode())
        )
    return Request({"type": "http", "headers": headers, "client": (address, 1)})


async def test_requests_of_a_program_at_the_same_time_are_one_login(logins, door):
    tasks = [asyncio.create_task(door.program_of(request())) for _ in range(20)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    logins.answer.set()
    sessions = await asyncio.gather(*tasks[1:])
    assert logins.count == 1 and len({session.id for session in sessions}) == 1 and not door.logins
    assert await door.program_of(request()) is sessions[0]


async def test_a_wrong_password_at_the_same_time_is_one_failure_and_no_more(logins, door):
    logins.answer.set()
    for _ in range(2):
        tasks = [door.program_of(request("wrong")) for _ in range(20)]
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(outcome, LoginRefused) and outcome.status == 401 for outcome in outcomes)
    assert logins.count == 2 and not door.logins


async def test_a_program_is_logged_in_from_its_second_request_on(logins, door):
    logins.answer.set()
    assert not door.is_logged_in(request().scope)
    await door.program_of(request())
    assert door.is_logged_in(request().scope) and not door.is_logged_in(request("wrong").scope)
    assert not door.is_logged_in(request("Basic ???").scope) and not door.is_logged_in(request(None).scope)


async def test_an_empty_authorization_is_not_a_session_of_a_cookie(door):
    account: Any = SimpleNamespace(close=lambda: None)
    session = door.sessions.begin("ann", account)
    cookie = f"{door.cookie}={session.id}"
    assert await door.program_of(request(None, cookie=cookie)) is session
    for empty in (" ", "Basic "):
        with pytest.raises(Unauthorized):
            await door.program_of(request(empty, cookie=cookie))


@pytest.mark.parametrize("accepted", [True, False])
def test_a_program_that_has_logged_in_meanwhile_has_the_time_of_others(accepted):
    timers: list[tuple[float, Any]] = []
    aborted: list[bool] = []
    state = SimpleNamespace(http_connections=SimpleNamespace(is_logged_in=lambda scope: accepted and bool(timers)))
    protocol: Any = BoundedHttp.__new__(BoundedHttp)
    protocol.server_state, protocol.cycle = state, SimpleNamespace(scope={}, response_complete=False)
    protocol.transport = SimpleNamespace(abort=lambda: aborted.append(True))
    timer = SimpleNamespace(cancel=lambda: None)
    protocol.loop = SimpleNamespace(call_later=lambda seconds, call: timers.append((seconds, call)) or timer)
    protocol._on_request(None)
    assert timers[0][0] == UNAUTHENTICATED_SECONDS
    timers[0][1]()
    assert aborted == ([] if accepted else [True])
    assert [seconds for seconds, _ in timers[1:]] == ([REQUEST_SECONDS - UNAUTHENTICATED_SECONDS] if accepted else [])

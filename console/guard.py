"""What every request passes first, as ASGI: the Host check, a bound on bodies, and the headers of every answer.

No page is reached by a request that was meant for another host, and no answer goes out without the
Content-Security-Policy, whatever made it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.hosts import Hosts

BODY_MAX_BYTES = 1 << 20
BODY_SECONDS = 15.0  # for a body to arrive; what uvicorn itself does not bound
UNAUTHENTICATED_BODY_MAX_BYTES = 16 << 10  # a login form
UNAUTHENTICATED_BODY_SECONDS = 5.0

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_TRANSPORT_SECURITY = "max-age=31536000"


class BodyRefused(Exception):
    """The body has more than BODY_MAX_BYTES, or did not arrive in BODY_SECONDS. `status`: of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """Of one request's body."""

    most: int
    seconds: float

    def too_large(self) -> BodyRefused:
        return BodyRefused(413, f"a request may have {self.most} bytes")


_LOGGED_IN = BodyBounds(BODY_MAX_BYTES, BODY_SECONDS)
_UNAUTHENTICATED = BodyBounds(UNAUTHENTICATED_BODY_MAX_BYTES, UNAUTHENTICATED_BODY_SECONDS)


class Guard:
    """See the module. `knows`: whether a request comes from a session. `encrypted`: whether browsers reach the
    console over TLS alone; `behind_proxy`: whether the address in X-Forwarded-For is trusted."""

    def __init__(
        self, app: ASGIApp, hosts: Hosts, is_logged_in: Callable[[Scope], bool], *, encrypted: bool, behind_proxy: bool
    ) -> None:
        self._app = app
        self._is_logged_in = is_logged_in
        self._hosts = hosts
        self._encrypted = encrypted
        self._behind_proxy = behind_proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
                if self._encrypted:
                    headers["strict-transport-security"] = _TRANSPORT_SECURITY
            await send(message)

        headers = Headers(scope=scope)
        if not self._is_expected_host(headers.getlist("host")):
            await _answer(with_headers, 421, "this console is not called by that name: set console.public_url\n")
            return
        # All lines are one list: a proxy may add to the client's line, or add a line of its own below it.
        if self._behind_proxy and (hops := ",".join(headers.getlist("x-forwarded-for"))):
            # The last one was written by the proxy before us; those before it by the client.
            scope["client"] = (hops.rpartition(",")[2].strip()[:64], 0)
        bounds = _LOGGED_IN if "authorization" in headers or self._is_logged_in(scope) else _UNAUTHENTICATED
        await self._app(scope, _bounded(headers, receive, bounds), with_headers)

    def _is_expected_host(self, hosts: list[str]) -> bool:
        return len(hosts) == 1 and self._hosts.expects(hosts[0])


def _bounded(headers: Headers, receive: Receive, bounds: BodyBounds) -> Receive:
    length = headers.get("content-length", "0")
    seen = 0
    deadline = asyncio.get_running_loop().time() + bounds.seconds
    complete = False

    async def bounded() -> Message:
        nonlocal seen, complete
        if not length.isdecimal() or len(length) > 12 or int(length) > bounds.most:
            raise bounds.too_large()
        if complete:
            return await receive()  # whether the client has gone, which may take as long as it likes
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            raise BodyRefused(408, f"a request has to arrive within {bounds.seconds:g} s") from None
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if seen > bounds.most:
                raise bounds.too_large()
        return message

    return bounded


async def _answer(send: Send, status: int, text: str) -> None:
    body = text.encode()
    headers: Iterable[tuple[bytes, bytes]] = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})

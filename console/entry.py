"""Who makes a request: logging in and out, and finding the session of a cookie or a password.

A session's cookie cannot be read by scripts, goes to no other site, and begins with `__Host-` where browsers reach the
console over TLS, so that no other host of the domain can set it. Programs send name and password with each request.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Scope

from console.database import AccountConnections, AccountRefused, Connector, DatabaseError, DatabaseUnavailable
from console.hosts import Hosts
from console.refused_logins import LoginLimits, RefusedLogins
from console.sessions import Session, Sessions, TooManySessions
from engine.shared_future import wait_shared

log = logging.getLogger(__name__)

ACCOUNT_MAX, PASSWORD_MAX = 128, 1024  # characters and bytes; MySQL's names have 32, MariaDB's 128


class Unauthorized(Exception):
    """The request has no session."""


class LoginRefused(Exception):
    """The login failed. `status`: of HTTP; `wait`: seconds until it may be tried again; `number`: MySQL's, 0 where it
    has none."""

    def __init__(self, message: str, status: int = 401, wait: float = 0.0, number: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.number = number
        self.status = status
        self.wait = wait


class CrossSiteRequest(Exception):
    """The request may come from a page of another site."""


@dataclass(frozen=True, slots=True)
class Entry:
    """See the module. `encrypted`: whether browsers reach the console over TLS alone. `refused`: logins that failed, in
    the log. `logins`: those of programs that are in progress, by address, account and password."""

    sessions: Sessions
    limits: LoginLimits
    connector: Connector
    hosts: Hosts
    encrypted: bool
    port: int
    refused: RefusedLogins
    logins: dict[tuple[str, str, bytes], asyncio.Task[Session]] = field(default_factory=dict)

    @property
    def cookie(self) -> str:
        """The cookie's name. Cookies know no ports: two consoles of one machine need two names."""
        return "__Host-queuegate" if self.encrypted else f"queuegate_{self.port}"

    async def log_in(self, address: str, account: str, password: str) -> Session:
        """A session for the account. Raises LoginRefused."""
        connections = await self._logged_in(address, account, password.encode("utf-8", "surrogatepass"))
        try:
            session = self.sessions.begin(account, connections)
        except TooManySessions:
            connections.close()
            raise LoginRefused("too many sessions are open; try again later", 503) from None
        log.info("logged in", extra={"account": account, "address": address})
        return session

    async def _logged_in(self, address: str, account: str, password: bytes) -> AccountConnections:
        if not account or len(account) > ACCOUNT_MAX or len(password) > PASSWORD_MAX or "\0" in account:
            raise LoginRefused("give the name and the password of an account", 400)
        wait = self.limits.attempt(address)
        if wait:
            self.refused.note(account=account, address=address, reason="too many have failed")
            raise LoginRefused(f"too many logins have failed; try again in {wait:.0f} s", 429, wait)
        connections = AccountConnections(self.connector, account, password)
        try:
            await connections.log_in()
        except AccountRefused as error:
            self.refused.note(account=account, address=address, number=error.number)
            raise LoginRefused(error.message, number=error.number) from error
        except DatabaseError as error:
            self.limits.succeeded(address)  # the password was not checked
            away = isinstance(error, DatabaseUnavailable)
            why = "cannot reach its database" if away else "does not accept logins"
            raise LoginRefused(f"the proxy at {self.connector.place} {why}: {error.full_message}", 503) from error
        self.limits.succeeded(address)
        return connections

    def is_logged_in(self, scope: Scope) -> bool:
        """Whether a request comes from a session: that of a browser, or that of a program."""
        request = HTTPConnection(scope)
        if "authorization" not in request.headers:
            return self.sessions.find(request.cookies.get(self.cookie, ""), use=False) is not None
        try:
            account, word = _credentials(request.headers["authorization"])
            return self.sessions.find_api(address_of(request), account, word, use=False) is not None
        except Unauthorized:
            return False

    def session_of(self, request: Request, *, use: bool = True) -> Session:
        """The session of the cookie. Raises Unauthorized."""
        session = self.sessions.find(request.cookies.get(self.cookie, ""), use=use)
        if session is None:
            raise Unauthorized
        return session

    async def program_of(self, request: Request) -> Session:
        """The session of the name and the password, else of the cookie. Raises Unauthorized, LoginRefused."""
        if "authorization" not in request.headers:
            return self.session_of(request)
        account, word = _credentials(request.headers["authorization"])
        key = (address_of(request), account, word)
        session = None if self.limits.is_blocked(key[0]) else self.sessions.find_api(*key)
        if session is not None:
            return session
        # Requests at the same time are one login: as many as a program likes, none of which has failed.
        login = self.logins.get(key)
        if login is None:
            login = self.logins[key] = asyncio.create_task(self._log_in_program(*key))
            login.add_done_callback(lambda _: self.logins.pop(key))
        return await wait_shared(login)

    async def _log_in_program(self, address: str, account: str, password: bytes) -> Session:
        connections = await self._logged_in(address, account, password)
        try:
            return self.sessions.begin_api(address, password, account, connections)
        except TooManySessions:
            connections.close()
            raise LoginRefused("too many sessions are open; try again later", 503) from None

    def check_origin(self, request: Request) -> None:
        """Of a request that changes something. Raises CrossSiteRequest."""
        headers = request.headers
        if not self.hosts.from_own_page(headers["host"], headers.get("origin"), headers.get("sec-fetch-site")):
            raise CrossSiteRequest

    def set_cookie(self, response: Response, session: Session) -> None:
        """The browser has it until it is closed, or the session ends."""
        response.set_cookie(self.cookie, session.id, path="/", secure=self.encrypted, httponly=True, samesite="strict")

    def drop_cookie(self, response: Response) -> None:
        """The browser forgets it."""
        response.delete_cookie(self.cookie, path="/", secure=self.encrypted, httponly=True, samesite="strict")


def _credentials(authorization: str) -> tuple[str, bytes]:
    """The name and the password of a program. Raises Unauthorized."""
    scheme, _, credentials = authorization.partition(" ")
    try:
        name, colon, word = base64.b64decode(credentials.strip(), validate=True).partition(b":")
        account = name.decode()
    except ValueError:  # no base64, or no UTF-8
        raise Unauthorized from None
    if scheme.lower() != "basic" or not colon:
        raise Unauthorized
    return account, word


def address_of(request: HTTPConnection) -> str:
    """From where a request comes."""
    return request.client.host if request.client is not None else ""

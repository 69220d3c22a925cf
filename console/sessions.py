"""Web sessions: who is logged in, with what token, for how long. The password stays in this process's memory.

A session ends IDLE_SECONDS after its last page, LONGEST_SECONDS after its login, at logout, and when the proxy refuses
its account. There are SESSIONS_MAX at a time, OF_ACCOUNT_MAX of one account: a further login of an account ends the one
of its sessions that was used longest ago. The clock is injected.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from console.database import AccountConnections

IDLE_SECONDS = 8 * 3600.0
LONGEST_SECONDS = 24 * 3600.0
API_IDLE_SECONDS = 120.0  # of a client that logs in with each request: no new login at the proxy within this time
SESSIONS_MAX = 1000
OF_ACCOUNT_MAX = 20
_BYTES = 32  # of an id and a token: 256 bits


class TooManySessions(Exception):
    """There are as many sessions as there may be."""


@dataclass(frozen=True, slots=True)
class Undo:
    """A button beside what an action has done, with its `text`: it undoes that, or leads to where it can be undone.
    `path` and `fields`: of an action, or of a page where it is a `link`."""

    text: str
    path: str
    fields: Mapping[str, str]
    link: bool = False


@dataclass(eq=False, slots=True)
class Session:
    """One login. `token` is in every form. `kept`: what pages keep for a few seconds, by name. `notice`: what an action
    has done, for the next page, `ran` the SQL of it, and `undo` how it is undone."""

    id: str
    account: str
    token: str
    database: AccountConnections
    created: float
    used: float
    idle_seconds: float = IDLE_SECONDS
    cache: dict[str, tuple[float, Any]] = field(default_factory=dict)
    notice: str = ""
    ran: str = ""
    undo: Undo | None = None

    def over(self, now: float) -> bool:
        """Whether its time has run out."""
        return now - self.used >= self.idle_seconds or now - self.created >= LONGEST_SECONDS

    def has_token(self, candidate: str) -> bool:
        """Whether that is its token."""
        return hmac.compare_digest(candidate.encode("utf-8", "replace"), self.token.encode())


class Sessions:
    """All of them. See the module."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[str, Session] = {}
        self._secret = secrets.token_bytes(_BYTES)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._open.values()))

    def begin(self, account: str, database: AccountConnections) -> Session:
        """A session of who has just logged in. Raises TooManySessions."""
        return self._begin(secrets.token_urlsafe(_BYTES), account, database, IDLE_SECONDS)

    def begin_api(self, address: str, password: bytes, account: str, database: AccountConnections) -> Session:
        """The session of a program, which gives its password each time. Raises TooManySessions."""
        return self._begin(self._key_of(address, account, password), account, database, API_IDLE_SECONDS)

    def _begin(self, key: str, account: str, database: AccountConnections, idle_seconds: float) -> Session:
        self.end_old()
        own = sorted((s for s in self._open.values() if s.account == account), key=lambda s: s.used)
        for oldest in own[: max(0, len(own) + 1 - OF_ACCOUNT_MAX)]:
            self.end(oldest)
        if len(self._open) >= SESSIONS_MAX:
            raise TooManySessions
        now = self._clock()
        session = Session(key, account, secrets.token_urlsafe(_BYTES), database, now, now, idle_seconds)
        if (before := self._open.get(key)) is not None:
            self.end(before)
        self._open[key] = session
        return session

    def find(self, key: str, *, use: bool = True) -> Session | None:
        """The session of that id, if its time has not run out. `use`: it counts as used now."""
        session = self._open.get(key)
        if session is None:
            return None
        if session.over(self._clock()):
            self.end(session)
            return None
        if use:
            session.used = self._clock()
        return session

    def find_api(self, address: str, account: str, password: bytes, *, use: bool = True) -> Session | None:
        """The session of a program that has given this password before, at the same address: who guesses at another one
        is a new login, and counted."""
        return self.find(self._key_of(address, account, password), use=use)

    def end(self, session: Session) -> None:
        """Forget it. A second time is nothing."""
        if self._open.get(session.id) is session:
            del self._open[session.id]
        session.database.close()

    def end_old(self) -> None:
        """Forget those whose time has run out."""
        now = self._clock()
        for session in self:
            if session.over(now):
                self.end(session)

    def _key_of(self, address: str, account: str, password: bytes) -> str:
        """Nobody can make it without the secret, so it is no id that a cookie could have."""
        names = (each.encode("utf-8", "replace") for each in (address, account))
        before = b"".join(len(name).to_bytes(4, "big") + name for name in names)
        return hmac.new(self._secret, before + password, hashlib.sha256).hexdigest()

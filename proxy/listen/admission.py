"""Admission: which clients are admitted, and how many. The only place where clients are counted and refused for their
number.

Rules: every client has a ClientSlot from its accepted socket to its end. What can be refused at once is refused at
once, before the database is asked anything: too many clients (1040), an address that failed too many logins or broke
off too many (1129). How many connections a user has (1203) is asked only after its password was found right, and before
the client is sent an error. Logins in progress are bounded, too, but a further client waits for its turn: pools that
start connect all at once. A client that has a turn and sends nothing loses it to those that wait
(proxy.listen.login_turns), and its place among all connections, too, where no other is free: silent sockets keep no
client out.

Counts are those of all workers together (proxy.listen.shared_counts); failed logins are reported to the other workers
(`announce`), so an address that moves from one to another gains no more than what is in progress at that moment.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache

from mysql_wire.errors import FatalProtocolError, ProxyError
from proxy.config import Limits
from proxy.listen.login_turns import SILENT_SECONDS, LoginTurns
from proxy.listen.shared_counts import Count, WorkerCounts

log = logging.getLogger(__name__)

ADDRESSES_MAX = 10_000
"""Addresses whose failed logins are remembered, about 2 MB; then the one that failed longest ago is forgotten. An
attacker with ten thousand addresses has a million attempts a minute anyway."""

_IPV6_PREFIX = 64  # what one customer of a provider has; single addresses of it cost nothing
_REPLY_BURST = 20  # errors to blocked addresses at once: a client that tries again reads why, a storm does not
_REPLY_INTERVAL_SECONDS = (
    0.05  # between two errors to blocked addresses; above this rate sockets are closed without one
)
_REFUSAL_LOG_SECONDS = 60.0  # a refusal of each kind is logged once in that time, with the number of those left out

_BROKEN_OFF = "connections a minute that ended before they had logged in"
_FAILED = "failed logins a minute"
LOGIN_FAILURES = frozenset((1045, 1698, 3118, 3955, 4151))
"""Errors that count as a failed login: wrong password, none at all, account locked or blocked (MySQL and MariaDB)."""


class Admission:
    """See the module. `clock` is monotonic seconds; `announce` reports a login to other workers: source, whether
    good."""

    def __init__(
        self,
        limits: Limits,
        tally: WorkerCounts,
        clock: Callable[[], float],
        announce: Callable[[str, bool], None] = lambda source, good: None,
    ) -> None:
        self.limits = limits
        self.tally = tally
        self.failures = FailedLogins(limits.login_failures, clock)
        # Of what is not reported to the other workers each has its share.
        self.broken = FailedLogins(-(-limits.connection_errors // tally.workers), clock)
        self._announce = announce
        self._clock = clock
        self._refusal_log = _RefusalLog(clock)
        self._next_reply_at = 0.0
        self.turns: LoginTurns[ClientSlot] = LoginTurns(
            -(-limits.unauthenticated_per_address // tally.workers),
            lambda: tally.acquire(Count.LOGGING_IN, limits.unauthenticated_connections),
            lambda: tally.release(Count.LOGGING_IN),
            self._drop,
            clock,
        )

    def admit_connection(self, host: str) -> ClientSlot:
        """A client has connected from this address. Raises ProxyError: send it, and close."""
        source = source_of(host)
        self._check_failures(host, source)
        if not self._take_place(source):
            self._refusal_log.about("limits.max_connections", host)
            self.tally.add(Count.REFUSED)
            raise ProxyError(1040, "Too many connections")
        return ClientSlot(self, host, source)

    def drops_silently(self, host: str) -> bool:
        """Whether to close this address's socket without an error, so that many sockets of it cost little."""
        if not (self.failures or self.broken) or not self._blocked(source_of(host)):
            return False
        now = self._clock()
        due = max(self._next_reply_at, now)
        if due - now > _REPLY_BURST * _REPLY_INTERVAL_SECONDS:
            return True
        self._next_reply_at = due + _REPLY_INTERVAL_SECONDS
        return False

    def _take_place(self, source: str) -> bool:
        limits, tally = self.limits, self.tally
        if tally.acquire(Count.CONNECTIONS, limits.max_connections):
            return True
        silent = self.turns.to_make_room_for(source)
        if silent is None:
            return False
        self._drop(silent)
        return tally.acquire(Count.CONNECTIONS, limits.max_connections)

    def _drop(self, slot: ClientSlot) -> None:
        """It is silent while others wait."""
        self._refusal_log.about("limits.unauthenticated_connections", slot.host)
        slot.leave()
        slot.login_aborted()
        slot.drop(
            ProxyError(
                1040,
                f"Too many connections that have not logged in: this one said nothing for {SILENT_SECONDS:g} s, or"
                " waited for longest, and others want its place (limits.unauthenticated_connections,"
                " limits.unauthenticated_per_address); log in at once after connecting",
            )
        )

    def on_remote_login(self, source: str, good: bool) -> None:
        """Another worker reports the result of a login."""
        if good:
            self.failures.forgive(source)
        else:
            self.failures.add(source)

    def _blocked(self, source: str) -> float:
        return max(self.failures.blocked_for(source), self.broken.blocked_for(source))

    def _check_failures(self, host: str, source: str) -> None:
        limits = self.limits
        for name, counted, most, what, advice in (
            ("limits.connection_errors", self.broken, limits.connection_errors, _BROKEN_OFF, ""),
            ("limits.login_failures", self.failures, limits.login_failures, _FAILED, " with the right password"),
        ):
            seconds = counted.blocked_for(source)
            if seconds > 0:
                self._refusal_log.about(name, host)
                self.tally.add(Count.REFUSED)
                raise FatalProtocolError(
                    1129,
                    f"Host '{host}' is blocked because of many connection errors: more than {most} {what}; try again in"
                    f" {max(seconds, 1):.0f} s{advice} ({name})",
                )

    def _failed(self, source: str) -> None:
        self.tally.add(Count.LOGIN_FAILURES)
        if self.limits.login_failures:
            self.failures.add(source)
            self._announce(source, False)

    def _succeeded(self, source: str) -> None:
        if self.failures.forgive(source):
            self._announce(source, True)

    def _acquire_user(self, user: str, host: str) -> None:
        if not self.tally.acquire_user(user, self.limits.max_user_connections):
            self._refusal_log.about("limits.max_user_connections", host, user)
            self.tally.add(Count.REFUSED)
            raise ProxyError(1203, f"User {user} already has more than 'max_user_connections' active connections")


class ClientSlot:
    """One client's place: taken by `Admission.admit_connection`, released by `leave`."""

    def __init__(self, admission: Admission, host: str, source: str) -> None:
        self._admission = admission
        self.host = host
        self.source = source
        self.waiting_since: Callable[[], float | None] = lambda: None
        """Since when the client's next packet is waited for; None: none is."""
        self.drop: Callable[[ProxyError], None] = lambda error: None
        """Sends the error, and ends the login."""
        self._user: str | None = None
        self._left = False

    @property
    def silent_since(self) -> float | None:
        """See turns.Newcomer."""
        return self.waiting_since()

    def turn(self) -> asyncio.Future[None]:
        """Done once this client may log in: at once, unless as many others do as the limit on those who have not yet
        allows."""
        turn = self._admission.turns.request(self)
        if not turn.done():
            self._admission._refusal_log.about("limits.unauthenticated_connections", self.host)
        return turn

    def login_aborted(self) -> None:
        """The connection ended before the login did."""
        self._admission.broken.add(self.source)

    def check(self) -> None:
        """May this client try (again) to log in? Raises ProxyError 1129."""
        self._admission._check_failures(self.host, self.source)

    def admit(self, user: str) -> None:
        """The password was right; the client has no answer yet. Raises ProxyError 1203: it is refused."""
        if self._admission.limits.max_user_connections and user != self._user:
            self._admission._acquire_user(user, self.host)
            self._release_user()
            self._user = user
        self._admission._succeeded(self.source)
        self.logged_in()

    def failed(self, errno: int) -> None:
        """The login failed, for this reason."""
        if errno in LOGIN_FAILURES:
            self._admission._failed(self.source)

    def logged_in(self) -> None:
        """It no longer counts among those that have not logged in yet. May be called twice."""
        self._admission.turns.leave(self)

    def leave(self) -> None:
        """The client is gone, and its connection to the database with it. May be called twice."""
        if not self._left:
            self._left = True
            self.logged_in()
            self._release_user()
            self._admission.tally.release(Count.CONNECTIONS)

    def _release_user(self) -> None:
        if self._user is not None:
            self._admission.tally.release_user(self._user)
            self._user = None


class FailedLogins:
    """A bucket of attempts for each address: a failure takes one, time refills it, a good login at once."""

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._most = float(per_minute)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # attempts left, and when that was so

    def __len__(self) -> int:
        return len(self._left)

    def blocked_for(self, source: str) -> float:
        """Seconds until this source may try again; 0: now."""
        if source not in self._left:
            return 0.0
        return max(0.0, 1.0 - self._now(source)) * 60 / self._most

    def add(self, source: str) -> None:
        """A login failed."""
        if not self._most:
            return
        self._left[source] = (max(0.0, self._now(source) - 1.0), self._clock())
        self._left.move_to_end(source)
        if len(self._left) > ADDRESSES_MAX:
            self._left.popitem(last=False)

    def refund(self, source: str) -> None:
        """A login that was counted in advance has not failed."""
        if source in self._left:
            self._left[source] = (min(self._most, self._now(source) + 1.0), self._clock())

    def forgive(self, source: str) -> bool:
        """A login succeeded; whether that changes anything."""
        return self._left.pop(source, None) is not None

    def _now(self, source: str) -> float:
        left, at = self._left.get(source, (self._most, 0.0))
        return min(self._most, left + (self._clock() - at) * self._most / 60)


@lru_cache(maxsize=1024)
def source_of(host: str) -> str:
    """The part of an address that identifies a client: an IPv4 address whole, of IPv6 the network."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host  # a unix socket's client has none
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return str(ipaddress.ip_network((int(address), _IPV6_PREFIX), strict=False))
        address = address.ipv4_mapped
    return str(address)


class _RefusalLog:
    """What is logged of refusals: each kind once a minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next: dict[str, float] = {}
        self._suppressed: dict[str, int] = {}

    def about(self, limit: str, host: str, user: str | None = None) -> None:
        now = self._clock()
        if now < self._next.get(limit, now):
            self._suppressed[limit] = self._suppressed.get(limit, 0) + 1
            return
        self._next[limit] = now + _REFUSAL_LOG_SECONDS
        more: dict[str, object] = {} if user is None else {"user": user}
        log.warning("%s is reached", limit, extra={"peer": host, "before": self._suppressed.pop(limit, 0), **more})

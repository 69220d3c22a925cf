"""Logins at the console that fail: how many may, and what the log says about those that are refused."""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine.background.summary import Summary
from proxy.listen.admission import FailedLogins, source_of

log = logging.getLogger(__name__)

REPORT_SECONDS = 60.0


class RefusedLogins:
    """Refused logins in the log: the first at once, then one line a minute with their number.

    A client that can reach the console can cause a thousand of them per second. They must not flood the log.

    One for each kind of event.
    """

    def __init__(self, message: str, clock: Callable[[], float]) -> None:
        self._message, self._clock = message, clock
        self._summary = Summary(REPORT_SECONDS)
        self._last: dict[str, object] = {}

    def note(self, **about: object) -> None:
        """Count one more."""
        self._summary.add(1)
        self._last = about
        self.report()

    def report(self) -> None:
        """Log what is not logged yet, if a minute has passed."""
        if count := self._summary.take(self._clock()):
            log.warning(self._message, extra=self._last if count == 1 else {**self._last, "times": count})


_OF_ADDRESS_MAX, _IN_ALL_MAX = 10, 30  # a minute
_ALL = "all"


class LoginLimits:
    """How many logins may fail here: fewer than the proxy allows to one address, and to it all of them come from here.

    So a client that guesses passwords at the console is stopped by the console. The proxy never refuses the machine
    on which the console runs, and with it the applications there. An attempt is counted before it is made and given
    back when it succeeds, so that a thousand at the same time are no more than one after the other.

    `proxy_allows`: failed logins a minute of one address there; 0: any number.
    """

    def __init__(self, proxy_allows: int, clock: Callable[[], float]) -> None:
        in_all = min(_IN_ALL_MAX, max(1, proxy_allows // 2)) if proxy_allows else _IN_ALL_MAX
        self.of_address = min(_OF_ADDRESS_MAX, max(1, in_all // 2))
        self.in_all = in_all
        self._of_address = FailedLogins(self.of_address, clock)
        self._in_all = FailedLogins(in_all, clock)
        self._clock = clock

    def attempt(self, address: str) -> float:
        """Count an attempt from there. Returns 0, or after how many seconds one may be made."""
        source = source_of(address)
        wait = max(self._of_address.blocked_for(source), self._in_all.blocked_for(_ALL))
        if not wait:
            self._of_address.add(source)
            self._in_all.add(_ALL)
        return wait

    def is_blocked(self, address: str) -> bool:
        """Whether too many from there have failed."""
        return self._of_address.blocked_for(source_of(address)) > 0

    def succeeded(self, address: str) -> None:
        """The attempt is not counted."""
        self._of_address.refund(source_of(address))
        self._in_all.refund(_ALL)

"""How many logins may fail here: fewer than the proxy allows to one address, and to it all of them come from here.

So a client that guesses passwords at the console is stopped by the console. The proxy never refuses the machine on
which the console runs, and with it the applications there. An attempt is counted before it is made and given back when
it succeeds, so that a thousand at the same time are no more than one after the other.
"""

from __future__ import annotations

from collections.abc import Callable

from proxy.listen.admission import FailedLogins, source_of

_OF_ADDRESS_MAX, _IN_ALL_MAX = 10, 30  # a minute
_ALL = "all"


class LoginLimits:
    """See the module. `proxy_allows`: failed logins a minute of one address there; 0: any number."""

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

    def succeeded(self, address: str) -> None:
        """The attempt is not counted."""
        self._of_address.refund(source_of(address))
        self._in_all.refund(_ALL)

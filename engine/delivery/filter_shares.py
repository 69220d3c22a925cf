"""FilterShares: how much of the engine's time the conditions of one account's streams may take in vain. No I/O.

Each commit on a queue leads to a look for each condition of its streams, so one account with many conditions makes the
statements of all others dearer. Rules:
- A look that finds messages to deliver is free. One that finds none is charged, with the time that it took, to the
  accounts whose streams asked for it: to each an equal part.
- Each account earns SHARE of the time. In debt it waits; then all its conditions have their turn together, so that none
  of them starves. A condition of several accounts waits only while all of them are in debt.
- The first page of a scan (what follows a commit) and further pages (what leads through a backlog) are counted apart:
  the latter may save up more, so that a new receiver finds its message after many others.
- Nobody waits while no client of another account is connected: then there is nobody to be fair to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from engine.clock import Clock

SHARE = 0.03
"""Of the time, for each of the two. One account may cost others a tenth in all: the rest is for what is around the
looks, such as its streams' part of each commit and the database's own work."""

LOOKS_SECONDS = 0.05
"""What can be saved up for first pages: a hundred looks at once. It is spent at once, beside what is earned meanwhile:
in any second an account takes this, SHARE, and what its last turn takes beyond."""

PAGES_SECONDS = 8.0
"""What can be saved up for further pages: a million messages are examined in less."""

_CHARGE_MAX_SECONDS = 1.0  # one page that takes longer waits for something
_ALONE_SECONDS = 1.0  # how long it is believed that nobody else is connected, or that somebody is

ACCOUNTS_MAX = 1000
"""With a balance; then those that have saved up most are forgotten."""


class _Balance:
    """Seconds saved up, or owed. Full at the start. `debt_ends_at`: when nothing is owed any more; 0 where nothing ever
    was. It changes with a charge only, for each condition asks for it in each pass."""

    def __init__(self, clock: Clock, most: float) -> None:
        self._clock, self._most = clock, most
        self._seconds, self._at = most, clock.monotonic()
        self.debt_ends_at = 0.0

    @property
    def seconds(self) -> float:
        return min(self._most, self._seconds + (self._clock.monotonic() - self._at) * SHARE)

    @property
    def fullness(self) -> float:
        """1 where nothing more can be saved up, negative in debt."""
        return self.seconds / self._most

    def charge(self, seconds: float) -> None:
        self._seconds, self._at = self.seconds - seconds, self._clock.monotonic()
        self.debt_ends_at = 0.0 if self._seconds >= 0 else self._at - self._seconds / SHARE


class _Account:
    def __init__(self, clock: Clock) -> None:
        self.looks, self.pages = _Balance(clock, LOOKS_SECONDS), _Balance(clock, PAGES_SECONDS)

    @property
    def fullness(self) -> float:
        return min(self.looks.fullness, self.pages.fullness)

    def of(self, under_way: bool) -> _Balance:
        return self.pages if under_way else self.looks


class FilterShares:
    """See the module; one for an engine. `alone`: whether no client of another account is connected."""

    def __init__(self, clock: Clock, alone: Callable[[str], bool] = lambda user: True) -> None:
        self._clock, self._ask_alone = clock, alone
        self._accounts: dict[str, _Account] = {}
        self._alone: dict[str, tuple[float, bool]] = {}  # when that was asked

    def ready_at(self, user: str, under_way: bool, now: float) -> float:
        """When a condition of that account may be looked for next; in the past when at once."""
        account = self._accounts.get(user)
        ends_at = 0.0 if account is None else account.of(under_way).debt_ends_at
        return 0.0 if ends_at <= now or self._is_alone(user, now) else ends_at

    def charge(self, user: str, under_way: bool, seconds: float) -> None:
        """A page for that account has found nothing."""
        if self._is_alone(user, self._clock.monotonic()):
            return
        if user not in self._accounts:
            if len(self._accounts) >= ACCOUNTS_MAX:
                self._forget()
            self._accounts[user] = _Account(self._clock)
        self._accounts[user].of(under_way).charge(min(seconds, _CHARGE_MAX_SECONDS))

    def _is_alone(self, user: str, now: float) -> bool:
        asked_at, alone = self._alone.get(user, (float("-inf"), True))
        if now - asked_at >= _ALONE_SECONDS:
            if len(self._alone) >= ACCOUNTS_MAX:
                self._alone.clear()
            alone = self._ask_alone(user)
            self._alone[user] = (now, alone)
        return alone

    def _forget(self) -> None:
        """Make room for one more: of full accounts there is nothing to remember; else the fullest goes. One in debt
        goes only where all are, and then it is the one that owes least."""
        fullness = {user: account.fullness for user, account in self._accounts.items()}
        kept = {user: account for user, account in self._accounts.items() if fullness[user] < 1}
        if len(kept) >= ACCOUNTS_MAX:
            del kept[max(kept, key=fullness.__getitem__)]
        self._accounts = kept


class ReceiverSetShare:
    """The shares of those accounts whose streams have one condition."""

    def __init__(self, shares: FilterShares, clock: Clock) -> None:
        self._shares, self._clock = shares, clock
        self._streams: Counter[str] = Counter()
        self._turn = False

    def join(self, user: str) -> None:
        self._streams[user] += 1

    def leave(self, user: str) -> None:
        self._streams[user] -= 1
        if not self._streams[user]:
            del self._streams[user]

    def begin_turn(self, under_way: bool) -> None:
        """A pass begins: what may be looked for now may be so until its end, whatever it costs."""
        now = self._clock.monotonic()
        self._turn = self._earliest(under_way, now) <= now

    def end_turn(self) -> None:
        self._turn = False

    def ready_at(self, under_way: bool, now: float) -> float:
        """When the next page may be examined; in the past when at once."""
        return 0.0 if self._turn else self._earliest(under_way, now)

    def charge(self, under_way: bool, seconds: float) -> None:
        """A page has found nothing."""
        for user in self._streams:
            self._shares.charge(user, under_way, seconds / len(self._streams))

    def _earliest(self, under_way: bool, now: float) -> float:
        return min((self._shares.ready_at(user, under_way, now) for user in self._streams), default=0.0)

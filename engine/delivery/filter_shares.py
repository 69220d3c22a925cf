"""FilterShares: how much of the engine's time polls without a match may take for the streams of one account. No I/O.

Each commit on a queue leads to a poll for each condition of its streams, so one account with many conditions makes the
statements of all others more expensive. Rules:
- A poll that finds messages to deliver is free. One that finds none is charged, with the time that it took, to the
  accounts whose streams have that condition: to each an equal part.
- Each account earns SHARE of the time. In debt it waits; then all its conditions have their turn together, so that none
  of them starves. A condition of several accounts waits only while all of them are in debt.
- The first page of a scan (what follows a commit) and further pages (what leads through a backlog) are counted apart:
  the latter may save up more, so that a new receiver finds its message after many others.
- There is no waiting while no client of another account is connected: then no other account is slowed down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from engine.clock import Clock

SHARE = 0.03
"""Of the time, for each of the two. One account may cost others a tenth in all: the rest is for the work around the
polls, such as its streams' part of each commit and the database's own work."""

POLLS_SECONDS = 0.05
"""Can be saved up for first pages: a hundred polls at once. It is spent at once, in addition to what is earned
meanwhile: in any second an account takes this, SHARE, and the excess of its last turn."""

PAGES_SECONDS = 8.0
"""Can be saved up for further pages: a million messages are examined in less."""

_CHARGE_MAX_SECONDS = 1.0  # one page that takes longer waits for something
_SOLE_ACCOUNT_SECONDS = 1.0  # how long it is cached whether clients of other accounts are connected

ACCOUNTS_MAX = 1000
"""With a balance; if there are more, those that have saved up most are removed."""


class _Balance:
    """Seconds saved up, or owed. Full at the start. `debt_ends_at`: when nothing is owed any more; 0 where nothing ever
    was. It changes with a charge only, because it is read for each condition in each pass."""

    def __init__(self, clock: Clock, limit: float) -> None:
        self._clock, self._limit = clock, limit
        self._seconds, self._at = limit, clock.monotonic()
        self.debt_ends_at = 0.0

    @property
    def seconds(self) -> float:
        return min(self._limit, self._seconds + (self._clock.monotonic() - self._at) * SHARE)

    @property
    def fullness(self) -> float:
        """1 where nothing more can be saved up, negative in debt."""
        return self.seconds / self._limit

    def charge(self, seconds: float) -> None:
        self._seconds, self._at = self.seconds - seconds, self._clock.monotonic()
        self.debt_ends_at = 0.0 if self._seconds >= 0 else self._at - self._seconds / SHARE


class _Account:
    def __init__(self, clock: Clock) -> None:
        self.polls, self.pages = _Balance(clock, POLLS_SECONDS), _Balance(clock, PAGES_SECONDS)

    @property
    def fullness(self) -> float:
        return min(self.polls.fullness, self.pages.fullness)

    def balance(self, in_progress: bool) -> _Balance:
        return self.pages if in_progress else self.polls


class FilterShares:
    """See the module; one for an engine. `sole_account`: whether no client of another account is connected."""

    def __init__(self, clock: Clock, sole_account: Callable[[str], bool] = lambda user: True) -> None:
        self._clock, self._is_sole_account = clock, sole_account
        self._accounts: dict[str, _Account] = {}
        self._sole_account_checks: dict[str, tuple[float, bool]] = {}  # by account: when it was checked, and the result

    def ready_at(self, user: str, in_progress: bool, now: float) -> float:
        """When a condition of that account may be polled for next; a time in the past means at once."""
        account = self._accounts.get(user)
        ends_at = 0.0 if account is None else account.balance(in_progress).debt_ends_at
        return 0.0 if ends_at <= now or self._only_account_connected(user, now) else ends_at

    def charge(self, user: str, in_progress: bool, seconds: float) -> None:
        """A page for that account had no match."""
        if self._only_account_connected(user, self._clock.monotonic()):
            return
        if user not in self._accounts:
            if len(self._accounts) >= ACCOUNTS_MAX:
                self._forget()
            self._accounts[user] = _Account(self._clock)
        self._accounts[user].balance(in_progress).charge(min(seconds, _CHARGE_MAX_SECONDS))

    def _only_account_connected(self, user: str, now: float) -> bool:
        checked_at, sole = self._sole_account_checks.get(user, (float("-inf"), True))
        if now - checked_at >= _SOLE_ACCOUNT_SECONDS:
            if len(self._sole_account_checks) >= ACCOUNTS_MAX:
                self._sole_account_checks.clear()
            sole = self._is_sole_account(user)
            self._sole_account_checks[user] = (now, sole)
        return sole

    def _forget(self) -> None:
        """Make room for one more: full accounts need no entry; else the fullest is removed. One in debt is removed only
        where all are, and then it is the one that owes least."""
        fullness = {user: account.fullness for user, account in self._accounts.items()}
        remaining = {user: account for user, account in self._accounts.items() if fullness[user] < 1}
        if len(remaining) >= ACCOUNTS_MAX:
            del remaining[max(remaining, key=fullness.__getitem__)]
        self._accounts = remaining


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

    def begin_turn(self, in_progress: bool) -> None:
        """A pass begins: a condition that may be polled for now may be so until its end, whatever it costs."""
        now = self._clock.monotonic()
        self._turn = self._earliest(in_progress, now) <= now

    def end_turn(self) -> None:
        self._turn = False

    def ready_at(self, in_progress: bool, now: float) -> float:
        """When the next page may be examined; a time in the past means at once."""
        return 0.0 if self._turn else self._earliest(in_progress, now)

    def charge(self, in_progress: bool, seconds: float) -> None:
        """A page had no match."""
        for user in self._streams:
            self._shares.charge(user, in_progress, seconds / len(self._streams))

    def _earliest(self, in_progress: bool, now: float) -> float:
        return min((self._shares.ready_at(user, in_progress, now) for user in self._streams), default=0.0)

"""OpenTransactions: how many transactions each account has open at this worker, bounded.

An open transaction holds locks, a snapshot of the server, or the embedded database's writer. The status flags after
each answer show whether one is open, so it counts however it was begun. A BEGIN beyond the bound is refused. One that
begins otherwise (autocommit off, a procedure, a prepared BEGIN) is known only once it is open: then its connection is
closed, which undoes it.
"""

from __future__ import annotations

from collections import Counter

from mysql_wire.errors import ProxyError


class OpenTransactions:
    """See the module. `most`: of one account; 0: not bounded."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.count: Counter[str] = Counter()
        """Of each account."""

    def error(self, user: str) -> ProxyError:
        """The client's error."""
        return ProxyError(
            1637,
            f"Too many active concurrent transactions: user '{user}' has {self.most} open here, which is as many as"
            " limits.transactions_per_account allows; commit or roll back some before you begin another",
        )


class SessionTransactions:
    """Those of one session: one or none."""

    def __init__(self, all_open: OpenTransactions) -> None:
        self._all = all_open
        self._user: str | None = None  # in whose name one is counted

    def full(self, user: str) -> bool:
        """Whether that account may not begin another."""
        most = self._all.most
        return bool(most) and self._user is None and self._all.count[user] >= most

    def follow(self, user: str, in_transaction: bool, *, free: bool) -> ProxyError | None:
        """After an answer. The error, where this session has begun one too many. `free`: it is not bounded."""
        if in_transaction == (self._user is not None):
            return None
        if not in_transaction:
            self.end()
            return None
        full = self.full(user) and not free
        self._user = user
        self._all.count[user] += 1
        return self._all.error(user) if full else None

    def check(self, user: str) -> None:
        """Before a BEGIN. Raises ProxyError."""
        if self.full(user):
            raise self._all.error(user)

    def end(self) -> None:
        """None is open any more. May be called twice."""
        user, self._user = self._user, None
        if user is not None:
            self._all.count[user] -= 1
            if not self._all.count[user]:
                del self._all.count[user]

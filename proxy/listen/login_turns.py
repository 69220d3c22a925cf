"""LoginTurns: which clients may log in now, and which are dropped so that others may.

Rules
- At most `total` clients log in at a time, over all workers, and at most `per_source` of one address at this worker.
  Further ones wait.
- The next turn goes to the address that has the fewest turns; of that address to the client that came first.
- Where a client waits, one that has a turn and has sent nothing for SILENT_SECONDS loses it: the one that is
  silent for longest, of the address itself where that has all its turns, else of the address that has the most. Its
  turn goes to the client that came last: among many silent sockets the active one is usually the newest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

SILENT_SECONDS = 1.0
"""Longer than a client across the world needs for one packet of its login, TLS included."""

_CHECK_SECONDS = 0.1  # how often it is checked whether another worker has released a turn, or a client is silent


class Newcomer(Hashable, Protocol):
    """A client that has not logged in."""

    @property
    def source(self) -> str:
        """The part of its address that identifies a client."""
        ...

    @property
    def silent_since(self) -> float | None:
        """Since when its next packet is waited for; None: no packet of it is due."""
        ...


N = TypeVar("N", bound=Newcomer)


class LoginTurns(Generic[N]):
    """See the module. `acquire` and `release` count over all workers; `drop` disconnects a client that loses its
    turn."""

    def __init__(
        self,
        per_source: int,
        acquire: Callable[[], bool],
        release: Callable[[], None],
        drop: Callable[[N], None],
        clock: Callable[[], float],
    ) -> None:
        self._per_source = per_source
        self._acquire, self._release, self._drop, self._clock = acquire, release, drop, clock
        self._holders: dict[str, dict[N, None]] = {}
        self._waiting: dict[str, dict[N, asyncio.Future[None]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Turns held={_counts(self._holders)} waiting={_counts(self._waiting)}>"

    def request(self, newcomer: N) -> asyncio.Future[None]:
        """Done once it has a turn. A client that gives up waiting has to `leave`."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(newcomer.source, {})[newcomer] = turn
        self._grant()
        return turn

    def leave(self, newcomer: N) -> None:
        """It has logged in, or is gone."""
        if _remove(self._waiting, newcomer) or not _remove(self._holders, newcomer):
            return
        self._release()
        if self._waiting:
            self._grant()

    def count(self, source: str) -> int:
        """How many of that address have a turn or wait for one."""
        return len(self._holders.get(source, ())) + len(self._waiting.get(source, ()))

    def to_make_room_for(self, source: str) -> N | None:
        """The client to drop, so that one of that address has a place among all connections: one that is silent for
        too long; or else, of the address with most newcomers, the one that waits for longest. It may be the client's
        own address: then one of it is dropped in any case, and the silent ones came first."""
        if (silent := self._silent_one()) is not None:
            return silent
        others = {*self._holders, *self._waiting}
        largest = max(others, key=self.count, default=source)
        if self.count(source) == self.count(largest):
            largest = source
        if largest in self._waiting:
            return next(iter(self._waiting[largest]))
        if self.count(largest) <= self.count(source) + 1:
            return None
        return next((one for one in self._holders[largest] if one.silent_since is not None), None)

    def _grant(self) -> None:
        """Grant the free turns."""
        while (next_source := self._next_source()) is not None:
            source, evicted = next_source
            if not self._acquire():
                silent = self._silent_one()
                if silent is None:
                    break
                self._hang_up(silent)
                evicted = True
                if not self._acquire():
                    break
            self._grant_turn(source, last=evicted)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._grant)

    def _grant_turn(self, source: str, *, last: bool) -> None:
        waiting = self._waiting[source]
        newcomer = next(reversed(waiting) if last else iter(waiting))
        turn = waiting.pop(newcomer)
        if not waiting:
            del self._waiting[source]
        self._holders.setdefault(source, {})[newcomer] = None
        if not turn.done():
            turn.set_result(None)

    def _next_source(self) -> tuple[str, bool] | None:
        """Whose turn it is, and whether someone silent had to make room: of an address that has all its turns."""
        for source in sorted(self._waiting, key=lambda source: len(self._holders.get(source, ()))):
            if len(self._holders.get(source, ())) < self._per_source:
                return source, False
            silent = self._silent_of(source)
            if silent is not None:
                self._hang_up(silent)
                return source, True
        return None

    def _silent_one(self) -> N | None:
        for source in sorted(self._holders, key=lambda source: -len(self._holders[source])):
            if (silent := self._silent_of(source)) is not None:
                return silent
        return None

    def _silent_of(self, source: str) -> N | None:
        """The one of that address that has been silent for longest, if for too long."""
        late = self._clock() - SILENT_SECONDS
        silent = ((one.silent_since, one) for one in self._holders.get(source, ()))
        candidates = [(since, number, one) for number, (since, one) in enumerate(silent) if since is not None]
        since, _, one = min(candidates, key=lambda entry: entry[:2], default=(late, 0, None))
        return one if since < late else None

    def _hang_up(self, newcomer: N) -> None:
        _remove(self._holders, newcomer)
        self._release()
        self._drop(newcomer)


def _remove(places: dict[str, dict[N, None]] | dict[str, dict[N, asyncio.Future[None]]], newcomer: N) -> bool:
    of_source = places.get(newcomer.source)
    if of_source is None or newcomer not in of_source:
        return False
    del of_source[newcomer]
    if not of_source:
        del places[newcomer.source]
    return True


def _counts(places: dict[str, dict[N, None]] | dict[str, dict[N, asyncio.Future[None]]]) -> int:
    return sum(map(len, places.values()))

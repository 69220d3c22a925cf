"""Turns: who may log in now, and who is dropped so that others may.

Rules
- At most `total` clients log in at a time, over all workers, and at most `per_source` of one address at this worker.
  Further ones wait in line.
- The next turn goes to the address that has the fewest turns; of that address to the client that came first.
- Where somebody waits, a client that has a turn and has said nothing for SILENT_SECONDS loses it: the one that is
  silent for longest, of the address itself where that has all its turns, else of the address that has the most. Its
  turn goes to the client that came last: in a crowd of sockets that say nothing the one that talks has just come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

SILENT_SECONDS = 1.0
"""Longer than a client across the world needs for one packet of its login, TLS included."""

_LOOK_SECONDS = 0.1  # how often those in line look whether a turn is free at another worker, or somebody is silent


class Newcomer(Hashable, Protocol):
    """A client that has not logged in."""

    @property
    def source(self) -> str:
        """Its address, as far as that stands for somebody."""
        ...

    @property
    def silent_since(self) -> float | None:
        """Since when its next packet is waited for; None: it is not its turn to speak."""
        ...


N = TypeVar("N", bound=Newcomer)


class Turns(Generic[N]):
    """See the module. `take` and `give` count over all workers; `drop` hangs up on a client that loses its turn."""

    def __init__(
        self,
        per_source: int,
        take: Callable[[], bool],
        give: Callable[[], None],
        drop: Callable[[N], None],
        clock: Callable[[], float],
    ) -> None:
        self._per_source = per_source
        self._take, self._give, self._drop, self._clock = take, give, drop, clock
        self._holders: dict[str, dict[N, None]] = {}
        self._line: dict[str, dict[N, asyncio.Future[None]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Turns held={_counts(self._holders)} waiting={_counts(self._line)}>"

    def ask(self, newcomer: N) -> asyncio.Future[None]:
        """Done once it has a turn. Whoever gives up waiting has to `leave`."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.setdefault(newcomer.source, {})[newcomer] = turn
        self._grant()
        return turn

    def leave(self, newcomer: N) -> None:
        """It has logged in, or is gone."""
        if _remove(self._line, newcomer) or not _remove(self._holders, newcomer):
            return
        self._give()
        if self._line:
            self._grant()

    def count(self, source: str) -> int:
        """How many of that address have a turn or wait for one."""
        return len(self._holders.get(source, ())) + len(self._line.get(source, ()))

    def to_make_room_for(self, source: str) -> N | None:
        """Whom to hang up on, so that a client of that address has a place among all connections: who is silent for
        too long; or else, of the address with most newcomers, the one that waits for longest. It may be the client's
        own address: then one of it has to go either way, and the silent ones came first."""
        if (silent := self._silent_one()) is not None:
            return silent
        others = {*self._holders, *self._line}
        largest = max(others, key=self.count, default=source)
        if self.count(source) == self.count(largest):
            largest = source
        if largest in self._line:
            return next(iter(self._line[largest]))
        if self.count(largest) <= self.count(source) + 1:
            return None
        return next((one for one in self._holders[largest] if one.silent_since is not None), None)

    def _grant(self) -> None:
        """Give out the turns that there are."""
        while (found := self._next_source()) is not None:
            source, crowded = found
            if not self._take():
                silent = self._silent_one()
                if silent is None:
                    break
                self._hang_up(silent)
                crowded = True
                if not self._take():
                    break
            self._give_turn(source, last=crowded)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._line:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._grant)

    def _give_turn(self, source: str, *, last: bool) -> None:
        line = self._line[source]
        newcomer = next(reversed(line) if last else iter(line))
        turn = line.pop(newcomer)
        if not line:
            del self._line[source]
        self._holders.setdefault(source, {})[newcomer] = None
        if not turn.done():
            turn.set_result(None)

    def _next_source(self) -> tuple[str, bool] | None:
        """Whose turn it is, and whether somebody silent had to make room: of an address that has all its turns."""
        for source in sorted(self._line, key=lambda source: len(self._holders.get(source, ()))):
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
        found = [(since, number, one) for number, (since, one) in enumerate(silent) if since is not None]
        since, _, one = min(found, key=lambda entry: entry[:2], default=(late, 0, None))
        return one if since < late else None

    def _hang_up(self, newcomer: N) -> None:
        _remove(self._holders, newcomer)
        self._give()
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

"""Zones: UTC offsets of session time zones, from the database.

A TIMESTAMP is a moment, and is shown in the time zone of its reader. The engine reads moments for many clients at once,
so it reads them as seconds since the epoch; the offsets are queried by zone and day. Most zones have one offset for a
whole day; on the days on which it changes each moment is queried on its own.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Sequence

from engine.backend.base import StorePool
from engine.store.statements.dialect import Dialect

_FIXED = re.compile(r"([+-])(\d{1,2}):(\d\d)", re.ASCII)
_UTC = frozenset(("UTC", "GMT", "ETC/UTC"))
_DAY = 86_400
_LAST_SECONDS = ((1 << 31) - 1, (1 << 32) - 1)  # of a TIMESTAMP, in most servers and in MariaDB from 11.5 on
_CACHED_MAX = 10_000  # offsets of one zone
_ZONES_MAX = 1_000
_BATCH_MAX = 400  # moments in one statement

FetchOffsets = Callable[[Sequence[int]], Awaitable[Sequence[int]]]
"""The offsets at moments, both in seconds. Raises BackendError."""


class Zone:
    """One time zone. Moments are loaded with `load`, then their `offset`s are known."""

    def __init__(self, fetch: FetchOffsets | None, fixed: int = 0) -> None:
        self._fetch = fetch
        self._fixed = fixed
        self._days: dict[int, int] = {}
        self._moments: dict[int, int] = {}

    async def load(self, moments: Collection[int]) -> None:
        """Query the offsets at these moments, where they are not known. Raises BackendError."""
        if self._fetch is None:
            return
        unknown = {moment for moment in moments if self._known(moment) is None}
        if not unknown:
            return
        if len(self._days) + len(self._moments) > _CACHED_MAX:
            self._days.clear()
            self._moments.clear()
            unknown = set(moments)
        bounds = {moment // _DAY: _day(moment) for moment in unknown}
        offsets = await self._offsets(
            self._fetch, sorted({*unknown, *(bound for day in bounds.values() for bound in day)})
        )
        self._moments |= {moment: offsets[moment] for moment in unknown}
        self._days |= {day: offsets[start] for day, (start, end) in bounds.items() if offsets[start] == offsets[end]}

    @staticmethod
    async def _offsets(fetch: FetchOffsets, moments: Sequence[int]) -> dict[int, int]:
        offsets: dict[int, int] = {}
        for start in range(0, len(moments), _BATCH_MAX):
            some = moments[start : start + _BATCH_MAX]
            offsets |= zip(some, await fetch(some), strict=True)
        return offsets

    def _known(self, moment: int) -> int | None:
        day = self._days.get(moment // _DAY)
        return self._moments.get(moment) if day is None else day

    def offset(self, moment: int) -> int:
        """By how many seconds its clocks are ahead of UTC at a moment that was learned."""
        if self._fetch is None:
            return self._fixed
        known = self._known(moment)
        assert known is not None, "a moment that was not learned"
        return known


def _day(moment: int) -> tuple[int, int]:
    """The first second of its day, and that of the next one, within the database's range: it has no moment 0."""
    start = moment - moment % _DAY
    last = next((last for last in _LAST_SECONDS if moment <= last), start + _DAY)
    return max(start, 1), min(start + _DAY, last)


class Zones:
    """The time zones of clients' sessions, by name."""

    def __init__(self, pool: StorePool, dialect: Dialect) -> None:
        self._pool = pool
        self._dialect = dialect
        self._known: dict[str, Zone] = {}

    def zone(self, name: str) -> Zone:
        """The zone of a session whose time_zone is `name`: an offset, a name that the database knows, or SYSTEM."""
        if name.upper() in _UTC:
            return Zone(None)
        if fixed := _FIXED.fullmatch(name):
            seconds = int(fixed[2]) * 3600 + int(fixed[3]) * 60
            return Zone(None, -seconds if fixed[1] == "-" else seconds)
        if len(self._known) >= _ZONES_MAX:
            self._known.clear()
        return self._known.setdefault(name, Zone(self._fetcher(name)))

    def _fetcher(self, name: str) -> FetchOffsets:
        async def fetch(moments: Sequence[int]) -> Sequence[int]:
            return await self._pool.read(lambda connection: self._dialect.zone_offsets(connection, name, moments))

        return fetch

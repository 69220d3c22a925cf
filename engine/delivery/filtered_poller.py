"""FilteredPoller: looks at a queue's table for the receivers of one condition, page by page.

The counterpart of the Poller in a receiver set with a WHERE. Messages that fit no stream stay due, so they stand before
those that fit at every look. What bounds their cost:
- a scan goes on in pages, each of which examines a bounded number of messages (its span, which adapts to how long a
  page takes and how many fit); between two pages other receiver sets have their turn, and after one in vain this
  receiver set rests for as long as it took;
- once the whole has been examined, and took more than a page, a commit leads to a fresh scan only, of what fell due
  since shortly before the last one: that finds what producers enqueue at once. The whole is examined again, because
  any commit may be an UPDATE, after a rest of ten times as long as that takes;
- what pages in vain take is bounded for each account (engine.delivery.filter_shares);
- nothing is kept of messages that do not fit, but how far the scan has come.
The reasons for a look are those of the Poller.
"""

from __future__ import annotations

from engine.delivery.cache import MessageCache
from engine.delivery.conflicts import Conflicts
from engine.delivery.context import WorkContext
from engine.delivery.filter_shares import ReceiverSetShare
from engine.delivery.poller import LOOK_LIMIT_MAX, Looked
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Condition, MessageId, QueueSpec
from engine.store.base import Page, Position, Scanned

SPAN_MIN = 1000
SPAN_MAX = 32_000
PAGE_SECONDS = 0.05
"""How long a page should take at most: what another receiver set of the queue may have to wait."""

REST = 10.0
"""Between two scans of the whole: so many times as long as one takes. A tenth of one connection's time at most."""

REST_ABOVE_SECONDS = 0.005
"""A page that is quicker is followed by the next at once: a commit is looked for within milliseconds."""

OVERLAP_NS = 5 * NS_PER_SECOND
"""How far a fresh scan reaches back: a message falls due when it is inserted, and is seen when that is committed."""


class FilteredPoller:
    """See the module. One pass is one page."""

    def __init__(
        self,
        condition: Condition,
        context: WorkContext,
        cache: MessageCache,
        conflicts: Conflicts,
        share: ReceiverSetShare,
    ) -> None:
        self.share = share
        self._condition, self._cache, self._conflicts = condition, cache, conflicts
        self._store, self._work, self._clock = context.store, context.work, context.clock
        self._metrics = context.metrics
        self._span = SPAN_MIN
        self.reset()

    def reset(self) -> None:
        """Nobody receives any more: forget all plans."""
        self.backlog = False
        """The scan has not come to its end."""
        self._wanted = self._whole_wanted = False
        self._whole_at: float | None = None  # when the whole may be examined again; None: at any time
        self._whole_looked_at = float("-inf")
        self._due_at: float | None = None
        self._looked_at: float | None = None
        self._rest_until = 0.0
        self._position: Position | None = None
        self._floor_ns: int | None = None
        self._scanned_ns: int | None = None  # up to when all that fell due has been examined
        self._began_ns = 0
        self._worked = 0.0  # seconds that the scan under way has taken so far
        self._pages = 0
        self._failed: Page | None = None
        self._scan_began = 0.0
        self._offered: set[MessageId] = set()  # what the scan under way has found of the messages in conflict

    def want(self, *, whole: bool = False) -> None:
        """Look as soon as a receiver can take messages; `whole`: at all that is due, without a rest before it."""
        self._wanted = self._whole_wanted = True
        if whole:
            self._whole_at = None

    def note_due(self, monotonic: float) -> None:
        """A message falls due then: its lease, just made, runs out."""
        self._due_at = monotonic if self._due_at is None else min(self._due_at, monotonic)

    @property
    def under_way(self) -> bool:
        """A scan has begun, and not come to its end."""
        return self._position is not None

    def next_look(self, queue: QueueSpec) -> float:
        """When the next scan is due by itself; in the past when at once."""
        rest_until = max(self._rest_until, self.share.ready_at(self.under_way, self._clock.monotonic()))
        if self._wanted or self._looked_at is None:
            return rest_until
        times = [self._due_at, self._conflicts.next_retry(), self._looked_at + queue.options.poll_interval_ns / 1e9]
        if self._whole_wanted:
            times.append(self._whole_at)
        return max(min(time for time in times if time is not None), rest_until)

    def next_time(self, queue: QueueSpec, *, hungry: bool) -> float:
        """When to look; `hungry`: receivers could take more than the cache holds, and more may be due."""
        if not self.under_way:
            return self.next_look(queue)
        rest_until = max(self._rest_until, self.share.ready_at(self.under_way, self._clock.monotonic()))
        return rest_until if hungry and not self._cache.full else float("inf")

    def look_due(self, queue: QueueSpec, *, hungry: bool) -> bool:
        """Whether to look now."""
        return self.next_time(queue, hungry=hungry) <= self._clock.monotonic()

    async def run_once(self, queue: QueueSpec, room: int) -> Looked:
        """Examine a page. Raises BackendError: then the same page is the next one.

        A scan that began anew each time might never come to its end where one call in a few fails.
        """
        began = self._clock.monotonic()
        if not self.under_way:
            self._begin(queue, began)
        limit = min(self._cache.limit - self._cache.together, LOOK_LIMIT_MAX)
        page = Page(limit, self._span, self._position, self._floor_ns)
        try:
            scanned = await self._work.run(self._store.scan(queue, self._condition, page))
        except BaseException:
            self._failed = page
            if page.after is None:
                self.want(whole=True)
            raise
        return self._take_in(scanned, began)

    async def try_again(self, queue: QueueSpec) -> None:
        """Examine the page that failed last once more, for nothing but its error. Raises BackendError."""
        if self._failed is not None:
            await self._work.run(self._store.scan(queue, self._condition, self._failed))

    def _begin(self, queue: QueueSpec, now: float) -> None:
        """A scan: of the whole, or of what is fresh."""
        safety = self._whole_looked_at + queue.options.poll_interval_ns / 1e9 <= now
        self._whole_wanted = self._whole_wanted or safety or len(self._conflicts) > 0
        self._wanted, self._due_at, self._floor_ns = False, None, None
        self._worked, self._pages = 0.0, 0
        self._scan_began = now
        self._offered.clear()
        if self._scanned_ns is None or self._whole_at is None or (self._whole_wanted and self._whole_at <= now):
            self._whole_wanted = False
            self._cache.clear()
        else:
            self._floor_ns = self._scanned_ns - OVERLAP_NS
            if self._cache.full:  # what is fresh may come before it; the whole is scanned again, and finds it
                self._cache.drop_last()
                self._whole_wanted = True

    def _take_in(self, scanned: Scanned, began: float) -> Looked:
        look, now = scanned.look, self._clock.monotonic()
        took = now - began
        if self._pages == 0:
            self._began_ns = look.now_ns
        self._pages += 1
        self._worked += took
        under_way = self.under_way
        self._metrics.looks += 1
        self._looked_at = now
        if look.next_due_ns is not None:
            self.note_due(began + (look.next_due_ns - look.now_ns) / NS_PER_SECOND)
        self._offered.update(key.id for key in look.keys if key.id in self._conflicts)
        free = [key for key in look.keys if not self._conflicts.blocks(key.id, now)]
        # The limit may have become lower while this page was under way; then all is looked for again anyway.
        if not self._cache.add(free[: max(0, self._cache.limit - self._cache.together)]):
            self._whole_wanted = True
        if not free:
            self.share.charge(under_way, took)
        self._adapt(took, len(look.keys))
        self._position = scanned.position
        self.backlog = scanned.position is not None
        # In vain: as long a rest, so that half of the time is left to others, however many commits there are.
        self._rest_until = now + took if not free and took > REST_ABOVE_SECONDS else 0.0
        if not self.backlog:
            self._end(now)
        return Looked(len(free), not self.backlog)

    def _adapt(self, took: float, found: int) -> None:
        """The next page's span: longer where little was found, shorter where a page takes long."""
        if took > PAGE_SECONDS or found > SPAN_MIN // 2:
            self._span = max(SPAN_MIN, self._span // 2)
        elif found < SPAN_MIN // 8:
            self._span = min(SPAN_MAX, self._span * 2)

    def _end(self, now: float) -> None:
        """The scan has come to its end. Only of the whole it tells that a message in conflict is offered no more."""
        self._scanned_ns = self._began_ns
        self._conflicts.looked(self._offered if self._floor_ns is None else self._conflicts, self._scan_began)
        if self._floor_ns is None:
            small = self._pages == 1 and self._worked <= PAGE_SECONDS
            self._whole_looked_at = now
            self._whole_at = None if small else now + REST * self._worked

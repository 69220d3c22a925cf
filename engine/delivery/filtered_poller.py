"""FilteredPoller: polls a queue's table for the receivers of one condition, page by page.

The counterpart of the Poller in a receiver set with a WHERE. Messages that match no stream stay due, so they precede
those that match at every poll. Their cost is bounded so:
- a scan goes on in pages, each of which examines a bounded number of messages (its span, which adapts to how long a
  page takes and how many match); between two pages other receiver sets have their turn, and after one without a match
  this receiver set rests for as long as it took;
- after a full scan of more than one page, a commit leads only to a fresh scan, of the messages that fell due since
  shortly before the last one: that finds what producers enqueue at once. A full scan is made again, because any commit
  may be an UPDATE, after a rest of ten times as long as it takes;
- the time of pages without a match is bounded for each account (engine.delivery.filter_shares);
- where messages became due again during a scan, or the next of an order_key may go, the first page is examined again
  after every other page: a long scan would find them only when the next one begins, and a key would move once per scan;
- a condition with an age rests for half of it after each scan;
- nothing is stored of messages that do not match, only the position of the scan.
The reasons for a poll are those of the Poller.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.delivery.cache import MessageCache
from engine.delivery.conflicts import Conflicts
from engine.delivery.context import QueueContext
from engine.delivery.filter_shares import ReceiverSetShare
from engine.delivery.poller import POLL_LIMIT_MAX, PollOutcome
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Condition, MessageId, QueueSpec
from engine.store.base import Page, Position, ScanResult

SPAN_MIN = 1000
SPAN_MAX = 32_000
PAGE_SECONDS = 0.05
"""How long a page should take at most: another receiver set of the queue may have to wait for so long."""

REST = 10.0
"""Between two full scans: so many times as long as one takes. A tenth of one connection's time at most."""

REST_ABOVE_SECONDS = 0.005
"""After a page that is quicker there is no rest: the messages of a commit are found within milliseconds."""

OVERLAP_NS = 5 * NS_PER_SECOND
"""How far a fresh scan reaches back: a message falls due when it is inserted, and is seen when that is committed."""


@dataclass(slots=True)
class _Scan:
    """A scan, from its first page on. `position`: where it goes on; None: it has come to its end. `floor_ns`: it
    examines only what fell due since then; None: it is a full one. `began_ns`: the database's time at its first page;
    `elapsed`: seconds that it has taken so far; `offered`: messages in conflict that it has returned. `incomplete`: a
    shard was left out; `repeats`: the last page was its first one once more."""

    began: float = 0.0
    position: Position | None = None
    floor_ns: int | None = None
    began_ns: int = 0
    elapsed: float = 0.0
    pages: int = 0
    offered: set[MessageId] = field(default_factory=set)
    incomplete: bool = False
    repeats: bool = False


@dataclass(slots=True)
class _Requests:
    """Which scans are requested: any (`scan`), or a full one (`full`), not before a time (None: at any time).
    `at_once`: a full one that needs no rest, since the last one began; `first_page`: before that, the first page of the
    scan in progress once more. `full_polled_at`: the end of the last full one."""

    scan: bool = False
    full: bool = False
    at_once: bool = False
    first_page: bool = False
    full_not_before: float | None = None
    full_polled_at: float = float("-inf")


class FilteredPoller:
    """See the module. One pass is one page."""

    def __init__(
        self,
        condition: Condition,
        context: QueueContext,
        cache: MessageCache,
        conflicts: Conflicts,
        share: ReceiverSetShare,
    ) -> None:
        self.share = share
        self._condition, self._cache, self._conflicts = condition, cache, conflicts
        self._context, self._clock = context, context.engine.clock
        self._span = SPAN_MIN
        self.reset()

    def reset(self) -> None:
        """There are no receivers any more: forget all plans."""
        self.backlog = False
        """The scan has not come to its end."""
        self._requests = _Requests()
        self._due_at: float | None = None
        self._polled_at: float | None = None
        self._rest_until = 0.0
        self._scan = _Scan()
        self._scanned_ns: int | None = None  # all messages that fell due before have been examined
        self._failed_page: Page | None = None

    def request_poll(self, *, full: bool = False) -> None:
        """Poll as soon as a receiver can take messages; `full`: all that is due, without a rest before it."""
        requests = self._requests
        requests.scan = requests.full = True
        if full:
            requests.full_not_before, requests.at_once, requests.first_page = None, True, True

    def note_due(self, monotonic: float) -> None:
        """A message falls due then: its new lease runs out."""
        self._due_at = monotonic if self._due_at is None else min(self._due_at, monotonic)

    @property
    def in_progress(self) -> bool:
        """A scan has begun, and has not come to its end."""
        return self._scan.position is not None

    def next_poll(self, queue: QueueSpec) -> float:
        """When the next scan is due without a request; a time in the past means at once."""
        rest_until = max(self._rest_until, self.share.ready_at(self.in_progress, self._clock.monotonic()))
        if self._requests.scan or self._polled_at is None:
            return rest_until
        times = [self._due_at, self._conflicts.next_retry(), self._polled_at + queue.options.poll_interval_ns / 1e9]
        if self._requests.full:
            times.append(self._requests.full_not_before)
        return max(min(time for time in times if time is not None), rest_until)

    def next_time(self, queue: QueueSpec, *, needs_more: bool) -> float:
        """When to poll; `needs_more`: receivers could take more than the cache has, and more may be due."""
        if not self.in_progress:
            return self.next_poll(queue)
        rest_until = max(self._rest_until, self.share.ready_at(self.in_progress, self._clock.monotonic()))
        return rest_until if needs_more and not self._cache.full else float("inf")

    def poll_due(self, queue: QueueSpec, *, needs_more: bool) -> bool:
        """Whether to poll now."""
        return self.next_time(queue, needs_more=needs_more) <= self._clock.monotonic()

    async def run_once(self, queue: QueueSpec, room: int, *, brief: bool = False) -> PollOutcome:
        """Examine a page. Raises BackendError: then the same page is the next one.

        A scan that started again each time might never come to its end where one call in a few fails.
        """
        began = self._clock.monotonic()
        if not self.in_progress:
            self._begin(queue, began)
        limit = min(self._cache.limit - self._cache.together, POLL_LIMIT_MAX)
        page = self._first_page_again(limit) or Page(limit, self._span, self._scan.position, self._scan.floor_ns)
        try:
            scanned = await self._context.work.run(self._context.engine.store.scan(queue, self._condition, page))
        except BaseException:
            self._failed_page = page
            if page.after is None:
                self.request_poll(full=True)
            raise
        return self._apply(scanned, began)

    def _first_page_again(self, limit: int) -> Page | None:
        """The first page again, if it was requested during a scan, and after every other page at most: the scan must
        come to its end."""
        scan, requests = self._scan, self._requests
        scan.repeats = requests.first_page and scan.pages > 0 and not scan.repeats
        if not scan.repeats:
            return None
        requests.first_page = False
        return Page(limit, self._span)

    async def retry(self, queue: QueueSpec) -> None:
        """Examine the page that failed last once more, only to see its error again. Raises BackendError."""
        if self._failed_page is not None:
            await self._context.work.run(self._context.engine.store.scan(queue, self._condition, self._failed_page))

    def _begin(self, queue: QueueSpec, now: float) -> None:
        """Start a scan: a full one, or a fresh one."""
        requests = self._requests
        safety = requests.full_polled_at + queue.options.poll_interval_ns / 1e9 <= now
        requests.full = requests.full or safety or len(self._conflicts) > 0
        requests.scan, self._due_at, self._scan = False, None, _Scan(now)
        if (
            self._scanned_ns is None
            or requests.full_not_before is None
            or (requests.full and requests.full_not_before <= now)
        ):
            requests.full = requests.at_once = requests.first_page = False
            self._cache.clear()
        else:
            self._scan.floor_ns = self._scanned_ns - OVERLAP_NS
            if self._cache.full:  # fresh messages may precede its last one; a full scan finds that one again
                self._cache.drop_last()
                requests.full = True

    def _apply(self, scanned: ScanResult, began: float) -> PollOutcome:
        poll, now = scanned.poll, self._clock.monotonic()
        took, scan, in_progress = now - began, self._scan, self.in_progress
        if scan.pages == 0:
            scan.began_ns = poll.now_ns
        scan.pages += 1
        scan.elapsed += took
        self._context.metrics.looks += 1
        self._polled_at = now
        if poll.next_due_ns is not None:
            self.note_due(began + (poll.next_due_ns - poll.now_ns) / NS_PER_SECOND)
        scan.offered.update(key.id for key in poll.keys if key.id in self._conflicts)
        free = [key for key in poll.keys if not self._conflicts.blocks(key.id, now)]
        # The limit may have been lowered during this page; then a full scan follows anyway.
        if not self._cache.add(free[: max(0, self._cache.limit - self._cache.together)]):
            self._requests.full = True
        if not free:
            self.share.charge(in_progress, took)
        self._adapt(took, len(poll.keys))
        scan.incomplete = scan.incomplete or scanned.incomplete
        if not scan.repeats:
            scan.position = scanned.position
        self.backlog = scan.position is not None
        # Without a match the rest is as long, so half of the time is left to others, however many commits there are.
        self._rest_until = now + took if not free and took > REST_ABOVE_SECONDS else 0.0
        if not self.backlog:
            self._end(now)
        return PollOutcome(len(free), not self.backlog)

    def _adapt(self, took: float, matches: int) -> None:
        """The next page's span: longer after few matches, shorter where a page takes long."""
        if took > PAGE_SECONDS or matches > SPAN_MIN // 2:
            self._span = max(SPAN_MIN, self._span // 2)
        elif matches < SPAN_MIN // 8:
            self._span = min(SPAN_MAX, self._span * 2)

    def _end(self, now: float) -> None:
        """The scan has come to its end. Only a full one shows that a message in conflict is not due any more. After one
        without a shard, a full one is needed: fresh ones would not find what has waited there."""
        scan = self._scan
        self._requests.full = self._requests.full or scan.incomplete
        self._scanned_ns = scan.began_ns
        if self._condition.age_ns:
            self._rest_until = now + self._condition.age_ns / NS_PER_SECOND / 2
        shows_all = scan.floor_ns is None and not scan.incomplete
        self._conflicts.polled(scan.offered if shows_all else self._conflicts, scan.began)
        if scan.floor_ns is None:
            small = scan.pages == 1 and scan.elapsed <= PAGE_SECONDS
            self._requests.full_polled_at = now
            rest = not small and not self._requests.at_once
            self._requests.full_not_before = now + REST * scan.elapsed if rest else None

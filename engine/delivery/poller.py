"""Poller: decides when a queue's table must be polled, polls it, and puts the due messages into the cache.

A poll is made for one of these reasons, and no other:
- a commit touched the queue, or a new receiver needs a fresh result (`request_poll`);
- a message falls due, or a lease runs out (`due_at`: from the last poll and from the claims since);
- the pause of a message that could not be claimed is over (conflicts);
- poll_interval has passed: the safety scan, for writes around the proxy;
- the cache runs low while more is known to be due (`needs_more`, from the receiver set).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from engine.delivery.cache import CONFIRM_SECONDS, MessageCache
from engine.delivery.conflicts import Conflicts
from engine.delivery.context import QueueContext
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import MessageId, MessageKey, QueueSpec
from engine.store.base import NOTHING_AHEAD, PollResult

POLL_LIMIT_MAX = 1000
"""Keys requested at once: spreads the cost of a poll over that many messages, and one answer is decoded in about 2 ms,
so that it never blocks the interpreter for long. A larger cache is filled by several polls."""

POLL_LIMIT_MIN = 100
"""A poll after a commit need not return more than can be handed out; a lower limit than this saves nothing."""

POLL_LIMIT_BRIEF = 10
"""As POLL_LIMIT_MIN, where all receivers end after what they take now, and none has come soon after another yet. Not
where messages wait for others to be settled: a short list might contain only such."""

POLL_SECONDS_MAX = 0.0005
"""How long after its start a poll is taken to have read the database's clock. An answer that came later was delayed
after that, by the claim that followed, and must not make the next message late. If it is too little, one more poll is
made."""


@dataclass(frozen=True, slots=True)
class PollOutcome:
    """Of one poll: how many keys were due, and whether the cache now has all that was due. `idle_at_ns`: the database's
    time, if there was nothing that may have been claimed since."""

    due: int
    complete: bool
    idle_at_ns: int | None = None


class Poller:
    """See the module. One pass is one poll: `run_once`, or `start`, a poll by the caller, and `finish` or `failed`."""

    def __init__(self, context: QueueContext, cache: MessageCache, conflicts: Conflicts) -> None:
        self._context, self._clock = context, context.engine.clock
        self._cache, self._conflicts = cache, conflicts
        self._requested = False
        self._in_progress = False
        self._due_at: float | None = None
        self._polled_at: float | None = None
        self._started_at = 0.0
        self._all_blocked = False  # the last poll returned only messages that may not be claimed yet
        self._only_alone = False  # or only messages that are to be handed out alone
        self._brief_limit = POLL_LIMIT_BRIEF
        self.backlog = False
        """The last poll left due messages in the table."""
        self.ahead = NOTHING_AHEAD
        """What it has read of them, for a poll that has no other reason than to get more. Such a poll returns nothing
        that the polls before it have returned, so it is made only where none of that waits here."""

    def request_poll(self) -> None:
        """Poll as soon as a receiver can take messages."""
        self._requested = True

    def note_due(self, monotonic: float) -> None:
        """A message falls due then: its new lease runs out."""
        self._due_at = monotonic if self._due_at is None else min(self._due_at, monotonic)

    @property
    def polled_a_moment_ago(self) -> float | None:
        """When the last poll ended, if a receiver that comes now may use what it returned: it was a moment ago, and
        nothing has called for another one. Else None."""
        if self._polled_at is None or self._requested or self._in_progress or self._conflicts:
            return None
        return self._polled_at if self._clock.monotonic() < self._polled_at + CONFIRM_SECONDS else None

    @property
    def due_at(self) -> float | None:
        """When the next message falls due, as far as is known."""
        return self._due_at

    def resume(self, keys: Sequence[MessageKey], polled_at: float, due_at: float | None) -> None:
        """A receiver came a moment after the last one left, and gets these of the keys that were polled then, in
        delivery order. Polls for such receivers return more keys from now on."""
        self._cache.fill(keys)
        self._polled_at, self._due_at, self.backlog, self._brief_limit = polled_at, due_at, True, POLL_LIMIT_MIN

    def reset(self) -> None:
        """There are no receivers any more: forget all plans. Commits are not reported here until there is one again, so
        a poll in progress must not count as a poll for it."""
        self._requested, self._due_at, self._polled_at, self.backlog = self._in_progress, None, None, False
        self._all_blocked = self._only_alone = False
        self.ahead = NOTHING_AHEAD

    def next_poll(self, queue: QueueSpec) -> float:
        """When the next poll is due without a request; a time in the past means at once."""
        if self._requested or self._polled_at is None:
            return 0.0
        at = self._polled_at + queue.options.poll_interval_ns / 1e9
        for other in (self._due_at, self._conflicts.next_retry()):
            if other is not None and other < at:
                at = other
        return at

    def poll_due(self, queue: QueueSpec, *, needs_more: bool) -> bool:
        """Whether to poll now; `needs_more`: receivers could take more than the cache has, and more may be due."""
        useless = self._all_blocked or (self._only_alone and self._cache.alone > 0)
        return (needs_more and not useless) or self.next_poll(queue) <= self._clock.monotonic()

    def next_time(self, queue: QueueSpec, *, needs_more: bool) -> float:
        """When to poll, if not at once for `needs_more`: that follows from what a pass does."""
        return self.next_poll(queue)

    async def run_once(self, queue: QueueSpec, room: int, *, brief: bool = False) -> PollOutcome:
        """Poll once; `room` and `brief` as in `start`. Raises BackendError."""
        other = bool(self._cache or self._conflicts) or self.next_poll(queue) <= self._clock.monotonic()
        ahead = NOTHING_AHEAD if other else self.ahead
        limit = self.start(queue, room, brief=brief)
        try:
            poll = await self._context.work.run(self._context.engine.store.poll(queue, limit, ahead))
        except BaseException:
            self.failed()
            raise
        return self.finish(poll)

    def failed(self) -> None:
        """The poll that was started has failed."""
        self._in_progress, self._requested = False, True

    def start(self, queue: QueueSpec, room: int, *, brief: bool = False) -> int:
        """A poll begins: what is committed from now on needs another one. Returns how many keys to request. `room`: how
        many messages the receivers can take now; `brief`: they take no more than that, and end."""
        self._in_progress, self._requested = True, False
        self._started_at = self._clock.monotonic()
        return self._limit(room, brief=brief and not queue.options.waits_for_settlement)

    def finish(self, poll: PollResult, removed: Container[MessageId] = ()) -> PollOutcome:
        """Apply a poll's result; `removed` are ids that no longer wait."""
        self._context.metrics.looks += 1
        now = self._clock.monotonic()
        self._in_progress = False
        self._polled_at = now
        self._due_at = None
        if poll.next_due_ns is not None:
            at = min(now, self._started_at + POLL_SECONDS_MAX)
            self._due_at = at + (poll.next_due_ns - poll.now_ns) / NS_PER_SECOND
        self._conflicts.polled({key.id for key in poll.keys}, now)
        free = [key for key in poll.keys if key.id not in removed and not self._conflicts.blocks(key.id, now)]
        # A poll that returned fewer than its limit, because of the order_key, would return the same again and again.
        self._all_blocked = bool(poll.keys) and all(self._conflicts.blocks(key.id, now) for key in poll.keys)
        fits = self._cache.merge(free, more=poll.more)
        self.ahead = poll.ahead if fits else NOTHING_AHEAD
        self._only_alone = bool(self._cache.alone) and not self._cache.together
        self.backlog = poll.more or not fits
        return PollOutcome(len(free), not self.backlog, None if poll.keys else poll.now_ns)

    def _limit(self, room: int, *, brief: bool) -> int:
        limit = min(self._cache.limit, POLL_LIMIT_MAX)
        if brief:
            limit = min(limit, max(room, self._brief_limit))
        elif self._cache:
            limit = min(limit, max(room, POLL_LIMIT_MIN))
        # Keys that may not be claimed yet come first in the answer again and again; they must not displace the rest.
        return limit + len(self._conflicts) + self._cache.alone

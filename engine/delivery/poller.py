"""Poller: decides when a queue's table must be looked at, looks, and puts what is due into the cache.

A look is made for one of these reasons, and no other:
- a commit touched the queue, or a receiver came that needs a fresh answer (`want`);
- a message falls due, or a lease runs out (`due_at`: from the last look and from the claims since);
- the pause of a message that could not be claimed is over (conflicts);
- poll_interval has passed: the safety scan, for what was written around the proxy;
- the cache runs low while more is known to be due (the manager asks).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from engine.delivery.cache import MessageCache
from engine.delivery.conflicts import Conflicts
from engine.delivery.context import WorkContext
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import MessageId, QueueSpec
from engine.store.base import Look

LOOK_LIMIT_MAX = 1000
"""Keys asked for at once: spreads the cost of a look over that many messages, and one answer is decoded in about 2 ms,
so that it never holds the interpreter for long. A larger cache fills by several looks."""

LOOK_LIMIT_MIN = 100
"""A look after a commit need not find more than can be handed out; below this asking for less saves nothing."""

LOOK_SECONDS_MAX = 0.0005
"""How long a look is taken to have been under way when it read the database's clock. An answer that came later was
held up after that, by the claim that followed, and must not make the next message late. Too little costs one look."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look brought: keys found due, and whether the cache now holds all that was due."""

    found: int
    complete: bool


class Poller:
    """See the module. One pass is one look: `run_once`, or `start`, somebody else's look, and `finish` or `failed`."""

    def __init__(self, context: WorkContext, cache: MessageCache, conflicts: Conflicts) -> None:
        self._store, self._work, self._clock = context.store, context.work, context.clock
        self._cache, self._conflicts, self._metrics = cache, conflicts, context.metrics
        self._wanted = False
        self._under_way = False
        self._due_at: float | None = None
        self._looked_at: float | None = None
        self._started_at = 0.0
        self._in_vain = False  # the last look brought nothing but what may not be claimed yet
        self._only_alone = False  # or nothing but what is to be handed out alone
        self.backlog = False
        """The last look left due messages in the table."""

    def want(self) -> None:
        """Look as soon as a receiver can take messages."""
        self._wanted = True

    def note_due(self, monotonic: float) -> None:
        """A message falls due then: its lease, just made, runs out."""
        self._due_at = monotonic if self._due_at is None else min(self._due_at, monotonic)

    def reset(self) -> None:
        """Nobody receives any more: forget all plans. Commits are not heard of until somebody does again, so a look
        that is under way must not count as his."""
        self._wanted, self._due_at, self._looked_at, self.backlog = self._under_way, None, None, False
        self._in_vain = self._only_alone = False

    def next_look(self, queue: QueueSpec) -> float:
        """When the next look is due by itself; in the past when at once."""
        if self._wanted or self._looked_at is None:
            return 0.0
        times = (self._due_at, self._conflicts.next_retry(), self._looked_at + queue.options.poll_interval_ns / 1e9)
        return min(time for time in times if time is not None)

    def look_due(self, queue: QueueSpec, *, hungry: bool) -> bool:
        """Whether to look now; `hungry`: receivers could take more than the cache holds, and more may be due."""
        in_vain = self._in_vain or (self._only_alone and self._cache.alone > 0)
        return (hungry and not in_vain) or self.next_look(queue) <= self._clock.monotonic()

    def next_time(self, queue: QueueSpec, *, hungry: bool) -> float:
        """When to look, if not at once for `hungry` receivers: that follows from what a pass does."""
        return self.next_look(queue)

    async def run_once(self, queue: QueueSpec, room: int) -> Looked:
        """Look once; `room` is how many messages the receivers can take now. Raises BackendError."""
        limit = self.start(room)
        try:
            look = await self._work.run(self._store.look(queue, limit))
        except BaseException:
            self.failed()
            raise
        return self.finish(look)

    def failed(self) -> None:
        """The look that was started came to nothing."""
        self._under_way, self._wanted = False, True

    def start(self, room: int) -> int:
        """A look begins: whatever is committed from now on needs another. How many keys to ask for."""
        self._under_way, self._wanted = True, False
        self._started_at = self._clock.monotonic()
        return self._limit(room)

    def finish(self, look: Look, gone: Container[MessageId] = ()) -> Looked:
        """Take in a look; `gone` are ids that no longer wait."""
        self._metrics.looks += 1
        now = self._clock.monotonic()
        self._under_way = False
        self._looked_at = now
        self._due_at = None
        if look.next_due_ns is not None:
            at = min(now, self._started_at + LOOK_SECONDS_MAX)
            self._due_at = at + (look.next_due_ns - look.now_ns) / NS_PER_SECOND
        self._conflicts.looked({key.id for key in look.keys}, now)
        free = [key for key in look.keys if key.id not in gone and not self._conflicts.blocks(key.id, now)]
        # A look that found fewer than it was to, for the order of their keys, would find the same again and again.
        self._in_vain = bool(look.keys) and all(self._conflicts.blocks(key.id, now) for key in look.keys)
        fits = self._cache.merge(free, more=look.more)
        self._only_alone = bool(self._cache.alone) and not self._cache.together
        self.backlog = look.more or not fits
        return Looked(len(free), not self.backlog)

    def _limit(self, room: int) -> int:
        most = min(self._cache.limit, LOOK_LIMIT_MAX)
        wanted = most if not self._cache else min(most, max(room, LOOK_LIMIT_MIN))
        # Keys that may not be claimed yet come first in the answer again and again; they must not crowd out the rest.
        return wanted + len(self._conflicts) + self._cache.alone

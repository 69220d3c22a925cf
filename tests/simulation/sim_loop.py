"""Virtual time, and the event loops of simulated processes on it: no socket, no thread, nothing that waits.

Each process (a proxy, or all clients together) has a loop of its own, so that killing it is forgetting its loop. Within
a process callbacks run in the order in which they were asked for, as asyncio promises; which process runs next, which
of two timers for the same moment fires first, and how much time a turn takes are the seed's to say. So whatever arrives
from outside may arrive between any two turns, as it does in a real loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import Any

_set_running: Callable[[asyncio.AbstractEventLoop | None], None] = asyncio._set_running_loop  # the documented one warns

START = 1000.0
TURNS_PER_SECOND_MAX = 20_000  # of all processes, in one virtual second: more is a loop without a pause
SLOW_TURN_SECONDS = 0.0008  # what a turn may take at most: a few dozen callbacks on a busy machine


class BusyLoop(AssertionError):
    """Turn after turn something is ready, and hardly any time passes."""


class Timeline:
    """What happens when. One for all processes of a world."""

    def __init__(self, random: Random) -> None:
        self.now = START
        self._random = random
        self._due: list[tuple[float, float, int, Callable[[], None]]] = []
        self._count = 0
        self._loops: list[ProcessLoop] = []
        self._second, self._turns = 0, 0
        self.turns = 0

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Have something happen at a time; in a random order among what happens at the same time."""
        self._count += 1
        heapq.heappush(self._due, (when, self._random.random(), self._count, action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.now + seconds, action)

    def join(self, loop: ProcessLoop) -> None:
        self._loops.append(loop)

    def leave(self, loop: ProcessLoop) -> None:
        self._loops.remove(loop)

    def run(self, until: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Let time pass until then, or until `stop` holds."""
        while not stop():
            ready = [loop for loop in self._loops if loop.ready]
            if ready:
                (ready[0] if len(ready) == 1 else self._random.choice(ready)).turn()
                self._count_turn()
                if self._random.random() < 0.25:
                    self._pass(self._random.random() * SLOW_TURN_SECONDS)
                continue
            if not self._due or self._due[0][0] > until:
                self.now = max(self.now, until)
                return
            self._pass(max(0.0, self._due[0][0] - self.now))

    def _pass(self, seconds: float) -> None:
        """Time goes by; what falls due in it happens in its order, each at its own moment at the earliest."""
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            when, _, _, action = heapq.heappop(self._due)
            self.now = max(self.now, when)
            action()
        self.now = end

    def _count_turn(self) -> None:
        second = int(self.now)
        self._turns = self._turns + 1 if second == self._second else 0
        self._second = second
        self.turns += 1
        if self._turns > TURNS_PER_SECOND_MAX:
            raise BusyLoop(f"{self._turns} turns within a second")


class ProcessLoop(asyncio.BaseEventLoop):
    """One process's event loop. `fault` hears of what nobody caught."""

    def __init__(self, timeline: Timeline, fault: Callable[[str], None]) -> None:
        super().__init__()
        self._timeline = timeline
        self._fault = fault
        self.dead = False
        self.still = False
        """Whether it stands still, as under SIGSTOP: what comes for it waits, and its time goes by."""
        self._made: list[asyncio.Task[Any]] = []
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._unhandled)
        timeline.join(self)

    @property
    def ready(self) -> bool:
        return bool(self._ready) and not self.still  # type: ignore[attr-defined]

    def turn(self) -> None:
        """Run what is ready now; what that makes ready has its turn later."""
        ready = self._ready  # type: ignore[attr-defined]
        _set_running(self)
        try:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
        finally:
            _set_running(None)

    def _make_task(self, loop: Any, work: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=self, **options)
        self._made.append(task)  # asyncio's own list is of all loops, and looked through from end to end
        return task

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Those that are not done, in the order in which they were made."""
        self._made = [task for task in self._made if not task.done()]
        return self._made

    def kill(self) -> None:
        """As kill -9: nothing of it runs any more. Its tasks are kept until `dispose`."""
        self.dead = True
        self._timeline.leave(self)
        self.close()

    def dispose(self) -> None:
        """Take apart what is left of a dead process; what its code does then reaches nobody."""
        _set_running(self)
        for task in self.tasks():
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):
                task.get_coro().close()  # type: ignore[union-attr]
        _set_running(None)

    # --- what asyncio asks of a loop

    def time(self) -> float:
        return self._timeline.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.dead:
            self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)

        def fire() -> None:
            if not self.dead and not timer._cancelled:  # type: ignore[attr-defined]
                self._ready.append(timer)  # type: ignore[attr-defined]

        self._timeline.at(when, fire)
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def get_debug(self) -> bool:
        return False

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self.dead:
            with contextlib.suppress(AssertionError):  # the claims keep it
                self._fault(f"{context.get('message')}: {context.get('exception')!r}")


async def passing(seconds: float) -> None:
    """Return once so much virtual time has gone by."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(seconds, over.set_result, None)
    try:
        await over
    finally:
        timer.cancel()

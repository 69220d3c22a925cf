"""The parent of worker processes: starts them, replaces those that end, and ends them in order.

A child that ends because waiting does not help (exit code 1 or 2: a wrong password, no such queue) ends all. One that
dies by a signal is replaced, after a pause if it did not live long; one that is left by a task over its time limit at
once. With `reload` a change of the program replaces all, and an error in it waits for the next change.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from queuegate_worker.errors import WorkerError
from queuegate_worker.processes.child import ENVIRONMENT, EXIT_REPLACE, LEAVING, RECEIVING, Link, new_link

logger = logging.getLogger("queuegate_worker")

_TICK_SECONDS = 0.2
_STUCK_SECONDS = 10.0  # past its deadline a task that holds the interpreter's lock keeps its process from ending it
_EXIT_SECONDS = 15.0  # beyond the grace time, for a child to close its connections
_PAUSES = (0.0, 1.0, 2.0, 5.0, 15.0, 30.0)  # before a child is replaced, by how many died early in a row
_EARLY_SECONDS = 30.0
_HOPELESS = (1, 2)  # exit codes of the command
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a supervisor runs. `command` and `environment` of each of `count` children; `grace`: seconds that their
    running handlers get at the end; `drain`: they end by themselves, and are not replaced then."""

    command: Sequence[str]
    environment: Mapping[str, str]
    count: int
    grace: float
    drain: bool = False
    reload: bool = False


@dataclass(eq=False)
class Child:
    """One place for a process, and the process that has it."""

    process: subprocess.Popen[bytes] | None = None
    link: Link | None = None
    started: float = 0.0
    starts_at: float = 0.0
    deaths: int = 0
    ends_by: float | None = None  # it was asked to end, or ends by itself, and is killed then
    done: bool = False
    states: dict[str, str] = field(default_factory=dict)


class Supervisor:
    """See the module. `clock`: monotonic seconds; `pause` waits."""

    def __init__(
        self,
        wanted: Wanted,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._wanted, self._clock, self._pause = wanted, clock, pause
        self._children = [Child() for _ in range(wanted.count)]
        self._signals = 0
        self._changed = False
        self._stopping = False
        self._exit_code = 0

    def run(self) -> int:
        """Supervise until SIGTERM or SIGINT; with `drain` until all children have ended. Returns the exit code.

        A second signal kills the children.
        """
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        try:
            while not all(child.done for child in self._children):
                self._step()
                self._pause(_TICK_SECONDS)
        finally:
            for child in self._children:
                _kill(child)
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._exit_code

    def program_changed(self) -> None:
        """Replace all children. May be called from any thread."""
        self._changed = True

    def report(self) -> dict[str, Any]:
        """What runs: for each process its id and the state of each of its queues. May be called from any thread."""
        children = [replace(child) for child in self._children]
        return {
            "healthy": not self._stopping and all(_receives(child) for child in children),
            "processes": [
                {"pid": None if child.process is None else child.process.pid, "queues": dict(child.states)}
                for child in children
            ],
        }

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._signals += 1

    def _step(self) -> None:
        now = self._clock()
        if self._signals and not self._stopping:
            self._stop(now)
        if self._signals > 1:
            for child in self._children:
                _kill(child)
        if self._changed and not self._stopping:
            self._changed = False
            logger.info("the program has changed: its processes are replaced")
            for child in self._children:
                child.deaths, child.starts_at = 0, min(child.starts_at, now)
                self._ask_to_end(child, now)
        for child in self._children:
            self._supervise(child, now)

    def _stop(self, now: float) -> None:
        self._stopping = True
        for child in self._children:
            self._ask_to_end(child, now)

    def _ask_to_end(self, child: Child, now: float) -> None:
        if child.process is not None and child.ends_by is None:
            child.process.terminate()
            self._expect_end(child, now)

    def _expect_end(self, child: Child, now: float) -> None:
        if child.ends_by is None:
            child.ends_by = now + self._wanted.grace + _EXIT_SECONDS

    def _supervise(self, child: Child, now: float) -> None:
        if child.process is None:
            if self._stopping:
                child.done = True
            elif not child.done and now >= child.starts_at:
                self._start(child, now)
            return
        assert child.link is not None
        child.link.read()
        if LEAVING in child.states.values():
            self._expect_end(child, now)
        code = child.process.poll()
        if code is not None:
            self._ended(child, code, now)
        elif child.ends_by is not None and now > child.ends_by:
            logger.error("process %d does not end: it is killed", child.process.pid)
            _kill_group(child.process.pid)
        elif (deadline := child.link.deadline) is not None and now > deadline + _STUCK_SECONDS:
            logger.error("process %d is stuck in a task over its time limit: it is killed", child.process.pid)
            _kill_group(child.process.pid)

    def _start(self, child: Child, now: float) -> None:
        with new_link() as (link, numbers):
            environment = {**self._wanted.environment, ENVIRONMENT: ",".join(map(str, numbers))}
            child.process = subprocess.Popen(
                self._wanted.command,
                env=environment,
                pass_fds=numbers,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        child.link, child.started, child.ends_by, child.states = link, now, None, link.states
        logger.info("process %d started", child.process.pid)

    def _ended(self, child: Child, code: int, now: float) -> None:
        assert child.process is not None and child.link is not None
        pid, requested, lived = child.process.pid, child.ends_by is not None, now - child.started
        if code != 0:
            _kill_group(pid)  # what its tasks have started, and did not end
        child.link.close()
        child.process, child.link, child.states = None, None, {}
        if self._stopping:
            # One that had just begun may end by the SIGTERM; one that is killed has left its messages to others.
            ended = code in (0, EXIT_REPLACE, -signal.SIGTERM)
            self._exit_code = self._exit_code or (0 if ended else max(code, 1))
            child.done = True
        elif code == 0 and self._wanted.drain:
            child.done = True
        elif code == EXIT_REPLACE or requested:
            child.starts_at = now
        elif code in _HOPELESS and not self._wanted.reload:
            self._exit_code = code
            child.done = True
            self._stop(now)
        else:
            child.deaths = child.deaths + 1 if lived < _EARLY_SECONDS else 0
            pause = _PAUSES[min(child.deaths, len(_PAUSES) - 1)]
            child.starts_at = now + pause
            if code in _HOPELESS:  # the program has an error: its next change starts it again
                child.starts_at = float("inf")
                logger.error("process %d ended with code %d: waiting for a change of the program", pid, code)
            else:
                logger.error("process %d ended by %s, and is replaced in %.0f s", pid, _how(code), pause)


def _receives(child: Child) -> bool:
    return bool(child.states) and all(state == RECEIVING for state in child.states.values())


def _how(code: int) -> str:
    return f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"exit code {code}"


def _kill(child: Child) -> None:
    if child.process is not None and child.process.poll() is None:
        _kill_group(child.process.pid)
        child.process.wait()


def _kill_group(pid: int) -> None:
    """A child, if it still runs, and what it has started: it is the head of a process group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # nothing is left, or what is left has another user
        pass


@contextmanager
def watched(folder: Path, changed: Callable[[], object]) -> Iterator[None]:
    """While the block runs, call `changed` in a thread after Python files below the folder have changed.

    Raises WorkerError if watchfiles is not installed.
    """
    try:
        watchfiles = importlib.import_module("watchfiles")
    except ImportError:
        raise WorkerError("--autoreload needs watchfiles: pip install 'queuegate-worker[reload]'") from None
    ended = threading.Event()

    def watch() -> None:
        changes = watchfiles.watch(
            folder, watch_filter=watchfiles.PythonFilter(), stop_event=ended, raise_interrupt=False
        )
        for _ in changes:
            changed()

    thread = threading.Thread(target=watch, name="queuegate-reload", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()

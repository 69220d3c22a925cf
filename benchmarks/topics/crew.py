"""Clients in processes of their own, and what proxy and server use while they work.

What a client does is a generator function: it connects, yields once, and is continued when all have connected; what it
returns is its result. A process stays until the servers' CPU time has been read, so that their own processes for its
connections live as long.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from typing import Any

from benchmarks.processes import cpu_seconds
from benchmarks.topics.logs import Measured

CONNECT_SECONDS = 120.0
WORK_SECONDS = 900.0
Work = Callable[..., Generator[None, None, Any]]


class ClientFailed(Exception):
    """A client process ended with an error; its traceback is the message."""


@dataclass(frozen=True, slots=True)
class Used:
    """What the servers have used so far."""

    at: float
    proxy_cpu: float | None
    server_cpu: float
    statements: int | None


@dataclass(frozen=True, slots=True)
class Finished:
    """What all clients returned, and what it took from when all had connected."""

    results: list[Any]
    before: Used
    after: Used

    def columns(self, operations: int, operation: str = "message") -> dict[str, float]:
        """The rate, and what one operation cost the servers."""
        found = {f"{operation}s/s": operations / (self.after.at - self.before.at)}
        if self.before.proxy_cpu is not None and self.after.proxy_cpu is not None:
            found[f"proxy CPU us/{operation}"] = (self.after.proxy_cpu - self.before.proxy_cpu) / operations * 1e6
        found[f"server CPU us/{operation}"] = (self.after.server_cpu - self.before.server_cpu) / operations * 1e6
        if self.before.statements is not None and self.after.statements is not None:
            found[f"statements/{operation}"] = (self.after.statements - self.before.statements) / operations
        return found


def run(log: Measured, work: Work, jobs: Iterable[Sequence[Any]]) -> Finished:
    """One process for each job: the arguments of `work` behind the log.

    Raises:
        ClientFailed: one of them failed.
    """
    with clients(log, work, jobs) as started:
        before = _used(log)
        started.begin()
        results = started.results()
        return Finished(results, before, _used(log))


@dataclass(frozen=True, slots=True)
class Clients:
    """Clients that have connected, and wait to begin."""

    processes: Sequence[Any]
    answers: Any
    may_begin: Event

    def begin(self) -> None:
        """Continue all of them."""
        self.may_begin.set()

    def results(self) -> list[Any]:
        """What they return, once all have. Raises ClientFailed."""
        return [_told(self.answers.get(timeout=WORK_SECONDS)) for _ in self.processes]

    def check(self) -> None:
        """Raises ClientFailed where one has failed so far; for clients whose results nobody waits for."""
        while not self.answers.empty():
            _told(self.answers.get())


@contextlib.contextmanager
def clients(
    log: Any, work: Work, jobs: Iterable[Sequence[Any]], connect_seconds: float = CONNECT_SECONDS
) -> Iterator[Clients]:
    """One process for each job, which is ended in the end, whatever it does then. Raises ClientFailed."""
    context = multiprocessing.get_context("spawn")
    answers, begin = context.Queue(), context.Event()
    processes = [context.Process(target=_client, args=(work, (log, *job), answers, begin), daemon=True) for job in jobs]
    try:
        for process in processes:
            process.start()
        for _ in processes:
            _told(answers.get(timeout=connect_seconds))
        yield Clients(processes, answers, begin)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _client(work: Work, arguments: Sequence[Any], answers: Any, begin: Event) -> None:
    """Tell when connected, and what came of it; an error is told as its text. Then wait to be ended."""
    try:
        course = work(*arguments)
        next(course)
        answers.put((None, None))
        begin.wait()
        try:
            next(course)
        except StopIteration as ended:
            answers.put((None, ended.value))
    except BaseException:
        answers.put((traceback.format_exc(), None))
    signal.pause()


def _told(answer: tuple[str | None, Any]) -> Any:
    failure, value = answer
    if failure is not None:
        raise ClientFailed(failure)
    return value


def _used(log: Measured) -> Used:
    """The statement that asks for `statements` counts too: 1 in many thousands."""
    proxy = None if log.proxy_pid is None else cpu_seconds(log.proxy_pid)
    return Used(time.monotonic(), proxy, cpu_seconds(log.pid), log.statements())

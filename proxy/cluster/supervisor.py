"""Supervisor: the parent of the workers. Starts them, restarts those that die, passes signals on, and ends last.

It serves no client, opens no database, and sees no message between workers. It was one process until the first worker
was forked, and stays one thread, so that it can fork again at any time. Rules:

- the listening sockets, also those at which workers link to each other (proxy.cluster.worker_links), are bound once,
  here, and inherited: a worker that dies takes no port and no waiting client along;
- the first worker starts alone: what is wrong with the database or the configuration is reported once, and ends
  everything;
- later a worker that dies is started again, at once and then ever more slowly (`BACKOFF_SECONDS_MAX`);
- SIGTERM and SIGINT end the workers in order, SIGHUP is passed on as it is; a worker that exceeds the grace time is
  killed;
- another child (`side_process`) is restarted, too, and the workers do not depend on it;
- the workers end when the supervisor does, however it ends: they see the end of their connection to it, on
  which each has sent a byte when it was ready.
"""

from __future__ import annotations

import gc
import logging
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from proxy.cluster.worker_links import listening
from proxy.listen.listener import WorkerSlot
from proxy.listen.shared_counts import SharedCounts
from proxy.os_process import ENDING, ignore_signals
from proxy.systemd import Notifier

log = logging.getLogger(__name__)

BACKOFF_SECONDS, BACKOFF_SECONDS_MAX = 0.1, 10.0  # until the next start of a worker that dies again and again; doubling
HEALTHY_SECONDS = 60.0  # a worker that lived so long died of something new
KILL_SLACK_SECONDS = 5.0  # beyond the grace time that the workers keep themselves
_FORWARDED_SIGNALS = (*ENDING, signal.SIGHUP)


class SideProcess(Protocol):
    """Another child of the supervisor: `poll` starts it where it is due, and returns after how many seconds it is."""

    def poll(self) -> float | None: ...

    def request_stop(self) -> None: ...


@dataclass(eq=False, slots=True)
class _Worker:
    """One worker's process, or the time of its next start."""

    number: int
    pid: int = 0
    connection: socket.socket | None = None
    ready: bool = False
    started_at: float = 0.0
    deaths: int = field(default=0)
    start_at: float | None = 0.0


class Supervisor:
    """See the module. `work` serves as one worker and returns its exit code; a worker's slot is `slot`, with what is
    its own. `ready` is called once all accept; `notifier` shows that this loop turns, and when the end begins."""

    def __init__(
        self,
        tallies: SharedCounts,
        slot: WorkerSlot,
        work: Callable[[WorkerSlot], int],
        ready: Callable[[], None],
        notifier: Notifier,
        *,
        grace_seconds: float,
        side_process: SideProcess | None = None,
    ) -> None:
        self._workers = [_Worker(number) for number in range(slot.tally.workers)]
        self._slot = replace(slot, links=listening(len(self._workers)))
        self._side_process = side_process
        self._tallies = tallies
        self._work = work
        self._announce = ready
        self._notifier = notifier
        self._beat_at = 0.0
        self._grace_seconds = grace_seconds
        self._selector = selectors.DefaultSelector()
        self._wakeup, self._wakeup_end = socket.socketpair()
        self._serving = False
        self._exit_code = 0
        self._kill_at: float | None = None

    def run(self) -> int:
        """Until SIGTERM, or until the workers cannot be started. Returns the exit code."""
        gc.collect()
        gc.freeze()  # what exists by now stays shared with the workers: no collection will touch it
        self._take_signals()
        try:
            while self._due() or any(worker.pid for worker in self._workers):
                self._start_due()
                self._beat_due()
                side_process_due = None if self._side_process is None or self._stopping else self._side_process.poll()
                for key, _ in self._selector.select(self._timeout(side_process_due)):
                    if key.fileobj is self._wakeup:
                        self._signalled()
                    else:
                        self._read_from(key.data)
                self._kill_late()
        finally:
            signal.set_wakeup_fd(-1)
            ignore_signals(ENDING)  # Python would put its own handlers back while it ends
        return self._exit_code

    # --- starting

    @property
    def _stopping(self) -> bool:
        return self._kill_at is not None

    def _due(self) -> list[_Worker]:
        """Workers that wait for their start; before the first is ready, none but that."""
        if self._stopping:
            return []
        waiting = [worker for worker in self._workers if not worker.pid and worker.start_at is not None]
        return waiting if self._serving or self._workers[0].ready else waiting[:1] if not self._workers[0].pid else []

    def _start_due(self) -> None:
        now = time.monotonic()
        for worker in self._due():
            if worker.start_at is not None and worker.start_at <= now:
                self._start(worker)

    def _start(self, worker: _Worker) -> None:
        connection, worker_end = socket.socketpair()
        tally = self._tallies.of(worker.number)
        slot = replace(self._slot, tally=tally, worker=worker.number, supervisor=worker_end)
        # A signal between fork and the worker's own handlers would be taken for the supervisor's.
        signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED_SIGNALS)
        try:
            worker.pid = os.fork()
            if worker.pid == 0:
                connection.close()
                self._be_worker(slot)
        except OSError as error:
            connection.close()
            if not self._serving:
                raise
            worker.start_at = time.monotonic() + BACKOFF_SECONDS_MAX
            log.error("worker cannot be started: %s", error.strerror, extra={"worker": worker.number})
            return
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED_SIGNALS)
            worker_end.close()
        worker.started_at, worker.start_at = time.monotonic(), None
        worker.connection = connection
        self._selector.register(connection, selectors.EVENT_READ, worker)

    def _be_worker(self, slot: WorkerSlot) -> None:
        """The rest of a worker's life. Never returns: nothing of the supervisor may run in here."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (*_FORWARDED_SIGNALS, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED_SIGNALS)
            self._selector.close()
            self._wakeup.close()
            self._wakeup_end.close()
            for worker in self._workers:
                if worker.connection is not None:
                    worker.connection.close()  # else that worker would not see our parent's death
            slot.tally.set_process(os.getpid())
            code = self._work(slot)
        except BaseException:
            log.exception("worker failed")
        finally:
            logging.shutdown()
            os._exit(code)

    def _read_from(self, worker: _Worker) -> None:
        """A worker is ready, or ends; then its exit status has the reason."""
        if worker.connection is None or not worker.connection.recv(1):
            self._disconnect(worker)
            return
        worker.ready = True
        if not self._serving and all(worker.ready for worker in self._workers):
            self._serving = True
            self._announce()
        elif self._serving:
            log.info("worker is back", extra={"worker": worker.number})

    def _disconnect(self, worker: _Worker) -> None:
        if worker.connection is not None:
            self._selector.unregister(worker.connection)
            worker.connection.close()
            worker.connection = None

    # --- signals

    def _take_signals(self) -> None:
        for end in (self._wakeup, self._wakeup_end):
            end.setblocking(False)
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wakeup_end.fileno(), warn_on_full_buffer=False)
        for number in (*_FORWARDED_SIGNALS, signal.SIGCHLD):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup wishes SIGHUP ignored
                signal.signal(number, lambda *_: None)

    def _signalled(self) -> None:
        for number in self._wakeup.recv(256):
            if number == signal.SIGCHLD:
                self._reap()
            elif number == signal.SIGHUP:
                self._send(signal.SIGHUP)
            elif number in _FORWARDED_SIGNALS:
                self._stop(0)

    def _beat_due(self) -> None:
        now, seconds = time.monotonic(), self._notifier.beat_seconds
        if seconds is not None and now >= self._beat_at:
            self._beat_at = now + seconds
            self._notifier.beat()

    def _send(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker.pid:
                os.kill(worker.pid, number)  # not reaped yet, so the pid is still its own

    def _stop(self, exit_code: int) -> None:
        """End all workers; the first reason decides the exit code."""
        if self._stopping:
            return
        self._exit_code = exit_code
        self._notifier.stopping()
        self._kill_at = time.monotonic() + self._grace_seconds + KILL_SLACK_SECONDS
        for sock in (*self._slot.sockets, *self._slot.admin):
            sock.close()
        if self._side_process is not None:
            self._side_process.request_stop()
        self._send(signal.SIGTERM)

    def _kill_late(self) -> None:
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill_at = float("inf")
            late = [worker.number for worker in self._workers if worker.pid]
            log.error("workers did not end in time and are killed", extra={"workers": late})
            self._exit_code = 1
            self._send(signal.SIGKILL)

    # --- deaths

    def _reap(self) -> None:
        for worker in self._workers:
            if worker.pid:
                pid, status = os.waitpid(worker.pid, os.WNOHANG)
                if pid:
                    self._died(worker, os.waitstatus_to_exitcode(status))

    def _died(self, worker: _Worker, code: int) -> None:
        pid, worker.pid, worker.ready = worker.pid, 0, False
        self._tallies.clear(worker.number)
        self._disconnect(worker)
        if self._stopping:
            if code not in (0, -signal.SIGTERM):  # a worker that has no handler yet ends by the signal itself
                self._exit_code = 1
        elif not self._serving:
            self._stop(code if code > 0 else 1)
        else:
            self._restart_later(worker, pid, code)

    def _restart_later(self, worker: _Worker, pid: int, code: int) -> None:
        self._tallies.died(worker.number)
        now = time.monotonic()
        worker.deaths = 0 if now - worker.started_at >= HEALTHY_SECONDS else worker.deaths + 1
        pause = min(BACKOFF_SECONDS * 2**worker.deaths, BACKOFF_SECONDS_MAX)
        worker.start_at = now + pause
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        log.error(
            "worker died (%s), its clients are cut off; starting another", how,
            extra={"worker": worker.number, "pid": pid, "in": f"{pause:.1f}s"},
        )  # fmt: skip

    def _timeout(self, side_process_due: float | None) -> float | None:
        times = [worker.start_at for worker in self._due() if worker.start_at is not None]
        if self._kill_at is not None and self._kill_at != float("inf"):
            times.append(self._kill_at)
        if self._notifier.beat_seconds is not None:
            times.append(self._beat_at)
        if side_process_due is not None:
            times.append(time.monotonic() + side_process_due)
        return max(0.0, min(times) - time.monotonic()) if times else None

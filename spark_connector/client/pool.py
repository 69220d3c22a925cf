"""Connections that outlive a task: a worker of Spark runs one task after the other, mostly of the same query.

A task may have one message, and to connect costs more statements than to read or to write it. So the line of a task
that ended well is kept for the next one of this process, for a short while: Spark ends a worker that has nothing to do
after a minute, and its connections with it.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from spark_connector.client.reconnecting import READ_COMMITTED, ReconnectingClient
from spark_connector.options import Address

KEPT_SECONDS = 60.0
"""A line that was not used for so long is not used again: what lies between may have forgotten it without a word."""

_KEPT_MAX = 4  # a worker reads for one query, or for a few
_lock = Lock()
_Kind = tuple[Address, tuple[str, ...]]  # where it goes, and what its connections begin with
_idle: list[tuple[int, _Kind, ReconnectingClient, float]] = []  # the process that opened it, its kind, it, since when


@contextmanager
def kept(address: Address, settings: tuple[str, ...] = (READ_COMMITTED,)) -> Iterator[ReconnectingClient]:
    """A line for one task: one that an earlier task of this process left, or a new one; left for the next one."""
    line = _taken((address, settings)) or ReconnectingClient(address, settings=settings)
    try:
        yield line
    except BaseException:  # a reader that stops early too: the rest of its answer is still on its way
        line.close()
        raise
    _leave((address, settings), line)


def close_all() -> None:
    """Close what this process keeps; it does so at its end, too."""
    own = os.getpid()
    with _lock:
        for process, _, line, _ in _idle:
            if process == own:
                line.close()
        _idle.clear()


atexit.register(close_all)


def _taken(kind: _Kind) -> ReconnectingClient | None:
    """A line of this process that is young enough."""
    own, found = os.getpid(), None
    with _lock:
        for entry in list(_idle):
            process, its_kind, line, since = entry
            if process != own:
                _idle.remove(entry)  # of the process that this one was forked from: it is not ours to use or to close
            elif time.monotonic() - since > KEPT_SECONDS:
                _idle.remove(entry)
                line.close()
            elif found is None and its_kind == kind:
                _idle.remove(entry)
                found = line
    return found


def _leave(kind: _Kind, line: ReconnectingClient) -> None:
    with _lock:
        _idle.append((os.getpid(), kind, line, time.monotonic()))
        for _, _, oldest, _ in _idle[:-_KEPT_MAX]:
            oldest.close()
        del _idle[:-_KEPT_MAX]

"""A pool of connections: a Spark worker runs one task after the other, mostly of the same query.

A task may have one message, and connecting takes more statements than reading or writing it. So the connection of a
task that succeeded is reused by the next task of this process, for a short time: Spark ends an idle worker after a
minute, and its connections with it.
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

IDLE_SECONDS_MAX = 60.0
"""A connection that was idle for longer is not reused: a firewall may have dropped it silently."""

_IDLE_MAX = 4  # a worker reads for one query or a few
_lock = Lock()
_PoolKey = tuple[Address, tuple[str, ...]]  # its address, and the initial statements of its connections
_idle: list[tuple[int, _PoolKey, ReconnectingClient, float]] = []  # process id, key, connection, idle since


@contextmanager
def pooled(address: Address, settings: tuple[str, ...] = (READ_COMMITTED,)) -> Iterator[ReconnectingClient]:
    """A connection for one task: an idle one of this process, or a new one. Returned to the pool afterwards."""
    connection = _take_idle((address, settings)) or ReconnectingClient(address, settings=settings)
    try:
        yield connection
    except BaseException:  # also if a reader stops early: the rest of its answer is still unread
        connection.close()
        raise
    _return_idle((address, settings), connection)


def close_all() -> None:
    """Close the idle connections of this process; also done at its exit."""
    own_pid = os.getpid()
    with _lock:
        for process, _, connection, _ in _idle:
            if process == own_pid:
                connection.close()
        _idle.clear()


atexit.register(close_all)


def _take_idle(kind: _PoolKey) -> ReconnectingClient | None:
    """An idle connection of this process, not idle for too long."""
    own_pid, match = os.getpid(), None
    with _lock:
        for entry in list(_idle):
            process, its_kind, connection, since = entry
            if process != own_pid:
                _idle.remove(entry)  # of the parent process: it must not be used or closed here
            elif time.monotonic() - since > IDLE_SECONDS_MAX:
                _idle.remove(entry)
                connection.close()
            elif match is None and its_kind == kind:
                _idle.remove(entry)
                match = connection
    return match


def _return_idle(kind: _PoolKey, connection: ReconnectingClient) -> None:
    with _lock:
        _idle.append((os.getpid(), kind, connection, time.monotonic()))
        for _, _, oldest, _ in _idle[:-_IDLE_MAX]:
            oldest.close()
        del _idle[:-_IDLE_MAX]

"""The server's arrival: a start that waits for a database that starts at the same time, as containers do."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from engine.model.errors import BackendUnavailable

log = logging.getLogger("queuegate")

_NOT_YET = frozenset((2002, 2003, 2005, 2006, 2013, 1040, 1053))
"""The errors of a server that is not up yet, or has no free connection yet; other errors would be repeated."""

_PAUSE_SECONDS = 0.5


async def wait_for_server(
    try_once: Callable[[], None], seconds: float, stopping: asyncio.Event, *, verbose: bool = True
) -> bool:
    """Try, again and again, until the server accepts the login. Whether it did: False, where `stopping` came first.

    Args:
        try_once: connects and disconnects; blocks, and raises BackendUnavailable.
        seconds: for how long a server that is not there is tried again.

    Raises:
        BackendUnavailable: the last error, or at once where waiting would not help (a wrong password).
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    reported = not verbose
    while not stopping.is_set():
        try:
            await asyncio.to_thread(try_once)
            return True
        except BackendUnavailable as error:
            left = deadline - clock()
            if error.errno not in _NOT_YET or left <= 0:
                raise
            if not reported:
                log.warning("the database is not there yet; waiting for it up to %g s: %s", seconds, error)
                reported = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), min(_PAUSE_SECONDS, left))
    return False

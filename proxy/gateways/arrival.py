"""The server's arrival: a start that waits for a database that starts at the same time, as containers do."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from engine.model.errors import BackendUnavailable

log = logging.getLogger("queuegate")

_NOT_YET = frozenset((2002, 2003, 2005, 2006, 2013, 1040, 1053))
"""What is said of a server that is not there yet, or has no place yet; what else it says it would say again."""

_PAUSE_SECONDS = 0.5


async def wait_for_server(
    try_once: Callable[[], None], seconds: float, stopping: asyncio.Event, *, tell: bool = True
) -> bool:
    """Try, again and again, until the server lets us in. Whether it did: False, where `stopping` came first.

    Args:
        try_once: connects and disconnects; blocks, and raises BackendUnavailable.
        seconds: for how long a server that is not there is tried again.

    Raises:
        BackendUnavailable: what was said last, or at once where waiting would not help (a wrong password).
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    told = not tell
    while not stopping.is_set():
        try:
            await asyncio.to_thread(try_once)
            return True
        except BackendUnavailable as error:
            left = deadline - clock()
            if error.errno not in _NOT_YET or left <= 0:
                raise
            if not told:
                log.warning("the database is not there yet; waiting for it up to %g s: %s", seconds, error)
                told = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), min(_PAUSE_SECONDS, left))
    return False

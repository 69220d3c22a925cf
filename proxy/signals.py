"""What a signal does to a process that has ended its work."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable

ENDING = (signal.SIGTERM, signal.SIGINT)


async def then_ignore_them(serving: Awaitable[None]) -> None:
    """Await `serving`; afterwards the signals that end a process do nothing, so that its exit code stays what it is.

    The loop gives up its handlers when it is closed. A second SIGTERM from then on would end the process by the signal:
    a service manager would take an end in order for a failure.
    """
    try:
        await serving
    finally:
        loop = asyncio.get_running_loop()
        for number in ENDING:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)

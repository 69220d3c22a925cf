"""What concerns the whole process: its memory settings, and the signals that end it.

Freed large blocks are returned to the system, and permanent objects are not scanned. glibc learns. Once a large block
has been freed, blocks of that size come from the heap, where they are made of pages that others have used. The event
loop's TLS has a buffer of 256 KiB for each connection, of which a login touches 8: in the heap it costs 20 KB more. A
fixed threshold keeps such blocks apart, and statements of many megabytes too.

It also gives each thread a heap of its own, and a heap keeps the room that was once needed in it. The embedded
database has a thread for each connection to its file: they share two heaps.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

LARGE_BYTES = 256 * 1024  # as uvloop's TLS buffer; what one read of a socket brings (250 KiB at most) stays in the heap
SPARE_BYTES = 4 << 20  # retained at the heap's top when it is freed: without it, every large read would ask the system

HEAPS = 2  # the event loop's, and one for all threads: they seldom allocate at the same time

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_SETTINGS = ((_M_MMAP_THRESHOLD, LARGE_BYTES), (_M_TRIM_THRESHOLD, SPARE_BYTES), (_M_ARENA_MAX, HEAPS))


def separate_large_blocks() -> bool:
    """Settle it for this process, once, before it allocates much. False where the C library is not glibc."""
    mallopt = _of_c_library("mallopt")
    if mallopt is None:
        return False
    return all(mallopt(*setting) for setting in _SETTINGS)


def _of_c_library(name: str) -> Any:
    return None if sys.platform == "win32" else getattr(ctypes.CDLL(None), name, None)


def spare_what_exists() -> None:
    """To be called once all is loaded: no garbage collection scans it any more. That would block everything for 45
    ms."""
    gc.collect()
    gc.freeze()
    malloc_trim = _of_c_library("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(0)  # what loading took and no one needs now, a megabyte


ENDING = (signal.SIGTERM, signal.SIGINT)


def on_signals(numbers: Iterable[signal.Signals], callback: Callable[[], None]) -> None:
    """Have the running loop call `callback` for each of these signals. To be called in the main thread.

    `loop.add_signal_handler` is not used: the loop gives such a handler up by the default action, so that for a moment
    a second signal ends the process. From here to `then_ignore_them` each signal always has a handler.
    """
    loop = asyncio.get_running_loop()

    def handle(number: int, frame: object) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(callback)

    for number in numbers:
        signal.signal(number, handle)


async def then_ignore_them(serving: Awaitable[None]) -> None:
    """Await `serving`; afterwards the signals that end a process do nothing, so that its exit code stays what it is.

    A second SIGTERM, or a SIGHUP, would otherwise end the process by the signal: a service manager would take an end in
    order for a failure. Python itself replaces handlers by the default action while it ends, but ignored signals stay
    ignored.
    """
    try:
        await serving
    finally:
        ignore_signals((*ENDING, signal.SIGHUP))


def ignore_signals(numbers: Iterable[signal.Signals]) -> None:
    """Have the system ignore these signals from here on, also while Python ends. To be called in the main thread.

    `signal.signal` alone replaces Python's handler beside the system's: a signal that comes between the two, in any
    thread, finds no handler, and Python prints that as a race. So the system is told first; then `signal.signal` has
    those handled that have come, and replaces a handler that no signal reaches any more.
    """
    system_signal = _of_c_library("signal")
    for number in numbers:
        if system_signal is not None:
            system_signal(int(number), ctypes.c_void_p(int(signal.SIG_IGN)))
        signal.signal(number, signal.SIG_IGN)

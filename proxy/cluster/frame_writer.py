"""FrameWriter: frames written on a transport, without ever waiting for who reads them.

What is not taken is dropped above `UNSENT_MAX_BYTES`, and LOST said in its place as soon as there is room: one that
hangs must not make others hold its words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from proxy.cluster.messages import BROADCAST, MessageKind, encode

UNSENT_MAX_BYTES = 1 << 20  # thousands of words


class FrameWriter:
    """See the module. `sender` is said to be who speaks; `seal` makes of a frame what is written."""

    def __init__(self, transport: asyncio.Transport, sender: int, seal: Callable[[bytes], bytes] | None = None) -> None:
        self._transport, self._sender, self._seal = transport, sender, seal
        self.dropped = False
        """Whether words were dropped, and LOST is yet to be said."""

    def say(self, kind: MessageKind, target: int, body: object = None) -> None:
        """Send a word, or drop it and say so later. Raises ValueError where it is too large."""
        if self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > UNSENT_MAX_BYTES:
            self.dropped = True
            return
        if self.dropped:
            self.dropped = False
            self._write(encode(MessageKind.LOST, self._sender, BROADCAST))
        self._write(encode(kind, self._sender, target, body))

    def _write(self, frame: bytes) -> None:
        self._transport.write(frame if self._seal is None else self._seal(frame))

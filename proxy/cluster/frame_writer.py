"""FrameWriter: frames written on a transport, without ever waiting for the reader.

Above `UNSENT_MAX_BYTES` of unsent bytes messages are dropped, and LOST is sent in their place as soon as there is room:
a process that hangs must not fill the memory of others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from proxy.cluster.messages import BROADCAST, MessageKind, encode

UNSENT_MAX_BYTES = 1 << 20  # thousands of messages


class FrameWriter:
    """See the module. `sender` is named as the sender; `seal` turns a frame into the bytes that are written."""

    def __init__(self, transport: asyncio.Transport, sender: int, seal: Callable[[bytes], bytes] | None = None) -> None:
        self._transport, self._sender, self._seal = transport, sender, seal
        self.dropped = False
        """Whether messages were dropped, and LOST is not sent yet."""

    def send(self, kind: MessageKind, target: int, body: object = None) -> None:
        """Send a message, or drop it and report that later. Raises ValueError where it is too large."""
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

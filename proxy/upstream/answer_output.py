"""AnswerOutput: where the bytes of one answer go. To the client as they are, to the client re-framed, or kept.

An answer is kept where something has to happen before the client may see it (`deliver`), or where it is for the proxy
itself (`collecting`).
"""

from __future__ import annotations

from collections.abc import Callable

from proxy.transport.client_socket import ClientSocket
from proxy.wire.answer_walker import AnswerWalker
from proxy.wire.reframer import Reframer, renumbered, reworded

HELD_MAX_BYTES = 16 << 20
"""Of an answer kept in memory: what SHOW statements and DDL answer is far smaller; beyond it nothing is collected."""


class AnswerOutput:
    """See the module. `begun`: something of this answer has reached the client. `reword` makes of an ERR packet of the
    server's the one that the client gets in its place; not on the fast path."""

    def __init__(self, client: ClientSocket, walker: AnswerWalker) -> None:
        self.begun = False
        self.collecting = False
        self.reframer: Reframer | None = None
        self.reword: Callable[[bytes], bytes] | None = None
        self._client = client
        self._walker = walker
        self._kept: bytearray | None = None

    def begin(self, reframer: Reframer | None = None, *, hold: bool = False, collect: bool = False) -> None:
        """A command that is not on the fast path begins."""
        self.begun, self.collecting, self.reframer = False, collect, reframer
        self._kept = bytearray() if hold or collect else None

    def at_rest(self) -> None:
        """How the fast path expects things between commands. What is kept is for `deliver` or `take`."""
        self.begun = self.collecting = False
        self.reframer = None

    def emit(self, chunk: bytes) -> None:
        """A chunk of the answer, which the walker has seen."""
        if self._walker.done and not self._walker.outcome.ok:
            chunk = renumbered(chunk, self._walker.outcome.errno)
        if self.reframer is not None:
            done, failed = self._walker.done, not self._walker.outcome.ok
            chunk = self.reframer.feed(chunk, ended=done and not failed)
            if done and failed and self.reword is not None:
                chunk = reworded(chunk, self.reword)
        if self._kept is None:
            self.begun = self.begun or bool(chunk)
            self._client.write_framed(chunk)
        elif len(self._kept) <= HELD_MAX_BYTES:
            self._kept += chunk
        elif not self.collecting:
            # Too much to hold: the client gets it before the proxy has read the catalog again.
            self.deliver(begun=True)
            self._client.write_framed(chunk)

    def deliver(self, *, begun: bool) -> None:
        """Write what is kept; `begun` whether more of the answer is to come."""
        if self._kept is not None:
            kept, self._kept = bytes(self._kept), None
            self.begun = begun
            self._client.write_framed(kept)

    def amend(self, position: int, data: bytes) -> None:
        """Change bytes of what is kept."""
        if self._kept is not None:
            self._kept[position : position + len(data)] = data

    def take(self) -> bytes | None:
        """What is kept, for the proxy itself; None where it is too large."""
        kept, self._kept = self._kept, None
        return None if kept is None or len(kept) > HELD_MAX_BYTES else bytes(kept)

    def forget(self) -> None:
        """Drop what is kept."""
        self._kept = None

    def write_error(self, packet: bytes) -> None:
        """An ERR packet of ours in place of the answer."""
        if self._kept is None:
            self._client.write_framed(packet)
        else:
            self._kept[:] = packet

    def next_seq(self) -> int:
        """The sequence id that follows the last packet the client was sent."""
        return self._walker.last_sequence + 1 & 0xFF if self.reframer is None else self.reframer.seq

"""AnswerOutput: where the bytes of one answer go. To the client as they are, to the client re-framed, or buffered.

An answer is buffered where something has to happen before the client may see it (`deliver`), or where it is for the
proxy itself (`collecting`).
"""

from __future__ import annotations

from collections.abc import Callable

from mysql_wire import replies
from mysql_wire.answer_walker import AnswerWalker
from mysql_wire.packets import frame
from mysql_wire.reframer import Reframer, renumbered, with_edited_error
from proxy.errors import BackendLost
from proxy.transport.client_socket import ClientSocket

BUFFERED_MAX_BYTES = 16 << 20
"""Of a buffered answer: what SHOW statements and DDL answer is far smaller; beyond it nothing is collected."""


class AnswerOutput:
    """See the module. `begun`: something of this answer has reached the client. `edit_error` makes of an ERR packet of
    the server's the one that the client gets in its place; not on the fast path."""

    def __init__(self, client: ClientSocket, walker: AnswerWalker, capabilities: int) -> None:
        self.begun = False
        self.collecting = False
        self.reframer: Reframer | None = None
        self.edit_error: Callable[[bytes], bytes] | None = None
        self._client = client
        self._walker = walker
        self._capabilities = capabilities
        self._buffer: bytearray | None = None

    def begin(self, *, buffered: bool = False, collect: bool = False) -> None:
        """A command that is not on the fast path begins."""
        self.begun, self.collecting, self.reframer = False, collect, None
        self._buffer = bytearray() if buffered or collect else None

    def reframe(self, *, more: bool) -> None:
        """Number the packets of this answer as the client counts them. `more`: further results follow."""
        self.reframer = Reframer(self._client.seq, more=more, capabilities=self._capabilities)

    def reset(self) -> None:
        """The state that the fast path expects between commands. The buffer stays, for `deliver` or `take`."""
        self.begun = self.collecting = False
        self.reframer = None

    def emit(self, chunk: bytes) -> None:
        """A chunk of the answer, which the walker has seen."""
        if self._walker.done and not self._walker.outcome.ok:
            chunk = renumbered(chunk, self._walker.outcome.errno)
        if self.reframer is not None:
            done, failed = self._walker.done, not self._walker.outcome.ok
            chunk = self.reframer.feed(chunk, ended=done and not failed)
            if done and failed and self.edit_error is not None:
                chunk = with_edited_error(chunk, self.edit_error)
        if self._buffer is None:
            self.begun = self.begun or bool(chunk)
            self._client.write_framed(chunk)
        elif len(self._buffer) <= BUFFERED_MAX_BYTES:
            self._buffer += chunk
        elif not self.collecting:
            # Too much to buffer: the client gets it before the proxy has read the catalog again.
            self.deliver(begun=True)
            self._client.write_framed(chunk)

    def deliver(self, *, begun: bool) -> None:
        """Write what is buffered; `begun` whether more of the answer is to come."""
        if self._buffer is not None:
            buffered, self._buffer = bytes(self._buffer), None
            self.begun = begun
            self._client.write_framed(buffered)

    def amend(self, position: int, data: bytes) -> None:
        """Change bytes of the buffer."""
        if self._buffer is not None:
            self._buffer[position : position + len(data)] = data

    def take(self) -> bytes | None:
        """The buffered answer, for the proxy itself; None where it is too large."""
        buffered, self._buffer = self._buffer, None
        return None if buffered is None or len(buffered) > BUFFERED_MAX_BYTES else bytes(buffered)

    def forget(self) -> None:
        """Drop the buffered answer."""
        self._buffer = None

    def write_error(self, error: BackendLost, seq: int) -> None:
        """An ERR packet of the proxy in place of the answer."""
        packet = frame(replies.err_packet(self._capabilities, error.errno, error.sqlstate, error.message), seq)
        if self._buffer is None:
            self._client.write_framed(packet)
        else:
            self._buffer[:] = packet

    def next_seq(self) -> int:
        """The sequence id that follows the last packet the client was sent."""
        return self._walker.last_sequence + 1 & 0xFF if self.reframer is None else self.reframer.seq

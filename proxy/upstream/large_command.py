"""LargeCommand: a command passed on to the database while the client still sends it, so that it is not buffered.

Rules: packets keep the sizes that the client announced, so the database counts what the client counts. The next piece
is read when the socket to the database has taken the last one. A text is passed on as far as `LargeText` lets it; where
it stops, the packet in progress is filled up with spaces, which change nothing after a statement, and the rest of the
text is buffered for the proxy to run. A client that breaks off in the middle leaves the database with half a command,
which it never executes: the connection is cut. A database that hangs up in the middle leaves the client talking: the
command is read to its end, for only then the client reads.
"""

from __future__ import annotations

from io import BytesIO

from mysql_wire.command_pieces import Pieces
from mysql_wire.errors import PacketTooLarge
from mysql_wire.packets import PAYLOAD_MAX, header
from proxy.transport.backend_socket import BackendSocket
from proxy.transport.client_socket import ClientSocket
from rewriter.scan.large_text import LargeText

_SPACES = b" " * (64 * 1024)


class LargeCommand:
    """See the module. `head` is what `read_command` gave; `endless`: how much will come is not known yet.

    Once sent, `rest` is the text that was not sent to the database: None where it has it all, and `too_large` where
    there was more of it than may be buffered.
    """

    def __init__(self, client: ClientSocket, head: bytes) -> None:
        assert client.commands.pieces is not None
        self.head = head
        self.endless = client.commands.pieces.announced[0] >= min(PAYLOAD_MAX, client.commands.max_packet_bytes + 1)
        self.rest: bytearray | None = None
        self.too_large = False
        self._client = client
        self._pieces = client.commands.pieces
        self._buffered_max = client.commands.max_packet_bytes
        self._text: LargeText | None = None
        self._ready = head  # of the head, what is passed on

    def watch(self, text: LargeText, begins: int) -> bool:
        """Pass on only what `text` lets through of the SQL that begins there in the head. False: nothing so far, and
        the command is to be taken `whole`."""
        self._text = text
        passed = text.feed(self.head[begins:])
        self._ready = self.head[:begins] + passed
        return bool(passed)

    def replace_head(self, head: bytes) -> None:
        """Another of the same length, where the database has another number for something in it."""
        self.head = self._ready = head

    async def whole(self) -> bytes:
        """The payload, joined after all. One that is too large is read to its end nevertheless: the client listens only
        then.

        Raises: as ClientSocket.read.
        """
        joined = BytesIO()
        size = joined.write(self.head)
        while piece := await self._client.read_piece():
            size += len(piece)
            if size <= self._buffered_max:
                joined.write(piece)
        if size > self._buffered_max:
            raise self._client.fail(PacketTooLarge(self._buffered_max))
        return joined.getvalue()  # what was written, not a copy of it

    async def send(self, backend: BackendSocket) -> None:
        """Pass the command on, to its end or as far as its text may go.

        Raises: as ClientSocket.read; then the link must be cut.
        """
        packets = _Packets(backend, self._pieces)
        await packets.write(self._ready)
        while piece := await self._client.read_piece():
            await packets.write(self._forwardable(piece))
        await packets.write(self._forwardable(b"", last=True))
        if self.rest is None:
            packets.end()
        else:
            await packets.fill_up()

    def _forwardable(self, piece: bytes, *, last: bool = False) -> bytes:
        if self._text is None:
            return piece
        if self.rest is None:
            passed = self._text.feed(piece, last=last)
            if self._text.stopped:
                self.rest = self._text.buffered
            return passed
        if len(self.rest) + len(piece) <= self._buffered_max:
            self.rest += piece
        else:
            self.too_large = True
        return b""


class _Packets:
    """Writes a payload as packets of the sizes that the client announced for its own."""

    def __init__(self, backend: BackendSocket, pieces: Pieces) -> None:
        self._backend = backend
        self._announced = pieces.announced
        self._seq = 0
        self._size = self._left = 0

    async def write(self, data: bytes) -> None:
        while data:
            if not self._left:
                self._open(self._announced.pop(0))
            piece, data = data[: self._left], data[self._left :]
            self._left -= len(piece)
            self._backend.write(piece)
            await self._backend.drain()

    def end(self) -> None:
        """All has been written; a last packet may be empty."""
        for size in self._announced:
            self._open(size)

    async def fill_up(self) -> None:
        """No more of the client's: end the packet in progress, and the command with it."""
        while self._left:
            await self.write(_SPACES[: self._left])
        if self._size == PAYLOAD_MAX:
            self._open(0)

    def _open(self, size: int) -> None:
        self._backend.write(header(size, self._seq))
        self._seq = self._seq + 1 & 0xFF
        self._size = self._left = size

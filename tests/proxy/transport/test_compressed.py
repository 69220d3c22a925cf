"""CompressedTransport between a reader and a transport that are played here."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

from mysql_wire.compression import PORTION_BYTES
from proxy.transport.compressed import CompressedTransport


class Below(asyncio.Transport):
    """A transport that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: asyncio.BaseProtocol | None = None
        self.said: list[Any] = []
        self.closing = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def write(self, data: Any) -> None:
        self.said.append(bytes(data))

    def pause_reading(self) -> None:
        self.said.append("pause")

    def resume_reading(self) -> None:
        self.said.append("resume")

    def is_closing(self) -> bool:
        return self.closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("192.0.2.1", 4)}.get(name, default)

    def get_write_buffer_size(self) -> int:
        return 42


class Above(asyncio.Protocol):
    """A reader that pauses after every `pause_after` bytes."""

    def __init__(self, pause_after: int | None = None) -> None:
        self.pause_after = pause_after
        self.pieces: list[bytes] = []
        self.told: list[str] = []
        self.line: CompressedTransport | None = None

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        if self.pause_after is not None:
            assert self.line is not None
            self.line.pause_reading()

    def eof_received(self) -> bool:
        self.told.append("eof")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("lost")

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


def line_between(above: Above, below: Below, *, serving: bool = True) -> CompressedTransport:
    above.line = CompressedTransport(
        below, above, serving=serving, capabilities=0, on_fault=lambda fault: above.told.append(str(fault.errno))
    )
    assert below.protocol is above.line
    return above.line


def compressed(plain: bytes, sequence: int = 0) -> bytes:
    body = zlib.compress(plain)
    return len(body).to_bytes(3, "little") + bytes((sequence,)) + len(plain).to_bytes(3, "little") + body


async def test_nothing_is_unpacked_for_a_reader_that_has_paused() -> None:
    above, below = Above(pause_after=1), Below()
    line = line_between(above, below)
    payload = bytes(3 * PORTION_BYTES)
    plain = len(payload).to_bytes(3, "little") + b"\0" + payload
    line.data_received(compressed(plain))
    assert len(above.pieces) == 1 and below.said == ["pause"] and not line.is_reading()
    for number in (2, 3, 4):
        line.resume_reading()
        assert len(above.pieces) == number - 1  # a transport hands nothing on from within the call
        await asyncio.sleep(0)
        assert len(above.pieces) == number
    assert b"".join(above.pieces) == plain and "resume" not in below.said
    line.resume_reading()
    await asyncio.sleep(0)
    assert below.said[-1] == "resume" and line.is_reading()


async def test_what_is_no_compressed_packet_is_told_once_and_nothing_follows_it() -> None:
    above, below = Above(), Below()
    line = line_between(above, below)
    line.data_received(compressed(b"\x01\0\0\0\x0e"))
    line.data_received(b"\x05\0\0\0\x09\0\0hello")
    line.data_received(compressed(b"\x01\0\0\0\x0e"))
    assert above.pieces == [b"\x01\0\0\0\x0e"] and above.told == ["1157"]


async def test_a_line_that_is_being_closed_is_not_read() -> None:
    above, below = Above(), Below()
    line = line_between(above, below)
    below.closing = True
    line.data_received(compressed(b"\x01\0\0\0\x0e"))
    line.resume_reading()
    await asyncio.sleep(0)
    assert not above.pieces and "resume" not in below.said


async def test_it_is_a_transport_upwards_and_a_protocol_downwards() -> None:
    above, below, other = Above(), Below(), Above()
    line = line_between(above, below, serving=False)
    line.write(memoryview(b"\x01\0\0\0\x0e"))
    assert below.said == [b"\x05\0\0\0\0\0\0\x01\0\0\0\x0e"]
    assert line.get_extra_info("peername") == ("192.0.2.1", 4) and line.get_write_buffer_size() == 42
    line.pause_writing()
    line.resume_writing()
    assert line.eof_received() is True
    line.set_protocol(other)
    line.data_received(compressed(b"\x01\0\0\x01\0", 1))
    line.connection_lost(None)
    assert above.told == ["pause", "resume", "eof"] and other.told == ["lost"] and other.pieces == [b"\x01\0\0\x01\0"]

"""CommandReader: any bytes, cut anywhere, give the same commands, or the same refusal at the same place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mysql_wire import command_pieces, command_reader
from mysql_wire.command_pieces import NEVER_LARGE
from mysql_wire.command_reader import CommandReader
from mysql_wire.errors import FatalProtocolError, PacketsOutOfOrder, PacketTooLarge

SHORT = 20
"""PAYLOAD_MAX in these tests: 16 MiB would be too many bytes for them."""
LIMIT = 70
QUIT = b"\x01\x00\x00\x00\x01"
Answer = tuple[list[bytes], type[FatalProtocolError] | None]


@pytest.fixture(autouse=True, scope="module")
def short_packets() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command_reader, "PAYLOAD_MAX", SHORT)
        patch.setattr(command_pieces, "PAYLOAD_MAX", SHORT)
        yield


class Client:
    """Reads commands as the proxy does: of a large one its beginning, then its pieces."""

    def __init__(self, reader: CommandReader) -> None:
        self.reader = reader
        self.commands: list[bytes] = []
        self._begun: bytes | None = None

    def feed(self, data: bytes) -> None:
        self.reader.feed(data)
        while self._step():
            pass

    def _step(self) -> bool:
        command = self._piece() if self._begun is not None else self._command()
        if command is None:
            return False
        if self.reader.pieces is not None:
            self._begun = command
            return True
        self._begun = None
        self.commands.append(command)
        self.reader.seq = 0
        return True

    def _command(self) -> bytes | None:
        ready = self.reader.ready(command=True)
        try:
            command = self.reader.next_command()
        except FatalProtocolError:
            assert ready, "a reader that waits until it is ready would not see the error"
            raise
        assert ready or command is None
        return command

    def _piece(self) -> bytes | None:
        piece = self.reader.next_piece()
        assert self._begun is not None
        return None if piece is None else self._begun + piece


def read(chunks: Sequence[bytes], large_from: int = NEVER_LARGE, limit: int = LIMIT) -> Answer:
    """The whole commands in these bytes, and the error that ended the reading."""
    client = Client(CommandReader(limit))
    client.reader.large_from = large_from
    try:
        for chunk in chunks:
            client.feed(chunk)
    except FatalProtocolError as error:
        return client.commands, type(error)
    return client.commands, None


def packet(payload: bytes, seq: int = 0) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([seq]) + payload


def framed(command: bytes) -> bytes:
    """The packets of a command. One that ends with a full packet has an empty one after it."""
    parts = [command[at : at + SHORT] for at in range(0, len(command) + 1, SHORT)]
    return b"".join(packet(part, seq) for seq, part in enumerate(parts))


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


COMMANDS = st.lists(st.binary(min_size=1, max_size=LIMIT), max_size=5)
PLACES = st.lists(st.integers(0, 1000), max_size=12)
LARGE = st.sampled_from([NEVER_LARGE, 5, SHORT])
HEADERS = st.builds(lambda size, seq: size.to_bytes(3, "little") + bytes([seq]), st.integers(0, 100), st.integers(0, 3))
BYTES = st.lists(HEADERS | st.binary(max_size=30) | st.just(QUIT), max_size=8).map(b"".join)


@given(COMMANDS, PLACES, LARGE)
def test_commands_come_out_as_they_went_in(commands: list[bytes], places: list[int], large_from: int) -> None:
    data = b"".join(map(framed, commands))
    assert read(cut(data, places), large_from) == (commands, None)


@given(BYTES, PLACES, LARGE)
def test_any_bytes_give_the_same_however_they_are_cut(data: bytes, places: list[int], large_from: int) -> None:
    whole = read([data], large_from)
    assert read(cut(data, places), large_from) == whole
    assert read([bytes([byte]) for byte in data], large_from) == whole


@given(COMMANDS, PLACES)
def test_no_byte_is_lost(commands: list[bytes], places: list[int]) -> None:
    """What has not been read is still there."""
    data = b"".join(map(framed, commands))
    reader = CommandReader(LIMIT)
    for chunk in cut(data, places):
        reader.feed(chunk)
    assert reader.unread == len(data)
    assert reader.take_all() == data
    assert not reader.begun


@given(st.binary(min_size=LIMIT + 1, max_size=200), PLACES)
def test_a_command_above_the_limit_is_refused(command: bytes, places: list[int]) -> None:
    assert read(cut(framed(command), places)) == ([], PacketTooLarge)


def test_it_is_refused_at_its_header() -> None:
    assert read([b"\x0b\x00\x00\x00"], limit=10) == ([], PacketTooLarge)
    assert read([b"\x0a\x00\x00\x00"], limit=10) == ([], None)


@given(st.binary(max_size=SHORT - 1), st.integers(1, 255), PLACES)
def test_a_command_begins_with_sequence_id_0(payload: bytes, seq: int, places: list[int]) -> None:
    assert read(cut(packet(payload, seq), places)) == ([], PacketsOutOfOrder)


@given(st.sampled_from([NEVER_LARGE, 5]), st.integers(0, 255).filter(lambda seq: seq != 1))
def test_the_next_packet_has_the_next_sequence_id(large_from: int, seq: int) -> None:
    assert read([packet(b"x" * SHORT), packet(b"y", seq)], large_from) == ([], PacketsOutOfOrder)


def test_of_a_packet_in_an_exchange_the_sequence_id_is_the_exchanges() -> None:
    reader = CommandReader(LIMIT)
    reader.seq = 255
    reader.feed(packet(b"answer", 255))
    assert reader.next_packet() == b"answer"
    assert reader.seq == 0


def test_a_quit_is_seen_before_it_is_read() -> None:
    reader = CommandReader(LIMIT)
    reader.feed(QUIT[:4])
    assert not reader.quits
    reader.feed(QUIT[4:])
    assert reader.quits


def test_what_is_cleared_is_forgotten() -> None:
    reader = CommandReader(LIMIT)
    reader.feed(packet(b"x" * SHORT) + packet(b"y", 1)[:4])
    assert reader.next_command() is None and reader.begun
    reader.clear()
    reader.seq = 0
    assert not reader.begun
    reader.feed(packet(b"z"))
    assert reader.next_command() == b"z"

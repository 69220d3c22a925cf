"""Compressed packets: taken apart and made, their numbers, and what is no compressed packet."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mysql_wire.compression import (
    PACKET_HEADER_BYTES,
    PLAIN_MAX,
    PORTION_BYTES,
    NotCompressed,
    Numbers,
    Packer,
    PacketHeads,
    Unpacker,
)
from mysql_wire.flags import DEPRECATE_EOF

Packet = tuple[int, int, bytes]  # sequence id, length before compression (0: not compressed), body


def packet(payload: bytes, sequence: int = 0) -> bytes:
    """A plain packet."""
    return len(payload).to_bytes(3, "little") + bytes((sequence,)) + payload


def compressed(plain: bytes, sequence: int = 0, announced: int | None = None) -> bytes:
    body = zlib.compress(plain)
    size = len(plain) if announced is None else announced
    return len(body).to_bytes(3, "little") + bytes((sequence,)) + size.to_bytes(3, "little") + body


def stored(plain: bytes, sequence: int = 0) -> bytes:
    return len(plain).to_bytes(3, "little") + bytes((sequence,)) + bytes(3) + plain


def unpacked(data: bytes, cuts: Iterable[int] = ()) -> bytes:
    """All that comes out, fed in pieces."""
    unpacker, out, last = Unpacker(lambda sequence: None), b"", 0
    for cut in (*sorted(cuts), len(data)):
        unpacker.feed(data[last:cut])
        last = max(last, cut)
        while piece := unpacker.portion():
            assert len(piece) <= PORTION_BYTES
            out += piece
    return out


def taken_apart(data: bytes) -> list[Packet]:
    """Compressed packets as they are on the wire."""
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 3], "little")
        plain = int.from_bytes(data[at + 4 : at + 7], "little")
        found.append((data[at + 3], plain, data[at + PACKET_HEADER_BYTES : at + PACKET_HEADER_BYTES + size]))
        at += PACKET_HEADER_BYTES + size
    return found


def plain_of(found: Packet) -> bytes:
    _, plain, body = found
    return zlib.decompress(body) if plain else body


def answering(commands: Iterable[int] = (0,)) -> Numbers:
    """A server's end that has just read a command of one packet, in compressed packets of these ids."""
    numbers = Numbers(serving=True)
    for sequence in commands:
        numbers.on_outer_received(sequence)
    numbers.on_inner_received(0)
    return numbers


# --- unpacking


@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(0, 2000), max_size=8), st.booleans())
def test_bytes_come_out_as_they_went_in_wherever_the_network_cuts(
    parts: list[bytes], cuts: list[int], small: bool
) -> None:
    wire = b"".join(stored(part) if small and not n % 2 else compressed(part) for n, part in enumerate(parts) if part)
    assert unpacked(wire, [cut for cut in cuts if cut < len(wire)]) == b"".join(parts)


def test_much_that_was_little_comes_in_portions() -> None:
    zeros = bytes((1 << 24) - 1)
    assert unpacked(compressed(zeros)) == zeros


def test_the_number_of_a_packet_is_told_before_its_bytes() -> None:
    seen: list[int] = []
    unpacker = Unpacker(seen.append)
    unpacker.feed(stored(b"abc", 7) + compressed(b"d" * 90, 8))
    assert (unpacker.portion(), seen) == (b"abc", [7])
    assert (unpacker.portion(), seen) == (b"d" * 90, [7, 8])


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(compressed(b"x" * 100, announced=99), id="more than announced"),
        pytest.param(compressed(b"x" * 100, announced=101), id="less than announced"),
        pytest.param(compressed(bytes(1 << 20), announced=1), id="far more than announced"),
        pytest.param(b"\x05\x00\x00\x00\x09\x00\x00hello", id="not zlib's"),
        pytest.param(b"\x00\x00\x00\x00\x09\x00\x00", id="nothing, announced as something"),
        pytest.param(
            (len(zlib.compress(b"x" * 60)) + 4).to_bytes(3, "little") + b"\x00\x3c\x00\x00" + zlib.compress(b"x" * 60)
            + b"more", id="bytes behind the end",
        ),
    ],
)  # fmt: skip
def test_a_packet_that_is_not_what_it_says_is_refused(wire: bytes) -> None:
    with pytest.raises(NotCompressed):
        unpacked(wire + stored(b"and on"))


def test_what_ends_before_it_yields_enough_is_refused_while_more_may_come() -> None:
    """What it yields is not a command then, though the packet is not here whole."""
    body = zlib.compress(packet(b"\x03SELECT 1"))
    wire = (len(body) + 100).to_bytes(3, "little") + b"\x00" + (500).to_bytes(3, "little") + body
    with pytest.raises(NotCompressed):
        unpacked(wire)


@given(st.binary(max_size=400))
def test_any_bytes_come_to_an_end(wire: bytes) -> None:
    try:
        unpacked(wire)
    except NotCompressed:
        pass


# --- packing


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([0, 1, 45, 60, 3000, PORTION_BYTES - 4, PORTION_BYTES, 3 * PORTION_BYTES]), max_size=6),
    st.lists(st.integers(0, 12 * PORTION_BYTES), max_size=6),
    st.booleans(),
)
def test_packets_come_back_out_each_whole_in_its_compressed_one(sizes: list[int], cuts: list[int], noise: bool) -> None:
    make = random.Random(1).randbytes if noise else bytes
    packets = [packet(make(size), number) for number, size in enumerate(sizes)]
    plain, packer, wire, last = b"".join(packets), Packer(Numbers(serving=False)), b"", 0
    for cut in (*sorted(cut for cut in cuts if cut < len(plain)), len(plain)):
        wire += b"".join(packer.pack(plain[last:cut]))
        last = cut
    found = taken_apart(wire)
    assert b"".join(map(plain_of, found)) == plain == unpacked(wire)
    begins = {sum(map(len, packets[:number])) for number in range(len(packets) + 1)}
    at = 0
    for one in found:
        at += len(plain_of(one))
        assert at in begins


def test_the_largest_packet_is_in_two_compressed_ones_whose_lengths_can_be_written() -> None:
    largest = random.Random(2).randbytes((1 << 24) - 1)
    packer = Packer(answering())
    wire = b"".join(packer.pack(packet(largest, 1))) + b"".join(packer.pack(packet(b"", 2)))
    found = taken_apart(wire)
    assert [len(plain_of(one)) for one in found] == [PLAIN_MAX, len(largest) + 4 - PLAIN_MAX, 4]
    assert unpacked(wire) == packet(largest, 1) + packet(b"", 2)


def test_small_packets_and_those_that_do_not_shrink_are_not_compressed() -> None:
    packer = Packer(answering())
    noise = random.Random(3).randbytes(1000)
    wire = b"".join(packer.pack(packet(b"short", 1))) + b"".join(packer.pack(packet(noise, 2)))
    assert taken_apart(wire) == [(1, 0, packet(b"short", 1)), (2, 0, packet(noise, 2))]


# --- numbers


def sent(packer: Packer, *packets: bytes) -> list[int]:
    """The numbers of the compressed packets that these become, each written alone."""
    return [sequence for one in packets for sequence, _, _ in taken_apart(b"".join(packer.pack(one)))]


def test_an_answer_counts_on_from_its_command() -> None:
    numbers = answering()
    packer = Packer(numbers)
    assert sent(packer, packet(b"a", 1), packet(b"b", 2), packet(b"c", 3)) == [1, 2, 3]
    numbers.on_outer_received(0)
    assert numbers.on_inner_received(0) == 0
    assert sent(packer, packet(b"d", 1)) == [1]
    for sequence in (0, 1, 2):  # a command in three compressed packets
        numbers.on_outer_received(sequence)
    assert numbers.on_inner_received(0) == 0
    assert sent(packer, packet(b"e", 1), packet(b"f", 2)) == [3, 4]


def test_the_answer_to_a_command_of_several_packets_begins_behind_them() -> None:
    """The answer's own packets count from where the command's ended, which may be where the last answer ended, too."""
    numbers = answering()
    packer = Packer(numbers)
    assert sent(packer, packet(b"a", 1)) == [1]
    for sequence in range(5):
        numbers.on_outer_received(sequence)
    assert [numbers.on_inner_received(0), numbers.on_inner_received(1)] == [0, 1]
    assert sent(packer, packet(b"b", 2)) == [5]


def test_the_first_packet_of_an_answer_has_the_number_of_its_compressed_one_and_the_others_count_on() -> None:
    numbers = answering()
    for sequence in (0, 1, 2):
        numbers.on_outer_received(sequence)
    assert [numbers.on_inner_received(number) for number in (0, 1)] == [0, 1]
    packer, large = Packer(numbers), bytes(PORTION_BYTES)
    wire = b"".join(packer.pack(packet(b"a", 2) + packet(b"b", 3) + packet(large, 4) + packet(b"c", 5)))
    assert unpacked(wire) == packet(b"a", 3) + packet(b"b", 4) + packet(large, 5) + packet(b"c", 6)
    assert [sequence for sequence, _, _ in taken_apart(wire)] == [3, 4, 5]
    numbers.on_outer_received(0)
    numbers.on_inner_received(0)
    assert unpacked(b"".join(packer.pack(packet(b"d", 1)))) == packet(b"d", 1)


def test_a_server_that_counts_anew_where_it_flushes_is_read_as_one_that_counts_on() -> None:
    numbers = Numbers(serving=False)
    packer = Packer(numbers)
    for _ in range(2):
        assert sent(packer, packet(b"call", 0)) == [0]
        seen = []
        for outer, inside in ((1, (1, 2, 3, 4)), (2, (2, 3)), (3, (3,)), (4, (4, 5))):
            numbers.on_outer_received(outer)
            seen += [numbers.on_inner_received(number) for number in inside]
        assert seen == list(range(1, 10))


def test_answers_to_commands_sent_ahead_are_each_counted_from_1() -> None:
    numbers = Numbers(serving=False)
    packer = Packer(numbers)
    assert sent(packer, packet(b"prepare", 0) + packet(b"execute", 0)) == [0, 0]
    seen = []
    for outer, inside in ((1, (1, 2)), (2, (3,)), (1, (1, 2)), (1, (1,))):
        numbers.on_outer_received(outer)
        seen += [numbers.on_inner_received(number) for number in inside]
    assert seen == [1, 2, 3, 1, 2, 1]


def test_commands_without_an_answer_do_not_count() -> None:
    numbers = answering()
    packer = Packer(numbers)
    assert sent(packer, packet(b"a", 1)) == [1]
    for _ in range(3):
        numbers.on_outer_received(0)
        assert numbers.on_inner_received(0) == 0
    assert sent(packer, packet(b"b", 1), packet(b"c", 2)) == [1, 2]


def test_a_command_after_one_without_an_answer_may_be_in_the_same_compressed_packet() -> None:
    """libmariadb sends COM_STMT_CLOSE only with what comes next."""
    numbers = Numbers(serving=True)
    numbers.on_outer_received(0)
    assert [numbers.on_inner_received(0), numbers.on_inner_received(0), numbers.on_inner_received(1)] == [0, 0, 1]
    packer = Packer(numbers)
    assert taken_apart(b"".join(packer.pack(packet(b"answer", 2))))[0][0] == 1
    # One that begins in a compressed packet which goes on with the command before.
    numbers.on_outer_received(0)
    numbers.on_inner_received(0)
    numbers.on_outer_received(1)
    assert [numbers.on_inner_received(0), numbers.on_inner_received(1)] == [0, 1]
    # A file's packets count on over 255, theirs and those around them.
    numbers.on_outer_received(0)
    numbers.on_inner_received(0)
    for sequence in range(1, 600):
        numbers.on_outer_received(sequence & 0xFF)
        assert numbers.on_inner_received(sequence & 0xFF) == sequence & 0xFF


def test_each_of_two_answers_written_at_once_begins_anew() -> None:
    """A client that sends commands ahead expects each answer to count from its own command."""
    numbers = answering()
    numbers.on_outer_received(0)
    numbers.on_inner_received(0)
    assert sent(Packer(numbers), packet(b"a", 1) + packet(b"b", 2) + packet(b"c", 1)) == [1, 1]


def test_rows_beyond_255_go_on_counting() -> None:
    packer = Packer(answering())
    rows = [packet(b"r", number & 0xFF) for number in range(1, 600)]
    assert sent(packer, *rows) == [number & 0xFF for number in range(1, 600)]


def test_a_file_is_sent_and_answered_in_one_sequence_however_the_client_counts_inside() -> None:
    numbers = answering()
    packer = Packer(numbers)
    assert sent(packer, packet(b"\xfbfile", 1)) == [1]
    inside = []
    for outer in range(2, 700):
        numbers.on_outer_received(outer & 0xFF)
        inside += [
            numbers.on_inner_received(number) for number in (outer & 0xFF, 77)
        ]  # as libmysqlclient: wrong from the 2nd
    assert inside == [number & 0xFF for number in range(2, 2 + len(inside))]
    assert sent(packer, packet(b"ok", inside[-1] + 1 & 0xFF)) == [700 & 0xFF]


def test_towards_a_server_commands_begin_with_0_and_a_file_goes_on() -> None:
    numbers = Numbers(serving=False)
    packer = Packer(numbers)
    assert sent(packer, packet(b"close", 0) + packet(b"query", 0)) == [0, 0]
    numbers.on_outer_received(1)
    assert sent(packer, packet(b"load", 0)) == [0]
    numbers.on_outer_received(1)
    numbers.on_outer_received(2)
    assert sent(packer, *(packet(b"rows", number & 0xFF) for number in range(2, 600))) == [
        number + 1 & 0xFF for number in range(2, 600)
    ]
    numbers.on_outer_received(601 & 0xFF)
    assert sent(packer, packet(b"next", 0)) == [0]


# --- where packets begin


@given(st.lists(st.binary(max_size=30), max_size=6), st.lists(st.integers(0, 200), max_size=10))
def test_heads_are_found_wherever_the_bytes_are_cut(payloads: list[bytes], cuts: list[int]) -> None:
    plain = b"".join(packet(payload, 9) for payload in payloads)
    heads, out, last, seen = PacketHeads(), b"", 0, 0
    for cut in (*sorted(cut for cut in cuts if cut < len(plain)), len(plain)):
        data = heads.joined(plain[last:cut])
        last = cut
        for at in heads.offsets(data):
            data[at + 3] = seen & 0xFF
            seen += 1
        out += heads.whole(data)
    assert out == b"".join(packet(payload, number) for number, payload in enumerate(payloads))


@pytest.mark.parametrize("pieces", [1, 7, 1000])
def test_a_packet_that_is_damaged_is_never_handed_on_whole(pieces: int) -> None:
    """A statement must not be carried out that differs from what its checksum was made of."""
    damaged = bytearray(compressed(packet(b"\x03" + b"DELETE FROM t WHERE id IN (1, 2, 3, 4, 5, 6, 7, 8, 9)")))
    damaged[-1] ^= 1
    unpacker, plain = Unpacker(lambda sequence: None), b""
    with pytest.raises(NotCompressed):
        for start in range(0, len(damaged), pieces):
            unpacker.feed(bytes(damaged[start : start + pieces]))
            while piece := unpacker.portion():
                plain += piece
    assert len(plain) < 4 + int.from_bytes(plain[:3].ljust(3, b"\xff"), "little")


# --- answers of several results


MORE_RESULTS, QUERY, FETCH = 0x0008, 0x03, 0x1C


def result(rows: list[int], more: bool, deprecate_eof: bool) -> list[bytes]:
    """The payloads of a result of two columns, whose rows have these sizes."""
    status = (0x0002 | (MORE_RESULTS if more else 0)).to_bytes(2, "little")
    eof = b"\xfe\0\0" + status
    end = b"\xfe\0\0" + status + b"\0\0" if deprecate_eof else eof
    definitions = [b"\x03def" + bytes(20)] * 2
    return [b"\x02", *definitions, *([] if deprecate_eof else [eof]), *(bytes(size) for size in rows), end]


def ok(more: bool) -> list[bytes]:
    return [b"\0\1\0" + (MORE_RESULTS if more else 0).to_bytes(2, "little") + b"\0\0"]


class LikeMysqlCommon:
    """Counts as Rust's mysql_common does: a packet has the next number, or that of the compressed packet read last; and
    where a result ends with a compressed packet, the next number is that of the next compressed packet."""

    def __init__(self) -> None:
        self.next_inner = self.next_outer = 1
        self.unread = b""
        self.numbers: list[list[int]] = [[]]

    def read(self, found: list[tuple[int, int, bytes]], ends: set[int]) -> None:
        """`ends`: after how many packets results end."""
        count = 0
        for one in found:
            assert one[0] == self.next_outer
            self.next_outer = self.next_outer + 1 & 0xFF
            self.unread += plain_of(one)
            while len(self.unread) >= 4 and len(self.unread) >= 4 + int.from_bytes(self.unread[:3], "little"):
                number, size = self.unread[3], 4 + int.from_bytes(self.unread[:3], "little")
                assert number in (self.next_inner, self.next_outer - 1 & 0xFF), "packets out of sync"
                self.next_inner, self.unread, count = number + 1 & 0xFF, self.unread[size:], count + 1
                self.numbers[-1].append(number)
                if count in ends:
                    self.numbers.append([])
                    if not self.unread:
                        self.next_inner = self.next_outer


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(st.none(), st.lists(st.sampled_from([1, 60, 3000, 100_000]), max_size=12)), min_size=1, max_size=5
    ),
    st.lists(st.integers(1, 40), max_size=5),
    st.booleans(),
)
@example([[100_000], [1], None], [], False)
@example([[1] * 300, None, [1]], [302], True)
def test_results_are_numbered_as_a_server_does(results: Any, cuts: list[int], deprecate_eof: bool) -> None:
    """Within a result packets count on, however many compressed ones they are in (mysql2, go-sql-driver); after one the
    count is that of the compressed packets, if it ended with one (mysql_common)."""
    payloads, ends = [], set()
    for number, rows in enumerate(results):
        more = number + 1 < len(results)
        payloads += ok(more) if rows is None else result(rows, more, deprecate_eof)
        ends.add(len(payloads))
    numbers = Numbers(serving=True)
    numbers.on_outer_received(0)
    numbers.on_inner_received(0, QUERY)
    packer, wire = Packer(numbers, DEPRECATE_EOF if deprecate_eof else 0), b""
    pieces = [packet(payload, number & 0xFF) for number, payload in enumerate(payloads, 1)]
    last = 0
    for cut in (*sorted({min(cut, len(pieces)) for cut in cuts}), len(pieces)):
        wire += b"".join(packer.pack(b"".join(pieces[last:cut])))
        last = cut
    client = LikeMysqlCommon()
    client.read(taken_apart(wire), ends)
    assert client.unread == b"" and sum(map(len, client.numbers)) == len(payloads)
    for some in client.numbers:
        assert some == [some[0] + at & 0xFF for at in range(len(some))] if some else True


def test_rows_alone_are_never_taken_for_the_end_of_a_result() -> None:
    """A row of a fetch that reads like an OK packet with another result behind it."""
    numbers = Numbers(serving=True)
    numbers.on_outer_received(0)
    numbers.on_inner_received(0, FETCH)
    packer, row = Packer(numbers), ok(more=True)[0]
    wire = b"".join(packer.pack(packet(bytes(PORTION_BYTES), 1) + packet(row, 2)))
    wire += b"".join(packer.pack(packet(row, 3) + packet(row, 4)))
    inner, plain = [], unpacked(wire)
    while plain:
        inner.append(plain[3])
        plain = plain[4 + int.from_bytes(plain[:3], "little") :]
    assert inner == [1, 2, 3, 4]

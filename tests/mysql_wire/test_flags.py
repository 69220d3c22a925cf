"""Texts in character sets whose characters may have the byte of a backslash in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mysql_wire.errors import ProxyError
from mysql_wire.flags import BACKSLASH_IN_CHARACTERS, decoded, encoding_named

RANGES = {
    "gbk": ([(0x81, 0xFE)], [(0x40, 0x7E), (0x80, 0xFE)]),
    "gb18030": ([(0x81, 0xFE)], [(0x40, 0x7E), (0x80, 0xFE)]),
    "big5": ([(0xA1, 0xF9)], [(0x40, 0x7E), (0xA1, 0xFE)]),
    "shift_jis": ([(0x81, 0x9F), (0xE0, 0xFC)], [(0x40, 0x7E), (0x80, 0xFC)]),
    "cp932": ([(0x81, 0x9F), (0xE0, 0xFC)], [(0x40, 0x7E), (0x80, 0xFC)]),
}
"""The first and second bytes of the characters of two bytes, by MySQL's manual."""
CODECS = sorted(RANGES)


def within(byte: int, ranges: list[tuple[int, int]]) -> bool:
    return any(first <= byte <= last for first, last in ranges)


def of_server(text: bytes, codec: str) -> list[bytes]:
    """The characters that a server reads."""
    firsts, seconds = RANGES[codec]
    characters, place = [], 0
    while place < len(text):
        size = 1
        if within(text[place], firsts) and place + 1 < len(text):
            four = text[place : place + 4]
            if within(text[place + 1], seconds):
                size = 2
            elif (
                codec == "gb18030"
                and len(four) == 4
                and 0x81 <= four[2] <= 0xFE
                and {four[1], four[3]} <= set(b"0123456789")
            ):
                size = 4
        characters.append(text[place : place + size])
        place += size
    return characters


def check(text: bytes, codec: str) -> bool:
    """Whether it is not refused. Then it is read as a server reads it, and is sent as it came."""
    try:
        result = decoded(text, codec)
    except ProxyError as error:
        assert error.errno == 1300
        return False
    assert result.encode(codec, "surrogateescape") == text
    assert [one.encode(codec, "surrogateescape") for one in result] == of_server(text, codec)
    return True


def test_these_are_the_character_sets() -> None:
    assert {encoding_named(name) for name in ("gbk", "gb18030", "big5", "sjis", "cp932")} == BACKSLASH_IN_CHARACTERS


@pytest.mark.parametrize("codec", CODECS)
def test_every_two_bytes_are_read_as_a_server_does_or_refused(codec: str) -> None:
    accepted = sum(
        check(bytes((first, second)) + b"\\'", codec) for first in range(0x80, 0x100) for second in range(0x100)
    )
    assert accepted > 5_000


@pytest.mark.parametrize("codec", CODECS)
@given(pieces=st.lists(st.sampled_from([b"\\", b"'", b"a", b"\xa2\x5c", b"\x5c"]) | st.binary(max_size=4)))
def test_any_bytes_are(codec: str, pieces: list[bytes]) -> None:
    check(b"".join(pieces), codec)


def test_a_character_that_python_lacks_is_refused_and_others_are_not() -> None:
    assert not check(b"NACK q 70 REASON '\xa2\x5c\x5c' DELAY 40000 -- '", "gbk")
    assert check("NACK q 70 REASON '\u7e17\u8868'".encode("gbk"), "gbk")
    assert decoded(b"\xff\xe9", "utf-8") == "\udcff\udce9"

"""RowForm: text in the client's charset, everything else untouched."""

from __future__ import annotations

import codecs

import pytest
from mysql_mimic.charset import CharacterSet

from engine.model.queue import ColumnMeta
from mysql_wire import replies
from mysql_wire.flags import encoding_named
from mysql_wire.row_form import RowForm

NUMBER = ColumnMeta("n", 8, charset=63)
TEXT = ColumnMeta("t", 253, charset=45)
BLOB = ColumnMeta("b", 252, charset=63)
ROW = (b"1", "Größe €".encode(), b"\xc3\xb6")


def test_what_is_text() -> None:
    assert [column.is_text for column in (NUMBER, TEXT, BLOB)] == [False, True, False]


def test_unicode_clients_get_values_as_they_are() -> None:
    for charset in (None, "utf8mb4", "utf8mb3", "binary", "klingon"):
        form = RowForm((NUMBER, TEXT, BLOB), charset, binary=False)
        assert form(ROW) == replies.text_row(ROW)
        assert form.columns == (NUMBER, TEXT, BLOB)


def test_latin1_is_what_mysql_means_by_it() -> None:
    form = RowForm((NUMBER, TEXT, BLOB), "latin1", binary=False)
    assert form(ROW) == replies.text_row((b"1", "Größe €".encode("cp1252"), b"\xc3\xb6"))
    assert form.columns[1].charset == 8
    assert form.columns[2] == BLOB


def test_a_character_the_charset_cannot_hold_becomes_a_question_mark() -> None:
    form = RowForm((TEXT,), "latin2", binary=False)
    assert form(("я".encode(),)) == replies.text_row((b"?",))
    assert form((None,)) == replies.text_row((None,))


def test_the_binary_protocol_carries_the_same() -> None:
    form = RowForm((NUMBER, TEXT), "latin1", binary=True)
    assert form(ROW[:2]) == replies.binary_row_from_text((b"1", "Größe €".encode("cp1252")), form.columns)


@pytest.mark.parametrize("charset", [known.name for known in CharacterSet])
def test_no_character_set_of_mysql_is_too_much(charset: str) -> None:
    """Also those that Python has no codec for, and those that no client may have."""
    form = RowForm((NUMBER, TEXT, BLOB), charset, binary=False)
    packet = form((b"1", "plain äя".encode(), b"\xff"))
    plain = "plain ".encode(encoding_named(charset, of_result=True))
    assert plain in packet and packet.endswith(b"\x01\xff")
    codecs.lookup(encoding_named(charset))


class _Zone:
    def __init__(self) -> None:
        self.learned: set[int] = set()

    async def load(self, moments) -> None:
        self.learned |= set(moments)

    def offset(self, moment: int) -> int:
        assert moment in self.learned
        return 20700


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"1767225600", b"2026-01-01 05:45:00"),
        (b"1767225600.250", b"2026-01-01 05:45:00.250"),
        (b"1.000001", b"1970-01-01 05:45:01.000001"),
        (b"0.500", b"1970-01-01 05:45:00.500"),
        (b"4294967295", b"2106-02-07 12:13:15"),
        (b"0", b"0000-00-00 00:00:00"),
        (b"0.000", b"0000-00-00 00:00:00.000"),
        (b"no moment", b"no moment"),
        (None, None),
    ],
)
async def test_a_moment_is_what_the_clients_clock_shows(value, shown) -> None:
    column = ColumnMeta("at", 7, charset=63)
    form = RowForm((NUMBER, column), None, binary=False, zone=_Zone())
    await form.ready([(b"1", value)])
    assert form((b"1", value)) == replies.text_row((b"1", shown))
    if shown != b"no moment":
        binary = RowForm((NUMBER, column), None, binary=True, zone=_Zone())
        await binary.ready([(b"1", value)])
        assert binary((b"1", value)) == replies.binary_row_from_text((b"1", shown), (NUMBER, column))

"""Answers to the proxy's own questions, taken apart: what a database says that was asked something else is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from engine.model.errors import BackendError
from engine.model.queue import ColumnMeta, TextValue
from mysql_wire.outcome import Collected, Outcome, number, unhex
from proxy.upstream.base import Upstream, collected


def table(*rows: tuple[TextValue, ...]) -> Collected:
    return Collected(tuple(ColumnMeta(f"c{n}", 0xFD) for n in range(len(rows[0]) if rows else 1)), rows)


def test_as_many_values_as_were_asked_for() -> None:
    found = table((b"1", b"2", None), (b"4", None, b"6"))
    assert found.each(2) == [(b"1", b"2"), (b"4", None)]
    assert found.row(3) == (b"1", b"2", None)
    assert table().each(7) == []


@pytest.mark.parametrize(
    "take", [lambda: table((b"1",)).each(2), lambda: table((b"1",)).row(2), lambda: table().row(1)]
)
def test_fewer_values_or_no_row_are_no_answer(take: Callable[[], object]) -> None:
    with pytest.raises(BackendError, match="does not answer what it was asked"):
        take()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"0", 0),
        (b"-1", -1),
        (b"9223372036854775807", (1 << 63) - 1),
        (b"18446744073709551615", (1 << 64) - 1),
        (b"-9223372036854775808", -(1 << 63)),
        (b"000000000000000000000000000042", 42),
    ],
)
def test_numbers_of_columns(text: bytes, value: int) -> None:
    assert number(text) == value


@pytest.mark.parametrize(
    "text",
    [None, b"", b"value", b"1.5", b"1e3", b"1_0", b" 1", b"+1", b"\xd9\xa1", b"18446744073709551616", b"9" * 5000],
)
def test_no_numbers(text: TextValue) -> None:
    with pytest.raises(BackendError, match="is no number"):
        number(text)


def test_texts_in_hexadecimal() -> None:
    assert unhex("grün".encode().hex().upper().encode()) == "grün"
    assert unhex(b"") == unhex(None) == ""


@pytest.mark.parametrize("text", [b"value", b"abc", b"ff", b"\xff"])
def test_no_texts_in_hexadecimal(text: bytes) -> None:
    with pytest.raises(BackendError, match="hexadecimal"):
        unhex(text)


class Answering:
    def __init__(self, answer: Collected | Outcome) -> None:
        self._answer = answer

    async def collect(self, sql: str) -> Collected | Outcome:
        return self._answer


async def test_a_question_is_answered_with_rows_or_refused() -> None:
    rows = table((b"1",))
    assert await collected(cast(Upstream, Answering(rows)), "SELECT 1") is rows
    with pytest.raises(BackendError, match="not allowed") as refused:
        await collected(cast(Upstream, Answering(Outcome(1142, "not allowed", "42000"))), "SELECT 1")
    assert (refused.value.errno, refused.value.sqlstate) == (1142, "42000")
    with pytest.raises(BackendError, match="no result"):
        await collected(cast(Upstream, Answering(Outcome(affected_rows=3))), "SELECT 1")

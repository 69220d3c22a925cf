"""Text for a terminal: nothing in it acts, everything fits."""

from __future__ import annotations

import re
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate.cli.tables import (
    age,
    compact,
    local_time,
    padded,
    printable,
    rate,
    shortened,
    shortened_inside,
    table,
    width,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ` ' \" ;", "plain ` ' \" ;"),
        ("größe 日本 🎉", "größe 日本 🎉"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b1m", "\\x9b1m"),
        ("\u202egnp", "\\u202egnp"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_would_act_on_a_terminal_is_written_out(text, shown):
    assert printable(text) == shown


@given(st.text(), st.integers(1, 40))
def test_fields_have_their_width(text, columns):
    text = printable(text)
    assert text.isprintable()
    assert width(shortened(text, columns)) <= columns
    assert width(shortened_inside(text, columns)) <= columns
    assert width(padded(text, columns)) == width(padded(text, columns, right=True)) == columns


def test_a_shortened_text_says_so():
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghijk", 10) == "abcdefg..."
    assert shortened("日本日本日本", 10) == "日本日..."
    assert shortened("abcdefg", 3) == "abc"
    assert shortened_inside("customer_orders_17", 13) == "custo...rs_17"


def test_a_table_is_aligned():
    made = table(["NAME", "N", "STATE"], [["日本", "1", ""], ["a", "1000", "paused"]], right=["N"])
    assert made == "NAME     N  STATE\n日本     1\na     1000  paused\n"
    assert table(["NAME", "STATE"], [["a" * 20, "x"]], most=10) == "NAME   ...\naaaaaaa...\n"


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (None, "-"), (0, "0"), (99_999, "99999"), (100_000, "100k"), (999_499, "999k"), (999_500, "1.0M"),
        (1_234_567, "1.2M"), (12_345_678, "12M"), (999_600_000, "1.0G"), (10**18, "lots"),
    ],
)  # fmt: skip
def test_counts_are_short(number, shown):
    assert compact(number) == shown


@given(st.floats(0, 1e17))
def test_numbers_fit_their_fields(number):
    assert len(compact(number)) <= 5
    assert len(rate(number)) <= 5
    assert len(age(min(number, 1e9))) <= 6


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "-"), (0.9, "0s"), (59.9, "59s"), (60, "1m00s"), (3599, "59m59s"), (7500, "2h05m"), (86400, "1d00h"),
        (200 * 86400, "200d"),
    ],
)  # fmt: skip
def test_ages(seconds, shown):
    assert age(seconds) == shown


def test_rates():
    assert [rate(None), rate(0.0), rate(0.25), rate(99.94), rate(99.96), rate(123_456.0)] == [
        "-", "0", "0.2", "99.9", "100", "123k",
    ]  # fmt: skip


def test_times_are_iso_with_their_zone():
    shown = local_time(1_700_000_000_123_456_789)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.123[+-]\d\d:\d\d", shown)
    assert datetime.fromisoformat(shown).timestamp() == pytest.approx(1_700_000_000.123)

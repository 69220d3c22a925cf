"""Values as SQL literals: what a rebound statement and a stream's WHERE hold of each kind of value."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest

from rewriter.errors import UnsupportedSql
from rewriter.text.literals import hex_literal, plain_literal, string_literal, typed_literal

NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("value", "plain", "typed"),
    [
        (None, "NULL", "NULL"),
        (True, "1", "1"),
        (7, "7", "7"),
        (-7, "-7", "(-7)"),
        (7.0, "7", "(7.00000000000000000e+00)"),
        (-0.5, "-0.5", "(-5.00000000000000000e-01)"),
        (2.0**60, "1.152921504606847e+18", "(1.15292150460684698e+18)"),
        (Decimal("1E+3"), "1000", "(1000.)"),
        (Decimal("-0.10"), "-0.10", "(-0.10)"),
        ("it's", "'it''s'", "'it''s'"),
        ("a\\b", "'a\\\\b'", "'a\\\\b'"),
        (b"\x00'", "X'0027'", "CAST(X'0027' AS BINARY)"),
        (date(2026, 1, 2), "'2026-01-02'", "DATE'2026-01-02'"),
        (datetime(2026, 1, 2, 3, 4, 5), "'2026-01-02 03:04:05'", "TIMESTAMP'2026-01-02 03:04:05'"),
        (datetime(2026, 1, 2, 3, 4, 5, 6), "'2026-01-02 03:04:05.000006'", "TIMESTAMP'2026-01-02 03:04:05.000006'"),
        (timedelta(hours=30, seconds=1), "'30:00:01'", "TIME'30:00:01'"),
        (-timedelta(seconds=1, microseconds=500_000), "'-00:00:01.500000'", "TIME'-00:00:01.500000'"),
    ],
)
def test_each_kind_of_value_plain_and_typed(value, plain, typed):
    assert (plain_literal(value), typed_literal(value)) == (plain, typed)


@pytest.mark.parametrize("literal", [plain_literal, typed_literal])
@pytest.mark.parametrize("value", [NAN, INFINITE, -INFINITE, Decimal("NaN"), Decimal("Infinity"), object()])
def test_what_has_no_literal_is_refused(literal, value):
    with pytest.raises(UnsupportedSql, match="cannot be bound"):
        literal(value)


@pytest.mark.parametrize("text", ["a\x00b", "\udce4"])
def test_text_that_is_no_sql_text_is_refused_in_an_expression(text):
    with pytest.raises(UnsupportedSql):
        typed_literal(text)


def test_backslashes_stay_alone_where_they_do_not_escape():
    assert plain_literal("a\\'b", backslash_escapes=False) == string_literal("a\\'b", backslash_escapes=False)
    assert string_literal("a\\'b", backslash_escapes=False) == "'a\\''b'"


def test_hexadecimal_carries_the_bytes_of_a_client():
    assert hex_literal("ä\udce4") == "_utf8mb4 X'c3a4e4'"

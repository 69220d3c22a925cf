"""Lifting literals: values out of the text, marks into it, and back."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded.compile.text.literal_lifting import (
    LexicalModes,
    fill_slots,
    lift,
    literal_text,
    mark_slots,
    slot_kinds,
    slot_of,
)
from rewriter.errors import SqlSyntaxError


def kinds_and_values(sql, *params, **modes):
    lifted = lift(sql, list(params) if params else None, LexicalModes(**modes))
    return lifted.kinds, lifted.values


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("5", "i", 5),
        ("9223372036854775807", "i", 2**63 - 1),
        ("9223372036854775808", "u", 2**63),
        ("18446744073709551616", "w2000", Decimal(2**64)),
        ("1.50", "d2", Decimal("1.50")),
        (".5", "d1", Decimal("0.5")),
        ("0.1234567890123456", "w1616", Decimal("0.1234567890123456")),
        ("1e3", "e", 1000.0),
        ("1.5E-3", "e", 0.0015),
        ("0x41", "x", b"A"),
        ("0x041", "x", b"\x00A"),
        ("x'4142'", "x", b"AB"),
        ("X''", "x", b""),
        ("b'1000001'", "x", b"A"),
        ("0b1000001", "x", b"A"),
        ("'it''s'", "s", "it's"),
        ('"say ""hi"""', "s", 'say "hi"'),
        (r"'a\'b\\c\n\0\Z\%\_\q'", "s", "a'b\\c\n\0\x1a\\%\\_q"),
        ("'-- no /* comment */ # here ?'", "s", "-- no /* comment */ # here ?"),
        ("N'x'", "s", "x"),
        ("_utf8mb4'x'", "s", "x"),
        ("_binary 'x'", "b", b"x"),
        ("_binary _binary'x'", "b", b"x"),
    ],
)
def test_literals(text, kind, value):
    assert kinds_and_values(f"SELECT {text}, a") == ((kind,), (value,))


@pytest.mark.parametrize(
    "text",
    ["a1", "`1 'x'`", "t1.c2", "q_5", "$1x", "utf8mb4", "x1e5", "-- 5\n a", "# 'x'\n a", "/* 5 'x' ? */ a", "--\n"],
)
def test_what_is_no_literal(text):
    assert lift(f"SELECT {text}").values == ()


def test_statements_that_differ_in_values_have_one_shape():
    one, other = lift("INSERT INTO t VALUES (1, 'a', 1.5)"), lift("INSERT INTO t VALUES (22, 'long''er', 2.7)")
    assert one.shape == other.shape
    assert other.values == (22, "long'er", Decimal("2.7"))
    assert lift("SELECT 1").shape != lift("SELECT 'a'").shape


def test_parameters_take_the_kind_of_their_value():
    values = (None, True, 5, 2**63, 1.5, Decimal("1.25"), "a", b"b", datetime.date(2024, 1, 2), datetime.timedelta(1))
    marks = ", ".join("?" * len(values))
    lifted = lift(f"SELECT {marks}", values)
    assert lifted.kinds == ("n", "i", "i", "u", "e", "d2", "s", "b", "D", "t")
    assert lifted.parameters == len(values)
    assert lift("SELECT ?, '?'").kinds == ("q", "s")


@pytest.mark.parametrize("params", [(), (1,), (1, 2, 3)])
def test_the_number_of_parameters_must_fit(params):
    with pytest.raises(SqlSyntaxError):
        lift("SELECT ?, ?", params)


def test_variables_are_looked_up():
    known = {"@a": 5, "@@session.sql_mode": "X", "@`odd name`": "y"}
    lifted = lift("SELECT @a, @@session.sql_mode, @`odd name`, 'user@host'", variables=known.__getitem__)
    assert lifted.values == (5, "X", "y", "user@host")
    assert lift("SELECT @a").values == ()


def test_version_comments_are_part_of_the_statement_and_others_are_not():
    assert lift("/*!40101 SET x = 1 */").shape.split() == lift("SET x = 1").shape.split()
    assert lift("SELECT /*+ HINT(1) */ 1 /* 2 */").values == (1,)
    assert lift("/*M!999999\\- enable the sandbox mode */").shape == ""


def test_modes():
    assert kinds_and_values('SELECT "a"', ansi_quotes=True) == ((), ())
    assert lift('SELECT "a""b"', modes=LexicalModes(ansi_quotes=True)).shape == 'SELECT `a"b`'
    assert kinds_and_values(r"SELECT 'a\'", no_backslash_escapes=True) == (("s",), ("a\\",))


@pytest.mark.parametrize(
    "sql", ["SELECT 'a", 'SELECT "a', "SELECT `a", "SELECT /* a", "SELECT \x01i\x02", "SELECT `\x01`"]
)
def test_what_is_not_closed_is_an_error(sql):
    with pytest.raises(SqlSyntaxError):
        lift(sql)


@given(st.text())
def test_any_text_survives_as_a_literal(text):
    lifted = lift(f"SELECT {literal_text(text)}, 1")
    assert lifted.values == (text, 1)


@given(st.text(alphabet=st.sampled_from("'\"`\\?-#/* \nax1@;%_"), max_size=30))
def test_any_text_is_either_lifted_whole_or_refused(text):
    """Nothing in quotes is ever taken for a statement's own text."""
    try:
        lifted = lift(text, variables=lambda name: None)
    except SqlSyntaxError:
        return
    assert len(slot_kinds(lifted.shape)) == len(lifted.values)
    bare = re.sub("\x01[^\x02]*\x02|`(?:[^`]|``)*`", "", lifted.shape)
    assert not set(bare) & set("'\"?#`")


def test_markers_carry_their_number():
    lifted = lift("SELECT 5, 'a', 1.5, x'41', 1e3")
    marked = mark_slots(lifted.shape)
    found = [slot_of(word.strip("',")) for word in marked.split()[1:]]
    assert found == [0, 1, 2, 3, 4]
    assert fill_slots(marked, lifted.values) == "SELECT 5, 'a', 1.5, x'41', 1e3"
    assert slot_of("5") is None
    assert slot_of("qg:x") is None

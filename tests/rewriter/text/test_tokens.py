"""The token cursor: exact places, MySQL's strings, errors with their position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot.dialects.mysql import MySQL

from rewriter.errors import SqlSyntaxError, UnsupportedSql
from rewriter.grammar.parse import parse
from rewriter.text.tokens import Kind, TokenCursor, string_value, tokenize


def test_tokens_are_slices_of_the_text() -> None:
    sql = "ACK `größe` 'ü😀' -- c\n, PRIMARY   KEY x'41' 1.5 ? (b >= 5--1)"
    tokens = tokenize(sql)
    assert [sql[t.start : t.end] for t in tokens] == [t.text for t in tokens]
    assert [t.text for t in tokens[:7]] == ["ACK", "`größe`", "'ü😀'", ",", "PRIMARY", "KEY", "x'41'"]
    assert [t.kind for t in tokens[:4]] == [Kind.WORD, Kind.NAME, Kind.STRING, Kind.SYMBOL]
    assert "".join(t.text for t in tokens[9:]) == "(b>=5--1)"


def test_no_word_is_more_than_a_word() -> None:
    """sqlglot reads what follows some of its keywords as one string, and its releases add to them."""
    keywords = [word for word in MySQL.Tokenizer.KEYWORDS if word.isidentifier()]
    assert len(keywords) > 100
    for word in [*keywords, "RELEASE", "SAVEPOINT", "CALL", "REPLACE", "EXECUTE"]:
        assert [t.text for t in tokenize(f"{word} q 106")] == [word, "q", "106"], word


@pytest.mark.parametrize("text", ["a ?:: b", "a ?? b", "a {% b", "a ~~* b", "a -|- b", "a &< b", "a :: b", "a == b"])
def test_operators_of_other_dialects_are_none(text: str) -> None:
    assert all(len(token.text) == 1 for token in tokenize(text))
    assert [t.text for t in tokenize("a << 1 #> b")] == ["a", "<<", "1"]


def test_a_number_behind_an_operator_is_one_token() -> None:
    for operator in ("=", "<", "<=", ">=", "<>", "!=", "<=>", "<<", ">>", "&&", "||", ":=", "-"):
        assert [t.text for t in tokenize(f"a {operator} 2.5e1")] == ["a", operator, "2.5e1"]


@pytest.mark.parametrize("name", ["0bar", "0xfeg", "0b", "0x", "0b2", "0b1$", "0bär", "1st"])
def test_a_bare_name_may_begin_as_bits_do(name: str) -> None:
    cursor = TokenCursor(f"ACK {name} 5", start=1)
    assert cursor.take_identifier() == name
    assert cursor.take().text == "5"


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'a'", "a"),
        ("''", ""),
        ("'it''s'", "it's"),
        ("'it\\'s'", "it's"),
        ("'a\"\"b'", 'a""b'),
        ('"a""b"', 'a"b'),
        ("'\\n\\t\\0\\Z\\\\\\x'", "\n\t\0\x1a\\x"),
        ("'100\\%\\_'", "100\\%\\_"),
    ],
)
def test_string_value(literal: str, value: str) -> None:
    assert string_value(literal) == value


@given(st.text())
def test_string_value_undoes_quoting(text: str) -> None:
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    assert string_value(f"'{quoted}'") == text


def test_unended() -> None:
    for sql in ("ACK q 'a", "ACK `q", "ACK q /* a"):
        with pytest.raises(SqlSyntaxError, match="does not end"):
            tokenize(sql)


def test_error_shows_where() -> None:
    cursor = TokenCursor("ACK\n  q " + "x" * 200)
    cursor.take_words("ACK")
    cursor.take_name()
    assert cursor.error().message.endswith(f"near '{'x' * 80}' at line 2")


def test_modes() -> None:
    assert tokenize('"q"')[0].kind is Kind.STRING
    assert tokenize('"q"', ["ANSI_QUOTES"])[0].kind is Kind.NAME
    with pytest.raises(UnsupportedSql):
        tokenize("'\\'", ["NO_BACKSLASH_ESCAPES"])


def test_comments_are_passed_over_but_not_executable_ones() -> None:
    cursor = TokenCursor("a /* b */ c /* d */ '/*! e */' -- f")
    assert cursor.slice(1, 3) == "c /* d */ '/*! e */'"
    for sql in ("a /*! b */ c", "/*!50000 a */ b", "a /*M!100100 b */", "a b /*!*/"):
        with pytest.raises(UnsupportedSql, match="Executable comments"):
            TokenCursor(sql)


@pytest.mark.parametrize(
    "text", ["DROP QUEUE q\U0001f600", "DROP QUEUE \u2018q\u2019", "DROP QUEUE q\u2014", "SHOW QUEUES \u20ac"]
)
def test_characters_of_no_word_are_not_read_over(text: str) -> None:
    """A name that was pasted with curly quotes is not the name within them."""
    with pytest.raises(SqlSyntaxError):
        parse(text)

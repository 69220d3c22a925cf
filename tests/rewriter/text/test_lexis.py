"""Splitting texts into statements, and the leading verb, on bytes."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rewriter.text.lexis import SPACE, is_empty, leading_verb, split_statements, unquote


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (b"SELECT 1", [b"SELECT 1"]),
        (b"SELECT 1;", [b"SELECT 1;"]),
        (b"SELECT 1; -- done (at last)", [b"SELECT 1; -- done (at last)"]),
        (b"a;b", [b"a", b"b"]),
        (b" ; a ;; b ; ", [b"a ", b"b "]),
        (b"", []),
        (b" ;\n; /* nothing */ ;", []),
        (b"SELECT ';', \"a;b\", `c;d`; x", [b"SELECT ';', \"a;b\", `c;d`", b"x"]),
        (b"SELECT 'it''s; '; x", [b"SELECT 'it''s; '", b"x"]),
        (b"SELECT 'it\\'s; '; x", [b"SELECT 'it\\'s; '", b"x"]),
        (b"SELECT 'a\\\\'; x", [b"SELECT 'a\\\\'", b"x"]),
        (b"SELECT 'open; x", [b"SELECT 'open; x"]),
        (b"SELECT 'open; x\\", [b"SELECT 'open; x\\"]),
        (b"SELECT 1 # a;b\n; x", [b"SELECT 1 # a;b\n", b"x"]),
        (b"SELECT 1 -- a;b\n; x", [b"SELECT 1 -- a;b\n", b"x"]),
        (b"SELECT 5--1; x", [b"SELECT 5--1", b"x"]),
        (b"SELECT 1 /* a;b */; x", [b"SELECT 1 /* a;b */", b"x"]),
        (b"/*!50003 SET a = 1; */; x", [b"/*!50003 SET a = 1; */", b"x"]),
        (b"SELECT 1 /* open; x", [b"SELECT 1 /* open; x"]),
        (b"BEGIN; INSERT INTO q VALUES (1); COMMIT", [b"BEGIN", b"INSERT INTO q VALUES (1)", b"COMMIT"]),
        (b"x; CREATE PROCEDURE p() BEGIN a; b; END; y", [b"x", b"CREATE PROCEDURE p() BEGIN a; b; END; y"]),
        (b"CREATE DEFINER=`a`@`%` TRIGGER t BEGIN a; END; y", [b"CREATE DEFINER=`a`@`%` TRIGGER t BEGIN a; END; y"]),
        (
            b"CREATE DEFINER = 'a'@'%' VIEW v AS SELECT a AS event; y",
            [b"CREATE DEFINER = 'a'@'%' VIEW v AS SELECT a AS event", b"y"],
        ),
        (b"ALTER DEFINER=a VIEW v AS SELECT event; y", [b"ALTER DEFINER=a VIEW v AS SELECT event", b"y"]),
        *(
            (sql, [sql])
            for sql in (
                b"CREATE DEFINER=root@127.0.0.1 PROCEDURE p() BEGIN a; END; y",
                b"CREATE OR REPLACE DEFINER = CURRENT_USER ( ) AGGREGATE FUNCTION p() BEGIN a; END; y",
                b"CREATE DEFINER='it''s;'@\"%\" /* x */ EVENT e DO BEGIN a; END; y",
                b"ALTER DEFINER=`a`@'b' EVENT e DO BEGIN a; END; y",
                b"BEGIN INSERT INTO t VALUES (1); IF 1 = 1 THEN a; END IF; END",
                b"begin\np(); END",
            )
        ),
        (b"BEGIN; a", [b"BEGIN", b"a"]),
        (b"BEGIN WORK; a", [b"BEGIN WORK", b"a"]),
        (b"BEGIN /* x */; a", [b"BEGIN /* x */", b"a"]),
        (b"BEGIN NOT ATOMIC a; b; END", [b"BEGIN NOT ATOMIC a; b; END"]),
        (b"loop1: LOOP a; END LOOP", [b"loop1: LOOP a; END LOOP"]),
        (b"CREATE TABLE event (a INT); x", [b"CREATE TABLE event (a INT)", b"x"]),
        ("SELECT 'größe;'; x".encode("latin1"), ["SELECT 'größe;'".encode("latin1"), b"x"]),
    ],
)
def test_split(sql: bytes, expected: list[bytes]) -> None:
    assert split_statements(sql) == expected


def test_backslashes_are_plain_with_no_backslash_escapes() -> None:
    sql = rb"INSERT INTO t VALUES ('\', 'x; ACK q 1; y')"
    assert split_statements(sql, backslash_escapes=False) == [sql]
    assert split_statements(rb"SELECT '\'; x", backslash_escapes=False) == [rb"SELECT '\'", b"x"]


PIECES = st.lists(
    st.one_of(
        st.sampled_from([b"SELECT 1", b" x = y ", b"ACK q 5", b"(", b")", b"-", b"/", b"*", b"\\", b" \n", b"a--b"]),
        st.binary(max_size=8).map(lambda b: b"'" + b.replace(b"\\", b"\\\\").replace(b"'", b"''") + b"'"),
        st.binary(max_size=8).map(lambda b: b'"' + b.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'),
        st.binary(max_size=8).map(lambda b: b"`" + b.replace(b"`", b"``") + b"`"),
        st.binary(max_size=8).map(lambda b: b"/* " + b.replace(b"*/", b"") + b" */"),
        st.binary(max_size=8).map(lambda b: b"-- " + b.replace(b"\n", b"") + b"\n"),
        st.binary(max_size=8).map(lambda b: b"# " + b.replace(b"\n", b"") + b"\n"),
    ),
    min_size=1,
    max_size=6,
).map(lambda pieces: b"x " + b" ".join(pieces) + b" y")


@given(st.lists(PIECES, min_size=2, max_size=5))
def test_joined_statements_split_again(statements: list[bytes]) -> None:
    assert split_statements(b";".join(statements)) == statements


ONE_SPACE = SPACE.removeprefix(b"(?>").removesuffix(b"*)")  # one piece of space or comment, so that fewer can be tried
SEPARATORS = rb"(?:;|" + ONE_SPACE + rb")*"


@example(b"a;\n-- \n'")
@given(
    st.lists(st.sampled_from([b";", b"'", b"-- ", b"#", b"/*", b"*/", b"\n", b"a", b"`", b"\\", b" "])).map(b"".join)
)
def test_nothing_but_separators_and_comments_is_lost(sql: bytes) -> None:
    parts = split_statements(sql)
    if len(parts) > 1:
        assert re.fullmatch(SEPARATORS + SEPARATORS.join(map(re.escape, parts)) + SEPARATORS, sql)
    else:
        assert parts == [sql] or re.fullmatch(SEPARATORS, sql)


@pytest.mark.parametrize(
    ("sql", "verb"),
    [
        (b"select 1", b"SELECT"),
        (b"  /* a */ -- b\n# c\n ((Select 1))", b"SELECT"),
        (b"/*!40101 SET NAMES utf8 */", b"SET"),
        (b"/*M!100300 ack*/ q", b"ACK"),
        (b"--\nACK q", b"ACK"),
        (b"ACK`q`1", b"ACK"),
        (b"--x", b""),
        (b"/* open ACK", b""),
        (b"", b""),
        (b"{call p()}", b""),
    ],
)
def test_leading_verb(sql: bytes, verb: bytes) -> None:
    assert leading_verb(sql)[0] == verb


def test_is_empty() -> None:
    assert is_empty(b" -- (a)\n/* b */ # c")
    assert not is_empty(b"/*! a */") and not is_empty(b"(")


@pytest.mark.parametrize(("name", "plain"), [(b"q", b"q"), (b"`a``b`", b"a`b"), (b'"a""b"', b'a"b')])
def test_unquote(name: bytes, plain: bytes) -> None:
    assert unquote(name) == plain


@pytest.mark.parametrize(
    "text",
    [
        b"/*" * 500_000,
        b";/*" * 300_000,
        b"'\\" * 500_000,
        b";" * 1_000_000,
        b"a;" * 500_000,
        b"(" * 1_000_000,
        b"CREATE DEFINER" * 70_000,
        b"a " * 500_000 + b":",
        b"--\n" * 300_000,
        b"'a;b'," * 200_000,
    ],
    ids=lambda text: text[:14],
)
def test_linear_on_a_megabyte(text: bytes) -> None:
    start = time.process_time()
    split_statements(text)
    leading_verb(text)
    assert time.process_time() - start < 5

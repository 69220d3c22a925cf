"""REGEXP and LIKE by RE2: the same answers as MariaDB's, or a refusal, in time linear in the text."""

from __future__ import annotations

import time

import pytest
from slowness import scaled

from embedded.compile.errors import SqlError
from embedded.compile.functions import patterns
from embedded.compile.functions.context import CallContext
from rewriter.errors import RewriteError, UnsupportedSql

CONTEXT = CallContext()

# Text, pattern, MariaDB 10.11's answer with a collation that ignores case, and with utf8mb4_bin.
MARIADB = [
    ("é", r"^\w$", 1, 1), ("٣", r"^\d$", 1, 1), ("\xa0", r"^\s$", 1, 1), ("\x0b", r"^\s$", 1, 1),
    ("\x85", r"^\s$", 1, 1), ("_", r"^\w$", 1, 1), ("é", "^[[:alpha:]]$", 1, 1), ("É", "^é$", 1, 0),
    ("É", "^[[:lower:]]$", 0, 0), ("a", "^[[:upper:]]$", 0, 0), ("abc", "[[:upper:]]{3}", 0, 0),
    ("a", "^[[:lower:]]$", 1, 1), ("€", "^[[:punct:]]$", 0, 0), ("+", "^[[:punct:]]$", 1, 1),
    ("§", "^[[:punct:]]$", 1, 1), ("a\n", "^a$", 1, 1), ("a\nb", "^b", 0, 0), ("a\nb", "a.b", 0, 0),
    ("ſ", "^s$", 1, 0), ("aXb", "a(?i)x(?-i)b", 1, 1), ("a1", r"[\d]", 1, 1), ("ß", "ss", 0, 0),
    ("²", r"^\w$", 1, 1), ("‿", r"^\w$", 0, 0), ("a b", "a[[:blank:]]b", 1, 1), ("e", "é", 0, 0),
    ("", "", 1, 1), ("abc", "(?s)a.c", 1, 1), ("a\rb", "a.b", 1, 1), ("a", "a{,2}", 0, 0), ("\n", r"\v", 1, 1),
    ("x", "[^[:space:]]", 1, 1), ("a]", "[]]", 1, 1), ("a-", r"[a\-]", 1, 1), ("a[b", "[a[]b", 1, 1),
    ("x.y", "x[.]y", 1, 1), ("é", "[é-ü]", 1, 1), ("^", r"[\^]", 1, 1), ("]", "[^]]", 0, 0),
    ("a", "[^]]", 1, 1), ("a\nb", "(?m)^b$", 1, 1), ("ab\n", r"b\Z", 1, 1), ("ab", r"b\z", 1, 1),
    ("A", "a", 1, 0), ("x", r"\p{Greek}", 0, 0), ("α", r"\p{L}", 1, 1), ("é", r"\x{e9}", 1, 1),
    ("a", "[[:^digit:]]", 1, 1), ("\U0001f600", "^.$", 1, 1), ("a", "a|", 1, 1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "pattern", "any_case", "exact"), MARIADB)
def test_patterns_mean_what_they_mean_in_mariadb(text: str, pattern: str, any_case: int, exact: int) -> None:
    assert patterns.regexp_like(CONTEXT, text, pattern, "i") == any_case
    assert patterns.regexp_like(CONTEXT, text, pattern, "c") == exact


@pytest.mark.parametrize(
    ("text", "pattern"),
    [("aa", r"(a)\1"), ("a", "(?=a)"), ("a", "a(?!b)"), ("a", "(?<=b)a"), ("a", "(?>a)"), ("a", "a++"),
     ("a", "[[:<:]]a"),
     ("a", r"\Qa\E"), ("a", r"\h\K"), ("é x", r"\bx"), ("a", "(?#c)a"), ("a", "[a[:upper:]]"), ("a", "a{1001}"),
     ("a", "(a{500}){1000}"), ("a", "a" * 20_000)],
)  # fmt: skip
def test_what_takes_more_than_linear_time_is_refused(text: str, pattern: str) -> None:
    with pytest.raises(RewriteError) as refused:
        patterns.regexp_like(CONTEXT, text, pattern, "i")
    assert isinstance(refused.value, UnsupportedSql) or "repetition size" in refused.value.message


@pytest.mark.parametrize("pattern", ["(x|y", "x)", "[z-a]", "*", "x{2,1}", "\\", "[[:nothing:]]", "[:alpha:]"])
def test_what_is_no_pattern_is_1139(pattern: str) -> None:
    with pytest.raises(SqlError) as refused:
        patterns.regexp_like(CONTEXT, "x", pattern, "c")
    assert refused.value.errno == 1139


def test_replacing_and_finding() -> None:
    replace, found = patterns.regexp_replace, patterns.regexp_substr
    assert replace(CONTEXT, "abab", "(a)(b)", "\\2\\1", "c") == "baba"
    assert replace(CONTEXT, "aXbx", "x", "_", "i") == "a_b_"
    assert replace(CONTEXT, "baac", "a*", "-", "c") == "baac"  # as in MariaDB, an empty match ends it
    assert replace(CONTEXT, "a", "a", "\\x", "c") == "x"
    assert found(CONTEXT, "héllo", "l+", "c") == "ll"
    assert found(CONTEXT, "abc", "z", "c") is None
    assert patterns.regexp_instr(CONTEXT, "日本語", "本", "c") == 2
    with pytest.raises(UnsupportedSql):
        found(CONTEXT, "ab\n", "b$", "c")


@pytest.mark.parametrize(
    ("text", "pattern", "any_case", "exact"),
    [("a%b", "a!%b", 1, 1), ("axb", "a!%b", 0, 0), ("ab!", "ab!", 1, 1), ("a\n\nb", "a__b", 1, 1), ("A", "a", 1, 0),
     ("", "%", 1, 1), ("", "", 1, 1), ("ab", "%%b", 1, 1), ("a.b", "a.b", 1, 1), ("axb", "a.b", 0, 0), ("(", "(", 1, 1),
     ("\\", "\\", 1, 1)],
)  # fmt: skip
def test_like(text: str, pattern: str, any_case: int, exact: int) -> None:
    assert patterns.like(CONTEXT, text, pattern, "!", 0) == any_case
    assert patterns.like(CONTEXT, text, pattern, "!", 1) == exact


def test_time_grows_with_the_text_alone() -> None:
    text = "a" * 100_000 + "!"
    began = time.monotonic()
    assert patterns.regexp_like(CONTEXT, text, "^(a+)+$", "c") == 0
    assert patterns.regexp_like(CONTEXT, text, "(a|aa)+$", "c") == 0
    assert patterns.like(CONTEXT, text, "%a" * 50 + "%b", "!", 1) == 0
    assert time.monotonic() - began < scaled(10)


def test_a_text_too_long_for_its_pattern_is_refused() -> None:
    with pytest.raises(SqlError) as refused:
        patterns.regexp_like(CONTEXT, "a" * 3_000_000, "(a?){900}b", "c")
    assert refused.value.errno == 3699

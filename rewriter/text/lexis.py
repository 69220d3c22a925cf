"""The lexis of MySQL as far as raw client bytes need it: comments, names, the leading verb, where statements end.

Rules: bytes in, no decoding, ASCII words only, so it works whatever the client's charset. Every pattern is linear in
the text (possessive runs; searches that start anywhere skip short comments only), because the text is a client's and
this runs on the event loop. Executable comments (`/*! ... */`) count as their content.
"""

from __future__ import annotations

import re

from rewriter.text.long_text import LONG_TEXT, semicolons

_STATEMENTS_MAX = 10_000  # pieces of one text; a text of empty statements must not block the loop for seconds

_BLOCK_COMMENT = rb"/\*(?!M?!)(?>(?:[^*]++|\*(?!/))*)(?:\*/|\Z)"
_LINE_COMMENT = rb"(?:#|--(?=[\x00-\x20]|\Z))[^\n]*+"
_EXECUTABLE_MARKS = rb"/\*M?!\d*+|\*/"
_SPACES = _LINE_COMMENT + rb"|" + _BLOCK_COMMENT + rb"|" + _EXECUTABLE_MARKS

SPACE = rb"(?>(?:[\s\x00]++|" + _SPACES + rb")*)"
"""Anything that may be between two tokens. Only for anchored patterns: a comment may be long."""

# 255: longer than any comment a person writes between two words; bounded because a search restarts inside comments.
_SHORT_COMMENT = rb"/\*(?>(?:[^*]|\*(?!/)){0,255})\*/|(?:#|--[\x00-\x20])[^\n]{0,255}+\n"
GAP = rb"(?>(?:[\s\x00]++|" + _SHORT_COMMENT + rb"){1,8})"
"""What may be between two words in patterns that are searched for."""

MAYBE_GAP = rb"(?>(?:[\s\x00]++|" + _SHORT_COMMENT + rb"){0,8})"

WORD_END = rb"(?![\w$\x80-\xff])"
IDENTIFIER = rb"(?:`(?>(?:[^`]++|``)+)`|\"(?>(?:[^\"]++|\"\")+)\"|[\w$\x80-\xff]++)"
QUALIFIED = rb"(" + IDENTIFIER + rb")(?>(?:" + SPACE + rb"\." + SPACE + rb"(" + IDENTIFIER + rb"))?)"
"""A table name in two groups: the name alone, or database and name."""

WORDS = re.compile(rb"[\w$\x80-\xff]++")

_LEADING = re.compile(rb"(?>(?:[\s\x00(]++|" + _SPACES + rb")*)(?>([A-Za-z_]++)?)")
_EMPTY = re.compile(SPACE)
_SEPARATORS = re.compile(rb"[;\s]*+")


def _phrase(*words: bytes) -> bytes:
    return b"".join(word + SPACE for word in words)


# Statements whose body may hold `;` of its own: stored programs, blocks, labels. And what is behind a space of latin1.
_WHO = rb"(?>(?:'[^']*+')+|`[^`]*+`|\"[^\"]*+\"|[\w.$\x80-\xff]++)" + SPACE
_DEFINER = rb"(?>(?:" + _phrase(b"DEFINER", b"=") + _WHO + rb"(?:" + _phrase(b"[(]", b"[)]") + rb"|@" + _WHO + rb")?)?)"
_COMPOUND = re.compile(
    rb"(?:" + _phrase(b"CREATE") + rb"(?>(?:" + _phrase(b"OR", b"REPLACE") + rb")?)" + _DEFINER
    + rb"(?>(?:" + _phrase(b"AGGREGATE") + rb")?)(?:PROCEDURE|FUNCTION|TRIGGER|EVENT|PACKAGE)"
    rb"|" + _phrase(b"ALTER") + _DEFINER + rb"EVENT"
    rb"|BEGIN" + WORD_END + SPACE + rb"(?!WORK\b)[\w\x80-\xff]++|IF|CASE|LOOP|WHILE|REPEAT|FOR|DECLARE)" + WORD_END
    + rb"|[\w$]*+(?:[\x80-\xff]|" + SPACE + rb":(?!=))",
    re.IGNORECASE,
)  # fmt: skip

_BACKSLASH_STRINGS = rb"'(?>(?:[^'\\]++|\\(?:.|\Z)|'')*)(?:'|\Z)|\"(?>(?:[^\"\\]++|\\(?:.|\Z)|\"\")*)(?:\"|\Z)"
_PLAIN_STRINGS = rb"'(?>(?:[^']++|'')*)(?:'|\Z)|\"(?>(?:[^\"]++|\"\")*)(?:\"|\Z)"
_REST = rb"|`[^`]*+(?:`|\Z)|" + _LINE_COMMENT + rb"|/\*(?>(?:[^*]++|\*(?!/))*)(?:\*/|\Z)|[^;'\"`#/\-]++|[/\-])*)"
_STATEMENT = re.compile(rb"(?>(?:" + _BACKSLASH_STRINGS + _REST, re.DOTALL)
_STATEMENT_NO_BACKSLASH = re.compile(rb"(?>(?:" + _PLAIN_STRINGS + _REST, re.DOTALL)

_QUOTED = rb"'[^'\\]*+'|\"[^\"\\]*+\"|`[^`]*+`|" + _LINE_COMMENT + rb"|" + _BLOCK_COMMENT
_FOR = rb"(?<![\w$])FOR" + WORD_END
SET_STATEMENT = re.compile(
    SPACE + rb"STATEMENT" + WORD_END + rb"(?>(?:" + _QUOTED + rb"|(?!" + _FOR + rb")[^'\"`;])*)" + _FOR, re.IGNORECASE
)
"""The text between SET and the statement that MariaDB runs with those settings. A backslash in it depends on the mode:
then it is not read."""

_MARK = rb"/\*M?!"
_UNMARKED = (
    rb"|`[^`]*+(?:`|\Z)|" + _LINE_COMMENT + rb"|" + _BLOCK_COMMENT + rb"|[^'\"`#/\-]++|(?!" + _MARK + rb")[/\-])*)"
)
_MARKED = {
    escapes: re.compile(rb"(?>(?:" + strings + _UNMARKED + _MARK, re.DOTALL)
    for escapes, strings in ((True, _BACKSLASH_STRINGS), (False, _PLAIN_STRINGS))
}
_WHOLE = re.compile(rb"\s*+" + _MARK + rb"(?>(?:[^*]++|\*(?!/))*)\*/[\s;]*+\Z")
_PLAIN_SPACE = rb"[\s\x00(]++|" + _LINE_COMMENT + rb"|" + _BLOCK_COMMENT
_HEAD = re.compile(
    rb"(?>(?:" + _PLAIN_SPACE + rb")*)(?:" + _MARK + rb"|(?:BEGIN|EXECUTE|PREPARE)" + WORD_END + rb"|SET(?>(?:"
    + _PLAIN_SPACE + rb")*)(?:STATEMENT" + WORD_END + rb"|" + _MARK + rb")|CREATE(?>(?:" + _PLAIN_SPACE
    + rb"|OR\b|REPLACE\b)*)" + _MARK + rb")", re.IGNORECASE
)  # fmt: skip

OF_STATEMENT = re.compile(SPACE + rb"(?:STATEMENT(?![\w$])|[\x80-\xff])", re.IGNORECASE)  # behind SET

_DEFINING = frozenset((b"ALTER", b"CREATE", b"DROP"))


def defines_queue(sql: bytes) -> bool:
    """Whether the statement is ALTER, CREATE or DROP of a QUEUE, TOPIC or GROUP, as it is mostly written."""
    verb, end = leading_verb(sql)
    return verb in _DEFINING and sql[end:].lstrip()[:6].upper().rstrip() in (b"QUEUE", b"TOPIC", b"GROUP")


def leading_verb(sql: bytes) -> tuple[bytes, int]:
    """The first word in upper case (empty when there is none) and where it ends; parentheses are passed over."""
    match = _LEADING.match(sql)
    assert match is not None  # every part is optional
    return (match[1] or b"").upper(), match.end()


def is_empty(sql: bytes) -> bool:
    """Whether nothing but space and comments is there."""
    return _EMPTY.fullmatch(sql) is not None


def has_executable(sql: bytes, *, backslash_escapes: bool = True) -> bool:
    """Whether an executable comment is outside strings, names and comments. A server skips those of later versions."""
    return (b"/*!" in sql or b"/*M!" in sql) and _MARKED[backslash_escapes].match(sql) is not None


def is_unread(sql: bytes, *, backslash_escapes: bool = True) -> bool:
    """Whether it may be another statement than it is read as, or several, by executable comments that the server skips
    or runs. One that is all of the text is no such: skipped, it leaves nothing."""
    marked = has_executable(sql, backslash_escapes=backslash_escapes) and _WHOLE.match(sql) is None
    return marked and (_HEAD.match(sql) is not None or b";" in sql.rstrip(b"; \r\n"))


def is_compound(sql: bytes) -> bool:
    """Whether the statement's body may hold `;` of its own, so that it reaches to the end of the text."""
    return _is_compound(sql, 0)


def _is_compound(sql: bytes, start: int) -> bool:
    leading = _LEADING.match(sql, start)
    if leading is not None and (leading[1] or b"").upper() == b"SET":
        settings = SET_STATEMENT.match(sql, leading.end(1))
        leading = leading if settings is None else _LEADING.match(sql, settings.end())
    return leading is not None and _COMPOUND.match(sql, leading.end() - len(leading[1] or b"")) is not None


def split_statements(sql: bytes, *, backslash_escapes: bool = True) -> list[bytes]:
    """The statements of a text, split at `;` outside strings, names and comments; empty ones dropped.

    A single statement is returned as it is, its `;` included. `backslash_escapes` is false while the session's
    sql_mode has NO_BACKSLASH_ESCAPES. The body of a stored program is never split: it reaches to the end of the
    text. Beyond _STATEMENTS_MAX pieces the rest stays one piece.
    """
    if b";" not in sql:
        return [] if is_empty(sql) else [sql]
    pattern = _STATEMENT if backslash_escapes else _STATEMENT_NO_BACKSLASH
    long = sql.decode("latin-1") if len(sql) > LONG_TEXT else None
    parts: list[bytes] = []
    start = _after_separators(sql, 0)
    while start < len(sql):
        if len(parts) >= _STATEMENTS_MAX or _is_compound(sql, start):
            end = len(sql)
        elif long is not None:
            end = semicolons(long, start, escapes=backslash_escapes)
        else:
            match = pattern.match(sql, start)
            assert match is not None  # every part is optional
            end = match.end()
        part = sql[start:end]
        if not is_empty(part):
            parts.append(part)
        start = _after_separators(sql, end)
    return [sql] if len(parts) == 1 else parts


def _after_separators(sql: bytes, position: int) -> int:
    match = _SEPARATORS.match(sql, position)
    assert match is not None  # matches the empty string
    return match.end()


def unquote(name: bytes) -> bytes:
    """A name as written, without its quotes."""
    quote = name[:1]
    return name[1:-1].replace(quote * 2, quote) if quote in (b"`", b'"') else name

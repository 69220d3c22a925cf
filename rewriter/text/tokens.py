"""A cursor over the tokens of one statement. The only place of the queue grammar that knows sqlglot.

sqlglot's MySQL tokenizer finds the tokens; here they become few kinds with exact places in the text, so that whatever
the grammar carries over (column definitions, conditions) is a slice of what the user wrote, never regenerated.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, NamedTuple

from sqlglot import TokenType
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import TokenError

from rewriter.errors import SqlSyntaxError, UnsupportedSql

# A NUL in a text ends it for MySQL and MariaDB. Each runs to the end where it is not closed: nothing is read twice.
_QUOTED_OR_COMMENT = re.compile(
    r"'(?>(?:[^'\\]++|\\.|'')*)(?:'|\\?\Z)"
    r'|"(?>(?:[^"\\]++|\\.|"")*)(?:"|\\?\Z)'
    r"|`[^`]*+(?:`|\Z)"
    r"|/\*.*?(?:\*/|\Z)"
    r"|(?:\#|--(?=[\x00-\x20]))[^\n]*+",
    re.DOTALL,
)
_END = "\0 \t\r\n\f\v;"


def cut_at_nul(sql: str) -> tuple[str, int | None]:
    """The text without NULs at its end, and the position of another one outside of strings, names and comments; None
    where there is none."""
    if "\0" not in sql:
        return sql, None
    sql = sql.rstrip(_END)
    at = _QUOTED_OR_COMMENT.sub(lambda match: "x" * len(match[0]), sql).find("\0")
    return sql, None if at < 0 else at


_NEAR_MAX = 80  # characters of the text that a syntax error quotes, as MySQL does


class Kind(Enum):
    """WORD: bare name or keyword. NAME: quoted name. BYTES: hex literals. OTHER: bit and national literals, hints."""

    WORD = "word"
    NAME = "name"
    STRING = "string"
    BYTES = "bytes"
    NUMBER = "number"
    PARAMETER = "parameter"
    SYMBOL = "symbol"
    OTHER = "other"


class Token(NamedTuple):
    """A piece of the text (a named tuple, for a statement makes dozens of them).

    `text` is as written; `word` is its upper case if it is a bare word, else empty; `end` is exclusive.
    """

    kind: Kind
    text: str
    word: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Name:
    """A possibly qualified name, quotes removed. `group`: of a topic, the consumer group that is meant."""

    database: str | None
    table: str
    group: str | None = None


_KINDS = {
    TokenType.IDENTIFIER: Kind.NAME,
    TokenType.STRING: Kind.STRING,
    TokenType.NUMBER: Kind.NUMBER,
    TokenType.PLACEHOLDER: Kind.PARAMETER,
    TokenType.HEX_STRING: Kind.BYTES,
    TokenType.BIT_STRING: Kind.OTHER,
    TokenType.NATIONAL_STRING: Kind.OTHER,
    TokenType.HINT: Kind.OTHER,
}


def word_set(words: str) -> frozenset[str]:
    """A set of keywords, written as a line of them."""
    return frozenset(words.split())


_OPERATORS = word_set("<= >= <> != <=> << >> && || := -> ->> @@")
_PIECE = re.compile(r"([\w$]+)|[^\w$\s\0]+")


class _Tokenizer(MySQL.Tokenizer):
    """Knows MySQL's operators and no keyword: a new release of sqlglot gives no word of queuegate a new meaning. EQ for
    all of them: behind a PARAMETER it reads 2.5 as three tokens."""

    KEYWORDS: ClassVar = dict.fromkeys(_OPERATORS, TokenType.EQ) | {"/*+": TokenType.HINT}


_MYSQL = MySQL()
_NO_BACKSLASH = "A backslash in a queue statement is not supported with sql_mode NO_BACKSLASH_ESCAPES"
_STAND_INS = range(0xE000, 0xF900)  # for a backslash that escapes nothing: characters of no script, and of no syntax


def tokenize(sql: str, sql_modes: Collection[str] = (), *, plain_backslashes: bool = False) -> list[Token]:
    """The tokens of a text, comments left out.

    `plain_backslashes`: under NO_BACKSLASH_ESCAPES a string may hold some; its token's text has each twice, so that it
    is read as everywhere else. A caller that copies a slice of the text copies it as it was written.

    Raises:
        SqlSyntaxError: a string, name or comment does not end.
        UnsupportedSql: the text can only be read by rules that the tokenizer does not have; executable comments.
    """
    plain = "NO_BACKSLASH_ESCAPES" in sql_modes and "\\" in sql
    stand_in = next((each for each in map(chr, _STAND_INS) if each not in sql), "") if plain_backslashes else ""
    if plain and not stand_in:
        raise UnsupportedSql(_NO_BACKSLASH)
    readable, nul = cut_at_nul(sql.replace("\\", stand_in) if plain else sql)
    sql = sql[: len(readable)]
    if nul is not None:
        raise syntax_error(sql, nul, "a NUL ends a statement, and something comes after it")
    try:
        raw = _Tokenizer(_MYSQL).tokenize(readable)  # one for each text: long ones are read in threads
    except TokenError as error:
        raise syntax_error(sql, 0, "a string, a quoted name or a comment does not end") from error
    ansi_quotes = "ANSI_QUOTES" in sql_modes or "ANSI" in sql_modes
    tokens: list[Token] = []
    for token in raw:
        # To a server they are a part of the statement; here they would be left out of it.
        if any(comment.startswith(("!", "M!")) for comment in token.comments):
            raise UnsupportedSql("Executable comments (/*! ... */) are not supported inside queue statements")
        kind = _KINDS.get(token.token_type)
        start, end = token.start, token.end + 1
        text = sql[start:end]
        if plain and kind is Kind.STRING:
            text = text.replace("\\", "\\\\")
        if kind is None or (kind is Kind.NAME and text[0] != "`"):  # 0bar, which sqlglot takes for bits that fail
            tokens.extend(_words_or_symbol(text, start))
        elif kind is Kind.STRING and ansi_quotes and text[:1] == '"':
            tokens.append(Token(Kind.NAME, text, "", start, end))
        elif kind is Kind.NUMBER and _is_fraction(tokens, start):
            point = tokens.pop()
            tokens.append(Token(kind, point.text + text, "", point.start, end))
        elif token.token_type is not TokenType.HINT:
            tokens.append(Token(kind, text, "", start, end))
    return tokens


def _is_fraction(tokens: list[Token], start: int) -> bool:
    """Whether the number at `start` follows a point that begins it: `.5`, which sqlglot reads as two tokens."""
    if not tokens or tokens[-1].text != "." or tokens[-1].end != start:
        return False
    return len(tokens) == 1 or tokens[-2].end < tokens[-1].start or tokens[-2].text in ("(", ",", "=", "-", "+")


def _words_or_symbol(text: str, start: int) -> list[Token]:
    """sqlglot takes characters for part of a word that MySQL has in none; they are symbols that no statement knows."""
    if text.isidentifier():
        return [Token(Kind.WORD, text, text.upper(), start, start + len(text))]
    pieces = list(_PIECE.finditer(text))
    if not pieces:
        return [Token(Kind.SYMBOL, text, "", start, start + len(text))]
    kinds = (Kind.SYMBOL, Kind.WORD)
    return [Token(kinds[bool(m[1])], m[0], (m[1] or "").upper(), start + m.start(), start + m.end()) for m in pieces]


def syntax_error(sql: str, position: int, hint: str = "") -> SqlSyntaxError:
    """MySQL's own words for a fault at `position`."""
    near, line = sql[position : position + _NEAR_MAX], sql.count("\n", 0, position) + 1
    text = (
        "You have an error in your SQL syntax; check the queuegate manual for the right syntax to use "
        f"near '{near}' at line {line}"
    )
    return SqlSyntaxError(f"{text} ({hint})" if hint else text)


_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPE = re.compile(r"\\(.)|''|\"\"", re.DOTALL)


def string_value(literal: str) -> str:
    """The value of a string literal by MySQL's rules (`\\%` and `\\_` keep their backslash, for LIKE)."""
    quote = literal[0]

    def value(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped is None:
            return quote if match[0] == quote * 2 else match[0]
        return _ESCAPES.get(escaped, escaped)

    return _ESCAPE.sub(value, literal[1:-1])


def bytes_value(literal: str) -> bytes:
    """Of X'..', or of 0x.., which may have an odd number of digits."""
    digits = literal[2:].rstrip("'")
    try:
        return bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")
    except ValueError:
        raise UnsupportedSql(f"{literal} is no number of hexadecimal digits") from None


def token_text(token: Token) -> str:
    """The text of a string, or of bytes, where those that are no character become surrogates; else as it is written."""
    if token.kind is Kind.BYTES:
        return bytes_value(token.text).decode("utf-8", "surrogateescape")
    return string_value(token.text) if token.kind is Kind.STRING else token.text


class TokenCursor:
    """Reads tokens one by one: `take_*` reads or raises a syntax error, `accept_*` reads or changes nothing."""

    def __init__(
        self, sql: str, sql_modes: Collection[str] = (), start: int = 0, *, plain_backslashes: bool = False
    ) -> None:
        self.sql = sql
        self.sql_modes = sql_modes
        self.tokens = tokenize(sql, sql_modes, plain_backslashes=plain_backslashes)
        self.position = start

    @property
    def token(self) -> Token | None:
        """The token to be read next; None at the end."""
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    @property
    def word(self) -> str:
        return self.peek_word(0)

    def peek(self, ahead: int) -> Token | None:
        place = self.position + ahead
        return self.tokens[place] if place < len(self.tokens) else None

    def peek_word(self, ahead: int) -> str:
        place = self.position + ahead
        return self.tokens[place].word if place < len(self.tokens) else ""

    def error(self, hint: str = "") -> SqlSyntaxError:
        token = self.token
        return syntax_error(self.sql, token.start if token else len(self.sql), hint)

    def refuse_backslash(self, text: str) -> None:
        """In a part that the database gets as it is written, while others are read here, in each by its own rules."""
        if "\\" in text and "NO_BACKSLASH_ESCAPES" in self.sql_modes:
            raise UnsupportedSql(_NO_BACKSLASH)

    def take(self) -> Token:
        token = self.token
        if token is None:
            raise self.error()
        self.position += 1
        return token

    def accept_words(self, *words: str) -> bool:
        """All of these words in a row, or none."""
        if any(self.peek_word(i) != word for i, word in enumerate(words)):
            return False
        self.position += len(words)
        return True

    def take_words(self, *words: str) -> None:
        for word in words:
            if not self.accept_words(word):
                raise self.error()

    def at_symbol(self, symbol: str) -> bool:
        token = self.token
        return token is not None and token.kind is Kind.SYMBOL and token.text == symbol

    def accept_symbol(self, symbol: str) -> bool:
        if self.at_symbol(symbol):
            self.position += 1
            return True
        return False

    def take_symbol(self, symbol: str, hint: str = "") -> None:
        if not self.accept_symbol(symbol):
            raise self.error(hint)

    def accept_kind(self, kind: Kind) -> Token | None:
        token = self.token
        if token is None or token.kind is not kind:
            return None
        self.position += 1
        return token

    def take_identifier(self) -> str:
        token = self.token
        if token is None or token.kind not in (Kind.WORD, Kind.NAME):
            raise self.error()
        self.position += 1
        return identifier_value(token)

    def take_name(self) -> Name:
        """`table` or `database.table`."""
        first = self.take_identifier()
        if self.accept_symbol("."):
            return Name(first, self.take_identifier())
        return Name(None, first)

    def take_end(self, hint: str = "") -> None:
        """Nothing but `;` may follow."""
        while self.accept_symbol(";"):
            pass
        if self.token is not None:
            raise self.error(hint)

    def slice(self, first: int, last: int) -> str:
        """The text from token `first` up to, not including, token `last`; carried to the database as written."""
        return "" if first >= last else self.sql[self.tokens[first].start : self.tokens[last - 1].end]


def identifier_value(token: Token) -> str:
    """The name that a WORD or NAME token means."""
    if token.kind is Kind.NAME:
        quote = token.text[0]
        return token.text[1:-1].replace(quote * 2, quote)
    return token.text

"""The condition of a stream: SELECT ... FROM STREAM q WHERE condition, from tokens to text for the database.

Only the database evaluates it; here it is only made safe and plain. Every word must be a column of the queue, an
operator, or a function of the white list (rewriter.grammar.condition_words), so it depends on the row alone: not on the
current time, not on other rows, not on what an account may not read. The order of the words stays as it was written:
the server decides about precedence, by the client's own sql_mode. Only the parts whose meaning depends on a session's
settings are rewritten: names in back-quotes, strings in single quotes with backslash escapes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from engine.model.errors import UnknownColumn
from engine.model.queue import QueueSpec, TopicSpec, quoted
from rewriter.errors import SqlSyntaxError, StreamIsNoTable, UnsupportedSql
from rewriter.grammar.condition_words import (
    AGGREGATES,
    CHARSET_WORDS,
    CLAUSE_FUNCTIONS,
    FUNCTIONS,
    MOMENTS,
    NEED_ARGUMENT,
    OPERATORS,
    SUBQUERIES,
    SYMBOLS,
    TYPES,
    UNITS,
)
from rewriter.plan import StreamFilter
from rewriter.text.literals import string_literal
from rewriter.text.tokens import Kind, Token, identifier_value, string_value

CONDITION_MAX = 64 * 1024
"""Characters of a condition: it is sent with every poll of its stream."""

_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_BYTES = re.compile(r"[xX]'(?:[0-9a-fA-F]{2})*'|0x[0-9a-fA-F]+|[bB]'[01]*'|0b[01]+", re.ASCII)
_PLAIN = re.compile(r"\w+", re.ASCII)
_DATES = frozenset(("DATE", "TIME", "TIMESTAMP"))  # with a string after them, literals
_HINT = "put what it works out into a generated column of the queue, and name that"
_PLACE = "\x00"  # where the value of a `?` goes


@dataclass(slots=True)
class _Frame:
    """An open parenthesis: of which function, if of one; CASEs and INTERVALs in it that have not ended; whether what
    follows is a type or a charset."""

    function: str = ""
    cases: int = 0
    interval: bool = False
    naming: bool = False


def stream_filter(
    tokens: Sequence[Token], text: str, spec: QueueSpec | TopicSpec, modes: Collection[str]
) -> StreamFilter:
    """The condition as SQL of the database.

    Raises:
        UnsupportedSql: something that is not of the row alone, or not on the white list.
        StreamIsNoTable: no column at all, as in WHERE 1 = 0, and not plainly true either.
        UnknownColumn: a name.
        SqlSyntaxError: parentheses that do not match.
    """
    if len(text) > CONDITION_MAX:
        raise UnsupportedSql(f"A stream's WHERE of {len(text)} characters is not supported; at most {CONDITION_MAX}")
    if any("\ud800" <= character <= "\udfff" or character == "\x00" for character in text):
        raise UnsupportedSql(
            "A stream's WHERE with bytes that are no characters is not supported; write them as x'...'"
        )
    raw = "NO_BACKSLASH_ESCAPES" in modes
    reader = _Reader(tokens, spec, raw, write_escape=raw)
    parts = reader.parts()
    if not reader.has_column and not _plainly_true(tokens):
        raise StreamIsNoTable
    # In that mode ESCAPE '' is an error, and it is the default anyway.
    return StreamFilter(parts, text, _Reader(tokens, spec, raw, escapes=False).parts() if raw else None)


def _plainly_true(tokens: Sequence[Token]) -> bool:
    """TRUE, 1 and 1 = 1, which programs write where they have no condition. Others without a column are probes."""
    words = [token.text.upper() for token in tokens if token.text not in ("(", ")")]
    if len(words) != 3:
        return words in (["TRUE"], ["1"])
    left, operator, right = words
    return operator == "=" and left == right and left not in ("NULL", "?")


@dataclass(slots=True)
class _Reader:
    """Reads the tokens one after the other; `out` is what has been written of them."""

    tokens: Sequence[Token]
    spec: QueueSpec | TopicSpec
    raw_strings: bool
    write_escape: bool = False
    escapes: bool = True
    position: int = 0
    out: list[str] = field(default_factory=list)
    frames: list[_Frame] = field(default_factory=lambda: [_Frame()])
    like_pending: int = 0
    has_column: bool = False
    """Whether a column has been named."""

    @property
    def frame(self) -> _Frame:
        return self.frames[-1]

    def parts(self) -> tuple[str, ...]:
        """The text, cut where values go."""
        return tuple(self._read().split(_PLACE))

    def _read(self) -> str:
        while self.position < len(self.tokens):
            self._token(self.tokens[self.position])
            self.position += 1
        if len(self.frames) > 1:
            raise SqlSyntaxError("You have an error in your SQL syntax: a parenthesis in the WHERE of a stream is open")
        self._end_like()
        return " ".join(self.out)

    def _peek(self, ahead: int = 1) -> Token | None:
        place = self.position + ahead
        return self.tokens[place] if 0 <= place < len(self.tokens) else None

    def _is_symbol(self, ahead: int, text: str) -> bool:
        token = self._peek(ahead)
        return token is not None and token.kind is Kind.SYMBOL and token.text == text

    def _token(self, token: Token) -> None:
        match token.kind:
            case Kind.STRING:
                self.out.append(self._string(token))
            case Kind.NUMBER if _NUMBER.fullmatch(token.text):
                self.out.append(token.text)
            case Kind.BYTES | Kind.OTHER if _BYTES.fullmatch(token.text):
                self.out.append(token.text)
            case Kind.PARAMETER:
                self.out.append(_PLACE)
            case Kind.NAME:
                self._column()
            case Kind.SYMBOL:
                self._symbol(token)
            case Kind.WORD:
                self._word(token)
            case _:
                raise _unsupported(token.text)

    def _string(self, token: Token) -> str:
        """A string as a literal; whether backslashes escape in it depends on the session."""
        value = string_value(token.text)
        if _PLACE in value:
            raise UnsupportedSql("A string with a zero byte in a stream's WHERE is not supported; write it as x'...'")
        return string_literal(value, backslash_escapes=self.escapes)

    # --- symbols

    def _symbol(self, token: Token) -> None:
        text = token.text
        if text == "(":
            self.frames.append(_Frame())
        elif text == ")":
            self._end_like()
            self.frames.pop()
            if not self.frames:
                raise SqlSyntaxError("You have an error in your SQL syntax near ')' in the WHERE of a stream")
        elif text == ",":
            self._end_like()
            # CONVERT(value, type)
            self.frame.naming = self.frame.function == "CONVERT"
        elif text == "." and (digits := self._peek()) is not None and digits.text.isdecimal():
            self.position += 1
            text = f".{digits.text}"
        elif text.startswith("@") or text == ":=":
            raise UnsupportedSql("Variables in a stream's WHERE are not supported; write the value, or bind it with ?")
        elif text not in SYMBOLS:
            raise _unsupported(text)
        elif self._pattern_ends(text):
            self._end_like()
        self.out.append(text)

    def _pattern_ends(self, operator: str) -> bool:
        """Whether what LIKE takes ends before this operator."""
        if not self.raw_strings or self.like_pending != len(self.frames):
            return False
        if operator == "||":
            raise UnsupportedSql("LIKE before || is not supported with NO_BACKSLASH_ESCAPES; use parentheses")
        before = self._peek(-1)
        return before is not None and before.word != "LIKE"

    def _end_like(self) -> None:
        """With NO_BACKSLASH_ESCAPES a LIKE has no escape character; where backslashes escape, that has to be
        written."""
        if self.write_escape and self.like_pending == len(self.frames):
            self.out.append("ESCAPE ''")
            self.like_pending = 0

    # --- words

    def _word(self, token: Token) -> None:
        word, following = token.word, self._peek()
        if self._is_symbol(1, "(") and word not in OPERATORS and not self.frame.naming:
            self._function(token)
        elif self._is_symbol(1, ".") and word not in OPERATORS and not self.frame.naming:
            self._column()
        elif word in _DATES and following is not None and following.kind is Kind.STRING:
            self.out.append(word)
        elif self._keyword(word):
            self._operator(word)
        elif self.frame.naming:
            self._name_of_type(token)
        elif self._is_unit(word):
            self.frame.interval = False
            self.out.append(word)
        else:
            self._bare(token)

    def _bare(self, token: Token) -> None:
        word = token.word
        if word.startswith("_") and (following := self._peek()) and following.kind in (Kind.STRING, Kind.BYTES):
            raise UnsupportedSql(f"{token.text}'...' in a stream's WHERE is not supported; write the text itself")
        if self.spec.column(token.text) is None:
            if word in SUBQUERIES:
                raise UnsupportedSql("A subquery in a stream's WHERE is not supported; name columns of the queue")
            if word in MOMENTS:
                raise _moment(word)
        self._column()

    def _function(self, token: Token) -> None:
        word = token.word
        if word in SUBQUERIES:
            raise UnsupportedSql("A subquery in a stream's WHERE is not supported; name columns of the queue")
        if word in AGGREGATES:
            raise UnsupportedSql(f"{word}() in a stream's WHERE is not supported; a stream knows one message at a time")
        if word in MOMENTS or (word in NEED_ARGUMENT and self._is_symbol(2, ")")):
            raise _moment(word)
        if word not in FUNCTIONS:
            raise UnsupportedSql(f"{token.text}() in a stream's WHERE is not supported; {_HINT}")
        self.out.append(f"{word}(")
        self.frames.append(_Frame(word))
        self.position += 1
        first = self._peek()
        if word in ("TIMESTAMPDIFF", "TIMESTAMPADD", "EXTRACT") and first is not None and first.word in UNITS:
            self.out.append(first.word)
            self.position += 1

    def _keyword(self, word: str) -> bool:
        """Whether the word is an operator here. Words that are not reserved may be columns elsewhere."""
        frame = self.frame
        if word in CLAUSE_FUNCTIONS:
            return frame.function in CLAUSE_FUNCTIONS[word]
        if word == "END":
            return frame.cases > 0
        if word == "ESCAPE":
            return self.like_pending == len(self.frames)
        if word == "UNKNOWN":
            before = self._peek(-1)
            return before is not None and before.word in ("IS", "NOT")
        return word in OPERATORS and not (word == "BINARY" and frame.naming)

    def _operator(self, word: str) -> None:
        frame = self.frame
        if word == "CASE":
            frame.cases += 1
        elif word == "END":
            frame.cases -= 1
        elif word == "INTERVAL":
            frame.interval = True
        elif word in ("AS", "USING", "COLLATE"):
            frame.naming = True
        if word in ("AND", "OR", "XOR", "THEN", "WHEN", "ELSE", "END"):
            self._end_like()
        if word == "LIKE":
            self.like_pending = len(self.frames)
        elif word == "ESCAPE":
            self.like_pending = 0
        self.out.append(word)

    def _name_of_type(self, token: Token) -> None:
        """A type in CAST and CONVERT, a character set after USING, a collation after COLLATE."""
        before = self._peek(-1)
        previous = "" if before is None else before.word
        if previous in ("USING", "COLLATE", "SET", "CHARSET") and _PLAIN.fullmatch(token.text):
            self.out.append(token.text)
            self.frame.naming = previous != "COLLATE"
        elif token.word in TYPES or token.word in CHARSET_WORDS:
            self.out.append(token.word)
            if self._is_symbol(1, "("):
                self._sizes()
        else:
            raise _unsupported(token.text)

    def _sizes(self) -> None:
        """`(10)` or `(10, 2)` after a type."""
        self.position += 1
        self.out.append("(")
        while not self._is_symbol(1, ")"):
            self.position += 1
            token = self._peek(0)
            if token is None or not (token.text.isdecimal() or token.text == ","):
                raise _unsupported("this type")
            self.out.append(token.text)
        self.position += 1
        self.out.append(")")

    def _is_unit(self, word: str) -> bool:
        """After INTERVAL and its operand."""
        before = self._peek(-1)
        if not self.frame.interval or word not in UNITS or before is None or before.word == "INTERVAL":
            return False
        return before.kind is not Kind.SYMBOL or before.text == ")"

    # --- columns

    def _column(self) -> None:
        """A column, perhaps qualified, and perhaps with -> or ->> and a path after it."""
        parts: list[str] = []
        while True:
            token = self._peek(0)
            if token is None or token.kind not in (Kind.WORD, Kind.NAME):
                raise SqlSyntaxError("You have an error in your SQL syntax: a name is needed in the WHERE of a stream")
            parts.append(identifier_value(token))
            if not self._is_symbol(1, "."):
                break
            self.position += 2
        if self._is_symbol(1, "("):
            raise UnsupportedSql(f"{'.'.join(parts)}() in a stream's WHERE is not supported; {_HINT}")
        column = self.spec.column(parts[-1])
        own = tuple(part.lower() for part in (self.spec.name.database, self.spec.name.table))
        qualifier = tuple(part.lower() for part in parts[:-1])
        if column is None or (qualifier and qualifier != own[-len(qualifier) :]) or len(qualifier) > len(own):
            raise UnknownColumn(f"Unknown column '{'.'.join(parts)}' in 'where clause'")
        self.has_column = True
        self._path(quoted(column.name))

    def _path(self, column: str) -> None:
        """MariaDB has no arrows, and MySQL defines them by these functions."""
        arrow, path = self._peek(1), self._peek(2)
        if arrow is None or arrow.kind is not Kind.SYMBOL or arrow.text not in ("->", "->>"):
            self.out.append(column)
            return
        if path is None or path.kind is not Kind.STRING:
            raise UnsupportedSql(f"{arrow.text} takes a path in quotes; for others there is JSON_EXTRACT()")
        extract = f"JSON_EXTRACT({column}, {self._string(path)})"
        self.out.append(extract if arrow.text == "->" else f"JSON_UNQUOTE({extract})")
        self.position += 2


def _unsupported(text: str) -> UnsupportedSql:
    return UnsupportedSql(f"'{text}' in a stream's WHERE is not supported; {_HINT}")


def _moment(word: str) -> UnsupportedSql:
    return UnsupportedSql(
        f"{word} in a stream's WHERE is not supported, for it does not depend on the message alone; "
        "bind the value with ?, or use time_scheduled for messages of the future"
    )

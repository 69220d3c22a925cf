"""Tokens of a lifted statement, for the statements that are read by hand: definitions, SET, SHOW, transactions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from embedded.compile.text.keywords import RESERVED
from embedded.compile.text.literal_lifting import END, MARK, fill_slots, slot_kinds, syntax_error

_TOKEN = re.compile(
    rf"\s*(?:(?P<slot>{MARK}[^{END}]*{END})|(?P<quoted>`(?:[^`]|``)*`)|(?P<variable>@@?[\w$.`]+)"
    r"|(?P<word>[\w$]+)|(?P<symbol>:=|<=>|<=|>=|<>|!=|.))",
    re.S,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `slot` numbers a literal, `start` and `end` are offsets in the shape."""

    kind: str
    text: str
    start: int
    end: int
    slot: int = -1

    @property
    def upper(self) -> str:
        """The word in capitals; nothing for quoted names and literals, which are never keywords."""
        return self.text.upper() if self.kind in ("word", "symbol") else ""


_END = Token("end", "", 0, 0)


class Tokens:
    """A cursor over a statement's tokens."""

    def __init__(self, shape: str, values: Sequence[Any]) -> None:
        self.shape = shape
        self.values = values
        self.kinds = slot_kinds(shape)
        self._tokens = _tokenize(shape)
        self.position = 0

    def peek(self, ahead: int = 0) -> Token:
        position = self.position + ahead
        return self._tokens[position] if position < len(self._tokens) else _END

    def next(self) -> Token:
        token = self.peek()
        self.position += 1
        return token

    @property
    def at_end(self) -> bool:
        return self.position >= len(self._tokens)

    def accept(self, *words: str) -> bool:
        """Take these words if they come next, all of them in order."""
        if all(self.peek(i).upper == word for i, word in enumerate(words)):
            self.position += len(words)
            return True
        return False

    def accept_one(self, *words: str) -> str:
        """Take one of these words if it comes next."""
        word = self.peek().upper
        if word and word in words:
            self.position += 1
            return word
        return ""

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                raise self.error()

    def finish(self) -> None:
        """Refuse anything more."""
        if not self.at_end:
            raise self.error()

    def name(self) -> str:
        """An identifier."""
        token = self.next()
        if token.kind == "quoted":
            return token.text[1:-1].replace("``", "`")
        if token.kind != "word":
            self.position -= 1
            raise self.error()
        return token.text

    def new_column(self) -> str:
        """The name of a column that is made: a keyword must be quoted."""
        if self.peek().kind == "word" and self.peek().upper in RESERVED:
            raise self.error()
        return self.name()

    def qualified_name(self) -> tuple[str | None, str]:
        """[database.]name."""
        first = self.name()
        if self.accept("."):
            return first, self.name()
        return None, first

    def string(self) -> str:
        """A string literal."""
        token = self.next()
        if token.kind != "slot" or self.kinds[token.slot] != "s":
            self.position -= 1
            raise self.error()
        return str(self.values[token.slot])

    def integer(self) -> int:
        """A whole number."""
        token = self.next()
        if token.kind != "slot" or self.kinds[token.slot] not in ("i", "u"):
            self.position -= 1
            raise self.error()
        return int(self.values[token.slot])

    def name_or_string(self) -> str:
        return self.string() if self.peek().kind == "slot" else self.name()

    def parenthesised(self) -> tuple[str, int]:
        """The text between the next parentheses: its shape, and the number of its first slot."""
        start = self.peek()
        self.expect("(")
        depth = 1
        while depth:
            if self.at_end:
                raise self.error()
            token = self.next()
            depth += (token.text == "(") - (token.text == ")") if token.kind == "symbol" else 0
        end = self._tokens[self.position - 1]
        return self.shape[start.end : end.start], self.shape.count(MARK, 0, start.end)

    def rest(self) -> tuple[str, int]:
        """The shape from here to the end, and the number of its first slot."""
        start = self.peek().start if not self.at_end else len(self.shape)
        return self.shape[start:], self.shape.count(MARK, 0, start)

    def names(self) -> tuple[str, ...]:
        """(name, name, ...)."""
        self.expect("(")
        names = [self.name()]
        while self.accept(","):
            names.append(self.name())
        self.expect(")")
        return tuple(names)

    def error(self) -> Exception:
        """1064 at the current token."""
        text, first = self.rest()
        return syntax_error(fill_slots(text, self.values[first:]))


def _tokenize(shape: str) -> list[Token]:
    tokens: list[Token] = []
    position, slot, length = 0, 0, len(shape.rstrip())
    while position < length:
        match = _TOKEN.match(shape, position)
        assert match is not None and match.lastgroup is not None
        kind = match.lastgroup
        start = match.start(kind)
        if kind == "slot":
            tokens.append(Token(kind, match[kind], start, match.end(), slot))
            slot += 1
        else:
            tokens.append(Token(kind, match[kind], start, match.end()))
        position = match.end()
    return tokens

"""Long texts, walked token by token: no single call into a pattern sees more than a bounded piece of one.

A call into a regular expression, or into `str`, holds the interpreter until it returns. So a text of megabytes is never
passed to one as a whole, but cut between tokens first. The inside of a token (a string, a quoted name, a comment) is
skipped piece by piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LONG_TEXT = 65_536
"""Characters. Shorter texts may be read whole: the dearest patterns take some milliseconds for them."""

_WINDOW = 32_768
_STRIDE = 1 << 20  # of the inside of a token without anything special, which is as fast as copying it

_CUT_BEHIND = (",", "(", ")", " OR ", " or ", " AND ", " and ")  # nothing that follows is read with what is before
_BEGINNING = re.compile(r"['\"`#]|--|/\*|(?<![\w$@.`])0x(?=[0-9a-fA-F]{64})")
_BEGINNING_MAX = 66  # characters that identify the longest beginning
_HEXADECIMAL = re.compile("[0-9a-fA-F]*+")


def _inside(quote: str, escapes: bool) -> re.Pattern[str]:
    whole = rf"[^{quote}\\]++|\\.|{quote}{quote}" if escapes else rf"[^{quote}]++|{quote}{quote}"
    return re.compile(rf"(?>(?:{whole}){{0,2000}})", re.S)


_INSIDE = {(quote, escapes): _inside(quote, escapes) for quote in "'\"`" for escapes in (True, False)}


class UnclosedToken(Exception):
    """A string, a name or a comment that begins at `start` does not end."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start


UNCUT_MAX = 4 * _WINDOW
"""Characters of a piece in which there is no place to cut."""


class NoPlaceToCut(Exception):
    """More than UNCUT_MAX characters in one piece that has no comma, parenthesis, AND or OR."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text. `token`: it is one long token, and nothing else."""

    start: int
    end: int
    token: bool = False


def token_end(text: str, start: int, *, single: bool, double: bool) -> int:
    """Where the token that begins here ends. `single`, `double`: whether backslashes escape inside of such quotes.
    Raises UnclosedToken."""
    first = text[start]
    if first == "-" and text[start + 2 : start + 3] > " ":
        return start + 2  # two minus signs
    if first in "#-":
        end = text.find("\n", start)
        return len(text) if end < 0 else end
    if first == "/":
        end = text.find("*/", start + 2)
        if end < 0:
            raise UnclosedToken(start)
        return end + 2
    if first == "0":
        return _hexadecimal_end(text, start + len("0x"))
    inside = _INSIDE[first, single if first == "'" else double and first == '"']
    position = start + 1
    while True:
        match = inside.match(text, position, position + _STRIDE)
        assert match is not None  # matches the empty string
        if match.end() == position:
            if text[position : position + 1] != first:
                if text[position : position + 1] == "\\" and position + 1 < len(text):
                    position += 2
                    continue
                raise UnclosedToken(start)
            if text[position + 1 : position + 2] != first:
                return position + 1
            position += 2
        else:
            position = match.end()


def _hexadecimal_end(text: str, position: int) -> int:
    while True:
        match = _HEXADECIMAL.match(text, position, position + _STRIDE)
        assert match is not None  # matches the empty string
        if match.end() == position:
            return position
        position = match.end()


def pieces(text: str, *, single: bool, double: bool) -> Iterator[Piece]:
    """The text in pieces of bounded length, cut after commas, parentheses, AND and OR; long tokens by themselves.

    Raises UnclosedToken, or NoPlaceToCut.
    """
    piece_start = position = 0  # start of the current piece; how far the text is read
    cut = 0  # the last place where it may end
    while position < len(text):
        match = _BEGINNING.search(text, position, min(len(text), position + _WINDOW))
        window = min(len(text), position + _WINDOW)
        plain_end = match.start() if match else window if window == len(text) else window - _BEGINNING_MAX
        places = [place + len(m) for m in _CUT_BEHIND if (place := text.rfind(m, position, plain_end)) >= 0]
        cut = max([cut, *places])
        position = plain_end
        if match is not None:
            end = token_end(text, position, single=single, double=double)
            if end - position > _WINDOW:
                if piece_start < position:
                    yield Piece(piece_start, position)
                yield Piece(position, end, token=True)
                piece_start = cut = end
            position = end
        if position - piece_start >= _WINDOW and cut > piece_start:
            yield Piece(piece_start, cut)
            piece_start = cut
        elif position - piece_start > UNCUT_MAX:
            raise NoPlaceToCut
    if piece_start < len(text):
        yield Piece(piece_start, len(text))


def semicolons(text: str, start: int, *, escapes: bool) -> int:
    """The first `;` outside of strings, names and comments; the end of the text where there is none."""
    position = start
    while position < len(text):
        window = min(len(text), position + _WINDOW)
        end = text.find(";", position, window)
        match = _BEGINNING.search(text, position, window if end < 0 else end)
        if match is None:
            if end >= 0:
                return end
            # A part of a beginning may be there.
            position = window if window == len(text) else window - _BEGINNING_MAX
            continue
        try:
            position = token_end(text, match.start(), single=escapes, double=escapes)
        except UnclosedToken:
            return len(text)
    return len(text)

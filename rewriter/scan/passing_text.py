"""LargeText: a text too large to be held, judged statement by statement while it passes. Pure, no I/O.

Rules: bytes go in as they come, and out as soon as they are known to be of a statement that the database may have as it
stands. A statement is judged by its beginning, `HEAD_BYTES` of it, or by all of it where it is shorter; so it is held
back that long, and no longer. At the first one that may not pass everything stops: what came out so far ends with a
whole statement, and the rest is the caller's to run one by one. A statement that may pass, but whose effects cannot be
reported together with those before it because a transaction ends between them, stops it too.

Where statements end is found as in `lexical`, whose equal this is for texts that come in pieces: a token that has not
ended yet is remembered by how it began.
"""

from __future__ import annotations

import re

from rewriter.plan import NO_EFFECTS, Effects, TransactionVerb
from rewriter.scan.scanner import Concern, StatementScanner, merged
from rewriter.text.lexis import is_compound, is_empty
from rewriter.text.transaction_verbs import verb_of

HEAD_BYTES = 96 * 1024
"""Above what the scanner reads of a long statement (64 KiB), so that it takes it for the long one that it is."""

_COMMENTS = rb"(?:#|--(?=[\x00-\x20]))[^\n]*+\n|/\*(?>(?:[^*]++|\*(?!/))*)\*/"
_PLAIN = rb"`[^`]*+`|[^;'\"`#/\-]++|/(?=[^*])|-(?=[^\-])|-(?=-[^\x00-\x20])"


class _Lexis:
    """Whole tokens, and the insides of unfinished ones by how they begin, for one way to write strings."""

    def __init__(self, *, escapes: bool) -> None:
        self.tokens = _pattern(_string(b"'", escapes) + rb"|" + _string(b'"', escapes), _COMMENTS, _PLAIN)
        self.insides = {
            b"'": (_inside(b"'", escapes), b"'"),
            b'"': (_inside(b'"', escapes), b'"'),
            b"`": (re.compile(rb"[^`]*+"), b"`"),
            b"#": (re.compile(rb"[^\n]*+"), b"\n"),
            b"-": (re.compile(rb"[^\n]*+"), b"\n"),
            b"/": (_pattern(rb"[^*]++", rb"\*(?=[^/])"), b"*/"),
        }


def _pattern(*alternatives: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"(?>(?:" + rb"|".join(alternatives) + rb")*)", re.DOTALL)


def _inside(quote: bytes, escapes: bool) -> re.Pattern[bytes]:
    return _pattern(rb"[^" + quote + rb"\\]++", rb"\\.") if escapes else _pattern(rb"[^" + quote + rb"]++")


def _string(quote: bytes, escapes: bool) -> bytes:
    """A doubled quote ends one string and begins the next, which comes to the same."""
    return quote + _inside(quote, escapes).pattern + quote


_ESCAPES, _NO_ESCAPES = _Lexis(escapes=True), _Lexis(escapes=False)


class LargeText:
    """See the module. `several`: the text may hold more than one statement. `stopped`: what has not come out may not
    pass; it is in `held`."""

    def __init__(
        self, scanner: StatementScanner, database: str | None, *, several: bool, backslash_escapes: bool = True
    ) -> None:
        self.stopped = False
        self.held = bytearray()
        self.verb: TransactionVerb | None = None
        self._scanner = scanner
        self._database = database
        self._lexis = _ESCAPES if backslash_escapes else _NO_ESCAPES
        self._effects: list[Effects] = []
        self._statements = 0
        self._single = not several  # no further statement begins
        self._passing = False  # the statement under way has been judged
        self._lexed = 0  # of what is held
        self._token = b""  # how the one began that has not ended

    @property
    def effects(self) -> Effects:
        """Those of all statements that came out."""
        if not self._effects:
            return NO_EFFECTS
        return merged(self._effects) if self._statements > 1 else self._effects[0]

    def feed(self, piece: bytes, *, last: bool = False) -> bytes:
        """What may be passed on now. `last`: nothing comes after this piece."""
        self.held += piece
        out: list[bytes] = []
        while not self.stopped and self.held:
            ended = not self._single and self._lex(last)
            if not self._passing and not (ended or last or len(self.held) >= HEAD_BYTES):
                break
            if not self._passing and not self._judge(ended or last):
                self.stopped = True
                break
            ended = ended and not self._single
            out.append(self._release(ended, last))
            self._passing = not ended
            if not ended:
                break
        return b"".join(out)

    def _release(self, ended: bool, last: bool) -> bytes:
        size = len(self.held) if self._single or (last and not ended) else self._lexed + ended
        released = bytes(self.held[:size])
        del self.held[:size]
        self._lexed = 0
        return released

    # --- judging

    def _judge(self, whole: bool) -> bool:
        statement = bytes(self.held[: self._lexed] if whole and not self._single else self.held)
        if whole and is_empty(statement):
            return True
        glance = self._scanner.glance if whole else self._scanner.glance_beginning
        found = glance(statement, self._database)
        if found.concern in (Concern.PLAN, Concern.USE) or found.effects.catalog:
            return False
        verb = verb_of(statement)
        has_effects = bool(self._effects) or found.concern is Concern.TOUCHES
        if self._statements and has_effects and (self.verb or verb) is not None:
            return False
        self._statements += 1
        self.verb = self.verb or verb
        if found.concern is Concern.TOUCHES:
            self._effects.append(found.effects)
        self._single = self._single or is_compound(statement)
        return True

    # --- where a statement ends

    def _lex(self, last: bool) -> bool:
        """Go on to the next `;` outside of strings, names and comments; false if it has not come yet."""
        held = self.held
        while self._lexed < len(held):
            if self._token:
                self._lex_inside(last)
                if self._token:
                    return False
                continue
            match = self._lexis.tokens.match(held, self._lexed)
            assert match is not None  # matches the empty string
            self._lexed = match.end()
            if self._lexed == len(held):
                return False
            if held[self._lexed] == 0x3B:
                return True
            if not self._begin_token(last):
                return False
        return False

    def _begin_token(self, last: bool) -> bool:
        """Step into a token that does not end in what has come; false if it is not known yet what it is."""
        held, position = self.held, self._lexed
        first = bytes(held[position : position + 1])
        if first in b"-/" and len(held) - position < (3 if held[position : position + 2] == b"--" else 2):
            if last:
                self._lexed = len(held)
            return False
        self._token = first
        self._lexed += 2 if first in b"-/" else 1
        return True

    def _lex_inside(self, last: bool) -> None:
        inside, end = self._lexis.insides[self._token]
        match = inside.match(self.held, self._lexed)
        assert match is not None  # matches the empty string
        self._lexed = match.end()
        if self.held.startswith(end, self._lexed):
            self._lexed += len(end)
            self._token = b""
        elif last:
            self._lexed = len(self.held)

"""LargeText: a text too large to be buffered, classified statement by statement while it is forwarded. Pure, no I/O.

Rules: bytes go in as they arrive, and out as soon as they are known to belong to a statement that the database may get
unchanged. A statement is classified by its first `HEAD_BYTES`, or by all of it where it is shorter; it is buffered
until then, and no longer. Everything stops at the first statement that may not be forwarded: the output so far ends
with a complete statement, and the caller runs the rest one by one. A statement that may be forwarded also stops it
where its effects cannot be reported together with those before it, because a transaction ends between them.

The ends of statements are found as in `rewriter.text.lexis`; this is the same for texts that arrive in pieces: of a
token that has not ended yet, its first byte is remembered.
"""

from __future__ import annotations

import re

from rewriter.plan import NO_EFFECTS, Effects, TransactionVerb
from rewriter.scan.scanner import StatementClass, StatementScanner, merged, unsure
from rewriter.text.lexis import is_compound, is_empty
from rewriter.text.transaction_verbs import verb_of

HEAD_BYTES = 96 * 1024
"""More than the scanner reads of a long statement (64 KiB), so that it treats it as a long one."""

_COMMENTS = rb"(?:#|--(?=[\x00-\x20]))[^\n]*+\n|/\*(?>(?:[^*]++|\*(?!/))*)\*/"
_PLAIN = rb"`[^`]*+`|[^;'\"`#/\-]++|/(?=[^*])|-(?=[^\-])|-(?=-[^\x00-\x20])"


class _Lexis:
    """Whole tokens, and the insides of unfinished ones by how they begin, for one syntax of strings."""

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
    """A doubled quote ends one string and begins the next, which has the same effect."""
    return quote + _inside(quote, escapes).pattern + quote


_ESCAPES, _NO_ESCAPES = _Lexis(escapes=True), _Lexis(escapes=False)


class LargeText:
    """See the module. `several`: the text may contain more than one statement. `stopped`: the bytes in `buffered` may
    not be forwarded."""

    def __init__(
        self, scanner: StatementScanner, database: str | None, *, several: bool, backslash_escapes: bool = True
    ) -> None:
        self.stopped = False
        self.buffered = bytearray()
        self.verb: TransactionVerb | None = None
        self._scanner = scanner
        self._database = database
        self._escapes = backslash_escapes
        self._lexis = _ESCAPES if backslash_escapes else _NO_ESCAPES
        self._effects: list[Effects] = []
        self._statements = 0
        self._single = not several  # no further statement begins
        self._forwarding = False  # the current statement has been classified
        self._lexed = 0  # of what is buffered
        self._token = b""  # the first byte of the token that has not ended

    @property
    def effects(self) -> Effects:
        """Those of all statements that were forwarded."""
        if not self._effects:
            return NO_EFFECTS
        return merged(self._effects) if self._statements > 1 else self._effects[0]

    def feed(self, piece: bytes, *, last: bool = False) -> bytes:
        """What may be forwarded now. `last`: no piece follows this one."""
        self.buffered += piece
        out: list[bytes] = []
        while not self.stopped and self.buffered:
            ended = not self._single and self._lex(last)
            if not self._forwarding and not (ended or last or len(self.buffered) >= HEAD_BYTES):
                break
            if not self._forwarding and not self._may_forward(ended or last):
                self.stopped = True
                break
            ended = ended and not self._single
            out.append(self._release(ended, last))
            self._forwarding = not ended
            if not ended:
                break
        return b"".join(out)

    def _release(self, ended: bool, last: bool) -> bytes:
        size = len(self.buffered) if self._single or (last and not ended) else self._lexed + ended
        released = bytes(self.buffered[:size])
        del self.buffered[:size]
        self._lexed = 0
        return released

    # --- classifying

    def _may_forward(self, whole: bool) -> bool:
        statement = bytes(self.buffered[: self._lexed] if whole and not self._single else self.buffered)
        if whole and is_empty(statement):
            return True
        result = self._scanner.classify(statement, self._database, backslash_escapes=self._escapes, several=False)
        result = result if whole else unsure(result)  # the rest of it may end messages, or reschedule them
        if result.kind in (StatementClass.PLAN, StatementClass.USE) or result.effects.catalog:
            return False
        verb = self.verb or verb_of(statement, backslash_escapes=self._escapes)
        has_effects = bool(self._effects) or result.kind is StatementClass.TOUCHES
        if self._statements and has_effects and verb is not None:
            return False
        self.verb = TransactionVerb.OPAQUE if self._statements and verb is not None else verb
        self._statements += 1
        if result.kind is StatementClass.TOUCHES:
            self._effects.append(result.effects)
        self._single = self._single or is_compound(statement)
        return True

    # --- where a statement ends

    def _lex(self, last: bool) -> bool:
        """Go on to the next `;` outside of strings, names and comments; false if it has not come yet."""
        buffered = self.buffered
        while self._lexed < len(buffered):
            if self._token:
                self._lex_inside(last)
                if self._token:
                    return False
                continue
            match = self._lexis.tokens.match(buffered, self._lexed)
            assert match is not None  # matches the empty string
            self._lexed = match.end()
            if self._lexed == len(buffered):
                return False
            if buffered[self._lexed] == 0x3B:
                return True
            if not self._begin_token(last):
                return False
        return False

    def _begin_token(self, last: bool) -> bool:
        """Step into a token that does not end in what has come; false if it is not known yet what it is."""
        buffered, position = self.buffered, self._lexed
        first = bytes(buffered[position : position + 1])
        if first in b"-/" and len(buffered) - position < (3 if buffered[position : position + 2] == b"--" else 2):
            if last:
                self._lexed = len(buffered)
            return False
        self._token = first
        self._lexed += 2 if first in b"-/" else 1
        return True

    def _lex_inside(self, last: bool) -> None:
        inside, end = self._lexis.insides[self._token]
        match = inside.match(self.buffered, self._lexed)
        assert match is not None  # matches the empty string
        self._lexed = match.end()
        if self.buffered.startswith(end, self._lexed):
            self._lexed += len(end)
            self._token = b""
        elif last:
            self._lexed = len(self.buffered)

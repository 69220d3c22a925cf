"""NACK, RELEASE, RENEW, REJECT, RETRY and REDRIVE, and the verbs as functions for clients that can only SELECT or CALL.

NACK q ids | WHERE condition [DELAY duration] [REASON 'text']        RELEASE q ids | WHERE condition
RENEW q ids | WHERE condition FOR duration                           RETRY q NOW [WHERE condition]
REDRIVE q_dead [WHERE condition] [LIMIT n]
REJECT q ids | WHERE condition [REASON 'text']
queue_ack(q, id, ...)     queue_nack(q, id [, delay [, reason]])     queue_release(q, id, ...)
queue_renew(q, id, duration)     queue_reject(q, id [, reason])

Ids and conditions are those of ACK. Where a `?` is neither an id nor within a condition, the statement is planned when
its values are known (Unbound).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from engine.model.errors import InvalidOption
from engine.model.option_values import parse_duration, parse_wait
from rewriter.errors import UnsupportedSql
from rewriter.grammar.ack import skip_group, take_batch, take_condition, take_id
from rewriter.grammar.statements import Ack, QueueFunction, RedriveQueue, Retry, Settle, Statement, Unbound, Verb
from rewriter.text.tokens import Kind, Name, Token, TokenCursor, identifier_value, string_value, token_text

_REASON_AFTER = (Kind.STRING, Kind.BYTES, Kind.PARAMETER)  # drivers send a text as bytes, too
_DELAY_AFTER = (Kind.NUMBER, *_REASON_AFTER)
_VALUES_AFTER = {"DELAY": _DELAY_AFTER, "REASON": _REASON_AFTER}
_LIMIT_DIGITS_MAX = 18  # below 2^63
_SIGNATURES = {
    "QUEUE_ACK": "queue_ack('q', id, ...)",
    "QUEUE_NACK": "queue_nack('q', id [, delay [, reason]])",
    "QUEUE_REJECT": "queue_reject('q', id [, reason])",
    "QUEUE_RELEASE": "queue_release('q', id, ...)",
    "QUEUE_RENEW": "queue_renew('q', id, duration)",
}


def parse_verb(cursor: TokenCursor) -> Statement:
    """A statement that begins with one of the verbs."""
    verb = Verb(cursor.take().word.lower())
    name = cursor.take_name()
    ids: tuple[Token, ...] = ()
    condition = ""
    if cursor.accept_words("WHERE"):
        condition = take_condition(cursor, _at_clause)
        cursor.refuse_backslash(condition)
        if cursor.word in ("ORDER", "LIMIT", "RETURNING"):
            raise UnsupportedSql(
                f"{verb.name} ... {cursor.word} is not supported; {verb.name} takes ids or a condition"
            )
    else:
        ids, condition = take_batch(cursor, verb.name, _CLAUSES_OF[verb])
    return _Clauses(cursor, verb).settle(name, ids, condition)


def parse_release(cursor: TokenCursor) -> Statement | None:
    """RELEASE SAVEPOINT is ordinary SQL."""
    return None if cursor.peek_word(1) == "SAVEPOINT" else parse_verb(cursor)


def parse_retry(cursor: TokenCursor) -> Statement:
    """RETRY q NOW [WHERE condition]."""
    cursor.take_words("RETRY")
    name = cursor.take_name()
    if not cursor.accept_words("NOW"):
        raise cursor.error("RETRY q NOW [WHERE condition]")
    condition = take_condition(cursor) if cursor.accept_words("WHERE") else ""
    if cursor.word in ("ORDER", "LIMIT", "RETURNING"):
        raise UnsupportedSql(f"RETRY ... {cursor.word} is not supported; RETRY q NOW takes a condition")
    cursor.take_end()
    return Retry(name, condition)


def parse_redrive(cursor: TokenCursor) -> Statement:
    """REDRIVE q_dead [WHERE condition] [LIMIT n]."""
    cursor.take_words("REDRIVE")
    name = cursor.take_name()
    condition = take_condition(cursor) if cursor.accept_words("WHERE") else ""
    if cursor.word in ("ORDER", "RETURNING"):
        raise UnsupportedSql(f"REDRIVE ... {cursor.word} is not supported; the oldest dead letters go first")
    limit = None
    if cursor.accept_words("LIMIT") and not cursor.accept_kind(Kind.PARAMETER):
        number = cursor.accept_kind(Kind.NUMBER)
        if number is None or not number.text.isdecimal() or len(number.text) > _LIMIT_DIGITS_MAX:
            raise cursor.error("LIMIT takes a whole number")
        limit = int(number.text)
    cursor.take_end()
    bound = any(token.kind is Kind.PARAMETER for token in cursor.tokens)
    return _unbound(cursor) if bound else RedriveQueue(name, condition, limit)


# --- clauses

_CLAUSES_OF = {Verb.NACK: ("DELAY", "REASON"), Verb.REJECT: ("REASON",), Verb.RENEW: ("FOR",), Verb.RELEASE: ()}


def _at_clause(cursor: TokenCursor) -> bool:
    """Columns may be called `delay` or `reason`: a clause has a value right after the word."""
    following = cursor.peek(1)
    if following is None or cursor.word not in _VALUES_AFTER:
        return following is not None and cursor.word == "FOR"
    return following.word in ("NULL", "_BINARY") or following.kind in _VALUES_AFTER[cursor.word]


class _Clauses:
    """What follows the ids of a verb, read into its node."""

    def __init__(self, cursor: TokenCursor, verb: Verb) -> None:
        self._cursor, self._verb = cursor, verb
        self._unbound = False
        self._duration_ns: int | None = None
        self._reason: str | None = None

    def settle(self, name: Name, ids: tuple[Token, ...], condition: str) -> Settle | Unbound:
        cursor, seen = self._cursor, set[str]()
        while cursor.token is not None and not cursor.at_symbol(";"):
            word = cursor.word
            if word not in _CLAUSES_OF[self._verb] or word in seen:
                raise cursor.error(f"{word} given twice" if word in seen else "")
            seen.add(word)
            cursor.take()
            if word == "REASON":
                self.take_reason()
            else:
                self.take_duration()
        if self._verb is Verb.RENEW and not seen:
            raise cursor.error("RENEW q 107 FOR '5m'")
        cursor.take_end()
        return self.node(name, ids, condition)

    def node(self, name: Name, ids: tuple[Token, ...], condition: str) -> Settle | Unbound:
        settles = Settle(self._verb, name, ids, condition, self._duration_ns, self._reason)
        return _unbound(self._cursor) if self._unbound else settles

    def take_duration(self) -> None:
        token = self._take_value(_DELAY_AFTER, "a duration is a number of seconds, or '500ms', '30s', '5m'")
        if token is None:
            if self._verb is Verb.RENEW:
                raise InvalidOption("RENEW: NULL is not a duration")
            return
        if token.kind is Kind.PARAMETER:
            self._unbound = True
            return
        text = token_text(token)
        renews = self._verb is Verb.RENEW
        self._duration_ns = parse_wait("RENEW ... FOR", text) if renews else parse_duration("NACK ... DELAY", text)

    def take_reason(self) -> None:
        token = self._take_value(_REASON_AFTER, "a reason is a quoted string")
        if token is not None and token.kind is Kind.PARAMETER:
            self._unbound = True
        elif token is not None:
            self._reason = token_text(token)

    def _take_value(self, kinds: tuple[Kind, ...], hint: str) -> Token | None:
        """None: NULL, which is the same as no value."""
        self._cursor.accept_words("_BINARY")  # how drivers write bytes
        if self._cursor.accept_words("NULL"):
            return None
        token = self._cursor.token
        if token is None or token.kind not in kinds:
            raise self._cursor.error(hint)
        return self._cursor.take()


def _unbound(cursor: TokenCursor, column: str | None = None) -> Unbound:
    return Unbound(cursor.sql, sum(token.kind is Kind.PARAMETER for token in cursor.tokens), column)


# --- functions


def parse_function_select(cursor: TokenCursor) -> Statement | None:
    """SELECT queue_ack(...) [AS name] [FROM DUAL]; None where none of the functions is called."""
    calls = [place for place in range(len(cursor.tokens)) if _is_call(cursor, place)]
    if not calls:
        return None
    start = cursor.position = calls[0]
    word = _function(cursor.tokens[start])
    if start != 1 or cursor.tokens[0].word != "SELECT" or len(calls) > 1:
        raise _not_alone(word)
    cursor.take()
    skip_group(cursor)
    close = cursor.position
    column = _take_alias(cursor) or cursor.slice(start, close)
    cursor.accept_words("FROM", "DUAL")
    if cursor.accept_words("LIMIT"):  # tools add it to every SELECT
        cursor.accept_kind(Kind.NUMBER)
    while cursor.accept_symbol(";"):
        pass
    if cursor.token is not None:
        raise _not_alone(word)
    cursor.position = start
    settles = _take_call(cursor)
    return _unbound(cursor, column) if isinstance(settles, Unbound) else QueueFunction(settles, column)


def _take_alias(cursor: TokenCursor) -> str | None:
    token = cursor.token
    if not cursor.accept_words("AS") and (token is None or token.word in ("FROM", "LIMIT")):
        return None
    if alias := cursor.accept_kind(Kind.STRING):
        return string_value(alias.text)
    token = cursor.token
    return cursor.take_identifier() if token is not None and token.kind in (Kind.WORD, Kind.NAME) else None


def parse_call(cursor: TokenCursor) -> Statement | None:
    """CALL queue_ack(...); None for any other procedure, a qualified one among them."""
    cursor.take()
    if cursor.token is None or not _is_call(cursor, cursor.position):
        return None
    settles = _take_call(cursor)
    cursor.take_end()
    return settles


def _is_call(cursor: TokenCursor, place: int) -> bool:
    token, before = cursor.tokens[place], cursor.tokens[place - 1] if place else None
    following = cursor.tokens[place + 1] if place + 1 < len(cursor.tokens) else None
    called = following is not None and following.kind is Kind.SYMBOL and following.text == "("
    qualified = before is not None and before.kind is Kind.SYMBOL and before.text == "."
    return called and not qualified and _function(token) in _SIGNATURES


def _function(token: Token) -> str:
    """The name in upper case, quoted or not; empty where it is none."""
    return identifier_value(token).upper() if token.kind in (Kind.WORD, Kind.NAME) else ""


def _not_alone(word: str) -> UnsupportedSql:
    return UnsupportedSql(
        f"{word}() is not supported within another statement or beside other columns: "
        f"SELECT {_SIGNATURES[word]} alone, or the statement {word.removeprefix('QUEUE_')}"
    )


def _take_call(cursor: TokenCursor) -> Ack | Settle | Unbound:
    word = _function(cursor.take())
    cursor.take_symbol("(")
    name = _take_queue(cursor, word)
    cursor.take_symbol(",", _SIGNATURES[word])
    settles = _TAKERS[word](cursor, name or Name(None, ""))
    cursor.take_symbol(")", _SIGNATURES[word])
    bound = name is not None and not any(token.kind is Kind.PARAMETER for token in cursor.tokens)
    return settles if bound else _unbound(cursor)


def _take_queue(cursor: TokenCursor, word: str) -> Name | None:
    """The queue's name as a string, perhaps qualified or quoted inside; None: `?`."""
    if cursor.accept_kind(Kind.PARAMETER):
        return None
    token = cursor.accept_kind(Kind.STRING)
    if token is None:
        raise cursor.error(f"{_SIGNATURES[word]}: the queue's name is a string")
    text = string_value(token.text)
    if "`" not in text:
        database, dot, table = text.partition(".")
        return Name(database, table) if dot else Name(None, text)
    inner = TokenCursor(text)
    name = inner.take_name()
    inner.take_end()
    return name


def _take_settled(cursor: TokenCursor, name: Name, verb: Verb) -> Settle | Unbound:
    """An id, and what may follow: of NACK a delay and a reason, of REJECT a reason; of RENEW a duration has to."""
    ids, renews = (take_id(cursor, verb.name),), verb is Verb.RENEW
    if renews:
        cursor.take_symbol(",", _SIGNATURES["QUEUE_RENEW"])
    clauses = _Clauses(cursor, verb)
    if renews or (verb is Verb.NACK and cursor.accept_symbol(",")):
        clauses.take_duration()
    if not renews and cursor.accept_symbol(","):
        clauses.take_reason()
    return clauses.node(name, ids, "")


_TAKERS: dict[str, Callable[[TokenCursor, Name], Ack | Settle | Unbound]] = {
    "QUEUE_ACK": lambda cursor, name: Ack(name, *take_batch(cursor, "ACK")),
    "QUEUE_NACK": partial(_take_settled, verb=Verb.NACK),
    "QUEUE_REJECT": partial(_take_settled, verb=Verb.REJECT),
    "QUEUE_RELEASE": lambda cursor, name: Settle(Verb.RELEASE, name, *take_batch(cursor, "RELEASE")),
    "QUEUE_RENEW": partial(_take_settled, verb=Verb.RENEW),
}

"""Which statements open, end or wind back a transaction, from a cheap check of the text."""

from __future__ import annotations

import re

from rewriter.plan import TransactionVerb
from rewriter.text.lexis import SPACE, WORD_END, is_compound, is_unread, leading_verb, split_statements

_START_TRANSACTION = re.compile(SPACE + rb"TRANSACTION" + WORD_END, re.IGNORECASE)
_ROLLBACK_TO = re.compile(SPACE + rb"(?>(?:WORK" + WORD_END + SPACE + rb")?)TO" + WORD_END, re.IGNORECASE)
_XA = re.compile(SPACE + rb"(?:(START|BEGIN)|(COMMIT)|(ROLLBACK))" + WORD_END, re.IGNORECASE)
_AUTOCOMMIT_ON = re.compile(rb"(?<![\w$])autocommit`?\s*+:?=\s*+(?:1|ON|TRUE)" + WORD_END, re.IGNORECASE)


def transaction_verb(sql: bytes, *, backslash_escapes: bool = True) -> TransactionVerb | None:
    """What a text does to an open transaction; of several statements, which a server may cut elsewhere, only whether.

    Implicit commits of DDL are in the server's status flags, not here, and so is what SET autocommit = 1 has ended.
    """
    statements = split_statements(sql, backslash_escapes=backslash_escapes)
    verbs = [verb_of(statement, backslash_escapes=backslash_escapes) for statement in statements]
    return TransactionVerb.OPAQUE if len(verbs) > 1 and any(verbs) else verbs[0] if verbs else None


def verb_of(sql: bytes, *, backslash_escapes: bool = True) -> TransactionVerb | None:
    """As `transaction_verb`, for one statement."""
    if b"/*" in sql and is_unread(sql, backslash_escapes=backslash_escapes):
        return TransactionVerb.OPAQUE
    verb, end = leading_verb(sql)
    match verb:
        case b"BEGIN":
            return TransactionVerb.OPAQUE if is_compound(sql) else TransactionVerb.BEGIN
        case b"START":
            return TransactionVerb.BEGIN if _START_TRANSACTION.match(sql, end) else None
        case b"COMMIT":
            return TransactionVerb.COMMIT
        case b"ROLLBACK":
            return TransactionVerb.ROLLBACK_TO if _ROLLBACK_TO.match(sql, end) else TransactionVerb.ROLLBACK
        case b"CALL" | b"EXECUTE":
            return TransactionVerb.OPAQUE
        case b"XA":
            return _xa_verb(sql, end)
        case b"SET" if _AUTOCOMMIT_ON.search(sql, end):
            return TransactionVerb.AUTOCOMMIT
    return TransactionVerb.OPAQUE if is_compound(sql) else None


def _xa_verb(sql: bytes, end: int) -> TransactionVerb | None:
    match = _XA.match(sql, end)
    if match is None or match[1]:
        return None if match is None else TransactionVerb.BEGIN
    return TransactionVerb.COMMIT if match[2] else TransactionVerb.ROLLBACK

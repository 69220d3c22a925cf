"""EXPLAIN DELIVERY FOR q [WHERE condition] [LIMIT n]: what follows FOR."""

from __future__ import annotations

from rewriter.errors import UnsupportedSql
from rewriter.grammar.ack import take_condition
from rewriter.grammar.statements import ExplainMessages
from rewriter.text.tokens import Kind, TokenCursor

LIMIT_DEFAULT, LIMIT_MAX = 20, 1000
"""Messages explained; each is explained in sentences, and no one reads a thousand."""


def parse_explain_delivery(cursor: TokenCursor) -> ExplainMessages:
    """What follows EXPLAIN DELIVERY FOR."""
    name = cursor.take_name()
    condition, limit = "", None
    if cursor.accept_words("WHERE"):
        first = cursor.position
        condition = take_condition(cursor)
        if any(token.kind is Kind.PARAMETER for token in cursor.tokens[first : cursor.position]):
            raise UnsupportedSql("EXPLAIN DELIVERY takes no ?; write the value into the statement")
    if cursor.accept_words("LIMIT"):
        number = cursor.accept_kind(Kind.NUMBER)
        if number is None or not number.text.isdecimal() or not 1 <= int(number.text[:9]) <= LIMIT_MAX:
            raise cursor.error(f"EXPLAIN DELIVERY takes a LIMIT from 1 to {LIMIT_MAX}")
        limit = int(number.text)
    cursor.take_end("EXPLAIN DELIVERY FOR q [WHERE condition] [LIMIT n]")
    return ExplainMessages(name, condition, limit)

"""ACK q 101, 102, ... recognised by one pattern: what receivers send most often, with hundreds of ids in a statement.

Tokens cost several microseconds an id; this costs a tenth of one. Only the plainest form is read here, an unquoted or
back-quoted name and whole numbers below 10^18; every other form takes the ordinary route. Both mean the same.
"""

from __future__ import annotations

import re

from rewriter.grammar.statements import Ack
from rewriter.text.tokens import Kind, Name, Token

NAME = r"(?:([A-Za-z_]\w*+)|`([^`]++)`)"
"""Two groups: a bare name, or the text in back quotes."""
_NUMBERS = r"(?>\d{1,18}(?!\d)(?:\s*+,\s*+\d{1,18}(?!\d))*)"
QUEUE = rf"(?>{NAME}\s*+\.\s*+)?{NAME}\s*+"
"""Four groups: its database and itself."""
IDS = rf"(?:(?<=[\s`])({_NUMBERS})|\(\s*+({_NUMBERS})\s*+\))"
"""Two groups: bare numbers after QUEUE, or those in parentheses."""
GROUP = rf"\s++GROUP\s++(?!BY\b){NAME}"
_QUICK = re.compile(rf"\s*+ACK\s++{QUEUE}{IDS}(?:{GROUP})?\s*+;?\s*+", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


def quick_ack(sql: str) -> Ack | None:
    """The statement, if it is of the plain form."""
    match = _QUICK.fullmatch(sql)
    if match is None:
        return None
    database, quoted_database, table, quoted_table, bare, enclosed, group, quoted_group = match.groups()
    name = Name(database or quoted_database, table or quoted_table, group or quoted_group)
    return Ack(name, (), "", bare or enclosed)


def tokens_of(numbers: str) -> tuple[Token, ...]:
    """The numbers as tokens, as the tokenizer would return them, apart from their positions."""
    return tuple(Token(Kind.NUMBER, text, "", 0, 0) for text in _NUMBER.findall(numbers))

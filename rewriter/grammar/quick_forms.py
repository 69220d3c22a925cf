"""The plainest forms of what receivers send all the time, recognised by one pattern each.

Statements with hundreds of ids are common. Tokens cost several microseconds an id; this costs a tenth of one. Only a
name that is bare or in back quotes, whole numbers below 10^18, a group and a duration of a few characters are read
here; every other form takes the ordinary route. Both mean the same.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rewriter.grammar.statements import Ack
from rewriter.text.tokens import Kind, Name, Token

_NAME = r"(?:([A-Za-z_]\w*+)|`([^`]++)`)"  # two groups: a bare name, or the text in back quotes
_NUMBERS = r"(?>\d{1,18}(?!\d)(?:\s*+,\s*+\d{1,18}(?!\d))*)"
_QUEUE = rf"(?>{_NAME}\s*+\.\s*+)?{_NAME}\s*+"  # four groups: its database and itself
_IDS = rf"(?:(?<=[\s`])({_NUMBERS})|\(\s*+({_NUMBERS})\s*+\))"  # two: bare numbers after a queue, or in parentheses
_GROUP = rf"\s++GROUP\s++(?!BY\b){_NAME}"
_DURATION = r"(?:'[\w.]{1,24}'|\d{1,9}(?!\d))"
_QUICK_ACK = re.compile(rf"\s*+ACK\s++{_QUEUE}{_IDS}(?:{_GROUP})?\s*+;?\s*+", re.ASCII | re.IGNORECASE)
_VERB = rf"\s*+(?:N?ACK|RELEASE|RENEW|REJECT)\s++{_QUEUE}"
_CLAUSES = rf"((?:{_GROUP}|\s++(?:DELAY|FOR)\s++{_DURATION}){{0,2}})\s*+;?\s*+"
_QUICK_IDS = re.compile(rf"({_VERB}){_IDS}{_CLAUSES}", re.ASCII | re.IGNORECASE)
_ONE = r"\d{1,18}(?!\d)"
_QUICK_CONDITION = re.compile(
    rf"({_VERB}WHERE\s++)((?>id|`id`)\s*+(?>=|IN\s*+(\())\s*+)((?(7){_NUMBERS}|{_ONE}))"
    rf"((?(7)\s*+\))(?>(\s++AND\s++(?>lease_token|`lease_token`|epoch|`epoch`)\s*+=\s*+)?))((?(10){_ONE})){_CLAUSES}",
    re.ASCII | re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+")
VERBS = ("ACK ", "ack ", "NACK ", "nack ", "RENEW ", "renew ", "RELEASE ", "release ", "REJECT ", "reject ")
"""How a text begins for which `quick_ids` is tried, as receivers write it."""


def quick_ack(sql: str) -> Ack | None:
    """The statement, if it is of the plain form."""
    match = _QUICK_ACK.fullmatch(sql)
    if match is None:
        return None
    database, quoted_database, table, quoted_table, bare, enclosed, group, quoted_group = match.groups()
    name = Name(database or quoted_database, table or quoted_table, group or quoted_group)
    return Ack(name, (), "", bare or enclosed)


def tokens_of(numbers: str) -> tuple[Token, ...]:
    """The numbers as tokens, as the tokenizer would return them, apart from their positions."""
    return tuple(Token(Kind.NUMBER, text, "", 0, 0) for text in _NUMBER.findall(numbers))


class QuickIds(NamedTuple):
    """`numbers` are the ids, which commas separate. Of a condition, `id = 5 AND lease_token = 7` or `id IN (5, 6)`, the
    text is `column`, the ids, `between` and the number of their `delivery`, where it names one."""

    before: str
    numbers: str
    after: str
    column: str = ""
    between: str = ""
    delivery: str = ""


def quick_ids(sql: str) -> QuickIds | None:
    """The parts of an ACK, NACK, RELEASE, RENEW or REJECT of numbers: the ids, and the text around them. Whether it is
    valid, the parser decides for the text with another id in it. None: it is of no plain form."""
    if (match := _QUICK_IDS.fullmatch(sql)) is not None:
        before, bare, enclosed, after = match.group(1, 6, 7, 8)
        return QuickIds(before, bare or enclosed, after)
    match = _QUICK_CONDITION.fullmatch(sql)
    return None if match is None else QuickIds(*match.group(1, 8, 12, 6, 9, 11))

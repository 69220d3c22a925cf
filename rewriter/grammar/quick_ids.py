"""ACK, NACK, RELEASE, RENEW and REJECT of whole numbers, split by one pattern into the ids and the text around them.

Receivers send these all the time, each with other ids. Only plain forms are split here: a name that is bare or in back
quotes, whole numbers below 10^18, a group, a duration of a few characters. Whether the result is a valid statement, the
parser decides for the text with another id in it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rewriter.grammar.quick_ack import GROUP, IDS, QUEUE

_DURATION = r"(?:'[\w.]{1,24}'|\d{1,9}(?!\d))"
_QUICK = re.compile(
    rf"(\s*+(?:N?ACK|RELEASE|RENEW|REJECT)\s++{QUEUE}){IDS}((?:{GROUP}|\s++(?:DELAY|FOR)\s++{_DURATION}){{0,2}})\s*+;?\s*+",
    re.ASCII | re.IGNORECASE,
)
VERBS = ("ACK ", "ack ", "NACK ", "nack ", "RENEW ", "renew ", "RELEASE ", "release ", "REJECT ", "reject ")
"""How a text begins for which this is tried, as receivers write it."""


class QuickIds(NamedTuple):
    """`numbers` are the ids, which commas separate."""

    before: str
    numbers: str
    after: str


def quick_ids(sql: str) -> QuickIds | None:
    """The parts of the statement, if it is of a plain form."""
    match = _QUICK.fullmatch(sql)
    if match is None:
        return None
    before, bare, enclosed, after = match.group(1, 6, 7, 8)
    return QuickIds(before, bare or enclosed, after)

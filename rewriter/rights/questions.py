"""What an account that is limited to its queues may see of itself and of the server: its questions, changed for that.

All lines to the database have one account, so USER() and its like would tell that one's name; the client gets its own
instead. Of the server's variables it sees those that it may ask for by SELECT: others name paths and accounts.

Both functions take a text that `rewriter.rights.statements` has read as a Question. They never put anything after a
piece of it that may end in a comment without a newline before.
"""

from __future__ import annotations

import re

from rewriter.rights.reader import StrictReader, Unreadable
from rewriter.rights.statements import ACCOUNT_FUNCTIONS
from rewriter.rights.variables import ASKED, UNTOLD
from rewriter.text.literals import hex_literal, string_literal

_PLAIN = re.compile(r"[\w.@%:-]+", re.ASCII)
_SIGNS = (b"&", b"|", b"^", b"~")
_SHOWN = ", ".join(string_literal(name) for name in sorted(ASKED - UNTOLD)).encode("ascii")


def with_own_account(sql: bytes, account: str) -> bytes | None:
    """A SELECT in which USER() and its like are `account`, and variables that are hidden are empty; a column that
    is nothing else keeps its name. None: this is not done for a text of such a form."""
    reader = StrictReader(sql)
    pieces: list[bytes] = []
    kept = depth = 0
    begins = True  # an item of the list
    try:
        reader.take("SELECT")
        while not reader.ended:
            at = reader.place
            value = _told(reader, account)
            if value is None:
                opened = _pass(reader)
                depth += opened == b"("
                depth -= opened == b")"
                begins = opened == b"," and not depth
                continue
            written = sql[at : reader.place].strip()
            alone = begins and not depth and (reader.ended or reader.at_symbol(b",") or reader.word == "LIMIT")
            name = b" AS `" + written + b"`" if alone and _is_a_name(written) else b""
            pieces += (sql[kept:at], value, name, b" ")
            kept, begins = reader.place, False
    except Unreadable:
        return None
    return b"".join((*pieces, sql[kept:]))


def _told(reader: StrictReader, account: str) -> bytes | None:
    """What is put in place of what comes next, which is passed over then; None: it stays."""
    if reader.accept_function(ACCOUNT_FUNCTIONS):
        reader.take_symbol(b")")
        # A plain literal compares with others under every collation, one of a set of its own does not.
        return (string_literal(account) if _PLAIN.fullmatch(account) else hex_literal(account)).encode("ascii")
    start = reader.place
    variable = reader.accept_variable()
    if variable is not None and variable[1] in UNTOLD:
        return b"''"
    reader.go_back(start)
    return None


def _is_a_name(written: bytes) -> bool:
    """Whether it can be a column's name as it stands: no comment is in it, and no line ends."""
    return written.isascii() and not any(sign in written for sign in (b"`", b"*", b"#", b"--", b"\n", b"\r"))


def _pass(reader: StrictReader) -> bytes:
    """Pass over one piece; a parenthesis or a comma is returned.

    Raises:
        Unreadable: it is none of those that a Question is made of.
    """
    for symbol in (b"(", b")", b","):
        if reader.accept_symbol(symbol):
            return symbol
    if not (
        any(map(reader.accept_symbol, _SIGNS))
        or reader.accept_scalar()
        or reader.accept_comparison()
        or reader.accept_variable()
    ):
        reader.take_name()
    return b""


def with_asked_variables(sql: bytes) -> bytes | None:
    """A SHOW VARIABLES that shows no others than an account may ask for. None: its condition is none that can stand in
    parentheses."""
    reader = StrictReader(sql)
    try:
        reader.take("SHOW")
        scope = reader.accept_any("GLOBAL", "SESSION", "LOCAL")
        reader.take("VARIABLES")
        condition = _condition(reader, sql)
    except Unreadable:
        return None
    text = b"SHOW %s VARIABLES WHERE Variable_name IN (%s)" % (scope.encode("ascii"), _SHOWN)
    return text + b" AND (" + condition + b"\n)" if condition else text


def _condition(reader: StrictReader, sql: bytes) -> bytes:
    """What LIKE or WHERE says, as an expression; empty where there is neither."""
    if reader.accept("LIKE"):
        start = reader.place
        if not reader.accept_scalar() or not reader.ended:
            raise Unreadable
        return b"Variable_name LIKE " + sql[start : reader.place]
    if not reader.accept("WHERE"):
        return b""
    start, depth = reader.place, 0
    while not reader.ended:
        passed = _pass(reader)
        depth += passed == b"("
        depth -= passed == b")"
        if depth < 0 or (passed == b"," and not depth):
            raise Unreadable  # it would end the parenthesis that is put around it
    if depth:
        raise Unreadable
    return sql[start : reader.place]

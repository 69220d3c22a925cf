"""What an account that is limited to its queues may see of itself and of the server: its session queries, rewritten.

All connections to the database have one account, so USER() and similar functions would return its name; the client gets
its own name instead. Of the server's variables it sees those that it may read by SELECT: others contain paths and
accounts.

Both functions take a text that `proxy.rights.statements` has read as a SessionQuery. They insert nothing directly
after a part of it that may end in a comment: a newline comes first.
"""

from __future__ import annotations

import re

from proxy.rights.statements import ACCOUNT_FUNCTIONS
from proxy.rights.variables import HIDDEN, READABLE
from rewriter.text.literals import hex_literal, string_literal
from rewriter.text.strict_reader import StrictReader, Unreadable

_PLAIN = re.compile(r"[\w.@%:-]+", re.ASCII)
_SIGNS = (b"&", b"|", b"^", b"~")
_SHOWN = ", ".join(string_literal(name) for name in sorted(READABLE - HIDDEN)).encode("ascii")


def with_client_account(sql: bytes, account: str) -> bytes | None:
    """A SELECT in which USER() and similar functions are `account`, and hidden variables are empty; a column that is
    only one of these keeps its name. None: not supported for a text of such a form."""
    reader = StrictReader(sql)
    pieces: list[bytes] = []
    copied = depth = 0
    begins = True  # an item of the list
    try:
        reader.take("SELECT")
        while not reader.ended:
            at = reader.place
            value = _replacement(reader, account)
            if value is None:
                opened = _skip_piece(reader)
                depth += opened == b"("
                depth -= opened == b")"
                begins = opened == b"," and not depth
                continue
            written = sql[at : reader.place].strip()
            alone = begins and not depth and (reader.ended or reader.at_symbol(b",") or reader.word == "LIMIT")
            name = b" AS `" + written + b"`" if alone and _is_a_name(written) else b""
            pieces += (sql[copied:at], value, name, b" ")
            copied, begins = reader.place, False
    except Unreadable:
        return None
    return b"".join((*pieces, sql[copied:]))


def _replacement(reader: StrictReader, account: str) -> bytes | None:
    """The replacement for the next item, which is then skipped; None: it stays."""
    if reader.accept_function(ACCOUNT_FUNCTIONS):
        reader.take_symbol(b")")
        # A plain literal compares with others under every collation, one of a set of its own does not.
        return (string_literal(account) if _PLAIN.fullmatch(account) else hex_literal(account)).encode("ascii")
    start = reader.place
    variable = reader.accept_variable()
    if variable is not None and variable[1] in HIDDEN:
        return b"''"
    reader.go_back(start)
    return None


def _is_a_name(written: bytes) -> bool:
    """Whether it can be a column's name unchanged: it has no comment and no newline."""
    return written.isascii() and not any(sign in written for sign in (b"`", b"*", b"#", b"--", b"\n", b"\r"))


def _skip_piece(reader: StrictReader) -> bytes:
    """Pass over one piece; a parenthesis or a comma is returned.

    Raises:
        Unreadable: it is none of those that a SessionQuery consists of.
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


def with_readable_variables(sql: bytes) -> bytes | None:
    """A SHOW VARIABLES that shows only the variables that an account may read. None: its condition cannot be put in
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
    """The condition of LIKE or WHERE, as an expression; empty where there is neither."""
    if reader.accept("LIKE"):
        start = reader.place
        if not reader.accept_scalar() or not reader.ended:
            raise Unreadable
        return b"Variable_name LIKE " + sql[start : reader.place]
    if not reader.accept("WHERE"):
        return b""
    start, depth = reader.place, 0
    while not reader.ended:
        symbol = _skip_piece(reader)
        depth += symbol == b"("
        depth -= symbol == b")"
        if depth < 0 or (symbol == b"," and not depth):
            raise Unreadable  # it would end the parenthesis that is put around it
    if depth:
        raise Unreadable
    return sql[start : reader.place]

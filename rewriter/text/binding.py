"""Values written into a text in the place of its `?`, so that it can be planned as if a client had sent it so."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rewriter.text.lexis import leading_verb
from rewriter.text.tokens import Kind, tokenize

_SEPARATORS = frozenset(("", *" \t\r\n(),;=<>+*/%|&^!"))
"""Characters that may be next to a literal without forming another token with it."""


def parameter_places(sql: str, sql_modes: Collection[str] = ()) -> list[int]:
    """Where the `?` of a text are. Raises RewriteError: the text cannot be read."""
    verb, end = leading_verb(sql.encode("utf-8", "surrogatepass"))
    # The tokenizer makes one token of what follows CALL.
    readable = " " * end + sql[end:] if verb == b"CALL" and sql[:end].isascii() else sql
    tokens = tokenize(readable, sql_modes, plain_backslashes=True)
    return [token.start for token in tokens if token.kind is Kind.PARAMETER]


def bound_text(sql: str, literals: Sequence[str], sql_modes: Collection[str] = ()) -> str:
    """The text with its `?`, in order, replaced by SQL literals, as many as there are.

    A `?` is a token of its own, whatever is next to it, and the literal stays one, too: `id=?OR n=1` does not become a
    name that begins with digits.

    Raises:
        RewriteError: the text cannot be read.
    """
    places = parameter_places(sql, sql_modes)
    pieces: list[str] = []
    last = 0
    for place, literal in zip(places, literals, strict=True):
        before = "" if sql[max(place - 1, 0) : place] in _SEPARATORS else " "
        after = "" if sql[place + 1 : place + 2] in _SEPARATORS else " "
        pieces += [sql[last:place], before, literal, after]
        last = place + 1
    return "".join([*pieces, sql[last:]])

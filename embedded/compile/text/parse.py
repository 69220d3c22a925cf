"""From text to sqlglot's tree. The statement's head is read here, for sqlglot drops some of its words."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.tokenizer_core import Token

from embedded.compile.errors import unsupported
from embedded.compile.text.dialect import EmbeddedMySQL, EmbeddedMySQLPipes
from embedded.compile.text.keywords import keywords
from embedded.compile.text.literal_lifting import fill_slots, mark_slots, syntax_error

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # its warnings become our errors, and repeat the statement's text

_DIALECT, _WITH_PIPES = EmbeddedMySQL(), EmbeddedMySQLPipes()
_INSERT = (keywords("LOW_PRIORITY DELAYED HIGH_PRIORITY"), keywords("IGNORE"), keywords("INTO"))
_QUICK = keywords("LOW_PRIORITY QUICK")
_HEADS = {
    "INSERT": _INSERT,
    "REPLACE": _INSERT,
    "UPDATE": (keywords("LOW_PRIORITY"), keywords("IGNORE")),
    "DELETE": (_QUICK, _QUICK, keywords("IGNORE")),
}
"""The words that may follow a statement's first one, in their order."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A statement's tree, and what of its head sqlglot drops."""

    tree: exp.Expression
    verb: str
    ignore: bool = False


def parse(shape: str, values: Sequence[Any], verb: str, first_slot: int = 0, pipes_as_concat: bool = False) -> Parsed:
    """The tree of one statement.

    Raises:
        SqlSyntaxError: 1064 with the text at the fault.
        UnsupportedSql: a form that is known to be another's.
    """
    dialect = _WITH_PIPES if pipes_as_concat else _DIALECT
    text = mark_slots(shape, first_slot)
    try:
        tokens = dialect.tokenize(text)
        _refuse(tokens, verb)
        ignore = _take_head(tokens, verb)
        trees = dialect.parser().parse(tokens, text)
    except sqlglot.ParseError as error:
        raise _near(error, values) from None
    except sqlglot.TokenError as error:
        raise syntax_error(fill_slots(shape, values)) from error
    except RecursionError:
        raise unsupported("an expression nested this deeply", "simplify it") from None
    if len(trees) != 1 or trees[0] is None:
        raise syntax_error("")
    assert isinstance(trees[0], exp.Expression)
    return Parsed(trees[0], verb, ignore)


def parse_expression(
    shape: str, values: Sequence[Any], first_slot: int = 0, pipes_as_concat: bool = False
) -> exp.Expression:
    """The tree of a single expression."""
    tree = parse("SELECT " + shape, values, "SELECT", first_slot, pipes_as_concat).tree
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
        raise syntax_error(fill_slots(shape, values))
    expression: exp.Expression = tree.expressions[0]
    return expression


def mysql_text(tree: exp.Expression, values: Sequence[Any]) -> str:
    """A part of the tree as MySQL's SQL, as the data dictionary stores it."""
    return fill_slots(tree.sql(dialect="mysql"), values)


def _refuse(tokens: Sequence[Token], verb: str) -> None:
    """Refuse what sqlglot reads as something else, or takes for an error."""
    words = {token.token_type for token in tokens}
    if verb in ("SELECT", "WITH"):
        if TokenType.INTO in words:
            raise unsupported("SELECT ... INTO", "read the rows, or use INSERT ... SELECT and SET")
    elif TokenType.COLON_EQ in words:
        raise unsupported("assigning variables inside a query", "use SET")


def _take_head(tokens: list[Token], verb: str) -> bool:
    """Bring the head to the form that sqlglot knows; whether it had IGNORE."""
    ignore = False
    for words in _HEADS.get(verb, ()):
        if len(tokens) > 1 and tokens[1].token_type is not TokenType.IDENTIFIER and tokens[1].text.upper() in words:
            ignore |= tokens.pop(1).token_type is TokenType.IGNORE
    if verb in ("INSERT", "REPLACE") and tokens[0].text.upper() == verb:
        tokens[0:1] = [Token(TokenType.INSERT, verb), Token(TokenType.INTO, "INTO")]
    return ignore


def _near(error: sqlglot.ParseError, values: Sequence[Any]) -> Exception:
    detail = error.errors[0] if error.errors else {}
    near = f"{detail.get('highlight') or ''}{detail.get('end_context') or ''}"
    return syntax_error(fill_slots(near, values), detail.get("line") or 1)

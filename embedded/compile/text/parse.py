"""From text to sqlglot's tree: the statement's head is read here, our functions are recognised, sqlglot parses.

sqlglot turns many functions into nodes that lose how they were written, so every function that this dialect knows is
renamed before parsing and becomes a plain call with its arguments in order.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp

from embedded.compile.errors import unsupported
from embedded.compile.text.keywords import keywords
from embedded.compile.text.literal_lifting import END, MARK, fill_slots, mark_slots, syntax_error

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # its warnings become our errors, and repeat the statement's text

PREFIX = "qg__"
_CALL = re.compile(r"(?<![\w$.@`])([A-Za-z_][\w$]*)(\s*)\(")
_NAME_FOLLOWS = keywords("INTO TABLE REFERENCES KEY INDEX CONSTRAINT EXISTS AS VIEW INTERVAL")
_WORD = re.compile(r"[\w$]")
_WORD_MAX = 16  # characters; longer than every word that matters here
_ENDS_OF_OPERANDS = (END, ")", "`")
_NOT_AN_OPERAND = keywords(
    "SELECT DISTINCT AND OR NOT XOR WHERE HAVING ON BY WHEN THEN ELSE CASE SET IN LIKE BETWEEN DIV MOD RETURN VALUES"
)
_QUOTED_OR_WORD = r"(?>`(?:[^`]|``)*`|[A-Za-z_$][\w$]*+)"
_ARROW = re.compile(
    rf"(?<![\w$`])((?>(?:{_QUOTED_OR_WORD}\s*+\.\s*+){{0,2}}){_QUOTED_OR_WORD})\s*+(->>?)\s*+({MARK}s{END})"
)
_INSERT = re.compile(r"(INSERT|REPLACE)\b(\s+(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY))?(\s+IGNORE)?(?:\s+INTO)?\s+", re.I)
_UPDATE = re.compile(r"UPDATE\b(\s+LOW_PRIORITY)?(\s+IGNORE)?\s+", re.I)
_DELETE = re.compile(r"DELETE\b((?:\s+(?:LOW_PRIORITY|QUICK))*)(\s+IGNORE)?\s+", re.I)


# Words that name columns in MySQL without quotes, and that sqlglot would take for something else.
_NOT_KEYWORDS = re.compile(r"(?<![\w$@`])(charset(?!\s*\()|returning|rollback|any(?!\s*\())(?![\w$`])", re.I)
_ASSIGNMENT = re.compile(rf"{MARK}[a-zA-Z]\d*@[^{END}]*{END}\s*:=")
_BRANCH = re.compile(rf"`(?:[^`]|``)*`|{MARK}[a-zA-Z]\d*@[^{END}]*{END}\s*:=|{MARK}[^{END}]*{END}|[\w$]+|[()]")
_NAME = r"(?:`(?:[^`]|``)*`|[\w$]+)"
_COLUMNS = re.compile(rf"({_NAME}(?:\s*\.\s*{_NAME})?\s*)\(([^()]*)\)")
_QUALIFIED = re.compile(rf"(?:{_NAME}\s*\.\s*)*({_NAME})")  # also plain names, so that none is read inside of quotes
_VALUES_OF = re.compile(rf"\bVALUES\s*\(\s*(?:{_NAME}\s*\.\s*)+({_NAME})\s*\)", re.I)
_DUPLICATE = re.compile(r"\bON\s+DUPLICATE\s+KEY\s+UPDATE\b", re.I)
_INTO = re.compile(r"\bINTO\s+(?:OUTFILE|DUMPFILE|@|[`\w]+\s*(?:,|$|FROM\b))|\bINTO\s*" + MARK, re.I)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A statement's tree, and what of its head sqlglot drops."""

    tree: exp.Expression
    verb: str
    ignore: bool = False


def parse(shape: str, values: Sequence[Any], functions: Container[str], verb: str, first_slot: int = 0) -> Parsed:
    """The tree of one statement.

    Raises:
        SqlSyntaxError: 1064 with the text at the fault.
        UnsupportedSql: sqlglot knows the statement only by its first word.
    """
    if verb in ("SELECT", "WITH") and _INTO.search(shape):
        raise unsupported("SELECT ... INTO", "read the rows, or use INSERT ... SELECT and SET")
    head, rest, ignore = _head(shape, verb)
    if _ASSIGNMENT.search(shape):
        if verb not in ("SELECT", "WITH"):
            raise unsupported("assigning variables inside a query", "use SET")
        rest = _parenthesised(rest)
    if head.startswith("INSERT"):
        rest = _without_qualifiers(rest)
    # With its head: after INTO comes a table, though it may be called as a function is, and its columns follow.
    text = _rename_functions(head + _NOT_KEYWORDS.sub(r"`\1`", rest), functions)
    try:
        trees = sqlglot.parse(mark_slots(text, first_slot), read="mysql")
    except sqlglot.ParseError as error:
        raise _near(error, values) from None
    except sqlglot.TokenError as error:
        raise syntax_error(fill_slots(shape, values)) from error
    except RecursionError:
        raise unsupported("an expression nested this deeply", "simplify it") from None
    if len(trees) != 1 or trees[0] is None:
        raise syntax_error("")
    if isinstance(trees[0], exp.Command):
        raise unsupported(f"this form of {verb}", "see the list of supported statements")
    assert isinstance(trees[0], exp.Expression)
    return Parsed(trees[0], verb, ignore)


def parse_expression(
    shape: str, values: Sequence[Any], functions: Container[str], first_slot: int = 0
) -> exp.Expression:
    """The tree of a single expression."""
    tree = parse("SELECT " + shape, values, functions, "SELECT", first_slot).tree
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
        raise syntax_error(fill_slots(shape, values))
    expression: exp.Expression = tree.expressions[0]
    return expression


def mysql_text(tree: exp.Expression, values: Sequence[Any]) -> str:
    """A part of the tree as MySQL's SQL, as the data dictionary stores it."""
    return fill_slots(re.sub(PREFIX, "", tree.sql(dialect="mysql"), flags=re.I), values)


def _parenthesised(shape: str) -> str:
    """The text with parentheses around assignments after THEN and ELSE, where sqlglot does not expect any."""
    inserts: list[tuple[int, str]] = []
    depth, before = 0, ""
    opened: list[int] = []
    for match in _BRANCH.finditer(shape):
        word = match[0].upper()
        if word in ("WHEN", "ELSE", "END") and opened and opened[-1] == depth:
            inserts.append((match.start(), ") "))
            opened.pop()
        if before in ("THEN", "ELSE") and word.endswith(":="):
            inserts.append((match.start(), "("))
            opened.append(depth)
        depth += (word in ("(", "CASE")) - (word in (")", "END"))
        before = word
    for position, text in reversed(inserts):
        shape = shape[:position] + text + shape[position:]
    return shape


def _head(shape: str, verb: str) -> tuple[str, str, bool]:
    pattern = {"INSERT": _INSERT, "REPLACE": _INSERT, "UPDATE": _UPDATE, "DELETE": _DELETE}.get(verb)
    match = pattern.match(shape) if pattern else None
    if match is None:
        return "", shape, False
    word = "INSERT INTO " if pattern is _INSERT else f"{verb} "
    groups = [group.strip().upper() for group in match.groups() if group]
    return word, shape[match.end() :], "IGNORE" in groups


def _without_qualifiers(text: str) -> str:
    """INSERT's columns and VALUES() without the table's name before theirs, which sqlglot does not know there."""
    columns = _COLUMNS.match(text)
    if columns is not None and MARK not in columns[2]:
        plain = _QUALIFIED.sub(r"\1", columns[2])
        text = f"{columns[1]}({plain}){text[columns.end() :]}"
    update = _DUPLICATE.search(text)
    if update is None:
        return text
    return text[: update.end()] + _VALUES_OF.sub(r"VALUES(\1)", text[update.end() :])


def _rename_functions(text: str, functions: Container[str]) -> str:
    def rename(match: re.Match[str]) -> str:
        name = match[1].lower()
        if name == "row":
            return "("
        if name not in functions:
            return match[0]
        end = _without_spaces(text, match.start())
        word = _word_before(text, end)
        if word in _NAME_FOLLOWS:
            return match[0]
        if name == "mod" and (word not in _NOT_AN_OPERAND if word else text[end - 1 : end] in _ENDS_OF_OPERANDS):
            return match[0]
        return f"{PREFIX}{name}("

    text = _CALL.sub(rename, text)
    if "->" not in text:
        return text
    return _ARROW.sub(lambda m: f"{PREFIX}json_{'unquote_' * (m[2] == '->>')}arrow({m[1]}, {m[3]})", text)


def _without_spaces(text: str, end: int) -> int:
    """Where the text before `end` ends, but for spaces. By hand: a pattern would try every place before it."""
    while end > 0 and text[end - 1].isspace():
        end -= 1
    return end


def _word_before(text: str, end: int) -> str:
    """The word that ends there, in capitals; empty where there is none, or it is longer than any of ours."""
    start = end
    while start > 0 and _WORD.match(text, start - 1) and end - start <= _WORD_MAX:
        start -= 1
    return text[start:end].upper()


def _near(error: sqlglot.ParseError, values: Sequence[Any]) -> Exception:
    detail = error.errors[0] if error.errors else {}
    near = f"{detail.get('highlight') or ''}{detail.get('end_context') or ''}"
    near = re.sub(PREFIX, "", fill_slots(near, values), flags=re.I)
    return syntax_error(near, detail.get("line") or 1)

"""Names and values get into SQL by the quoting functions alone: no module puts quotes around a value by hand.

Read off the sources: in a text that is SQL, nothing may be filled in between quotes or back-quotes, whether by an
f-string, `%`, `+`, `replace` or `format`. `quoted`, `hex_literal`, `string_literal` and bound
parameters are the ways that are left.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for folder in (
        "engine",
        "rewriter",
        "proxy",
        "mysql_client",
        "queuegate_worker",
        "queuegate_celery",
        "queuegate_django",
    )
    for path in sorted((ROOT / folder).rglob("*.py"))
]
SQL = re.compile(
    r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE (TABLE|INDEX)|ALTER TABLE|DROP|TRUNCATE|FROM|WHERE|SET|"
    r"COMMENT ?=|VALUES|LIMIT|PRAGMA|KILL|USE|SHOW|AS)\b"
)
FRAGMENT = re.compile(r"(?:[=<>(,|]|\b(?:LIKE|IN|BY|AND|OR|BETWEEN|REGEXP|THEN|ELSE))\s*['`]$", re.IGNORECASE)
"""What stands before a value in a piece of SQL that has no verb of its own."""

MAKERS = {
    "mysql_client/driver.py": {"quoted"},
    "engine/model/queue.py": {"quoted"},
    "engine/backend/mysql.py": {"_literal", "_setting_value"},  # the second takes letters, digits and a few signs
    "rewriter/text/literals.py": {"string_literal", "hex_literal", "plain_literal"},
    "rewriter/plans/queue_table.py": {"comment_literal"},
    "embedded/compile/compilation.py": {"quote", "sql_literal"},
    "embedded/compile/values/types.py": {"_arguments"},
    "queuegate_worker/statements.py": {"back_quoted"},
}
"""The functions that make a quoted piece; what they do is tested by the hostile names."""

REVIEWED = {
    ("rewriter/plans/condition.py", "text"): "the text of an error",
    ("engine/model/groups.py", "name"): "the text of an error",
    ("engine/model/groups.py", "name.table"): "the text of an error",
    ("engine/model/groups.py", "options.group_key"): "the text of an error",
    ("engine/model/topics.py", "queue.name.table"): "the text of an error",
    ("engine/model/sharded.py", "dead.name.table"): "the text of an error",
    ("engine/model/sharded.py", "queue.name.table"): "the text of an error",
    ("rewriter/plans/nack_release_renew.py", "spec.name.table"): "the text of a warning",
    ("embedded/compile/queries/information_schema.py", "position"): "a number",
    ("proxy/show/system_shows.py", "view.table"): "a name of the product's own",
    ("rewriter/grammar/system_tables.py", "short.table"): "a name of the product's own",
    ("rewriter/grammar/system_tables.py", "table.value"): "a name of the product's own",
    ("proxy/show/system_information.py", "table.value"): "a name of the product's own",
    ("proxy/show/system_shows.py", "table.value"): "a name of the product's own",
    ("proxy/show/system_information.py", "value.encode('utf-8', 'replace').hex()"): "hexadecimal digits",
    ("proxy/statements/topics.py", "plan.group"): "the text of an error",
    ("proxy/show/system_information.py", "field.name"): "a name of the product's own",
    (
        "proxy/show/system_information.py",
        "value",
    ): "letters, digits and signs that end no string, by the pattern before it",
    ("embedded/database/connection.py", "folder"): "a path of the configuration, with its quotes doubled",
    ("engine/backend/environment.py", "name"): "a name of the product's own",
    ("engine/store/catalog.py", "table.name.sql"): "the text of a problem",
    ("engine/background/dead_letter_names.py", "dead.table"): "the text of a problem",
    ("engine/background/dead_letter_names.py", "quoted(queue.table)"): "the text of a problem",
    ("engine/model/marked_name.py", "unquote(named)"): "the text of a problem",
    ("rewriter/scan/socket_variable.py", "match[1]"): "@@socket or @@global.socket, by the pattern before it",
    ("embedded/compile/commands/session_commands.py", "_level(tokens)"): "an isolation level, of a fixed list",
    ("embedded/compile/definitions/alter_table.py", "old"): "a name that is looked for in a text",
    ("embedded/compile/text/literal_lifting.py", "slot"): "a number",
    (
        "embedded/compile/text/literal_lifting.py",
        """text[1:-1].replace('""', '"').replace('`', '``')""",
    ): "quotes doubled",
    ("embedded/compile/expressions/calls.py", "side"): "ltrim, rtrim or trim",
    ("embedded/compile/expressions/dates.py", "unit"): "a unit of a fixed list",
    ("embedded/compile/definitions/emit.py", "'0' * (decimals - 3)"): "zeros",
    ("embedded/compile/expressions/decimals.py", "how"): "a word of the product's own",
    ("embedded/compile/errors.py", "clause"): "the text of an error",
    ("embedded/compile/expressions/operators.py", "operator"): "a sign of a fixed list",
    ("embedded/compile/expressions/typed.py", "point"): "a point, or nothing",
    ("embedded/compile/expressions/typed.py", "'0' * missing"): "zeros",
    ("embedded/compile/expressions/typed.py", "encode(Decimal())"): "a number",
    ("embedded/compile/functions/text.py", "text"): "the value of QUOTE(), no statement",
    ("embedded/compile/definitions/show_create.py", "escaped"): "escaped one line before, and shown, not run",
    ("mysql_client/driver.py", "back"): "a name that is put together again, to be compared with what was given",
    ("proxy/upstream/base.py", "without_parsing_modes(text)"): "names of modes, as the server gives them",
}
"""What is between quotes all the same, and why it can be nobody's text."""


def hazards(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Places where something is filled in between quotes in a text that is SQL: line, and what."""
    spared = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.Raise) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in spared:
            continue
        parts = _parts(node)
        if parts is None:
            continue
        text = "".join(part for part in parts if isinstance(part, str))
        is_sql = bool(SQL.search(text)) or text in ("''", "``")
        before = ""
        for part in parts:
            if isinstance(part, str):
                before += part
            elif _open_quote(before) and not _constant(part) and (is_sql or FRAGMENT.search(before)):
                yield node.lineno, ast.unparse(part)


def _parts(node: ast.AST) -> list[str | ast.expr] | None:
    """The text and what is filled in, in order; None where nothing is."""
    match node:
        case ast.JoinedStr(values=values):
            return [v.value for v in values]  # type: ignore[attr-defined]
        case ast.BinOp(left=ast.Constant(value=str() as text), op=ast.Mod(), right=right):
            pieces: list[str | ast.expr] = []
            for piece in re.split(r"%[sdr]", text):
                pieces += [piece, right]
            return pieces[:-1]
        case ast.BinOp(op=ast.Add()):
            return _sum(node)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="replace"), args=[what, by]):
            pieces = []
            for piece in text.split(str(what.value)) if isinstance(what, ast.Constant) else [text, ""]:
                pieces += [piece, by]
            return pieces[:-1]
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="format"), args=args):
            filled: list[str | ast.expr] = []
            for piece in re.split(r"\{[^}]*\}", text):
                filled += [piece, args[0] if args else ast.Name("keyword")]
            return filled[:-1]
    return None


def _sum(node: ast.expr) -> list[str | ast.expr]:
    """The parts of `a + b + c`, from left to right."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*_sum(left), *_sum(right)]
        case ast.Constant(value=str() as text):
            return [text]
        case ast.JoinedStr():
            return _parts(node) or []
    return [node]


def _open_quote(text: str) -> bool:
    quote = ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'`":
            quote = character
    return bool(quote)


def _constant(part: ast.expr) -> bool:
    return isinstance(part, ast.Name | ast.Attribute) and ast.unparse(part).rpartition(".")[2].isupper()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("f\"SELECT 1 FROM t WHERE a = '{x}'\"", ["x"]),
        ("f\"CREATE TABLE {quoted(n)} () COMMENT='{c}'\"", ["c"]),
        ('f"SELECT * FROM `{name}`"', ["name"]),
        ("\"SELECT '%s'\" % x", ["x"]),
        ('"DELETE FROM t WHERE a = \'" + x', ["x"]),
        ("\"SHOW TABLES LIKE '{}'\".format(x)", ["x"]),
        ('sql + " WHERE a = \'" + x + "\'"', ["x"]),
        ("head + f\" AND name = '{x}'\"", ["x"]),
        ("f\" and name = '{x}'\"", ["x"]),
        ("f\"('{x}', '{y}')\"", ["x", "y"]),
        ('"SELECT \'%" + x', ["x"]),
        ("\"SELECT 'NAME' FROM t\".replace('NAME', x)", ["x"]),
        ('f"SELECT {quoted(x)} FROM {queue.sql} WHERE a = {hex_literal(y)}"', []),
        ("raise E(f\"SELECT '{x}' is wrong\")", []),
        ("f\"SELECT '{CONSTANT}'\"", []),
    ],
)
def test_the_check_sees_what_it_is_for(source, found):
    assert sorted({what for _, what in hazards(ast.parse(source))}) == found  # parts of a sum are seen twice


def test_no_module_quotes_by_hand():
    found = []
    for path in SOURCES:
        name = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text())
        own = MAKERS.get(name, set())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name in own:
                node.body = [ast.Pass()]
        found += [f"{name}:{line}: {what}" for line, what in hazards(tree) if (name, what) not in REVIEWED]
    assert not found, "\n".join(found)

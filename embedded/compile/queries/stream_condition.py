"""The condition of a stream for the embedded backend: SQLite text that is complete, with its literals in it.

The same passes compile it as the WHERE of an ordinary statement, and refuse what they cannot do.
"""

from __future__ import annotations

from dataclasses import replace

from embedded.compile.budget import check_tokens
from embedded.compile.compilation import Compilation
from embedded.compile.errors import unsupported
from embedded.compile.expressions.scope import Scope, table_source
from embedded.compile.queries.query import Queries
from embedded.compile.schema import Schema
from embedded.compile.text.literal_lifting import lift
from embedded.compile.text.modes import Modes
from embedded.compile.text.parse import parse_expression


def compile_condition(sql: str, table_name: str, schema: Schema, modes: Modes) -> str:
    """The condition on rows of that table. `sql` has strings in single quotes, with backslash escapes.

    Raises:
        RewriteError: it is wrong, or not supported.
    """
    table = schema.table(table_name)
    if table is None:
        raise schema.unknown(table_name)
    lifted = lift(sql)
    check_tokens(lifted.shape)
    plain = replace(modes, ansi_quotes=False, no_backslash_escapes=False)
    compilation = Compilation(schema, plain, list(lifted.kinds), list(lifted.values))
    try:
        tree = parse_expression(lifted.shape, lifted.values, pipes_as_concat=modes.pipes_as_concat)
        scope = Scope(sources=[table_source(table, "", modes.utc)])
        text = Queries(compilation).expressions.condition(tree, scope, "where clause")
    except RecursionError:
        raise unsupported("an expression nested this deeply", "simplify it") from None
    if any(bind.slot < 0 for bind in compilation.binds):
        raise unsupported("a function of the session in a stream's WHERE", "bind its value with ?")
    compilation.inline = True
    return compilation.finish(text).sql

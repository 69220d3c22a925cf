"""What expressions need from the compiler of queries, so that neither module imports the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from embedded.compile.expressions.scope import Scope
from embedded.compile.expressions.typed import Typed
from embedded.compile.plan import RowLock
from embedded.compile.text.column_names import ItemText


@dataclass(frozen=True, slots=True)
class Selected:
    """A compiled query expression. `single`: it cannot yield more than one row."""

    sql: str
    columns: list[tuple[str, Typed]]
    single: bool = False
    lock: RowLock | None = None
    unlimited: str | None = None  # without LIMIT, where SQL_CALC_FOUND_ROWS requires the count


class Subqueries(Protocol):
    """The compiler of queries, as far as expressions and FROM clauses need it."""

    recursive: bool

    def query(self, node: exp.Expression, scope: Scope | None, items: Sequence[ItemText] = ()) -> Selected:
        """Any query expression."""
        ...

    def subquery(self, node: exp.Expression, scope: Scope | None) -> Selected:
        """A query inside another, which may refer to the outer one's columns."""
        ...

    def scalar(self, node: exp.Expression, scope: Scope) -> Typed:
        """A subquery as one value."""
        ...

"""The limits of compiling one statement: nodes, generated text, and what SQLite itself will expand.

A statement is refused before it exceeds them, and compiling one in a thread ends as soon as its client has gone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from embedded.compile.errors import SqlError, unsupported
from rewriter.errors import RewriteError

TOKENS_MAX = 50_000
"""Words, marks of literals and signs of a statement, the rows of INSERT ... VALUES apart: an IN of 25,000 numbers has
as many. Reading them takes some seconds in a thread, which nothing interrupts."""

NODES_MAX = 250_000
"""Expressions compiled for one statement, those of its views and defaults included: some seconds."""

TEXT_MAX = 4 << 20
"""Characters of generated SQL. SQLite takes some twenty bytes for each of them while it prepares the statement."""

COPIED_MAX = 8 << 20
"""Characters that SQLite expands where derived tables and common table expressions are named: it replaces each name by
its expression, every time."""

_TOKEN = re.compile(r"\x01[^\x02]*\x02|[\w$]+|[^\s\w]")


@dataclass(eq=False, slots=True)
class CompileBudget:
    """What a compilation has used. `stop` ends it from another thread."""

    stopped: bool = False
    nodes: int = 0
    copied: int = 0

    def stop(self) -> None:
        """No client waits for the statement any more."""
        self.stopped = True

    def reset(self) -> None:
        """Another row of the same statement, which has a plan of its own."""
        self.nodes = self.copied = 0

    def add_node(self) -> None:
        """One more expression.

        Raises:
            UnsupportedSql: there are too many.
            SqlError: 1317 it was stopped.
        """
        if self.stopped:
            raise SqlError(1317, "Query execution was interrupted")
        self.nodes += 1
        if self.nodes > NODES_MAX:
            raise too_large(f"more than {NODES_MAX} expressions, those of its views included")

    def add_copied(self, characters: int) -> None:
        """A name is replaced by an expression of so many characters."""
        self.copied += characters
        if self.copied > COPIED_MAX:
            raise too_large(f"more than {COPIED_MAX} characters where its derived tables are written out")


def check_text(sql: str) -> None:
    """Raises UnsupportedSql where the generated text is too long."""
    if len(sql) > TEXT_MAX:
        raise too_large(f"more than {TEXT_MAX} characters in SQLite's words")


def check_tokens(shape: str) -> None:
    """Raises UnsupportedSql where the statement, without its literals, is too long to be read."""
    if len(shape) <= TOKENS_MAX:
        return
    for count, _ in enumerate(_TOKEN.finditer(shape)):
        if count >= TOKENS_MAX:
            raise too_large(f"more than {TOKENS_MAX} words and signs")


def too_large(what: str) -> RewriteError:
    return unsupported(f"a statement of {what}", "split it")

"""The owner of a mark: the comment that makes a table a queue or a topic contains the table's name.

CREATE TABLE ... LIKE, and tools that change a table through a copy, copy the comment too. A table whose comment names
another one is a copy, or was renamed, and is no queue until ALTER QUEUE writes its name again. A comment without a
name, from an earlier version or written manually, is valid for any table. When a client's statement renames a queue,
its name is updated immediately; a tool that replaces a queue by a copy leaves the old table without a mark of its own.
"""

from __future__ import annotations

import hashlib
from urllib.parse import unquote

from engine.model.option_values import escaped
from engine.model.queue import QueueCatalog, QueueName, QueueSpec, TopicSpec

NAME_KEY = "queuegate_table"
"""Before the name, in a comment."""

_SHOWN_MAX = 64  # a comment has room for 2048 characters in all, and a name may have 768 when it is escaped
_DIGEST = ":"  # in no escaped name
_DIGEST_CHARACTERS = 16


def marked_for(comment: str, table: str) -> str:
    """The comment as that of the table of this name."""
    pieces = [piece.strip() for piece in comment.split(",")]
    return ",".join(
        (*(piece for piece in pieces if piece.partition("=")[0] != NAME_KEY), f"{NAME_KEY}={_written(table)}")
    )


def is_copied(comment: str, table: str) -> bool:
    """Whether the comment names another table. Servers may keep a name in small letters."""
    named = _named(comment)
    return named is not None and _folded(named) not in (_folded(_written(table)), _written(table.lower()))


def copied_from(comment: str, table: str) -> str | None:
    """Why a table with a copied comment is no queue and no topic, and what makes it one; None where it is its own."""
    if not is_copied(comment, table):
        return None
    named = _named(comment) or ""
    other = "another table" if named.startswith(_DIGEST) else f"'{unquote(named)}'"
    return f"it is a copy of {other}, or was called so; ALTER QUEUE or ALTER TOPIC makes it one of its own"


def renamed(before: QueueCatalog, after: QueueCatalog) -> list[QueueSpec | TopicSpec]:
    """The tables that a statement between these two catalogs has only renamed: new tables with the mark of a table that
    is gone."""
    gone = [name for name in (*before.queues, *before.topics) if not _is_there(after, name)]
    new = [copy for name, copy in after.copies.items() if name not in before.copies]
    copies_of_gone = [[copy for copy in new if not is_copied(copy.comment, name.table)] for name in gone]
    return [copies[0] for copies in copies_of_gone if len(copies) == 1]


def _is_there(catalog: QueueCatalog, name: QueueName) -> bool:
    return name in catalog.queues or name in catalog.topics or name in catalog.rejected


def _named(comment: str) -> str | None:
    names = [
        value for key, _, value in (piece.strip().partition("=") for piece in comment.split(",")) if key == NAME_KEY
    ]
    return names[-1] if names else None


def _written(table: str) -> str:
    name = escaped(table)
    if len(name) <= _SHOWN_MAX:
        return name
    return _DIGEST + hashlib.sha256(table.lower().encode()).hexdigest()[:_DIGEST_CHARACTERS]


def _folded(written: str) -> str:
    return unquote(written).lower()

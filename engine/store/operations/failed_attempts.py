"""Failed attempts of messages that this transaction has locked, added to the record in their rows.

A NACK records its attempt itself, in one UPDATE (rewriter.plans.failed_attempts). This is for failures without a
report: an expired lease, a receiver whose connection has ended. Blocking; runs in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.backend.base import StoreConnection
from engine.model.attempts import with_failure
from engine.model.identity import from_text, id_kind
from engine.model.queue import ATTEMPTS_COLUMN, MessageId, QueueSpec
from engine.store.operations.due_messages import id_column, not_null
from engine.store.statements.queue import QueueStatements

_CHARACTERS_AT_ONCE = 200_000
"""In one UPDATE, so that it stays below the least max_allowed_packet that servers are run with (1 MiB)."""

_MESSAGES_AT_ONCE = 200  # its CASE is searched row by row, so the cost grows with the square


def note(
    connection: StoreConnection, statements: QueueStatements, queue: QueueSpec, failed: Mapping[MessageId, str]
) -> None:
    """Add to each message the object of its failure (engine.model.attempts.failure)."""
    most = queue.attempts_stored
    if not failed or not most:
        return
    id_, stored = id_column(queue), queue.column(ATTEMPTS_COLUMN)
    assert stored is not None
    kind = id_kind(id_)
    rows = connection.query_text(statements.failed_attempts(len(failed)), list(failed), (id_, stored))
    before = {
        from_text(kind, not_null(row[0])): None if row[1] is None else row[1].decode("utf-8", "replace") for row in rows
    }
    texts = {id_: with_failure(text, failed[id_], most) for id_, text in before.items()}
    for part in _parts(texts):
        cases = [value for pair in part.items() for value in pair]
        connection.execute(statements.note_failed(len(part)), (*cases, *part))


def _parts(texts: Mapping[MessageId, str]) -> Iterator[dict[MessageId, str]]:
    """As many as one statement takes, each time."""
    part: dict[MessageId, str] = {}
    characters = 0
    for id_, text in texts.items():
        if part and (characters + len(text) > _CHARACTERS_AT_ONCE or len(part) >= _MESSAGES_AT_ONCE):
            yield part
            part, characters = {}, 0
        part[id_] = text
        characters += len(text)
    if part:
        yield part

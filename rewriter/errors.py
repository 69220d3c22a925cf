"""What the rewriter refuses, with MySQL's number."""

from __future__ import annotations

from engine.model.errors import ClientError
from engine.model.option_values import NAME_CHARACTERS
from engine.model.queue import QueueName


class RewriteError(ClientError):
    """A statement that cannot be planned."""


class SqlSyntaxError(RewriteError):
    """The text does not follow the grammar; the message quotes the text near the error, as MySQL does."""

    errno = 1064


class UnsupportedSql(RewriteError):
    """Valid SQL that this backend or version cannot do; the message contains what to do instead."""

    errno = 1235


class InsertOfDump(UnsupportedSql):
    """What the proxy alone writes: ids and numbers of a topic, messages of a group. A dump has it, too."""


class GroupExists(RewriteError):
    """A topic has a consumer group of that name. Names differ by more than case."""

    errno = 1050


class IncorrectName(RewriteError):
    """No database takes this as the name of a table."""

    def __init__(self, name: str) -> None:
        if len(name) > NAME_CHARACTERS:
            super().__init__(f"Identifier name '{name}' is too long", 1059)
        else:
            super().__init__(f"Incorrect table name '{name}'", 1103)


class StreamIsNoTable(UnsupportedSql):
    """A stream inside another statement, or probed with a condition that reads no message. Programs that do so assume a
    table, whose rows may be read again and discarded; the rows of a stream are messages."""

    def __init__(self) -> None:
        super().__init__(
            "A stream cannot be read through a subquery or as a JDBC table, which are probed, read again and thrown "
            "away; send SELECT ... FROM STREAM by itself, or from Spark use the format 'queuegate' (docs/spark.md)"
        )


class StreamNotExplained(UnsupportedSql):
    """EXPLAIN of a stream, which the database has no plan for."""

    def __init__(self) -> None:
        super().__init__(
            "EXPLAIN of a stream is not supported: it is no table. EXPLAIN DELIVERY FOR q tells why a message is not"
            " delivered, EXPLAIN SELECT ... FROM q how the queue's table is read"
        )


class UnknownQueue(RewriteError):
    """No queue of that name. Whether there is an ordinary table instead, only the database knows: ask it for `queue`.

    `perhaps_alias`: the text is also plain SQL, `FROM stream alias`; if there is a table called `stream` in the queue's
    database, that is meant.
    """

    errno = 1146

    def __init__(self, message: str, queue: QueueName | None = None, *, perhaps_alias: bool = False) -> None:
        super().__init__(message)
        self.queue = queue
        self.perhaps_alias = perhaps_alias


class NotAQueueTable(RewriteError):
    """The name is an ordinary table."""

    errno = 1347


class NoDatabaseSelected(RewriteError):
    """An unqualified queue name and no current database."""

    errno = 1046


class IncorrectId(RewriteError):
    """A message id that the queue's key cannot hold."""

    errno = 1366

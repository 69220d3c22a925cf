"""Every statement that the store runs for the stored history of topics. Values are bound, never spliced."""

from __future__ import annotations

from engine.model.queue import QueueName
from engine.model.trace_event import TRACES_TABLE
from engine.store.statements.dialect import Dialect

COLUMNS = (
    "queue_name",
    "message_id",
    "process",
    "number",
    "time_at",
    "event",
    "certain",
    "attempt",
    "connection_id",
    "user_name",
    "host",
    "consumer",
    "pid",
    "reason",
    "place",
)
"""Of the table, in order. `process` and `number` are of no other event; `place` is the process, to be read."""

INSERTED_MAX = 200
"""Rows of one INSERT: 3,000 values."""


def create_traces(database: str) -> str:
    """The definition of that table, in MySQL's syntax. The primary key is for queries of one message; by_time
    serves the newest events of a queue, and cleaning."""
    text = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    return (
        f"CREATE TABLE IF NOT EXISTS {QueueName(database, TRACES_TABLE).sql} ("
        f"queue_name VARCHAR(64) {text} NOT NULL, message_id BIGINT NOT NULL, "
        f"process VARCHAR(32) {text} NOT NULL, number BIGINT NOT NULL, time_at BIGINT NOT NULL, "
        f"event VARCHAR(32) {text} NOT NULL, certain TINYINT NOT NULL, attempt BIGINT, connection_id BIGINT, "
        f"user_name VARCHAR(255) {text}, host VARCHAR(255) {text}, consumer VARCHAR(255) {text}, pid BIGINT, "
        f"reason VARCHAR(1000) {text}, place VARCHAR(255) {text} NOT NULL, "
        "PRIMARY KEY (queue_name, message_id, process, number), KEY by_time (queue_name, time_at)"
        ") ENGINE=InnoDB COMMENT='queuegate: what happened to messages of topics'"
    )


class TraceStatements:
    """The texts for the table of one database."""

    def __init__(self, dialect: Dialect, database: str) -> None:
        table, columns = dialect.gate.own(database, TRACES_TABLE), ", ".join(COLUMNS)
        self.proof = table.proof
        """Sent before `insert`."""

        self._insert = f"INSERT INTO {table.target} ({columns}) VALUES "
        of_queue = f"FROM {table} WHERE queue_name = ?"

        self.of = f"SELECT {columns} {of_queue} AND message_id = ? ORDER BY time_at DESC, number DESC LIMIT ?"
        """What happened to a message, the last things first."""

        self.newest = f"SELECT {columns} {of_queue} AND time_at >= ? ORDER BY time_at DESC LIMIT ?"
        """What happened last to messages of a queue, since a time."""

        self.next_queue = f"SELECT MIN(queue_name) FROM {table} WHERE queue_name > ?"
        """The next queue of which there is something."""

        self.old = f"SELECT time_at {of_queue} AND time_at < {dialect.now_ns} - ? ORDER BY time_at LIMIT ?"
        """The times of a queue's first events, as far as they are older than so much."""

        self.delete = table.delete("queue_name = ? AND time_at <= ?")
        """A queue's events up to a time."""

    def insert(self, count: int) -> str:
        """Write so many events."""
        row = f"({', '.join('?' for _ in COLUMNS)})"
        return self._insert + ", ".join([row] * count)

"""The table `queuegate_dead_letters`: which queues may have their dead letters in which others. MySQL and MariaDB only.

It is in the database of the backend's URL, made by the engine's account. A row without names says that what was in the
comments of tables before it was made has been taken over.
"""

from __future__ import annotations

from engine.store.statements.mysql import MYSQL

_TABLE = MYSQL.gate.own("", "queuegate_dead_letters")
_NAME = "VARCHAR(64) NOT NULL"

MAKE_TABLE = (
    f"CREATE TABLE IF NOT EXISTS {_TABLE.target} (db {_NAME}, queue_name {_NAME}, dead_letter {_NAME},"
    " PRIMARY KEY (db, queue_name, dead_letter)"
    ") ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
)
"""One row for each dead-letter queue that was named by who may add to it."""

PROOF = _TABLE.proof
"""Comes before ADD."""

ADD = f"REPLACE INTO {_TABLE.target} (db, queue_name, dead_letter) VALUES (?, ?, ?)"

HAS = f"SELECT 1 FROM {_TABLE} WHERE db = ? AND queue_name = ? AND dead_letter = ?"

ALL = f"SELECT db, queue_name, dead_letter FROM {_TABLE}"

FORGET = _TABLE.delete("db = ? AND queue_name = ?")
"""All of one queue."""

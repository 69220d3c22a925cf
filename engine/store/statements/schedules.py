"""Every statement the store runs for schedules; what a schedule is is in engine.model.schedules."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.schedules import (
    ALL_COLUMNS,
    SCHEDULES_MARK,
    SCHEDULES_TABLE,
    SUMMARY_COLUMNS,
    VALUES_MAX_BYTES,
    schedules_table,
)
from engine.store.statements.dialect import Dialect

WAITING_MAX = 10_000
"""Schedules of a database in memory, the first to tick. Later reads load the next ones."""

OVERDUE_MAX = 1000
"""Additional schedules with missed ticks: so these never displace the others, however many there are."""

_TEXT_MAX = 4096
_LONGEST = {"name": 256, "row_values": VALUES_MAX_BYTES, "column_names": VALUES_MAX_BYTES}
"""Bytes of a column that are read; a longer value counts as NULL. The table may be created manually."""

LISTED_MAX = 10_000
"""Schedules of a database that are shown."""


def create_schedules(database: str) -> str:
    """The definition of the table, in MySQL's syntax. Names compare exactly."""
    exact = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    return (
        f"CREATE TABLE IF NOT EXISTS {schedules_table(database).sql} ("
        f"name VARCHAR(64) {exact} NOT NULL PRIMARY KEY, queue_name VARCHAR(64) {exact} NOT NULL, "
        f"cron VARCHAR(255) {exact}, every_ns BIGINT, time_zone VARCHAR(64) {exact}, "
        f"column_names TEXT {exact} NOT NULL, row_values MEDIUMTEXT {exact} NOT NULL, "
        f"missed VARCHAR(8) {exact} NOT NULL, paused TINYINT NOT NULL DEFAULT 0, "
        "next_tick BIGINT NOT NULL, last_tick BIGINT, "
        f"problem VARCHAR(1000) {exact}, created_by VARCHAR(300) {exact} NOT NULL, "
        "time_created BIGINT NOT NULL, time_changed BIGINT NOT NULL, KEY by_tick (paused, next_tick)"
        f") ENGINE=InnoDB COMMENT='{SCHEDULES_MARK}: messages that recur'"
    )


def _bounded(columns: Sequence[str]) -> str:
    """Columns as they are read."""
    return ", ".join(f"CASE WHEN LENGTH({c}) <= {_LONGEST.get(c, _TEXT_MAX)} THEN {c} END" for c in columns)


class ScheduleStatements:
    """The texts for one database."""

    def __init__(self, dialect: Dialect, database: str) -> None:
        table, now = dialect.gate.own(database, SCHEDULES_TABLE), dialect.now_ns
        self._table, self._dialect = table, dialect

        self.now = f"SELECT {now}"

        self.exists = f"SELECT 1 FROM {table} LIMIT 0"
        """Fails if the table is not there."""

        ticks = f"SELECT {_bounded(('name',))}, next_tick, problem IS NOT NULL FROM {table} WHERE paused = 0"

        self.waiting = f"{ticks} AND next_tick > ? ORDER BY next_tick LIMIT {WAITING_MAX}"
        """What ticks next."""

        self.late = f"{ticks} AND next_tick <= ? ORDER BY problem IS NOT NULL, next_tick LIMIT {OVERDUE_MAX}"
        """What should have ticked long ago; what cannot be sent stays, so it is last."""

        self.listed = f"SELECT {_bounded(SUMMARY_COLUMNS)} FROM {table} ORDER BY name LIMIT {LISTED_MAX}"

        self.advance = (
            f"UPDATE {table} SET next_tick = ?, last_tick = COALESCE(?, last_tick), problem = NULL"
            " WHERE name = ? AND next_tick = ? AND time_changed = ? AND paused = 0"
        )
        """The guard: of several that read the same tick, one changes the row."""

        self.note = f"UPDATE {table} SET problem = ? WHERE name = ? AND (problem IS NULL OR problem <> ?)"

        self.forget = table.delete("queue_name = ?")
        """The schedules of a dropped queue."""

    def due(self, count: int) -> str:
        """The due ones of so many schedules by name, with the content of their messages."""
        return (
            f"SELECT {_bounded(ALL_COLUMNS)} FROM {self._table} WHERE name IN ({', '.join('?' * count)})"
            f" AND paused = 0 AND next_tick <= {self._dialect.now_ns}"
        )

    def lock(self, count: int) -> str:
        """Lock those that are not locked; a client may have locked some."""
        return f"SELECT name FROM {self._table} WHERE name IN ({', '.join('?' * count)}) {self._dialect.skip_locked}"

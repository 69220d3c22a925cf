"""The statements on the queue for archiving, as required by docs/archive.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import pymysql

from spark_connector.client.columns import spark_type
from spark_connector.client.connection import LOCK_WAIT, Client, to_connector_error
from spark_connector.client.queue import Queue, describe
from spark_connector.jobs.archive.intervals import BUCKET_NS, Interval
from spark_connector.jobs.failures import JobError
from spark_connector.mysql_client.driver import error_number, escaped

MAKE_TABLE = (
    "CREATE TABLE IF NOT EXISTS queuegate_archive"
    " (queue VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,"
    " archived_until BIGINT NOT NULL) ENGINE=InnoDB"
)
_OWN_ROW = "CONVERT(queue USING utf8mb4) COLLATE utf8mb4_bin = %s"  # an older table may take two names for equal
_WITHIN = "time_acked > %s AND time_acked <= %s"


@dataclass(frozen=True)
class Tally:
    """The count of an interval's messages, and the sum of the CRC-32 of `id:time_acked` of each."""

    count: int
    checksum: int


class ArchivedQueue:
    """A queue whose acked messages are archived, on its own connection. A lock allows one archive job at a time.

    The lock belongs to the connection: if that is lost, the next statement fails, and the run with it.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.queue: Queue = describe(client, name)
        self._check_queue()
        self._lock = f"queuegate_archive.{client.address.database}.{name}"[:64]
        if client.value("SELECT GET_LOCK(%s, 0)", (self._lock,)) != 1:
            raise JobError(f"another job archives queue {name} at this moment: wait until it has ended")

    def _check_queue(self) -> None:
        if self.queue.is_topic or self.queue.topic is not None:
            raise JobError(
                f"{self.queue.name} has no acked messages to archive: what is in a topic stays until it is deleted;"
                " copy a range of it by spark.read with startingOffsets and endingOffsets"
            )
        if self.queue.options.get("archive") != "1":
            raise JobError(
                f"queue {self.queue.name} is purged without waiting for its archive; first: "
                f"ALTER QUEUE {self.queue.quoted} SET (archive = 1)"
            )
        for name in ("id", "time_acked"):
            self.queue.column(name)

    def check_lock(self) -> None:
        """Checks that this connection still has the lock. Raises JobError."""
        if not self._client.value("SELECT IS_USED_LOCK(%s) = CONNECTION_ID()", (self._lock,)):
            raise JobError(f"the lock on the archive of queue {self.queue.name} was lost: run the job again")

    def archived_until(self) -> int:
        """The time up to which the queue is archived, unix nanoseconds; 0 at first. Raises JobError."""
        self._client.execute(MAKE_TABLE)
        self._client.execute(
            "INSERT IGNORE INTO queuegate_archive (queue, archived_until) VALUES (%s, 0)", (self.queue.name,)
        )
        rows = self._client.rows(f"SELECT archived_until FROM queuegate_archive WHERE {_OWN_ROW}", (self.queue.name,))
        if not rows:
            raise JobError(
                f"queuegate_archive takes the name of queue {self.queue.name} for that of another: ALTER TABLE"
                " queuegate_archive MODIFY queue VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
            )
        return int(rows[0][0])

    def now_ns(self) -> int:
        """The database's clock."""
        return self._client.now_ns()

    def buckets(self, interval: Interval) -> list[tuple[int, int]]:
        """Messages by the minute of their ack, as far as visible without waiting for locks."""
        rows = self._client.rows(
            f"SELECT time_acked DIV {BUCKET_NS} AS minute, COUNT(*) FROM {escaped(self.queue.name)} WHERE {_WITHIN} "
            "GROUP BY minute ORDER BY minute",
            (interval.after, interval.until),
        )
        return [(int(minute), int(count)) for minute, count in rows]

    def tally(self, interval: Interval, keep_waiting: Callable[[], bool]) -> Tally:
        """The tally of the interval, once every transaction that has acked in it has ended.

        A locking read waits for transactions that have changed a row. After a lock timeout it is repeated as long as
        `keep_waiting` returns true. Raises JobError.
        """
        while True:
            try:
                count, checksum = self._client.rows(self._tally_sql(), (interval.after, interval.until))[0]
                return Tally(int(count), int(Decimal(checksum or 0)))
            except pymysql.Error as error:
                if error_number(error) != LOCK_WAIT:
                    raise to_connector_error(error, self._client.address) from error
                if not keep_waiting():
                    raise JobError(
                        f"an open transaction holds acked messages of queue {self.queue.name}: nothing is archived "
                        "before it ends. Look at SHOW PROCESSLIST, or give a longer --wait"
                    ) from error

    def _tally_sql(self) -> str:
        table, text = escaped(self.queue.name), "CONCAT(id, ':', time_acked)"
        if spark_type(self.queue.column("id")) != "binary":
            text = f"CONVERT({text} USING utf8mb4)"
        return f"SELECT COUNT(*), SUM(CRC32({text})) FROM {table} WHERE {_WITHIN} LOCK IN SHARE MODE"

    def advance(self, interval: Interval) -> None:
        """Records that the interval is archived: from now on the proxy may purge it. Raises JobError."""
        changed = self._client.execute(
            f"UPDATE queuegate_archive SET archived_until = %s WHERE {_OWN_ROW} AND archived_until = %s",
            (interval.until, self.queue.name, interval.after),
        )
        if changed != 1:
            raise JobError(
                f"somebody else has changed archived_until of queue {self.queue.name} meanwhile: "
                f"{interval.name} is in the archive and not counted; see docs/spark-jobs.md"
            )

"""Records of the checkpoints of a queue's streaming queries, in a table of the queue's database.

An ack is final, so a checkpoint cannot be rolled back: with an older state of it Spark numbers its micro-batches again
from a number that the sink has had already, the sink skips them, and the source would ack their messages. Many sinks do
so (files with `_spark_metadata`, Delta's txnVersion, a foreachBatch that remembers the last number), so the source has
to detect it. A checkpoint is identified by the group of claims in its offsets. Its columns:

    done_upto   all claims up to this one are done, as reported by Spark. A checkpoint that is behind it is refused.
    read_upto   a task has read a micro-batch that ended there. Claims that no task has read are not acked.
    run         the process that owns it. A process that starts takes it over: of two, the first one ends. It has the
                claim up to which that process has redelivered, too: an answer may be lost, and once must be enough.
    query_id    the query and the number of the micro-batch that was read last, by Spark's numbering: a query whose
    batch_id    offsets were deleted has a new group, and starts from 0 again.

Each function is one step of a transaction of its caller, or one statement.
"""

from __future__ import annotations

from collections.abc import Callable

from spark_connector.client.connection import NOW_US, Client
from spark_connector.client.queue import Queue
from spark_connector.client.table_names import companion_table
from spark_connector.errors import CheckpointError
from spark_connector.mysql_client.driver import escaped, quoted

PREFIX = "queuegate_spark_checkpoints_"
RETENTION_SECONDS = 400 * 86400.0
"""Since its last use: longer than backups are retained. There is one row for each checkpoint."""

_NOW = f"{NOW_US} * 1000"
_TABLE_EXISTS = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s"
_DEFINITION = """
(grp VARCHAR(200) NOT NULL PRIMARY KEY, done_upto BIGINT NOT NULL, read_upto BIGINT NOT NULL,
run VARCHAR(64) NOT NULL, query_id VARCHAR(64) NULL, batch_id BIGINT NULL, time_read BIGINT NULL,
time_made BIGINT NOT NULL, time_used BIGINT NOT NULL, KEY query_id (query_id)) ENGINE=InnoDB"""
_START_OVER = (
    "Begin with a new checkpointLocation, and give the sink a new identity with it: a file sink a new folder,"
    " foreachBatch a new txnAppId"
)
_BEHIND = (
    "{}: the checkpoint stands at claim {}, and Spark has said that all up to {} is done: this is an older state of it,"
    " restored from a backup, copied, or without the newest files of its folder offsets. Acks are final, so it cannot"
    " go on from there: its sink would pass over new messages, as micro-batches that it has had. Nothing was claimed or"
    " acked. " + _START_OVER
)
_TAKEN_OVER = (
    "{}: another query has begun from the same checkpoint, or from a copy of it, while this one ran. This one ends, and"
    " acks nothing more. Give each query a checkpointLocation of its own"
)
_UNREAD = (
    "{}: Spark says that the micro-batch up to claim {} is done, and no task has read it: the sink passed over it, as"
    " one does whose own log (_spark_metadata of a folder of files, txnVersion) has a micro-batch of this number from"
    " another checkpoint. Nothing was acked. "
    + _START_OVER
    + ". If the query throws messages away without reading them, say"
    " onUnread=ack"
)
_REPEATED = (
    "{}: micro-batch {} of the query {} was read before, with other messages, and the last one was {}: files of its"
    " checkpoint's folder offsets were deleted. Its sink may take these messages for those of before. Nothing was"
    " acked. " + _START_OVER
)


class Checkpoints:
    """The row of one checkpoint. `run`: the process that owns it; tasks have no run."""

    def __init__(self, queue: Queue, group: str, run: str = "") -> None:
        self._queue, self._group, self._run = queue, group, run
        self._table = escaped(table_name(queue.name))

    def join(self, client: Client, after: int, upto: int | None = None) -> None:
        """A process starts: after claim `after`, or, with `upto`, with a repetition of the micro-batch between the two.
        Raises CheckpointError.

        An unknown checkpoint is accepted as it is: it is older than this table, or very old.
        """
        row = client.row(f"SELECT done_upto FROM {self._table} WHERE grp = %s FOR UPDATE", (self._group,))
        if row is None:
            client.execute(
                f"INSERT INTO {self._table} (grp, done_upto, read_upto, run, time_made, time_used)"
                f" VALUES (%s, %s, %s, %s, {_NOW}, {_NOW})",
                (self._group, after, after, self._run),
            )
            return
        done = int(row[0])
        # The last micro-batch may be acked and still be repeated: its end is logged after it is done.
        if done > after and done != upto:
            raise CheckpointError(_BEHIND.format(self._queue.label, after, done))
        client.execute(
            f"UPDATE {self._table} SET run = %s, time_used = {_NOW} WHERE grp = %s", (self._run, self._group)
        )

    def advance(self, client: Client, done: int, claims: str, *, unread: bool) -> None:
        """Spark reports that all claims up to that one are done: now they may be acked. Raises CheckpointError.

        `claims`: the name of their table, for a statement with placeholders. `unread`: also if no task has read them.
        """
        moved = f"UPDATE {self._table} SET done_upto = %s, time_used = {_NOW} WHERE grp = %s AND run = %s"
        values = (done, self._group, self._run)
        if client.execute(f"{moved} AND done_upto <= %s AND read_upto >= %s", (*values, done, done)):
            return
        row = client.row(
            f"SELECT done_upto, read_upto, run, EXISTS (SELECT 1 FROM {claims} AS c WHERE c.grp = p.grp AND c.seq = %s)"
            f" FROM {self._table} AS p WHERE grp = %s",
            (done, self._group),
        )
        if row is None or row[2] != self._run:
            raise CheckpointError(_TAKEN_OVER.format(self._queue.label))
        if int(row[0]) > done:
            raise CheckpointError(_BEHIND.format(self._queue.label, done, row[0]))
        # If the claim does not exist, it had no messages, or the database is older than the checkpoint.
        if int(row[1]) < done and row[3] and not unread:
            raise CheckpointError(_UNREAD.format(self._queue.label, done))
        client.execute(moved, values)

    def check_owner(self, client: Client) -> None:
        """Checks that no other process owns it, until the transaction ends. Raises CheckpointError."""
        row = client.row(f"SELECT run FROM {self._table} WHERE grp = %s LOCK IN SHARE MODE", (self._group,))
        if row is None or row[0] != self._run:
            raise CheckpointError(_TAKEN_OVER.format(self._queue.label))

    def redeliver(self, client: Client, upto: int, deliver: Callable[[], None]) -> None:
        """Calls `deliver` for a micro-batch of another process, unless an attempt without an answer has done so.
        `redelivered` is to follow the commit. Raises CheckpointError."""
        row = client.row(f"SELECT run FROM {self._table} WHERE grp = %s FOR UPDATE", (self._group,))
        after = self._run_after(upto)
        if row is None or row[0] not in (self._run, after):
            raise CheckpointError(_TAKEN_OVER.format(self._queue.label))
        if row[0] == self._run:
            deliver()
            client.execute(f"UPDATE {self._table} SET run = %s WHERE grp = %s", (after, self._group))

    def redelivered(self, upto: int) -> None:
        """The transaction of `redeliver` is committed."""
        self._run = self._run_after(upto)

    def _run_after(self, upto: int) -> str:
        return f"{self._run.partition('/')[0]}/{upto}"

    def note_read(self, client: Client, upto: int, query: str | None, batch: int | None) -> None:
        """A task reads the micro-batch that ends with that claim; `query` and `batch` are Spark's. Raises
        CheckpointError if the query has had that number with other messages."""
        if query is not None and batch is not None:
            had = client.value(
                f"SELECT MAX(o.batch_id) FROM {self._table} AS o JOIN {self._table} AS own ON own.grp = %s"
                " WHERE o.query_id = %s AND (o.batch_id > %s OR (o.batch_id = %s AND o.time_read < own.time_made))",
                (self._group, query, batch, batch),
            )
            if had is not None:
                raise CheckpointError(_REPEATED.format(self._queue.label, batch, query, had))
        client.execute(
            f"UPDATE {self._table} SET read_upto = GREATEST(read_upto, %s), query_id = %s, batch_id = %s,"
            f" time_read = {_NOW} WHERE grp = %s",
            (upto, query, batch, self._group),
        )


def prepare(client: Client, queue: Queue) -> None:
    """Create the table if it is missing. An account without the right to create tables can use an existing one."""
    name = table_name(queue.name)
    if client.row(_TABLE_EXISTS, (name,)) is None:
        client.execute(f"CREATE TABLE IF NOT EXISTS {quoted(name)} {_DEFINITION}")


def clean(client: Client, queue: Queue, before: int) -> int:
    """Delete checkpoints that were not used since that time (ns); returns how many."""
    return client.execute(f"DELETE FROM {escaped(table_name(queue.name))} WHERE time_used < %s", (before,))


def table_name(queue: str) -> str:
    """The name of the table for the checkpoints of a queue's queries."""
    return companion_table(PREFIX, queue)

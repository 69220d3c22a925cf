"""The log of publications: a table with a row for each writer, updated in the transaction that publishes.

So a write whose commit is repeated, or whose first commit had an unknown outcome, is recognized by its row. As in
Delta's transactions a writer's versions only grow. Only the last version can be repeated, by a writer that did not get
the answer, and then with the same rows. A lower version with rows, or the last one with more rows than before, is
another write with a used number: the checkpoint was rolled back, or a new one uses an old name. Skipping its rows would
lose them, so it is an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_connector.client.connection import Client
from spark_connector.errors import WriteError
from spark_connector.mysql_client.driver import quoted

LOG = "queuegate_spark_log"
_DAY = 86_400 * 10**9  # ns
RETENTION_NS = 90 * _DAY  # after the writer's last publication: longer than any replay
JOB_RETENTION_NS = 2 * _DAY  # a job without a name is never replayed, only its commit may be repeated
_WRITER_BYTES = 600  # more than a txnAppId of 128 characters in UTF-8
_SWEPT = 100  # rows at a time

_DEFINITION = f"""
CREATE TABLE IF NOT EXISTS {quoted(LOG)} (
  queue VARBINARY(256) NOT NULL,
  writer VARBINARY({_WRITER_BYTES}) NOT NULL,
  version BIGINT NOT NULL,
  messages BIGINT NOT NULL,
  time_published BIGINT NOT NULL,
  time_expires BIGINT NOT NULL,
  PRIMARY KEY (queue, writer),
  KEY time_expires (time_expires)
) ENGINE=InnoDB"""


@dataclass(frozen=True)
class Publication:
    """A publication: the writer, and its version."""

    writer: str
    version: int
    retention_ns: int = RETENTION_NS  # ns
    named: bool = False  # the user may query by this name whether it was published, also without rows


def of_query(query: str, batch_id: int) -> Publication:
    """A micro-batch of a streaming query."""
    return Publication(f"query:{query}", batch_id)


def of_application(app: str, version: int) -> Publication:
    """A write with txnAppId and txnVersion."""
    return Publication(f"app:{app}", version, named=True)


def of_job(job: str) -> Publication:
    """A write that is never repeated, except for its commit."""
    return Publication(f"job:{job}", 0, JOB_RETENTION_NS)


def define(client: Client) -> None:
    """Creates the table if it is missing. Raises pymysql's errors."""
    client.execute(_DEFINITION)


def begin(client: Client, queue: str, what: Publication, now: int, rows: int, *, keyed: bool) -> bool:
    """Whether it is still to be published. Locks the writer's row until the transaction ends.

    `rows`: how many it has; `keyed`: the log may count fewer, only the new ones. Raises WriteError.
    """
    row = (queue.encode(), what.writer.encode())
    client.execute(
        f"INSERT INTO {quoted(LOG)} (queue, writer, version, messages, time_published, time_expires) "
        f"VALUES (%s, %s, -1, 0, 0, %s) ON DUPLICATE KEY UPDATE version = version",
        (*row, now + what.retention_ns),
    )
    query = f"SELECT version, messages FROM {quoted(LOG)} WHERE queue = %s AND writer = %s FOR UPDATE"
    version, messages = map(int, client.rows(query, row)[0])
    if version < what.version:
        return True
    if rows and (version > what.version or (rows > messages and not keyed)):
        raise WriteError(_refusal(what, rows, version, messages))
    return False


def _refusal(what: Publication, rows: int, version: int, messages: int) -> str:
    kind, name = what.writer.split(":", 1)
    if kind == "app":
        one, do = f"txnVersion {what.version} of txnAppId {name!r}", "give a txnVersion above it, or another txnAppId"
        of = "foreachBatch with a checkpoint that was restored or is new"
    else:
        one, do = f"micro-batch {what.version} of the query {name}", "begin with a new checkpointLocation"
        of = "a checkpoint that was restored, or of which files were deleted"
    if version > what.version:
        was = f"number {version} of it was published before: this is an older one with new rows, as of {of}"
    else:
        was = f"it was published before with {messages}: this is another write under the same number, as of {of}"
    return f"{one} has {rows} rows, and {was}. To pass over them would lose them; {do}"


def record(client: Client, queue: str, what: Publication, messages: int, now: int) -> None:
    """Records the publication; effective if the transaction is committed."""
    client.execute(
        f"UPDATE {quoted(LOG)} SET version = %s, messages = %s, time_published = %s, time_expires = %s "
        "WHERE queue = %s AND writer = %s",
        (what.version, messages, now, now + what.retention_ns, queue.encode(), what.writer.encode()),
    )


def sweep(client: Client, now: int) -> None:
    """Deletes some expired rows. They are searched without locks, so it does not wait for publications."""
    for row in client.rows(f"SELECT queue, writer FROM {quoted(LOG)} WHERE time_expires < %s LIMIT %s", (now, _SWEPT)):
        client.execute(f"DELETE FROM {quoted(LOG)} WHERE queue = %s AND writer = %s AND time_expires < %s", (*row, now))

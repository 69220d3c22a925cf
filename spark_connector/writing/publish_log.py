"""What was published: a table with a row for each writer, changed in the transaction that publishes.

So a write whose commit is repeated, or whose first commit had an outcome that nobody heard of, is known by its row.
As in Delta's transactions a writer's versions only grow. Only the last one can be repeated, by whoever did not hear
that it was published, and then it has the rows that it had. One below it with rows, or the last one with more rows than
it had, is another write under a number that is taken: a checkpoint that was rolled back, or a new one under an old
name. To pass over its rows would lose them, so it is an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_connector.client.connection import Client, quoted
from spark_connector.errors import WriteError

LOG = "queuegate_spark_log"
_DAY = 86_400 * 10**9  # ns
KEPT = 90 * _DAY  # since the writer last published: longer than anybody replays
KEPT_JOB = 2 * _DAY  # a job without a name of its own is never replayed, only its commit is
_WRITER_BYTES = 600  # a txnAppId of 128 characters, in UTF-8, and more
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
)"""


@dataclass(frozen=True)
class Publication:
    """What is published at once: who publishes, and its version."""

    writer: str
    version: int
    kept: int = KEPT  # ns
    named: bool = False  # somebody may ask by this name whether it was published, also where it has no rows


def of_query(query: str, batch_id: int) -> Publication:
    """A micro-batch of a streaming query."""
    return Publication(f"query:{query}", batch_id)


def of_application(app: str, version: int) -> Publication:
    """A write with txnAppId and txnVersion."""
    return Publication(f"app:{app}", version, named=True)


def of_job(job: str) -> Publication:
    """A write that nobody repeats, except for its commit."""
    return Publication(f"job:{job}", 0, KEPT_JOB)


def define(client: Client) -> None:
    """Makes the table where there is none. Raises pymysql's errors."""
    client.execute(_DEFINITION)


def begin(client: Client, queue: str, what: Publication, now: int, rows: int, *, keyed: bool) -> bool:
    """Whether it is still to be published. Until the transaction ends, no other of this writer gets past here.

    `rows`: how many it has; `keyed`: the log counts fewer of them, those that were new. Raises WriteError.
    """
    row = (queue.encode(), what.writer.encode())
    client.execute(
        f"INSERT INTO {quoted(LOG)} (queue, writer, version, messages, time_published, time_expires) "
        f"VALUES (%s, %s, -1, 0, 0, %s) ON DUPLICATE KEY UPDATE version = version",
        (*row, now + what.kept),
    )
    found = f"SELECT version, messages FROM {quoted(LOG)} WHERE queue = %s AND writer = %s FOR UPDATE"
    version, messages = map(int, client.rows(found, row)[0])
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
    """That it is published; holds if the transaction is committed."""
    client.execute(
        f"UPDATE {quoted(LOG)} SET version = %s, messages = %s, time_published = %s, time_expires = %s "
        "WHERE queue = %s AND writer = %s",
        (what.version, messages, now, now + what.kept, queue.encode(), what.writer.encode()),
    )


def sweep(client: Client, now: int) -> None:
    """Forgets some of those whose time is up. They are looked for without locks: nobody who publishes is waited for."""
    for row in client.rows(f"SELECT queue, writer FROM {quoted(LOG)} WHERE time_expires < %s LIMIT %s", (now, _SWEPT)):
        client.execute(f"DELETE FROM {quoted(LOG)} WHERE queue = %s AND writer = %s AND time_expires < %s", (*row, now))

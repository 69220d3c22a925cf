"""archive: acked messages to Parquet, by day of their ack, so that the proxy may purge them.

The order of steps ensures that each message is archived once (docs/archive.md, docs/spark-jobs.md): an interval is
counted under locks, staged, read back and compared, published by one rename, and only then recorded as archived. If a
run dies at any point, the next one repairs it: staged files are removed, published intervals are recorded as archived.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_connector.client.columns import spark_type
from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue
from spark_connector.jobs.archive.folder import DAY, INTERVAL, ArchiveFolder
from spark_connector.jobs.archive.intervals import DAY_NS, Interval, Slice, grouped, slices, uncounted
from spark_connector.jobs.archive.queue import ArchivedQueue, Tally
from spark_connector.jobs.archive.slices import frame_of
from spark_connector.jobs.console import SILENT, Console
from spark_connector.jobs.failures import JobError
from spark_connector.jobs.sessions import watched
from spark_connector.mysql_client.driver import quoted
from spark_connector.options import Address, queue_address

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MARGIN_SECONDS = 600.0
"""Longer than the lock timeout of a statement, and than the clock skew of clients that set time_acked themselves."""
WAIT_SECONDS = 600.0
ROWS_PER_FILE = 100_000
ROWS_PER_INTERVAL = 5_000_000
"""An interval is archived as a whole or not at all: a long run that fails loses at most this."""


@dataclass(frozen=True)
class Archived:
    """The result of a run. Times in unix nanoseconds."""

    queue: str
    path: str
    after: int  # archived up to here before
    until: int  # archived up to here now
    messages: int  # archived by this run
    recovered: tuple[str, ...]  # intervals that an earlier run had published but not counted


@dataclass(frozen=True)
class _Run:
    """The state shared by the steps of a run."""

    spark: SparkSession
    console: Console
    address: Address
    source: ArchivedQueue
    folder: ArchiveFolder
    wait_seconds: float


def archive(
    spark: SparkSession,
    options: Mapping[str, str],
    path: str,
    *,
    margin_seconds: float = MARGIN_SECONDS,
    wait_seconds: float = WAIT_SECONDS,
    rows_per_file: int = ROWS_PER_FILE,
    rows_per_interval: int = ROWS_PER_INTERVAL,
    console: Console = SILENT,
) -> Archived:
    """Archives what was acked up to `margin_seconds` ago and is not archived yet, into the folder `path`.

    `options`: the connector's options for the proxy and the queue. Raises ConnectorError.
    """
    at = queue_address(options)
    with Client(at.address) as client:
        folder = ArchiveFolder(spark, path)
        run = _Run(spark, console, at.address, ArchivedQueue(client, at.queue), folder, wait_seconds)
        _check_names(run.source.queue)
        folder.claim(at.address.database, run.source.queue.name)
        after, recovered = _recover(run)
        whole = Interval(after, max(after, run.source.now_ns() - round(margin_seconds * 1e9)))
        messages = 0
        if whole.until > after:
            parts = slices(run.source.buckets(whole), whole, rows_per_file)
            messages = sum(_archive(run, group) for group in grouped(parts, rows_per_interval))
        return Archived(at.queue, folder.folder.path, after, whole.until, messages, recovered)


def _check_names(queue: Queue) -> None:
    """Checks that the queue has no columns with the names of the archive's own columns."""
    for name in (DAY, INTERVAL):
        if queue.has(name):
            raise JobError(
                f"queue {queue.name} has a column {name}, which is the name of a folder's column in every archive: "
                f"ALTER TABLE {queue.quoted} RENAME COLUMN it first"
            )


def _recover(run: _Run) -> tuple[int, tuple[str, ...]]:
    """Repairs the state after failed runs: up to when the queue is archived, and the recovered intervals."""
    until = run.source.archived_until()
    run.folder.clean(until)
    left = uncounted(run.folder.published(), until, run.folder.folder.path)
    for interval in left:
        run.source.advance(interval)
        run.console.write_line(f"{interval.name} was archived by a run that ended before it said so: it counts now")
    return (left[-1].until if left else until), tuple(interval.name for interval in left)


def _archive(run: _Run, parts: Sequence[Slice]) -> int:
    """Archives one interval, from counting to recording; how many messages it has."""
    interval = Interval(parts[0].interval.after, parts[-1].interval.until)
    tally = _count(run, interval)
    if tally.count:
        _check_types(run)
        with run.folder.staged(interval) as target:
            written = _write(run, parts, target, tally.count)
            _verify(run, interval, target, tally, written)
            run.source.check_lock()
            run.folder.publish(interval)
    run.source.advance(interval)
    return tally.count


def _count(run: _Run, interval: Interval) -> Tally:
    deadline = time.monotonic() + run.wait_seconds
    with run.console.phase("counting, once open transactions have ended") as phase:
        tally = run.source.tally(interval, lambda: time.monotonic() < deadline)
        phase.count = tally.count
    return tally


def _check_types(run: _Run) -> None:
    """Checks that columns have the same types as in the archive, so that all files can be read together."""
    if not (published := run.folder.published()):
        return
    types = dict(run.folder.read(published[-1:]).dtypes)
    for column in run.source.queue.columns:
        if (was := types.get(column.name)) is not None and was != (now := spark_type(column)):
            raise JobError(
                f"column {column.name} of queue {run.source.queue.name} is {now} and was {was} when it was last "
                f"archived in {run.folder.folder.path}: archive into a new folder"
            )


def _write(run: _Run, parts: Sequence[Slice], target: str, total: int) -> int:
    """Writes the messages of the slices; the sum of their rows' hashes, computed while writing."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    observed = Observation()
    with run.console.phase("writing", total) as phase, watched(run.spark, phase):
        rows = frame_of(run.spark, run.address, run.source.queue, [part.interval for part in parts], phase)
        count, hashes = F.count(F.lit(1)).alias("n"), _hashes(rows).alias("h")
        dated = rows.observe(observed, count, hashes).withColumn(DAY, _day())
        dated.write.partitionBy(DAY).parquet(target)
        phase.count = int(observed.get["n"])
    return int(observed.get["h"] or 0)


def _verify(run: _Run, interval: Interval, target: str, tally: Tally, hashes: int) -> None:
    """Checks the files that were written: ids and times against the database's tally, all values against the hashes."""
    from pyspark.sql import functions as F

    with run.console.phase("reading back") as phase, watched(run.spark, phase):
        rows = run.spark.read.parquet(target).drop(DAY)
        row = rows.agg(F.count(F.lit(1)).alias("n"), _checksum(rows).alias("c"), _hashes(rows).alias("h")).first()
        assert row is not None
        phase.count = int(row["n"])
    if (int(row["n"]), int(row["c"] or 0)) != (tally.count, tally.checksum):
        raise JobError(
            f"{tally.count} messages were counted and {row['n']} written, or others, in {interval.name}: somebody "
            f"deleted or changed acked messages of queue {run.source.queue.name}. Nothing was archived; run it again"
        )
    if int(row["h"] or 0) != hashes:
        raise JobError(f"what was written to {target} reads otherwise than it was written: nothing was archived")


def _day() -> Column:
    from pyspark.sql import functions as F

    return F.expr(f"date_add(date'1970-01-01', cast(time_acked div {DAY_NS} as int))")


def _checksum(rows: DataFrame) -> Column:
    """The same checksum as the database's, of the rows read back."""
    from pyspark.sql import functions as F

    binary = dict(rows.dtypes)["id"] == "binary"
    id_ = F.col("id") if binary else F.encode(F.col("id").cast("string"), "UTF-8")
    rest = F.encode(F.concat(F.lit(":"), F.col("time_acked").cast("string")), "UTF-8")
    return F.sum(F.crc32(F.concat(id_, rest)))


def _hashes(rows: DataFrame) -> Column:
    """A sum over all rows, in any order, of a hash over all of their values."""
    from pyspark.sql import functions as F

    return F.sum(F.xxhash64(*[F.col(quoted(name)) for name in rows.columns]).cast("decimal(20,0)"))

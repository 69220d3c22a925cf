"""Computes a report from the rows of a queue and of its archive, as one DataFrame, or from those of a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from spark_connector.client.queue import Queue
from spark_connector.jobs.archive.folder import ArchiveFolder
from spark_connector.jobs.archive.intervals import Interval
from spark_connector.jobs.report.values import (
    ARCHIVED,
    BUCKETS,
    NS,
    PERCENTILES,
    STATES,
    Coverage,
    Latency,
    QueueReport,
    TopicReport,
    bucket_for,
    histogram,
    rates,
    top,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

_COLUMNS: Mapping[str, str] = {
    "time_created": "bigint", "time_scheduled": "bigint", "time_next": "bigint", "time_acked": "bigint",
    "epoch": "bigint", "last_error": "string",
}  # fmt: skip
TABLE, ARCHIVE = "its table", "its archive"
_BOTH = "both"  # a row of the table that is also in the archive
_PARKED = 2**63 - 2  # time_next of a parked message, by the proxy or by hand, is this or later
_ACCURACY = 10_000  # accuracy of percentiles: a ten-thousandth of the rank
_FAILURES_SHOWN = 20


@dataclass(frozen=True)
class Source:
    """Rows, and the name of their source."""

    name: str
    rows: DataFrame


def live(spark: SparkSession, options: Mapping[str, str], queue: Queue, archived: Sequence[Interval]) -> Source:
    """The queue's table; rows that are also in the archive's intervals are marked."""
    from pyspark.sql import functions as F

    existing = [name for name in _COLUMNS if queue.has(name)]
    schema = ", ".join(f"{name} {_COLUMNS[name]}" for name in existing)
    rows = spark.read.format("queuegate").schema(schema).options(**options, includeAcked="true").load()
    twice = F.lit(False)
    for interval in _joined(archived):
        twice = twice | ((F.col("time_acked") > interval.after) & (F.col("time_acked") <= interval.until))
    return Source(TABLE, _narrow(rows, F.when(twice, _BOTH).otherwise(TABLE)))


def archived(folder: ArchiveFolder, intervals: Sequence[Interval]) -> Source:
    """The messages of the archive's intervals."""
    from pyspark.sql import functions as F

    return Source(ARCHIVE, _narrow(folder.read(intervals), F.lit(ARCHIVE)))


def _joined(intervals: Sequence[Interval]) -> list[Interval]:
    """Adjacent intervals merged into one: an archive has thousands."""
    joined: list[Interval] = []
    for interval in sorted(intervals):
        if joined and joined[-1].until == interval.after:
            joined[-1] = Interval(joined[-1].after, interval.until)
        else:
            joined.append(interval)
    return joined


def _narrow(rows: DataFrame, place: Column) -> DataFrame:
    """The columns that a report needs; missing ones are NULL."""
    from pyspark.sql import functions as F

    existing = {name.lower() for name in rows.columns}
    columns = [(F.col(n) if n in existing else F.lit(None)).cast(kind).alias(n) for n, kind in _COLUMNS.items()]
    return rows.select(*columns, place.alias("place"))


def compute(
    queue: str, sources: Sequence[Source], dead: int, now_ns: int, known: Coverage, requested: str
) -> QueueReport:
    """All of a queue's numbers. `now_ns`: the database's clock; `known`: see Coverage; the first message is not
    considered yet."""
    from pyspark.sql import functions as F

    rows = reduce(lambda a, b: a.unionByName(b), (source.rows for source in sources)).persist()
    try:
        whole = _whole(rows, now_ns)
        first, last = whole["first"] or 0, whole["last"] or 0
        known = Coverage(max(known.since, first), known.until)
        bucket = bucket_for(known.since if known.since <= last else first, last, requested)
        once = rows.where(F.col("place") != _BOTH)
        names = [source.name for source in sources]
        states = (*(STATES if TABLE in names else ()), *((ARCHIVED,) if ARCHIVE in names else ()))
        return QueueReport(
            queue,
            tuple(names),
            {state: int(whole[state]) for state in states},
            dead,
            None if whole["oldest"] is None else max(0.0, (now_ns - whole["oldest"]) / NS),
            _latencies(whole),
            histogram({int(n): c for n, c in _groups(once, "epoch").items() if n is not None}),
            top({str(e): c for e, c in _groups(once, "last_error").items() if e is not None}, _FAILURES_SHOWN),
            bucket,
            rates(_by_time(once, "time_created", bucket), _by_time(once, "time_acked", bucket), bucket, known),
            known,
        )
    finally:
        rows.unpersist()


def compute_topic(
    spark: SparkSession, options: Mapping[str, str], name: str, now_ns: int, requested: str
) -> TopicReport:
    """All of a topic's numbers. Deleted messages are not included."""
    from pyspark.sql import functions as F

    reader = spark.read.format("queuegate").schema("id bigint, time_created bigint").options(**options)
    rows = reader.load().persist()
    try:
        id_, created = F.col("id"), F.col("time_created")
        totals = rows.agg(F.count(F.lit(1)), F.min(id_), F.max(id_), F.min(created), F.max(created)).first()
        assert totals is not None
        count, first_id, last_id, first, last = totals
        bucket = bucket_for(first or 0, last or 0, requested)
        known = Coverage(first or 0, now_ns)
        by_time = rates(_by_time(rows, "time_created", bucket), {}, bucket, known)
        oldest = None if first is None else max(0.0, (now_ns - first) / NS)
        return TopicReport(name, int(count), first_id, last_id, oldest, bucket, by_time, known)
    finally:
        rows.unpersist()


def _whole(rows: DataFrame, now_ns: int) -> Row:
    """One pass: counts by state, the oldest, the time span, the percentiles."""
    from pyspark.sql import functions as F

    states = _states(now_ns)
    in_archive = F.col("place") == ARCHIVE
    counts = [F.count_if(condition & ~in_archive).alias(state) for state, condition in states.items()]
    latencies = [part for since, start in _STARTS.items() for part in _latency(since, start)]
    totals = rows.agg(
        *counts,
        F.count_if(in_archive).alias(ARCHIVED),
        F.min(F.when(states["ready"] & (F.col("time_next") > 0), F.col("time_next"))).alias("oldest"),
        F.min(F.least("time_created", "time_acked")).alias("first"),
        F.max(F.greatest("time_created", "time_acked")).alias("last"),
        *latencies,
    ).first()
    assert totals is not None
    return totals


def _states(now_ns: int) -> dict[str, Column]:
    """Conditions for the states as in docs/sql.md: by the row alone."""
    from pyspark.sql import functions as F

    next_, acked = F.col("time_next"), F.col("time_acked").isNotNull()
    later = ~acked & (next_ > now_ns) & (next_ < _PARKED)
    leased = (next_ % 1000).isin(1, 3)  # the marks of leases
    tried = F.coalesce(F.col("epoch"), F.lit(0)) > 0
    return {
        "ready": ~acked & (F.coalesce(next_, F.lit(0)) <= now_ns),
        "in_flight": later & leased,
        "retrying": later & ~leased & tried,
        "scheduled": later & ~leased & ~tried,
        "parked": ~acked & (next_ >= _PARKED),
        "acked": acked,
    }


_STARTS: Mapping[str, str] = {"due": "time_scheduled", "enqueued": "time_created"}


def _latency(since: str, start: str) -> list[Column]:
    from pyspark.sql import functions as F

    counts = (F.col("place") != _BOTH) & (F.col("time_acked") >= F.col(start))
    took = F.when(counts, (F.col("time_acked") - F.col(start)) / NS)
    shares = F.array(*[F.lit(p / 100) for p in PERCENTILES])
    return [
        F.count(took).alias(f"{since}_count"),
        F.percentile_approx(took, shares, _ACCURACY).alias(f"{since}_percentiles"),
        F.max(took).alias(f"{since}_longest"),
    ]


def _latencies(whole: Row) -> tuple[Latency, ...]:
    latencies = []
    for since in ("due", "enqueued"):
        if whole[f"{since}_count"]:
            p50, p90, p99 = whole[f"{since}_percentiles"]
            latencies.append(Latency(since, whole[f"{since}_count"], p50, p90, p99, whole[f"{since}_longest"]))
    return tuple(latencies)


def _groups(rows: DataFrame, column: str) -> dict[Any, int]:
    return {row[0]: int(row[1]) for row in rows.groupBy(column).count().collect()}


def _by_time(rows: DataFrame, column: str, bucket: str) -> dict[int, int]:
    from pyspark.sql import functions as F

    number = F.expr(f"{column} div {BUCKETS[bucket] * NS}").alias("number")
    groups = rows.where(F.col(column).isNotNull()).groupBy(number).count()
    return {int(row["number"]): int(row["count"]) for row in groups.collect()}

"""replay: enqueues messages of an archive or of a topic again, as new messages of a queue or a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from spark_connector.client.columns import spark_type
from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue, describe
from spark_connector.jobs.archive.folder import DAY, ArchiveFolder
from spark_connector.jobs.archive.intervals import DAY_NS
from spark_connector.jobs.archive.own_columns import content, declared
from spark_connector.jobs.console import SILENT, Console
from spark_connector.jobs.failures import JobError
from spark_connector.jobs.publishing import Enqueued, publish
from spark_connector.mysql_client.driver import quoted
from spark_connector.options import queue_address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_FIRST_MS = 10**11  # the smallest time that the connector accepts: in 1973


@dataclass(frozen=True)
class Chosen:
    """Which messages of an archive or a topic. Days are UTC, as YYYY-MM-DD, both inclusive: of the ack; in a topic, of
    writing."""

    from_day: str | None = None
    to_day: str | None = None
    where: str | None = None  # a condition in Spark's SQL on the archive's columns


ALL = Chosen()


@dataclass(frozen=True)
class Preview:
    """What a replay would enqueue."""

    queue: str
    columns: tuple[str, ...]
    days: tuple[tuple[str, int], ...]  # with the day of the archive, if it has one
    messages: int


@dataclass(frozen=True)
class OfTopic:
    """A topic as the source: its name, in the same database as the target."""

    name: str


def rows_of(spark: SparkSession, options: Mapping[str, str], source: str | OfTopic, chosen: Chosen) -> DataFrame:
    """The chosen messages of a topic, of an archive, or of Parquet files of the same columns."""
    if isinstance(source, OfTopic):
        return _rows_of_topic(spark, options, source.name, chosen)
    archive = source
    folder = ArchiveFolder(spark, archive)
    rows = folder.read() if folder.is_archive() else spark.read.parquet(archive)
    if (chosen.from_day or chosen.to_day) and DAY not in rows.columns:
        raise JobError(f"{archive} has no column {DAY} to choose days by")
    for day, sign in ((chosen.from_day, ">="), (chosen.to_day, "<=")):
        if day is not None:
            rows = rows.where(f"{DAY} {sign} date'{_day(day)}'")
    return rows.where(chosen.where) if chosen.where else rows


def _rows_of_topic(spark: SparkSession, options: Mapping[str, str], topic: str, chosen: Chosen) -> DataFrame:
    from pyspark.sql import functions as F

    others = {name: value for name, value in options.items() if name.lower() not in ("queue", "path", "topic")}
    if chosen.from_day is not None:  # by the topic's index; later messages outside these days are filtered below
        others["startingTimestamp"] = str(max(_FIRST_MS, _days(chosen.from_day) * DAY_NS // 10**6))
    rows = spark.read.format("queuegate").options(**others, topic=topic).load()
    created = F.expr(f"date_add(date'1970-01-01', cast(time_created div {DAY_NS} as int))")
    if chosen.from_day is not None:
        rows = rows.where(created >= F.lit(_day(chosen.from_day)).cast("date"))
    if chosen.to_day is not None:
        rows = rows.where(created <= F.lit(_day(chosen.to_day)).cast("date"))
    return rows.where(chosen.where) if chosen.where else rows


def _days(text: str) -> int:
    """A day as a number of days since 1970."""
    return (date.fromisoformat(_day(text)) - date(1970, 1, 1)).days


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise JobError(f"a day is YYYY-MM-DD, not {text!r}") from None


def preview(
    spark: SparkSession,
    options: Mapping[str, str],
    source: str | OfTopic,
    chosen: Chosen = ALL,
    drop_missing: bool = False,
) -> Preview:
    """What `replay` would do, counted; nothing is written."""
    at = queue_address(options)
    with Client(at.address) as client:
        queue = _target(client, at.queue, source)
    rows = rows_of(spark, options, source, chosen)
    columns = _columns(rows, queue, drop_missing)
    if DAY not in rows.columns:
        return Preview(at.queue, tuple(columns), (), rows.count())
    days = tuple((str(day), int(n)) for day, n in sorted(map(tuple, rows.groupBy(DAY).count().collect())))
    return Preview(at.queue, tuple(columns), days, sum(n for _, n in days))


def replay(
    spark: SparkSession,
    options: Mapping[str, str],
    source: str | OfTopic,
    run: str,
    *,
    chosen: Chosen = ALL,
    select: Sequence[str] = (),
    key_column: str | None = None,
    drop_missing: bool = False,
    console: Console = SILENT,
) -> Enqueued:
    """Enqueues the chosen messages of an archive (its folder) or a topic again: their content, with new ids and times.

    `run` names this replay: a second one of that name adds nothing, whatever it chooses. If the queue has a unique key
    of the user, or `key_column` names one, the new messages get `replay-<run>-<old id>` there. `select`: expressions
    instead of the archive's columns. `drop_missing`: leave out columns that the queue does not have.
    """
    at = queue_address(options)
    with Client(at.address) as client:
        queue = _target(client, at.queue, source)
    rows = rows_of(spark, options, source, chosen)
    key = key_column or (None if select else _key(queue))
    if select:
        messages = rows.selectExpr(*select)
    else:
        keyed = _keyed(rows, run, key)
        messages = keyed.select(*[quoted(name) for name in _columns(keyed, queue, drop_missing)])
    return publish(spark, messages, options, job="replay", run=run, key=key, console=console)


def _target(client: Client, name: str, source: str | OfTopic) -> Queue:
    """The queue or topic that gets the messages; the source is checked, too. Raises QueueError."""
    if isinstance(source, OfTopic) and not describe(client, source.name).is_topic:
        raise JobError(f"{source.name} is a queue, and only topics keep what was done: replay its archive")
    return describe(client, name)


def _columns(rows: DataFrame, queue: Queue, drop_missing: bool) -> list[str]:
    """The archive's columns that a new message of the queue gets. Raises JobError for missing columns."""
    names = declared(rows.columns) if queue.is_topic else content(rows.columns)
    missing = [name for name in names if not queue.has(name)]
    if missing and not drop_missing:
        raise JobError(
            f"what is replayed has columns that {queue.label} has not: {', '.join(missing)}; leave them out "
            "(--drop-missing), or say what becomes of them (--select)"
        )
    return [name for name in names if name not in missing and not queue.column(name).generated]


def _key(queue: Queue) -> str | None:
    """The user's own unique key of the queue: old values would collide with existing messages."""
    keys = [key for key in queue.unique if all(content([name]) for name in key)]
    if not keys:
        return None
    if len(keys) == 1 and len(keys[0]) == 1 and spark_type(queue.column(keys[0][0])) == "string":
        return keys[0][0]
    listed = "; ".join(", ".join(key) for key in keys)
    raise JobError(
        f"{queue.label} has unique keys that are not one column of text ({listed}): say by --select what new "
        "messages have there, and name one of them by --key-column"
    )


def _keyed(rows: DataFrame, run: str, key: str | None) -> DataFrame:
    from pyspark.sql import functions as F

    if key is None:
        return rows
    if "id" not in rows.columns:
        raise JobError(f"what is replayed has no column id, from which the new values of {key} are made: give --select")
    old = F.hex("id") if dict(rows.dtypes)["id"] == "binary" else F.col("id").cast("string")
    return rows.withColumn(key, F.concat(F.lit(f"replay-{run}-"), old))

"""dead-letters: the content of a dead-letter queue, the reasons, suggestions, and optionally an export."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue, describe
from spark_connector.client.table_names import dead_letter_name
from spark_connector.errors import QueueError
from spark_connector.jobs.archive.own_columns import declared
from spark_connector.jobs.console import SILENT, Console
from spark_connector.jobs.dead_letters.analysis import AGES, OLDER, DeadLetters, Values, shape_of, suggestions
from spark_connector.jobs.failures import JobError
from spark_connector.jobs.files import require_new_folder, write_whole
from spark_connector.jobs.report.values import NS, Counted, histogram
from spark_connector.jobs.sessions import watched
from spark_connector.mysql_client.driver import quoted
from spark_connector.options import queue_address

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_TOP = 10
_COMMON = 5
_SHOWN_LENGTH = 200  # of a value in a table


def dead_letters(
    spark: SparkSession, options: Mapping[str, str], *, export: str | None = None, console: Console = SILENT
) -> DeadLetters:
    """Analyses the unacked messages of a dead-letter queue, or of the dead-letter queue of the named queue.

    `export`: a new folder, to which they are written as Parquet. Raises ConnectorError.
    """
    at = queue_address(options)
    if export is not None:
        require_new_folder(spark, export)  # before all the work
    with Client(at.address) as client:
        queue = _dead_letter_queue(client, at.queue)
        now = client.now_ns()
    others = {name: value for name, value in options.items() if name.lower() not in ("queue", "path")}
    rows = spark.read.format("queuegate").options(**others, queue=queue.name).load().persist()
    try:
        with console.phase("looking") as phase, watched(spark, phase):
            result = _analysed(rows, queue, now)
            phase.count = result.count
        if export is None:
            return result
        with console.phase("exporting") as phase, watched(spark, phase):
            exported = write_whole(spark, rows, export)
            phase.count = result.count
        return DeadLetters(**{**vars(result), "exported": exported})
    finally:
        rows.unpersist()


def _dead_letter_queue(client: Client, name: str) -> Queue:
    queue = describe(client, name)
    if queue.is_topic:
        raise JobError(
            f"topic {name} has no dead letters, its consumer groups have: name the queue of one, as SHOW GROUPS ON"
            f" {queue.quoted} tells it"
        )
    if queue.has("time_dead"):
        return queue
    dead = dead_letter_name(name, queue.options)
    try:
        dead_queue = describe(client, dead)
    except QueueError as error:
        raise JobError(f"queue {name} has no dead letters: its dead-letter queue {dead} does not exist yet") from error
    if not dead_queue.has("last_error") or not dead_queue.has("attempts"):
        raise JobError(f"queue {dead} lacks the columns of a dead-letter queue (attempts, last_error)")
    return dead_queue


def _analysed(rows: DataFrame, queue: Queue, now: int) -> DeadLetters:
    from pyspark.sql import functions as F

    whole = rows.agg(F.count(F.lit(1)), F.min("time_dead"), F.count_if(F.col("last_error").isNull())).first()
    assert whole is not None
    count, first, without = whole
    last_errors = _common(rows, F.col("last_error"), _TOP)
    attempts = {int(n): int(c) for n, c in rows.groupBy("attempts").count().collect() if n is not None}
    return DeadLetters(
        queue=queue.name,
        count=int(count),
        oldest=None if first is None else max(0.0, (now - first) / NS),
        last_errors=last_errors,
        first_errors=_common(rows, F.col("first_error"), _TOP),
        attempts=histogram(attempts),
        ages=_common(rows, _age(now), len(AGES) + 1),
        columns=tuple(_values(rows, name) for name in declared(rows.columns)),
        suggestions=suggestions(queue.name, last_errors, int(without)),
    )


def _age(now: int) -> Column:
    from pyspark.sql import functions as F

    age = F.lit(OLDER)
    for name, seconds in reversed(list(AGES.items())):
        age = F.when(F.col("time_dead") > now - seconds * NS, name).otherwise(age)
    return age


def _values(rows: DataFrame, name: str) -> Values:
    from pyspark.sql import functions as F

    column = F.col(quoted(name))
    kind = dict(rows.dtypes)[name]
    shown = F.hex(column) if kind == "binary" else column.cast("string")
    distinct = rows.agg(F.approx_count_distinct(column)).first()
    assert distinct is not None
    shapes = _common(rows, F.udf(lambda text: shape_of(text), "string")(column), _COMMON) if kind == "string" else ()
    return Values(name, int(distinct[0]), _common(rows, F.substring(shown, 1, _SHOWN_LENGTH), _COMMON), shapes)


def _common(rows: DataFrame, value: Column, most: int) -> tuple[Counted, ...]:
    """The most frequent values, without NULL."""
    from pyspark.sql import functions as F

    groups = rows.select(value.alias("value")).where(F.col("value").isNotNull()).groupBy("value").count()
    return tuple(Counted(str(v), int(n)) for v, n in groups.orderBy(F.desc("count"), "value").limit(most).collect())

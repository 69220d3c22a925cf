"""Enqueueing a DataFrame for a job: staged, published in one transaction, and only once per name."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pymysql

from spark_connector.client.connection import FRESH, NO_TABLE, Client
from spark_connector.client.reconnecting import run_with_retries
from spark_connector.jobs.console import Console
from spark_connector.jobs.failures import JobError
from spark_connector.jobs.sessions import watched
from spark_connector.mysql_client.driver import error_number, quoted
from spark_connector.options import queue_address
from spark_connector.writing import publish_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUN_LENGTH_MAX = 100  # of the writer's 128, which include a prefix


@dataclass(frozen=True)
class Enqueued:
    """What was enqueued. `repeated`: nothing by this run, because an earlier run of the same name had done it."""

    queue: str
    run: str | None
    messages: int
    repeated: bool = False


def publish(
    spark: SparkSession,
    rows: DataFrame,
    options: Mapping[str, str],
    *,
    job: str,
    run: str | None,
    key: str | None,
    console: Console,
) -> Enqueued:
    """Enqueues the rows: all of them or none. With a name for the run, a second one of that name adds nothing."""
    at = queue_address(options)
    writer = _writer(job, run)
    published = partial(_published, queue=at.queue, writer=writer)
    # A connection for each: one that was idle during the write may be lost, and the rows are messages then.
    if (done := run_with_retries(at.address, published, (FRESH,))) is not None:
        return Enqueued(at.queue, run, done, repeated=True)
    write_options = {**options, "writeMode": "staged", "txnAppId": writer, "txnVersion": "0"}
    if key is not None:
        write_options["keyColumn"] = key
    with console.phase("enqueueing") as phase, watched(spark, phase):
        rows.write.format("queuegate").mode("append").options(**write_options).save()
        messages = run_with_retries(at.address, published, (FRESH,))
        if messages is None:
            raise JobError(f"the write has ended and table {publish_log.LOG} does not tell of it: was it deleted?")
        phase.count = messages
    return Enqueued(at.queue, run, messages)


def _writer(job: str, run: str | None) -> str:
    if run is None:
        return f"{job}:{uuid.uuid4().hex}"
    if not 0 < len(run) <= RUN_LENGTH_MAX or not run.isprintable():
        raise JobError(f"the name of a run has 1 to {RUN_LENGTH_MAX} printable characters, not {run!r}")
    return f"{job}:{run}"


def _published(client: Client, queue: str, writer: str) -> int | None:
    """How many messages this writer has published; None: none yet."""
    name = publish_log.of_application(writer, 0).writer
    try:
        row = client.row(
            f"SELECT messages FROM {quoted(publish_log.LOG)} WHERE queue = %s AND writer = %s AND version >= 0",
            (queue.encode(), name.encode()),
        )
    except pymysql.Error as error:
        if error_number(error) == NO_TABLE:
            return None
        raise
    return None if row is None else int(row[0])

"""A driver that archives and is killed -9 at the moment that its arguments name. Run by test_jobs_archive_killed.

It is a second driver in the JVM of the test session, so it starts in a second, and the JVM lives on after the kill, as
a cluster would: what it had begun to write it goes on writing.

    python archive_killed.py URL QUEUE PATH MOMENT
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from spark_connector.jobs.archive import job
from spark_connector.jobs.archive.folder import ArchiveFolder
from spark_connector.jobs.archive.queue import ArchivedQueue
from spark_connector.jobs.files import Folder

MOMENTS = (
    "after claim", "after count", "before write", "in write", "after write", "after verify", "before move",
    "after move", "before advance", "after advance",
)  # fmt: skip
_STEPS: dict[str, tuple[Any, str]] = {
    "claim": (ArchiveFolder, "claim"),
    "count": (job, "_count"),
    "write": (job, "_write"),
    "verify": (job, "_verify"),
    "move": (Folder, "move"),
    "advance": (ArchivedQueue, "advance"),
}


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at(moment: str) -> None:
    """Arms the kill."""
    when, step = moment.split()
    if when == "in":
        arm_within_write()
        return
    owner, name = _STEPS[step]
    plain = getattr(owner, name)
    setattr(owner, name, before(plain) if when == "before" else after(plain))


def before(plain: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given, **named: die()


def after(plain: Callable[..., Any]) -> Callable[..., Any]:
    def done(*given: Any, **named: Any) -> None:
        plain(*given, **named)
        die()

    return done


def arm_within_write() -> None:
    """Dies when the first task has told how many rows it has read: while others are still to be written."""
    plain = job.frame_of

    def watched(spark: Any, address: Any, queue: Any, intervals: Any, phase: Any) -> Any:
        rows = plain(spark, address, queue, intervals, phase)

        def look() -> None:
            while not phase.live():
                pass
            die()

        threading.Thread(target=look, daemon=True).start()
        return rows

    job.frame_of = watched


def main(url: str, queue: str, path: str, moment: str) -> None:
    gateway = launch_gateway()  # PYSPARK_GATEWAY_PORT and _SECRET: the test session's
    jvm = gateway.jvm
    java_context = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(
        jvm.org.apache.spark.SparkContext.getOrCreate()
    )
    context = SparkContext(gateway=gateway, jsc=java_context, conf=None)
    spark = SparkSession(context)
    at(moment)
    job.archive(spark, {"url": url, "queue": queue}, path, margin_seconds=0, rows_per_file=20, rows_per_interval=100)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The Spark session that a job runs in: the one of spark-submit or of the caller, or a new local one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_connector.jobs.console import Phase
from spark_connector.jobs.failures import JobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit for the program that it starts
_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


@contextmanager
def session(job: str, master: str | None, conf: Mapping[str, str], *, verbose: bool = False) -> Iterator[SparkSession]:
    """The session for a job; stopped at the end if it was created here. `verbose`: with Spark's own log."""
    spark, ours = _get_or_make(job, master, conf, verbose)
    register(spark)
    try:
        yield spark
    finally:
        if ours:
            spark.stop()


def register(spark: SparkSession) -> None:
    """Registers the format `queuegate`, if Spark does not find it automatically (`--py-files`)."""
    from spark_connector.datasource import QueuegateDataSource

    spark.dataSource.register(QueuegateDataSource)


def _get_or_make(job: str, master: str | None, conf: Mapping[str, str], verbose: bool) -> tuple[SparkSession, bool]:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise JobError("pyspark is not installed: pip install 'queuegate-spark[spark]'") from None
    if (active := SparkSession.getActiveSession()) is not None:
        return active, False
    builder = SparkSession.builder.appName(f"queuegate {job}")
    submitted = _SUBMITTED in os.environ
    for key, value in _settings(master, conf, verbose, submitted).items():
        builder = builder.config(key, value)
    with nullcontext() if verbose or submitted else _java_is_silent():
        return builder.getOrCreate(), True


@contextmanager
def _java_is_silent() -> Iterator[None]:
    """Suppresses the log and the warnings of a JVM that is started inside: the job reports errors itself."""
    ours, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        os.close(nothing)


def _settings(master: str | None, conf: Mapping[str, str], verbose: bool, submitted: bool) -> dict[str, str]:
    """The configuration of a new session: under spark-submit only the user's."""
    if submitted:
        return {**({"spark.master": master} if master else {}), **conf}
    local = (master or "local[*]").startswith("local")
    if local:
        _workers_are_this_python()
    return {"spark.master": master or "local[*]", **({} if verbose else _QUIET), **(_LOOPBACK if local else {}), **conf}


def _workers_are_this_python() -> None:
    """Without this Spark would start its workers with the `python3` on PATH, which may not find these packages."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ours = str(Path(__file__).resolve().parents[2])
    path = os.environ.get("PYTHONPATH", "")
    if ours not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [ours, path]))


@contextmanager
def watched(spark: SparkSession, phase: Phase) -> Iterator[None]:
    """Spark's tasks that are started inside are counted for the phase's progress."""
    context = spark.sparkContext
    before = {key: context.getLocalProperty(key) for key in _GROUP}
    group = f"queuegate {id(phase)}"
    context.setJobGroup(group, f"queuegate: {phase.name}", interruptOnCancel=True)
    phase.tasks = _tasks(spark, group)
    try:
        yield
    finally:
        phase.tasks = None
        give_back: Any = context.setLocalProperty  # typed for text, but None removes a property
        for key, value in before.items():
            give_back(key, value)


def _tasks(spark: SparkSession, group: str) -> Callable[[], tuple[int, int]]:
    tracker = spark.sparkContext.statusTracker()

    def count() -> tuple[int, int]:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        existing = [stage for stage in stages if stage]
        return sum(stage.numCompletedTasks for stage in existing), sum(stage.numTasks for stage in existing)

    return count

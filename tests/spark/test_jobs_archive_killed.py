"""Archiving, killed -9 at each of its steps and run again: nothing lost, nothing twice, nothing said too early."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from archive_killed import MOMENTS
from jobs_at_hand import ack, archived, days_ago, enqueue, options, said
from servers import ROOT, wait_until

from spark_connector.jobs.archive.job import archive
from spark_connector.jobs.archive.queue import MAKE_TABLE

SECONDS = 280
SCRIPT = Path(__file__).parent / "archive_killed.py"


@pytest.fixture
def acked(sql, queue):
    """A queue with 300 acked messages over a day, and 20 that are not."""
    name = queue("payload VARCHAR(40)", archive=1)
    enqueue(sql, name, 320)
    for hour in range(15):
        ack(sql, name, range(hour * 20 + 1, hour * 20 + 21), days_ago(sql, 1 - hour / 24))
    return name


def kill(spark, url, name, path, moment):
    gateway = spark.sparkContext._gateway
    environment = {
        **os.environ,
        "PYSPARK_GATEWAY_PORT": str(gateway.gateway_parameters.port),
        "PYSPARK_GATEWAY_SECRET": str(gateway.gateway_parameters.auth_token),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, str(SCRIPT), url, name, str(path), moment]
    done = subprocess.run(command, env=environment, timeout=SECONDS, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_and_run_again(spark, gate, sql, acked, tmp_path, moment):
    path, to = tmp_path / "a", options(gate, acked)
    kill(spark, to["url"], acked, path, moment)
    visible = archived(spark, path) if list(path.glob("interval=*")) else []
    assert len(visible) == len(set(visible))
    seen = set(sql.column(f"SELECT id FROM {acked} WHERE time_acked <= %s", told(sql, acked)))
    assert seen <= set(visible), "something is said to be archived and no reader sees it"
    released(sql, acked)
    done = archive(spark, to, str(path), margin_seconds=0)
    assert archived(spark, path) == list(range(1, 301))
    assert said(sql, acked) == done.until
    if moment == "in write":  # the cluster writes on for a while, in the dead run's folder; the next run cleans up
        wait_until(lambda: not archive(spark, to, str(path), margin_seconds=0).messages and not staged(path), 60)
        assert archived(spark, path) == list(range(1, 301))
    assert not staged(path)
    assert bool(done.recovered) == (moment in ("after move", "before advance"))


def staged(path):
    return list(path.glob("_staging/*"))


def told(sql, name):
    sql(MAKE_TABLE)  # as the job does, if it came so far
    return said(sql, name) if sql.rows("SELECT 1 FROM queuegate_archive WHERE queue = %s", name) else 0


def released(sql, name):
    """The dead driver's connection is noticed, and its lock with it."""
    lock = f"queuegate_archive.{sql.value('SELECT DATABASE()')}.{name}"[:64]
    wait_until(lambda: sql.value("SELECT IS_FREE_LOCK(%s)", lock) == 1, what="the dead driver's lock")


def test_the_whole_process_killed_in_the_middle(spark, gate, sql, queue, tmp_path):
    """Driver and JVM together, as a job from the command line dies."""
    name, path = queue("payload VARCHAR(40)", archive=1), tmp_path / "a"
    enqueue(sql, name, 400)
    ack(sql, name, range(1, 401))
    to = options(gate, name)
    command = [
        "archive", "--url", to["url"], "--queue", name, "--path", str(path), "--margin", "0", "--master", "local[1]",
    ]  # fmt: skip
    job = subprocess.Popen(
        [sys.executable, "-m", "spark_connector.jobs", *command], cwd=ROOT, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        written = "_staging/*/interval=*"
        wait_until(lambda: list(path.glob(written)) or job.poll() is not None, SECONDS, "the job to write")
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait(30)
    released(sql, name)
    archive(spark, to, str(path), margin_seconds=0)
    assert archived(spark, path) == list(range(1, 401))
    assert not list(path.glob("_staging/*"))

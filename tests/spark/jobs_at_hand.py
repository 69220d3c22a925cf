"""What the tests of the jobs share: options for a gate, messages that are acked, and what an archive holds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from servers import NS, ROOT, Gate, Sql

JOB_SECONDS = 280


def options(gate: Gate, name: str) -> dict[str, str]:
    """The connector's, for a queue of the gate."""
    return {"url": f"mysql://root@127.0.0.1:{gate.port}/{gate.database}", "queue": name}


def enqueue(sql: Sql, name: str, count: int, first: int = 1) -> None:
    """Messages whose payload is their number."""
    for start in range(first, first + count, 1000):
        numbers = range(start, min(start + 1000, first + count))
        sql(f"INSERT INTO {name} (payload) VALUES {', '.join(f'({n!s})' for n in numbers)}")


def ack(sql: Sql, name: str, ids: Iterable[int], at_ns: int | None = None) -> None:
    """Acks them, now or as if it had been at another time."""
    listed = ", ".join(map(str, ids))
    if at_ns is None:
        sql(f"ACK {name} {listed}")
    else:
        sql(f"UPDATE {name} SET time_next = NULL, time_acked = {at_ns} WHERE id IN ({listed})")


def now_ns(sql: Sql) -> int:
    """The database's clock."""
    return int(sql.value("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)")) * 1000


def days_ago(sql: Sql, days: float) -> int:
    """A time of so many days before now."""
    return (now_ns(sql) - round(days * 86400 * NS)) // 1000 * 1000


def archived(spark: Any, path: Any) -> list[int]:
    """The ids that a reader of the archive sees, each as often as he does."""
    return sorted(row.id for row in spark.read.parquet(str(path)).select("id").collect())


def said(sql: Sql, name: str) -> int:
    """archived_until"""
    return int(sql.value("SELECT archived_until FROM queuegate_archive WHERE queue = %s", name))


def run_job(*arguments: str, timeout: float = JOB_SECONDS) -> subprocess.CompletedProcess[str]:
    """`python -m spark_connector.jobs`, as from a shell."""
    return subprocess.run(
        [sys.executable, "-m", "spark_connector.jobs", *arguments], cwd=ROOT, timeout=timeout, check=False,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip

"""`with_queuegate work` is the Python worker with four slots, `with_queuegate produce COUNT PAUSE` inserts."""

from __future__ import annotations

import os
import sys
from typing import Any

import pymysql

from benchmarks import marks
from benchmarks.jobs.producer import produce
from queuegate_worker import Worker

QUEUE = "jobs"
CREATE = f"CREATE QUEUE {QUEUE} (sent DOUBLE)"
SLOTS = 4


def handle(message: Any) -> None:
    """One job."""
    marks.done() if message.sent is None else marks.took(float(message.sent))


def main() -> None:
    """See the module."""
    port, database = int(os.environ["JOBS_PORT"]), os.environ["JOBS_DATABASE"]
    if sys.argv[1] == "work":
        Worker(f"mysql://root@127.0.0.1:{port}/{database}", QUEUE, concurrency=SLOTS).run(handle)
        return
    connection = pymysql.connect(host="127.0.0.1", port=port, user="root", database=database, autocommit=True)
    with connection, connection.cursor() as cursor:
        produce(lambda sent: cursor.execute(f"INSERT INTO {QUEUE} (sent) VALUES (%s)", (sent,)))


if __name__ == "__main__":
    main()

"""What one writes without a library: `by_hand work` polls a table, `by_hand produce COUNT PAUSE` fills it.

A job is a transaction: SELECT ... FOR UPDATE SKIP LOCKED, the work, UPDATE, COMMIT. Where nothing is to be done it
looks again after a tenth of a second.
"""

from __future__ import annotations

import os
import sys
import time

import pymysql

from benchmarks import marks
from benchmarks.jobs.producer import produce

TABLE = "jobs_by_hand"
PAUSE_SECONDS = 0.1
CREATE = (
    f"CREATE TABLE {TABLE} (id BIGINT AUTO_INCREMENT PRIMARY KEY, sent DOUBLE, done INT NOT NULL DEFAULT 0,"
    " KEY waiting (done, id))"
)
_NEXT = f"SELECT id, sent FROM {TABLE} WHERE done = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"


def main() -> None:
    """See the module."""
    connection = pymysql.connect(
        host="127.0.0.1", port=int(os.environ["JOBS_PORT"]), user="root", database=os.environ["JOBS_DATABASE"],
        ssl_disabled=True, autocommit=sys.argv[1] == "produce",
    )  # fmt: skip
    with connection.cursor() as cursor:
        if sys.argv[1] == "produce":
            produce(lambda sent: cursor.execute(f"INSERT INTO {TABLE} (sent) VALUES (%s)", (sent,)))
            return
        while True:
            cursor.execute(_NEXT)
            row = cursor.fetchone()
            if row is None:
                connection.commit()
                time.sleep(PAUSE_SECONDS)
                continue
            marks.done() if row[1] is None else marks.took(row[1])
            cursor.execute(f"UPDATE {TABLE} SET done = 1 WHERE id = %s", (row[0],))
            connection.commit()


if __name__ == "__main__":
    main()

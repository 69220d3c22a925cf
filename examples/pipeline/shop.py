"""The shop's side: plain SQL on an ordinary MySQL driver. It knows nothing of Spark."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql

from examples.pipeline.orders import Order
from queuegate_worker.testing.server import environment

ORDERS, BIG, AGAIN = "pipeline_orders", "pipeline_big_orders", "pipeline_orders_again"
REVENUE, BATCHES = "pipeline_revenue", "pipeline_batches"
_COLUMNS = (
    "order_no VARCHAR(20) NOT NULL, customer VARCHAR(40), town VARCHAR(40), product VARCHAR(40), "
    "quantity INT NOT NULL, cents BIGINT NOT NULL"
)
_AT_ONCE = 500  # orders of a transaction
_START_SECONDS = 30


class Server:
    """A queuegate of the example's own, on a database file."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "queuegate.log"
        command = [sys.executable, "-m", "queuegate", "serve", "--listen", "127.0.0.1:0"]
        command += ["--backend", f"sqlite:///{folder}/queue.db"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stderr=log, stdin=subprocess.DEVNULL, env=environment())
        self.url = f"mysql://root@127.0.0.1:{self._port()}/main"

    def _port(self) -> str:
        deadline = time.monotonic() + _START_SECONDS
        while not (found := re.search(r"listening on [\d.]+:(\d+)", self._log.read_text())):
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"queuegate did not start; see {self._log}")
            time.sleep(0.02)
        return found[1]

    def stop(self) -> int:
        """An orderly end; returns the exit code."""
        self._process.terminate()
        return self._process.wait(_START_SECONDS)


class Shop:
    """A connection to the proxy."""

    def __init__(self, url: str) -> None:
        at = urlsplit(url)
        self._connection = pymysql.connect(
            host=at.hostname or "127.0.0.1", port=at.port or 3307, user=unquote(at.username or "root"),
            password=unquote(at.password or ""), database=at.path.lstrip("/") or "main", charset="utf8mb4",
            autocommit=True,
        )  # fmt: skip

    def __call__(self, sql: str, *values: object) -> int:
        """Runs a statement; how many rows it changed."""
        with self._connection.cursor() as cursor:
            return int(cursor.execute(sql, values or None))

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Runs a query."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall())

    def close(self) -> None:
        self._connection.close()

    def open(self) -> None:
        """Queues and tables, new and empty."""
        for queue in (ORDERS, BIG, AGAIN, f"{ORDERS}_dead"):
            self(f"DROP QUEUE IF EXISTS {queue}")
        for table in (REVENUE, BATCHES):
            self(f"DROP TABLE IF EXISTS {table}")
        self(f"CREATE QUEUE {ORDERS} ({_COLUMNS}) WITH (archive = 1)")
        self(f"CREATE QUEUE {AGAIN} ({_COLUMNS})")
        self(f"CREATE QUEUE {BIG} (order_no VARCHAR(20) NOT NULL UNIQUE, customer VARCHAR(40), cents BIGINT)")
        self(f"CREATE TABLE {REVENUE} (product VARCHAR(40) PRIMARY KEY, orders BIGINT, cents BIGINT)")
        self(f"CREATE TABLE {BATCHES} (batch BIGINT PRIMARY KEY)")

    def enqueue(self, orders: Sequence[Order]) -> None:
        """Orders become messages, many in each transaction."""
        for start in range(0, len(orders), _AT_ONCE):
            self("BEGIN")
            values: list[object] = []
            for order in orders[start : start + _AT_ONCE]:
                values += (order.order_no, order.customer, order.town, order.product, order.quantity, order.cents)
            marks = ", ".join(["(%s, %s, %s, %s, %s, %s)"] * (len(values) // 6))
            self(f"INSERT INTO {ORDERS} (order_no, customer, town, product, quantity, cents) VALUES {marks}", *values)
            self("COMMIT")

    def book(self, batch: int, revenue: Sequence[tuple[str, int, int]]) -> bool:
        """Adds a micro-batch's revenue, once: False where it was booked before, by a run that was broken off."""
        self("BEGIN")
        try:
            new = self(f"INSERT IGNORE INTO {BATCHES} (batch) VALUES (%s)", batch) == 1
            for line in revenue if new else ():
                self(
                    f"INSERT INTO {REVENUE} (product, orders, cents) VALUES (%s, %s, %s) "
                    "ON DUPLICATE KEY UPDATE orders = orders + VALUES(orders), cents = cents + VALUES(cents)",
                    *line,
                )
            self("COMMIT")
        except BaseException:
            self("ROLLBACK")
            raise
        return new

    def reject(self, ids: Sequence[int], reason: str) -> None:
        """Messages that cannot be handled go to the dead-letter queue."""
        if ids:
            self(f"REJECT {ORDERS} {', '.join(map(str, ids))} REASON %s", reason)
